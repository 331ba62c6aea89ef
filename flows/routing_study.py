"""The routing study: every backend × six routers × every task, initial routes only, no clarification.

Routes first, then their transcripts (replayed from the ledger: no model call), then the tables. With several trials every pair is
routed again as often; trial 0 is what is published, the others are compared with it.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import polars as pl
from prefect import flow
from prefect.artifacts import create_progress_artifact, create_table_artifact, update_progress_artifact
from pydantic import Field

from flows import runs
from flows.blocks import AnyBackend, opened
from flows.layers import ensure_routes, ensure_turns
from flows.liveness import alive
from flows.releases import release_folder
from flows.runtime import say
from flows.wanted import TRIAL, RunSpec, routes_key, turns_key, wanted_tasks
from tasks_lib.evaluation.inputs import load
from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.budget import limited
from tasks_lib.models.chat import BackendMisconfigured, ProviderUnavailable
from tasks_lib.protocol.vocabulary import Router
from tasks_lib.routing.replay import ReplayFailed
from tasks_lib.scoring.cells import ROUTING_STUDY_ROUTERS
from tasks_lib.scoring.routing_publish import publish_study, publish_trials
from tasks_lib.scoring.routing_trials import METRICS
from tasks_lib.scoring.targets import episodes_of
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.runners import WorkerLost
from tasks_lib.store.schemas import ROUTE_TURNS, ROUTES, ROUTING_TABLE, ROUTING_USAGE
from tasks_lib.store.settings import settings

log = logging.getLogger("dsabench.routing_study")
Pair = tuple[str, str]


class Progress:
    """How much of the study is done, in the dashboard and on stderr. A step is the routes of a pair, or their transcripts."""

    def __init__(self, done: int, steps: int, pairs: int) -> None:
        self.done, self.steps, self.pairs = done, steps, pairs
        self.routed = 0
        self._artifact: Any = None

    @property
    def percent(self) -> float:
        return 100.0 * self.done / self.steps

    async def begin(self, description: str) -> None:
        """Put the progress artifact up, at what is done already."""
        self._artifact = await create_progress_artifact(
            self.percent, key="routing-study-pairs", description=description
        )  # type: ignore[misc]

    async def step(self, routed: str = "") -> None:
        """One more step is done; `routed`: the pair whose routes they were, or "" for transcripts."""
        if routed:
            self.routed += 1
            say(f"routing study: {self.routed} of {self.pairs} pairs routed ({routed})")
        if self._artifact is not None:
            self.done += 1
            await update_progress_artifact(self._artifact, self.percent)  # type: ignore[misc]


@dataclass
class Layers:
    """Keys of what is done by pair, and why the rest is not. `routes`: by trial."""

    routes: dict[int, dict[Pair, str]] = field(default_factory=dict)
    turns: dict[Pair, str] = field(default_factory=dict)
    missing: dict[tuple[str, str, str], str] = field(default_factory=dict)


async def compute_layers(run: RunSpec, invocation: str, trials: int, transcripts: bool) -> Layers:
    """Routes of every pair and trial, trial 0 before the next, and the transcripts of trial 0.

    What cannot be done now is left missing, with its reason, and stops nobody else.
    """
    store = ArtifactStore(settings().resolved_store_url)
    pairs = [(b, r) for b in run.backends for r in ROUTING_STUDY_ROUTERS]
    wanted = [(ROUTES, routes_key(run, b, r, trial)) for trial in range(trials) for b, r in pairs]
    wanted += [(ROUTE_TURNS, turns_key(run, b, r)) for b, r in pairs if transcripts]
    todo = [item for item in wanted if not store.ok(*item)]
    layers = Layers()
    progress = Progress(len(wanted) - len(todo), len(wanted), len(pairs) * trials)
    if todo:
        await progress.begin(
            f"{len(pairs)} pairs of backend and router, {trials} trial(s): {len(todo)} of {len(wanted)} layers to do"
        )

    async def one(backend: BackendSpec, router: Router, trial: int) -> None:
        pair, label = (backend.name, str(router)), f"{backend.name} {router}" + (f" trial {trial}" if trial else "")
        try:
            key = await ensure_routes(run, backend, router, invocation, trial)
        except (ProviderUnavailable, BackendMisconfigured, WorkerLost) as error:
            layers.missing[(*pair, f"trial {trial}" if trial else "")] = str(error)
            log.error("%s is not complete: %s", label, error)
            return
        layers.routes.setdefault(trial, {})[pair] = key
        await progress.step(label)

    async def told(backend: BackendSpec, router: Router) -> None:
        pair = (backend.name, str(router))
        try:
            layers.turns[pair] = await ensure_turns(run, backend, router, invocation)
        except (ReplayFailed, WorkerLost) as error:
            layers.missing[(*pair, "transcripts")] = str(error)
            log.error("%s %s has no transcripts: %s", *pair, error)
            return
        await progress.step()

    for trial in range(trials):
        await asyncio.gather(*(one(b, r, trial) for b, r in pairs))
        if trial == TRIAL and transcripts:
            done = layers.routes.get(TRIAL, {})
            await asyncio.gather(*(told(b, r) for b, r in pairs if (b.name, str(r)) in done))
    return layers


async def run_routing_study(run: RunSpec, trials: int = 1, transcripts: bool = True) -> dict[str, Any]:
    """Routes of every (backend, router), scored; the study's record, status and reason included.

    `trials`: how often every pair is routed. `transcripts`: whether turns are kept and counted too.
    """
    invocation = f"{run.run_id}:{uuid.uuid4().hex[:8]}"
    layers = await compute_layers(run, invocation, trials, transcripts)
    routes = layers.routes.get(TRIAL, {})
    record: dict[str, Any] = {
        "status": "completed",
        "reason": "",
        "pairs": len(routes),
        "trials": trials,
        "invocation": invocation,
    }
    if layers.missing:
        reasons = "; ".join(f"{' '.join(filter(None, name))}: {why}" for name, why in sorted(layers.missing.items()))
        record |= {
            "status": "incomplete",
            "reason": f"{len(layers.missing)} routing pairs are not complete ({reasons}); resume the run.",
        }
    if routes:
        contracts = load(run.release).contracts
        targets = episodes_of(contracts[t] for t in wanted_tasks(run))
        store = ArtifactStore(settings().resolved_store_url)
        say("routing study: tables")
        tables = publish_study(store, routes, layers.turns, targets, run.draws, run.seed, run.manifest)
        record |= {f"{name}_key": key for name, key in tables.keys.items()}
        record |= {
            "routing_episodes": tables.rows,
            "routing_routes": _named(routes),
            "routing_turns": _named(layers.turns),
        }
        repeats = {
            pair: [layers.routes[t][pair] for t in range(trials) if pair in layers.routes.get(t, {})] for pair in routes
        }
        repeats = {pair: keys for pair, keys in repeats.items() if len(keys) > 1}
        if repeats:
            record["routing_trials_key"] = publish_trials(store, repeats, targets, run.manifest)
    return record


def _named(keys: Mapping[Pair, str]) -> dict[str, str]:
    return {f"{b} {r}": key for (b, r), key in sorted(keys.items())}


def headline_rows(table: pl.DataFrame) -> list[dict[str, str]]:
    """One row a pair of `routing_table`: its routing metrics over all tasks in percent (paper Tables 26-32), 0/0 as a dash."""
    part = table.filter((pl.col("slice") == "all") & pl.col("metric").is_in(METRICS))
    found: dict[Pair, dict[str, str]] = {}
    for b, r, m, d, v in part.select("backend", "router", "metric", "denominator", "value").iter_rows():
        found.setdefault((b, r), {"backend": b, "router": r})[m] = f"{100 * v:.2f}" if d else "–"
    order = [str(r) for r in ROUTING_STUDY_ROUTERS]
    rows = sorted(found.values(), key=lambda row: (row["backend"], order.index(row["router"])))
    return [{name: row[name] for name in ("backend", "router", *METRICS)} for row in rows]


SHOWN = ("RA-Set", "RA-Graph", "Recall")


def table_text(record: Mapping[str, Any]) -> str:
    """What became of a study, and its pairs beside each other, percent over all tasks."""
    lines = [f"routing study of {record['run']}: {record['status']} {record['reason']}".rstrip()]
    if "routing_table_key" not in record:
        return lines[0]
    rows = headline_rows(ArtifactStore(settings().resolved_store_url).read(ROUTING_TABLE, record["routing_table_key"]))
    names = max(len(row["backend"]) for row in rows)
    lines.append(f"{'backend':{names}}  {'router':11}  {'  '.join(f'{m:>8}' for m in SHOWN)}   percent")
    for row in rows:
        lines.append(f"{row['backend']:{names}}  {row['router']:11}  {'  '.join(f'{row[m]:>8}' for m in SHOWN)}")
    return "\n".join(lines)


def usage_rows(usage: pl.DataFrame) -> list[dict[str, str]]:
    """One row a pair of `routing_usage`: what a route took on average; an unknown is said to be one."""
    found: dict[Pair, dict[str, str]] = {}
    for row in usage.iter_rows(named=True):
        known = "unknown" if row["mean"] is None else f"{row['mean']:.1f}"
        some = f" ({row['unknown_turns']} turns unknown)" if row["unknown_turns"] and row["mean"] is not None else ""
        pair = found.setdefault((row["backend"], row["router"]), {"backend": row["backend"], "router": row["router"]})
        pair[row["quantity"]] = known + some
    return list(found.values())


@flow(name="routing_study", flow_run_name="routing study")
async def routing_study(
    release: Annotated[str, Field(strict=True)] = "",
    backends: list[AnyBackend] | None = None,
    tasks: Annotated[int, Field(strict=True, ge=0)] = 0,
    max_calls: Annotated[int, Field(strict=True, ge=0)] = 0,
    max_cost: Annotated[float, Field(ge=0)] = 0.0,
    trials: Annotated[int, Field(strict=True, ge=1)] = 1,
    transcripts: Annotated[bool, Field(strict=True)] = True,
) -> dict[str, Any]:
    """Score the six routers of every backend on a release.

    Args:
        release: Folder of a release; empty means the embedded one.
        backends: Backends to evaluate, written out or saved as blocks; none means the four offline policies.
        tasks: How many tasks, 0 for all.
        max_calls: Stop before more model calls than this are sent, 0 for no limit.
        max_cost: Stop before more US dollars than this are spent, 0 for no limit.
        trials: How often every pair is routed; the first trial is published, the others show how far it can move.
        transcripts: Whether every turn is kept as a row and counted; costs no model call.
    """
    with limited(max_calls, max_cost), opened(backends) as (specs, _):
        async with alive():
            folder = await release_folder(release)
            run = runs.spec_of(folder, specs, tasks=tasks)
            with runs.alone(run.run_id):
                study = await run_routing_study(run, trials, transcripts)
            record = {"run": run.run_id, "release": run.release, **study}
    if "routing_table_key" in record:
        store = ArtifactStore(settings().resolved_store_url)
        rows = headline_rows(store.read(ROUTING_TABLE, record["routing_table_key"]))
        await create_table_artifact(rows, key="routing-study", description="Routing study, percent")  # type: ignore[misc]
        used = usage_rows(store.read(ROUTING_USAGE, record["routing_usage_key"]))
        await create_table_artifact(used, key="routing-study-usage", description="Means of a route")  # type: ignore[misc]
    return record
