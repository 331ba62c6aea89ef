"""One primary failure stage per failed episode (PROTOCOL 15). Pure; the order of the tests is the taxonomy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tasks_lib.protocol.vocabulary import Behavior, FailureStage
from tasks_lib.scoring.targets import Target

Flags = npt.NDArray[np.bool_]


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


def execution_stages(t: Flags, h: Flags, binding_invalid: Flags, decomposed: Flags) -> npt.NDArray[np.str_]:
    """Stages of graph-correct episodes, one value each.

    `binding_invalid`: the verdict of a required unit. `decomposed`: a required unit is wrong here and right when asked its
    privileged question; all False outside router mode.
    """
    return np.select(
        [t & h, ~h | binding_invalid, decomposed],
        [str(FailureStage.NONE), str(FailureStage.BINDING_ORDER_ERROR), str(FailureStage.DECOMPOSITION_ERROR)],
        str(FailureStage.SOURCE_EXECUTION_ERROR),
    )
