"""The routing layers of one (backend, router): initial routes, their transcripts, ask decisions, clarified routes.

Public side: reads the release's `public/` folder only. Which tasks are asked about and what was released come in as arguments.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.client import open_model
from tasks_lib.protocol.records import PublicTask
from tasks_lib.protocol.vocabulary import Corpus, Router
from tasks_lib.routeenv.search import Catalog
from tasks_lib.routing.asking import decide
from tasks_lib.routing.replay import transcript
from tasks_lib.routing.routers import Clarification, route
from tasks_lib.routing.rows import outcome_of, route_row
from tasks_lib.routing.turns import turn_rows
from tasks_lib.store.artifacts import read_file
from tasks_lib.store.jobs import JobContext
from tasks_lib.store.ledgers import Transient
from tasks_lib.store.schemas import ROUTES, TASKS


@lru_cache(maxsize=2)
def _catalog(public: str) -> Catalog:
    return Catalog.load(Path(public) / "catalog")


def public_tasks(public: str) -> dict[str, PublicTask]:
    """Tasks of a release by id, from its public folder."""
    frame = read_file(TASKS, Path(public) / "tasks.parquet")
    return {
        r["task_id"]: PublicTask(r["task_id"], Corpus(r["corpus"]), r["request"], tuple(r["allowlist"]))
        for r in frame.iter_rows(named=True)
    }


async def _each(
    items: Sequence[Any], limit: int, work: Callable[[Any], Awaitable[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """`work` over items under a limit, results in order. Raises what the first item in order raised, when nothing runs any more.

    One unanswered call costs its own item alone; after as many as may run at once (an endpoint that is down), or any other
    error, nothing new is started.
    """
    gate = asyncio.Semaphore(limit)
    unanswered, stopped = 0, False

    async def one(item: Any) -> dict[str, Any] | None:
        nonlocal unanswered, stopped
        async with gate:
            if stopped:
                return None
            try:
                return await work(item)
            except BaseException as error:
                unanswered += 1
                stopped = stopped or unanswered >= limit or not isinstance(error, Transient)
                raise

    done = await asyncio.gather(*(one(i) for i in items), return_exceptions=True)
    failed = [result for result in done if isinstance(result, BaseException)]
    if failed:
        raise next((error for error in failed if not isinstance(error, Transient)), failed[0])
    return [result for result in done if isinstance(result, dict)]


async def initial_routes(
    context: JobContext, public: str, backend: Mapping[str, Any], router: str, task_ids: Sequence[str], trial: int
) -> list[dict[str, Any]]:
    """Rows of `routes` with an empty branch_id, one per task."""
    spec = BackendSpec.model_validate(dict(backend))
    tasks, catalog, model = public_tasks(public), _catalog(public), open_model(spec, context.ledger)

    async def work(task_id: str) -> dict[str, Any]:
        outcome = await route(Router(router), tasks[task_id], catalog, model, trial)
        return route_row(spec.name, router, task_id, "", trial, outcome)

    return await _each(task_ids, spec.concurrency, work)


async def route_turns(
    context: JobContext,
    public: str,
    backend: Mapping[str, Any],
    router: str,
    trial: int,
    routes_key: str,
    exchanges: Sequence[Mapping[str, str]] = (),
) -> list[dict[str, Any]]:
    """Rows of `route_turns` of the routes at `routes_key`, replayed from the ledger. Raises ReplayFailed.

    `exchanges`: task_id, branch_id, question, answer behind every clarified route among them.
    """
    spec = BackendSpec.model_validate(dict(backend))
    tasks, catalog = public_tasks(public), _catalog(public)
    told = {(e["task_id"], e["branch_id"]): Clarification(e["question"], e["answer"]) for e in exchanges}
    rows: list[dict[str, Any]] = []
    for row in context.store.read(ROUTES, routes_key).iter_rows(named=True):
        clarification = told[row["task_id"], row["branch_id"]] if row["branch_id"] else None
        turns = await transcript(row, spec, tasks[row["task_id"]], catalog, context.ledger, clarification)
        rows += turn_rows(spec.name, router, row["task_id"], row["branch_id"], trial, turns)
    return rows


async def ask_decisions(
    context: JobContext,
    public: str,
    backend: Mapping[str, Any],
    router: str,
    task_ids: Sequence[str],
    trial: int,
    routes_key: str,
) -> list[dict[str, Any]]:
    """Rows of `asks`, one per task given; decided from the request, the agent's own initial route and what it had observed."""
    spec = BackendSpec.model_validate(dict(backend))
    tasks, catalog, model = public_tasks(public), _catalog(public), open_model(spec, context.ledger)
    routes = {r["task_id"]: r for r in context.store.read(ROUTES, routes_key).iter_rows(named=True)}

    async def work(task_id: str) -> dict[str, Any]:
        got = await decide(tasks[task_id], outcome_of(routes[task_id]), Router(router), model, trial, catalog)
        decision = got.decision
        return {
            "backend": spec.name,
            "router": router,
            "task_id": task_id,
            "trial": trial,
            "ask": decision.ask,
            "question": decision.question,
            "failure": got.failure,
            "calls": list(got.calls),
        }

    return await _each(task_ids, spec.concurrency, work)


async def clarified_routes(
    context: JobContext,
    public: str,
    backend: Mapping[str, Any],
    router: str,
    trial: int,
    exchanges: Sequence[Mapping[str, str]],
) -> list[dict[str, Any]]:
    """Rows of `routes` that carry a branch_id: the same router again on request + question + released answer.

    `exchanges`: task_id, branch_id, question, answer of every released answer.
    """
    spec = BackendSpec.model_validate(dict(backend))
    tasks, catalog, model = public_tasks(public), _catalog(public), open_model(spec, context.ledger)

    async def work(e: Mapping[str, str]) -> dict[str, Any]:
        clarification = Clarification(e["question"], e["answer"])
        outcome = await route(Router(router), tasks[e["task_id"]], catalog, model, trial, clarification)
        return route_row(spec.name, router, e["task_id"], e["branch_id"], trial, outcome)

    return await _each(exchanges, spec.concurrency, work)
