"""Cost and tokens of a run: unknown is counted, never zero (known fault M02), and what was really sent (M04), from calls to a
real loopback server; the items each cell rests on, against a plain walk over the rows of its layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import SmallRun
from servers import Stub, in_turn, model_server, says

from flows import counts
from flows.counts import call_keys, cost_of, effective_of, lineages, shared_counts
from flows.usage import told_of
from flows.wanted import recorded_chains
from tasks_lib.models.backends import BackendSpec, offline_backends
from tasks_lib.models.chat import ChatRequest, Message
from tasks_lib.models.client import open_model
from tasks_lib.models.transcripts import KIND
from tasks_lib.protocol.records import CallContext, Cell
from tasks_lib.protocol.vocabulary import Audience, Interaction, Planner
from tasks_lib.scoring.cells import parse
from tasks_lib.scoring.layers import cell_keys
from tasks_lib.scoring.tables import read_rows
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.schemas import TABLES
from tasks_lib.store.settings import settings

Row = Mapping[str, Any]

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
        model, keys = open_model(spec, ledger, "x"), []
        for n in range(3):
            reply = await model.chat(ChatRequest((Message("user", str(n)),)), CallContext(Audience.ROUTER, "routes"))
            keys.append(reply.call_key)
    found = cost_of(told_of(ledger, keys), len(keys))
    lost = cost_of(told_of(ledger, [*keys, "f" * 64]), len(keys) + 1)
    assert len(ledger.metas(KIND)) == 3
    ledger.close()
    assert found.pop("known_usd") == pytest.approx(0.002)
    assert found == {
        "unknown_calls": 2,
        "tokens": 77,
        "unknown_token_calls": 1,
        "cached_tokens": 8,
        "unknown_cached_calls": 2,
    }
    assert [lost[f"unknown_{n}"] for n in ("calls", "token_calls", "cached_calls")] == [3, 2, 3]


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
    found = effective_of(ledger, {name: told_of(ledger, keys) for name, keys in calls.items()})
    ledger.close()
    assert sent == [None, 0.0]
    assert found == {
        "moonshot": {"temperature": None, "dropped": ["temperature"]},
        "deepseek": {"temperature": 0.0, "dropped": []},
    }


def walked(
    cell: Cell,
    routes: Iterable[Row],
    asks: Iterable[Row],
    releases: Iterable[Row],
    plans: Iterable[Row],
    contributions: Iterable[Row],
) -> tuple[set[str], set[str]]:
    """(model-call keys, execution keys) one cell rests on, row by row of its layers."""
    calls: set[str] = set()
    executions: set[str] = set()
    once = cell.interaction is Interaction.ONCE
    released = {(r["task_id"], r["branch_id"]) for r in releases if r["released"]} if once else set()
    if once:
        for row in asks:
            calls.update(row["calls"])
        calls |= {row["judge_call"] for row in releases if row["judge_call"]}
    for row in [*routes, *(p for p in plans if p["planner"] == cell.planner == Planner.LLM)]:
        if row["branch_id"] == "" or (row["task_id"], row["branch_id"]) in released:
            calls.update(row["calls"])
    for row in contributions:
        clarified = (row["task_id"], row["branch_id"]) in released
        point = (row["planner"], row["query_mode"], row["state"] == "clarified")
        if point == (cell.planner, cell.query_mode, clarified):
            calls.update(row["calls"])
            executions.update(row["executions"])
            executions |= {row["execution"]} - {""}
    return calls, executions


def test_items_of_every_cell_are_those_of_a_plain_walk(small_run: SmallRun) -> None:
    record, store = small_run.record, ArtifactStore(settings().resolved_store_url)
    chains, cells = recorded_chains(record), [parse(c) for c in record["cell_keys"]]
    ((_, found),) = lineages(cells, chains)
    rows = cache(lambda name, key: read_rows(store, TABLES[name], key))
    apart = [0, 0]
    called: set[str] = set()
    for cell in cells:
        chain = chains[(cell.backend, cell.router)]
        own = (chain.routes, chain.clarified, chain.asks, chain.releases, chain.plans)
        names = ("routes", "routes", "asks", "releases", "plans")
        routes, again, asks, releases, plans = map(rows, names, own)
        local = rows("contributions", chain.contributions[cell.data_agent])
        expected = walked(cell, [*routes, *again], asks, releases, plans, local)
        assert cell_keys(found, cell) == expected, cell.cell_id
        apart = [n + len(own) for n, own in zip(apart, expected, strict=True)]
        called |= expected[0]
    assert apart == [record["model_calls_unshared"], record["sql_executions_unshared"]]
    assert len(called) == record["model_calls"] - record["model_calls_study_only"]
    assert call_keys(cells, chains) == called == set(found.calls)
    some = [c for c in cells if c.interaction is Interaction.NEVER and c.planner is Planner.ORACLE][:2]
    assert call_keys(some, chains) == set().union(*(cell_keys(found, c)[0] for c in some))


def test_what_was_counted_over_the_same_layers_is_not_counted_again(
    small_run: SmallRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = small_run.record
    chains, cells = recorded_chains(record), [parse(c) for c in record["cell_keys"]]
    monkeypatch.setattr(counts, "lineages", lambda *_: pytest.fail("counted again"))
    found = shared_counts(small_run.id, cells, chains, "nobody")
    assert (found["model_calls_made"], found["sql_executions_made"]) == (0, 0)
    for name in ("model_calls_unshared", "sql_executions", "sql_executions_unshared", "effective", "usage"):
        assert found[name] == record[name], name
    with pytest.raises(pytest.fail.Exception, match="counted again"):
        shared_counts(small_run.id, cells[:2], chains, "nobody")
