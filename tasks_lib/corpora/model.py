"""PRIVATE. What a corpus reader yields: physical databases with their schema, and questions with gold SQL.

Seam types of the private side only; readers fill them, units, cards, contracts and catalog read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tasks_lib.protocol.vocabulary import Corpus, Engine


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """A column. `examples`: up to 5 distinct non-null values as text, most frequent first, ties by value (empty for replicas).

    `references`: (table, column) of a declared or resolved foreign key, or None. `value_range`: "min..max" of a numeric
    or date column, or empty (empty for replicas). `distinct`: different non-null values (0 for replicas). Examples, ranges
    and distinct counts are taken from the first `values.SAMPLE_ROWS` rows of the table, and are empty where nothing was read.
    """

    name: str
    type: str
    meaning: str = ""
    primary: bool = False
    references: tuple[str, str] | None = None
    examples: tuple[str, ...] = ()
    value_range: str = ""
    distinct: int = 0


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table or view in declared order. `row_count` from the data (0 for a view: its rows are not counted)."""

    name: str
    columns: tuple[ColumnInfo, ...]
    row_count: int
    view: bool = False


@dataclass(frozen=True, slots=True)
class CorpusDatabase:
    """One physical database. `path`: SQLite file or SQL dump; `relative_path`: the same below the corpus root.

    `digest`: sha256 of the file. `origin`: original | surrogate | replica | embedded. `title`: what the records are about, in
    words (from titles.json, else derived from the name). `knowledge`: knowledge entries in words (LiveSQLBench), or empty.
    `ddl`: CREATE statements as the engine holds them.
    """

    corpus: Corpus
    name: str
    engine: Engine
    path: Path
    relative_path: str
    digest: str
    origin: str
    title: str
    tables: tuple[TableInfo, ...]
    ddl: str
    knowledge: str = ""

    @property
    def loaded(self) -> bool:
        """False for a database that is only described (`path` is then its schema text): it stands in the catalog and can be a
        distractor, but nothing runs on it."""
        return self.engine is Engine.SQLITE or self.path.suffix == ".sql"


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a corpus with its gold SQL text as written."""

    unit_id: str
    corpus: Corpus
    database: str
    question: str
    sql: str
    evidence: str
    split: str
    difficulty: str = ""


@dataclass(frozen=True, slots=True)
class SourceText:
    """A question of a corpus without usable gold: it names its database and nothing can be judged by it. Retrieval is measured on
    it; it is no unit, and nothing is fitted on it."""

    text_id: str
    corpus: Corpus
    database: str
    question: str


@dataclass(frozen=True, slots=True)
class CorpusSource:
    """A whole corpus as read from `root`. `digest`: over all files that matter, for artifact keys.

    `notes`: what was left out while reading and why, one sentence each (a database described without rows, for example).
    `texts`: questions that have no usable gold, over any database of the corpus.
    """

    corpus: Corpus
    root: Path
    databases: tuple[CorpusDatabase, ...]
    questions: tuple[Question, ...]
    digest: str
    notes: tuple[str, ...] = ()
    texts: tuple[SourceText, ...] = ()
