"""A hard budget: the call that would exceed it is never sent, what is stored stays, and the same command goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import ModelServer, in_turn, model_server, refuses, says, waits

from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.budget import Budget, BudgetSpent, current, limited
from tasks_lib.models.chat import BackendMisconfigured, ChatModel, ChatRequest, Message, ProviderUnavailable
from tasks_lib.models.client import open_model
from tasks_lib.models.limits import Gate
from tasks_lib.models.transcripts import FAILED, KIND
from tasks_lib.protocol.records import CallContext
from tasks_lib.protocol.vocabulary import Audience
from tasks_lib.store.ledgers import Entry, Ledger, items

CONTEXT = CallContext(Audience.ROUTER, "routes")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(f"sqlite:///{tmp_path / 'l.sqlite'}", run="here")
    yield made
    made.close()


def model_of(server: ModelServer, ledger: Ledger, **fields: Any) -> ChatModel:
    spec = BackendSpec(**{"name": "stub", "model": "hosted_vllm/stub", "api_base": server.url, **fields})
    return open_model(spec, ledger)


def ask(text: str) -> ChatRequest:
    return ChatRequest((Message("user", text),), max_tokens=100)


async def test_calls_stop_at_the_limit_and_replays_are_free(ledger: Ledger) -> None:
    with model_server(says()) as server:
        model = model_of(server, ledger)
        with limited(3, 0.0):
            got = await asyncio.gather(*(model.chat(ask(str(n)), CONTEXT) for n in range(8)), return_exceptions=True)
            assert sum(isinstance(g, BudgetSpent) for g in got) == 5
            again = await asyncio.gather(*(model.chat(ask(str(n)), CONTEXT) for n in range(8)), return_exceptions=True)
        assert [isinstance(g, BudgetSpent) for g in again] == [isinstance(g, BudgetSpent) for g in got]
        assert (len(server.requests), ledger.count(KIND)) == (3, 3)
        with limited(5, 0.0):  # the next command, with a larger limit
            await asyncio.gather(*(model.chat(ask(str(n)), CONTEXT) for n in range(8)))
        assert (len(server.requests), ledger.count(KIND)) == (8, 8)
    assert "run the same command with a larger limit" in str(next(g for g in got if isinstance(g, BudgetSpent)))


async def test_money_stops_before_it_can_be_exceeded(ledger: Ledger) -> None:
    """10 tokens in, 5 out at 1,000 and 2,000 dollars a million: 0.02 a call; a call of one letter is booked with 0.2005."""
    with model_server(says()) as server:
        model = model_of(server, ledger, input_price=1000.0, output_price=2000.0)
        with limited(0, 0.25):
            for n in range(3):
                await model.chat(ask(str(n)), CONTEXT)
            assert current().cost == pytest.approx(0.06)
            with pytest.raises(BudgetSpent, match=r"--max-cost is 0.25 US dollars, 0.0600 are spent"):
                await model.chat(ask("3"), CONTEXT)
        assert len(server.requests) == 3


async def test_an_unknown_price_is_refused_under_a_cost_limit_before_anything_is_sent(ledger: Ledger) -> None:
    with model_server(says()) as server:
        with limited(0, 1.0), pytest.raises(BackendMisconfigured, match="the price of hosted_vllm/stub is unknown"):
            await model_of(server, ledger).chat(ask("q"), CONTEXT)
        assert server.requests == []


async def test_a_failed_call_counts_as_the_most_it_can_have_cost_and_its_requests_are_on_record(ledger: Ledger) -> None:
    with model_server(in_turn(refuses(503), refuses(503), refuses(503), refuses(503), says())) as server:
        model = model_of(server, ledger, input_price=1000.0, output_price=2000.0)
        with limited(0, 1.0):
            with pytest.raises(ProviderUnavailable):
                await model.chat(ask("q"), CONTEXT)
            assert current().cost == pytest.approx(0.2005)
            await model.chat(ask("q"), CONTEXT)
        sent = sum(meta["attempts"] for kind in (KIND, FAILED) for meta in ledger.metas(kind, "here"))
        assert sent == len(server.requests) == 5
    assert [meta["layer"] for meta in ledger.metas(FAILED)] == ["routes"]


async def test_only_requests_that_left_are_counted_however_a_call_ends(ledger: Ledger) -> None:
    """Nothing listens: none left. Refused as misconfigured, or cancelled in flight: one left."""

    def attempts() -> list[tuple[str, int]]:
        return sorted((entry.outcome, entry.meta["attempts"]) for entry in failures(ledger))

    with model_server(waits) as server:
        asking = asyncio.ensure_future(model_of(server, ledger).chat(ask("cancelled"), CONTEXT))
        assert await asyncio.to_thread(server.arrived.wait, 60)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.sleep(0)
        assert attempts() == [("provider_unavailable", 1)]
        server.behave = refuses(404)
        with pytest.raises(BackendMisconfigured):
            await model_of(server, ledger).chat(ask("no such model"), CONTEXT)
        assert attempts() == [("bad_request", 1), ("provider_unavailable", 1)]
        assert len(server.requests) == 2
    with pytest.raises(ProviderUnavailable, match="in 3 attempt"):
        await model_of(server, ledger).chat(ask("nobody there"), CONTEXT)
    assert attempts() == [("bad_request", 1), ("provider_unavailable", 0), ("provider_unavailable", 1)]


@pytest.mark.parametrize("model", ["hosted_vllm/stub", "openai/stub", "anthropic/stub"])
async def test_a_call_given_up_before_its_request_left_counts_none(ledger: Ledger, model: str) -> None:
    """The deadline has passed before a request could leave: none is counted, but where litellm brings its own connection."""
    with model_server(says()) as server:
        spec = BackendSpec(name="stub", model=model, api_base=server.url, deadline_seconds=0.001)
        with pytest.raises(ProviderUnavailable, match="timeout"):
            await open_model(spec, ledger, api_key="x").chat(ask("late"), CONTEXT)
        counted = [meta["attempts"] for meta in ledger.metas(FAILED)]
        assert counted == [0] or (model.startswith("anthropic") and counted == [1])
        assert server.requests == []


def failures(ledger: Ledger) -> list[Entry]:
    with ledger.engine.connect() as connection:
        keys = [row.key for row in connection.execute(items.select().where(items.c.kind == FAILED))]
    return list(ledger.get_many(keys).values())


def test_the_budget_around_holds_where_none_is_set() -> None:
    with limited(7, 0.0):
        with limited(0, 0.0):
            assert current().max_calls == 7
        with limited(1, 0.0):
            assert current().max_calls == 1
        assert current().max_calls == 7
    assert current().max_calls == 0
    assert Budget(2).max_cost == 0.0


def test_starts_are_spaced_by_tokens_a_minute_and_corrected() -> None:
    gate = Gate(4, 0, 60)  # a token a second
    assert gate.wait(10) == 0.0
    assert 9.5 < gate.wait(1) <= 10.0
    gate.correct(20)
    assert 30.5 < gate.wait(1) <= 31.0
