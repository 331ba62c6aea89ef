"""The audit runs every gold once, read-only, flags what is wrong with it, and never repairs it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from corpora_support import check_table, postgres_folder, sqlite_database, write_bird, write_livesqlbench, write_spider

from tasks_lib.corpora import bird, livesqlbench, spider
from tasks_lib.corpora.model import CorpusSource, Question
from tasks_lib.corpora.units import DISQUALIFYING, FLAGS, audit, decode_row, encode_row, text_flags
from tasks_lib.protocol.vocabulary import Corpus, Engine
from tasks_lib.sql.canonical import Interval, Json, Value
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.sql.faults import DatabaseMissing
from tasks_lib.sql.limits import Limits
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.schemas import UNITS

SCRIPT = """
CREATE TABLE tune (tune_no INTEGER PRIMARY KEY, name TEXT, studio TEXT);
INSERT INTO tune VALUES (1, 'Riverbed', 'x'), (2, 'name', NULL), (3, 'studio', 'studio');
"""
LONG = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n, tune"
MANY = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000) SELECT i FROM n, tune ORDER BY i"


@pytest.fixture
async def runner(tmp_path: Path) -> AsyncIterator[SqlRunner]:
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    async with SqlRunner(ledger, Limits(wall_seconds=2, max_rows=1000)) as made:
        yield made
    ledger.close()


def source(tmp_path: Path, *asked: tuple[str, str]) -> CorpusSource:
    """A corpus of one database, asked (question, SQL)."""
    database = sqlite_database(tmp_path / "music.sqlite", SCRIPT)
    questions = tuple(
        Question(f"spider:dev:{at}", Corpus.SPIDER, "music", question, sql, "", "dev")
        for at, (question, sql) in enumerate(asked)
    )
    return CorpusSource(Corpus.SPIDER, tmp_path, (database,), questions, "0" * 64)


@pytest.mark.parametrize(
    ("sql", "flags"),
    [
        ("SELECT name FROM tune WHERE tune_no = 1", []),
        ('SELECT tune_no FROM tune WHERE name = "Riverbed"', ["dqs_literal"]),
        ('SELECT tune_no FROM tune WHERE name = "studio"', ["dqs_shadowed"]),
        ("SELECT name FROM tune WHERE tune_no = 9", ["empty_gold"]),
        ("SELECT studio FROM tune WHERE tune_no = 2", ["all_null"]),
        ("SELECT count(*), sum(tune_no) FROM tune WHERE tune_no = 9", ["trivial"]),
        ("SELECT 7", ["trivial"]),
        ("SELECT nothing FROM tune", ["gold_error", "missing_column"]),
        ("SELECT * FROM ghost", ["gold_error", "missing_table"]),
        ("SELECT name FROM tune LIMIT 1", ["limit_without_order"]),
        ("SELECT name FROM tune WHERE name > date('now')", ["clock"]),
        ("SELECT abs(random()) + tune_no FROM tune", ["random"]),
        ("DELETE FROM tune", ["refused"]),
        ("SELECT FROM WHERE", ["refused"]),
        (LONG, ["gold_timeout"]),
        (MANY, ["result_too_large", "limit_without_order"]),
    ],
)
async def test_flags(tmp_path: Path, runner: SqlRunner, sql: str, flags: list[str]) -> None:
    (row,) = await audit(source(tmp_path, ("Which?", sql)), runner)
    assert row["flags"] == flags
    assert row["sql"] == sql, "a faulty gold is never repaired"
    failed = {"gold_error", "gold_timeout", "result_too_large", "refused"} & set(flags)
    assert (row["result_digest"] == "") == bool(failed)


async def test_a_row_of_the_table(tmp_path: Path, runner: SqlRunner) -> None:
    asked = source(tmp_path, ("Which tune?", "SELECT name, tune_no FROM tune WHERE name = 'Riverbed' ORDER BY name;"))
    (row,) = await audit(asked, runner)
    check_table([row])
    assert set(row) == {name for name, *_ in UNITS.columns}
    assert row["database_digest"] == asked.databases[0].digest
    assert (row["tables"], row["columns"], row["literals"]) == (["tune"], ["tune.name", "tune.tune_no"], ["Riverbed"])
    assert (row["ordered"], row["row_count"], row["column_count"]) == (True, 1, 2)
    assert row["first_row_json"] == '[["text", "Riverbed"], ["int", 1]]'


async def test_repeated_questions_and_shared_sql(tmp_path: Path, runner: SqlRunner) -> None:
    asked = source(
        tmp_path,
        ("Which tunes?", "SELECT name FROM tune ORDER BY 1"),
        ("which  Tunes?", "SELECT name FROM tune ORDER BY 1 ;"),
        ("Name all tunes.", "SELECT name FROM tune ORDER BY 1"),
    )
    seen: list[tuple[int, int]] = []
    rows = await audit(asked, runner, lambda done, wanted: seen.append((done, wanted)))
    assert [row["flags"] for row in rows] == [[], ["duplicate"], []]
    assert len({row["result_digest"] for row in rows}) == 1
    assert seen == [(1, 1)], "one execution for one text"


async def test_an_unchanged_database_is_not_run_again(tmp_path: Path, runner: SqlRunner) -> None:
    asked = source(tmp_path, ("a?", "SELECT name FROM tune ORDER BY 1"), ("b?", "SELECT nothing FROM tune"))
    first = await audit(asked, runner)
    asked.databases[0].path.unlink()
    assert await audit(asked, runner) == first, "the ledger answers, the file is not needed"


async def test_a_lost_database_stops_the_audit(tmp_path: Path, runner: SqlRunner) -> None:
    asked = source(tmp_path, *((f"{at}?", f"SELECT name FROM tune WHERE tune_no > {at}") for at in range(30)))
    asked.databases[0].path.unlink()
    with pytest.raises(DatabaseMissing, match=r"music\.sqlite"):
        await audit(asked, runner)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not [task for task in others if "work" in repr(task.get_coro())]


async def test_three_corpora(tmp_path: Path, runner: SqlRunner) -> None:
    for root, read, write in (("s", spider.read, write_spider), ("b", bird.read, write_bird)):
        (tmp_path / root).mkdir()
        rows = await audit(read(write(tmp_path / root)), runner)
        check_table(rows)
        assert not [row["unit_id"] for row in rows if DISQUALIFYING & set(row["flags"])]
    with postgres_folder() as folder:
        read_from = livesqlbench.read(write_livesqlbench(tmp_path / "l"))
        ledger = Ledger(f"sqlite:///{tmp_path / 'l.sqlite'}")
        async with SqlRunner(ledger, postgres_folder=folder) as made:
            (row,) = await audit(read_from, made)
        ledger.close()
        stop(folder)
    assert (row["flags"], row["first_row_json"]) == ([], '[["int", 2]]')


def stop(folder: Path) -> None:
    from tasks_lib.sql.postgres import shared_server

    shared_server("", folder).close()


@pytest.mark.parametrize(
    ("engine", "sql", "flags"),
    [
        (Engine.SQLITE, "SELECT datetime() FROM t", {"clock"}),
        (Engine.SQLITE, "SELECT CURRENT_DATE", {"clock"}),
        (Engine.SQLITE, "SELECT date(day) FROM t", set()),
        (Engine.SQLITE, "SELECT 'current_date', now FROM t -- now()", set()),
        (Engine.POSTGRES, "SELECT now() - born FROM t", {"clock"}),
        (Engine.POSTGRES, "SELECT born > 'now'::date FROM t", {"clock"}),
        (Engine.POSTGRES, "SELECT gen_random_uuid() FROM t", {"random"}),
        (Engine.SQLITE, "SELECT a FROM t ORDER BY a LIMIT 1", set()),
        (Engine.SQLITE, "SELECT count(*) FROM t LIMIT 1", set()),
        (Engine.SQLITE, "SELECT a, count(*) FROM t GROUP BY a LIMIT 1", {"limit_without_order"}),
        (Engine.SQLITE, "SELECT a FROM t WHERE b = (SELECT b FROM u LIMIT 1)", {"limit_without_order"}),
        (Engine.SQLITE, "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u LIMIT 1)", set()),
        (Engine.SQLITE, "SELECT a FROM t UNION SELECT b FROM u LIMIT 3", {"limit_without_order"}),
        (Engine.SQLITE, "SELECT a FROM t UNION SELECT b FROM u ORDER BY 1 LIMIT 3", set()),
    ],
)
def test_flags_of_the_text(engine: Engine, sql: str, flags: set[str]) -> None:
    assert text_flags(engine, sql) == flags


def test_flags_are_a_closed_list() -> None:
    assert set(FLAGS) - DISQUALIFYING == {"dqs_literal", "dqs_shadowed"}
    assert all(FLAGS.values())


@pytest.mark.parametrize(
    "row",
    [
        ("Badlands", 3, 1.0, True, None, ""),
        (float("inf"), Decimal("1.10"), b"\x00\xff", date(2031, 5, 2), "\udcff é"),
        (Json('{"a": 1}'), Interval(1, 2, 3), (1, "a", None, Decimal("2"))),
    ],
)
def test_first_rows_keep_their_types(row: tuple[Value, ...]) -> None:
    text = encode_row(row)
    assert text.isascii()
    back: Any = decode_row(text)
    assert back == row
    assert [type(value) for value in back] == [type(value) for value in row]
