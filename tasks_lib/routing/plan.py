"""The wire form of a route plan and the validator that turns it into a `RoutePlan` (PROTOCOL 7).

Shape, membership and structure are checked here and nowhere else. Whether a plan is *right* is none of its business: gold never
comes near this floor. Reasons carry positions and public ids only, never text a model wrote, so they may be shown and stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tasks_lib.protocol.records import RouteEdge, RouteNode, RoutePlan
from tasks_lib.protocol.vocabulary import Behavior


class _Wire(BaseModel):
    """Exactly the named keys, exactly the named types: 1 is no text, true is no number."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class WireNode(_Wire):
    """One selected database and what is asked of it."""

    database_id: str
    information_request: str


class WireEdge(_Wire):
    """A declared dependency; `from` is a Python keyword, hence the alias."""

    source: Annotated[str, Field(alias="from")]
    target: Annotated[str, Field(alias="to")]
    type: str
    reason: str


class WireExecution(_Wire):
    """How the selected databases work together."""

    topology: str
    nodes: list[WireNode]
    edges: list[WireEdge]


class WirePlan(_Wire):
    """A route plan as a model writes it."""

    selected_databases: list[str]
    execution_plan: WireExecution
    evidence_ids: list[str]
    confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Invalid:
    """Why a plan was not accepted: one sentence a router can act on."""

    reason: str


PLAN_SHAPE = """{
  "selected_databases": ["db_..."],
  "execution_plan": {
    "topology": "single | parallel | sequential | exploratory | interactive",
    "nodes": [{"database_id": "db_...", "information_request": "..."}],
    "edges": [{"from": "db_...", "to": "db_...", "type": "...", "reason": "..."}]
  },
  "evidence_ids": ["ev_..."],
  "confidence": 0.0
}"""
"""The shape as prompts show it."""

PLAN_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["selected_databases", "execution_plan", "evidence_ids", "confidence"],
    "properties": {
        "selected_databases": {"type": "array", "items": {"type": "string"}},
        "execution_plan": {
            "type": "object",
            "additionalProperties": False,
            "required": ["topology", "nodes", "edges"],
            "properties": {
                "topology": {"type": "string", "enum": [b.value for b in Behavior]},
                "nodes": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["database_id", "information_request"],
                        "properties": {
                            "database_id": {"type": "string"},
                            "information_request": {"type": "string"},
                        },
                    },
                },
                "edges": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["from", "to", "type", "reason"],
                        "properties": {
                            "from": {"type": "string"},
                            "to": {"type": "string"},
                            "type": {"type": "string"},
                            "reason": {"type": "string"},
                        },
                    },
                },
            },
        },
        "evidence_ids": {"type": "array", "items": {"type": "string"}},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
    },
}
"""The same shape as a JSON schema, for the route-submission tool."""


def _shape_reason(error: ValidationError) -> str:
    """First shape fault as `place: fault`. Keys the model invented are not echoed."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        return (
            f"{'.'.join(place[:-1]) or 'the plan'} has a key that the plan shape does not have; use exactly its keys."
        )
    return f"{'.'.join(place) or 'the plan'}: {first['msg'][0].lower()}{first['msg'][1:]}."


def _cyclic(nodes: Sequence[str], edges: Sequence[WireEdge]) -> bool:
    """True when the edges hold a directed cycle (Kahn: some node never becomes free)."""
    waiting = dict.fromkeys(nodes, 0)
    for edge in edges:
        waiting[edge.target] += 1
    free = [node for node in nodes if not waiting[node]]
    seen = 0
    while free:
        node = free.pop()
        seen += 1
        for edge in edges:
            if edge.source == node:
                waiting[edge.target] -= 1
                if not waiting[edge.target]:
                    free.append(edge.target)
    return seen != len(waiting)


def validate(
    plan_json: object,
    allowlist: Sequence[str],
    evidence: Mapping[str, str],
    require_evidence_per_database: bool = False,
    grounded: Mapping[str, int] | None = None,
) -> RoutePlan | Invalid:
    """The accepted plan, or the first rule it breaks (PROTOCOL 7).

    `plan_json`: decoded JSON. `evidence`: evidence ids observed in this episode, each with its database.
    `require_evidence_per_database`: Hermes' rule. `grounded`: when given, the number of observed tables, columns and
    capabilities that the submission names for each database; every selected database needs at least one.
    """
    if not isinstance(plan_json, Mapping):
        return Invalid("the plan is no JSON object; give one object of the plan shape.")
    try:
        wire = WirePlan.model_validate(plan_json)
    except ValidationError as error:
        return Invalid(_shape_reason(error))
    allowed = frozenset(allowlist)
    execution = wire.execution_plan
    if not wire.selected_databases:
        return Invalid("selected_databases is empty; select at least one candidate.")
    for i, database in enumerate(wire.selected_databases):
        if database not in allowed:
            return Invalid(f"selected_databases[{i}] is not in the candidate allowlist.")
    if len(set(wire.selected_databases)) != len(wire.selected_databases):
        return Invalid("selected_databases names a database twice.")
    nodes = [node.database_id for node in execution.nodes]
    selected = frozenset(wire.selected_databases)
    for i, node in enumerate(nodes):
        if node not in selected:
            return Invalid(f"execution_plan.nodes[{i}] is not among selected_databases.")
    if len(set(nodes)) != len(nodes):
        return Invalid("execution_plan.nodes names a database twice; give each selected database exactly one node.")
    for database in wire.selected_databases:
        if database not in nodes:
            return Invalid(f"{database} is selected but has no node; give each selected database exactly one node.")
    if execution.topology not in {b.value for b in Behavior}:
        return Invalid(f"execution_plan.topology is none of {', '.join(b.value for b in Behavior)}.")
    for i, edge in enumerate(execution.edges):
        if edge.source not in selected or edge.target not in selected:
            return Invalid(f"execution_plan.edges[{i}] does not join two selected databases.")
        if edge.source == edge.target:
            return Invalid(f"execution_plan.edges[{i}] joins {edge.source} with itself.")
    if _cyclic(nodes, execution.edges):
        return Invalid("execution_plan.edges hold a cycle; an output cannot feed its own input.")
    for i, item in enumerate(wire.evidence_ids):
        if item not in evidence:
            return Invalid(f"evidence_ids[{i}] was not observed in this episode; cite evidence ids you have seen.")
    if require_evidence_per_database:
        cited = {evidence[item] for item in wire.evidence_ids}
        for database in wire.selected_databases:
            if database not in cited:
                return Invalid(f"no cited evidence belongs to {database}; cite at least one evidence id of it.")
    if grounded is not None:
        for database in wire.selected_databases:
            if grounded.get(database, 0) < 1:
                return Invalid(
                    f"{database} has no grounded table, column or capability; name at least one that you observed."
                )
    return RoutePlan(
        selected=tuple(wire.selected_databases),
        topology=Behavior(execution.topology),
        nodes=tuple(RouteNode(node.database_id, node.information_request) for node in execution.nodes),
        edges=tuple(RouteEdge(e.source, e.target, e.type, e.reason) for e in execution.edges),
        evidence_ids=tuple(wire.evidence_ids),
        confidence=float(wire.confidence),
    )
