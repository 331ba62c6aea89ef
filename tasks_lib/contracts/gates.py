"""PRIVATE. The gates of PROTOCOL 4 in their three rounds, each a named check: None when the candidate passes, else one
sentence why not.

CONTRACT (records and text of the gold), EXECUTION (needs SQL), WORDING (needs the request). A gate never edits gold; a refused
candidate is recorded with the gate's name and its reason. Adding a gate means writing a function in the `gates_` module of its
kind and naming it in its round here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from tasks_lib.contracts.gates_behavior import (
    binding_by_execution,
    branch_needs_its_value,
    branch_wording,
    branches_differ,
    shared_wording_unique,
    upstream_absent,
)
from tasks_lib.contracts.gates_execution import executes, non_trivial, source_necessity, target_uniqueness
from tasks_lib.contracts.gates_records import behavior_shape, duplicate, ownership, read_only, schema_references
from tasks_lib.contracts.gates_wording import allowlist_contains, literals_survive, no_identifiers, records_agree
from tasks_lib.contracts.proposals import Bench, Proposal, Refusal

Check = Callable[[Bench, Proposal], str | None]
AsyncCheck = Callable[[Bench, Proposal], Awaitable[str | None]]

CONTRACT: tuple[Check, ...] = (
    ownership,
    behavior_shape,
    duplicate,
    schema_references,
    read_only,
    branch_wording,
    shared_wording_unique,
)
EXECUTION: tuple[AsyncCheck, ...] = (
    executes,
    non_trivial,
    source_necessity,
    binding_by_execution,
    branches_differ,
    branch_needs_its_value,
    target_uniqueness,
)
WORDING: tuple[Check, ...] = (literals_survive, no_identifiers, upstream_absent, allowlist_contains, records_agree)
NAMES: tuple[str, ...] = tuple(gate.__name__ for gate in (*CONTRACT, *EXECUTION, *WORDING))


def first_refusal(checks: Iterable[Check], bench: Bench, proposal: Proposal) -> Refusal | None:
    """The first of `checks` that refuses, or None."""
    for check in checks:
        if (reason := check(bench, proposal)) is not None:
            return Refusal(check.__name__, reason)
    return None


async def judge(bench: Bench, proposal: Proposal) -> Refusal | None:
    """The first gate of the contract and execution rounds that refuses, or None."""
    refusal = first_refusal(CONTRACT, bench, proposal)
    if refusal is not None:
        return refusal
    for check in EXECUTION:
        if (reason := await check(bench, proposal)) is not None:
            return Refusal(check.__name__, reason)
    return None


__all__ = [
    "CONTRACT",
    "EXECUTION",
    "NAMES",
    "WORDING",
    "Bench",
    "Proposal",
    "Refusal",
    "first_refusal",
    "judge",
]
