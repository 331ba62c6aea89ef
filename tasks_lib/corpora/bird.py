"""PRIVATE. Reader of BIRD in its official layout.

    dev/    dev.json    dev_tables.json    dev_databases/<db>/<db>.sqlite    dev_databases/<db>/database_description/*.csv
    train/  train.json  train_tables.json  train_databases/...
    ORIGIN.json, column_meaning/*.json, titles.json   optional

Belongs here: that layout. Does not belong here: judging gold SQL (`units`). Of a database that `ORIGIN.json` calls a
replica only the schema is told: its rows were made from gold queries, and no value of them may be seen anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tasks_lib.corpora.files import (
    CorpusError,
    build_question,
    check_unique,
    origins_of,
    read_records,
    source_digest,
    titles_of,
)
from tasks_lib.corpora.meanings import Meanings, merged, nameless, read_column_meanings, read_description_folder
from tasks_lib.corpora.model import CorpusDatabase, CorpusSource
from tasks_lib.corpora.sqlite_schema import read_schema
from tasks_lib.corpora.tables_json import SchemaWords, read_tables
from tasks_lib.protocol.vocabulary import Corpus, Engine, Split
from tasks_lib.store.keys import sha256_file

_FIELDS = {"database": "db_id", "question": "question", "sql": "SQL"}


@dataclass(frozen=True, slots=True)
class _Listed:
    """A database that a tables file lists: the folder it must have, and its words."""

    folder: Path
    words: SchemaWords


def read(root: Path) -> CorpusSource:
    """Read BIRD below `root`: its dev part, its train part, or both; an absent part is told in `notes`.

    Raises:
        CorpusError: neither part is there, a file is missing or malformed, or a question names a database that its part
            does not list.
    """
    root = root.resolve()
    parts = [split for split in (Split.TRAIN, Split.DEV) if (root / split).is_dir()]
    if not parts:
        raise CorpusError(Corpus.BIRD, root, "a folder dev or train", "neither")
    listed: dict[str, _Listed] = {}
    files: list[Path] = []
    questions = []
    for split in parts:
        tables_file, questions_file = root / split / f"{split}_tables.json", root / split / f"{split}.json"
        schemas = read_tables(Corpus.BIRD, tables_file)
        if both := sorted(set(listed) & set(schemas)):
            raise CorpusError(Corpus.BIRD, tables_file, "databases that the other part does not list", repr(both[0]))
        for name, words in schemas.items():
            listed[name] = _Listed(root / split / f"{split}_databases" / name, words)
        for index, record in enumerate(read_records(Corpus.BIRD, questions_file, f"the {split} questions of BIRD")):
            questions.append(build_question(Corpus.BIRD, questions_file, index, record, _FIELDS, split, schemas))
        files += [tables_file, questions_file]
    check_unique(Corpus.BIRD, root, questions)
    meanings, meaning_files = _column_meanings(root)
    files += meaning_files
    titles = titles_of(Corpus.BIRD, root, listed)
    origins = origins_of(Corpus.BIRD, root, listed)
    databases = []
    for name, entry in listed.items():
        described, description_files = read_description_folder(Corpus.BIRD, entry.folder / "database_description")
        files += description_files
        # Names in words first, then BIRD's own description, then the longer text of column_meaning.
        words_of = nameless(merged(entry.words.meanings, described, meanings.get(name.lower(), {})), name)
        databases.append(_database(root, name, entry, words_of, origins[name], titles[name]))
    known = {database.relative_path: database.digest for database in databases}
    notes = tuple(
        f"BIRD's {split} part is not below {root.name}; its databases and questions are left out."
        for split in Split
        if split not in parts
    )
    source = source_digest(root, files, known)
    return CorpusSource(Corpus.BIRD, root, tuple(databases), tuple(questions), source, notes)


def _database(root: Path, name: str, entry: _Listed, meanings: Meanings, origin: str, title: str) -> CorpusDatabase:
    path = entry.folder / f"{name}.sqlite"
    tables, ddl = read_schema(Corpus.BIRD, path, meanings, entry.words.links, origin != "replica")
    return CorpusDatabase(
        corpus=Corpus.BIRD,
        name=name,
        engine=Engine.SQLITE,
        path=path,
        relative_path=path.relative_to(root).as_posix(),
        digest=sha256_file(path),
        origin=origin,
        title=title,
        tables=tables,
        ddl=ddl,
    )


def _column_meanings(root: Path) -> tuple[dict[str, Meanings], list[Path]]:
    paths = sorted((root / "column_meaning").glob("*.json"))
    found: dict[str, Meanings] = {}
    for path in paths:
        for database, meanings in read_column_meanings(Corpus.BIRD, path).items():
            found.setdefault(database, {}).update(meanings)
    return found, paths
