"""Hermes: the reference routing agent with its five tools and a coverage contract, at most 30 turns (PROTOCOL 7; paper F.3).

Its submission is a route plan and, for every selected database, tables, columns or capabilities of it that were observed in
this episode. The tools themselves belong to RouteEnv; the prompt carries contract and schedule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tasks_lib.models.chat import ChatModel
from tasks_lib.protocol.records import CallContext, PublicTask, RoutePlan
from tasks_lib.routeenv.environment import HERMES_TOOLS, RouteEnv
from tasks_lib.routeenv.search import Catalog
from tasks_lib.routing.episode import SUBMIT, Script, run_episode
from tasks_lib.routing.fixed import MAX_STEPS
from tasks_lib.routing.outcome import Clarification, RouteOutcome
from tasks_lib.routing.plan import PLAN_SCHEMA, Invalid, validate
from tasks_lib.routing.views import prompt, tool_line

_OBJECT = re.compile(r"\b(?:tb|col|cap)_\w+")

GROUNDING_SCHEMA: Mapping[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "additionalProperties": False,
        "required": ["database_id", "object_ids"],
        "properties": {
            "database_id": {"type": "string"},
            "object_ids": {"type": "array", "items": {"type": "string"}},
        },
    },
}
SUBMIT_TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": SUBMIT,
        "description": (
            "Hand in the route: at least one evidence id of every selected database, and in `grounding` the observed tables "
            "(tb_), columns (col_) or capabilities (cap_) each selected database is chosen for."
        ),
        "parameters": {
            **PLAN_SCHEMA,
            "required": [*PLAN_SCHEMA["required"], "grounding"],
            "properties": {**PLAN_SCHEMA["properties"], "grounding": GROUNDING_SCHEMA},
        },
    },
}


PHASES = (
    (18, "Now: search and inspect."),
    (23, "Now: settle coverage and topology."),
    (24, "Now: hand in the route."),
    (MAX_STEPS, "Now: hand in, or correct what the validator asked for."),
)
"""The schedule as (last turn, what it is for); advice, as in the paper: no tool is taken away."""


class Ground:
    """Tables, columns and capabilities observed in one episode, and whose they are."""

    def __init__(self, env: RouteEnv) -> None:
        self.env = env

    def owners(self) -> dict[str, str]:
        """Database of every object that an observation of this episode shows."""
        seen = {item for step in self.env.transcript for item in _OBJECT.findall(step.observation.text)}
        catalog = self.env.catalog
        return {
            item: str(rows[item]["database_id"])
            for rows in (catalog.tables, catalog.columns, catalog.capabilities)
            for item in seen & rows.keys()
        }

    def count(self, grounding: object) -> Mapping[str, int] | Invalid:
        """Observed objects named for each database, or what is wrong with the grounding's shape."""
        if not isinstance(grounding, list):
            return Invalid("grounding is no list; give one entry for each selected database.")
        owners = self.owners()
        counts: dict[str, int] = {}
        for i, entry in enumerate(grounding):
            if (
                not isinstance(entry, dict)
                or set(entry) != {"database_id", "object_ids"}
                or not isinstance(entry["database_id"], str)
                or not isinstance(entry["object_ids"], list)
                or not all(isinstance(item, str) for item in entry["object_ids"])
            ):
                return Invalid(f"grounding[{i}] has another shape than a database_id and a list of object_ids.")
            for j, item in enumerate(entry["object_ids"]):
                if owners.get(item) != entry["database_id"]:
                    return Invalid(f"grounding[{i}].object_ids[{j}] was not observed as part of that database.")
            counts[entry["database_id"]] = counts.get(entry["database_id"], 0) + len(entry["object_ids"])
        return counts


def phase(turn: int) -> str:
    """What the schedule says of a turn (1 to 30), told with the answer before it; "" after the last."""
    for last, advice in PHASES:
        if turn <= last:
            return advice
    return ""


async def hermes_route(
    task: PublicTask,
    catalog: Catalog,
    model: ChatModel,
    context: CallContext,
    clarification: Clarification | None,
) -> RouteOutcome:
    """One Hermes episode. Raises ProviderUnavailable."""
    env = RouteEnv(catalog, task, MAX_STEPS)
    ground = Ground(env)
    tools = (*HERMES_TOOLS, SUBMIT_TOOL)
    topologies = prompt("topologies@1")
    system = prompt(
        "route_skills_episode@1",
        turns=MAX_STEPS,
        native=model.spec.protocol == "native",
        actions=[tool_line(tool) for tool in tools],
        topologies=topologies.text,
    )
    request = prompt("route_request@1", request=task.request, clarification=clarification, candidates=task.allowlist)

    def judge(submission: Mapping[str, Any]) -> RoutePlan | Invalid:
        counts = ground.count(submission.get("grounding"))
        if isinstance(counts, Invalid):
            return counts
        plan = {key: value for key, value in submission.items() if key != "grounding"}
        return validate(plan, task.allowlist, env.evidence, require_evidence_per_database=True, grounded=counts)

    script = Script(
        system=system,
        request=request,
        templates=(system.digest, request.digest, topologies.digest),
        tools=tools,
        judge=judge,
        phase=phase,
    )
    return await run_episode(script, env, model, context)
