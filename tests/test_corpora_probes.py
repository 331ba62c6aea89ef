"""A gold that does not decide its own answer is found out by running variants of it, and its text stays as written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from corpora_support import sqlite_database

from tasks_lib.corpora.flags import DISQUALIFYING
from tasks_lib.corpora.model import CorpusSource, Question
from tasks_lib.corpora.probes import backward_flags, half_cents, sites, tie_probes
from tasks_lib.corpora.units import audit
from tasks_lib.protocol.vocabulary import Corpus, Engine
from tasks_lib.sql.canonical import CanonicalResult
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.ledgers import Ledger

# Two pairs tie on `metres`: 20 (two names) and 5 (one name twice). The first three dues add up to another double backwards.
SCRIPT = """
CREATE TABLE boat (boat_no INTEGER PRIMARY KEY, name TEXT, metres INTEGER, port TEXT, due REAL);
INSERT INTO boat VALUES (1, 'Auk', 20, 'Hafen', 0.1), (2, 'Gull', 20, 'Hafen', 0.2), (3, 'Tern', 12, 'Kai', 0.3),
                        (4, 'Skua', 5, 'Kai', 0.4), (5, 'Skua', 5, 'Kai', 0.4);
"""


@pytest.fixture
async def runner(tmp_path: Path) -> AsyncIterator[SqlRunner]:
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    async with SqlRunner(ledger) as made:
        yield made
    ledger.close()


def source(tmp_path: Path, sql: str, corpus: Corpus = Corpus.SPIDER) -> CorpusSource:
    database = sqlite_database(tmp_path / "boats.sqlite", SCRIPT, corpus)
    question = Question(f"{corpus}:dev:0", corpus, "boats", "Which?", sql, "", "dev")
    return CorpusSource(corpus, tmp_path, (database,), (question,), "0" * 64)


TIES = [
    ("SELECT name FROM boat ORDER BY metres DESC LIMIT 1", {"limit_cuts_tie"}),
    ("SELECT name FROM boat ORDER BY metres DESC LIMIT 1 OFFSET 1", {"limit_cuts_tie"}),
    ("SELECT name FROM boat ORDER BY metres DESC LIMIT 3", {"order_not_total"}),
    ("SELECT name FROM boat ORDER BY metres DESC, name LIMIT 3", set()),
    ("SELECT name FROM boat ORDER BY metres LIMIT 1 -- shortest", set()),  # the tied rows look the same
    ("SELECT name FROM boat ORDER BY metres LIMIT 2;", set()),
    ("SELECT DISTINCT port FROM boat ORDER BY port LIMIT 1", set()),
    ("SELECT name FROM boat ORDER BY metres", {"order_not_total"}),
    ("SELECT metres FROM boat ORDER BY metres", set()),
    ("SELECT name FROM boat WHERE port = 'Kai' ORDER BY metres", set()),
    ("SELECT name FROM boat ORDER BY (SELECT 1), boat_no", set()),
    ("SELECT * FROM boat ORDER BY metres DESC LIMIT 1", {"limit_cuts_tie"}),
    (
        "SELECT due FROM boat WHERE boat_no = (SELECT boat_no FROM boat ORDER BY metres DESC LIMIT 1)",
        {"limit_cuts_tie"},
    ),
    ("SELECT port FROM boat WHERE boat_no = (SELECT boat_no FROM boat ORDER BY metres DESC LIMIT 1)", set()),
    ("SELECT count(*) FROM (SELECT name, port FROM boat ORDER BY metres DESC LIMIT 1)", set()),
    (
        "WITH long AS (SELECT name, due FROM boat ORDER BY metres DESC LIMIT 1) SELECT name FROM long",
        {"limit_cuts_tie"},
    ),
    ("SELECT port, count(*) FROM boat GROUP BY port ORDER BY count(*) DESC LIMIT 1", set()),
    ("SELECT metres, count(*) FROM boat GROUP BY metres ORDER BY count(*) DESC LIMIT 1", {"limit_cuts_tie"}),
    ("SELECT name FROM boat WHERE metres = 20 UNION SELECT port FROM boat ORDER BY 1 LIMIT 1", set()),
    ("SELECT name, rank() OVER (ORDER BY metres) FROM boat WHERE boat_no = 3", set()),
]


@pytest.mark.parametrize(("sql", "flags"), TIES, ids=[sql for sql, _ in TIES])
async def test_ties(tmp_path: Path, runner: SqlRunner, sql: str, flags: set[str]) -> None:
    (row,) = await audit(source(tmp_path, sql), runner)
    assert set(row["flags"]) == flags
    assert row["sql"] == sql
    assert flags <= DISQUALIFYING


async def test_order_counts_where_the_corpus_compares_in_order(tmp_path: Path, runner: SqlRunner) -> None:
    sql = "SELECT name FROM boat ORDER BY metres DESC LIMIT 3"
    (row,) = await audit(source(tmp_path, sql, Corpus.BIRD), runner)
    assert (row["flags"], row["ordered"]) == ([], True)
    (row,) = await audit(source(tmp_path / "other", sql.replace("3", "1"), Corpus.BIRD), runner)
    assert row["flags"] == ["limit_cuts_tie"]


READ = [
    ("SELECT name, port FROM boat GROUP BY port", {"read_order"}),
    ("SELECT count(*), name FROM boat", {"read_order"}),
    ("SELECT name, max(metres) FROM boat WHERE port = 'Kai'", set()),
    ("SELECT port, count(*) FROM boat GROUP BY port", set()),
    ("SELECT group_concat(name) FROM boat WHERE port = 'Hafen'", {"read_order"}),
    ("SELECT b.name FROM (SELECT name, row_number() OVER (ORDER BY metres DESC) AS n FROM boat) AS b WHERE n = 1", {"read_order"}),
    ("SELECT sum(due) FROM boat WHERE boat_no < 4", {"rounding_unstable"}),
    ("SELECT avg(b.due) FROM boat b JOIN boat c ON b.boat_no = c.boat_no WHERE b.boat_no < 4", {"rounding_unstable"}),
    ("SELECT sum(metres), avg(metres) FROM boat", set()),
    ("SELECT round(sum(due), 2) FROM boat WHERE boat_no < 4", set()),
    ("SELECT 3 * 0.1 FROM boat WHERE boat_no = 1", set()),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "flags"), READ, ids=[sql for sql, _ in READ])
async def test_reading_backwards(tmp_path: Path, runner: SqlRunner, sql: str, flags: set[str]) -> None:
    (row,) = await audit(source(tmp_path, sql), runner)
    assert set(row["flags"]) == flags
    assert flags <= DISQUALIFYING


def test_digits_and_rows_are_told_apart() -> None:
    def data(*values: object) -> bytes:
        return CanonicalResult(("a",), tuple((value,) for value in values)).to_bytes()  # type: ignore[arg-type]

    assert backward_flags(data(0.1, "x"), data("x", 0.1)) == set()
    assert backward_flags(data(0.6), data(0.6000000000000001)) == {"rounding_unstable"}
    assert backward_flags(data(1e-17), data(0.0)) == {"rounding_unstable"}
    assert backward_flags(data(0.6), data(0.6001)) == {"read_order"}


@pytest.mark.parametrize(
    ("value", "near"),
    [
        (2.675, True),
        (-0.005, True),
        (2.6750001, False),
        (2.67, False),
        (Decimal("12.345"), True),
        (Decimal("12.3451"), False),
        (Decimal("12.35"), False),
        (1234567.125, True),
        (float("nan"), False),
        (float("inf"), False),
        (1e15, False),
        (3, False),
        ("2.675", False),
        (None, False),
    ],
)
def test_half_cents(value: object, near: bool) -> None:
    assert half_cents(((1, value),)) is near  # type: ignore[arg-type]


def test_an_order_is_found_where_it_promises_something() -> None:
    text = 'SELECT a, (SELECT b FROM t ORDER BY c LIMIT 1) FROM t WHERE x = "order by y limit 2" ORDER BY a, b -- order by z'
    inner, outer = sites(Engine.SQLITE, text)
    assert (inner.limited, inner.outermost, inner.columns) == (True, False, 1)
    assert (outer.limited, outer.outermost, outer.columns) == (False, True, 2)
    up, down = tie_probes(Corpus.SPIDER, text, (inner, outer), 5, 2)
    assert up == text.replace("ORDER BY c", "ORDER BY c, 1 ASC").replace("a, b --", "a, b, 1 ASC, 2 ASC --")
    assert down == up.replace("ASC", "DESC")
    assert sites(Engine.POSTGRES, "SELECT a FROM t ORDER BY a OFFSET 2")[0].limited
    assert sites(Engine.POSTGRES, "SELECT a FROM t ORDER BY a FETCH FIRST 2 ROWS ONLY")[0].at == 26
    assert not sites(Engine.SQLITE, "SELECT a FROM (SELECT a FROM t ORDER BY a) WHERE a IN (1, 2)")


async def test_what_is_disqualified_already_is_not_probed(tmp_path: Path, runner: SqlRunner) -> None:
    asked = source(tmp_path, "SELECT name FROM boat WHERE metres > 99 ORDER BY metres LIMIT 1")
    question = replace(
        asked.questions[0], unit_id="spider:dev:1", sql="SELECT random() FROM boat ORDER BY metres LIMIT 1"
    )
    ran: list[str | None] = []

    class Counting:
        async def run(self, handle: object, sql: str | None) -> object:
            ran.append(sql)
            return await runner.run(handle, sql)  # type: ignore[arg-type]

    await audit(replace(asked, questions=(*asked.questions, question)), Counting())  # type: ignore[arg-type]
    assert len(ran) == 2
