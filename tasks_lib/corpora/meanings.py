"""PRIVATE. What columns mean, in words, from the description files that corpora ship.

Belongs here: `column_meaning` JSON files (`db|table|column` -> text or nested texts), BIRD's `database_description` CSV
files, joining several descriptions of one column, and taking the physical database name out of them: descriptions reach
the public catalog and data agents, the name must not. Does not belong here: anything read from the data.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tasks_lib.corpora.files import CorpusError, read_mapping, words
from tasks_lib.corpora.sqlite_schema import ColumnKey
from tasks_lib.protocol.vocabulary import Corpus

Meanings = dict[ColumnKey, str]


def read_column_meanings(corpus: Corpus, path: Path) -> dict[str, Meanings]:
    """Return the meanings in one JSON file by database (lower case; the three names are compared without case).

    Raises:
        CorpusError: a key that is not `db|table|column`, or a value that is neither text nor an object.
    """
    found: dict[str, Meanings] = {}
    for key, value in read_mapping(corpus, path, "an object from db|table|column to text").items():
        parts = key.lower().split("|", 2)
        if len(parts) != 3:
            raise CorpusError(corpus, path, "keys of the form db|table|column", repr(key))
        if not isinstance(value, str | dict):
            raise CorpusError(corpus, path, f"text or an object for {key!r}", repr(value))
        database, table, column = (part.strip() for part in parts)
        found.setdefault(database, {})[(table, column)] = flat(value)
    return found


def flat(value: Any) -> str:
    """Return a meaning as one line of text. Objects (JSONB columns) become `path.to.field: text` parts.

    >>> flat({"column_meaning": "Readings.", "fields_meaning": {"air": {"co2": "In ppm."}}})
    'Readings. air.co2: In ppm.'
    """
    if isinstance(value, dict):
        return " ".join(part for part in _parts(value, ()) if part)
    return " ".join(str(value).strip().lstrip("#").strip().strip("'\"").split())


def _parts(value: Any, path: tuple[str, ...]) -> Iterable[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            frame = not path and name in ("column_meaning", "fields_meaning")
            yield from _parts(inner, path if frame else (*path, name))
    elif isinstance(value, list):
        for inner in value:
            yield from _parts(inner, path)
    else:
        yield f"{'.'.join(path)}: {flat(value)}" if path else flat(value)


def read_description_folder(corpus: Corpus, folder: Path) -> tuple[Meanings, list[Path]]:
    """Return what the CSV files of a `database_description` folder say (a file a table), and the files read.

    The files are UTF-8, or Windows-1252 where they are not UTF-8 (BIRD ships both).

    Raises:
        CorpusError: a file without the columns original_column_name and column_description.
    """
    meanings: Meanings = {}
    paths = sorted(folder.glob("*.csv")) if folder.is_dir() else []
    for path in paths:
        raw = path.read_bytes()
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = raw.decode("cp1252", "replace")
        rows = csv.DictReader(io.StringIO(text, newline=""))
        header = [name.strip() for name in rows.fieldnames or ()]
        if not {"original_column_name", "column_description"} <= set(header):
            expected = "a CSV file with the columns original_column_name and column_description"
            raise CorpusError(corpus, path, expected, f"the columns {', '.join(header) or 'none'}")
        rows.fieldnames = header
        for row in rows:
            column = (row["original_column_name"] or "").strip()
            texts = [row.get(name) or "" for name in ("column_name", "column_description", "value_description")]
            if column and (text := joined(column, texts)):
                meanings[(path.stem.strip().lower(), column.lower())] = text
    return meanings, paths


def joined(column: str, texts: Iterable[str]) -> str:
    """Join descriptions of `column` by "; ", without those that only repeat its name or stand in another one."""
    kept: list[str] = []
    for text in map(flat, texts):
        plain = words(text)
        if not plain or plain == words(column) or any(plain in words(other) for other in kept):
            continue
        kept = [other for other in kept if words(other) not in plain]
        kept.append(text)
    return "; ".join(kept)


def merged(*sources: Meanings) -> Meanings:
    """Join several meanings of each column, earlier sources first."""
    keys = dict.fromkeys(key for source in sources for key in source)
    return {key: text for key in keys if (text := joined(key[1], (source.get(key, "") for source in sources)))}


def nameless(meanings: Meanings, database: str) -> Meanings:
    """Take the physical name of the database out of texts.

    `of the 'x_1' database` and `(db id: x_1)` go whole; any other occurrence of a name that is no plain word (it has a digit, an
    underscore or inner capitals) becomes its words. A name that is a plain word (`books`) is what people call the
    subject as well, and stays.
    """
    name = re.escape(database)
    phrase = re.compile(
        rf"\s*\b(?:of|in|within|from|for) (?:the )?['\"`]?{name}['\"`]? (?:database|dataset|db|schema)\b"
        rf"|\s*\(db id: ['\"`]?{name}['\"`]?\)",
        re.IGNORECASE,
    )
    alone = re.compile(rf"(?<!\w){name}(?!\w)", re.IGNORECASE)
    plain_word = re.fullmatch(r"[A-Za-z]?[a-z]*", database) is not None
    replaced = {key: phrase.sub("", text) for key, text in meanings.items()}
    return replaced if plain_word else {key: alone.sub(words(database), text) for key, text in replaced.items()}
