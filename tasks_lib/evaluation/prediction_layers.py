"""PRIVATE. Predictions of an agent that ran elsewhere as the layers a backend has: routes, asks, releases, plans, contributions.

The agent's plan is its routes' own edges; no model is called but the judge of questions, which is offline unless one is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tasks_lib.evaluation.alignment import release, slot_of
from tasks_lib.evaluation.drive import Driver, attempts_of
from tasks_lib.evaluation.gold import Gold, GoldUnit
from tasks_lib.evaluation.inputs import Inputs
from tasks_lib.evaluation.oracle import oracle_plan
from tasks_lib.evaluation.predictions import AskLine, RouteLine, SqlLine
from tasks_lib.execution.drafts import SqlDraft
from tasks_lib.models.chat import ChatModel
from tasks_lib.protocol.records import AskDecision, DatabaseHandle, LocalRequest
from tasks_lib.protocol.vocabulary import Behavior, DataAgent, Planner, Router, VerdictKind
from tasks_lib.routing.outcome import RouteOutcome
from tasks_lib.routing.plan import Invalid, validate
from tasks_lib.routing.rows import route_row
from tasks_lib.sql.execute import SqlRunner

OWN = "own"
"""Stands where a backend's rows name one of our routers."""
Row = Mapping[str, Any]
Rows = list[dict[str, Any]]


def route_rows(name: str, lines: Sequence[RouteLine], inputs: Inputs) -> Rows:
    """Rows of `routes`. A plan that breaks PROTOCOL 7 is an empty prediction with its reason; evidence is not checked.

    Without `observed`, everything allowed counts as seen, so that no retrieval miss is claimed.
    """
    rows = []
    for line in lines:
        allowlist = inputs.tasks[line.task_id].allowlist
        found = _validated(line.plan, allowlist)
        plan = None if isinstance(found, Invalid) else found
        outcome = RouteOutcome(
            plan,
            plan is not None,
            found.reason if isinstance(found, Invalid) else "",
            tuple(allowlist if line.observed is None else line.observed),
            line.turns,
            line.malformed_turns,
            "",
            (),
        )
        rows.append(route_row(name, OWN, line.task_id, line.branch_id, 0, outcome))
    return rows


def _validated(plan: Mapping[str, Any] | None, allowlist: Sequence[str]) -> Any:
    if plan is None:
        return Invalid("the agent gave no route.")
    whole = {"evidence_ids": [], **plan}
    cited = whole["evidence_ids"]
    evidence = {item: "" for item in cited if isinstance(item, str)} if isinstance(cited, list) else {}
    return validate(whole, allowlist, evidence)


async def release_rows(name: str, asks: Sequence[AskLine], inputs: Inputs, judge: ChatModel) -> tuple[Rows, Rows]:
    """(rows of `asks`, rows of `releases`): a decision for every task, answers for interactive ones alone (PROTOCOL 8)."""
    ask_rows: Rows = []
    released: Rows = []
    for line in sorted(asks, key=lambda line: line.task_id):
        contract = inputs.contracts[line.task_id]
        key = {"backend": name, "router": OWN, "task_id": line.task_id, "trial": 0}
        question = line.question if line.ask else ""
        ask_rows.append({**key, "ask": line.ask, "question": question, "failure": "", "calls": []})
        if not line.ask or contract.behavior is not Behavior.INTERACTIVE:
            continue
        # The record needs a router and the release does not depend on it.
        decision = AskDecision(name, Router.REACT, line.task_id, 0, True, question)
        for d in await release(slot_of(contract), decision, judge):
            released.append(
                {
                    **key,
                    "branch_id": d.branch_id,
                    "released": d.released,
                    "answer": d.answer,
                    "rule": d.rule,
                    "judge_call": d.judge_call,
                }
            )
    return ask_rows, released


def plan_rows(routes: Sequence[Row], inputs: Inputs) -> Rows:
    """Rows of `plans` of every route with two or more databases: the oracle's, and under `llm` the agent's own edges."""
    rows = []
    for route in routes:
        selected = list(route["selected"])
        if len(selected) < 2:
            continue
        oracle = oracle_plan(inputs.contracts[route["task_id"]], selected)
        own = [(e["source"], e["target"]) for e in route["edges"]]
        for planner, order, edges in (
            (Planner.ORACLE, list(oracle.order), list(oracle.edges)),
            (Planner.LLM, _in_order(selected, own), own),
        ):
            rows.append(
                {
                    **{name: route[name] for name in ("backend", "router", "task_id", "branch_id", "trial")},
                    "planner": str(planner),
                    "order": order,
                    "edges": [{"source": a, "target": b} for a, b in edges],
                    "ok": True,
                    "attempts": 0,
                    "calls": [],
                }
            )
    return rows


def _in_order(selected: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[str]:
    """The databases in an order that respects the edges (accepted plans hold no cycle), else as they were written."""
    left, order = list(selected), []
    while left:
        free = next(d for d in left if not any(b == d and a in left for a, b in edges))
        left.remove(free)
        order.append(free)
    return order


def sql_keys(routes: Sequence[Row]) -> list[tuple[str, str, str]]:
    """What an SQL file must hold: (task_id, branch_id, database_id) of every selected database of every accepted route."""
    return [(r["task_id"], r["branch_id"], d) for r in routes for d in r["selected"]]


class FileWriter:
    """Gives the file's SQL for a unit of the routes of one state."""

    def __init__(self, sql: Mapping[tuple[str, ...], str | None], clarified: bool) -> None:
        self._sql, self._clarified = sql, clarified

    async def __call__(self, request: LocalRequest, handle: DatabaseHandle, unit: GoldUnit) -> SqlDraft:
        branch = request.branch_id if self._clarified else ""
        text = self._sql[(request.task_id, branch, request.database_id)]
        if text is None or not text.strip():
            return SqlDraft(None, VerdictKind.MISSING_SQL, "the agent wrote no SQL")
        return SqlDraft(text, None, "")


async def contribution_rows(
    name: str,
    sql: Sequence[SqlLine] | None,
    layers: Mapping[str, Rows],
    inputs: Inputs,
    runner: SqlRunner,
) -> Rows:
    """Rows of `contributions` of the file's SQL, under either plan; without SQL every unit is `missing_sql`.

    `layers`: rows of routes, asks, releases and plans.
    """
    attempts = attempts_of(
        inputs.contracts.values(),
        {t: task.request for t, task in inputs.tasks.items()},
        layers["routes"],
        layers["asks"],
        layers["releases"],
        layers["plans"],
    )
    texts: dict[tuple[str, ...], str | None] = dict.fromkeys(sql_keys(layers["routes"]))
    texts |= {line.key: line.sql for line in sql or ()}
    gold = Gold(inputs.gold_units, inputs.handles, runner)
    rows: Rows = []
    for state in ("initial", "clarified"):
        part = [a for a in attempts if a.state == state]
        driver = Driver(gold, runner, FileWriter(texts, state == "clarified"))
        rows += await driver.contributions(name, OWN, DataAgent.TEXT_TO_SQL, part)
    return rows
