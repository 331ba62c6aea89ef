"""One cell of the factorial: join its layers, score, write its episode partition and its metrics.

Run alone (a rerun from the dashboard) it finds its layers done, or completes them first; the result is the same.
"""

from __future__ import annotations

import uuid
from functools import lru_cache
from typing import Annotated, Any

from prefect import flow
from pydantic import Field

from flows import runs
from flows.layers import ensure_chain
from flows.wanted import ChainKeys, RunSpec, cell_key, chain_keys, wanted_tasks
from tasks_lib.evaluation.inputs import load
from tasks_lib.protocol.records import Cell
from tasks_lib.protocol.vocabulary import AskScope
from tasks_lib.scoring.cells import parse
from tasks_lib.scoring.tables import Scorer
from tasks_lib.scoring.targets import episodes_of
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.schemas import ASKS, CONTRIBUTIONS, EPISODES, METRICS, PLANS, RELEASES, ROUTES
from tasks_lib.store.settings import settings


def layers_done(store: ArtifactStore, cell: Cell, chain: ChainKeys) -> bool:
    """True when every layer the cell joins is in the store."""
    wanted = [
        (ROUTES, chain.routes),
        (ROUTES, chain.clarified),
        (ASKS, chain.asks),
        (RELEASES, chain.releases),
        (PLANS, chain.plans),
        (CONTRIBUTIONS, chain.contributions[cell.data_agent]),
    ]
    return all(store.ok(table, key) for table, key in wanted)


def cell_done(store: ArtifactStore, key: str) -> bool:
    """True when both of the cell's tables are in the store: such a cell starts no subflow."""
    return store.ok(EPISODES, key) and store.ok(METRICS, key)


@lru_cache(maxsize=1)
def _scorer(url: str, release: str, manifest: str, task_ids: tuple[str, ...], ask_scope: AskScope) -> Scorer:
    contracts = load(release).contracts
    return Scorer(ArtifactStore(url), episodes_of(contracts[t] for t in task_ids), ask_scope)


def scorer_of(run: RunSpec) -> Scorer:
    """What scores the cells of a run, once a process: its targets, and the layers that cells of one chain share."""
    tasks = tuple(wanted_tasks(run))
    return _scorer(settings().resolved_store_url, run.release, run.manifest, tasks, run.ask_scope)


def score_cell(run: RunSpec, cell: Cell, chain: ChainKeys | None = None) -> dict[str, Any]:
    """Join, score and write one cell whose layers are done; returns its headline values. `chain`: default that of today's code."""
    scorer = scorer_of(run)
    chain = chain or chain_keys(run, run.backend(cell.backend), cell.router)
    key = cell_key(run, cell, chain)
    keys = {**chain.inputs(), "contributions": chain.contributions[cell.data_agent]}
    episodes, metrics = scorer.tables(cell, keys)
    scorer.store.write(EPISODES, key, episodes, inputs=keys)
    scorer.store.write(METRICS, key, metrics, inputs=keys)
    values = metrics.filter(metrics["slice"] == "all")
    return {
        "cell": cell.cell_id,
        "key": key,
        "episodes": episodes.height,
        "values": dict(values.select("metric", "value").iter_rows()),
    }


@flow(name="cell", flow_run_name="cell {cell_id}", log_prints=False)
async def cell(
    run: Annotated[str, Field(strict=True, pattern=r"^run-[0-9a-f]{12}$")],
    cell_id: Annotated[str, Field(strict=True, min_length=1)],
) -> dict[str, Any]:
    """Score one cell of a recorded run.

    Args:
        run: id of the run, such as run-0123456789ab.
        cell_id: backend.router.data_agent.planner.interaction.query_mode
    """
    spec, _ = runs.load(run)
    point = parse(cell_id)
    backend = spec.backend(point.backend)
    store = ArtifactStore(settings().resolved_store_url)
    if not layers_done(store, point, chain_keys(spec, backend, point.router)):
        await ensure_chain(spec, backend, point.router, f"{run}:{uuid.uuid4().hex[:8]}")
    return score_cell(spec, point)
