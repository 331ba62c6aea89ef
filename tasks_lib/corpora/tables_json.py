"""PRIVATE. The `tables.json` format that Spider made and BIRD took over: which databases there are, in which words.

Belongs here: names of columns in words and foreign keys, by database. Does not belong here: types and tables; those come
from the database file itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

from tasks_lib.corpora.files import CorpusError, read_records, text_of
from tasks_lib.corpora.sqlite_schema import ColumnKey
from tasks_lib.protocol.vocabulary import Corpus


@dataclass(frozen=True, slots=True)
class SchemaWords:
    """`meanings`: words of a column where they say more than its name. `links`: foreign keys. Keys are lower case."""

    meanings: dict[ColumnKey, str]
    links: dict[ColumnKey, ColumnKey]


class _Record(BaseModel):
    """The fields that are used. A column is (index of its table, name); the first one is (-1, "*")."""

    table_names_original: list[str]
    column_names_original: list[tuple[int, str]]
    column_names: list[tuple[int, str]]
    foreign_keys: list[tuple[int, int]]


def read_tables(corpus: Corpus, path: Path) -> dict[str, SchemaWords]:
    """Return what `path` says of each database, in the order of the file.

    Raises:
        CorpusError: missing or broken file, an entry without the fields of the format, or a database named twice.
    """
    databases: dict[str, SchemaWords] = {}
    for index, record in enumerate(read_records(corpus, path, "the list of database schemas")):
        name = text_of(corpus, path, index, record, "db_id")
        if name in databases:
            raise CorpusError(corpus, path, "every database once", f"{name!r} again at index {index}")
        try:
            databases[name] = _words(_Record.model_validate(record))
        except ValidationError as error:
            first = error.errors()[0]
            expected = f"field {'.'.join(map(str, first['loc']))} of database {name} (index {index}) as in Spider's"
            raise CorpusError(corpus, path, f"{expected} tables.json", f"a fault: {first['msg']}") from error
        except (IndexError, ValueError) as error:
            expected = f"table and column numbers of database {name} (index {index}) that point into its lists"
            raise CorpusError(corpus, path, expected, f"a fault: {error}") from error
    return databases


def _words(record: _Record) -> SchemaWords:
    tables, columns = record.table_names_original, record.column_names_original
    keys = [(tables[table].lower(), column.lower()) if table >= 0 else None for table, column in columns]
    meanings: dict[ColumnKey, str] = {}
    for key, (_, text) in zip(keys, record.column_names, strict=True):
        if key and _plain(text) != _plain(key[1]):
            meanings[key] = " ".join(text.split())
    links: dict[ColumnKey, ColumnKey] = {}
    for source, target in record.foreign_keys:
        here, there = keys[source], keys[target]
        if here and there and here != there:
            links.setdefault(here, there)
    return SchemaWords(meanings, links)


def _plain(text: str) -> str:
    return "".join(text.replace("_", " ").split()).lower()
