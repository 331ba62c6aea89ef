"""PRIVATE. The schema of an SQLite file as the engine holds it, and what its columns hold.

Belongs here: introspection of one file over a read-only connection. Does not belong here: which files a corpus has, or
the meaning of a column (readers hand it in). The file is the truth; schema files of a corpus only add words and foreign
keys that the file does not declare.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from tasks_lib.corpora.files import CorpusError
from tasks_lib.corpora.model import ColumnInfo, TableInfo
from tasks_lib.corpora.values import SAMPLE_ROWS, ColumnValues, column_values
from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.sql.faults import DatabaseDamaged, DatabaseMissing
from tasks_lib.sql.sqlite import check_file, uri

ColumnKey = tuple[str, str]
"""(table, column), both lower case: SQLite compares names without case."""


def read_schema(
    corpus: Corpus,
    path: Path,
    meanings: Mapping[ColumnKey, str],
    links: Mapping[ColumnKey, ColumnKey],
    with_values: bool,
) -> tuple[tuple[TableInfo, ...], str]:
    """Return the tables and views of a file in declared order, and its CREATE statements.

    Args:
        meanings: what a column means, in words. links: foreign keys to add where the file declares none.
        with_values: False for replicas: no row is then read but for counting.

    Raises:
        CorpusError: the file is missing, no SQLite file, cut short, or breaks while it is read.
    """
    try:
        check_file(path)
        with closing(sqlite3.connect(uri(path), uri=True)) as connection:
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            return _read(connection, meanings, links, with_values)
    except DatabaseMissing:
        raise CorpusError(corpus, path, "an SQLite database", "no such file") from None
    except DatabaseDamaged as fault:
        raise CorpusError(corpus, path, "an SQLite database", f"a damaged file ({fault})") from fault
    except sqlite3.Error as error:
        raise CorpusError(corpus, path, "a whole SQLite database", f"one that breaks while read ({error})") from error


def _read(
    connection: sqlite3.Connection,
    meanings: Mapping[ColumnKey, str],
    links: Mapping[ColumnKey, ColumnKey],
    with_values: bool,
) -> tuple[tuple[TableInfo, ...], str]:
    listed = connection.execute(
        "SELECT m.name, m.type, m.sql FROM sqlite_master AS m JOIN pragma_table_list AS l ON l.name = m.name"
        " WHERE l.schema = 'main' AND l.type IN ('table', 'view', 'virtual') AND m.type IN ('table', 'view')"
        " AND m.name NOT LIKE 'sqlite@_%' ESCAPE '@' ORDER BY m.rowid"
    ).fetchall()
    columns = {name: _columns(connection, name, kind == "view") for name, kind, _ in listed}
    spelled = {name.lower(): name for name, described in columns.items() if described}
    tables = []
    for name, kind, _ in listed:
        if not columns[name]:
            continue  # a view over something that is not there: the engine cannot read it either
        declared = _foreign_keys(connection, name, columns, spelled)
        view = kind == "view"
        held = [ColumnValues() for _ in columns[name]]
        if with_values and not view:
            held = _values(connection, name, [column for column, *_ in columns[name]])
        infos = []
        for (column, type_, primary), values in zip(columns[name], held, strict=True):
            key = (name.lower(), column.lower())
            infos.append(
                ColumnInfo(
                    name=column,
                    type=type_,
                    meaning=meanings.get(key, ""),
                    primary=primary > 0,
                    references=declared.get(column.lower()) or _resolved(links.get(key), columns, spelled),
                    examples=values.examples,
                    value_range=values.value_range,
                    distinct=values.distinct,
                )
            )
        tables.append(TableInfo(name, tuple(infos), 0 if view else _count(connection, name), view))
    return tuple(tables), ";\n\n".join(sql.strip() for _, _, sql in listed if sql) + (";\n" if listed else "")


def quoted(name: str) -> str:
    """Return `name` as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _columns(connection: sqlite3.Connection, table: str, view: bool) -> list[tuple[str, str, int]]:
    # hidden = 1 marks the invisible columns of virtual tables; 2 and 3 are generated columns, which queries may name.
    query = "SELECT name, type, pk FROM pragma_table_xinfo(?) WHERE hidden <> 1 ORDER BY cid"
    try:
        return connection.execute(query, (table,)).fetchall()
    except sqlite3.OperationalError:
        if view:
            return []
        raise


def _foreign_keys(
    connection: sqlite3.Connection,
    table: str,
    columns: Mapping[str, list[tuple[str, str, int]]],
    spelled: Mapping[str, str],
) -> dict[str, tuple[str, str]]:
    """Foreign keys by lower-case column; a key without a named target column means the target's primary key."""
    found: dict[str, tuple[str, str]] = {}
    # SQLite numbers foreign keys from the last declared one; of two on one column the first declared is kept.
    query = 'SELECT seq, "table", "from", "to" FROM pragma_foreign_key_list(?) ORDER BY id, seq'
    for place, target, column, target_column in connection.execute(query, (table,)):
        real = spelled.get(target.lower())
        if real is None:
            continue
        if target_column is None:
            keys = sorted((pk, name) for name, _, pk in columns[real] if pk)
            target_column = keys[place][1] if place < len(keys) else None
        if target_column is not None and (pair := _resolved((real, target_column), columns, spelled)):
            found[column.lower()] = pair
    return found


def _resolved(
    pair: ColumnKey | None, columns: Mapping[str, list[tuple[str, str, int]]], spelled: Mapping[str, str]
) -> tuple[str, str] | None:
    """The pair as the file spells it, or None when the file has no such table or column."""
    if pair is None or (table := spelled.get(pair[0].lower())) is None:
        return None
    return next(((table, name) for name, *_ in columns[table] if name.lower() == pair[1].lower()), None)


def _count(connection: sqlite3.Connection, table: str) -> int:
    (count,) = connection.execute(f"SELECT COUNT(*) FROM {quoted(table)}").fetchone()
    return int(count)


def _values(connection: sqlite3.Connection, table: str, columns: list[str]) -> list[ColumnValues]:
    # Columns by name, not *: a generated column would else be missing or misplaced in old files.
    names = ", ".join(map(quoted, columns))
    rows = connection.execute(f"SELECT {names} FROM {quoted(table)} LIMIT {SAMPLE_ROWS}").fetchall()
    return [column_values(row[at] for row in rows) for at in range(len(columns))]
