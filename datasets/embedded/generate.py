"""Writes the CSV tables of the three embedded corpora from fixed seeds.

Run `python datasets/embedded/generate.py [folder]` to write the tables below `folder` (default: this folder). The same
code writes the same bytes on every machine; tests/test_embedded.py compares a fresh run with the committed files.
Column names and their order come from each database's `schema.sql`, rows from `rows_spider.py`, `rows_bird.py` and
`rows_livesqlbench.py`.
"""

from __future__ import annotations

import csv
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import rows_bird  # noqa: E402
import rows_livesqlbench  # noqa: E402
import rows_spider  # noqa: E402
from pools import Tables  # noqa: E402

CORPORA: dict[str, dict[str, Callable[[], Tables]]] = {
    "spider": rows_spider.DATABASES,
    "bird": rows_bird.DATABASES,
    "livesqlbench": rows_livesqlbench.DATABASES,
}


def columns_of(schema_sql: str) -> dict[str, list[str]]:
    """Table name to its column names, in the order of the schema (SQLite's parser reads both dialects used here)."""
    con = sqlite3.connect(":memory:")
    con.executescript(schema_sql)
    names = [row[0] for row in con.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid")]
    found = {name: [row[1] for row in con.execute(f'PRAGMA table_info("{name}")')] for name in names}
    con.close()
    return found


def write(out: Path) -> None:
    """Write `<out>/<corpus>/<database>/tables/<table>.csv` for every database; an empty field means NULL."""
    for corpus, databases in CORPORA.items():
        for name, make in databases.items():
            columns = columns_of((HERE / corpus / name / "schema.sql").read_text(encoding="utf-8"))
            tables = make()
            if set(tables) != set(columns):
                raise ValueError(f"{corpus}/{name}: rows for {sorted(tables)}, but schema.sql has {sorted(columns)}")
            folder = out / corpus / name / "tables"
            folder.mkdir(parents=True, exist_ok=True)
            for table, rows in tables.items():
                wrong = [row for row in rows if len(row) != len(columns[table])]
                if wrong:
                    raise ValueError(f"{corpus}/{name}.{table}: {wrong[0]} does not fit the columns {columns[table]}")
                with (folder / f"{table}.csv").open("w", encoding="utf-8", newline="") as handle:
                    writer = csv.writer(handle, lineterminator="\n")
                    writer.writerow(columns[table])
                    writer.writerows(rows)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
