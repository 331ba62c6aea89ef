"""Scoring of single episodes: the gates s, g, h and the set measures (PROTOCOL 12), and the rows of the routing study.

Pure functions over rows; a missing, duplicate or unknown key is an error that names it (known fault C12). The join of a cell's
layers is in chains.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from tasks_lib.protocol.vocabulary import Behavior
from tasks_lib.scoring.stages import routing_stage
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


def route_score(target: Target, route: Row) -> dict[str, Any]:
    """Columns that a route decides, whatever table they go to: `valid`, the gates s and g with the two halves of g, the set measures,
    `failure_flag`."""
    sets = set_score(route["selected"], target.databases)
    label_ok, edges_ok = graph_score(target, route)
    return {
        "valid": bool(route["valid"]),
        "s": sets.s,
        "label_ok": label_ok,
        "edges_ok": edges_ok,
        "g": sets.s and label_ok and edges_ok,
        "precision": sets.precision,
        "recall": sets.recall,
        "f1": sets.f1,
        "over_rate": sets.over_rate,
        "under_rate": sets.under_rate,
        "failure_flag": route["failure"],
    }


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


def need(found: Mapping[tuple[Any, ...], Row], key: tuple[Any, ...], what: str) -> Row:
    """The row of a key. Raises JoinError naming a key that is missing."""
    try:
        return found[key]
    except KeyError:
        raise JoinError(f"{what}: key {key} is missing, expected one row; run the layer again.") from None


def no_strangers(found: Iterable[tuple[Any, ...]], place: int, known: Set[str], what: str) -> None:
    """Raises JoinError for a key whose task (at `place`) the release does not have."""
    for key in found:
        if key[place] not in known:
            raise JoinError(f"{what}: key {key} is unknown to the release; use the release it was made for.")


def score_routes(backend: str, router: str, targets: Sequence[Target], routes: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows of `routing_episodes`: initial routes re-scored on every branch, no clarification (PROTOCOL 13)."""
    initial = index(
        (r for r in routes if r["branch_id"] == "" and r["trial"] == 0), "task_id", what=f"routes {backend} {router}"
    )
    no_strangers(initial, 0, {t.task_id for t in targets}, f"routes {backend} {router}")
    rows = []
    for target in targets:
        route = need(initial, (target.task_id,), f"routes {backend} {router}")
        scored = route_score(target, route)
        selected, observed = frozenset(route["selected"]), frozenset(route["observed"])
        stage = routing_stage(target, selected, observed, scored["s"], scored["g"], False, False)
        rows.append(
            {
                "backend": backend,
                "router": router,
                **target.named(),
                **scored,
                "turns": route["turns"],
                "malformed_turns": route["malformed_turns"],
                "failure_stage": str(stage),
            }
        )
    return rows
