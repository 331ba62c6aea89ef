"""Small databases of ferries with real SQLite files, and the catalog built from them, for the catalog and RouteEnv tests."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tasks_lib.catalog import routedb
from tasks_lib.catalog.identities import Identities
from tasks_lib.corpora.model import ColumnInfo, CorpusDatabase, TableInfo
from tasks_lib.protocol.vocabulary import Corpus, Engine
from tasks_lib.store.artifacts import write_file
from tasks_lib.store.schemas import TABLES


def ferries(
    folder: Path,
    name: str,
    *,
    origin: str = "original",
    port: str = "Brindal",
    corpus: Corpus = Corpus.SPIDER,
    rows: int = 40,
) -> CorpusDatabase:
    path = folder / f"{corpus}-{name}.sqlite"
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE harbour (harbour_id INTEGER PRIMARY KEY, port_name TEXT, region TEXT, depth REAL)")
    connection.execute(
        "CREATE TABLE sailing (sailing_id INTEGER, harbour_id INTEGER, departs DATE, contact_email TEXT)"
    )
    for i in range(rows):
        value = f"{port} {'north' if i % 2 else 'south'} {i}"
        connection.execute("INSERT INTO harbour VALUES (?, ?, ?, ?)", (i, value, f"{port} coast", i / 2))
        connection.execute("INSERT INTO sailing VALUES (?, ?, '2021-05-01', ?)", (i, i, f"{port.lower()}@sea.example"))
    connection.commit()
    connection.close()
    harbour = TableInfo(
        "harbour",
        (
            ColumnInfo("harbour_id", "INTEGER", primary=True, distinct=rows),
            ColumnInfo("port_name", "TEXT", "official name of the port", examples=(f"{port} north 1",), distinct=rows),
            ColumnInfo("region", "TEXT", examples=(f"{port} coast",), distinct=2),
            ColumnInfo("depth", "REAL", "depth at low tide in metres", value_range="0.0..19.5", distinct=rows),
        ),
        rows,
    )
    sailing = TableInfo(
        "sailing",
        (
            ColumnInfo("sailing_id", "INTEGER", primary=True, distinct=rows),
            ColumnInfo("harbour_id", "INTEGER", references=("harbour", "harbour_id"), distinct=rows),
            ColumnInfo("departs", "DATE", examples=("2021-05-01",), value_range="2021-05-01..2021-05-01", distinct=1),
            ColumnInfo("contact_email", "TEXT", examples=(f"{port.lower()}@sea.example",), distinct=1),
        ),
        rows,
    )
    return CorpusDatabase(
        corpus=corpus,
        name=name,
        engine=Engine.SQLITE,
        path=path,
        relative_path=path.name,
        digest="0" * 64,
        origin=origin,
        title=f"{name} ferries and harbours",
        tables=(harbour, sailing),
        ddl="",
    )


def publish(databases: list[CorpusDatabase], out: Path, key: bytes = b"salt") -> Path:
    """Build the catalog and write its public Parquet files into `out`."""
    for name, rows in routedb.build(databases, Identities(key)).items():
        write_file(TABLES[name], out / f"{name}.parquet", rows)
    return out
