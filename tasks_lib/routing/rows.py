"""Routes and ask decisions as rows of their tables, and back. No routing logic here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks_lib.protocol.records import RouteEdge, RouteNode, RoutePlan
from tasks_lib.protocol.vocabulary import Behavior
from tasks_lib.routing.outcome import RouteOutcome


def route_row(
    backend: str, router: str, task_id: str, branch_id: str, trial: int, outcome: RouteOutcome
) -> dict[str, Any]:
    """One row of `routes`; an unaccepted plan is an empty prediction (PROTOCOL 7)."""
    plan = outcome.plan if outcome.valid else None
    return {
        "backend": backend,
        "router": router,
        "task_id": task_id,
        "branch_id": branch_id,
        "trial": trial,
        "valid": outcome.valid,
        "reason": outcome.reason,
        "selected": list(plan.selected) if plan else [],
        "topology": str(plan.topology or "") if plan else "",
        "nodes": [{"database_id": n.database_id, "information_request": n.information_request} for n in plan.nodes]
        if plan
        else [],
        "edges": [{"source": e.source, "target": e.target, "type": e.type, "reason": e.reason} for e in plan.edges]
        if plan
        else [],
        "evidence_ids": list(plan.evidence_ids) if plan else [],
        "confidence": float(plan.confidence) if plan else 0.0,
        "observed": list(outcome.observed),
        "turns": outcome.turns,
        "malformed_turns": outcome.malformed_turns,
        "failure": outcome.failure,
        "calls": list(outcome.calls),
    }


def outcome_of(row: Mapping[str, Any]) -> RouteOutcome:
    """The outcome of a row of `routes`."""
    plan = None
    if row["valid"]:
        plan = RoutePlan(
            tuple(row["selected"]),
            Behavior(row["topology"]) if row["topology"] else None,
            tuple(RouteNode(n["database_id"], n["information_request"]) for n in row["nodes"]),
            tuple(RouteEdge(e["source"], e["target"], e["type"], e["reason"]) for e in row["edges"]),
            tuple(row["evidence_ids"]),
            row["confidence"],
        )
    return RouteOutcome(
        plan,
        row["valid"],
        row["reason"],
        tuple(row["observed"]),
        row["turns"],
        row["malformed_turns"],
        row["failure"],
        tuple(row["calls"]),
    )
