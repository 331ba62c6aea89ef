"""PRIVATE. Gates of the second round: what only running the gold can tell (PROTOCOL 4)."""

from __future__ import annotations

import asyncio

from tasks_lib.contracts.distractors import NEAR_IDENTICAL, overlap
from tasks_lib.contracts.proposals import Bench, Proposal, aggregate, gold, same_rows
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
    """Every gold result says something: it has rows, at most MAX_ROWS, and is no lone zero, blank or null."""
    for unit, run in zip(proposal.candidate.units, await gold(bench, proposal), strict=True):
        rows = run.result.rows if run.result else ()
        if not rows:
            return f"gold of {unit.unit_id} returns no row."
        if len(rows) > MAX_ROWS:
            return f"gold of {unit.unit_id} returns {len(rows)} rows, expected at most {MAX_ROWS}."
        if all(_blank(value) for row in rows for value in row) or (len(rows) == 1 and all(map(_nothing, rows[0]))):
            return f"gold of {unit.unit_id} returns only zero, blank or null."
    return None


def _blank(value: Value) -> bool:
    return value is None or value == ""


def _nothing(value: Value) -> bool:
    return _blank(value) or (not isinstance(value, bool | str | bytes | tuple) and value == 0)


async def source_necessity(bench: Bench, proposal: Proposal) -> str | None:
    """Without any one unit the joint answer differs or is undefined.

    Sequential: without the upstream unit the downstream has an unbound placeholder. Interactive: each branch needs its unit.
    """
    c = proposal.candidate
    if c.behavior is Behavior.INTERACTIVE:
        return None
    results = [run.result for run in await gold(bench, proposal) if run.result is not None]
    whole = aggregate(results)
    needed = {b.upstream_unit for b in c.bindings}
    for at, unit in enumerate(c.units):
        if unit.unit_id not in needed and len(results) > 1 and aggregate(results[:at] + results[at + 1 :]) == whole:
            return f"without {unit.unit_id} the joint answer is the same."
    return None


async def target_uniqueness(bench: Bench, proposal: Proposal) -> str | None:
    """No other allowlisted database answers a unit: none is asked the same, has its schema, or gives its gold's result."""
    c = proposal.candidate
    branches = set(c.databases) if c.behavior is Behavior.INTERACTIVE else set()
    for unit in c.units:
        own = bench.neighbourhood.schemas[unit.database]
        for name in proposal.allowlist:
            if name == unit.database:
                continue
            if name not in branches and name in bench.pool.asked_by.get(normal(unit.question), ()):
                return f"the question of {unit.unit_id} is also asked of {name}."
            schema = bench.neighbourhood.schemas[name]
            if name not in branches and overlap(own, schema) >= NEAR_IDENTICAL:
                return f"{name} has nearly the schema of {unit.database}."
            # A query can only prepare where its tables exist; the rest is asked of the engine.
            if {table for table, _ in schema}.issuperset(unit.tables) and unit.tables:
                gold, run = await asyncio.gather(bench.run(unit.database, unit.sql), bench.run(name, unit.sql))
                if run.result is not None and gold.result is not None and same_rows(run.result, gold.result):
                    return f"gold of {unit.unit_id} gives the same answer on {name}."
    return None
