"""The gold certificate runs every usable gold anew and tells what does not give the audited bytes again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from corpora_support import sqlite_database

from tasks_lib.corpora.certificate import certify
from tasks_lib.corpora.model import CorpusSource, Question
from tasks_lib.corpora.units import audit
from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.sql.execute import LEDGER_KIND, SqlRunner
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.schemas import UNITS

SCRIPT = (
    "CREATE TABLE tune (no INTEGER PRIMARY KEY, name TEXT); INSERT INTO tune VALUES (1, 'Riverbed'), (2, 'Kettle');"
)
GOLDS = (
    "SELECT name FROM tune WHERE no = 1",
    "-- the same again\nSELECT name FROM tune WHERE no = 1",
    "SELECT no, name FROM tune ORDER BY name",
    "SELECT name FROM tune WHERE no = 9",
    "SELECT abs(random()) + no FROM tune",
)
Corpora = tuple[CorpusSource, list[dict[str, Any]], list[SqlRunner], list[Ledger]]


@pytest.fixture
async def corpora(tmp_path: Path) -> AsyncIterator[Corpora]:
    """An audited corpus of five golds, three of them usable, and two runners with ledgers of their own."""
    source = CorpusSource(
        Corpus.SPIDER,
        tmp_path,
        (sqlite_database(tmp_path / "music.sqlite", SCRIPT),),
        tuple(
            Question(f"spider:dev:{i}", Corpus.SPIDER, "music", f"Question {i}?", sql, "", "dev")
            for i, sql in enumerate(GOLDS)
        ),
        "0" * 64,
    )
    ledgers = [Ledger(f"sqlite:///{tmp_path}/{name}.sqlite") for name in ("audit", "first", "second")]
    async with SqlRunner(ledgers[0], workers=1) as auditing:
        rows = await audit(source, auditing)
    async with SqlRunner(ledgers[1], workers=1) as first, SqlRunner(ledgers[2], workers=1) as second:
        yield source, rows, [first, second], ledgers
    for ledger in ledgers:
        ledger.close()


async def test_every_usable_gold_runs_again_in_every_round(corpora: Corpora) -> None:
    source, rows, runners, ledgers = corpora
    proof = await certify(source, rows, runners)
    assert (proof.units, proof.usable, proof.certified, proof.rounds, proof.faults) == (5, 3, 3, 2, ())
    assert proof.ok
    assert [ledger.count(LEDGER_KIND) for ledger in ledgers[1:]] == [proof.executions, proof.executions] == [3, 3]


async def test_other_bytes_and_lost_results_are_told(corpora: Corpora) -> None:
    source, rows, runners, _ = corpora
    changed = {
        "spider:dev:0": {**rows[0], "result_digest": "f" * 64},
        "spider:dev:2": {**rows[2], "sql": "SELECT nothing FROM tune"},
    }
    proof = await certify(source, [changed.get(row["unit_id"], row) for row in rows], runners)
    assert (proof.ok, proof.certified) == (False, 1)
    first, second = proof.faults
    assert "spider:dev:0" in first
    assert "expected ffffffffffff as audited" in first
    assert "spider:dev:2 ended in execution_error in round 1" in second


async def test_a_gold_that_is_not_usable_has_no_say(corpora: Corpora) -> None:
    """The random one would give other bytes each time; it is flagged, so that it is not run."""
    source, rows, runners, _ = corpora
    assert not (await certify(source, [{**row, "flags": []} for row in rows], runners)).ok


async def test_the_command_gives_every_round_a_ledger_of_its_own(corpora: Corpora) -> None:
    from flows.cli_units import _certificate_lines
    from flows.units import certified

    source, rows, _, ledgers = corpora
    proof = await certified(source, pl.DataFrame(rows, schema=UNITS.schema.names, orient="row"))
    assert (proof.ok, proof.certified, proof.rounds) == (True, 3, 2)
    assert [ledger.count(LEDGER_KIND) for ledger in ledgers[1:]] == [0, 0]
    (line,) = _certificate_lines({"by_corpus": {"spider": proof.as_json()}})
    assert line == "spider: 3 of 3 usable golds correct against themselves in 2 rounds of 3 executions"
