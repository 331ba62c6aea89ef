"""Memory stays flat over cells of the published size, and their rows add up (known fault P08)."""

from __future__ import annotations

from pathlib import Path

import psutil
import test_scoring_episodes as te

from tasks_lib.protocol.vocabulary import Behavior
from tasks_lib.scoring.targets import episodes_of


def test_p08_memory_stays_flat_over_cells(tmp_path: Path) -> None:
    from tasks_lib.evaluation.diagnostics import gold_layers
    from tasks_lib.scoring.cells import grid
    from tasks_lib.scoring.tables import cell_tables
    from tasks_lib.store.artifacts import ArtifactStore
    from tasks_lib.store.schemas import EPISODES

    contracts = [te.contract(f"o{i}", Behavior.SINGLE, ("a",)) for i in range(710)]
    contracts += [te.contract(f"i{i}", Behavior.INTERACTIVE, ("a", "b")) for i in range(105)]
    targets, store = episodes_of(contracts), ArtifactStore(str(tmp_path))
    layers = gold_layers("direct", contracts) | {
        "contributions": [
            te.contribution(t.task_id, u, mode=mode, state=state, branch_id=t.branch_id) | {"planner": planner}
            for t in targets
            for u in t.units
            for planner in ("llm", "oracle")
            for mode in ("privileged", "fused", "router")
            for state in ("initial", "clarified")
        ]
    }
    resident, episodes, tasks = [], 0, 0
    for number, cell in enumerate(grid(["w"])[:24], 1):
        frame, _ = cell_tables(cell, targets, layers)
        store.write(EPISODES, f"k{number}", frame)
        episodes, tasks = episodes + frame.height, tasks + frame["task_id"].n_unique()
        resident.append(psutil.Process().memory_info().rss)
    assert (episodes * 12, tasks * 12) == (264_960, 234_720)
    assert resident[19] <= resident[1] * 1.1
