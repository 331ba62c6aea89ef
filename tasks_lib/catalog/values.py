"""PRIVATE. Values worth finding a database by: the more frequent short texts of text columns, with their counts.

SQLite files are read here read-only, and PostgreSQL databases where the caller can connect to them; where nothing can be read the
reader's examples stand in, uncounted. Numbers are no entities, codes that are written in digits alone included: the same digits
stand in every database, and ranges and examples of the column tell them. Codes that hold a letter are entities.
Nothing is ever read of a replica: its rows are made from gold queries (PROTOCOL 6).
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

from tasks_lib.catalog.columns import is_numeric
from tasks_lib.catalog.wording import private_column, safe_value
from tasks_lib.corpora.model import ColumnInfo, CorpusDatabase, TableInfo
from tasks_lib.corpora.sqlite_schema import quoted
from tasks_lib.protocol.vocabulary import Engine
from tasks_lib.sql.sqlite import uri

PER_COLUMN = 200
PER_DATABASE = 1500
ROWS = 100_000
"""Rows of a table that are counted, from its beginning."""

Connect = Callable[[CorpusDatabase], str]
"""Connection string of the loaded PostgreSQL database, as a reader who may change nothing."""

_NO_NAMES = re.compile(r"json|date|time|bool|bytea|interval|uuid|.*\[\]", re.I)

COUNTED = f"distinct text values of the column, counted over the first {ROWS} rows at most"
EXAMPLE = "example value of the column; not counted, so the count is 0"


@dataclass(frozen=True, slots=True)
class EntityValue:
    """A value of `table`.`column` with the number of rows that hold it (0 where not counted)."""

    table: str
    column: str
    value: str
    count: int
    provenance: str


def synthetic(database: CorpusDatabase) -> bool:
    """Whether the rows of a database were made up after the gold queries."""
    return database.origin == "replica"


def examples(database: CorpusDatabase, column: ColumnInfo) -> tuple[str, ...]:
    """Example values of a column that may be shown."""
    if synthetic(database) or private_column(column.name, column.meaning):
        return ()
    return tuple(value for value in column.examples if safe_value(value))


def entities(database: CorpusDatabase, connect: Connect | None = None) -> list[EntityValue]:
    """Entity values of a database, at most 200 a column and 1,500 in all, the columns taking turns.

    Order is by declared column, then by falling count, then by value. connect: how PostgreSQL databases are reached; without it
    their values are the reader's examples.
    """
    if synthetic(database):
        return []
    columns = [
        (table, column)
        for table in database.tables
        for column in table.columns
        if not is_numeric(column) and not private_column(column.name, column.meaning)
    ]
    if database.engine is Engine.SQLITE:
        found = list(_counted(database, columns))
    elif connect is not None and database.loaded:
        found = list(_counted_there(connect(database), columns))
    else:
        found = list(_shown(database, columns))
    share = _shares([len(values) for values in found], PER_DATABASE)
    return [value for values, n in zip(found, share, strict=True) for value in values[:n]]


def _shares(sizes: list[int], total: int) -> list[int]:
    """How many each may keep so that all keep at most `total` and small ones keep everything."""
    low, high = 0, max(sizes, default=0)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(size, middle) for size in sizes) <= total:
            low = middle
        else:
            high = middle - 1
    return [min(size, low) for size in sizes]


def _fits(value: str) -> bool:
    return safe_value(value) and len(value.strip()) > 1 and any(c.isalpha() for c in value)


def _shown(database: CorpusDatabase, columns: list[tuple[TableInfo, ColumnInfo]]) -> Iterator[list[EntityValue]]:
    for table, column in columns:
        yield [EntityValue(table.name, column.name, v, 0, EXAMPLE) for v in examples(database, column) if _fits(v)]


def open_sqlite(database: CorpusDatabase) -> sqlite3.Connection:
    """The file of a SQLite database, read-only; text that is no UTF-8 is read with marks in place of what is damaged."""
    connection = sqlite3.connect(uri(database.path), uri=True)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    return connection


def _counted(database: CorpusDatabase, columns: list[tuple[TableInfo, ColumnInfo]]) -> Iterator[list[EntityValue]]:
    with closing(open_sqlite(database)) as connection:
        for table, column in columns:
            name = quoted(column.name)
            rows = connection.execute(
                f"SELECT {name}, COUNT(*) FROM (SELECT {name} FROM {quoted(table.name)} LIMIT {ROWS}) "
                f"WHERE typeof({name}) = 'text' AND length({name}) BETWEEN 2 AND 60 "
                f"GROUP BY {name} COLLATE BINARY ORDER BY 2 DESC, 1 COLLATE BINARY LIMIT {3 * PER_COLUMN}"
            )
            kept = [EntityValue(table.name, column.name, v, n, COUNTED) for v, n in rows if _fits(v)]
            yield kept[:PER_COLUMN]


def _counted_there(dsn: str, columns: list[tuple[TableInfo, ColumnInfo]]) -> Iterator[list[EntityValue]]:
    """The same of a PostgreSQL database: columns of text and of named types; documents, dates and flags hold no names."""
    import psycopg

    # One reader from the first row on: the first rows of a table are then the same ones every time.
    options = "-c synchronize_seqscans=off -c max_parallel_workers_per_gather=0"
    with psycopg.connect(dsn, autocommit=True, options=options) as connection:
        for table, column in columns:
            if _NO_NAMES.match(column.type):
                yield []
                continue
            name = quoted(column.name)
            rows = connection.execute(
                f"SELECT v, COUNT(*) FROM (SELECT {name}::text AS v FROM public.{quoted(table.name)} LIMIT {ROWS}) AS s "
                f'WHERE length(v) BETWEEN 2 AND 60 GROUP BY v ORDER BY 2 DESC, v COLLATE "C" LIMIT {3 * PER_COLUMN}'.encode()
            ).fetchall()
            kept = [EntityValue(table.name, column.name, v, n, COUNTED) for v, n in rows if _fits(v)]
            yield kept[:PER_COLUMN]
