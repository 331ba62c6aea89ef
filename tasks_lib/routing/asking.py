"""The ask decision: one call, made from the request and the agent's own initial route, before any answer exists (PROTOCOL 8).

Whether the question is released an answer is decided elsewhere, by those who know the slot.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from tasks_lib.models.chat import ChatModel, ChatRequest, Message
from tasks_lib.models.replies import Malformed, json_reply
from tasks_lib.protocol.records import AskDecision, CallContext, PublicTask, RoutePlan
from tasks_lib.protocol.vocabulary import Audience, CallOutcome, Router
from tasks_lib.routeenv.environment import RouteEnv
from tasks_lib.routeenv.search import Catalog
from tasks_lib.routing.outcome import RouteOutcome
from tasks_lib.routing.views import observation_block, prompt

RECALLED = 6
"""Databases whose public description is shown again: the selected ones, then others the router had observed."""


@dataclass(frozen=True, slots=True)
class AskOutcome:
    """The decision, shared by both branches. `failure`: a call failure or `malformed:<reason>`, both of which ask nothing."""

    decision: AskDecision
    calls: tuple[str, ...]
    failure: str = ""


def wire_form(plan: RoutePlan) -> str:
    """A plan as JSON in the shape routers write."""
    return json.dumps(
        {
            "selected_databases": list(plan.selected),
            "execution_plan": {
                "topology": plan.topology.value if plan.topology else "",
                "nodes": [
                    {"database_id": n.database_id, "information_request": n.information_request} for n in plan.nodes
                ],
                "edges": [{"from": e.source, "to": e.target, "type": e.type, "reason": e.reason} for e in plan.edges],
            },
            "evidence_ids": list(plan.evidence_ids),
            "confidence": plan.confidence,
        },
        ensure_ascii=False,
        indent=1,
    )


def recalled(task: PublicTask, outcome: RouteOutcome, catalog: Catalog) -> list[str]:
    """Public descriptions of databases the router had observed, as observation sections."""
    selected = outcome.plan.selected if outcome.plan else ()
    databases = list(dict.fromkeys((*(d for d in selected if d in outcome.observed), *outcome.observed)))[:RECALLED]
    env = RouteEnv(catalog, task, RECALLED)
    shown = []
    for database in databases:
        arguments = {"database_id": database}
        shown.append(observation_block("inspect_database", arguments, env.call("inspect_database", arguments)))
    return shown


async def decide(
    task: PublicTask, outcome: RouteOutcome, router: Router, model: ChatModel, trial: int, catalog: Catalog
) -> AskOutcome:
    """Whether to ask, and what: strict JSON {"ask": bool, "question": str}. Raises ProviderUnavailable.

    A reply of any other form asks nothing, and so does a call that failed; both are recorded.
    """
    asked = prompt(
        "clarification_decision@1",
        request=task.request,
        route=wire_form(outcome.plan) if outcome.plan else f"No route was accepted: {outcome.reason}",
        observations=recalled(task, outcome, catalog),
    )
    request = ChatRequest((Message("user", asked.text),), templates=(asked.digest,))
    reply = await model.chat(request, CallContext(Audience.ROUTER, "asks", trial))
    ask, question, failure = False, "", ""
    if reply.outcome is not CallOutcome.OK:
        failure = reply.outcome.value
    else:
        value = json_reply(reply.text)
        if isinstance(value, Malformed):
            failure = f"malformed:{value.reason}"
        elif set(value) != {"ask", "question"} or type(value["ask"]) is not bool or type(value["question"]) is not str:
            failure = "malformed:shape"
        elif value["ask"] and not value["question"].strip():
            failure = "malformed:no_question"
        else:
            ask = value["ask"]
            question = value["question"].strip() if ask else ""
    decision = AskDecision(model.spec.name, router, task.task_id, trial, ask, question)
    return AskOutcome(decision, (reply.call_key,), failure)
