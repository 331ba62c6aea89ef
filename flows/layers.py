"""Makes the layers of one (backend, router) that are not done yet; shared by the factorial and by a cell run alone."""

from __future__ import annotations

from typing import Any

from flows.wanted import TRIAL, ChainKeys, RunSpec, chain_keys, clarified_turns_key, routes_key, turns_key, wanted_tasks
from tasks_lib.evaluation import tasks as evaluation_tasks
from tasks_lib.evaluation.inputs import load
from tasks_lib.models.backends import BackendSpec
from tasks_lib.protocol.vocabulary import Behavior, DataAgent, Router
from tasks_lib.routing import tasks as routing_tasks
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.jobs import Job
from tasks_lib.store.schemas import ASKS, RELEASES
from tasks_lib.store.settings import settings
from tasks_lib.store.tasks import ensure


def _job(
    table: str, function: str, key: str, invocation: str, arguments: dict[str, Any], inputs: dict[str, str]
) -> Job:
    where = settings()
    return Job(function, table, key, where.resolved_store_url, where.resolved_ledger_url, invocation, arguments, inputs)


async def ensure_routes(run: RunSpec, backend: BackendSpec, router: Router, invocation: str, trial: int = TRIAL) -> str:
    """Initial routes of (backend, router); returns their key."""
    key = routes_key(run, backend, router, trial)
    arguments = {
        "public": f"{run.release}/public",
        "backend": backend.model_dump(),
        "router": str(router),
        "task_ids": wanted_tasks(run),
        "trial": trial,
    }
    job = _job(
        "routes", "tasks_lib.routing.layer:initial_routes", key, invocation, arguments, {"release": run.manifest}
    )
    return await ensure(routing_tasks.routes, job, f"routes {backend.name} {router}", not backend.offline)


async def ensure_turns(run: RunSpec, backend: BackendSpec, router: Router, invocation: str, trial: int = TRIAL) -> str:
    """Transcripts of the initial routes of (backend, router), which are made first if they are not done; returns their key.

    They are replayed from the ledger, so no endpoint is asked and a worker process can do it.
    """
    routes = await ensure_routes(run, backend, router, invocation, trial)
    key = turns_key(run, backend, router, trial)
    arguments = {
        "public": f"{run.release}/public",
        "backend": backend.model_dump(),
        "router": str(router),
        "trial": trial,
        "routes_key": routes,
    }
    job = _job("route_turns", "tasks_lib.routing.layer:route_turns", key, invocation, arguments, {"routes": routes})
    return await ensure(routing_tasks.route_turns, job, f"turns {backend.name} {router}", here=False)


def _exchanges(store: ArtifactStore, keys: ChainKeys) -> list[dict[str, str]]:
    """Question and answer of every branch whose answer was released."""
    questions = {r["task_id"]: r["question"] for r in store.read(ASKS, keys.asks).iter_rows(named=True)}
    return [
        {
            "task_id": r["task_id"],
            "branch_id": r["branch_id"],
            "question": questions[r["task_id"]],
            "answer": r["answer"],
        }
        for r in store.read(RELEASES, keys.releases).iter_rows(named=True)
        if r["released"]
    ]


async def ensure_clarified_turns(run: RunSpec, backend: BackendSpec, router: Router, invocation: str) -> str:
    """Transcripts of the clarified routes of (backend, router), whose chain must be done; returns their key. No model is asked."""
    chain, key = chain_keys(run, backend, router), clarified_turns_key(run, backend, router)
    arguments = {
        "public": f"{run.release}/public",
        "backend": backend.model_dump(),
        "router": str(router),
        "trial": TRIAL,
        "routes_key": chain.clarified,
        "exchanges": _exchanges(ArtifactStore(settings().resolved_store_url), chain),
    }
    job = _job(
        "route_turns", "tasks_lib.routing.layer:route_turns", key, invocation, arguments, {"clarified": chain.clarified}
    )
    return await ensure(routing_tasks.route_turns, job, f"clarified turns {backend.name} {router}", here=False)


async def ensure_chain(run: RunSpec, backend: BackendSpec, router: Router, invocation: str) -> ChainKeys:
    """Every layer of (backend, router), in order; what is done is not run again."""
    keys = chain_keys(run, backend, router)
    store = ArtifactStore(settings().resolved_store_url)
    here, label = not backend.offline, f"{backend.name} {router}"
    inputs = load(run.release)
    task_ids = wanted_tasks(run)
    asked = [t for t in task_ids if run.ask_scope == "all" or inputs.contracts[t].behavior is Behavior.INTERACTIVE]
    spec, public = backend.model_dump(), f"{run.release}/public"
    common = {"router": str(router), "trial": TRIAL}
    await ensure_routes(run, backend, router, invocation)
    await ensure(
        routing_tasks.asks,
        _job(
            "asks",
            "tasks_lib.routing.layer:ask_decisions",
            keys.asks,
            invocation,
            {**common, "public": public, "backend": spec, "task_ids": asked, "routes_key": keys.routes},
            {"routes": keys.routes},
        ),
        f"asks {label}",
        here,
    )
    await ensure(
        evaluation_tasks.releases,
        _job(
            "releases",
            "tasks_lib.evaluation.layer:release_decisions",
            keys.releases,
            invocation,
            {
                **common,
                "folder": run.release,
                "backend": backend.name,
                "asks_key": keys.asks,
                "judge": run.judge.model_dump(),
            },
            {"asks": keys.asks},
        ),
        f"releases {label}",
        not run.judge.offline,
    )
    await ensure(
        routing_tasks.clarified_routes,
        _job(
            "routes",
            "tasks_lib.routing.layer:clarified_routes",
            keys.clarified,
            invocation,
            {**common, "public": public, "backend": spec, "exchanges": _exchanges(store, keys)},
            {"releases": keys.releases},
        ),
        f"clarified routes {label}",
        here,
    )
    await ensure(
        evaluation_tasks.plans,
        _job(
            "plans",
            "tasks_lib.evaluation.layer:plan_rows",
            keys.plans,
            invocation,
            {
                **common,
                "folder": run.release,
                "backend": spec,
                "routes_key": keys.routes,
                "clarified_key": keys.clarified,
                "asks_key": keys.asks,
                "releases_key": keys.releases,
                "language": run.planner_language,
            },
            {"routes": keys.routes, "clarified": keys.clarified},
        ),
        f"plans {label}",
        here,
    )
    for agent in DataAgent:
        await ensure(
            evaluation_tasks.contributions,
            _job(
                "contributions",
                "tasks_lib.evaluation.layer:contribution_rows",
                keys.contributions[agent],
                invocation,
                {
                    **common,
                    "folder": run.release,
                    "backend": spec,
                    "data_agent": str(agent),
                    "evidence": run.evidence,
                    "keys": keys.inputs(),
                    "task_ids": task_ids,
                },
                keys.inputs(),
            ),
            f"contributions {label} {agent}",
            here,
        )
    return keys
