"""PRIVATE. What gates judge and what they look things up in: proposals, the bench, refusals.

Belongs here: these records and the few helpers that several gates share. Does not belong here: any gate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tasks_lib.contracts.contract import DIALECTS, Candidate
from tasks_lib.contracts.distractors import Neighbourhood
from tasks_lib.contracts.pool import Pool
from tasks_lib.protocol.records import BindingValue, Contract, DatabaseHandle, PublicTask
from tasks_lib.protocol.vocabulary import Engine
from tasks_lib.sql.canonical import CanonicalResult, row_bytes
from tasks_lib.sql.execute import Execution, SqlRunner
from tasks_lib.store.keys import digest, sha256_bytes


@dataclass(frozen=True, slots=True)
class Refusal:
    """Which gate refused a candidate, and why in one sentence."""

    gate: str
    reason: str


@dataclass
class Bench:
    """What gates look things up in, for one corpus. `handles`: by physical name. `seen`: unit sets already accepted."""

    pool: Pool
    neighbourhood: Neighbourhood
    runner: SqlRunner
    handles: Mapping[str, DatabaseHandle]
    seen: set[frozenset[str]] = field(default_factory=set)

    @property
    def engine(self) -> Engine:
        return Engine.POSTGRES if DIALECTS[self.pool.corpus] == "postgres" else Engine.SQLITE

    async def run(self, database: str, sql: str, bindings: Mapping[str, BindingValue] | None = None) -> Execution:
        return await self.runner.run(self.handles[database], sql, bindings)


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
    """Whether two results hold the same rows in some order; column names do not count."""
    return rows_digest(first) == rows_digest(second)


def rows_digest(result: CanonicalResult) -> str:
    """sha256 hex of the rows as a multiset."""
    return sha256_bytes(b"".join(sorted(map(row_bytes, result.rows))))


def aggregate(results: Iterable[CanonicalResult]) -> str:
    """The joint answer of a task as one digest: over the set of its contributions, whatever their order."""
    return digest(sorted({rows_digest(result) for result in results}))


async def gold(bench: Bench, proposal: Proposal) -> list[Execution]:
    return list(await asyncio.gather(*(bench.run(u.database, u.sql) for u in proposal.candidate.units)))
