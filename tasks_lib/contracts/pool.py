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
from tasks_lib.contracts.facts import Fact, read, synonyms
from tasks_lib.contracts.phrases import clause
from tasks_lib.contracts.quality import faults, misspelled
from tasks_lib.contracts.questions import content, locked, normal, stem, words
from tasks_lib.corpora.model import CorpusDatabase
from tasks_lib.corpora.references import references
from tasks_lib.corpora.units import DISQUALIFYING
from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.store.keys import keyed_digest

T = TypeVar("T")

MAX_QUESTION = 260
"""Longer questions make unreadable requests once two or more stand together."""


def schema_words(database: CorpusDatabase, meanings: bool = True) -> frozenset[str]:
    """Stems of the words in a database's title, table names, column names and, with `meanings`, column meanings."""
    texts = [database.title]
    for table in database.tables:
        texts.append(table.name)
        for column in table.columns:
            texts += [column.name, column.meaning] if meanings else [column.name]
    split = (re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).replace("_", " ") for text in texts)
    return frozenset(stem(word) for text in split for word in words(text))


class Pool:
    """Usable units of one corpus. `key` seeds every order; equal inputs give equal orders in every process."""

    def __init__(self, databases: Sequence[CorpusDatabase], units: Iterable[Unit], key: bytes) -> None:
        self.databases = {database.name: database for database in sorted(databases, key=lambda d: d.name)}
        self.corpus: Corpus = databases[0].corpus
        self.key = key
        self.all_units = tuple(sorted(units, key=lambda unit: unit.unit_id))
        self.units = tuple(unit for unit in self.all_units if self._usable(unit))
        self._clauses: dict[str, str | None] = {}
        self._facts: dict[str, Fact] = {}
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
    def named_by(self) -> dict[str, frozenset[str]]:
        """Database -> stems of its title and of the names in its schema."""
        return {name: schema_words(database, meanings=False) for name, database in self.databases.items()}

    @cached_property
    def word_count(self) -> dict[str, int]:
        """Stem -> number of databases whose schema has it."""
        counts: dict[str, int] = {}
        for found in self.words_of.values():
            for word in found:
                counts[word] = counts.get(word, 0) + 1
        return counts

    @cached_property
    def meanings_of(self) -> dict[str, frozenset[str]]:
        """Database -> its schema words, those of one meaning (shop, store) as one."""
        return {name: frozenset(map(_meaning, found)) for name, found in self.words_of.items()}

    @cached_property
    def fit(self) -> tuple[Unit, ...]:
        """Usable units whose question a person could say (`quality.faults`) and place (`specific`)."""
        specified = self.corpus is Corpus.LIVESQLBENCH
        return tuple(
            unit
            for unit in self.units
            if not faults(self.phrase(unit), specified)
            and self.specific(unit)
            and (specified or not misspelled(unit.question, self.words_of[unit.database]))
        )

    def phrase(self, unit: Unit) -> str:
        """The question as a clause, or as it stands when no rule makes it one."""
        return self.clause(unit) or unit.question

    def clause(self, unit: Unit) -> str | None:
        """The question as it stands after "tell me"; None when no rule is sure."""
        if unit.unit_id not in self._clauses:
            said = clause(unit.question)
            self._clauses[unit.unit_id] = said and re.sub(r"\s+([,.;])", r"\1", said)
        return self._clauses[unit.unit_id]

    def fact(self, unit: Unit) -> Fact:
        """What a unit reports."""
        if unit.unit_id not in self._facts:
            self._facts[unit.unit_id] = read(unit, self.databases[unit.database])
        return self._facts[unit.unit_id]

    def specific(self, unit: Unit) -> bool:
        """Whether a person could tell from the question whose records it is about.

        No other database is asked the same, and of all schemas only its own knows every word of the question that it knows
        itself, at least two (shop and store count as one word). With a name in the question two other schemas may know them.
        """
        if unit.unit_id not in self._specific:
            self._specific[unit.unit_id] = self._points_home(unit)
        return self._specific[unit.unit_id]

    def _points_home(self, unit: Unit) -> bool:
        if len(self.asked_by[normal(unit.question)]) > 1:
            return False
        own = self.meanings_of[unit.database]
        asked = {_meaning(word) for word in content(unit.question)} & own
        if not asked:
            return False
        knowing = sum(1 for known in self.meanings_of.values() if asked <= known)
        if any(not lit.isdigit() and len(lit) > 2 for lit in locked(unit.question, unit.literals)):
            return knowing <= 3
        return knowing == 1 and len(asked) >= 2

    def telltale(self, unit: Unit) -> bool:
        """Whether the question shows a constant, or a word that no other schema of the corpus knows."""
        if locked(unit.question, (lit for lit in unit.literals if not lit.isdigit())):
            return True
        known = self.words_of[unit.database]
        return any(word in known and self.word_count[word] == 1 for word in content(unit.question))


def _meaning(word: str) -> str:
    return synonyms().get(word, word)


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
