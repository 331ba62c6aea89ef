"""The routing study: every backend × six routers × every task, initial routes only, no clarification."""

from __future__ import annotations

import asyncio
import logging
import uuid
from pathlib import Path
from typing import Annotated, Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from pydantic import Field

from flows import runs
from flows.benchmark import embedded_release
from flows.blocks import AnyBackend, opened
from flows.layers import ensure_routes, wanted_tasks
from flows.liveness import alive
from flows.wanted import RunSpec
from tasks_lib.evaluation.inputs import load
from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.budget import limited
from tasks_lib.models.chat import BackendMisconfigured, ProviderUnavailable
from tasks_lib.protocol.vocabulary import Router
from tasks_lib.scoring.cells import ROUTING_STUDY_ROUTERS
from tasks_lib.scoring.routing_tables import routing_tables
from tasks_lib.scoring.targets import episodes_of
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.schemas import ROUTING_METRICS
from tasks_lib.store.settings import settings

log = logging.getLogger("dsabench.routing_study")


async def run_routing_study(run: RunSpec) -> dict[str, Any]:
    """Routes of every (backend, router), scored; the study's record, status and reason included."""
    invocation = f"{run.run_id}:{uuid.uuid4().hex[:8]}"
    routes: dict[tuple[str, str], str] = {}
    missing: dict[tuple[str, str], str] = {}

    async def one(backend: BackendSpec, router: Router) -> None:
        try:
            routes[(backend.name, str(router))] = await ensure_routes(run, backend, router, invocation)
        except (ProviderUnavailable, BackendMisconfigured) as error:
            missing[(backend.name, str(router))] = str(error)
            log.error("%s %s is not complete: %s", backend.name, router, error)

    await asyncio.gather(*(one(b, r) for b in run.backends for r in ROUTING_STUDY_ROUTERS))
    record: dict[str, Any] = {"status": "completed", "reason": "", "pairs": len(routes), "invocation": invocation}
    if missing:
        reasons = "; ".join(f"{b} {r}: {why}" for (b, r), why in sorted(missing.items()))
        record |= {
            "status": "incomplete",
            "reason": f"{len(missing)} routing pairs are not complete ({reasons}); resume the run.",
        }
    if routes:
        contracts = load(run.release).contracts
        targets = episodes_of(contracts[t] for t in wanted_tasks(run))
        store = ArtifactStore(settings().resolved_store_url)
        tables = routing_tables(store, routes, targets, run.draws, run.seed, run.manifest)
        record |= {
            "routing_episodes_key": tables.episodes,
            "routing_metrics_key": tables.metrics,
            "routing_intervals_key": tables.intervals,
            "routing_episodes": tables.rows,
            "routing_routes": {f"{b} {r}": k for (b, r), k in sorted(routes.items())},
        }
    return record


@flow(name="routing_study", flow_run_name="routing study")
async def routing_study(
    release: Annotated[str, Field(strict=True)] = "",
    backends: list[AnyBackend] | None = None,
    tasks: Annotated[int, Field(strict=True, ge=0)] = 0,
    max_calls: Annotated[int, Field(strict=True, ge=0)] = 0,
    max_cost: Annotated[float, Field(ge=0)] = 0.0,
) -> dict[str, Any]:
    """Score the six routers of every backend on a release.

    Args:
        release: Folder of a release; empty means the embedded one.
        backends: Backends to evaluate, written out or saved as blocks; none means the four offline policies.
        tasks: How many tasks, 0 for all.
        max_calls: Stop before more model calls than this are sent, 0 for no limit.
        max_cost: Stop before more US dollars than this are spent, 0 for no limit.
    """
    with limited(max_calls, max_cost), opened(backends) as (specs, _):
        async with alive():
            folder = Path(release) if release else await embedded_release()
            run = runs.spec_of(folder, specs, tasks=tasks)
            record = {"run": run.run_id, "release": run.release, **await run_routing_study(run)}
    if "routing_metrics_key" in record:
        frame = ArtifactStore(settings().resolved_store_url).read(ROUTING_METRICS, record["routing_metrics_key"])
        part = frame.filter((frame["slice"] == "all") & frame["metric"].is_in(["RA-Set", "RA-Graph", "Recall"]))
        rows = [
            {"backend": b, "router": r, "metric": m, "percent": f"{100 * v:.2f}"}
            for b, r, m, v in part.select("backend", "router", "metric", "value").iter_rows()
        ]
        await create_table_artifact(rows, key="routing-study", description="Routing study, percent")  # type: ignore[misc]
    return record
