"""PRIVATE. Reader of Spider 1.0 in its official layout.

    tables.json  train_spider.json  train_others.json  dev.json  database/<db>/<db>.sqlite

Belongs here: that layout. Does not belong here: judging gold SQL (`units`). Of a question only `db_id`, `question` and
`query` are used; the parsed forms that Spider ships beside them are not.
"""

from __future__ import annotations

from pathlib import Path

from tasks_lib.corpora.files import (
    build_question,
    check_unique,
    origins_of,
    read_records,
    source_digest,
    titles_of,
)
from tasks_lib.corpora.model import CorpusDatabase, CorpusSource
from tasks_lib.corpora.sqlite_schema import read_schema
from tasks_lib.corpora.tables_json import read_tables
from tasks_lib.protocol.vocabulary import Corpus, Engine, Split
from tasks_lib.store.keys import sha256_file

QUESTION_FILES = (
    ("train_spider.json", Split.TRAIN),
    ("train_others.json", Split.TRAIN),
    ("dev.json", Split.DEV),
)
_FIELDS = {"database": "db_id", "question": "question", "sql": "query"}


def read(root: Path) -> CorpusSource:
    """Read Spider below `root`: every database of tables.json and every question of the three files.

    Raises:
        CorpusError: a file is missing or malformed, or a question names a database that tables.json does not list.
    """
    root = root.resolve()
    schemas = read_tables(Corpus.SPIDER, root / "tables.json")
    titles = titles_of(Corpus.SPIDER, root, schemas)
    origins = origins_of(Corpus.SPIDER, root, schemas)
    databases = []
    for name, words in schemas.items():
        path = root / "database" / name / f"{name}.sqlite"
        values = origins[name] != "replica"
        tables, ddl = read_schema(Corpus.SPIDER, path, words.meanings, words.links, values)
        databases.append(
            CorpusDatabase(
                corpus=Corpus.SPIDER,
                name=name,
                engine=Engine.SQLITE,
                path=path,
                relative_path=path.relative_to(root).as_posix(),
                digest=sha256_file(path),
                origin=origins[name],
                title=titles[name],
                tables=tables,
                ddl=ddl,
            )
        )
    questions = [
        build_question(Corpus.SPIDER, root / file, index, record, _FIELDS, split, schemas)
        for file, split in QUESTION_FILES
        for index, record in enumerate(read_records(Corpus.SPIDER, root / file, f"the {split} questions of Spider"))
    ]
    check_unique(Corpus.SPIDER, root, questions)
    files = [root / "tables.json", *(root / file for file, _ in QUESTION_FILES)]
    known = {database.relative_path: database.digest for database in databases}
    return CorpusSource(Corpus.SPIDER, root, tuple(databases), tuple(questions), source_digest(root, files, known))
