"""Models behind the ledger against a real loopback server: keys (M05), replayed failures, limits, linear storage."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import ValidationError
from servers import in_turn, model_server, refuses, says, waits

from tasks_lib.models.backends import BackendSpec, offline_backends
from tasks_lib.models.chat import (
    ChatModel,
    ChatReply,
    ChatRequest,
    Message,
    ProviderUnavailable,
    ToolCall,
)
from tasks_lib.models.client import call_key, open_model
from tasks_lib.models.litellm_client import LiteLLMEndpoint
from tasks_lib.models.transcripts import read_call
from tasks_lib.protocol.records import CallContext
from tasks_lib.protocol.vocabulary import Audience, CallOutcome
from tasks_lib.store.ledgers import Ledger, blobs

ASK = ChatRequest((Message("user", "q"),))
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
CONTEXT = CallContext(Audience.ROUTER, "routes")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}", run="run-1")
    yield made
    made.close()


def spec_of(url: str, **fields: Any) -> BackendSpec:
    return BackendSpec(**{"name": "stub", "model": "hosted_vllm/stub", "api_base": url, **fields})


async def test_an_equal_request_is_made_once_a_trial(ledger: Ledger) -> None:
    with model_server(says("hello")) as server:
        model = open_model(spec_of(server.url), ledger)
        replies = await asyncio.gather(*(model.chat(ASK, CONTEXT) for _ in range(5)))
        assert len(server.requests) == 1
        assert {reply.text for reply in replies} == {"hello"}
        again = await open_model(spec_of(server.url), ledger).chat(ASK, CONTEXT)
        assert again == replies[0]
        assert len(server.requests) == 1
        await model.chat(ASK, CallContext(Audience.ROUTER, "routes", trial=1))
        assert len(server.requests) == 2
    assert (again.prompt_tokens, again.completion_tokens) == (10, 5)
    assert (again.cost, again.cost_source) == (None, "unknown")


async def test_every_field_of_the_effective_request_is_in_the_key() -> None:
    base = spec_of("http://127.0.0.1:1/v1", temperature=None)
    variants: list[tuple[BackendSpec, ChatRequest]] = [
        (base, ASK),
        (base.model_copy(update={"temperature": 0.0}), ASK),
        (base, ChatRequest(ASK.messages, max_tokens=16)),
        (base, ChatRequest(ASK.messages, tool_choice="none")),
        (base.model_copy(update={"extra": {"seed": 1}}), ASK),
        (base.model_copy(update={"extra": {"extra_body": {"top_k": 3}}}), ASK),
        (base.model_copy(update={"api_base": "http://127.0.0.1:2/v1"}), ASK),
        (base.model_copy(update={"extra": {"reasoning_effort": "high"}}), ASK),
        (base.model_copy(update={"protocol": "native"}), ChatRequest(ASK.messages, tools=(TOOL,))),
        (base, ChatRequest(ASK.messages, templates=("d1",))),
        (base, ChatRequest(ASK.messages, max_tokens=base.max_tokens)),
        (base, ChatRequest((Message("system", "q"),))),
    ]
    keys = [call_key(s, r, await LiteLLMEndpoint(s, None).parameters(r), 0) for s, r in variants]
    assert len(set(keys)) == len(variants)
    renamed = base.model_copy(update={"name": "other", "concurrency": 9, "input_price": 1.0, "output_price": 1.0})
    assert call_key(renamed, ASK, await LiteLLMEndpoint(renamed, None).parameters(ASK), 0) == keys[0]


async def test_the_environment_endpoint_is_in_the_key(monkeypatch: pytest.MonkeyPatch, ledger: Ledger) -> None:
    spec = BackendSpec(name="stub", model="hosted_vllm/stub")
    seen = set()
    for url in ("http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"):
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", url)
        parameters = await LiteLLMEndpoint(spec, ledger).parameters(ASK)
        assert parameters["endpoint"] == url
        seen.add(call_key(spec, ASK, parameters, 0))
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("behaviour", "outcome"),
    [
        (says("half an ans", finish="length"), CallOutcome.TRUNCATED),
        (says("", finish="length"), CallOutcome.TRUNCATED),
        (says("", reasoning_content="SELECT 1"), CallOutcome.EMPTY),
        (says(None), CallOutcome.EMPTY),
        (says("I will not", finish="content_filter"), CallOutcome.MODEL_REFUSED),
        (says(None, refusal="no"), CallOutcome.MODEL_REFUSED),
        (
            refuses(400, code="context_length_exceeded", message="maximum context length is 10 tokens"),
            CallOutcome.CONTEXT_OVERFLOW,
        ),
        (refuses(400, message="messages must alternate"), CallOutcome.BAD_REQUEST),
    ],
)
async def test_a_failed_generation_is_stored_and_replayed_as_that_failure(
    ledger: Ledger, behaviour: Any, outcome: CallOutcome
) -> None:
    with model_server(in_turn(behaviour, says("an answer"))) as server:
        first = await open_model(spec_of(server.url), ledger).chat(ASK, CONTEXT)
        second = await open_model(spec_of(server.url), ledger).chat(ASK, CONTEXT)
        assert len(server.requests) == 1
    assert first == second
    assert (first.outcome, first.text, first.tool_calls) == (outcome, "", ())
    assert read_call(ledger, first.call_key).completion.outcome is outcome


async def test_what_a_truncated_model_wrote_is_kept_for_reading(ledger: Ledger) -> None:
    with model_server(says("half an ans", finish="length")) as server:
        reply = await open_model(spec_of(server.url), ledger).chat(ASK, CONTEXT)
    assert read_call(ledger, reply.call_key).completion.text == "half an ans"
    assert (reply.prompt_tokens, reply.completion_tokens) == (10, 5)  # it was paid for (known fault L04)


async def test_a_transient_failure_is_not_stored_and_the_next_run_asks_again(ledger: Ledger) -> None:
    """Known fault P02."""
    with model_server(refuses(429, Retry_After="1800")) as server:
        model = open_model(spec_of(server.url), ledger)
        with pytest.raises(ProviderUnavailable, match="rate_limited"):
            await model.chat(ASK, CONTEXT)
        assert ledger.count("model_call") == 0
        server.behave = says("now")
        assert (await model.chat(ASK, CONTEXT)).text == "now"
        assert len(server.requests) == 2


async def test_native_tool_calls_come_through_and_go_back(ledger: Ledger) -> None:
    wire = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\n}"}}]
    with model_server(in_turn(says(None, finish="tool_calls", tool_calls=wire), says("done"))) as server:
        model = open_model(spec_of(server.url, protocol="native"), ledger)
        first = await model.chat(ChatRequest(ASK.messages, tools=(TOOL,)), CONTEXT)
        assert first.tool_calls == (ToolCall("c1", "look", "{\n}"),)
        grown = (*ASK.messages, Message("assistant", "", first.tool_calls), Message("tool", "seen", tool_call_id="c1"))
        assert (await model.chat(ChatRequest(grown, tools=(TOOL,)), CONTEXT)).text == "done"
        sent = server.requests[1]
    assert sent["messages"][1]["tool_calls"] == wire
    assert sent["messages"][2] == {"role": "tool", "content": "seen", "tool_call_id": "c1"}
    assert sent["tools"] == [TOOL]


async def test_tools_on_a_text_backend_are_a_callers_error(ledger: Ledger) -> None:
    model = open_model(spec_of("http://127.0.0.1:1/v1"), ledger)
    with pytest.raises(ValueError, match="text protocol"):
        await model.chat(ChatRequest(ASK.messages, tools=(TOOL,)), CONTEXT)


async def test_a_conversation_is_stored_linearly_and_read_back(ledger: Ledger) -> None:
    messages: tuple[Message, ...] = (Message("system", "s" * 4000),)
    replies: list[ChatReply] = []
    with model_server(says("ok")) as server:
        model = open_model(spec_of(server.url), ledger)
        for turn in range(12):
            messages = (*messages, Message("user", f"turn {turn} " + "x" * 2000))
            replies.append(await model.chat(ChatRequest(messages, templates=("d",)), CONTEXT))
            messages = (*messages, Message("assistant", f"reply {turn}"))
    with ledger.engine.connect() as connection:
        stored = connection.execute(sa.select(sa.func.sum(sa.func.length(blobs.c.data)))).scalar_one()
    assert stored < 40_000
    call = read_call(ledger, replies[-1].call_key)
    assert call.messages == messages[:-1]
    assert (call.audience, call.layer, call.templates) == ("router", "routes", ("d",))


async def test_text_no_encoding_can_hold_is_replaced_not_fatal(ledger: Ledger) -> None:
    with model_server(says("a \ud83d b")) as server:
        reply = await open_model(spec_of(server.url), ledger).chat(ASK, CONTEXT)
        assert reply.text == "a \ufffd b"
        lone = ChatRequest((Message("user", "from a database: \udcff"),))
        assert call_key(spec_of(server.url), lone, {}, 0)


async def test_what_cannot_fit_the_stated_context_is_not_sent(ledger: Ledger) -> None:
    with model_server(says()) as server:
        model = open_model(spec_of(server.url, context=1000, max_tokens=100), ledger)
        reply = await model.chat(ChatRequest((Message("user", "word " * 2000),)), CONTEXT)
        assert server.requests == []
    assert reply.outcome is CallOutcome.CONTEXT_OVERFLOW


async def test_concurrency_is_limited_per_backend(ledger: Ledger) -> None:
    with model_server(waits) as server:
        model = open_model(spec_of(server.url, concurrency=2), ledger)
        other = open_model(spec_of(server.url, concurrency=2), ledger)
        asks = [
            asyncio.create_task(m.chat(ChatRequest((Message("user", f"{n}"),)), CONTEXT))
            for n, m in enumerate([model, other, model, other, model])
        ]
        await asyncio.to_thread(server.arrived.wait, 60)
        server.release.set()
        await asyncio.gather(*asks)
        assert len(server.requests) == 5
        assert server.most_open <= 2


def test_the_clients_own_fields_may_not_stand_in_extra() -> None:
    for name in ("num_retries", "temperature"):
        with pytest.raises(ValidationError, match=name):
            spec_of("http://127.0.0.1:1/v1", extra={name: "x"})


@pytest.mark.parametrize(
    ("place", "fields"),
    [
        ("api_key", {"api_key": "word-of-mouth"}),
        ("extra.api_key", {"extra": {"api_key": "word-of-mouth"}}),
        ("extra.extra_headers.Authorization", {"extra": {"extra_headers": {"Authorization": "word-of-mouth"}}}),
        ("extra.aws_secret_access_key", {"extra": {"aws_secret_access_key": "word-of-mouth"}}),
        ("api_base", {"api_base": "http://me:word-of-mouth@127.0.0.1:1/v1"}),
        ("api_base", {"api_base": "http://127.0.0.1:1/v1?key=word-of-mouth"}),
    ],
)
def test_a_spec_holds_no_key_and_its_error_does_not_either(place: str, fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=f"{place} holds a key") as refused:
        BackendSpec.model_validate({"name": "x", "model": "openai/x", **fields})
    assert "word-of-mouth" not in str(refused.value)


def test_names_that_only_resemble_keys_are_fields_like_others() -> None:
    extra = {
        "prompt_cache_key": "x",
        "thinking": {"budget_tokens": 5},
        "stop": "token",
        "response_format": {"token": {}},
    }
    BackendSpec(name="x", model="openai/x", api_base="http://127.0.0.1:1/v1?api-version=2", extra=extra)


async def test_a_given_key_is_sent_and_never_stored(ledger: Ledger, tmp_path: Path) -> None:
    with model_server(says()) as server:
        await open_model(spec_of(server.url), ledger, api_key="word-of-mouth").chat(ASK, CONTEXT)
        assert server.headers_seen[0]["authorization"] == "Bearer word-of-mouth"
    assert all(b"word-of-mouth" not in path.read_bytes() for path in tmp_path.iterdir())


CALLER = """
import asyncio, sys
from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.chat import ChatRequest, Message
from tasks_lib.models.client import open_model
from tasks_lib.protocol.records import CallContext
from tasks_lib.protocol.vocabulary import Audience
from tasks_lib.store.ledgers import Ledger
spec = BackendSpec(name="stub", model="hosted_vllm/stub", api_base=sys.argv[1])
model = open_model(spec, Ledger(sys.argv[2]))
print(asyncio.run(model.chat(ChatRequest((Message("user", "q"),)), CallContext(Audience.ROUTER, "routes"))).text)
"""


async def test_a_process_killed_in_mid_call_leaves_the_item_free(ledger: Ledger) -> None:
    with model_server(waits) as server:
        process = subprocess.Popen([sys.executable, "-c", CALLER, server.url, ledger.url])
        try:
            assert await asyncio.to_thread(server.arrived.wait, 120)
            os.kill(process.pid, signal.SIGKILL)
            server.behave = says("second")
            model: ChatModel = open_model(spec_of(server.url), ledger)
            reply = await asyncio.wait_for(model.chat(ASK, CONTEXT), 20)  # before the dead process is reaped
        finally:
            process.kill()
            process.wait()
    assert reply.text == "second"
    assert ledger.count("model_call") == 1


async def test_offline_policies_answer_through_the_ledger(ledger: Ledger) -> None:
    text = "# Task: slot alignment\n## Canonical question\nWhich country?\n## Canonical values\n- Peru\n## Asked question\nWhich country?"
    reply = await open_model(offline_backends()[0], ledger).chat(
        ChatRequest((Message("user", text),)), CallContext(Audience.JUDGE, "releases")
    )
    assert (reply.outcome, reply.cost, reply.cost_source) == (CallOutcome.OK, 0.0, "offline")
    assert (reply.prompt_tokens, reply.completion_tokens) == (None, None)
    assert "code" in read_call(ledger, reply.call_key).parameters
