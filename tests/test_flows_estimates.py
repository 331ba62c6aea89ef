"""What a dry run expects: tokens and cost from measured prompts, unknown where nothing was measured (known fault M02)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Said
from servers import model_server, says

from flows.estimates import Size, expected, layer_size, price_of
from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.chat import ChatRequest, Message
from tasks_lib.models.client import open_model
from tasks_lib.protocol.records import CallContext
from tasks_lib.protocol.vocabulary import Audience
from tasks_lib.store.ledgers import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(f"sqlite:///{tmp_path / 'l.sqlite'}")
    yield made
    made.close()


def test_tokens_and_cost_are_of_what_was_measured_and_the_rest_is_named() -> None:
    size = Size(3.0, 100.0, 10.0, "a sample")
    found = expected({"react": (4, size), "plans": (5, None), "asks": (0, None)}, (1.0, 2.0))
    assert (found["calls"], found["prompt_tokens"], found["completion_tokens"]) == (17, 1200, 120)
    assert found["cost_usd"] == pytest.approx(0.0014)
    assert (found["unmeasured"], found["basis"]) == (["plans"], {"a sample": ["react"]})
    assert expected({"react": (4, size)}, None)["cost_usd"] is None


async def test_a_backends_own_counts_come_before_the_length_of_others_prompts(ledger: Ledger) -> None:
    assert layer_size(ledger, "plans", "stub") is None
    with model_server(says("x" * 40)) as server:
        spec = BackendSpec(name="stub", model="hosted_vllm/stub", api_base=server.url)
        model = open_model(spec, ledger)
        await model.chat(ChatRequest((Message("user", "y" * 400),)), CallContext(Audience.EXECUTOR, "plans"))
    assert layer_size(ledger, "plans", "stub") == Size(1.0, 10.0, 5.0, "1 stored calls of stub")
    assert layer_size(ledger, "plans", "new") == Size(1.0, 100.0, 10.0, "1 stored calls of other backends")
    assert layer_size(ledger, "asks", "stub") is None


def test_a_price_is_the_specs_or_the_tables_or_unknown() -> None:
    assert price_of(BackendSpec(name="o", model="offline/bm25")) == (0.0, 0.0)
    assert price_of(BackendSpec(name="g", model="hosted_vllm/x")) is None
    assert price_of(BackendSpec(name="g", model="hosted_vllm/x", input_price=1.0, output_price=2.0)) == (1.0, 2.0)
    known = price_of(BackendSpec(name="g", model="gpt-4o"))
    assert known is not None
    assert known[1] > known[0] > 0


@pytest.mark.timeout(300)
def test_a_dry_run_tells_tokens_and_cost_of_each_backend(dsabench: Callable[..., Said], embedded: Path) -> None:
    backends = [
        {
            "name": f"never-{protocol}",
            "model": "hosted_vllm/x",
            "protocol": protocol,
            "input_price": 1.0,
            "output_price": 2.0,
        }
        for protocol in ("text", "native")
    ]
    named = [word for backend in backends for word in ("--backend", json.dumps(backend))]
    said = dsabench("run", "--release", str(embedded), "--tasks", "3", *named, "--dry-run", "--json")
    assert said.code == 0, said
    for backend in backends:
        plan = said.json["backends"][backend["name"]]
        found = plan["expected"]
        assert 0 < found["calls"] <= plan["model_calls_at_most"]
        assert found["prompt_tokens"] > found["completion_tokens"] > 0
        assert found["cost_usd"] == pytest.approx(
            (found["prompt_tokens"] + 2 * found["completion_tokens"]) / 1e6, abs=1e-4
        )
        assert any("offline policy over 3 tasks" in basis for basis in found["basis"])
