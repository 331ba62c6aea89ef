"""The turn loop of ReAct and Hermes: what consumes a turn, what comes back, when the episode ends (known faults T01, T02, T04)."""

from __future__ import annotations

import json

import pytest
from routing_support import Scripted, action, final, native, plan, task, write_catalog

from tasks_lib.models.chat import ChatReply, ChatRequest, ProviderUnavailable
from tasks_lib.protocol.vocabulary import Audience, Behavior, CallOutcome, Router
from tasks_lib.routeenv.search import Catalog
from tasks_lib.routing.routers import Clarification, route

REQUEST = "Which queen bee is the oldest?"
LOOK = action("inspect_database", database_id="db_22")


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return Catalog.load(write_catalog(tmp_path_factory.mktemp("catalog")))


def told(model: Scripted, turn: int) -> str:
    """What the model was told after `turn`."""
    return model.requests[turn].messages[-1].content


async def test_an_action_then_a_route(catalog: Catalog) -> None:
    model = Scripted([LOOK, final("db_22")])
    got = await route(Router.REACT, task(REQUEST), catalog, model)
    assert got.valid
    assert got.plan is not None
    assert got.plan.selected == ("db_22",)
    assert (got.turns, got.malformed_turns, got.failure, got.observed) == (2, 0, "", ("db_22",))
    assert got.calls == ("call1", "call2")
    assert "hive" in told(model, 1)
    assert [c.audience for c in model.contexts] == [Audience.ROUTER] * 2
    assert {c.layer for c in model.contexts} == {"routes"}
    assert model.requests[0].templates


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        (f"{LOOK}\nObservation: db_33\n{LOOK}", "multiple"),
        (f"{LOOK}{final('db_22')}", "multiple"),
        ("The route is db_22.", "none"),
        ('<FINAL>{"selected_databases":["db_22"]', "unclosed"),
        ("```\n<FINAL>{}</FINAL>\n```", "none"),
        ('<ACTION>{"name": "inspect_database", "arguments": {"database_id": "db_22",}}</ACTION>', "not_json"),
        ('<ACTION>{"name": "inspect_database", "arguments": {"a": 1, "a": 2}}</ACTION>', "duplicate_key"),
        ('<ACTION>{"name": "inspect_database", "arguments": []}</ACTION>', "shape"),
        ('<ACTION>{"name": "inspect_database"}</ACTION>', "shape"),
        ('<ACTION>{"name": "drop_everything", "arguments": {}}</ACTION>', "unknown_action"),
        ("<ACTION>null</ACTION>", "not_object"),
    ],
)
async def test_a_malformed_turn_consumes_a_turn_and_runs_nothing(catalog: Catalog, turn: str, reason: str) -> None:
    model = Scripted([turn, final("db_22")])
    got = await route(Router.REACT, task(REQUEST), catalog, model)
    assert (got.turns, got.malformed_turns) == (2, 1)
    assert got.observed == ()
    assert reason in told(model, 1)
    assert "Turns left: 29." in told(model, 1)


async def test_reasoning_before_the_block_does_not_count(catalog: Catalog) -> None:
    model = Scripted([f"<think>{final('db_33')}</think>{LOOK}", final("db_22")])
    got = await route(Router.REACT, task(REQUEST), catalog, model)
    assert (got.turns, got.malformed_turns, got.observed) == (2, 0, ("db_22",))


async def test_two_tool_calls_are_one_malformed_turn_and_both_are_answered(catalog: Catalog) -> None:
    both = native(("inspect_database", '{"database_id":"db_22"}'), ("submit_route", json.dumps(plan("db_22"))))
    model = Scripted([both, native(("submit_route", json.dumps(plan("db_22"))))], protocol="native")
    got = await route(Router.REACT, task(REQUEST), catalog, model)
    answers = model.requests[1].messages[-2:]
    assert [(m.role, m.tool_call_id) for m in answers] == [("tool", "c1"), ("tool", "c2")]
    assert answers[0].content == answers[1].content
    assert "multiple_calls" in answers[0].content
    assert "Turns left: 29." in answers[0].content
    assert (got.turns, got.malformed_turns, got.observed) == (2, 1, ())
    names = [tool["function"]["name"] for tool in model.requests[0].tools]
    assert "submit_route" in names
    assert "inspect_database" in names


@pytest.mark.parametrize(
    "arguments",
    ["", "null", "[]", '{"database_id":"db_22",}', '{"database_id":NaN}', '{"a":1}{"a":2}', '{"database_id":"db_'],
)
async def test_native_arguments_are_strict(catalog: Catalog, arguments: str) -> None:
    model = Scripted(
        [native(("inspect_database", arguments)), native(("submit_route", json.dumps(plan("db_22"))))], "native"
    )
    got = await route(Router.REACT, task(REQUEST), catalog, model)
    assert (got.turns, got.malformed_turns, got.observed) == (2, 1, ())


async def test_native_reply_without_a_call_is_malformed(catalog: Catalog) -> None:
    model = Scripted(["db_22, surely.", native(("submit_route", json.dumps(plan("db_22"))))], "native")
    got = await route(Router.REACT, task(REQUEST), catalog, model)
    assert (got.turns, got.malformed_turns) == (2, 1)
    assert model.requests[1].messages[-1].role == "user"


async def test_text_backends_get_no_tools_and_read_them_in_the_prompt(catalog: Catalog) -> None:
    model = Scripted([final("db_22")])
    await route(Router.REACT, task(REQUEST), catalog, model)
    assert model.requests[0].tools == ()
    assert "`check_coverage`" in model.requests[0].messages[0].content


async def test_a_refused_route_comes_back_with_its_reason(catalog: Catalog) -> None:
    model = Scripted([final("db_99"), final("db_22", evidence_ids=["ev_never"]), final("db_22")])
    got = await route(Router.REACT, task(REQUEST), catalog, model)
    assert got.valid
    assert (got.turns, got.malformed_turns) == (3, 0)
    assert "allowlist" in told(model, 1)
    assert "evidence_ids[0]" in told(model, 2)


@pytest.mark.parametrize("router", [Router.REACT, Router.HERMES])
async def test_after_thirty_turns_the_route_is_empty(catalog: Catalog, router: Router) -> None:
    model = Scripted(["The route is db_22."])
    got = await route(router, task(REQUEST), catalog, model)
    assert len(model.requests) == 30
    assert (got.valid, got.plan, got.turns, got.malformed_turns) == (False, None, 30, 30)
    assert got.reason


async def test_the_reason_of_the_last_refused_route_is_kept(catalog: Catalog) -> None:
    got = await route(Router.REACT, task(REQUEST), catalog, Scripted([final("db_99")]))
    assert (got.valid, got.turns, got.malformed_turns) == (False, 30, 0)
    assert "allowlist" in got.reason


async def test_asking_inside_a_route_episode_is_not_available(catalog: Catalog) -> None:
    model = Scripted(["<ASK_USER>Which bees?</ASK_USER>", final("db_22")])
    got = await route(Router.REACT, task(REQUEST), catalog, model)
    assert (got.turns, got.malformed_turns) == (2, 0)
    assert "not available here" in told(model, 1)


@pytest.mark.parametrize("outcome", [CallOutcome.TRUNCATED, CallOutcome.EMPTY, CallOutcome.MODEL_REFUSED])
async def test_a_failed_call_consumes_a_turn_and_the_next_request_differs(
    catalog: Catalog, outcome: CallOutcome
) -> None:
    model = Scripted([ChatReply(outcome, "", call_key="bad"), final("db_22")])
    got = await route(Router.REACT, task(REQUEST), catalog, model)
    assert got.valid
    assert (got.turns, got.malformed_turns, got.failure) == (2, 0, outcome.value)
    assert model.requests[0] != model.requests[1]


async def test_an_overflow_ends_the_episode(catalog: Catalog) -> None:
    model = Scripted([LOOK, ChatReply(CallOutcome.CONTEXT_OVERFLOW, "", call_key="big")])
    got = await route(Router.REACT, task(REQUEST), catalog, model)
    assert (got.valid, got.failure, got.calls) == (False, "context_overflow", ("call1", "big"))


async def test_provider_unavailable_propagates(catalog: Catalog) -> None:
    def down(_request: ChatRequest) -> ChatReply:
        raise ProviderUnavailable("provider_unavailable: stub")

    with pytest.raises(ProviderUnavailable):
        await route(Router.REACT, task(REQUEST), catalog, Scripted(down))


async def test_a_clarification_is_visible_and_has_its_own_layer(catalog: Catalog) -> None:
    model = Scripted([final("db_22", execution_plan={**plan("db_22")["execution_plan"], "topology": "interactive"})])
    got = await route(Router.REACT, task(REQUEST), catalog, model, 3, Clarification("Bees or boats?", "The bees."))
    shown = model.requests[0].messages[1].content
    assert "Bees or boats?" in shown
    assert "The bees." in shown
    assert (model.contexts[0].layer, model.contexts[0].trial) == ("clarified_routes", 3)
    assert got.plan is not None
    assert got.plan.topology is Behavior.INTERACTIVE
