"""PRIVATE. How a database is described: in words for the catalog, as DDL for data agents, as a handle for running SQL.

Belongs here: those three views of a CorpusDatabase, deterministic functions of it. Does not belong here: public ids
(`catalog.identities` makes them) or anything taken from questions and gold SQL.
"""

from __future__ import annotations

import re
import textwrap

from tasks_lib.corpora.files import words
from tasks_lib.corpora.model import ColumnInfo, CorpusDatabase, TableInfo
from tasks_lib.corpora.sqlite_schema import quoted
from tasks_lib.protocol.records import DatabaseHandle
from tasks_lib.protocol.vocabulary import Engine

SCHEMA_CARD = "schema_card@1"
"""Name and version of the card text: frozen, a change of `schema_card` raises it."""
_MEANING_CHARACTERS = 160


def schema_card(database: CorpusDatabase) -> str:
    """Return one paragraph of words about a database: title, then each table with its columns and their meanings.

    Nothing is taken from the data itself, and names stand in it as words only. Long meanings are cut.
    """
    tables = [f"{words(table.name)} ({', '.join(map(_column_words, table.columns))})" for table in database.tables]
    return f"{database.title}. It holds {'; '.join(tables) or 'no tables'}."


def _column_words(column: ColumnInfo) -> str:
    name = words(column.name) or column.name
    if not column.meaning:
        return name
    return f"{name}: {textwrap.shorten(column.meaning, _MEANING_CHARACTERS, placeholder=' …').rstrip('.')}"


def schema_text(database: CorpusDatabase) -> str:
    """Return the schema that data agents see: CREATE TABLE statements, the meaning of a column as a comment behind it.

    Names are spelled as the engine wants them, quoted only where it asks for that. The physical name of the database and
    its title do not occur; row counts and values do not either.
    """
    return "\n\n".join(_table_text(database.engine, table) for table in database.tables) + "\n"


def _table_text(engine: Engine, table: TableInfo) -> str:
    keys = [column for column in table.columns if column.primary]
    parts = []
    for column in table.columns:
        single = " PRIMARY KEY" if keys == [column] else ""
        parts.append((f"{identifier(engine, column.name)} {column.type}".rstrip() + single, column.meaning))
    if len(keys) > 1:
        parts.append((f"PRIMARY KEY ({', '.join(identifier(engine, column.name) for column in keys)})", ""))
    for column in table.columns:
        if column.references:
            target, target_column = (identifier(engine, name) for name in column.references)
            parts.append((f"FOREIGN KEY ({identifier(engine, column.name)}) REFERENCES {target} ({target_column})", ""))
    lines = []
    for at, (text, meaning) in enumerate(parts):
        comma = "," if at + 1 < len(parts) else ""
        lines.append(f"    {text}{comma}" + (f" -- {meaning}" if meaning else ""))
    kind = "VIEW" if table.view else "TABLE"
    return f"CREATE {kind} {identifier(engine, table.name)} (\n" + "\n".join(lines) + "\n);"


_PLAIN = {Engine.SQLITE: re.compile(r"[A-Za-z_][A-Za-z0-9_]*"), Engine.POSTGRES: re.compile(r"[a-z_][a-z0-9_]*")}
_RESERVED = frozenset(
    """add all alter analyse analyze and any array as asc asymmetric authorization between both by case cast check collate
    collation column commit concurrently constraint create cross current_catalog current_date current_role current_schema
    current_time current_timestamp current_user default deferrable delete desc distinct do drop else end escape except
    exists false fetch for foreign freeze from full grant group having ilike in index initially inner insert intersect
    into is isnull join lateral leading left like limit localtime localtimestamp natural not nothing notnull null offset
    on only or order outer overlaps placing primary references returning right select session_user set similar some
    symmetric system_user table tablesample then to trailing transaction true union unique update user using values
    variadic verbose when where window with""".split()  # noqa: SIM905 - a hundred quoted words are harder to read
)
"""Words that SQLite or PostgreSQL takes for syntax where a name could stand."""


def identifier(engine: Engine, name: str) -> str:
    """Return `name` as it must be written in SQL of the engine: in double quotes unless it is plain and no reserved word."""
    plain = _PLAIN[engine].fullmatch(name) and name.lower() not in _RESERVED
    return name if plain else quoted(name)


def handle(database: CorpusDatabase, database_id: str) -> DatabaseHandle:
    """Return how to reach the database under its public id. Rows of a replica may not be shown to executors."""
    return DatabaseHandle(
        database_id=database_id,
        corpus=database.corpus,
        engine=database.engine,
        location=str(database.path),
        digest=database.digest,
        schema_text=schema_text(database),
        knowledge=database.knowledge,
        samples=database.origin != "replica",
    )
