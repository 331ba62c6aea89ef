"""Cost and tokens of a run: unknown is counted, never zero (known fault M02), and what was really sent (M04), from calls to a
real loopback server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from servers import Stub, in_turn, model_server, says

from flows.counts import cost_of, effective_of
from tasks_lib.models.backends import BackendSpec, offline_backends
from tasks_lib.models.chat import ChatRequest, Message
from tasks_lib.models.client import open_model
from tasks_lib.models.transcripts import KIND
from tasks_lib.protocol.records import CallContext
from tasks_lib.protocol.vocabulary import Audience
from tasks_lib.store.ledgers import Ledger

CALLS: list[dict[str, Any] | None] = [
    {"prompt_tokens": 10, "completion_tokens": 5, "cost": 0.002, "prompt_tokens_details": {"cached_tokens": 8}},
    None,
    {"prompt_tokens": 38, "completion_tokens": 24, "cost": 0.0},
]


async def test_m02_unknown_costs_and_tokens_are_counted_not_summed_as_zero(tmp_path: Path) -> None:
    def answer(usage: dict[str, Any] | None) -> Any:
        total = (
            None if usage is None else {**usage, "total_tokens": usage["prompt_tokens"] + usage["completion_tokens"]}
        )

        def behave(stub: Stub, body: dict[str, Any]) -> None:
            stub.answer("fine", usage=total)

        return behave

    ledger = Ledger(f"sqlite:///{tmp_path / 'l.sqlite'}")
    with model_server(in_turn(*map(answer, CALLS))) as server:
        spec = BackendSpec(name="v", model="openai/vendor-model-20250930", api_base=server.url)
        model = open_model(spec, ledger, "x")
        for n in range(3):
            await model.chat(ChatRequest((Message("user", str(n)),)), CallContext(Audience.ROUTER, "routes"))
    found = cost_of(ledger.metas(KIND))
    ledger.close()
    assert found.pop("known_usd") == pytest.approx(0.002)
    assert found == {
        "unknown_calls": 2,
        "tokens": 77,
        "unknown_token_calls": 1,
        "cached_tokens": 8,
        "unknown_cached_calls": 2,
    }


async def test_m04_a_dropped_temperature_is_told_with_the_run(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path / 'l.sqlite'}")
    calls: dict[str, list[str]] = {}
    with model_server(says()) as server:
        for model in ("moonshot/kimi-k2.5", "deepseek/deepseek-chat"):
            spec = BackendSpec(name=model.split("/")[0], model=model, temperature=0.0, api_base=server.url)
            reply = await open_model(spec, ledger, "x").chat(
                ChatRequest((Message("user", "q"),)), CallContext(Audience.ROUTER, "routes")
            )
            calls[spec.name] = [reply.call_key]
        offline = offline_backends()[0]
        calls[offline.name] = ["0" * 64]  # a call that nobody made tells nothing
        sent = [body.get("temperature") for body in server.requests]
    keys = [key for some in calls.values() for key in some]
    found = effective_of(ledger, calls, ledger.meta_of(keys))
    ledger.close()
    assert sent == [None, 0.0]
    assert found == {
        "moonshot": {"temperature": None, "dropped": ["temperature"]},
        "deepseek": {"temperature": 0.0, "dropped": []},
    }
