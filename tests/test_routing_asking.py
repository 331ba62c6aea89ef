"""The ask decision: one call, strict JSON, and anything else asks nothing."""

from __future__ import annotations

import json

import pytest
from routing_support import Scripted, plan, task, write_catalog

from tasks_lib.models.chat import ChatReply
from tasks_lib.protocol.vocabulary import Audience, CallOutcome, Router
from tasks_lib.routeenv.search import Catalog
from tasks_lib.routing.asking import decide
from tasks_lib.routing.routers import RouteOutcome, route

REQUEST = "How many are there?"
ASK = json.dumps({"ask": True, "question": " Hives or huts? "})


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return Catalog.load(write_catalog(tmp_path_factory.mktemp("catalog")))


async def routed(catalog: Catalog) -> RouteOutcome:
    return await route(Router.DIRECT, task(REQUEST), catalog, Scripted([json.dumps(plan("db_22"))]))


async def test_asks_once_from_request_route_and_observations(catalog: Catalog) -> None:
    outcome = await routed(catalog)
    model = Scripted([f"```json\n{ASK}\n```"])
    got = await decide(task(REQUEST), outcome, Router.DIRECT, model, 2, catalog)
    assert got.decision.ask
    assert got.decision.question == "Hives or huts?"
    assert (got.decision.backend, got.decision.router, got.decision.task_id, got.decision.trial) == (
        "scripted",
        Router.DIRECT,
        "t1",
        2,
    )
    assert (got.calls, got.failure) == (("call1",), "")
    assert len(model.requests) == 1
    shown = model.requests[0].messages[0].content
    assert shown.startswith("# Task: clarification decision\n")
    assert '"selected_databases": [\n  "db_22"\n ]' in shown
    for database in outcome.observed:
        assert f'"database_id":"{database}"' in shown
    assert (model.contexts[0].audience, model.contexts[0].layer) == (Audience.ROUTER, "asks")


async def test_no_observed_database_is_shown_that_the_router_had_not_seen(catalog: Catalog) -> None:
    outcome = await routed(catalog)
    model = Scripted([ASK])
    await decide(task(REQUEST), outcome, Router.DIRECT, model, 0, catalog)
    shown = model.requests[0].messages[0].content
    for database in set(catalog.databases) - set(outcome.observed):
        assert database not in shown


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("Hives or huts?", "malformed:not_json"),
        ('{"ask": "yes", "question": "Hives or huts?"}', "malformed:shape"),
        ('{"ask": true}', "malformed:shape"),
        ('{"ask": true, "question": "x", "why": "y"}', "malformed:shape"),
        ('{"ask": true, "question": "  "}', "malformed:no_question"),
        ('{"ask": 1, "question": "x"}', "malformed:shape"),
    ],
)
async def test_a_malformed_reply_asks_nothing(catalog: Catalog, text: str, failure: str) -> None:
    got = await decide(task(REQUEST), await routed(catalog), Router.DIRECT, Scripted([text]), 0, catalog)
    assert (got.decision.ask, got.decision.question, got.failure) == (False, "", failure)


async def test_a_failed_call_asks_nothing(catalog: Catalog) -> None:
    model = Scripted([ChatReply(CallOutcome.TRUNCATED, "", call_key="k")])
    got = await decide(task(REQUEST), await routed(catalog), Router.DIRECT, model, 0, catalog)
    assert (got.decision.ask, got.failure, got.calls) == (False, "truncated", ("k",))


async def test_a_question_that_is_not_asked_is_dropped(catalog: Catalog) -> None:
    model = Scripted(['{"ask": false, "question": "Hives?"}'])
    got = await decide(task(REQUEST), await routed(catalog), Router.DIRECT, model, 0, catalog)
    assert (got.decision.ask, got.decision.question, got.failure) == (False, "", "")
