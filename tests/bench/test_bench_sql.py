"""What a (gold, prediction) pair costs: cold with full isolation, and with repeats shared; and what cells share.

Run by name: `pytest -m bench tests/bench/test_bench_sql.py -s`. Processor time of this process and all its workers, their
start included, so that a busy machine changes little. The published ways of scoring are written out plainly here, as yardsticks
of the same run: what BIRD and Spider do to a pair, without what they do to its text first. Unshared means what the design says: the sum over cells of the
distinct statements inside each cell.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import upstream_rules

from tasks_lib.protocol.records import DatabaseHandle
from tasks_lib.protocol.vocabulary import Corpus, Engine
from tasks_lib.sql import guard
from tasks_lib.sql.canonical import CanonicalResult
from tasks_lib.sql.comparators import compare
from tasks_lib.sql.execute import LEDGER_KIND, SqlRunner
from tasks_lib.sql.limits import Limits
from tasks_lib.sql.workers import Request, WorkerPool
from tasks_lib.store.keys import sha256_file
from tasks_lib.store.ledgers import Ledger

ROWS, STATEMENTS, CELLS = 30_000, 40, 6
DATABASES, TABLE_ROWS, PAIRS, REPEATS = 8, 2_000, 480, 12


def _database(path: Path) -> DatabaseHandle:
    draw = random.Random(7)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE sale (shop INTEGER, item TEXT, price REAL)")
        rows = ((draw.randrange(50), f"item {draw.randrange(900)}", draw.random() * 90) for _ in range(ROWS))
        connection.executemany("INSERT INTO sale VALUES (?, ?, ?)", rows)
    connection.close()
    return _handle("db_1", path)


def _handle(name: str, path: Path) -> DatabaseHandle:
    return DatabaseHandle(name, Corpus.SPIDER, Engine.SQLITE, str(path), sha256_file(path), "")


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


# ---- pairs ----


@dataclass(frozen=True)
class Pair:
    """A gold query and a prediction that is written otherwise; half of them are right."""

    handle: DatabaseHandle
    gold: str
    predicted: str


def _shops(folder: Path) -> list[DatabaseHandle]:
    made = []
    for number in range(DATABASES):
        draw = random.Random(number)
        path = folder / f"shop {number}.sqlite"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.executescript(
                "CREATE TABLE shop (id INTEGER PRIMARY KEY, city TEXT, size INTEGER);"
                "CREATE TABLE sale (id INTEGER PRIMARY KEY, shop_id INTEGER, item TEXT, price REAL, day TEXT);"
            )
            cities = ["Oslo", "Turin", "Lyon", "Porto", "Ghent", "Graz"]
            shops = ((i, draw.choice(cities), draw.randrange(900)) for i in range(TABLE_ROWS))
            connection.executemany("INSERT INTO shop VALUES (?, ?, ?)", shops)
            sales = (
                (
                    i,
                    draw.randrange(TABLE_ROWS),
                    f"item {draw.randrange(300)}",
                    draw.randrange(9000) / 100,
                    f"2024-{draw.randrange(1, 13):02}",
                )
                for i in range(TABLE_ROWS)
            )
            connection.executemany("INSERT INTO sale VALUES (?, ?, ?, ?, ?)", sales)
        made.append(_handle(f"db_{number}", path))
    return made


_SHAPES = (
    (
        "SELECT id FROM shop WHERE city = 'Graz' AND size > {n}",
        "SELECT s.id FROM shop AS s WHERE {n} < s.size AND s.city = 'Graz'",
        "SELECT id FROM shop WHERE city = 'Graz' AND size >= {m}",
    ),
    (
        "SELECT count(*) FROM sale WHERE price > {p}",
        "SELECT count(id) FROM sale WHERE price > {p}",
        "SELECT count(DISTINCT item) FROM sale WHERE price > {p}",
    ),
    (
        "SELECT city, count(*) FROM shop WHERE size < {n} GROUP BY city",
        "SELECT city, count(id) FROM shop WHERE size < {n} GROUP BY 1 ORDER BY 2",
        "SELECT city, sum(size) FROM shop WHERE size < {n} GROUP BY city",
    ),
    (
        "SELECT T1.item FROM sale AS T1 JOIN shop AS T2 ON T1.shop_id = T2.id WHERE T2.city = 'Oslo' AND T2.size > {n}",
        "SELECT item FROM sale, shop WHERE shop_id = shop.id AND city = 'Oslo' AND size > {n}",
        "SELECT DISTINCT item FROM sale JOIN shop ON shop_id = shop.id WHERE city = 'Oslo' AND size > {n}",
    ),
    (
        "SELECT item, price FROM sale ORDER BY price DESC, id LIMIT {k}",
        "SELECT s.item, s.price FROM sale s ORDER BY s.price DESC, s.id ASC LIMIT {k}",
        "SELECT item, price FROM sale ORDER BY price, id LIMIT {k}",
    ),
    (
        "SELECT avg(price) FROM sale WHERE day = '2024-{d:02}' AND shop_id > {n}",
        "SELECT AVG(T1.price) FROM sale AS T1 WHERE T1.day = '2024-{d:02}' AND T1.shop_id > {n}",
        "SELECT max(price) FROM sale WHERE day = '2024-{d:02}' AND shop_id > {n}",
    ),
)


def _pairs(handles: Sequence[DatabaseHandle]) -> list[Pair]:
    """Every (database, text) is there once: nothing is shared in a cold run."""
    made = []
    for number in range(PAIRS):
        turn, database = divmod(number, len(handles))
        shape, variant = _SHAPES[turn % len(_SHAPES)], turn // len(_SHAPES)
        n = 600 + 27 * variant
        values = {"n": n, "m": n + 1, "p": n / 10, "k": 5 + variant, "d": 1 + variant}
        predicted = shape[1 + number % 2].format(**values)
        made.append(Pair(handles[database], shape[0].format(**values), predicted))
    assert len({(pair.handle.location, sql) for pair in made for sql in (pair.gold, pair.predicted)}) == 2 * PAIRS
    return made


async def _scored(runner: SqlRunner, pairs: Sequence[Pair]) -> int:
    """How many predictions are right, as a run decides it."""

    async def one(pair: Pair) -> bool:
        asked = runner.run(pair.handle, pair.gold), runner.run(pair.handle, pair.predicted)  # both are under way
        gold, predicted = await asked[0], await asked[1]
        assert gold.result is not None
        assert predicted.result is not None
        return compare(Corpus.SPIDER, gold.result, predicted.result, guard.is_ordered(Engine.SQLITE, pair.gold)).equal

    return sum(await asyncio.gather(*(one(pair) for pair in pairs)))


def _plain(pairs: Sequence[Pair]) -> int:
    """The plain loop without any isolation, limit or check: connect, run both, compare as bags."""
    right = 0
    for pair in pairs:
        with closing(sqlite3.connect(pair.handle.location)) as connection:
            gold, predicted = (connection.execute(sql).fetchall() for sql in (pair.gold, pair.predicted))
        right += Counter(gold) == Counter(predicted)
    return right


def _engine_alone(pairs: Sequence[Pair]) -> int:
    """What SQLite itself takes: the statements on kept connections, and nothing compared. No isolation can go below."""
    kept = {pair.handle.location: sqlite3.connect(pair.handle.location) for pair in pairs}
    read = 0
    for pair in pairs:
        read += sum(len(kept[pair.handle.location].execute(sql).fetchall()) for sql in (pair.gold, pair.predicted))
    for connection in kept.values():
        connection.close()
    return read


def _as_bird(pairs: Sequence[Pair]) -> int:
    """BIRD's way: a thread with a time-out for every pair, a connection for every query, rows compared as sets."""
    right: list[bool] = []
    for pair in pairs:
        path = Path(pair.handle.location)
        work = threading.Thread(
            target=lambda path=path, pair=pair: right.append(upstream_rules.bird(path, pair.gold, pair.predicted))
        )
        work.start()
        work.join(30)
    return sum(right)


def _as_spider(pairs: Sequence[Pair]) -> int:
    """Spider's way: an event loop with a time-out and a connection for every query, columns compared in any order."""

    async def rows(path: Path, sql: str) -> list[upstream_rules.Row]:
        return upstream_rules.fetch(path, sql, drop_stray_bytes=True)

    async def waited(path: Path, sql: str) -> list[upstream_rules.Row]:
        return await asyncio.wait_for(rows(path, sql), 60)

    right = 0
    for pair in pairs:
        path = Path(pair.handle.location)
        gold, predicted = (asyncio.run(waited(path, sql)) for sql in (pair.gold, pair.predicted))
        right += upstream_rules.spider_rows(gold, predicted, "order by" in pair.gold.lower())
    return right


def _used() -> float:
    """Processor seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


def _isolated(pairs: Sequence[Pair]) -> int:
    """Check, worker process with all limits, decoding, comparing: everything but the ledger."""
    right = 0
    with WorkerPool(1, Limits()) as pool:
        for pair in pairs:
            results = []
            for sql in (pair.gold, pair.predicted):
                assert guard.check_sql(Engine.SQLITE, sql).allowed
                outcome = pool.run(Request(Engine.SQLITE, pair.handle.location, sql))
                results.append(CanonicalResult.from_bytes(outcome.data))
            right += compare(Corpus.SPIDER, *results, guard.is_ordered(Engine.SQLITE, pair.gold)).equal
    return right


@pytest.mark.bench
@pytest.mark.parametrize("turn", range(3))
async def test_what_a_pair_costs(tmp_path: Path, turn: int) -> None:
    pairs = _pairs(_shops(tmp_path))
    costs: dict[str, float] = {}

    async def measured(name: str, work: Callable[[], Awaitable[int] | int]) -> int:
        guard._read.cache_clear()
        started = _used()
        made = work()
        found = made if isinstance(made, int) else await made
        costs[name] = 1000 * (_used() - started) / PAIRS
        return found

    async def passes(number: int, version: str) -> int:
        ledger = Ledger(f"sqlite:///{tmp_path / version}.sqlite")
        async with SqlRunner(ledger, Limits(version=version), workers=1) as runner:
            found = [await _scored(runner, pairs) for _ in range(number)]
        ledger.close()
        assert len(set(found)) == 1
        return found[0]

    async def stored(version: str) -> int:
        ledger = Ledger(f"sqlite:///{tmp_path / version}.sqlite")
        async with SqlRunner(ledger, Limits(version=version), workers=1) as runner:
            found = await _scored(runner, pairs)
        ledger.close()
        return found

    await measured("engine", lambda: _engine_alone(pairs))
    right = await measured("plain", lambda: _plain(pairs))
    await measured("bird", lambda: _as_bird(pairs))
    await measured("spider", lambda: asyncio.to_thread(_as_spider, pairs))
    assert await measured("isolated", lambda: _isolated(pairs)) <= right  # order counts where gold is ordered
    await measured("cold", lambda: passes(1, "cold"))
    await measured("repeated", lambda: passes(REPEATS, "repeated"))
    await measured("stored", lambda: stored("cold"))
    again = (costs["repeated"] - costs["cold"]) / (REPEATS - 1)
    print(
        f"\n{PAIRS} pairs over {DATABASES} databases, CPU ms a pair: SQLite alone {costs['engine']:.2f}; a plain loop without "
        f"isolation {costs['plain']:.2f}; BIRD's way {costs['bird']:.2f}; Spider's way {costs['spider']:.2f}; "
        f"check, worker and comparison {costs['isolated']:.2f}; with the ledger {costs['cold']:.2f}; asked {REPEATS} times "
        f"{costs['repeated'] / REPEATS:.2f} each time, {again:.2f} each time after the first; all stored "
        f"before, by a new runner {costs['stored']:.2f}; with the ledger {costs['cold'] / costs['bird']:.2f} of BIRD's way and "
        f"{costs['cold'] / costs['spider']:.2f} of Spider's"
    )
    assert costs["repeated"] / REPEATS < costs["cold"] / 2
