"""The published corpora, read and counted where they are at hand (DSABENCH_DATA)."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from corpora_support import check_table, postgres_folder, real

from tasks_lib.corpora import bird, livesqlbench, spider
from tasks_lib.corpora.cards import schema_card, schema_text
from tasks_lib.corpora.model import CorpusSource
from tasks_lib.corpora.references import references
from tasks_lib.corpora.units import DISQUALIFYING, audit
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.sql.postgres import shared_server
from tasks_lib.store.ledgers import Ledger

pytestmark = pytest.mark.real


def only(source: CorpusSource, name: str) -> CorpusSource:
    return replace(
        source,
        databases=tuple(database for database in source.databases if database.name == name),
        questions=tuple(question for question in source.questions if question.database == name),
    )


def test_spider() -> None:
    started = time.perf_counter()
    source = spider.read(real("spider"))
    assert time.perf_counter() - started < 20
    assert (len(source.databases), len(source.questions)) == (166, 9693)
    splits = [question.split for question in source.questions]
    assert (splits.count("train"), splits.count("dev")) == (8659, 1034)
    empty = {d.name for d in source.databases if not any(table.row_count for table in d.tables)}
    assert {"academic", "geo", "imdb", "music_2", "restaurants", "scholar", "yelp"} <= empty
    texts = [schema_card(database) + schema_text(database) for database in source.databases]
    assert all(texts)


def test_bird() -> None:
    source = bird.read(real("bird"))
    assert (len(source.databases), len(source.questions)) == (80, 10962)
    origins = [database.origin for database in source.databases]
    assert {origin: origins.count(origin) for origin in set(origins)} == {"replica": 73, "surrogate": 5, "original": 2}
    for database in source.databases:
        shown = [(c.examples, c.value_range, c.distinct) for t in database.tables for c in t.columns]
        assert (set(shown) == {((), "", 0)}) == (database.origin == "replica"), database.name
        if "_" in database.name:
            assert database.name not in "".join(c.meaning for t in database.tables for c in t.columns).lower()


def test_livesqlbench() -> None:
    source = livesqlbench.read(real("livesqlbench"))
    assert (len(source.databases), len(source.questions)) == (22, 111)
    assert sum(database.loaded for database in source.databases) == 17
    assert len([note for note in source.notes if "has no dump below dumps/" in note]) == 5
    assert {database.name: database.path.name for database in source.databases}[
        "mental_health"
    ] == "mental_healths_full.sql"
    databases = {database.name: database for database in source.databases}
    told = [json.loads(line) for line in (source.root / "units.jsonl").read_text("utf-8").splitlines()]
    for question, record in zip(source.questions, told, strict=True):
        found = references(question.sql, databases[question.database])
        assert (found.missing_tables, found.missing_columns) == ((), ())
        assert found.tables == tuple(sorted(table.lower() for table in record["tables"]))


async def test_audit_of_one_spider_database(tmp_path: Path) -> None:
    source = only(spider.read(real("spider")), "concert_singer")
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    async with SqlRunner(ledger) as runner:
        rows = await audit(source, runner)
        assert await audit(source, runner) == rows
    ledger.close()
    check_table(rows)
    assert len(rows) == 45
    assert not [row["unit_id"] for row in rows if {"gold_error", "refused", "missing_column"} & set(row["flags"])]


async def test_audit_of_one_livesqlbench_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DSABENCH_POSTGRES_URL", raising=False)
    source = only(livesqlbench.read(real("livesqlbench")), "mental_health")
    told = {
        f"livesqlbench:{record['unit_id']}": record
        for record in map(json.loads, (source.root / "units.jsonl").read_text("utf-8").splitlines())
    }
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    with postgres_folder() as folder:
        async with SqlRunner(ledger, postgres_folder=folder) as runner:
            rows = await audit(source, runner)
        shared_server("", folder).close()
    ledger.close()
    check_table(rows)
    assert len(rows) == 6
    for row in rows:
        assert not DISQUALIFYING & set(row["flags"]), row
        record = told[row["unit_id"]]
        assert (row["row_count"], row["column_count"]) == (record["rows"], record["columns"])
        # The file calls a one-row result unordered, whatever its text says.
        assert row["ordered"] or not record["ordered"]
