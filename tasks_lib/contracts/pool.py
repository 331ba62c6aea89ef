"""PRIVATE. The usable units of one corpus with the indexes that synthesis reads, and the one seeded order.

Belongs here: which units may be used at all, who asks the same question, what a schema calls things, SQL token edits.
Does not belong here: what makes a candidate good (one module a behavior).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TypeVar

from tasks_lib.contracts.contract import Unit
from tasks_lib.contracts.questions import Theme, content, locked, normal, stem, themes, words
from tasks_lib.corpora.model import CorpusDatabase
from tasks_lib.corpora.references import references
from tasks_lib.corpora.units import DISQUALIFYING
from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.store.keys import keyed_digest

T = TypeVar("T")

MAX_QUESTION = 260
"""Longer questions make unreadable requests once two or more stand together."""


def schema_words(database: CorpusDatabase) -> frozenset[str]:
    """Stems of the words in a database's title, table names, column names and column meanings."""
    texts = [database.title]
    for table in database.tables:
        texts.append(table.name)
        for column in table.columns:
            texts += [column.name, column.meaning]
    split = (re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).replace("_", " ") for text in texts)
    return frozenset(stem(word) for text in split for word in words(text))


def schema_nouns(database: CorpusDatabase) -> frozenset[str]:
    """Stems of what a schema names: the last word of each table and column name, and the words of the title."""
    found = {stem(word) for word in words(database.title)}
    for table in database.tables:
        for name in (table.name, *(column.name for column in table.columns)):
            parts = words(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " "))
            if parts:
                found.add(stem(parts[-1]))
    return frozenset(found)


class Pool:
    """Usable units of one corpus. `key` seeds every order; equal inputs give equal orders in every process."""

    def __init__(self, databases: Sequence[CorpusDatabase], units: Iterable[Unit], key: bytes) -> None:
        self.databases = {database.name: database for database in sorted(databases, key=lambda d: d.name)}
        self.corpus: Corpus = databases[0].corpus
        self.key = key
        self.all_units = tuple(sorted(units, key=lambda unit: unit.unit_id))
        self.units = tuple(unit for unit in self.all_units if self._usable(unit))
        self._themes: dict[str, tuple[Theme, ...]] = {}
        self._specific: dict[str, bool] = {}

    def _usable(self, unit: Unit) -> bool:
        question = unit.question.strip()
        return (
            unit.database in self.databases
            and not disqualifying(unit)
            and 10 <= len(question) <= MAX_QUESTION
            and "\n" not in question
            and "{" not in question
        )

    def ordered(self, items: Iterable[T], label: str, name: Callable[[T], str]) -> list[T]:
        """`items` in the keyed order of `label`: the same for equal key, label and names."""
        return sorted(items, key=lambda item: (keyed_digest(self.key, f"{label}\x1f{name(item)}"), name(item)))

    def number(self, text: str) -> int:
        """A non-negative number below 2**32 drawn by the key for `text`."""
        return int(keyed_digest(self.key, text)[:8], 16)

    def share(self, text: str) -> float:
        """A number in [0, 1) drawn by the key for `text`."""
        return self.number(text) / 2**32

    @cached_property
    def asked_by(self) -> dict[str, frozenset[str]]:
        """Normal form of a question -> databases of which it is asked (failed units too: they are readings as well)."""
        found: dict[str, set[str]] = {}
        for unit in self.all_units:
            found.setdefault(normal(unit.question), set()).add(unit.database)
        return {form: frozenset(names) for form, names in found.items()}

    @cached_property
    def words_of(self) -> dict[str, frozenset[str]]:
        """Database -> stems of its schema words."""
        return {name: schema_words(database) for name, database in self.databases.items()}

    @cached_property
    def word_count(self) -> dict[str, int]:
        """Stem -> number of databases whose schema has it."""
        counts: dict[str, int] = {}
        for found in self.words_of.values():
            for word in found:
                counts[word] = counts.get(word, 0) + 1
        return counts

    @cached_property
    def nouns(self) -> frozenset[str]:
        """Stems of what the schemas of the corpus name."""
        return frozenset[str]().union(*map(schema_nouns, self.databases.values()))

    def themes(self, unit: Unit) -> tuple[Theme, ...]:
        """Themes of a unit's question, measures first."""
        if unit.unit_id not in self._themes:
            self._themes[unit.unit_id] = themes(unit.question, self.nouns)
        return self._themes[unit.unit_id]

    def specific(self, unit: Unit) -> bool:
        """Whether a person could tell from the question whose records it is about.

        No other database is asked the same, and the question shows a constant, or a word that at most a quarter of the
        schemas (never more than eight) know.
        """
        if unit.unit_id not in self._specific:
            self._specific[unit.unit_id] = self._points_home(unit)
        return self._specific[unit.unit_id]

    def _points_home(self, unit: Unit) -> bool:
        if len(self.asked_by[normal(unit.question)]) > 1:
            return False
        if any(not lit.isdigit() and len(lit) > 2 for lit in locked(unit.question, unit.literals)):
            return True
        few = max(2, min(8, len(self.databases) // 4))
        known = self.words_of[unit.database]
        return any(word in known and self.word_count.get(word, 0) <= few for word in content(unit.question))


def disqualifying(unit: Unit) -> tuple[str, ...]:
    """Why a unit may not be used, or ()."""
    found = tuple(flag for flag in unit.flags if flag in DISQUALIFYING)
    return found if found or unit.result_digest else ("no_result",)


def replace_literal(database: CorpusDatabase, sql: str, value: str, replacement: str) -> str | None:
    """`sql` with every constant equal to `value` replaced, quotes and all; None when there is none.

    Everything else stays as written. What is a constant (double-quoted words of SQLite, too) `corpora.references` decides.
    """
    spans = [(c.start, c.end) for c in references(sql, database).constants if c.value == value]
    for start, end in sorted(spans, reverse=True):
        sql = sql[:start] + replacement + sql[end:]
    return sql if spans else None
