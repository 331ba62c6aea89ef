"""PRIVATE. Writes the project's own corpora (`datasets/embedded`) in the official layouts, so that the readers read them.

Belongs here: `materialise`, the forms of `meta.yaml` and `questions.yaml`, building SQLite files and PostgreSQL dumps,
and the three layouts as their publishers lay them out. Does not belong here: inventing rows (`datasets/embedded/generate.py`)
and reading a corpus (`spider`, `bird`, `livesqlbench`).
"""

from __future__ import annotations

import csv
import fcntl
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Literal

import sqlglot
import yaml
from pydantic import BaseModel, ConfigDict, ValidationError
from sqlglot import exp

from tasks_lib.corpora.files import EMBEDDED_MARKER
from tasks_lib.protocol.vocabulary import Corpus, Engine
from tasks_lib.sql.guard import is_ordered
from tasks_lib.store.keys import code_digest, digest, sha256_file
from tasks_lib.store.settings import PROJECT_ROOT

SOURCE = PROJECT_ROOT / "datasets" / "embedded"
_MARKER_TEXT = "The databases below this folder were invented for this project; they are not the published ones.\n"

Value = str | int | float | None


class EmbeddedError(ValueError):
    """A file of `datasets/embedded` is missing or not of its form."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Column(_Strict):
    """Meaning of a column; `values` explains its codes (BIRD), `fields` the keys of a JSONB column (LiveSQLBench)."""

    meaning: str
    values: str = ""
    fields: dict[str, str] = {}


class _Knowledge(_Strict):
    id: int
    knowledge: str
    description: str
    definition: str
    type: str


class _Meta(_Strict):
    title: str
    columns: dict[str, dict[str, str | _Column]]
    knowledge: list[_Knowledge] = []

    def column(self, table: str, name: str) -> _Column:
        found = self.columns[table][name]
        return found if isinstance(found, _Column) else _Column(meaning=found)


class _Unit(_Strict):
    id: str
    question: str
    sql: str
    split: Literal["train", "dev"]
    difficulty: str
    evidence: str = ""
    knowledge: list[int] = []


class _Units(_Strict):
    units: list[_Unit]


@dataclass(frozen=True, slots=True)
class _Field:
    """A column as declared: its type as written, and its place (from 1) in the primary key, else 0."""

    name: str
    type: str
    required: bool
    key: int


@dataclass(frozen=True, slots=True)
class _Table:
    """`links`: (column, table, column) of each foreign key. `rows`: in file order, typed by the declared types."""

    name: str
    fields: tuple[_Field, ...]
    links: tuple[tuple[str, str, str], ...]
    rows: tuple[tuple[Value, ...], ...]

    @property
    def key(self) -> list[str]:
        return [field.name for field in sorted(self.fields, key=lambda f: f.key) if field.key]


@dataclass(frozen=True, slots=True)
class _Database:
    name: str
    schema: str
    meta: _Meta
    units: tuple[_Unit, ...]
    tables: tuple[_Table, ...]


def source_digest(source: Path = SOURCE) -> str:
    """sha256 hex over every file that the corpora are made from, rows of tables too."""
    return digest(_tree(source, "*"))


def materialise(out: Path, source: Path = SOURCE) -> dict[Corpus, Path]:
    """Write the three corpora below `out` and return the root of each: `<out>/<corpus>`.

    A root is built in a temporary folder and renamed when it is whole. `<out>/<corpus>.digest.json` beside it says from
    which inputs it was made and which bytes it holds: a root that still agrees is left alone, any other is built anew.

    Raises:
        EmbeddedError: a file below `source` is missing or not of its form; the message names it.
    """
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    return {corpus: _materialise(corpus, source.resolve() / corpus, out / corpus) for corpus in Corpus}


def _materialise(corpus: Corpus, source: Path, root: Path) -> Path:
    inputs = digest({"files": _tree(source, "*"), "code": code_digest("tasks_lib/corpora/embedded.py")})
    record = root.with_name(f"{corpus}.digest.json")
    with _locked(root.with_name(f".{corpus}.lock")):
        if _recorded(record) == {"inputs": inputs, "files": _tree(root, "*")}:
            return root
        databases = [_load(folder) for folder in sorted(source.iterdir()) if folder.is_dir()] if source.is_dir() else []
        if not databases:
            raise EmbeddedError(
                f"{source} holds no database folder, expected at least one; restore it from the project."
            )
        for left in root.parent.glob(f".{corpus}-*"):  # of a run that was killed; nobody else holds the lock
            shutil.rmtree(left)
        work = Path(tempfile.mkdtemp(prefix=f".{corpus}-", dir=root.parent))
        try:
            fresh = work / "root"
            _LAYOUTS[corpus](databases, fresh)
            _write_json(fresh / "titles.json", {database.name: database.meta.title for database in databases})
            _write(fresh / EMBEDDED_MARKER, _MARKER_TEXT)
            record.unlink(missing_ok=True)
            if root.exists():
                root.rename(work / "old")
            fresh.rename(root)
            _write_json(work / "record", {"inputs": inputs, "files": _tree(root, "*")})
            (work / "record").rename(record)
        finally:
            shutil.rmtree(work)
    return root


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Two processes never write one root at once: the second waits and finds the work done."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _recorded(path: Path) -> object:
    """The record, or None when it is missing or damaged: then the root counts as not done."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return None


def _tree(root: Path, pattern: str) -> dict[str, str]:
    """sha256 of every file below `root`, by relative path; a missing folder has none."""
    files = sorted(path for path in root.rglob(pattern) if path.is_file())
    return {path.relative_to(root).as_posix(): sha256_file(path) for path in files}


# ---- reading datasets/embedded


def _load(folder: Path) -> _Database:
    try:
        schema = (folder / "schema.sql").read_text("utf-8")
        meta = _Meta.model_validate(yaml.safe_load((folder / "meta.yaml").read_text("utf-8")))
        questions = yaml.safe_load((folder / "questions.yaml").read_text("utf-8"))
        units = _Units.model_validate({"units": questions}).units
        tables = tuple(_tables(folder, schema))
    except (OSError, sqlite3.Error, yaml.YAMLError, ValidationError) as error:
        raise EmbeddedError(
            f"{folder}: expected schema.sql, meta.yaml, questions.yaml and tables/*.csv as datasets/README.md says, "
            f"found a fault: {error}; restore the folder from the project."
        ) from error
    named = {table: sorted(columns) for table, columns in meta.columns.items()}
    if named != {table.name: sorted(field.name for field in table.fields) for table in tables}:
        raise EmbeddedError(f"{folder}/meta.yaml: expected every table and column of schema.sql once, found {named}.")
    return _Database(folder.name, schema, meta, tuple(units), tables)


def _tables(folder: Path, schema: str) -> Iterator[_Table]:
    """The declared tables in the order of the schema, with their rows; SQLite's parser reads both dialects used."""
    with closing(sqlite3.connect(":memory:")) as con:
        con.executescript(schema)
        names = [row[0] for row in con.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid")]
        for name in names:
            info = con.execute(f'PRAGMA table_info("{name}")').fetchall()
            fields = tuple(_Field(row[1], row[2], bool(row[3] or row[5]), row[5]) for row in info)
            keys = con.execute(f'PRAGMA foreign_key_list("{name}")').fetchall()
            links = tuple((row[3], row[2], row[4]) for row in sorted(keys, key=lambda row: -row[0]))
            yield _Table(name, fields, links, tuple(_rows(folder / "tables" / f"{name}.csv", fields)))


def _rows(path: Path, fields: tuple[_Field, ...]) -> Iterator[tuple[Value, ...]]:
    """Typed rows of a CSV file; an empty field is NULL."""
    with path.open(encoding="utf-8", newline="") as handle:
        for number, row in enumerate(csv.reader(handle)):
            if number == 0:
                if row != [field.name for field in fields]:
                    raise EmbeddedError(f"{path}: expected the columns of schema.sql in its first line, found {row}.")
                continue
            try:
                yield tuple(_typed(text, field.type) for text, field in zip(row, fields, strict=True))
            except ValueError as error:
                raise EmbeddedError(f"{path}: row {number} does not fit schema.sql: {error}.") from error


def _typed(text: str, declared: str) -> Value:
    if text == "":
        return None
    kind = declared.upper()
    if kind in ("INTEGER", "BIGINT"):
        return int(text)
    return float(text) if kind.startswith(("REAL", "NUMERIC")) else text


# ---- building databases


def _sqlite(database: _Database, path: Path) -> None:
    """One SQLite file with the same bytes for the same inputs: fixed page size, rows in file order, then VACUUM."""
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as con:
        con.executescript("PRAGMA page_size = 4096; PRAGMA journal_mode = OFF; PRAGMA encoding = 'UTF-8';")
        con.executescript(database.schema)  # commits by itself, so the transaction of the rows starts after it
        con.execute("BEGIN")
        for table in database.tables:
            marks = ", ".join("?" * len(table.fields))
            con.executemany(f'INSERT INTO "{table.name}" VALUES ({marks})', table.rows)
        loose = con.execute("PRAGMA foreign_key_check").fetchone()
        if loose:
            raise EmbeddedError(f"{database.name}: row {loose[1]} of {loose[0]} has no partner in {loose[2]}.")
        con.execute("COMMIT")
        con.execute("VACUUM")


def _dump(database: _Database) -> str:
    """A plain script that psql loads, and psycopg in one call: CREATE TABLE, then one INSERT a table."""
    parts = ["SET client_encoding = 'UTF8';\nSET standard_conforming_strings = on;\n", database.schema]
    for table in database.tables:
        columns = ", ".join(field.name for field in table.fields)
        rows = ",\n".join(f"({', '.join(map(_literal, row))})" for row in table.rows)
        parts.append(f"INSERT INTO {table.name} ({columns}) VALUES\n{rows};\n")
    return "\n".join(parts)


def _literal(value: Value) -> str:
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


# ---- the official layouts


def _spider(databases: list[_Database], root: Path) -> None:
    schemas = [_schema_record(database, _spider_type, flat_keys=True) for database in databases]
    _write_json(root / "tables.json", schemas)
    for file, split in (("train_spider.json", "train"), ("dev.json", "dev")):
        records = [{"db_id": d.name, "question": u.question, "query": u.sql} for d, u in _units(databases, split)]
        _write_json(root / file, records)
    _write_json(root / "train_others.json", [])
    for database in databases:
        _sqlite(database, root / "database" / database.name / f"{database.name}.sqlite")


def _bird(databases: list[_Database], root: Path) -> None:
    for split in ("train", "dev"):
        records: list[dict[str, Any]] = []
        for number, (database, unit) in enumerate(_units(databases, split)):
            common = {
                "db_id": database.name,
                "question": unit.question,
                "evidence": unit.evidence,
                "SQL": unit.sql,
            }
            dev = split == "dev"  # only BIRD's dev questions have numbers and a difficulty
            records.append({"question_id": number, **common, "difficulty": unit.difficulty} if dev else common)
        _write_json(root / split / f"{split}.json", records)
        own = [database for database in databases if any(unit.split == split for unit in database.units)]
        _write_json(
            root / split / f"{split}_tables.json", [_schema_record(d, _bird_type, flat_keys=False) for d in own]
        )
        for database in own:
            folder = root / split / f"{split}_databases" / database.name
            _sqlite(database, folder / f"{database.name}.sqlite")
            for table in database.tables:
                _write(folder / "database_description" / f"{table.name}.csv", _description(database.meta, table))


def _description(meta: _Meta, table: _Table) -> str:
    """BIRD's description of a table; its `column_name` is left empty, as BIRD does where it says nothing more."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["original_column_name", "column_name", "column_description", "data_format", "value_description"])
    for field in table.fields:
        column = meta.column(table.name, field.name)
        writer.writerow([field.name, "", column.meaning, _bird_type(field.type), column.values])
    return text.getvalue()


def _livesqlbench(databases: list[_Database], root: Path) -> None:
    lines: list[dict[str, Any]] = []
    for database in databases:
        name, meta = database.name, database.meta
        folder = root / name
        _write(folder / f"{name}_schema.txt", "\n\n".join(_schema_text(table) for table in database.tables))
        meanings: dict[str, Any] = {}
        for table in database.tables:
            for field in table.fields:
                column = meta.column(table.name, field.name)
                plain = not column.fields
                meaning = {"column_meaning": column.meaning, "fields_meaning": column.fields}
                meanings[f"{name}|{table.name}|{field.name}"] = column.meaning if plain else meaning
        _write_json(folder / f"{name}_column_meaning_base.json", meanings)
        entries = [{**entry.model_dump(), "children_knowledge": -1} for entry in meta.knowledge]
        _write_lines(folder / f"{name}_kb.jsonl", entries)
        _write(root / "dumps" / f"{name}_full.sql", _dump(database))
        titles = {entry.id: entry.knowledge for entry in meta.knowledge}
        for unit in database.units:
            used = {table.name for table in sqlglot.parse_one(unit.sql, read="postgres").find_all(exp.Table)}
            lines.append(
                {
                    "unit_id": unit.id,
                    "db_id": name,
                    "question": unit.question,
                    "sql": unit.sql,
                    "knowledge": [{"id": number, "name": titles[number]} for number in unit.knowledge],
                    "evidence": unit.evidence,
                    "tables": sorted(used),
                    "ordered": is_ordered(Engine.POSTGRES, unit.sql),
                    "difficulty": unit.difficulty,
                    "split": unit.split,
                }
            )
    _write_lines(root / "units.jsonl", lines)


def _schema_text(table: _Table) -> str:
    """LiveSQLBench's text of a table: its statement, then its first three rows."""
    body = [f"{f.name} {f.type.lower()} {'NOT NULL' if f.required else 'NULL'}" for f in table.fields]
    body.append(f"    PRIMARY KEY ({', '.join(table.key)})")
    body += [f"    FOREIGN KEY ({here}) REFERENCES {there}({column})" for here, there, column in table.links]
    shown = [[field.name for field in table.fields]]
    for row in table.rows[:3]:
        shown.append(["" if value is None else str(value) for value in row])
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in shown]
    lines.insert(1, "  ".join("-" * width for width in widths))
    statement = ",\n".join(body)
    return f'CREATE TABLE "{table.name}" (\n{statement}\n);\n\nFirst 3 rows:\n' + "\n".join(lines) + "\n...\n"


def _schema_record(database: _Database, kind: Callable[[str], str], *, flat_keys: bool) -> dict[str, Any]:
    """A database in the `tables.json` format. Columns are numbered over all tables; number 0 is `*`."""
    original: list[tuple[int, str]] = [(-1, "*")]
    spoken: list[tuple[int, str]] = [(-1, "*")]
    types = ["text"]
    number: dict[tuple[str, str], int] = {}
    for at, table in enumerate(database.tables):
        for field in table.fields:
            number[table.name, field.name] = len(original)
            original.append((at, field.name))
            meaning = database.meta.column(table.name, field.name).meaning if flat_keys else _words(field.name)
            spoken.append((at, meaning))
            types.append(kind(field.type))
    primary: list[Any] = []
    for table in database.tables:
        key = [number[table.name, name] for name in table.key]
        # Spider lists the columns of a compound key one by one, BIRD as a list of its own.
        primary += key if flat_keys or len(key) == 1 else [key]
    return {
        "db_id": database.name,
        "table_names_original": [table.name for table in database.tables],
        "table_names": [_words(table.name) for table in database.tables],
        "column_names_original": original,
        "column_names": spoken,
        "column_types": types,
        "primary_keys": primary,
        "foreign_keys": [
            [number[table.name, here], number[there, column]]
            for table in database.tables
            for here, there, column in table.links
        ],
    }


def _spider_type(declared: str) -> str:
    return {"INTEGER": "number", "REAL": "number", "DATE": "time"}.get(declared.upper(), "text")


def _bird_type(declared: str) -> str:
    return declared.lower()


def _words(name: str) -> str:
    return name.replace("_", " ").lower()


def _units(databases: Iterable[_Database], split: str) -> Iterator[tuple[_Database, _Unit]]:
    return ((database, unit) for database in databases for unit in database.units if unit.split == split)


_LAYOUTS: dict[Corpus, Callable[[list[_Database], Path], None]] = {
    Corpus.SPIDER: _spider,
    Corpus.BIRD: _bird,
    Corpus.LIVESQLBENCH: _livesqlbench,
}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())


def _write_json(path: Path, value: Any) -> None:
    _write(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def _write_lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    _write(path, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
