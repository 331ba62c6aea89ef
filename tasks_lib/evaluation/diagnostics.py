"""PRIVATE. The two evaluator-side diagnostics, never ranked (PROTOCOL 16): `gold` knows the contract, `silent` says nothing.

They produce the same layer rows as a backend and are scored by the same code; `expected` states what they must score.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from tasks_lib.evaluation.gold import GoldUnit
from tasks_lib.evaluation.oracle import oracle_plan
from tasks_lib.execution.drafts import SqlDraft
from tasks_lib.protocol.records import Contract, DatabaseHandle, LocalRequest
from tasks_lib.protocol.vocabulary import Behavior, Planner, VerdictKind

GOLD, SILENT = "gold", "silent"


def _route(
    backend: str, router: str, task_id: str, branch_id: str, contract: Contract | None, databases: Sequence[str]
) -> dict[str, Any]:
    """A route row: the given databases with the contract's label and edges, or no plan at all when contract is None."""
    edges = (
        []
        if contract is None
        else [{"source": a, "target": b, "type": "value", "reason": ""} for a, b in contract.edges]
    )
    return {
        "backend": backend,
        "router": router,
        "task_id": task_id,
        "branch_id": branch_id,
        "trial": 0,
        "valid": contract is not None,
        "reason": "" if contract else "no answer",
        "selected": list(databases),
        "topology": str(contract.behavior) if contract else "",
        "nodes": [{"database_id": d, "information_request": "as contracted"} for d in databases],
        "edges": edges,
        "evidence_ids": [],
        "confidence": 1.0 if contract else 0.0,
        "observed": list(databases),
        "turns": 0,
        "malformed_turns": 0,
        "failure": "",
        "calls": [],
    }


def gold_layers(router: str, contracts: Iterable[Contract]) -> dict[str, list[dict[str, Any]]]:
    """Rows of routes, asks, releases and plans of `gold`. Before an answer it takes the first branch of an interactive task."""
    layers: dict[str, list[dict[str, Any]]] = {"routes": [], "asks": [], "releases": [], "plans": []}
    for c in contracts:
        key = {"backend": GOLD, "router": router, "task_id": c.task_id, "trial": 0}
        if c.behavior is Behavior.INTERACTIVE:
            owner = dict(zip(c.unit_ids, c.databases, strict=True))
            layers["routes"].append(_route(GOLD, router, c.task_id, "", c, [owner[c.branches[0].unit_id]]))
            layers["asks"].append({**key, "ask": True, "question": c.slot_question, "failure": "", "calls": []})
            for b in c.branches:
                layers["routes"].append(_route(GOLD, router, c.task_id, b.branch_id, c, [owner[b.unit_id]]))
                layers["releases"].append(
                    {
                        **key,
                        "branch_id": b.branch_id,
                        "released": True,
                        "answer": b.answer,
                        "rule": "exact",
                        "judge_call": "",
                    }
                )
            continue
        layers["routes"].append(_route(GOLD, router, c.task_id, "", c, c.databases))
        if len(c.databases) > 1:
            plan = oracle_plan(c, c.databases)
            edges = [{"source": a, "target": b} for a, b in plan.edges]
            for planner in Planner:
                layers["plans"].append(
                    {
                        **key,
                        "planner": str(planner),
                        "branch_id": "",
                        "order": list(plan.order),
                        "edges": edges,
                        "ok": True,
                        "attempts": 0,
                        "calls": [],
                    }
                )
    return layers


def silent_layers(router: str, contracts: Iterable[Contract]) -> dict[str, list[dict[str, Any]]]:
    """Rows of `silent`: no accepted plan, no question."""
    layers: dict[str, list[dict[str, Any]]] = {"routes": [], "asks": [], "releases": [], "plans": []}
    for c in contracts:
        layers["routes"].append(_route(SILENT, router, c.task_id, "", None, ()))
        if c.behavior is Behavior.INTERACTIVE:
            layers["asks"].append(
                {
                    "backend": SILENT,
                    "router": router,
                    "task_id": c.task_id,
                    "trial": 0,
                    "ask": False,
                    "question": "",
                    "failure": "",
                    "calls": [],
                }
            )
    return layers


class GoldWriter:
    """Writes the gold SQL; downstream units carry the public placeholder they were given."""

    def __init__(self, contracts: Iterable[Contract]) -> None:
        self._bindings = {(c.task_id, b.downstream_unit): b for c in contracts for b in c.bindings}

    async def __call__(self, request: LocalRequest, handle: DatabaseHandle, unit: GoldUnit) -> SqlDraft:
        binding = self._bindings.get((request.task_id, unit.unit_id))
        if binding is None:
            return SqlDraft(unit.sql, None, "")
        if binding.column_index >= len(request.placeholders):
            return SqlDraft(None, VerdictKind.BINDING_INVALID, "the upstream result offers no such placeholder")
        name = request.placeholders[binding.column_index]
        return SqlDraft(binding.downstream_sql.replace(":binding", f":{name}"), None, "")


async def silent_writer(request: LocalRequest, handle: DatabaseHandle, unit: GoldUnit) -> SqlDraft:
    """Writes nothing."""
    return SqlDraft(None, VerdictKind.MISSING_SQL, "silent")


def expected(backend: str, interaction: str, contracts: Sequence[Contract]) -> dict[str, float]:
    """What a diagnostic must score in a cell of this interaction (PROTOCOL 16); "" is the routing study."""
    accuracy = ("RA-Set", "RA-Graph", "EA-Micro", "TEA", "CEA-Set", "CEA-Graph", "R+E-Set", "R+E-Graph")
    if backend == SILENT:
        return {**dict.fromkeys(accuracy, 0.0), "Valid": 0.0, "UR": 1.0, "OR": 0.0}
    if interaction == "once":
        return {**dict.fromkeys(accuracy, 1.0), "Valid": 1.0, "UR": 0.0, "OR": 0.0}
    half = sum(c.behavior is Behavior.INTERACTIVE for c in contracts)
    n = len(contracts)
    required = sum(1 if c.behavior is Behavior.INTERACTIVE else len(c.unit_ids) for c in contracts)
    task = (n - 0.5 * half) / n
    return {
        "RA-Set": task,
        "RA-Graph": task,
        "TEA": task,
        "R+E-Set": task,
        "R+E-Graph": task,
        "EA-Micro": (required - 0.5 * half) / required,
        "CEA-Set": 1.0,
        "CEA-Graph": 1.0,
        "Valid": 1.0,
    }


def check(metrics: pl.DataFrame, contracts: Mapping[str, Sequence[Contract]]) -> list[str]:
    """Problems of a metrics table of diagnostic cells against `expected`, over all tasks and by corpus; [] when exact.

    `metrics`: rows of `metrics` with slices all and corpus. `contracts`: "all" and each corpus to its contracts.
    """
    problems = []
    values = {
        (r["cell_id"], r["slice"], r["value_of"], r["metric"]): r["value"]
        for r in metrics.filter(pl.col("slice").is_in(["all", "corpus"])).iter_rows(named=True)
    }
    for cell_id in sorted({k[0] for k in values}):
        backend, _, _, _, interaction, _ = cell_id.split(".")
        for part, group in contracts.items():
            for metric, want in expected(backend, interaction, group).items():
                got = values.get((cell_id, "all" if part == "all" else "corpus", part, metric))
                if got is None or got != want:
                    problems.append(f"{cell_id} on {part}: {metric} is {got}, expected exactly {want}.")
    return problems
