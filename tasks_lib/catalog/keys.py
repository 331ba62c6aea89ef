"""PRIVATE. Keys between the tables of one database: those the schema declares, and plain ones that it leaves out.

A key that is not declared is told from names (`order.customer_id` and the primary key of `customer`), and where rows were read
also from values: it is dropped when the values of the column are not found in the key. Which words state it is in `relations`.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from tasks_lib.catalog.columns import is_numeric
from tasks_lib.catalog.values import open_sqlite, synthetic
from tasks_lib.catalog.wording import words
from tasks_lib.corpora.model import ColumnInfo, CorpusDatabase, TableInfo
from tasks_lib.corpora.sqlite_schema import quoted
from tasks_lib.protocol.vocabulary import Engine

ENDINGS = ("id", "code", "key", "number", "no", "abbreviation")
"""Last word of a column that can be a key without being declared."""
CHECKED = 1000
"""Different values of a column that are looked for in the key."""
FOUND = 0.9
"""Share of them that must be there."""


@dataclass(frozen=True, slots=True)
class Key:
    """Column `table`.`column` refers to `target_table`.`target_column`. `share`: how many of its values were found there, in words;
    empty where it is declared or no rows were read."""

    table: str
    column: str
    target_table: str
    target_column: str
    declared: bool
    share: str = ""


def keys(database: CorpusDatabase) -> list[Key]:
    """Declared keys in declared order, then undeclared ones likewise. A target that does not exist gives no key."""
    known = {(t.name.lower(), c.name.lower()): (t.name, c.name) for t in database.tables for c in t.columns}
    found = []
    for table in database.tables:
        for column in table.columns:
            if column.references:
                target = known.get((column.references[0].lower(), column.references[1].lower()))
                if target is not None:
                    found.append(Key(table.name, column.name, *target, declared=True))
    return [*found, *_supported(database, list(_plain(database)))]


def _plain(database: CorpusDatabase) -> Iterator[Key]:
    """Keys by name: a column named like the only primary key of that name, or like a table and its primary key."""
    targets: defaultdict[str, list[tuple[TableInfo, ColumnInfo]]] = defaultdict(list)
    for table in database.tables:
        primary = [column for column in table.columns if column.primary]
        if len(primary) != 1 or table.view:
            continue
        name, owner = words(primary[0].name), words(table.name)
        if name in ENDINGS:
            names = {f"{one} {name}" for one in (owner, owner.removesuffix("s"), owner.removesuffix("es"))}
        else:
            names = {name} if " " in name else set()
        for one in sorted(names):
            targets[one].append((table, primary[0]))
    for table in database.tables:
        own = [column for column in table.columns if column.primary]
        for column in table.columns:
            name = words(column.name)
            if column.references or name.rpartition(" ")[2] not in ENDINGS or own == [column]:
                continue
            there = [(t, k) for t, k in targets.get(name, ()) if t is not table]
            if len(there) == 1 and is_numeric(there[0][1]) == is_numeric(column):
                target, primary_key = there[0]
                yield Key(table.name, column.name, target.name, primary_key.name, declared=False)


def _supported(database: CorpusDatabase, found: list[Key]) -> Iterator[Key]:
    """Keys that the rows do not speak against. Rows are read of SQLite files that hold the corpus's own."""
    if not found or synthetic(database) or database.engine is not Engine.SQLITE:
        yield from found
        return
    with closing(open_sqlite(database)) as connection:
        for key in found:
            total, there = _counted(connection, key)
            if total == 0:
                yield key
            elif there / total >= FOUND:
                yield Key(
                    key.table, key.column, key.target_table, key.target_column, False, f"{there} of {total} values"
                )


def _counted(connection: sqlite3.Connection, key: Key) -> tuple[int, int]:
    """(different values looked at, those of them that the target holds)."""
    column, target = quoted(key.column), quoted(key.target_column)
    rows = connection.execute(
        f"SELECT COUNT(*), COUNT(t.v) FROM (SELECT DISTINCT {column} AS v FROM {quoted(key.table)} "
        f"WHERE {column} IS NOT NULL ORDER BY 1 LIMIT {CHECKED}) AS s "
        f"LEFT JOIN (SELECT DISTINCT {target} AS v FROM {quoted(key.target_table)}) AS t ON t.v = s.v"
    )
    total, there = rows.fetchone()
    return int(total), int(there)
