"""The four routers with a fixed evidence schedule: Random, Direct, Rerank, Constrained (PROTOCOL 7; paper E.2, F.3).

Random draws; the others look at a fixed list of databases and make one decision call. There is no second try: a reply that is
no valid plan is an empty route.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tasks_lib.models.chat import ChatModel, ChatRequest, Message
from tasks_lib.models.replies import Malformed, read_json_reply
from tasks_lib.protocol.records import CallContext, PublicTask, RouteNode, RoutePlan
from tasks_lib.protocol.vocabulary import Audience, Behavior, CallOutcome, Router
from tasks_lib.routeenv.environment import RouteEnv
from tasks_lib.routeenv.search import Catalog
from tasks_lib.routing.outcome import Clarification, RouteOutcome, ended
from tasks_lib.routing.plan import PLAN_SHAPE, Invalid, validate
from tasks_lib.routing.turns import DOUBLE_ENCODED, Turn, TurnKind, selected_of
from tasks_lib.routing.views import evidence_by_database, observation_block, prompt, query_text
from tasks_lib.store.keys import canonical_json, keyed_digest

MAX_STEPS = 30
"""Turns and environment steps of one episode, every router."""

RETRIEVED = {Router.DIRECT: 3, Router.RERANK: 10}
"""How many retrieved databases are inspected."""

RANDOM_SEED = 0


def random_route(task: PublicTask, trial: int, seed: int = RANDOM_SEED) -> RouteOutcome:
    """One database drawn uniformly from the allowlist by a keyed digest of (seed, task, trial). Makes no call."""
    drawn = int(keyed_digest(b"routing.random", canonical_json([seed, task.task_id, trial])), 16)
    database = task.allowlist[drawn % len(task.allowlist)]
    plan = RoutePlan(
        selected=(database,),
        topology=Behavior.SINGLE,
        nodes=(RouteNode(database, task.request),),
        edges=(),
        evidence_ids=(),
        confidence=1 / len(task.allowlist),
    )
    return RouteOutcome(plan, True, "", (), 0, 0, "", ())


def observe(router: Router, task: PublicTask, env: RouteEnv, clarification: Clarification | None) -> list[str]:
    """Run the router's schedule on `env`; the observations as shown, in order.

    Direct and Rerank search once and inspect what was found; Constrained inspects the allowlist's first `MAX_STEPS - 2`.
    """
    shown: list[str] = []

    def step(action: str, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        observation = env.call(action, arguments)
        shown.append(observation_block(action, arguments, observation))
        return tuple(observation.database_ids)

    if router is Router.CONSTRAINED:
        databases = task.allowlist[: MAX_STEPS - 2]
    else:
        top = RETRIEVED[router]
        databases = step("search_catalog", {"query": query_text(task, clarification), "top_k": top})[:top]
    for database in databases:
        step("inspect_database", {"database_id": database})
    return shown


async def fixed_route(
    router: Router,
    task: PublicTask,
    catalog: Catalog,
    model: ChatModel,
    context: CallContext,
    clarification: Clarification | None,
) -> RouteOutcome:
    """Look, then decide in one call. Raises ProviderUnavailable; every other ending is an outcome."""
    env = RouteEnv(catalog, task, MAX_STEPS)
    shown = observe(router, task, env, clarification)
    topologies = prompt("topologies@1")
    decision = prompt(
        "route_decision@1",
        request=task.request,
        clarification=clarification,
        candidates=task.allowlist,
        observations=shown,
        evidence=evidence_by_database(env.evidence),
        topologies=topologies.text,
        shape=PLAN_SHAPE,
    )
    request = ChatRequest((Message("user", decision.text),), templates=(decision.digest, topologies.digest))
    reply = await model.chat(request, context)
    turn = Turn(TurnKind.DECISION, reply, observed=env.observed)
    if reply.outcome is not CallOutcome.OK:
        return ended(None, f"the decision call ended as {reply.outcome.value}.", env.observed, (turn,))
    read = read_json_reply(reply.text)
    if isinstance(read, Malformed):
        turn = replace(turn, malformed_reason=read.reason)
        return ended(None, f"the reply is no JSON object ({read.reason}).", env.observed, (turn,))
    judged = validate(read.value, task.allowlist, env.evidence)
    plan = judged if isinstance(judged, RoutePlan) else None
    turn = replace(
        turn,
        arguments=read.value,
        recovery=DOUBLE_ENCODED if read.double_encoded else "",
        selected=selected_of(read.value, task.allowlist),
        accepted=plan is not None,
    )
    return ended(plan, judged.reason if isinstance(judged, Invalid) else "", env.observed, (turn,))


def router_context(trial: int, clarification: Clarification | None) -> CallContext:
    """Who reads a router's prompt and for which layer."""
    return CallContext(Audience.ROUTER, "routes" if clarification is None else "clarified_routes", trial)
