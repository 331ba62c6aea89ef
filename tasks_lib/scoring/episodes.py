"""Scoring of single episodes: the gates s, g, t, h and the set measures (PROTOCOL 12), and the join of a cell's layers.

Pure functions over rows; a missing, duplicate or unknown key is an error that names it (known fault C12).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks_lib.protocol.records import Cell
from tasks_lib.protocol.vocabulary import AskScope, Behavior, Interaction, QueryMode, VerdictKind
from tasks_lib.scoring.stages import execution_stage, routing_stage
from tasks_lib.scoring.targets import Target

Row = Mapping[str, Any]


class JoinError(ValueError):
    """A layer lacks a key the cell needs, holds it twice, or holds one nobody knows."""


@dataclass(frozen=True, slots=True)
class SetScore:
    """Set measures of one prediction against one target; an empty prediction has precision = F1 = OR = 0, UR = 1."""

    s: bool
    precision: float
    recall: float
    f1: float
    over_rate: float
    under_rate: float


def set_score(predicted: Iterable[str], required: Iterable[str]) -> SetScore:
    """PROTOCOL 12. `required` is never empty."""
    p, g = frozenset(predicted), frozenset(required)
    hit = len(p & g)
    precision = hit / len(p) if p else 0.0
    recall = hit / len(g)
    f1 = 2 * hit / (len(p) + len(g)) if hit else 0.0
    return SetScore(p == g, precision, recall, f1, len(p - g) / len(p) if p else 0.0, len(g - p) / len(g))


def graph_score(target: Target, route: Row) -> tuple[bool, bool]:
    """(label_ok, edges_ok) of a route row; both False when no plan was accepted."""
    if not route["valid"]:
        return False, False
    declared = frozenset((e["source"], e["target"]) for e in route["edges"])
    return route["topology"] == target.behavior, declared == target.edges


def plan_gate(target: Target, plan: Row | None) -> bool:
    """h: for sequential targets the plan succeeded and its order respects every gold edge; 1 elsewhere."""
    if target.behavior is not Behavior.SEQUENTIAL:
        return True
    if plan is None or not plan["ok"]:
        return False
    place = {d: i for i, d in enumerate(plan["order"])}
    return all(a in place and b in place and place[a] < place[b] for a, b in target.edges)


def index(rows: Iterable[Row], *names: str, what: str) -> dict[tuple[Any, ...], Row]:
    """Rows by key. Raises JoinError naming a duplicate key."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = tuple(row[n] for n in names)
        if key in found:
            raise JoinError(f"{what}: key {key} appears twice, expected once; remove the duplicate.")
        found[key] = row
    return found


def _need(found: Mapping[tuple[Any, ...], Row], key: tuple[Any, ...], what: str) -> Row:
    try:
        return found[key]
    except KeyError:
        raise JoinError(f"{what}: key {key} is missing, expected one row; run the layer again.") from None


def _no_strangers(found: Iterable[tuple[Any, ...]], place: int, known: set[str], what: str) -> None:
    """Raises JoinError for a key whose task (at `place`) the release does not have."""
    for key in found:
        if key[place] not in known:
            raise JoinError(f"{what}: key {key} is unknown to the release; use the release it was made for.")


def score_routes(backend: str, router: str, targets: Sequence[Target], routes: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows of `routing_episodes`: initial routes re-scored on every branch, no clarification (PROTOCOL 13)."""
    initial = index(
        (r for r in routes if r["branch_id"] == "" and r["trial"] == 0), "task_id", what=f"routes {backend} {router}"
    )
    known = {t.task_id for t in targets}
    for (task_id,) in initial:
        if task_id not in known:
            raise JoinError(
                f"routes {backend} {router}: task {task_id} is unknown to the release; use the release it was made for."
            )
    rows = []
    for target in targets:
        route = _need(initial, (target.task_id,), f"routes {backend} {router}")
        sets = set_score(route["selected"], target.databases)
        label_ok, edges_ok = graph_score(target, route)
        g = sets.s and label_ok and edges_ok
        stage = routing_stage(
            target, frozenset(route["selected"]), frozenset(route["observed"]), sets.s, g, False, False
        )
        rows.append(
            {
                "backend": backend,
                "router": router,
                "task_id": target.task_id,
                "branch_id": target.branch_id,
                "corpus": str(target.corpus),
                "behavior": str(target.behavior),
                "difficulty": str(target.difficulty),
                "weight": target.weight,
                "list_size": target.list_size,
                "valid": route["valid"],
                "s": sets.s,
                "label_ok": label_ok,
                "edges_ok": edges_ok,
                "g": g,
                "precision": sets.precision,
                "recall": sets.recall,
                "f1": sets.f1,
                "over_rate": sets.over_rate,
                "under_rate": sets.under_rate,
                "turns": route["turns"],
                "malformed_turns": route["malformed_turns"],
                "failure_stage": str(stage),
                "failure_flag": route["failure"],
            }
        )
    return rows


def score_cell(
    cell: Cell,
    targets: Sequence[Target],
    routes: Iterable[Row],
    asks: Iterable[Row],
    releases: Iterable[Row],
    plans: Iterable[Row],
    contributions: Iterable[Row],
    ask_scope: AskScope = "interactive",
) -> list[dict[str, Any]]:
    """Rows of `episodes` of one cell: a join of its layers, then the gates inside each episode.

    `routes`, `asks`, `releases`: of (backend, router). `plans`: also of every planner. `contributions`: of
    (backend, router, data agent). Under Once an interactive episode uses its clarified route where its answer was released.
    With `ask_scope` "all" the asks of ordinary tasks are noted too; nothing is released there, so nothing else changes.
    """
    what = f"cell {cell.cell_id}"
    by_route = index((r for r in routes if r["trial"] == 0), "task_id", "branch_id", what=f"{what}, routes")
    by_ask = index((r for r in asks if r["trial"] == 0), "task_id", what=f"{what}, asks")
    by_release = index((r for r in releases if r["trial"] == 0), "task_id", "branch_id", what=f"{what}, releases")
    by_plan = index(
        (r for r in plans if r["planner"] == cell.planner and r["trial"] == 0),
        "task_id",
        "branch_id",
        what=f"{what}, plans",
    )
    mine = [c for c in contributions if c["planner"] == cell.planner and c["trial"] == 0]
    names = ("state", "task_id", "branch_id", "unit_id")
    by_unit = index((c for c in mine if c["query_mode"] == cell.query_mode), *names, what=f"{what}, contributions")
    privileged = index(
        (c for c in mine if c["query_mode"] == QueryMode.PRIVILEGED), *names, what=f"{what}, privileged contributions"
    )
    known = {t.task_id for t in targets}
    for layer, found in (("routes", by_route), ("asks", by_ask), ("releases", by_release), ("plans", by_plan)):
        _no_strangers(found, 0, known, f"{what}, {layer}")
    _no_strangers(by_unit, 1, known, f"{what}, contributions")
    rows = []
    for target in targets:
        initial = _need(by_route, (target.task_id, ""), f"{what}, routes")
        route, state = initial, "initial"
        asked = released = False
        ambiguous = target.behavior is Behavior.INTERACTIVE
        if cell.interaction is Interaction.ONCE and (ambiguous or ask_scope == "all"):
            asked = bool(_need(by_ask, (target.task_id,), f"{what}, asks")["ask"])
            if asked and ambiguous:
                released = bool(_need(by_release, (target.task_id, target.branch_id), f"{what}, releases")["released"])
            if released:
                route, state = (
                    _need(by_route, (target.task_id, target.branch_id), f"{what}, clarified routes"),
                    "clarified",
                )
        selected = frozenset(route["selected"])
        sets = set_score(selected, target.databases)
        initial_s = set_score(initial["selected"], target.databases).s
        changed = selected != frozenset(initial["selected"])
        label_ok, edges_ok = graph_score(target, route)
        g = sets.s and label_ok and edges_ok
        plan = by_plan.get((target.task_id, target.branch_id if state == "clarified" else ""))
        if plan is None and len(selected) > 1:
            raise JoinError(
                f"{what}, plans: {(target.task_id, target.branch_id)} is missing, expected one row; run the layer again."
            )
        h = plan_gate(target, plan)
        units = [
            _need(by_unit, (state, target.task_id, target.branch_id, u), f"{what}, contributions") for u in target.units
        ]
        kinds = {u["unit_id"]: VerdictKind(u["kind"]) for u in units}
        correct = sum(kind is VerdictKind.CORRECT for kind in kinds.values())
        bindings_ok = all(
            not u["needs_binding"] or kinds[u["unit_id"]] is not VerdictKind.BINDING_INVALID for u in units
        )
        t = correct == len(target.units) and bindings_ok
        stage = routing_stage(target, selected, frozenset(route["observed"]), sets.s, g, released, changed)
        if g:
            other = None
            if cell.query_mode is QueryMode.ROUTER:
                other = {
                    u: VerdictKind(
                        _need(privileged, (state, target.task_id, target.branch_id, u), f"{what}, privileged")["kind"]
                    )
                    for u in target.units
                }
            stage = execution_stage(t, h, kinds, other)
        rows.append(
            {
                "cell_id": cell.cell_id,
                "backend": cell.backend,
                "router": str(cell.router),
                "data_agent": str(cell.data_agent),
                "planner": str(cell.planner),
                "interaction": str(cell.interaction),
                "query_mode": str(cell.query_mode),
                "task_id": target.task_id,
                "branch_id": target.branch_id,
                "corpus": str(target.corpus),
                "behavior": str(target.behavior),
                "difficulty": str(target.difficulty),
                "weight": target.weight,
                "target_size": len(target.databases),
                "list_size": target.list_size,
                "required": len(target.units),
                "correct": correct,
                "ran": sum(bool(u["ran"]) for u in units),
                "valid": bool(route["valid"]),
                "s": sets.s,
                "label_ok": label_ok,
                "edges_ok": edges_ok,
                "g": g,
                "t": t,
                "h": h,
                "bindings_ok": bindings_ok,
                "precision": sets.precision,
                "recall": sets.recall,
                "f1": sets.f1,
                "over_rate": sets.over_rate,
                "under_rate": sets.under_rate,
                "asked": asked,
                "released": released,
                "changed": changed,
                "initial_s": initial_s,
                "planned": plan is not None,
                "plan_ok": plan is not None and bool(plan["ok"]),
                "failure_stage": str(stage),
                "failure_flag": route["failure"],
            }
        )
    return rows
