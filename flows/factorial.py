"""The factorial: layers first, each once; then one mapped `cell` subflow for every cell that is not done; then the tables."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

import polars as pl
from prefect import flow
from prefect.artifacts import create_progress_artifact, create_table_artifact, update_progress_artifact
from prefect.context import FlowRunContext
from pydantic import Field

from flows import runs
from flows.blocks import AnyBackend, opened
from flows.cell import cell as cell_flow
from flows.cell import cell_done
from flows.counts import shared_counts
from flows.dryrun import announce
from flows.explain import save_keys
from flows.layers import ensure_chain, ensure_clarified_turns, ensure_turns
from flows.liveness import alive
from flows.releases import release_folder
from flows.runtime import say
from flows.wanted import ChainKeys, RunSpec, cell_key, chain_keys, wanted_tasks
from tasks_lib.evaluation.inputs import load
from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.budget import limited
from tasks_lib.models.chat import BackendMisconfigured, ProviderUnavailable
from tasks_lib.protocol.records import Cell
from tasks_lib.protocol.vocabulary import AskScope, PlannerLanguage, Router
from tasks_lib.scoring.cells import FACTORIAL_ROUTERS, grid
from tasks_lib.scoring.publish import publish
from tasks_lib.scoring.targets import episodes_of
from tasks_lib.sql.faults import DatabaseFault
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.keys import noted_keys
from tasks_lib.store.runners import WorkerLost
from tasks_lib.store.schemas import METRICS
from tasks_lib.store.settings import settings

log = logging.getLogger("dsabench.factorial")
FAULTS = (ProviderUnavailable, BackendMisconfigured, DatabaseFault, WorkerLost)


@dataclass
class Layers:
    """Keys of the chains that are done, of the transcripts of their initial and clarified routes, and why others are not."""

    keys: dict[tuple[str, Router], ChainKeys] = field(default_factory=dict)
    turns: dict[tuple[str, Router], dict[str, str]] = field(default_factory=dict)
    missing: dict[tuple[str, Router], str] = field(default_factory=dict)


async def compute_layers(run: RunSpec, invocation: str) -> Layers:
    """Every chain of the factorial; transient faults leave a chain missing, with its reason, and stop nobody else."""
    layers = Layers()
    points = [(b, r) for b in run.backends for r in FACTORIAL_ROUTERS]

    async def one(backend: BackendSpec, router: Router) -> None:
        try:
            chain = await ensure_chain(run, backend, router, invocation)
            layers.turns[(backend.name, router)] = {
                "routes": await ensure_turns(run, backend, router, invocation),
                "clarified": await ensure_clarified_turns(run, backend, router, invocation),
            }
            layers.keys[(backend.name, router)] = chain
        except FAULTS as error:
            layers.missing[(backend.name, router)] = str(error)
            log.error("%s %s is not complete: %s", backend.name, router, error)

    await asyncio.gather(*(one(b, r) for b, r in points))
    return layers


async def fan_out(run: RunSpec, cells: Sequence[Cell], keys: dict[str, str]) -> int:
    """Start a `cell` subflow for every cell not done, under the settings' limit; returns how many were started."""
    store = ArtifactStore(settings().resolved_store_url)
    todo = [c for c in cells if not cell_done(store, keys[c.cell_id])]
    if not todo:
        return 0
    gate = asyncio.Semaphore(settings().cells_at_once)
    progress = await create_progress_artifact(
        0.0, key="factorial-cells", description=f"{len(todo)} of {len(cells)} cells to do"
    )  # type: ignore[misc]
    finished = 0

    async def one(point: Cell) -> None:
        nonlocal finished
        async with gate:
            await cell_flow(run.run_id, point.cell_id)
            finished += 1
            if finished % 24 == 0 or finished == len(todo):
                say(f"cells: {finished} of {len(todo)}")
                await update_progress_artifact(progress, 100.0 * finished / len(todo))  # type: ignore[misc]

    await asyncio.gather(*(one(c) for c in todo))
    return len(todo)


def published(run: RunSpec, cells: Sequence[Cell], keys: Mapping[str, str]) -> dict[str, Any]:
    """Write the tables of cells that are done; their part of the run's record. `keys`: artifact key by cell id."""
    store = ArtifactStore(settings().resolved_store_url)
    contracts = load(run.release).contracts
    targets = episodes_of(contracts[t] for t in wanted_tasks(run))
    made = publish(store, cells, keys, targets, run.draws, run.seed)
    return {
        "metrics_key": made.metrics,
        "intervals_key": made.intervals,
        "analyses_key": made.analyses,
        "episodes": made.episodes,
        "base_rows": made.base_rows,
    }


async def run_factorial(run: RunSpec) -> dict[str, Any]:
    """The factorial of a run; writes and returns the run's record."""
    invocation = f"{run.run_id}:{uuid.uuid4().hex[:8]}"
    record: dict[str, Any] = {
        "run": run.run_id,
        "spec": run.model_dump(mode="json"),
        "status": "running",
        "reason": "",
        "invocation": invocation,
    }
    runs.save(run.run_id, record)
    with runs.marked(record):
        await _filled(run, record, invocation)
    return record


async def _filled(run: RunSpec, record: dict[str, Any], invocation: str) -> None:
    """Compute what the record tells; it is saved when all of it is there."""
    say(f"factorial {run.run_id}: layers of {len(run.backends)} backends")
    layers = await compute_layers(run, invocation)
    cells = grid([b.name for b in run.backends])
    with noted_keys() as noted:
        chains = {(b.name, r): chain_keys(run, b, r) for b in run.backends for r in FACTORIAL_ROUTERS}
        keys = {c.cell_id: cell_key(run, c, chains[(c.backend, c.router)]) for c in cells}
    save_keys(run.run_id, keys, noted)
    ready = [c for c in cells if (c.backend, c.router) in layers.keys]
    # The counts read layers, no cell: they are taken while the cells wait for Prefect's server.
    counting = asyncio.to_thread(shared_counts, run.run_id, ready, chains, invocation) if ready else asyncio.sleep(0)
    record["cells_started"], counts = await asyncio.gather(fan_out(run, ready, keys), counting)
    record["cell_keys"] = {c.cell_id: keys[c.cell_id] for c in ready}
    record["cells"] = len(ready)
    record["chains"] = {f"{b} {r}": asdict(k) for (b, r), k in layers.keys.items()}
    record["turns"] = {f"{b} {r}": k for (b, r), k in sorted(layers.turns.items())}
    if layers.missing:
        reasons = "; ".join(f"{b} {r}: {why}" for (b, r), why in sorted(layers.missing.items()))
        record |= {
            "status": "incomplete",
            "reason": f"{len(cells) - len(ready)} of {len(cells)} cells are not complete ({reasons}); resume the run.",
        }
    else:
        record["status"] = "completed"
    if counts is not None:
        record |= published(run, ready, keys) | counts
    runs.save(run.run_id, record)


def _on_its_own() -> bool:
    """Whether no flow started this one; who did has told the plan."""
    context = FlowRunContext.get()
    return context is None or context.flow_run is None or context.flow_run.parent_task_run_id is None


def headline_rows(metrics: pl.DataFrame) -> list[dict[str, Any]]:
    """Median of the headline values over each backend's 12 non-privileged LLM-planner cells, by interaction (Table 5)."""
    part = metrics.filter(
        (pl.col("slice") == "all") & pl.col("metric").is_in(["RA-Set", "RA-Graph", "EA-Micro", "R+E-Graph"])
    ).with_columns(parts=pl.col("cell_id").str.split("."))
    part = part.with_columns(
        backend=pl.col("parts").list.get(0),
        planner=pl.col("parts").list.get(3),
        interaction=pl.col("parts").list.get(4),
        mode=pl.col("parts").list.get(5),
    ).filter((pl.col("planner") == "llm") & (pl.col("mode") != "privileged"))
    table = (
        part.group_by("backend", "interaction", "metric")
        .agg(pl.col("value").median())
        .sort("backend", "interaction", "metric")
    )
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for backend, interaction, metric, value in table.iter_rows():
        found.setdefault((backend, interaction), {"backend": backend, "interaction": interaction})[metric] = (
            f"{100 * value:.2f}"
        )
    return list(found.values())


@flow(name="factorial", flow_run_name="factorial")
async def factorial(
    release: Annotated[str, Field(strict=True)] = "",
    backends: list[AnyBackend] | None = None,
    judge: AnyBackend | None = None,
    evidence: Literal["unit", "privileged_only"] = "unit",
    ask_scope: AskScope = "interactive",
    planner_language: PlannerLanguage = "en",
    tasks: Annotated[int, Field(strict=True, ge=0)] = 0,
    max_calls: Annotated[int, Field(strict=True, ge=0)] = 0,
    max_cost: Annotated[float, Field(ge=0)] = 0.0,
) -> dict[str, Any]:
    """Score the 72 cells of every backend on a release.

    Args:
        release: Folder of a release; empty means the embedded one.
        backends: Backends to evaluate, written out or saved as blocks; none means the four offline policies.
        judge: Backend that judges clarification questions; none means offline/hybrid.
        evidence: Whether BIRD evidence travels with every request, or with privileged questions only.
        ask_scope: Tasks on which agents may ask: the interactive ones, or all, which also counts needless questions.
        planner_language: Language in which the LLM planner is told what to do; requests stay as they are.
        tasks: How many tasks, 0 for all.
        max_calls: Stop before more model calls than this are sent, 0 for no limit.
        max_cost: Stop before more US dollars than this are spent, 0 for no limit.
    """
    with limited(max_calls, max_cost), opened(backends, judge) as (specs, judging):
        async with alive():
            folder = await release_folder(release)
            run = runs.spec_of(folder, specs, judging, evidence, tasks, ask_scope, planner_language)
            with runs.alone(run.run_id):
                if _on_its_own():
                    announce(run, study=False)
                record = await run_factorial(run)
    if record["cells"]:
        metrics = ArtifactStore(settings().resolved_store_url).read(METRICS, record["metrics_key"])
        await create_table_artifact(
            headline_rows(metrics), key="factorial-headline", description="Medians over 12 cells, percent"
        )  # type: ignore[misc]
    return record
