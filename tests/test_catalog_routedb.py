"""RouteDB holds facts of schemas and safe values under public ids, and nothing of questions, names or replicas."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from catalog_support import ferries

from tasks_lib.catalog import routedb
from tasks_lib.catalog.columns import label, meaning
from tasks_lib.catalog.identities import Identities
from tasks_lib.catalog.values import PER_COLUMN, PER_DATABASE
from tasks_lib.catalog.wording import safe_value
from tasks_lib.corpora.model import ColumnInfo, CorpusDatabase
from tasks_lib.models.embeddings import embed
from tasks_lib.protocol.vocabulary import Corpus, Engine
from tasks_lib.store.artifacts import conform
from tasks_lib.store.schemas import TABLES

Rows = dict[str, list[dict[str, Any]]]
Make = Callable[..., CorpusDatabase]


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One vector cache for this file, outside the project."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSABENCH_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes small databases of ferries with a real SQLite file behind them."""
    return partial(ferries, tmp_path)


def built(*databases: CorpusDatabase, key: bytes = b"salt") -> Rows:
    return routedb.build(databases, Identities(key))


def text_of(rows: Rows) -> str:
    return json.dumps([{k: v for k, v in row.items() if k != "vector"} for part in rows.values() for row in part])


def test_every_table_fits_its_schema_and_ids_meet(make: Make) -> None:
    rows = built(make("ferry_lines_1"), make("coast_2", port="Oslam"))
    for name, part in rows.items():
        assert conform(TABLES[name], part).num_rows == len(part) > 0
    databases = {r["database_id"] for r in rows["cat_databases"]}
    tables = {r["table_id"] for r in rows["cat_tables"]}
    columns = {r["column_id"] for r in rows["cat_columns"]}
    assert {r["database_id"] for r in rows["cat_cards"]} == databases
    assert {r["object_id"] for r in rows["cat_cards"]} == databases | tables | columns
    assert {r["table_id"] for r in rows["cat_columns"]} == {r["table_id"] for r in rows["cat_capabilities"]} == tables
    assert {r["column_id"] for r in rows["cat_entities"]} <= columns
    for r in rows["cat_relations"]:
        assert {r["source_column_id"], r["target_column_id"]} <= columns
    evidence = [r["evidence_id"] for part in rows.values() for r in part if "evidence_id" in r]
    assert len(evidence) == len(set(evidence))
    assert all(r["provenance"] for part in rows.values() for r in part if "provenance" in r)


def test_capabilities_follow_the_rules(make: Make) -> None:
    found = {(r["kind"], r["text"]) for r in built(make("f_1"))["cat_capabilities"]}
    assert found == {
        ("count", "count harbour records, in all or by region"),
        ("filter", "find harbour by official name of the port"),
        ("grouping", "harbour grouped by region such as Brindal coast"),
        ("measure", "total, average, lowest and highest depth at low tide in metres of harbour (from 0.0 to 19.5)"),
        ("count", "count sailing records"),
        ("time", "sailing over time by departs (always 2021-05-01)"),
        ("join", "number of sailing records for each harbour"),
        ("filter", "find sailing by contact email"),
    }


def test_entities_carry_counts_and_addresses_stay_out(make: Make) -> None:
    rows = built(make("f_1"))
    counts = {r["value"]: r["count"] for r in rows["cat_entities"]}
    assert counts["Brindal coast"] == 40
    assert counts["Brindal south 0"] == 1
    assert "sea.example" not in text_of(rows)
    many = built(make("f_1", rows=3000))["cat_entities"]
    assert len([r for r in many if r["value"] != "Brindal coast" and r["count"] == 1]) == PER_COLUMN
    assert len(many) <= PER_DATABASE


def test_no_value_of_a_replica_enters_while_its_schema_does(make: Make) -> None:
    rows = built(make("f_1", origin="replica", port="Zumbrota"), make("g_1", port="Oslam"))
    text = text_of(rows)
    assert "zumbrota" not in text.casefold()
    assert "2021-05-01" in text  # of the other one
    public = Identities(b"salt").database(Corpus.SPIDER, "f_1")
    mine = [r for r in rows["cat_columns"] if r["database_id"] == public]
    assert {r["name"] for r in mine} >= {"port_name", "depth"}
    assert not any(r["examples"] or r["value_range"] for r in mine)
    assert not any(r["database_id"] == public for r in rows["cat_entities"])
    asked = [r["text"] for r in rows["cat_capabilities"] if r["database_id"] == public]
    assert "sailing over time by departs" in asked
    assert not any(character.isdigit() for text in asked for character in text)
    shared = [
        r
        for r in rows["cat_relations"]
        if r["kind"] == "compatible" and public in (r["source_database_id"], r["target_database_id"])
    ]
    assert all("not compared" in r["text"] for r in shared)


def test_no_physical_database_name_enters(make: Make) -> None:
    named_like_it = make("ferry_lines_1")
    table = replace(named_like_it.tables[0], name="Coast_2")
    with closing(sqlite3.connect(named_like_it.path)) as connection:
        connection.execute("ALTER TABLE harbour RENAME TO Coast_2")
    rows = built(replace(named_like_it, tables=(table, *named_like_it.tables[1:])), make("coast_2"))
    text = text_of(rows).casefold()
    assert "ferry_lines_1" not in text
    assert "coast_2" not in text
    assert "ferry lines 1 ferries and harbours" in text


def test_questions_and_gold_never_enter(make: Make, tmp_path: Path) -> None:
    """The builder takes databases only; planted files beside the database and foreign schema objects stay out."""
    database = make("f_1")
    planted = "Which quokka harbour is deepest?"
    (tmp_path / "dev.json").write_text(json.dumps([{"question": planted, "query": "SELECT quokka"}]))
    connection = sqlite3.connect(database.path)
    connection.execute(f"CREATE VIEW gold AS SELECT '{planted}' AS question")
    connection.close()
    assert "quokka" not in text_of(built(replace(database, ddl=f"-- {planted}")))


def test_compatible_columns_show_values_in_common_and_stay_inside_a_corpus(make: Make) -> None:
    rows = built(make("f_1"), make("g_1"), make("h_1", corpus=Corpus.BIRD))
    corpus = {r["database_id"]: r["corpus"] for r in rows["cat_databases"]}
    across = [r for r in rows["cat_relations"] if r["kind"] == "compatible"]
    assert across
    for r in across:
        assert r["source_database_id"] != r["target_database_id"]
        assert corpus[r["source_database_id"]] == corpus[r["target_database_id"]] == "spider"
    assert any("official" not in r["text"] and "have 40 values in common" in r["text"] for r in across)
    inside = [r for r in rows["cat_relations"] if r["kind"] == "foreign_key"]
    assert len(inside) == 3
    assert inside[0]["text"] == "harbour id of sailing refers to harbour id of harbour"


def test_rows_do_not_depend_on_the_order_of_databases_and_do_on_the_key(make: Make) -> None:
    a, b = make("f_1"), make("g_1", port="Oslam")
    assert built(a, b) == built(b, a)
    other = built(a, b, key=b"other")
    assert not {r["table_id"] for r in other["cat_tables"]} & {r["table_id"] for r in built(a, b)["cat_tables"]}


def test_cards_carry_the_vector_of_their_text(make: Make) -> None:
    knowledge = "A sailing is late when it departs after the tide. " * 60
    cards = built(replace(make("f_1"), knowledge=knowledge))["cat_cards"]
    public = next(c["database_id"] for c in cards)
    assert [c["chunk"] for c in cards if c["object_id"] == public] == [0, 1, 2]
    assert [c["vector"] for c in cards] == embed([c["text"] for c in cards]).tolist()


def test_postgres_values_come_from_the_examples_uncounted(make: Make) -> None:
    database = replace(make("f_1", corpus=Corpus.LIVESQLBENCH), engine=Engine.POSTGRES, path=Path("/nonexistent.sql"))
    entities = built(database)["cat_entities"]
    assert {(r["value"], r["count"]) for r in entities} == {("Brindal north 1", 0), ("Brindal coast", 0)}


@pytest.mark.parametrize("value", ["Brindal", "2021-05-01", "-12345.678901", "1234567890", "A-7", "19:03:21"])
def test_ordinary_values_may_be_shown(value: str) -> None:
    assert safe_value(value)


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "x" * 61,
        "a@sea.example",
        "https://sea.example",
        "+44 20 7946 0000",
        "(020) 794-6000",
        "0af3" * 8,
        "a\tb",
        "caf\ufffd",
    ],
)
def test_prose_addresses_and_damaged_text_may_not(value: str) -> None:
    assert not safe_value(value)


def test_described_columns_are_named_in_few_words() -> None:
    assert (
        label(ColumnInfo("dpt", "TEXT", "VARCHAR(20). Port of departure. PK. Example: Oslam.")) == "port of departure"
    )
    assert label(ColumnInfo("dpt", "TEXT", "long " * 20)) == "dpt"
    assert label(ColumnInfo("DepartPort", "TEXT")) == "depart port"
    assert (
        meaning(ColumnInfo("dpt", "TEXT", "TEXT. Port of departure. Example: Oslam"))
        == "Port of departure. Example: Oslam"
    )
    assert meaning(ColumnInfo("body", "TEXT", "Text. ")) == "Text."


def test_unknown_row_counts_are_not_told_as_no_rows(make: Make) -> None:
    database = make("f_1")
    tables = tuple(replace(table, row_count=0) for table in database.tables)
    rows = built(replace(database, tables=tables))
    assert " 0 rows" not in text_of(rows)
