"""The turn loop of ReAct and Hermes: what consumes a turn, what comes back, when the episode ends (known faults T01, T02, T04)."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from routing_support import Scripted, action, final, native, plan, task, write_catalog

from tasks_lib.models.chat import ChatReply, ChatRequest, ProviderUnavailable, ToolCall
from tasks_lib.protocol.vocabulary import Audience, Behavior, CallOutcome, Router
from tasks_lib.routeenv.search import Catalog
from tasks_lib.routing.routers import Clarification, route
from tasks_lib.routing.turns import turn_rows

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
        (action("submit_route", **plan("db_22")), "unknown_action"),
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
    [
        "",
        "null",
        "[]",
        '{"database_id":"db_7",}',
        '{"table_limit": \\n[3]}',
        '{"table_limit":NaN}',
        '{"a":1}{"a":2}',
        '{"database_id":"db_7","database_id":"db_8"}',
        '{"database_id":"db_',
    ],
)
async def test_native_arguments_are_strict(catalog: Catalog, arguments: str) -> None:
    model = Scripted(
        [native(("inspect_database", arguments)), native(("submit_route", json.dumps(plan("db_22"))))], "native"
    )
    got = await route(Router.REACT, task(REQUEST), catalog, model)
    assert (got.turns, got.malformed_turns, got.observed) == (2, 1, ())


WRAPPED = json.dumps(json.dumps({"database_id": "db_22"}))


async def test_the_one_leniency_is_counted_as_a_recovery(catalog: Catalog) -> None:
    text = f"<ACTION>{json.dumps(json.dumps({'name': 'inspect_database', 'arguments': {'database_id': 'db_22'}}))}</ACTION>"
    for protocol, reply in (("native", native(("inspect_database", WRAPPED))), ("text", text)):
        end = native(("submit_route", json.dumps(plan("db_22")))) if protocol == "native" else final("db_22")
        model = Scripted([reply, end], protocol)
        got = await route(Router.REACT, task(REQUEST), catalog, model)
        assert (got.turns, got.malformed_turns, got.observed) == (2, 0, ("db_22",))
        assert [turn.recovery for turn in got.transcript] == ["double_encoded", ""]
    args = json.dumps({"name": "inspect_database", "arguments": WRAPPED})
    got = await route(Router.REACT, task(REQUEST), catalog, Scripted([f"<ACTION>{args}</ACTION>", final("db_22")]))
    assert got.transcript[0].malformed_reason == "shape"


LEAKED = '<tool_call>{"name": "inspect_database", "arguments": {"database_id": "db_22"}}</tool_call>'
SUBMITTED = f"<function=submit_route>{json.dumps(plan('db_22'))}</function>"


@pytest.mark.parametrize("protocol", ["text", "native"])
async def test_leaked_markup_is_read_and_recorded(catalog: Catalog, protocol: str) -> None:
    got = await route(Router.REACT, task(REQUEST), catalog, Scripted([f"Let me see. {LEAKED}", SUBMITTED], protocol))
    assert got.valid
    assert (got.turns, got.malformed_turns, got.observed) == (2, 0, ("db_22",))
    assert [(t.kind.value, t.action, t.recovery) for t in got.transcript] == [
        ("action", "inspect_database", "hermes"),
        ("final", "submit_route", "llama"),
    ]


@pytest.mark.parametrize(
    ("protocol", "reply", "reason"),
    [
        ("text", LEAKED + LEAKED, "markup_multiple"),
        ("text", LEAKED + SUBMITTED, "markup_mixed"),
        ("text", LEAKED + LOOK, "multiple"),
        ("text", LEAKED.replace("inspect_database", "drop_everything"), "unknown_action"),
        ("text", LEAKED.replace("db_22", 'db_22", "depth": "2'), "arguments"),
        ("native", LEAKED[:-1], "markup_incomplete"),
        (
            "native",
            replace(native(("inspect_database", '{"database_id": "db_22"}')), text=LEAKED),
            "multiple_calls",
        ),
    ],
)
async def test_ambiguous_markup_runs_nothing(
    catalog: Catalog, protocol: str, reply: ChatReply | str, reason: str
) -> None:
    model = Scripted([reply, "nothing"], protocol)
    got = await route(Router.REACT, task(REQUEST), catalog, model)
    assert got.transcript[0].malformed_reason == reason
    assert got.observed == ()
    assert reason in told(model, 1)


async def test_marks_inside_a_block_are_text(catalog: Catalog) -> None:
    noted = plan("db_22")
    noted["execution_plan"]["nodes"][0]["information_request"] = f"what {LEAKED} means"
    got = await route(Router.REACT, task(REQUEST), catalog, Scripted([f"<FINAL>{json.dumps(noted)}</FINAL>"]))
    assert (got.valid, got.turns) == (True, 1)


ODD = [
    native(("inspect_database", '{"database_id":')),
    native(("search catalog!", "{}")),
    native(("", "")),
    native(("inspect_database", WRAPPED)),
    ChatReply(
        CallOutcome.OK, "half \ud800", (ToolCall("", "inspect_database", "{}"), ToolCall("", "x", "[]")), call_key="n"
    ),
    ChatReply(CallOutcome.TRUNCATED, "", call_key="cut"),
    replace(native(), text="\ud83d no call"),
    native(("submit_route", json.dumps(plan("db_99")))),
    native(("submit_route", json.dumps(plan("db_22")))),
]


async def test_what_was_sent_is_never_rewritten_and_can_always_be_sent(catalog: Catalog) -> None:
    for protocol, replies in (
        ("native", ODD),
        (
            "text",
            [LOOK, "none", f"{LOOK}{LOOK}", "<ASK_USER>Which?</ASK_USER>", final("db_99"), "\ud800", final("db_22")],
        ),
    ):
        model = Scripted(list(replies), protocol)
        got = await route(Router.REACT, task(REQUEST), catalog, model)
        assert (got.valid, got.turns) == (True, len(replies))
        for before, after in pairwise(model.requests):
            assert after.messages[: len(before.messages)] == before.messages
            assert len(after.messages) > len(before.messages)
            assert (after.tools, after.templates) == (before.tools, before.templates)
        assert all(request.conversation for request in model.requests)
        for message in model.requests[-1].messages:
            message.content.encode("utf-8")
            for call in message.tool_calls:
                assert isinstance(json.loads(call.arguments), dict)
                assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call.name)
                assert call.id
        asked = [[call.id for call in m.tool_calls] for m in model.requests[-1].messages if m.tool_calls]
        assert all(len(set(ids)) == len(ids) for ids in asked)
        answered = [m.tool_call_id for m in model.requests[-1].messages if m.role == "tool"]
        assert answered == [name for ids in asked for name in ids]


async def test_the_transcript_tells_every_turn(catalog: Catalog) -> None:
    model = Scripted(
        [
            LOOK,
            "no block",
            "<ASK_USER>Which bees?</ASK_USER>",
            ChatReply(CallOutcome.EMPTY, "", call_key="blank", prompt_tokens=7),
            final("db_99", evidence_ids=[]),
            final("db_22"),
        ]
    )
    got = await route(Router.REACT, task(REQUEST), catalog, model)
    rows = turn_rows("scripted", "react", "t1", "", 0, got.transcript)
    assert [row["kind"] for row in rows] == ["action", "malformed", "ask", "failed", "final", "final"]
    assert [row["observed"] for row in rows] == [["db_22"], [], [], [], [], []]
    assert [row["selected"] for row in rows] == [[], [], [], [], [], ["db_22"]]
    assert [row["accepted"] for row in rows] == [False] * 5 + [True]
    assert (rows[0]["action"], json.loads(rows[0]["arguments"])) == ("inspect_database", {"database_id": "db_22"})
    assert rows[1]["malformed_reason"] == "none"
    assert (rows[3]["outcome"], rows[3]["call_key"], rows[3]["prompt_tokens"]) == ("empty", "blank", 7)
    assert [row["turn"] for row in rows] == [1, 2, 3, 4, 5, 6]


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
