"""Cold against shared execution: what the ledger saves when many cells ask for the same statements.

Run by name: `pytest -m bench tests/bench/test_bench_sql.py -s`. Unshared means what the design says: the sum over cells
of the distinct statements inside each cell.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from pathlib import Path

import pytest

from tasks_lib.protocol.records import DatabaseHandle
from tasks_lib.protocol.vocabulary import Corpus, Engine
from tasks_lib.sql.execute import LEDGER_KIND, SqlRunner
from tasks_lib.sql.limits import Limits
from tasks_lib.store.keys import sha256_file
from tasks_lib.store.ledgers import Ledger

ROWS, STATEMENTS, CELLS = 30_000, 40, 6


def _database(path: Path) -> DatabaseHandle:
    draw = random.Random(7)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE sale (shop INTEGER, item TEXT, price REAL)")
        rows = ((draw.randrange(50), f"item {draw.randrange(900)}", draw.random() * 90) for _ in range(ROWS))
        connection.executemany("INSERT INTO sale VALUES (?, ?, ?)", rows)
    connection.close()
    return DatabaseHandle("db_1", Corpus.SPIDER, Engine.SQLITE, str(path), sha256_file(path), "")


def _statements() -> list[str]:
    return [
        f"SELECT item, count(*), avg(price) FROM sale WHERE shop <> {shop} GROUP BY item ORDER BY 2 DESC, 1 LIMIT 20"
        for shop in range(STATEMENTS)
    ]


async def _cell(ledger: Ledger, handle: DatabaseHandle, version: str) -> float:
    started = time.perf_counter()
    async with SqlRunner(ledger, Limits(version=version), workers=2) as runner:
        done = await asyncio.gather(*(runner.run(handle, sql) for sql in _statements()))
    assert all(execution.kind is None for execution in done)
    return time.perf_counter() - started


@pytest.mark.bench
async def test_cells_share_executions(tmp_path: Path) -> None:
    handle = _database(tmp_path / "sales.sqlite")
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    unshared = [await _cell(ledger, handle, f"cell {cell}") for cell in range(CELLS)]
    assert ledger.count(LEDGER_KIND) == CELLS * STATEMENTS
    shared = [await _cell(ledger, handle, "shared") for _ in range(CELLS)]
    assert ledger.count(LEDGER_KIND) == (CELLS + 1) * STATEMENTS
    ledger.close()
    print(
        f"\n{CELLS} cells x {STATEMENTS} statements: unshared {sum(unshared):.2f} s, shared {sum(shared):.2f} s "
        f"({CELLS * STATEMENTS} against {STATEMENTS} executions); a cell whose statements are all done {min(shared[1:]):.3f} s, "
        f"{1000 * min(shared[1:]) / STATEMENTS:.2f} ms a statement"
    )
    assert sum(shared) < sum(unshared) / 2
