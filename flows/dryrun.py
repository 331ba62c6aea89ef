"""What a run would do: layers and cells wanted and done, and the most model calls the rest can make. Runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flows import runs
from flows.benchmark import embedded_release
from flows.cell import cell_done
from flows.layers import wanted_tasks
from flows.wanted import cell_key, chain_keys, routes_key
from tasks_lib.evaluation.inputs import load
from tasks_lib.models.backends import BackendSpec
from tasks_lib.protocol.vocabulary import Behavior, DataAgent, Router
from tasks_lib.scoring.cells import FACTORIAL_ROUTERS, ROUTING_STUDY_ROUTERS, grid
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.schemas import ASKS, CONTRIBUTIONS, PLANS, ROUTES
from tasks_lib.store.settings import settings

TURNS = {
    Router.RANDOM: 0,
    Router.DIRECT: 1,
    Router.RERANK: 1,
    Router.CONSTRAINED: 1,
    Router.REACT: 30,
    Router.HERMES: 30,
}
PLAN_CALLS, SQL_CALLS, TOOL_STEPS = 4, {DataAgent.TEXT_TO_SQL: 1, DataAgent.ADAPTER: 2}, 30


async def dry(
    folder: str, backends: Sequence[BackendSpec], judge: BackendSpec | None, evidence: str, tasks: int
) -> dict[str, Any]:
    """Counts by backend; the upper bounds assume nothing is shared and every episode uses all its turns."""
    release = Path(folder) if folder else await embedded_release()
    run = runs.spec_of(release, backends, judge, evidence, tasks)
    store = ArtifactStore(settings().resolved_store_url)
    contracts = [load(run.release).contracts[t] for t in wanted_tasks(run)]
    interactive = sum(c.behavior is Behavior.INTERACTIVE for c in contracts)
    units = sum(len(c.unit_ids) for c in contracts)
    found: dict[str, Any] = {}
    for backend in run.backends:
        calls = 0
        layers = {"wanted": 0, "done": 0}

        def count(done: bool, at_most: int, layers: dict[str, int] = layers) -> int:
            layers["wanted"] += 1
            layers["done"] += done
            return 0 if done else at_most

        for router in ROUTING_STUDY_ROUTERS:
            calls += count(store.ok(ROUTES, routes_key(run, backend, router)), len(contracts) * TURNS[router])
        for router in FACTORIAL_ROUTERS:
            chain = chain_keys(run, backend, router)
            calls += count(store.ok(ASKS, chain.asks), interactive)
            calls += count(store.ok(ROUTES, chain.clarified), 2 * interactive * TURNS[router])
            calls += count(store.ok(PLANS, chain.plans), (len(contracts) + 2 * interactive) * PLAN_CALLS)
            for agent, key in chain.contributions.items():
                calls += count(
                    store.ok(CONTRIBUTIONS, key),
                    3 * (units + interactive) * (TOOL_STEPS if agent is DataAgent.ADAPTER else SQL_CALLS[agent]),
                )
        cells = grid([backend.name])
        done = sum(cell_done(store, cell_key(run, c, chain_keys(run, backend, c.router))) for c in cells)
        found[backend.name] = {"layers": layers, "cells": len(cells), "cells_done": done, "model_calls_at_most": calls}
    lines = [f"run {run.run_id} on {release}: {len(contracts)} tasks"]
    lines += [
        f"{name}: layers {f['layers']['done']} of {f['layers']['wanted']} done, cells {f['cells_done']} of {f['cells']} done, "
        f"at most {f['model_calls_at_most']} model calls to make"
        for name, f in found.items()
    ]
    return {
        "run": run.run_id,
        "release": str(release),
        "status": "dry_run",
        "cells": 72 * len(run.backends),
        "backends": found,
        "text": "\n".join(lines),
    }
