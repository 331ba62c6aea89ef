"""PRIVATE. Gates of the second round: what only running the gold can tell (PROTOCOL 4)."""

from __future__ import annotations

import asyncio

from tasks_lib.contracts.distractors import NEAR_IDENTICAL, overlap
from tasks_lib.contracts.proposals import Bench, Proposal, gold, same_answer
from tasks_lib.contracts.questions import normal
from tasks_lib.protocol.vocabulary import Behavior
from tasks_lib.sql.canonical import Value

MAX_ROWS = 1000
"""A gold result of more rows is no answer to a person's question."""


async def executes(bench: Bench, proposal: Proposal) -> str | None:
    """Every gold query runs inside the limits and gives the audited result."""
    for unit, run in zip(proposal.candidate.units, await gold(bench, proposal), strict=True):
        if run.kind is not None:
            return f"gold of {unit.unit_id} gives no result ({run.kind.value}: {run.error})."
        if run.digest != unit.result_digest:
            return f"gold of {unit.unit_id} gives another result than when it was audited."
    return None


async def non_trivial(bench: Bench, proposal: Proposal) -> str | None:
    """Every gold result says something: it has rows, at most MAX_ROWS, and not only zeros, blanks or nulls."""
    for unit, run in zip(proposal.candidate.units, await gold(bench, proposal), strict=True):
        if run.result is None:
            continue  # `executes` says so
        rows = run.result.rows
        if not rows:
            return f"gold of {unit.unit_id} returns no row."
        if len(rows) > MAX_ROWS:
            return f"gold of {unit.unit_id} returns {len(rows)} rows, expected at most {MAX_ROWS}."
        if all(_nothing(value) for row in rows for value in row):
            return f"gold of {unit.unit_id} returns only zero, blank or null."
    return None


def _nothing(value: Value) -> bool:
    if isinstance(value, str | bytes):
        return not value.strip()
    return value is None or (not isinstance(value, bool | tuple) and value == 0)


async def source_necessity(bench: Bench, proposal: Proposal) -> str | None:
    """Without any one unit the joint answer differs or is undefined.

    The joint answer is the set of the contributions, so a unit is needed unless another contributes the same answer. Undefined
    without their unit are: the joint answer of one unit, a branch of an interactive task, and what waits for an upstream value.
    """
    c = proposal.candidate
    if c.behavior is Behavior.INTERACTIVE:
        return None
    runs = await gold(bench, proposal)
    needed = {b.upstream_unit for b in c.bindings}
    for at, (unit, run) in enumerate(zip(c.units, runs, strict=True)):
        if unit.unit_id in needed or run.result is None:
            continue
        for other, theirs in zip(c.units[:at] + c.units[at + 1 :], runs[:at] + runs[at + 1 :], strict=True):
            if theirs.result is not None and same_answer(c.corpus, run.result, theirs.result):
                return f"without {unit.unit_id} the joint answer is the same, {other.unit_id} gives it too."
    return None


async def target_uniqueness(bench: Bench, proposal: Proposal) -> str | None:
    """No other allowlisted database answers a unit: none is asked the same, has its schema, or gives its gold's answer.

    The two databases of an interactive task may be asked the same and look alike, for the slot tells them apart.
    """
    c = proposal.candidate
    branches = set(c.databases) if c.behavior is Behavior.INTERACTIVE else set()
    for unit, run in zip(c.units, await gold(bench, proposal), strict=True):
        own = bench.neighbourhood.schemas[unit.database]
        asked = bench.pool.asked_by.get(normal(unit.question), frozenset())
        preparing = []
        for name in proposal.allowlist:
            if name == unit.database:
                continue
            if name not in branches and name in asked:
                return f"the question of {unit.unit_id} is also asked of {name}."
            schema = bench.neighbourhood.schemas[name]
            if name not in branches and overlap(own, schema) >= NEAR_IDENTICAL:
                return f"{name} has nearly the schema of {unit.database}."
            # Names are compared in lower case and views count as tables, as engines resolve them: a query can only prepare
            # where all its tables are. Whether it does is asked of the engine; one that is only described has none to ask.
            if bench.pool.databases[name].loaded and bench.neighbourhood.tables[name].issuperset(unit.tables):
                preparing.append(name)
        for name, there in zip(
            preparing, await asyncio.gather(*(bench.run(n, unit.sql) for n in preparing)), strict=True
        ):
            if there.result is None or run.result is None:
                continue
            if same_answer(c.corpus, run.result, there.result):
                return f"gold of {unit.unit_id} gives the same answer on {name}."
    return None
