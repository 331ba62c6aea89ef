"""What a ReAct episode costs beside the model: 10 turns against an instant in-process model, parsing, environment (its search
without MiniLM) and ledger writes to SQLite included, and inspect_ai's agent loop over its mock model on the same machine.

Run by name: `pytest -m bench tests/bench/test_bench_episode.py -s`. CPU time of the process, because the machine may be shared.
inspect_ai is no part of the project: `python -m venv V && V/bin/pip install inspect_ai`, then DSABENCH_INSPECT=V/bin/python gives
the ratio; without it ours is printed alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from catalog_support import ferries, publish
from routing_support import action, native, plan

from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.chat import ChatRequest
from tasks_lib.models.client import LedgeredModel
from tasks_lib.models.transcripts import Completion
from tasks_lib.protocol.records import PublicTask
from tasks_lib.protocol.vocabulary import CallOutcome, Corpus, Router
from tasks_lib.routeenv.reranker import SEMANTIC
from tasks_lib.routeenv.search import Catalog
from tasks_lib.routing.routers import route
from tasks_lib.store.ledgers import Ledger

DATABASES, TURNS, EPISODES, LIMIT_MS = 12, 10, 60, 30.0


def looks(number: int, ids: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """Nine actions, with words that no earlier episode searched for."""
    return [
        ("search_catalog", {"query": f"ferries of line {number}, their harbours and crossings"}),
        *(("inspect_database", {"database_id": name}) for name in ids[:6]),
        ("search_capability", {"query": f"count crossings of line {number}"}),
        ("check_coverage", {"database_id": ids[0]}),
    ]


def opened(folder: Path) -> Catalog:
    """A small synthetic catalog, or that of the release in DSABENCH_RELEASE."""
    if os.environ.get("DSABENCH_RELEASE"):
        return Catalog.load(Path(os.environ["DSABENCH_RELEASE"]) / "public" / "catalog")
    draw = random.Random(1)
    ports = ["".join(draw.choices("abdeiklmnorstu", k=7)).capitalize() for _ in range(DATABASES)]
    return Catalog.load(publish([ferries(folder, f"lines_{i}", port=p, rows=12) for i, p in enumerate(ports)], folder))


class Instant:
    """An endpoint that answers at once: the looks of `steps`, then the route."""

    def __init__(self, protocol: str, ids: list[str]) -> None:
        self.native = protocol == "native"
        self.ids = ids
        self.steps: list[tuple[str, dict[str, Any]]] = []

    async def parameters(self, request: ChatRequest) -> Mapping[str, Any]:
        return {"temperature": 0.0}

    def price(self) -> tuple[float, float] | None:
        return 0.0, 0.0

    async def complete(self, request: ChatRequest) -> Completion:
        turn = sum(message.role == "assistant" for message in request.messages)
        name, arguments = self.steps[turn] if turn < len(self.steps) else ("submit_route", plan(self.ids[0]))
        if self.native:
            return Completion(CallOutcome.OK, tool_calls=native((name, json.dumps(arguments))).tool_calls)
        if name == "submit_route":
            return Completion(CallOutcome.OK, f"<FINAL>{json.dumps(arguments)}</FINAL>")
        return Completion(CallOutcome.OK, action(name, **arguments))


def inspect_ms() -> float | None:
    """CPU ms of one inspect_ai episode of as many turns, None where it is not at hand."""
    python = os.environ.get("DSABENCH_INSPECT")
    if not python:
        return None
    script = Path(__file__).with_name("inspect_episode.py")
    said = subprocess.run(
        [python, str(script), str(TURNS), str(EPISODES)], check=True, capture_output=True, text=True, timeout=600
    )
    return float(said.stdout.split()[-1])


@pytest.mark.bench
@pytest.mark.parametrize("protocol", ["text", "native"])
def test_ten_turns_cost_at_most_thirty_cpu_ms(protocol: str, tmp_path: Path) -> None:
    catalog = opened(tmp_path)
    catalog.semantic = lambda texts: np.zeros((len(texts), len(catalog.ids), len(SEMANTIC)))  # type: ignore[method-assign]
    spec = BackendSpec(name="instant", model="openai/instant", protocol=protocol, context=1_000_000)
    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.db")
    ids = catalog.ids[:66]
    endpoint = Instant(protocol, ids)
    model = LedgeredModel(spec, ledger, endpoint)

    async def episode(number: int) -> float:
        one = PublicTask(f"t{number}", Corpus.SPIDER, f"Which ferry of line {number} is late?", tuple(ids))
        endpoint.steps = looks(number, ids)
        begun = time.process_time()
        got = await route(Router.REACT, one, catalog, model)
        spent = time.process_time() - begun
        assert (got.valid, got.turns, got.malformed_turns) == (True, TURNS, 0)
        return 1000 * spent

    async def all_of_them() -> list[float]:
        return [await episode(number) for number in range(EPISODES)]

    measured = asyncio.run(all_of_them())[5:]
    ledger.close()
    ours, other = statistics.median(measured), inspect_ms()
    beside = (
        "inspect_ai is not at hand" if other is None else f"inspect_ai {other:.1f} ms, ours / theirs {ours / other:.2f}"
    )
    print(f"\n{protocol}: {ours:.1f} CPU ms for {TURNS} turns (median of {len(measured)}); {beside}")
    assert ours <= LIMIT_MS
