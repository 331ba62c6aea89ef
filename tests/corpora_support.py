"""Tiny corpora in the official layouts, written by the tests themselves; a test then breaks what it is about."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tasks_lib.corpora.model import CorpusDatabase
from tasks_lib.corpora.sqlite_schema import read_schema
from tasks_lib.protocol.vocabulary import Corpus, Engine
from tasks_lib.store.keys import sha256_file
from tasks_lib.store.schemas import UNITS

HARBOUR = """
CREATE TABLE berth (berth_no INTEGER PRIMARY KEY, quay TEXT, "Max Length" REAL);
INSERT INTO berth VALUES (1, 'north', 40.5), (2, 'north', 12), (3, 'south', 30);
CREATE TABLE stay (stay_no INTEGER PRIMARY KEY, berth_no INTEGER, ship TEXT, arrived DATE,
                   FOREIGN KEY (berth_no) REFERENCES berth (berth_no));
INSERT INTO stay VALUES (1, 1, 'Petrel', '2031-05-02'), (2, 1, 'Auk', '2031-05-09'), (3, 3, 'Petrel', '2031-06-01');
"""
ORCHARD = """
CREATE TABLE tree (tree_no INTEGER PRIMARY KEY, sort TEXT, planted INTEGER);
INSERT INTO tree VALUES (1, 'pear', 2001), (2, 'plum', 2010), (3, 'pear', 2012);
"""
KENNEL_DUMP = """--
SET search_path = '';
CREATE TYPE public.coat_enum AS ENUM (
    'short',
    'long'
);
CREATE TABLE public.breeds (
    breed_key text NOT NULL,
    coat public.coat_enum
);
ALTER TABLE public.breeds OWNER TO root;
CREATE TABLE public."Dogs" (
    dog_key bigint NOT NULL,
    breed_ref text,
    "Weight" numeric(6,2),
    born date,
    traits jsonb
);
INSERT INTO public.breeds (breed_key, coat) VALUES ('whippet', 'short');
INSERT INTO public.breeds (breed_key, coat) VALUES ('saluki; it''s
CREATE TABLE public.trap (nothing text);
', 'long');
COPY public."Dogs" (dog_key, breed_ref, "Weight", born, traits) FROM stdin;
1	whippet	12.50	2029-01-03	{"calm": true}
2	whippet	\\N	2030-07-11	{"calm": false}
\\.
ALTER TABLE ONLY public.breeds
    ADD CONSTRAINT breeds_pkey PRIMARY KEY (breed_key);
ALTER TABLE ONLY public."Dogs"
    ADD CONSTRAINT dogs_pkey PRIMARY KEY (dog_key);
ALTER TABLE ONLY public."Dogs"
    ADD CONSTRAINT dogs_breed FOREIGN KEY (breed_ref) REFERENCES public.breeds(breed_key);
"""


def write_sqlite(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return path


def write_json(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1), "utf-8")
    return path


def write_lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def schema_entry(name: str, table: str, columns: dict[str, str]) -> dict[str, Any]:
    """An entry of tables.json: one table, its columns with their words."""
    return {
        "db_id": name,
        "table_names_original": [table],
        "table_names": [table],
        "column_names_original": [[-1, "*"], *([0, column] for column in columns)],
        "column_names": [[-1, "*"], *([0, text] for text in columns.values())],
        "column_types": ["text"] * (len(columns) + 1),
        "primary_keys": [],
        "foreign_keys": [],
    }


BERTH = {"berth_no": "berth number", "quay": "quay", "Max Length": "longest ship in metres"}
TREE = {"tree_no": "tree number", "sort": "kind of fruit", "planted": "planted"}


def write_spider(root: Path) -> Path:
    write_sqlite(root / "database/harbour_1/harbour_1.sqlite", HARBOUR)
    write_sqlite(root / "database/orchard/orchard.sqlite", ORCHARD)
    write_json(root / "tables.json", [schema_entry("harbour_1", "berth", BERTH), schema_entry("orchard", "tree", TREE)])
    ask = "How many berths are there?"
    write_json(
        root / "train_spider.json", [{"db_id": "harbour_1", "question": ask, "query": "SELECT count(*) FROM berth"}]
    )
    write_json(
        root / "train_others.json",
        [{"db_id": "orchard", "question": "Which sorts grow?", "query": "SELECT DISTINCT sort FROM tree"}],
    )
    write_json(
        root / "dev.json",
        [
            {"db_id": "orchard", "question": "Pear trees?", "query": 'SELECT tree_no FROM tree WHERE sort = "pear"'},
            {"db_id": "harbour_1", "question": "Ships?", "query": "SELECT ship FROM stay ORDER BY stay_no"},
        ],
    )
    return root


def write_bird(root: Path) -> Path:
    for split, name, script, table, columns in (
        ("dev", "harbour_1", HARBOUR, "berth", BERTH),
        ("train", "orchard", ORCHARD, "tree", TREE),
    ):
        write_sqlite(root / split / f"{split}_databases" / name / f"{name}.sqlite", script)
        write_json(root / split / f"{split}_tables.json", [schema_entry(name, table, columns)])
        question = {
            "question_id": 7,
            "db_id": name,
            "question": f"How many rows has the {table} list?",
            "evidence": "list refers to the table",
            "SQL": f"SELECT COUNT(*) FROM {table}",
            "difficulty": "simple",
        }
        write_json(root / split / f"{split}.json", [question])
    return root


def write_livesqlbench(root: Path, names: tuple[str, ...] = ("kennel",), dumps: tuple[str, ...] = ("kennel",)) -> Path:
    for name in names:
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}_schema.txt").write_text("CREATE TABLE breeds (breed_key text);\n", "utf-8")
        write_json(
            folder / f"{name}_column_meaning_base.json",
            {
                f"{name}|breeds|breed_key": "TEXT. Name of the breed.",
                f"{name}|dogs|traits": {
                    "column_meaning": "JSONB. Traits.",
                    "fields_meaning": {"calm": "BOOLEAN. Calm?"},
                },
            },
        )
        write_lines(
            folder / f"{name}_kb.jsonl",
            [{"id": 0, "knowledge": "Light Dog", "description": "A dog under 15 kg.", "definition": "Weight < 15"}],
        )
    (root / "dumps").mkdir(exist_ok=True)
    for name in dumps:
        (root / "dumps" / f"{name}_full.sql").write_text(KENNEL_DUMP, "utf-8")
    record = {
        "instance_id": f"{names[0]}_1",
        "selected_database": names[0],
        "query": "How many dogs are light?",
        "sol_sql": [],
        "external_knowledge": [0],
        "category": "Query",
    }
    write_lines(root / "livesqlbench_data.jsonl", [record])
    unit = {
        "unit_id": "own_01",
        "db_id": names[0],
        "question": "How many dogs are there?",
        "sql": 'SELECT COUNT(*) FROM "Dogs"',
        "difficulty": "easy",
    }
    write_lines(root / "units.jsonl", [unit])
    return root


def sqlite_database(path: Path, script: str, corpus: Corpus = Corpus.SPIDER) -> CorpusDatabase:
    """A database as a reader would give it, from a script."""
    write_sqlite(path, script)
    tables, ddl = read_schema(corpus, path, {}, {}, True)
    return CorpusDatabase(
        corpus, path.stem, Engine.SQLITE, path, path.name, sha256_file(path), "original", path.stem, tables, ddl
    )


def check_table(rows: list[dict[str, Any]]) -> None:
    """The rows fit the fixed Arrow schema of `units`, nothing is null and the key is unique."""
    table = pa.Table.from_pylist(rows, UNITS.schema)
    table.validate(full=True)
    assert not [name for name in table.column_names if table[name].null_count]
    assert len({row["unit_id"] for row in rows}) == len(rows) > 0


@contextmanager
def postgres_folder() -> Iterator[Path]:
    """A data folder for the embedded server. Not below pytest's own, which is closed to the user the server runs as."""
    made = Path(tempfile.mkdtemp(prefix="dsa-pg-", dir="/tmp"))
    try:
        yield made / "data"
    finally:
        shutil.rmtree(made)


def real(corpus: str) -> Path:
    """Folder of a real corpus; skips without DSABENCH_DATA and fails when the data is not there."""
    if "DSABENCH_DATA" not in os.environ:
        pytest.skip("DSABENCH_DATA is not set")
    folder = Path(os.environ["DSABENCH_DATA"]) / corpus
    assert folder.is_dir(), f"DSABENCH_DATA is set but {folder} is missing"
    return folder


def part_of_spider(folder: Path, step: int = 3) -> Path:
    """Every `step`-th database of published Spider with its questions, linked below `folder`: a real corpus that builds fast."""
    root = real("spider")
    kept = set(sorted(path.name for path in (root / "database").iterdir() if path.is_dir())[::step])
    (folder / "database").mkdir(parents=True)
    for name in kept:
        (folder / "database" / name).symlink_to(root / "database" / name)
    for name in ("tables.json", "dev.json", "train_spider.json", "train_others.json"):
        records = json.loads((root / name).read_text("utf-8"))
        write_json(folder / name, [record for record in records if record["db_id"] in kept])
    return folder
