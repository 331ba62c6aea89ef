"""What a gold query refers to: SQLite's double-quoted strings (known fault V01), scopes, constants with their places."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from corpora_support import sqlite_database

from tasks_lib.corpora.model import CorpusDatabase
from tasks_lib.corpora.references import References, references
from tasks_lib.protocol.vocabulary import Corpus, Engine

SCRIPT = """
CREATE TABLE tune (tune_no INTEGER PRIMARY KEY, name TEXT, studio TEXT);
CREATE TABLE play (tune_no INTEGER, day TEXT, "Ticket Price" REAL);
CREATE VIEW loud AS SELECT tune_no FROM tune;
"""


@pytest.fixture
def database(tmp_path: Path) -> CorpusDatabase:
    return sqlite_database(tmp_path / "music.sqlite", SCRIPT)


@pytest.fixture
def postgres(database: CorpusDatabase) -> CorpusDatabase:
    return replace(database, engine=Engine.POSTGRES, corpus=Corpus.LIVESQLBENCH)


@pytest.mark.parametrize(
    ("sql", "literals", "shadowed"),
    [
        ('SELECT tune_no FROM tune WHERE name = "Riverbed"', ("Riverbed",), ()),
        ('SELECT tune_no FROM tune WHERE name = "studio"', (), ("studio",)),
        ('SELECT tune_no FROM tune WHERE name LIKE "%bed%"', ("%bed%",), ()),
    ],
)
def test_v01_double_quotes(
    database: CorpusDatabase,
    postgres: CorpusDatabase,
    sql: str,
    literals: tuple[str, ...],
    shadowed: tuple[str, ...],
) -> None:
    found = references(sql, database)
    assert (found.dqs_literals, found.literals, found.dqs_shadowed) == (literals, literals, shadowed)
    assert found.missing_columns == ()
    on_postgres = references(sql, postgres)
    assert (on_postgres.dqs_literals, on_postgres.dqs_shadowed, on_postgres.literals) == ((), (), ())
    assert on_postgres.missing_columns == tuple(text.lower() for text in literals)


def test_quoted_names_that_are_no_strings(database: CorpusDatabase) -> None:
    found = references(
        'SELECT "name", `Ticket Price` FROM play AS p JOIN tune ON p."tune_no" = "tune"."tune_no" WHERE "day" = \'x\'',
        database,
    )
    assert (found.dqs_literals, found.dqs_shadowed, found.missing_columns) == ((), (), ())
    assert found.columns == ("play.day", "play.ticket price", "play.tune_no", "tune.name", "tune.tune_no")
    # A string needs double quotes and no qualifier.
    assert references("SELECT `nope` FROM tune", database).missing_columns == ("nope",)
    assert references('SELECT t."nope" FROM tune AS t', database).missing_columns == ("t.nope",)


@pytest.mark.parametrize(
    ("sql", "tables", "columns"),
    [
        ("SELECT count(*) FROM tune", ("tune",), ()),
        ("SELECT T1.Name FROM TUNE AS T1", ("tune",), ("tune.name",)),
        (
            "SELECT name FROM tune WHERE tune_no IN (SELECT tune_no FROM play WHERE studio = day)",
            ("play", "tune"),
            ("play.day", "play.tune_no", "tune.name", "tune.studio", "tune.tune_no"),
        ),
        ("WITH hits AS (SELECT name AS n FROM tune) SELECT n FROM hits", ("tune",), ("tune.name",)),
        ("WITH hits(n) AS (SELECT name FROM tune) SELECT hits.n FROM hits", ("tune",), ("tune.name",)),
        ("SELECT s.name FROM (SELECT * FROM tune) AS s", ("tune",), ("tune.name",)[:0]),
        ("SELECT count(*) AS k FROM tune GROUP BY studio HAVING k > 1 ORDER BY k", ("tune",), ("tune.studio",)),
        ("SELECT name FROM tune UNION SELECT day FROM play", ("play", "tune"), ("play.day", "tune.name")),
        (
            "SELECT day FROM tune JOIN play USING (tune_no)",
            ("play", "tune"),
            ("play.day", "play.tune_no", "tune.tune_no"),
        ),
        ("SELECT tune_no FROM loud", ("loud",), ("loud.tune_no",)),
        ("SELECT rowid FROM tune", ("tune",), ()),
        ("SELECT value FROM tune, json_each(tune.name)", ("tune",), ("tune.name",)),
    ],
)
def test_scopes(database: CorpusDatabase, sql: str, tables: tuple[str, ...], columns: tuple[str, ...]) -> None:
    found = references(sql, database)
    assert (found.tables, found.columns) == (tables, columns)
    assert (found.missing_tables, found.missing_columns) == ((), ())


def test_missing_names_are_told_once(database: CorpusDatabase) -> None:
    found = references("SELECT g.x, t.label FROM ghost AS g JOIN tune AS t ON g.y = t.tune_no", database)
    assert (found.missing_tables, found.missing_columns) == (("ghost",), ("t.label",))


def test_constants_stand_where_they_say(database: CorpusDatabase) -> None:
    sql = "SELECT 'it''s', \"Riverbed\" FROM tune -- 'no'\nWHERE tune_no > 02 AND name <> 'it''s' LIMIT 5"
    found = references(sql, database)
    assert found.literals == ("it's", "Riverbed", "02", "5")
    assert [sql[constant.start : constant.end] for constant in found.constants] == [
        "'it''s'",
        '"Riverbed"',
        "02",
        "'it''s'",
        "5",
    ]
    assert [constant.number for constant in found.constants] == [False, False, True, False, True]


def test_postgres_rows_functions_and_dollar_strings(postgres: CorpusDatabase) -> None:
    found = references(
        "SELECT row_to_json(t), g.n, k.value FROM tune t, generate_series(1, 3) AS g(n), jsonb_each(t.name::jsonb) k"
        " WHERE t.name ~ $q$a'b$q$ AND t.studio = E'x'",
        postgres,
    )
    assert (found.tables, found.missing_columns) == (("tune",), ())
    assert found.literals == ("1", "3", "a'b", "x")


@pytest.mark.parametrize("sql", ["", "SELECT FROM WHERE", "SELECT 1; SELECT 2", "DELETE FROM tune"])
def test_what_is_no_query_has_no_references(database: CorpusDatabase, sql: str) -> None:
    with pytest.raises(ValueError, match="references cannot be told"):
        references(sql, database)


def test_no_references_is_the_empty_record() -> None:
    assert References().literals == ()
