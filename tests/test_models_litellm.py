"""The litellm client against a real loopback server: retries (M01), cost and usage (M02), effective parameters (M04)."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from servers import USAGE, Stub, in_turn, model_server, refuses, says, waits

from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.chat import BackendMisconfigured, ChatRequest, Message, ProviderUnavailable
from tasks_lib.models.limits import Gate
from tasks_lib.models.litellm_client import LiteLLMEndpoint, litellm_version
from tasks_lib.models.probe import probe
from tasks_lib.protocol.vocabulary import CallOutcome
from tasks_lib.store.ledgers import Ledger

ASK = ChatRequest((Message("user", "q"),))


def spec_of(url: str, **fields: Any) -> BackendSpec:
    return BackendSpec(**{"name": "stub", "model": "hosted_vllm/stub", "api_base": url, **fields})


async def test_three_requests_and_no_more() -> None:
    with model_server(refuses(503)) as server:
        with pytest.raises(ProviderUnavailable, match="provider_unavailable: backend stub at http") as error:
            await LiteLLMEndpoint(spec_of(server.url), None).complete(ASK)
        assert len(server.requests) == 3
    assert "3 attempt" in str(error.value)


@pytest.mark.parametrize("model", ["hosted_vllm/stub", "openai/stub", "anthropic/stub"])
async def test_no_second_owner_of_retries(model: str) -> None:
    with model_server(refuses(500)) as server:
        with pytest.raises(ProviderUnavailable):
            await LiteLLMEndpoint(spec_of(server.url, model=model), None, api_key="x").complete(ASK)
        assert len(server.requests) == 3


async def test_a_retry_after_beyond_the_deadline_gives_up_at_once() -> None:
    with model_server(refuses(429, Retry_After="1800")) as server:
        started = time.monotonic()
        with pytest.raises(ProviderUnavailable, match="rate_limited"):
            await LiteLLMEndpoint(spec_of(server.url, deadline_seconds=120), None).complete(ASK)
        assert time.monotonic() - started < 20
        assert len(server.requests) == 1


async def test_a_short_retry_after_is_honoured() -> None:
    with model_server(in_turn(refuses(429, Retry_After="1.5"), says("later"))) as server:
        started = time.monotonic()
        reply = await LiteLLMEndpoint(spec_of(server.url), None).complete(ASK)
        assert time.monotonic() - started >= 1.5
    assert (reply.text, reply.attempts) == ("later", 2)


async def test_a_cut_reply_is_asked_again() -> None:
    with model_server(in_turn(lambda stub, body: stub.cut(), says("whole"))) as server:
        reply = await LiteLLMEndpoint(spec_of(server.url), None).complete(ASK)
    assert (reply.text, reply.attempts) == ("whole", 2)


async def test_a_slow_endpoint_meets_the_deadline_of_the_call() -> None:
    with model_server(waits) as server:
        started = time.monotonic()
        with pytest.raises(ProviderUnavailable, match="timeout"):
            await LiteLLMEndpoint(spec_of(server.url, deadline_seconds=1.0), None).complete(ASK)
        assert time.monotonic() - started < 15
        assert len(server.requests) == 1


async def test_an_unreachable_backend_is_one_clear_sentence() -> None:
    with model_server(says()) as server:
        url = server.url
    with pytest.raises(ProviderUnavailable) as error:
        await LiteLLMEndpoint(spec_of(url), None).complete(ASK)
    text = str(error.value)
    assert all(part in text for part in ("stub", url, "expected a chat completion", "api_base", "nothing was stored"))


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_refused_key_or_model_is_configuration_not_a_result(status: int) -> None:
    with model_server(refuses(status)) as server:
        with pytest.raises(BackendMisconfigured, match=str(status)):
            await LiteLLMEndpoint(spec_of(server.url), None).complete(ASK)
        assert len(server.requests) == 1


async def test_a_parameter_the_server_refuses_is_configuration() -> None:
    def behave(stub: Stub, body: dict[str, Any]) -> None:
        stub.send_json(400, {"error": {"message": "no", "type": "invalid", "param": "temperature", "code": None}})

    with model_server(behave) as server, pytest.raises(BackendMisconfigured, match="temperature"):
        await LiteLLMEndpoint(spec_of(server.url), None).complete(ASK)


@pytest.mark.parametrize("key", [None, "", "  "])
async def test_a_missing_key_names_its_variable(monkeypatch: pytest.MonkeyPatch, key: str | None) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(BackendMisconfigured, match="OPENAI_API_KEY"):
        await LiteLLMEndpoint(spec_of("http://127.0.0.1:1/v1", model="openai/stub"), None).complete(ASK)


# -- usage and cost (M02) --


async def test_unknown_usage_and_cost_stay_unknown() -> None:
    with model_server(says("a", usage=None)) as server:
        reply = await LiteLLMEndpoint(spec_of(server.url), None).complete(ASK)
    assert (reply.prompt_tokens, reply.completion_tokens, reply.cost, reply.cost_source) == (
        None,
        None,
        None,
        "unknown",
    )


@pytest.mark.parametrize(
    ("fields", "usage", "cost", "source"),
    [
        ({}, USAGE, None, "unknown"),
        ({}, {**USAGE, "cost": 0.002}, 0.002, "provider"),
        ({}, {**USAGE, "cost": 0.0}, None, "unknown"),
        ({"input_price": 1.0, "output_price": 2.0}, USAGE, 20e-6, "override"),
        ({"input_price": 1.0, "output_price": 2.0}, None, None, "unknown"),
        ({"input_price": 0.0, "output_price": 0.0}, USAGE, 0.0, "override"),
        ({"model": "gpt-4o"}, USAGE, 75e-6, "price_table"),
        ({"model": "openai/vendor-model-20250930"}, USAGE, None, "unknown"),
    ],
)
async def test_cost_has_a_source(
    fields: dict[str, Any], usage: dict[str, Any] | None, cost: float | None, source: str
) -> None:
    with model_server(says("a", usage=usage)) as server:
        reply = await LiteLLMEndpoint(spec_of(server.url, **fields), None, api_key="x").complete(ASK)
    assert (reply.cost, reply.cost_source) == (pytest.approx(cost) if cost is not None else None, source)
    assert reply.price_table == (f"litellm {litellm_version()}" if source == "price_table" else "")


def test_half_a_price_override_is_refused() -> None:
    with pytest.raises(BackendMisconfigured, match="input_price"):
        LiteLLMEndpoint(spec_of("http://127.0.0.1:1/v1", input_price=1.0), None)


# -- effective parameters (M04) --


async def test_a_dropped_temperature_is_visible_and_a_refused_one_is_an_error() -> None:
    kept = await LiteLLMEndpoint(BackendSpec(name="d", model="deepseek/deepseek-chat"), None).parameters(ASK)
    assert (kept["effective"]["temperature"], kept["dropped"]) == (0.0, [])
    dropped = await LiteLLMEndpoint(BackendSpec(name="k", model="moonshot/kimi-k2.5"), None).parameters(ASK)
    assert "temperature" not in dropped["effective"]
    assert dropped["dropped"] == ["temperature"]
    with pytest.raises(BackendMisconfigured, match="gpt-5"):
        await LiteLLMEndpoint(BackendSpec(name="g", model="gpt-5"), None).parameters(ASK)
    free = await LiteLLMEndpoint(BackendSpec(name="g", model="gpt-5", temperature=None), None).parameters(ASK)
    assert "temperature" not in free["effective"]


async def test_an_unknown_model_id_is_a_clear_error() -> None:
    with pytest.raises(BackendMisconfigured, match="vendor/none"):
        await LiteLLMEndpoint(BackendSpec(name="v", model="vendor/none"), None).parameters(ASK)


async def test_tools_on_a_model_without_tools_are_an_error() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    with pytest.raises(BackendMisconfigured, match="protocol text"):
        await LiteLLMEndpoint(BackendSpec(name="o", model="ollama/x"), None).parameters(
            ChatRequest(ASK.messages, tools=(tool,))
        )


async def test_what_is_sent_is_what_is_recorded() -> None:
    spec_extra = {"seed": 1, "extra_body": {"top_k": 3}}
    with model_server(says()) as server:
        endpoint = LiteLLMEndpoint(spec_of(server.url, extra=spec_extra, max_tokens=77), None)
        effective = (await endpoint.parameters(ASK))["effective"]
        await endpoint.complete(ASK)
        sent = server.requests[0]
    assert {"temperature": 0.0, "seed": 1, "top_k": 3, "max_tokens": 77}.items() <= sent.items()
    assert effective["temperature"] == sent["temperature"]
    assert effective["extra_body"] == {"top_k": 3}


READER = """
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
print("litellm" in sys.modules)
"""


def test_a_finished_run_imports_no_client(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path / 'l.sqlite'}")
    with model_server(says("kept")) as server:
        words = [sys.executable, "-c", READER, server.url, ledger.url]
        outputs = [subprocess.run(words, capture_output=True, text=True, check=True).stdout.split() for _ in range(2)]
        assert len(server.requests) == 1
    ledger.close()
    assert outputs == [["kept", "True"], ["kept", "False"]]


# -- limits and probe --


async def test_a_retry_that_the_rate_puts_beyond_the_deadline_is_neither_sent_nor_counted() -> None:
    with model_server(refuses(503)) as server:
        spec = spec_of(server.url, requests_per_minute=1, deadline_seconds=20)
        with pytest.raises(ProviderUnavailable) as error:
            await LiteLLMEndpoint(spec, None).complete(ASK)
        assert (error.value.attempts, len(server.requests)) == (1, 1)


def test_starts_are_spaced_by_requests_per_minute() -> None:
    gate = Gate(4, 60)
    waits_for = [gate.wait() for _ in range(4)]
    assert waits_for[0] == 0.0
    assert waits_for == sorted(waits_for)
    assert 2.5 < waits_for[3] <= 3.0
    assert [Gate(4, 0).wait() for _ in range(2)] == [0.0, 0.0]


async def test_probe_reports_what_a_backend_is() -> None:
    with model_server(says()) as server:
        report = await probe(spec_of(server.url))
        assert len(server.requests) == 1
    assert (report["reachable"], report["effective_temperature"], report["usage_known"]) == (True, 0.0, True)
    assert report["outcome"] == str(CallOutcome.OK)
    down = await probe(spec_of(server.url))
    assert (down["reachable"], down["endpoint"]) == (False, server.url)
    assert "check that the server runs" in down["detail"]
    assert (await probe(BackendSpec(name="o", model="offline/bm25")))["reachable"]
