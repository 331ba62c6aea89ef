"""What the catalog says of keys, columns and values: rules, their evidence, and where each fact comes from."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from catalog_support import ferries

from tasks_lib.catalog import routedb
from tasks_lib.catalog.capabilities import capabilities
from tasks_lib.catalog.columns import Role, label, role, sentence
from tasks_lib.catalog.identities import Identities
from tasks_lib.catalog.keys import keys
from tasks_lib.catalog.relations import inside
from tasks_lib.catalog.values import entities
from tasks_lib.catalog.wording import singular
from tasks_lib.corpora.model import ColumnInfo, CorpusDatabase, TableInfo
from tasks_lib.protocol.vocabulary import Corpus, Engine
from tasks_lib.sql.postgres import shared_server
from tasks_lib.store.keys import sha256_file


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One vector cache and server folder for this file, outside the project."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("home")
        patch.setenv("DSABENCH_HOME", str(folder))
        yield folder


def club(tmp_path: Path, *, members: tuple[int, ...] = (1, 2), origin: str = "original") -> CorpusDatabase:
    """Clubs, people and who is in which, without one declared key; `members`: clubs that memberships name."""
    path = tmp_path / "club.sqlite"
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE clubs (id INTEGER PRIMARY KEY, title TEXT)")
        connection.execute("CREATE TABLE person (person_id INTEGER PRIMARY KEY, title TEXT)")
        connection.execute(
            "CREATE TABLE membership (membership_id INTEGER PRIMARY KEY, club_id INTEGER, person_id TEXT)"
        )
        connection.execute("INSERT INTO clubs VALUES (1, 'Quoits'), (2, 'Bowls')")
        connection.executemany("INSERT INTO membership VALUES (?, ?, 'x')", enumerate(members))
        connection.commit()
    key = ColumnInfo("id", "INTEGER", primary=True)
    tables = (
        TableInfo("clubs", (key, ColumnInfo("title", "TEXT")), 2),
        TableInfo("person", (replace(key, name="person_id"), ColumnInfo("title", "TEXT")), 0),
        TableInfo(
            "membership",
            (
                replace(key, name="membership_id"),
                ColumnInfo("club_id", "INTEGER"),
                ColumnInfo("person_id", "TEXT"),
            ),
            len(members),
        ),
    )
    base = ferries(tmp_path, "c_1")
    return replace(base, path=path, tables=tables, origin=origin)


def test_a_plain_key_that_is_not_declared_is_told_with_what_speaks_for_it(tmp_path: Path) -> None:
    (relation,) = inside(0, keys(club(tmp_path)))  # person_id is text there and a number here: no key
    assert (relation.kind, relation.source[1:], relation.target[1:]) == (
        "probable_key",
        ("membership", "club_id"),
        ("clubs", "id"),
    )
    assert "probably refers to id of clubs" in relation.text
    assert "2 of 2 values are found there" in relation.text
    assert "declares no key" in relation.provenance


def test_values_that_are_not_there_speak_against_an_undeclared_key(tmp_path: Path) -> None:
    assert keys(club(tmp_path, members=(1, 7, 8, 9))) == []
    (key,) = keys(club(tmp_path, members=(1, 7, 8, 9), origin="replica"))  # rows of a replica say nothing
    assert (key.declared, key.share) == (False, "")


def test_a_declared_key_stays_a_fact_of_the_schema(tmp_path: Path) -> None:
    (relation,) = inside(0, keys(ferries(tmp_path, "f_1")))
    assert (relation.kind, relation.provenance) == ("foreign_key", "foreign key of the schema")


def test_tables_that_refer_to_another_say_what_can_be_counted_for_it(tmp_path: Path) -> None:
    database = ferries(tmp_path, "f_1")
    crew = TableInfo(
        "crew_on_sailings",
        (
            ColumnInfo("sailing_id", "INTEGER", references=("sailing", "sailing_id")),
            ColumnInfo("harbour_id", "INTEGER", references=("harbour", "harbour_id")),
        ),
        5,
    )
    database = replace(database, tables=(*database.tables, crew))
    found = {c.text for c in capabilities(database, database.tables[0], keys(database)) if c.kind == "join"}
    assert found == {
        "number of sailing records for each harbour",
        "number of crew on sailing records for each harbour",
        "sailing records of each harbour, joined by crew on sailings",
    }


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (ColumnInfo("fare", "REAL", value_range="1.5..9", distinct=8), Role.MEASURE),
        (ColumnInfo("shopperid", "INTEGER", value_range="1..90", distinct=90), Role.KEY),
        (ColumnInfo("amount_paid", "INTEGER", value_range="1..90", distinct=90), Role.MEASURE),
        (ColumnInfo("postcode", "INTEGER", distinct=90), Role.KEY),
        (ColumnInfo("founded", "INTEGER", value_range="1890..1999", distinct=30), Role.TIME),
        (ColumnInfo("calendaryear", "INTEGER"), Role.TIME),
        (ColumnInfo("capacity", "INTEGER", value_range="1890..1999", distinct=30), Role.MEASURE),
        (ColumnInfo("is_covered", "INTEGER", value_range="0..1", distinct=2), Role.FLAG),
        (ColumnInfo("open", "BOOLEAN"), Role.FLAG),
        (ColumnInfo("share", "REAL", value_range="0.0..1.0", distinct=2), Role.MEASURE),
        (ColumnInfo("pier", "TEXT", distinct=6), Role.GROUPING),
        (ColumnInfo("captain", "TEXT", distinct=80), Role.FILTER),
        (ColumnInfo("captain", "TEXT", distinct=25), Role.GROUPING),
        (ColumnInfo("vessel_type", "TEXT"), Role.GROUPING),
        (ColumnInfo("remark", "TEXT"), Role.FILTER),
    ],
)
def test_the_role_of_a_column(column: ColumnInfo, expected: Role) -> None:
    assert role(TableInfo("sailing", (column,), 100), column, synthetic=False) is expected


def test_names_of_people_in_a_small_table_are_no_categories() -> None:
    column = ColumnInfo("captain", "TEXT", distinct=10)
    assert role(TableInfo("captains", (column,), 12), column, synthetic=False) is Role.FILTER


def test_counts_and_ranges_of_made_up_rows_say_nothing() -> None:
    column = ColumnInfo("pier", "TEXT", distinct=6)
    assert role(TableInfo("sailing", (column,), 100), column, synthetic=True) is Role.FILTER


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        ("The 'tides missed' column in the 'sailing' table records how often it was late.", "tides missed"),
        ("In the 'sailing' table, the 'tides missed' column, an integer, records it.", "tides missed"),
        ("Tides missed; how often the tide was missed.", "tides missed"),
        ("The tides missed column in the sailing table is an integer.", "tides missed"),
        ("Tides missed. **NULL means none.** Example: 4.", "tides missed"),
        ("USD paid. Example: 4.", "USD paid"),
        ("PK & FK: ships", "tm"),
        ("PK", "tm"),
        ("", "tm"),
    ],
)
def test_a_cryptic_column_is_called_what_its_description_calls_it(described: str, expected: str) -> None:
    assert label(ColumnInfo("TM", "INTEGER", described)) == expected


def test_the_card_of_a_column_ends_with_a_whole_word() -> None:
    column = ColumnInfo("x", "TEXT", "harbours " * 30)
    assert set(sentence(column).split()) == {"harbours"}


def test_one_of_many() -> None:
    names = ("order items", "cities", "boxes", "glass", "buses", "gas", "species series")
    assert [singular(name) for name in names] == [
        "order item", "city", "box", "glass", "buse", "gas", "species series",
    ]  # fmt: skip


def test_every_fact_says_where_it_comes_from(tmp_path: Path) -> None:
    databases = [
        ferries(tmp_path, "f_1"),
        ferries(tmp_path, "g_1", origin="replica"),
        ferries(tmp_path, "h_1", origin="surrogate"),
        ferries(tmp_path, "l_1", corpus=Corpus.LIVESQLBENCH),
        club(tmp_path),
    ]
    rows = routedb.build(databases, Identities(b"salt"))
    known = {
        row[key]
        for name, part in rows.items()
        if name != "cat_cards"
        for row in part
        for key in row
        if key.endswith("_id")
    }
    for name, part in rows.items():
        assert part
        for row in part:
            if name == "cat_cards":
                assert row["object_id"] in known  # a card is made of its object's facts and has their provenance
            else:
                assert len(row["provenance"]) > 15, (name, row)
                assert re.fullmatch(r"ev_[0-9a-f]{12}", row["evidence_id"])
    of = {row["database_id"]: row["provenance"] for row in rows["cat_databases"]}
    assert len(set(of.values())) == 3


def test_no_value_of_a_replica_occurs_in_any_table(tmp_path: Path) -> None:
    """Every value of a generated replica is looked for in every text of the catalog, beside an original with other values."""
    replica = ferries(tmp_path, "f_1", origin="replica", port="Zumbrota", rows=25)
    with closing(sqlite3.connect(replica.path)) as connection:
        connection.execute("UPDATE harbour SET depth = depth + 7311.25")
        connection.commit()
        values = {
            str(value)
            for table in ("harbour", "sailing")
            for row in connection.execute(f"SELECT * FROM {table}")
            for value in row
            if len(str(value)) > 3
        }
    assert len(values) > 50
    values -= {"2021-05-01"}  # the original holds that day too
    rows = routedb.build([replica, ferries(tmp_path, "g_1")], Identities(b"salt"))
    shown = json.dumps([{k: v for k, v in row.items() if k != "vector"} for part in rows.values() for row in part])
    assert [value for value in values if value.casefold() in shown.casefold()] == []


def test_values_of_a_loaded_postgres_database_are_counted(tmp_path: Path, home: Path) -> None:
    dump = tmp_path / "piers_full.sql"
    dump.write_text(
        'CREATE TABLE public."Pier" (name text, kind text, payload jsonb, built date, mooring integer);\n'
        "INSERT INTO public.\"Pier\" SELECT 'Pier ' || i % 3, 'wood', '{\"a\": \"b\"}', '2020-01-01', i "
        "FROM generate_series(1, 7) AS i;\n"
    )
    columns = [("name", "TEXT"), ("kind", "TEXT"), ("payload", "JSONB"), ("built", "DATE"), ("mooring", "INTEGER")]
    table = TableInfo("Pier", tuple(ColumnInfo(name, kind) for name, kind in columns), 7)
    base = ferries(tmp_path, "p_1", corpus=Corpus.LIVESQLBENCH)
    database = replace(base, engine=Engine.POSTGRES, path=dump, digest=sha256_file(dump), tables=(table,))
    server = shared_server("", home / "postgres")
    found = entities(database, lambda one: server.ensure_database(one.path, one.digest))
    assert [(e.column, e.value, e.count) for e in found] == [
        ("name", "Pier 1", 3),
        ("name", "Pier 0", 2),
        ("name", "Pier 2", 2),
        ("kind", "wood", 7),
    ]
    assert all("counted" in e.provenance for e in found)
    assert entities(replace(database, origin="replica"), lambda one: pytest.fail("a replica is never read")) == []
