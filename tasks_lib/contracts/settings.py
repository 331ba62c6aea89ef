"""PRIVATE. What tells two databases apart, as a person would say it: "the records that also cover stadiums and concerts".

Belongs here: naming a database by its things, without its name. Does not belong here: which databases need telling apart
(`interactive`).
"""

from __future__ import annotations

import re
from collections.abc import Collection

from tasks_lib.contracts.pool import Pool
from tasks_lib.contracts.questions import plural, stem
from tasks_lib.corpora.model import CorpusDatabase

THINGS = 2
"""Things named at most; more are a list nobody says."""


class Settings:
    """The settings of one corpus's databases."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        said: dict[str, list[str]] = {}
        for unit in pool.all_units:
            said.setdefault(unit.database, []).append(unit.question.lower())
        self._said = {name: "\n".join(texts) for name, texts in said.items()}
        self._things: dict[str, tuple[str, ...]] = {}

    def between(self, name: str, other: str, asked: Collection[str]) -> str | None:
        """Up to two things that database `name` has and `other` has not ("stadiums and concerts"), or None when there is none.

        A thing is a table whose plural the database's own questions say; `asked` holds the stems that the request says already.
        """
        theirs = {_one(word) for table in self.pool.databases[other].tables for word in _words(table.name)}
        theirs |= set(map(_one, asked))
        found = [thing for thing in self.things(name) if theirs.isdisjoint(map(_one, thing.split()))]
        return " and ".join(sorted(self.pool.ordered(found, f"setting {name} {other}", str)[:THINGS])) or None

    def things(self, name: str) -> tuple[str, ...]:
        """The things that a database has tables of, plural, as its questions call them."""
        if name not in self._things:
            found: dict[str, None] = {}
            for table in self.pool.databases[name].tables:
                parts = _words(table.name)
                thing = " ".join([*parts[:-1], plural(parts[-1])]) if parts else ""
                usual = 1 <= len(parts) <= 2 and all(part.isalpha() and len(part) > 3 for part in parts)
                if usual and re.search(rf"\b{thing}\b", self._said.get(name, "")):
                    found.setdefault(thing)
            self._things[name] = tuple(found)
        return self._things[name]


def title(database: CorpusDatabase) -> str | None:
    """The database's title where it says more than its name: four words at least."""
    text = database.title.strip().rstrip(".")
    named = set(re.findall(r"[a-z]+", database.name.lower()))
    return text if len(text.split()) >= 4 and not named.issuperset(re.findall(r"[a-z]+", text.lower())) else None


def _words(name: str) -> list[str]:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").lower().split()


def _one(word: str) -> str:
    """A word by its plural's stem, so that singular and plural meet."""
    return stem(plural(word))
