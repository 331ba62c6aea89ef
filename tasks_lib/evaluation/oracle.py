"""PRIVATE. The oracle planner (PROTOCOL 9): gold order restricted to the selected databases. It sends no prompt."""

from __future__ import annotations

from collections.abc import Iterable

from tasks_lib.protocol.records import Contract, PlanResult


def oracle_plan(contract: Contract, selected: Iterable[str]) -> PlanResult:
    """Gold order over the selected databases, extra selections after it in id order; gold edges between selected ones."""
    chosen = set(selected)
    order = [d for d in contract.databases if d in chosen]
    order += sorted(chosen - set(order))
    edges = tuple((a, b) for a, b in contract.edges if a in chosen and b in chosen)
    return PlanResult(tuple(order), edges, ok=True, attempts=0)
