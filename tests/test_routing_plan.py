"""The plan validator: one case a rule of PROTOCOL 7, and reasons that carry public ids only."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tasks_lib.protocol.records import RouteEdge, RouteNode, RoutePlan
from tasks_lib.protocol.vocabulary import Behavior
from tasks_lib.routing.plan import PLAN_SCHEMA, Invalid, validate

ALLOW = ("db_c", "db_a", "db_b")
EVIDENCE = {"ev_1": "db_a", "ev_2": "db_b", "ev_3": "db_c"}


def plan() -> dict[str, Any]:
    return {
        "selected_databases": ["db_a", "db_b"],
        "execution_plan": {
            "topology": "sequential",
            "nodes": [
                {"database_id": "db_b", "information_request": "count them"},
                {"database_id": "db_a", "information_request": "find the name"},
            ],
            "edges": [{"from": "db_a", "to": "db_b", "type": "value", "reason": "the name"}],
        },
        "evidence_ids": ["ev_1"],
        "confidence": 1,
    }


def test_accepts_a_good_plan_and_keeps_its_order() -> None:
    assert validate(plan(), ALLOW, EVIDENCE) == RoutePlan(
        selected=("db_a", "db_b"),
        topology=Behavior.SEQUENTIAL,
        nodes=(RouteNode("db_b", "count them"), RouteNode("db_a", "find the name")),
        edges=(RouteEdge("db_a", "db_b", "value", "the name"),),
        evidence_ids=("ev_1",),
        confidence=1.0,
    )


def edited(path: str, value: Any) -> dict[str, Any]:
    made = copy.deepcopy(plan())
    *parents, last = path.split(".")
    place: Any = made
    for part in parents:
        place = place[int(part)] if isinstance(place, list) else place[part]
    if isinstance(place, list):
        place[int(last)] = value
    else:
        place[last] = value
    return made


@pytest.mark.parametrize(
    ("path", "value", "word"),
    [
        ("selected_databases", [], "empty"),
        ("selected_databases", ["db_a", "db_zz"], "allowlist"),
        ("selected_databases", ["db_a", "db_b", "db_a"], "twice"),
        ("selected_databases", ["db_a", "db_b", "db_c"], "no node"),
        ("selected_databases", ["db_a"], "not among"),
        ("selected_databases", "db_a", "selected_databases"),
        ("selected_databases", ["db_a", 7], "selected_databases.1"),
        ("execution_plan.nodes.1.database_id", "db_b", "twice"),
        ("execution_plan.nodes.1.information_request", None, "information_request"),
        ("execution_plan.topology", "star", "topology"),
        ("execution_plan.topology", None, "topology"),
        ("execution_plan.edges", [{"from": "db_a", "to": "db_c", "type": "", "reason": ""}], "does not join"),
        ("execution_plan.edges", [{"from": "db_a", "to": "db_a", "type": "", "reason": ""}], "itself"),
        (
            "execution_plan.edges",
            [
                {"from": "db_a", "to": "db_b", "type": "", "reason": ""},
                {"from": "db_b", "to": "db_a", "type": "", "reason": ""},
            ],
            "cycle",
        ),
        ("execution_plan.edges", [{"from": "db_a", "to": "db_b"}], "type"),
        ("execution_plan.edges", [{"source": "db_a", "target": "db_b", "type": "", "reason": ""}], "from"),
        ("evidence_ids", ["ev_1", "ev_9"], "evidence_ids[1]"),
        ("evidence_ids", [1], "evidence_ids.0"),
        ("confidence", 1.01, "confidence"),
        ("confidence", -0.1, "confidence"),
        ("confidence", float("nan"), "confidence"),
        ("confidence", float("inf"), "confidence"),
        ("confidence", 10**400, "confidence"),
        ("confidence", True, "confidence"),
        ("confidence", "0.5", "confidence"),
        ("confidence", None, "confidence"),
        ("note", "x", "has a key"),
        ("execution_plan.note", "x", "execution_plan has a key"),
    ],
)
def test_refuses(path: str, value: Any, word: str) -> None:
    got = validate(edited(path, value), ALLOW, EVIDENCE)
    assert isinstance(got, Invalid)
    assert word in got.reason


@pytest.mark.parametrize("value", [None, [], "x", 3])
def test_refuses_what_is_no_object(value: object) -> None:
    assert isinstance(validate(value, ALLOW, EVIDENCE), Invalid)


@pytest.mark.parametrize("key", ["selected_databases", "execution_plan", "evidence_ids", "confidence"])
def test_every_key_is_required(key: str) -> None:
    short = plan()
    del short[key]
    got = validate(short, ALLOW, EVIDENCE)
    assert isinstance(got, Invalid)
    assert key in got.reason


def test_evidence_per_database_is_hermes_rule_only() -> None:
    assert isinstance(validate(plan(), ALLOW, EVIDENCE), RoutePlan)
    got = validate(plan(), ALLOW, EVIDENCE, require_evidence_per_database=True)
    assert isinstance(got, Invalid)
    assert "db_b" in got.reason
    both = edited("evidence_ids", ["ev_1", "ev_2"])
    assert isinstance(validate(both, ALLOW, EVIDENCE, require_evidence_per_database=True), RoutePlan)


def test_grounded_objects_per_database() -> None:
    both = edited("evidence_ids", ["ev_1", "ev_2"])
    got = validate(both, ALLOW, EVIDENCE, True, grounded={"db_a": 2})
    assert isinstance(got, Invalid)
    assert "db_b" in got.reason
    assert isinstance(validate(both, ALLOW, EVIDENCE, True, grounded={"db_a": 2, "db_b": 1}), RoutePlan)


@pytest.mark.parametrize(
    "bad",
    [
        edited("selected_databases", ["secret_film_store"]),
        edited("evidence_ids", ["secret_film_store"]),
        edited("secret_film_store", 1),
        edited("execution_plan.topology", "secret_film_store"),
        edited("execution_plan.nodes.0.database_id", "secret_film_store"),
        edited("confidence", "secret_film_store"),
    ],
)
def test_reasons_never_echo_what_the_model_wrote(bad: dict[str, Any]) -> None:
    got = validate(bad, ALLOW, EVIDENCE)
    assert isinstance(got, Invalid)
    assert "secret" not in got.reason


def test_the_tool_schema_names_the_same_keys_as_the_validator() -> None:
    text = json.dumps(PLAN_SCHEMA)
    for key in (
        "selected_databases",
        "information_request",
        "topology",
        "evidence_ids",
        "confidence",
        "from",
        "reason",
    ):
        assert f'"{key}"' in text
    assert set(PLAN_SCHEMA["required"]) == set(plan())
