"""PRIVATE. The layers that join predictions with gold, for one (backend, router): releases, plans, contributions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from tasks_lib.evaluation.alignment import release, slot_of
from tasks_lib.evaluation.drive import Driver, attempts_of
from tasks_lib.evaluation.gold import Gold, GoldUnit
from tasks_lib.evaluation.inputs import Inputs, load
from tasks_lib.evaluation.oracle import oracle_plan
from tasks_lib.evaluation.requests import fused_text
from tasks_lib.evaluation.retrieval_audit import AuditedTask, AuditedUnit, audit
from tasks_lib.execution import planner as llm_planner
from tasks_lib.execution.agents import write_sql
from tasks_lib.execution.drafts import SqlDraft
from tasks_lib.execution.examples import NOTHING_SHOWN
from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.chat import ChatModel
from tasks_lib.models.client import open_model
from tasks_lib.protocol.records import AskDecision, DatabaseHandle, LocalRequest, PlanResult
from tasks_lib.protocol.vocabulary import (
    Behavior,
    Corpus,
    DataAgent,
    Planner,
    PlannerLanguage,
    QueryMode,
    Router,
    Split,
)
from tasks_lib.routeenv.search import Catalog
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.jobs import JobContext
from tasks_lib.store.schemas import ASKS, PLANS, RELEASES, ROUTES

Row = Mapping[str, Any]


async def release_decisions(
    context: JobContext, folder: str, backend: str, router: str, trial: int, asks_key: str, judge: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Rows of `releases`: two per interactive task that was asked about. Nothing is ever released on an ordinary task."""
    inputs = load(folder)
    spec = BackendSpec.model_validate(dict(judge))
    model = open_model(spec, context.ledger)
    asks = context.store.read(ASKS, asks_key).sort("task_id").iter_rows(named=True)
    gate = asyncio.Semaphore(spec.concurrency)

    async def one(row: Row) -> list[dict[str, Any]]:
        contract = inputs.contracts[row["task_id"]]
        decision = AskDecision(backend, Router(router), row["task_id"], trial, row["ask"], row["question"])
        async with gate:
            decided = await release(slot_of(contract), decision, model)
        return [
            {
                "backend": backend,
                "router": router,
                "task_id": d.task_id,
                "branch_id": d.branch_id,
                "trial": trial,
                "released": d.released,
                "answer": d.answer,
                "rule": d.rule,
                "judge_call": d.judge_call,
            }
            for d in decided
        ]

    open_tasks = {c.task_id for c in inputs.contracts.values() if c.behavior is Behavior.INTERACTIVE}
    parts = await asyncio.gather(*(one(r) for r in asks if r["ask"] and r["task_id"] in open_tasks))
    return [row for part in parts for row in part]


async def plan_rows(
    context: JobContext,
    folder: str,
    backend: Mapping[str, Any],
    router: str,
    trial: int,
    routes_key: str,
    clarified_key: str,
    asks_key: str,
    releases_key: str,
    language: PlannerLanguage = "en",
) -> list[dict[str, Any]]:
    """Rows of `plans`, oracle and LLM, for every route with two or more databases (PROTOCOL 9)."""
    inputs = load(folder)
    spec = BackendSpec.model_validate(dict(backend))
    model = open_model(spec, context.ledger)
    routes = [r for key in (routes_key, clarified_key) for r in context.store.read(ROUTES, key).iter_rows(named=True)]
    exchanges = _exchanges(context, asks_key, releases_key)
    gate = asyncio.Semaphore(spec.concurrency)

    async def one(row: Row) -> list[dict[str, Any]]:
        task = inputs.tasks[row["task_id"]]
        oracle = oracle_plan(inputs.contracts[row["task_id"]], row["selected"])
        text = fused_text(task.request, exchanges.get((row["task_id"], row["branch_id"])))
        descriptions = {d: inputs.descriptions[d] for d in row["selected"]}
        async with gate:
            llm = await llm_planner.plan(task, text, row["selected"], descriptions, model, trial, language)
        return [
            _plan_row(spec.name, router, Planner.ORACLE, row, trial, oracle, ()),
            _plan_row(spec.name, router, Planner.LLM, row, trial, llm.result, llm.calls),
        ]

    parts = await asyncio.gather(*(one(r) for r in routes if len(r["selected"]) > 1))
    return [row for part in parts for row in part]


def _plan_row(
    backend: str, router: str, planner: Planner, route: Row, trial: int, plan: PlanResult, calls: Sequence[str]
) -> dict[str, Any]:
    return {
        "backend": backend,
        "router": router,
        "planner": str(planner),
        "task_id": route["task_id"],
        "branch_id": route["branch_id"],
        "trial": trial,
        "order": list(plan.order),
        "edges": [{"source": a, "target": b} for a, b in plan.edges],
        "ok": plan.ok,
        "attempts": plan.attempts,
        "calls": list(calls),
    }


def _exchanges(context: JobContext, asks_key: str, releases_key: str) -> dict[tuple[str, str], tuple[str, str]]:
    questions = {r["task_id"]: r["question"] for r in context.store.read(ASKS, asks_key).iter_rows(named=True)}
    return {
        (r["task_id"], r["branch_id"]): (questions[r["task_id"]], r["answer"])
        for r in context.store.read(RELEASES, releases_key).iter_rows(named=True)
        if r["released"]
    }


class AgentWriter:
    """A data agent over a backend; what it may be shown of other databases is decided here."""

    def __init__(
        self, agent: DataAgent, model: ChatModel, runner: SqlRunner, inputs: Inputs, evidence: str, trial: int
    ) -> None:
        self._agent, self._model, self._runner, self._inputs = agent, model, runner, inputs
        self._evidence, self._trial = evidence, trial

    async def __call__(self, request: LocalRequest, handle: DatabaseHandle, unit: GoldUnit) -> SqlDraft:
        shown = unit.corpus is Corpus.BIRD and (self._evidence == "unit" or request.mode is QueryMode.PRIVILEGED)
        examples = self._inputs.examples(request.task_id) if self._agent is DataAgent.ADAPTER else NOTHING_SHOWN
        return await write_sql(
            self._agent,
            request,
            handle,
            unit.evidence if shown else "",
            self._model,
            self._runner,
            examples,
            self._trial,
        )


async def contribution_rows(
    context: JobContext,
    folder: str,
    backend: Mapping[str, Any],
    router: str,
    data_agent: str,
    trial: int,
    evidence: str,
    keys: Mapping[str, str],
    task_ids: Sequence[str],
) -> list[dict[str, Any]]:
    """Rows of `contributions` of one data agent. `keys`: artifact keys of routes, clarified, asks, releases, plans."""
    inputs = load(folder)
    spec = BackendSpec.model_validate(dict(backend))
    read = context.store.read
    routes = [r for name in ("routes", "clarified") for r in read(ROUTES, keys[name]).iter_rows(named=True)]
    attempts = attempts_of(
        [inputs.contracts[t] for t in task_ids],
        {t: task.request for t, task in inputs.tasks.items()},
        routes,
        list(read(ASKS, keys["asks"]).iter_rows(named=True)),
        list(read(RELEASES, keys["releases"]).iter_rows(named=True)),
        list(read(PLANS, keys["plans"]).iter_rows(named=True)),
    )
    async with SqlRunner(context.ledger) as runner:
        gold = Gold(inputs.gold_units, inputs.handles, runner)
        agent = DataAgent(data_agent)
        writer = AgentWriter(agent, open_model(spec, context.ledger), runner, inputs, evidence, trial)
        driver = Driver(gold, runner, writer, spec.concurrency)
        return await driver.contributions(spec.name, router, agent, attempts)


async def audit_rows(context: JobContext, folder: str) -> list[dict[str, Any]]:
    """Rows of `audit`: retrieval over a release's catalog, per unit, whatever its gold is worth, per text without usable gold, and
    per task (PROTOCOL 6)."""
    inputs = load(folder)
    catalog = Catalog.load(inputs.release.public / "catalog")
    units = [
        AuditedUnit(u.question, inputs.public_ids[u.corpus, u.database], u.corpus, Split(u.split))
        for _, u in sorted(inputs.release.units.items())
    ]
    units += [
        AuditedUnit(t.question, inputs.public_ids[t.corpus, t.database], t.corpus, None) for t in inputs.release.texts
    ]
    tasks = [AuditedTask(inputs.tasks[t], c.databases, c.behavior) for t, c in sorted(inputs.contracts.items())]
    return audit(catalog, units, tasks, inputs.release.digest)
