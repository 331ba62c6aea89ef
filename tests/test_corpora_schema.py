"""The schema is read from the database file itself, odd names and odd files included."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from corpora_support import sqlite_database, write_sqlite

from tasks_lib.corpora.files import CorpusError, words
from tasks_lib.corpora.postgres_schema import read_dump
from tasks_lib.corpora.sqlite_schema import read_schema
from tasks_lib.corpora.values import column_values
from tasks_lib.protocol.vocabulary import Corpus


def read(path: Path, script: str):  # type: ignore[no-untyped-def]
    return {table.name: table for table in sqlite_database(path, script).tables}


def test_odd_names(tmp_path: Path) -> None:
    tables = read(
        tmp_path / "odd #1?.sqlite",
        """CREATE TABLE "say ""hi"" %s" ("a b" TEXT, [c-d] INTEGER, `e``f` REAL, "naïve" TEXT);
        INSERT INTO "say ""hi"" %s" VALUES ('x', 1, 2.5, 'y');
        CREATE TABLE "select" ("group" TEXT); CREATE TABLE lonely (a);""",
    )
    odd = tables['say "hi" %s']
    assert [column.name for column in odd.columns] == ["a b", "c-d", "e`f", "naïve"]
    assert [column.examples for column in odd.columns] == [("x",), ("1",), ("2.5",), ("y",)]
    assert [table.row_count for table in tables.values()] == [1, 0, 0]
    assert tables["lonely"].columns[0].type == ""


def test_foreign_keys(tmp_path: Path) -> None:
    tables = read(
        tmp_path / "keys.sqlite",
        """CREATE TABLE Parent (One INTEGER, Two INTEGER, PRIMARY KEY (Two, One));
        CREATE TABLE child (a INTEGER, b INTEGER, c INTEGER REFERENCES gone(x), d INTEGER REFERENCES PARENT (one),
            e INTEGER REFERENCES parent (nothere), FOREIGN KEY (a, b) REFERENCES parent);""",
    )
    links = {column.name: column.references for column in tables["child"].columns}
    # Without named columns the key is the target's, in the order of its PRIMARY KEY clause.
    assert links == {"a": ("Parent", "Two"), "b": ("Parent", "One"), "c": None, "d": ("Parent", "One"), "e": None}
    assert [column.primary for column in tables["Parent"].columns] == [True, True]


def test_a_schema_file_adds_links_that_the_database_does_not_declare(tmp_path: Path) -> None:
    path = write_sqlite(tmp_path / "a.sqlite", "CREATE TABLE A (X INTEGER); CREATE TABLE B (Y INTEGER, Z INTEGER)")
    links = {("b", "y"): ("a", "x"), ("b", "z"): ("gone", "x")}
    tables, _ = read_schema(Corpus.SPIDER, path, {}, links, True)
    assert [column.references for column in tables[1].columns] == [("A", "X"), None]


def test_views_generated_columns_and_tables_without_rowid(tmp_path: Path) -> None:
    tables = read(
        tmp_path / "views.sqlite",
        """CREATE TABLE t (k TEXT PRIMARY KEY, n INTEGER, twice INTEGER AS (n * 2)) WITHOUT ROWID;
        INSERT INTO t (k, n) VALUES ('a', 4);
        CREATE VIEW v AS SELECT k, n FROM t; CREATE VIEW broken AS SELECT * FROM gone;""",
    )
    assert [column.name for column in tables["t"].columns] == ["k", "n", "twice"]
    assert tables["t"].columns[2].examples == ("8",)
    assert (tables["v"].view, tables["v"].row_count) == (True, 0)
    assert [column.name for column in tables["v"].columns] == ["k", "n"]
    assert "broken" not in tables


def test_text_that_is_not_utf8_is_no_example(tmp_path: Path) -> None:
    path = write_sqlite(tmp_path / "bytes.sqlite", "CREATE TABLE t (a TEXT, b BLOB)")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO t VALUES (CAST(x'436166e9' AS TEXT), x'00ff'), ('plain', NULL)")
    ((table,), _) = read_schema(Corpus.SPIDER, path, {}, {}, True)
    assert [(column.examples, column.distinct) for column in table.columns] == [(("plain",), 2), ((), 1)]


def test_reading_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    path = write_sqlite(tmp_path / "a.sqlite", "PRAGMA journal_mode=WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    before = (sorted(os.listdir(tmp_path)), path.read_bytes())
    read_schema(Corpus.SPIDER, path, {}, {}, True)
    assert (sorted(os.listdir(tmp_path)), path.read_bytes()) == before


def test_values_of_a_column() -> None:
    found = column_values(["b", "a", "b", None, "c", "d", "e", "f", "x" * 81, "two\nlines", " "])
    assert found.examples == ("b", "a", "c", "d", "e")
    assert found.distinct == 9
    assert column_values([3, 1.5, None, float("inf")]).value_range == "1.5..3"
    assert column_values(["2031-05-02 10:00", "2031-05-01"]).value_range == "2031-05-01..2031-05-02 10:00"
    assert column_values(["2031-05-02", "soon"]).value_range == ""
    assert column_values([1, "2"]).value_range == ""
    assert column_values([]) == column_values([None])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("harbour_1", "harbour"),
        ("cre_Theme_park", "cre theme park"),
        ("bikeShare_12", "bike share"),
        ("HTTPLog", "http log"),
        ("world", "world"),
    ],
)
def test_names_as_words(name: str, expected: str) -> None:
    assert words(name) == expected


def test_dump_with_keys_inside_the_table(tmp_path: Path) -> None:
    dump = tmp_path / "d.sql"
    dump.write_text(
        "create table Rooms (id serial primary key, floor int);\n"
        'CREATE TABLE "Beds" (id int, room int REFERENCES rooms, spare int REFERENCES rooms(FLOOR), '
        "PRIMARY KEY (id, room));\nCREATE VIEW big AS SELECT 1 AS one;\n",
        "utf-8",
    )
    tables, _, views = read_dump(Corpus.LIVESQLBENCH, dump, {("beds", "id"): "number of the bed"})
    assert [table.name for table in tables] == ["rooms", "Beds"]
    assert [column.references for column in tables[1].columns] == [None, ("rooms", "id"), ("rooms", "floor")]
    assert [column.primary for column in tables[1].columns] == [True, True, False]
    assert tables[1].columns[0].meaning == "number of the bed"
    assert views == ("big",)


@pytest.mark.parametrize("text", ["CREATE TABLE rooms (id 3 int);", "CREATE TABLE rooms id int;"])
def test_dump_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    dump = tmp_path / "d.sql"
    dump.write_text(f"CREATE TABLE fine (a int);\n{text}\n", "utf-8")
    with pytest.raises(CorpusError, match=r"d\.sql: expected readable CREATE .* found 'CREATE TABLE rooms.*unreadable"):
        read_dump(Corpus.LIVESQLBENCH, dump, {})
