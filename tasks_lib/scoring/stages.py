"""One primary failure stage per failed episode (PROTOCOL 15). Pure; the order of the tests is the taxonomy."""

from __future__ import annotations

from collections.abc import Mapping

from tasks_lib.protocol.vocabulary import Behavior, FailureStage, VerdictKind
from tasks_lib.scoring.targets import Target


def routing_stage(
    target: Target, selected: frozenset[str], observed: frozenset[str], s: bool, g: bool, released: bool, changed: bool
) -> FailureStage:
    """Stage of a route that is not graph-correct; NONE when it is. `observed`: databases seen in the episode."""
    required = frozenset(target.databases)
    if not s:
        if target.behavior is Behavior.INTERACTIVE:
            return FailureStage.ASKED_WITHOUT_REVISING if released and not changed else FailureStage.BRANCH_ERROR
        if not required <= observed:
            return FailureStage.RETRIEVAL_MISS
        if not required <= selected:
            return FailureStage.UNDER_SELECTION
        return FailureStage.OVER_SELECTION
    return FailureStage.NONE if g else FailureStage.GRAPH_ERROR


def execution_stage(
    t: bool, h: bool, kinds: Mapping[str, VerdictKind], privileged: Mapping[str, VerdictKind] | None
) -> FailureStage:
    """Stage of a graph-correct episode. `kinds`, `privileged`: verdicts by unit; `privileged` None outside router mode."""
    if t and h:
        return FailureStage.NONE
    if not h or VerdictKind.BINDING_INVALID in kinds.values():
        return FailureStage.BINDING_ORDER_ERROR
    if privileged is not None and any(
        kind is not VerdictKind.CORRECT and privileged.get(unit) is VerdictKind.CORRECT for unit, kind in kinds.items()
    ):
        return FailureStage.DECOMPOSITION_ERROR
    return FailureStage.SOURCE_EXECUTION_ERROR
