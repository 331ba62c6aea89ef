"""PRIVATE. The databases of a finished release, read back from its own files as gates and audits want them.

Belongs here: names from the schema that data agents are shown, descriptions of columns from the catalog. Does not belong here:
what is proven (`certificate`) or restated (`review.restating`) with them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from tasks_lib.contracts.release import Release, ReleaseDamaged
from tasks_lib.corpora.model import ColumnInfo, CorpusDatabase, TableInfo
from tasks_lib.protocol.vocabulary import Corpus, Engine
from tasks_lib.store.artifacts import read_file
from tasks_lib.store.schemas import CAT_COLUMNS, CAT_TABLES


def databases_of(release: Release, corpus: Corpus) -> list[CorpusDatabase]:
    """The databases of a corpus: names as the schema of data agents spells them (the catalog calls a table otherwise that has
    the name of its database), types, keys and meanings of the columns from the catalog.

    Raises:
        ReleaseDamaged: schema and catalog hold different tables or columns.
    """
    catalog = release.public / "catalog"
    columns: dict[str, list[dict[str, Any]]] = {}
    for row in read_file(CAT_COLUMNS, catalog / "cat_columns.parquet").sort("table_id", "ordinal").to_dicts():
        columns.setdefault(row["table_id"], []).append(row)
    tables: dict[str, list[str]] = {}
    for row in read_file(CAT_TABLES, catalog / "cat_tables.parquet").sort("database_id", "ordinal").to_dicts():
        tables.setdefault(row["database_id"], []).append(row["table_id"])

    def described(public_id: str, text: str) -> tuple[TableInfo, ...]:
        found, named = schema(text), [columns.get(table_id, []) for table_id in tables.get(public_id, [])]
        if [len(table.columns) for table in found] != [len(rows) for rows in named]:
            raise ReleaseDamaged(
                f"schema and catalog of {public_id} hold different tables or columns; build the release again."
            )
        return tuple(
            replace(table, columns=tuple(map(_column, table.columns, rows)))
            for table, rows in zip(found, named, strict=True)
        )

    return [
        CorpusDatabase(
            corpus=corpus,
            name=row["database"],
            engine=Engine(row["engine"]),
            path=Path(release.handles[row["database_id"]].location),
            relative_path=row["relative_path"],
            digest=row["digest"],
            origin=row["origin"],
            title=row["title"],
            tables=described(row["database_id"], row["schema_text"]),
            ddl="",
            knowledge=row["knowledge"],
        )
        for row in release.databases.filter(pl.col("corpus") == corpus.value).iter_rows(named=True)
    ]


def _column(column: ColumnInfo, row: Mapping[str, Any]) -> ColumnInfo:
    # Where the corpus describes no column, the catalog reads its name; whoever reads meanings does that by itself.
    meaning = "" if row["provenance"].startswith("name of the column") else row["meaning"]
    return replace(column, type=row["type"], meaning=meaning, primary=row["key"] == "primary")


_NAME = r"(\"(?:[^\"]|\"\")*\"|\S+)"
_TABLE = re.compile(rf"CREATE (TABLE|VIEW) {_NAME} \($")
_COLUMN = re.compile(rf"    (?!PRIMARY KEY \(|FOREIGN KEY \(){_NAME}")


def schema(schema_text: str) -> tuple[TableInfo, ...]:
    """Tables and columns of a text that `corpora.cards.schema_text` wrote: names only, as the engine spells them.

    Raises ValueError for a line that it would not have written.
    """
    found: list[TableInfo] = []
    columns: list[ColumnInfo] = []
    for line in schema_text.splitlines():
        if table := _TABLE.match(line):
            columns = []
            found.append(TableInfo(_unquoted(table[2]), (), 0, table[1] == "VIEW"))
        elif column := _COLUMN.match(line):
            columns.append(ColumnInfo(_unquoted(column[1]).removesuffix(","), ""))
        elif line == ");":
            found[-1] = replace(found[-1], columns=tuple(columns))
        elif line and not line.startswith("    "):
            raise ValueError(
                f"the schema text holds {line[:60]!r}, expected CREATE statements; build the release again."
            )
    return tuple(found)


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
