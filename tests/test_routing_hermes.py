"""Hermes: its tools, and the grounding that its submission must carry."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from routing_support import Scripted, action, native, plan, task, write_catalog

from tasks_lib.protocol.vocabulary import Router
from tasks_lib.routeenv.search import Catalog
from tasks_lib.routing.routers import route

REQUEST = "Which queen bee is the oldest?"
LOAD = action("load_database_skill", database_id="db_22")


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return Catalog.load(write_catalog(tmp_path_factory.mktemp("catalog")))


def submission(catalog: Catalog, grounding: Any, *, evidence: bool = True) -> str:
    ids = [catalog.databases["db_22"]["evidence_id"]] if evidence else []
    return f"<FINAL>{json.dumps({**plan('db_22', evidence_ids=ids), 'grounding': grounding})}</FINAL>"


def table_of(catalog: Catalog, database: str) -> str:
    return str(catalog.tables_of[database][0]["table_id"])


async def test_a_grounded_route_is_accepted(catalog: Catalog) -> None:
    grounding = [{"database_id": "db_22", "object_ids": [table_of(catalog, "db_22")]}]
    got = await route(Router.HERMES, task(REQUEST), catalog, Scripted([LOAD, submission(catalog, grounding)]))
    assert got.valid
    assert got.turns == 2
    assert got.observed == ("db_22",)


async def test_what_is_not_grounded_comes_back(catalog: Catalog) -> None:
    mine, foreign = table_of(catalog, "db_22"), table_of(catalog, "db_33")
    good = [{"database_id": "db_22", "object_ids": [mine]}]
    model = Scripted(
        [
            submission(catalog, good),  # nothing observed yet
            LOAD,
            submission(catalog, []),
            submission(catalog, [{"database_id": "db_22", "object_ids": [foreign]}]),
            submission(catalog, [{"database_id": "db_22", "object_ids": ["tb_invented"]}]),
            submission(catalog, [{"database_id": "db_22"}]),
            submission(catalog, "all of it"),
            submission(catalog, good, evidence=False),
            submission(catalog, good),
        ]
    )
    got = await route(Router.HERMES, task(REQUEST), catalog, model)
    told = [request.messages[-1].content for request in model.requests[1:]]
    assert "not observed" in told[0]
    assert "no grounded table" in told[2]
    assert "not observed" in told[3]
    assert "not observed" in told[4]
    assert "another shape" in told[5]
    assert "no list" in told[6]
    assert "no cited evidence" in told[7]
    assert got.valid
    assert (got.turns, got.malformed_turns) == (9, 0)


async def test_its_five_tools(catalog: Catalog) -> None:
    grounding = [{"database_id": "db_22", "object_ids": [table_of(catalog, "db_22")]}]
    text = submission(catalog, grounding)
    body = re.sub("</?FINAL>", "", text)
    model = Scripted(
        [native(("load_database_skill", '{"database_id": "db_22"}')), native(("submit_route", body))], "native"
    )
    got = await route(Router.HERMES, task(REQUEST), catalog, model)
    assert got.valid
    assert [tool["function"]["name"] for tool in model.requests[0].tools] == [
        "route_search",
        "load_database_skill",
        "inspect_database",
        "inspect_relationships",
        "submit_route",
    ]
    system = model.requests[0].messages[0].content
    assert system.startswith("# Task: route skills episode\n")
    assert "turns 1-18" in system


@pytest.mark.parametrize("protocol", ["text", "native"])
async def test_every_turn_is_told_its_place_in_the_schedule(catalog: Catalog, protocol: str) -> None:
    model = Scripted(["nothing"], protocol)
    await route(Router.HERMES, task(REQUEST), catalog, model)
    ends = {turn: request.messages[-1].content.splitlines()[-1] for turn, request in enumerate(model.requests, 1)}
    expected = {2: "search and inspect", 18: "search and inspect", 19: "settle coverage", 23: "settle coverage"}
    expected |= {24: "hand in the route", 25: "correct what the validator", 30: "correct what the validator"}
    for turn, words in expected.items():
        assert f"Turns left: {31 - turn}." in ends[turn]
        assert words in ends[turn]
