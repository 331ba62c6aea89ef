"""ReAct: a generic agent that reasons and acts over RouteEnv, at most 30 turns (PROTOCOL 7; paper E.2, F.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks_lib.models.chat import ChatModel
from tasks_lib.protocol.records import CallContext, PublicTask, RoutePlan
from tasks_lib.routeenv.environment import ACTIONS, RouteEnv
from tasks_lib.routeenv.search import Catalog
from tasks_lib.routing.episode import SUBMIT, Script, run_episode
from tasks_lib.routing.fixed import MAX_STEPS
from tasks_lib.routing.outcome import Clarification, RouteOutcome
from tasks_lib.routing.plan import PLAN_SCHEMA, PLAN_SHAPE, Invalid, validate
from tasks_lib.routing.views import prompt, tool_line

SUBMIT_TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": SUBMIT,
        "description": "Hand in the route. The episode ends when it is accepted.",
        "parameters": PLAN_SCHEMA,
    },
}


async def react_route(
    task: PublicTask,
    catalog: Catalog,
    model: ChatModel,
    context: CallContext,
    clarification: Clarification | None,
) -> RouteOutcome:
    """One ReAct episode. Raises ProviderUnavailable."""
    env = RouteEnv(catalog, task, MAX_STEPS)
    topologies = prompt("topologies@1")
    system = prompt(
        "route_episode@1",
        turns=MAX_STEPS,
        native=model.spec.protocol == "native",
        actions=[tool_line(tool) for tool in ACTIONS],
        topologies=topologies.text,
        shape=PLAN_SHAPE,
    )
    request = prompt("route_request@1", request=task.request, clarification=clarification, candidates=task.allowlist)

    def judge(submission: Mapping[str, Any]) -> RoutePlan | Invalid:
        return validate(submission, task.allowlist, env.evidence)

    script = Script(
        system=system,
        request=request,
        templates=(system.digest, request.digest, topologies.digest),
        tools=(*ACTIONS, SUBMIT_TOOL),
        judge=judge,
    )
    return await run_episode(script, env, model, context)
