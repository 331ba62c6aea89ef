"""PRIVATE. What gates judge and what they look things up in: proposals, the bench, refusals.

Belongs here: these records and the few helpers that several gates share. Does not belong here: any gate.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tasks_lib.contracts.contract import DIALECTS, Candidate
from tasks_lib.contracts.distractors import Neighbourhood
from tasks_lib.contracts.pool import Pool
from tasks_lib.protocol.records import BindingValue, Contract, DatabaseHandle, PublicTask
from tasks_lib.protocol.vocabulary import Corpus, Engine
from tasks_lib.sql.canonical import CanonicalResult, row_bytes
from tasks_lib.sql.comparators import compare
from tasks_lib.sql.execute import Execution, SqlRunner

WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Which gate refused a candidate, and why in one sentence."""

    gate: str
    reason: str


@dataclass
class Bench:
    """What gates look things up in, for one corpus. `handles`: by physical name. `seen`: unit sets already accepted.

    `ran`: runs without bindings, by database and text."""

    pool: Pool
    neighbourhood: Neighbourhood
    runner: SqlRunner
    handles: Mapping[str, DatabaseHandle]
    seen: set[frozenset[str]] = field(default_factory=set)
    ran: dict[tuple[str, str], Execution] = field(default_factory=dict)

    @cached_property
    def spellings(self) -> dict[str, frozenset[str]]:
        """Every table and column name of the corpus: casefolded -> how it is spelled."""
        found: dict[str, set[str]] = {}
        for database in self.pool.databases.values():
            for table in database.tables:
                for name in (table.name, *(column.name for column in table.columns)):
                    found.setdefault(name.casefold(), set()).add(name)
        return {name: frozenset(forms) for name, forms in found.items()}

    @cached_property
    def unspoken(self) -> tuple[str, ...]:
        """Table and column names of several words with brackets, signs or digits in them, as they are spelled."""
        names = (name for forms in self.spellings.values() for name in forms)
        return tuple(sorted(n for n in names if re.search(r"\w\W+\w", n) and re.search(r"[^A-Za-z '&-]", n)))

    @cached_property
    def asked_of(self) -> dict[str, int]:
        """Word in lower case -> number of databases whose questions use it."""
        found: dict[str, set[str]] = {}
        for unit in self.pool.all_units:
            for word in WORD.findall(unit.question.casefold()):
                found.setdefault(word, set()).add(unit.database)
        return {word: len(names) for word, names in found.items()}

    @property
    def engine(self) -> Engine:
        return Engine.POSTGRES if DIALECTS[self.pool.corpus] == "postgres" else Engine.SQLITE

    async def run(self, database: str, sql: str, bindings: Mapping[str, BindingValue] | None = None) -> Execution:
        """Run on a database by its physical name. Without bindings once a bench: several gates ask for the same gold."""
        if bindings:
            return await self.runner.run(self.handles[database], sql, bindings)
        if (database, sql) not in self.ran:
            self.ran[database, sql] = await self.runner.run(self.handles[database], sql)
        return self.ran[database, sql]


@dataclass(frozen=True)
class Proposal:
    """A candidate with everything proposed for it. `allowlist`: physical names. `contract`, `task`: the records as they would
    be published. `public_ids`: physical name -> public id of the registry."""

    candidate: Candidate
    allowlist: tuple[str, ...]
    contract: Contract
    task: PublicTask
    public_ids: Mapping[str, str]


def same_rows(first: CanonicalResult, second: CanonicalResult) -> bool:
    """Whether two results hold the same rows, value for value and type for type, in some order; column names do not count."""
    return sorted(map(row_bytes, first.rows)) == sorted(map(row_bytes, second.rows))


def same_answer(corpus: Corpus, first: CanonicalResult, second: CanonicalResult) -> bool:
    """Whether the corpus's comparator would take one result for the other, row order aside (PROTOCOL 11).

    Wider than `same_rows`: what a verdict could not tell apart is one answer.
    """
    return compare(corpus, first, second, ordered=False).equal


async def gold(bench: Bench, proposal: Proposal) -> list[Execution]:
    """The gold runs of the candidate's units, in their order."""
    return list(await asyncio.gather(*(bench.run(u.database, u.sql) for u in proposal.candidate.units)))
