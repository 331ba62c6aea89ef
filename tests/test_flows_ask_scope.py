"""What the settings `ask_scope` and `planner_language` change and what they leave alone, and the transcripts of clarified routes,
on the layers of a real run. Layers are made in this process; Prefect's part of them is tested elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from conftest import SmallRun

from flows import layers, runs
from flows.cell import score_cell
from flows.wanted import ChainKeys, RunSpec, cell_key, chain_keys, wanted_tasks
from tasks_lib.evaluation.inputs import load
from tasks_lib.protocol.vocabulary import Behavior, Router
from tasks_lib.scoring.cells import parse
from tasks_lib.scoring.verify import check_invariants
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.jobs import Job, perform
from tasks_lib.store.schemas import ASKS, EPISODES, METRICS, PLANS, RELEASES, ROUTE_TURNS, ROUTES, TABLES
from tasks_lib.store.settings import settings

pytestmark = pytest.mark.timeout(600)


def store() -> ArtifactStore:
    return ArtifactStore(settings().resolved_store_url)


@pytest.fixture(scope="module")
def in_this_process(small_run: SmallRun) -> Iterator[RunSpec]:
    """The small run's spec; layers that are wanted are made here and now."""

    async def ensure(stage: Any, job: Job, label: str, here: bool) -> str:
        if not store().ok(TABLES[job.table], job.key):
            await perform(job)
        return job.key

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "ensure", ensure)
        yield runs.load(small_run.id)[0]


def changed(run: RunSpec, **settings: str) -> tuple[RunSpec, ChainKeys, ChainKeys]:
    """The run with other settings, and the keys of its Direct chain before and after."""
    other = RunSpec.model_validate({**{n: getattr(run, n) for n in RunSpec.model_fields}, **settings})
    return other, *(chain_keys(r, run.backends[0], Router.DIRECT) for r in (run, other))


def test_a_setting_is_in_the_keys_it_touches_and_in_the_id_only_where_it_is_chosen(small_run: SmallRun) -> None:
    run = runs.load(small_run.id)[0]
    assert changed(run, ask_scope="interactive", planner_language="en")[0].run_id == small_run.id
    for settings_, touched in (
        ({"ask_scope": "all"}, {"asks", "releases", "clarified", "plans"}),
        ({"planner_language": "zh"}, {"plans"}),
    ):
        other, before, after = changed(run, **settings_)
        assert other.run_id != small_run.id
        assert {n for n, key in before.inputs().items() if after.inputs()[n] != key} == touched
        assert not set(before.contributions.values()) & set(after.contributions.values())


def test_with_scope_all_needless_questions_are_counted_and_nothing_else_moves(in_this_process: RunSpec) -> None:
    run, _, keys = changed(in_this_process, ask_scope="all")
    backend, contracts = run.backends[0], load(run.release).contracts
    ids = wanted_tasks(run)
    ordinary = {t for t in ids if contracts[t].behavior is not Behavior.INTERACTIVE}
    asyncio.run(layers.ensure_chain(run, backend, Router.DIRECT, "test"))
    asks = store().read(ASKS, keys.asks)
    assert set(asks["task_id"]) == set(ids)
    assert not set(store().read(RELEASES, keys.releases)["task_id"]) & ordinary
    assert not set(store().read(ROUTES, keys.clarified)["task_id"]) & ordinary
    frames = []
    for interaction in ("never", "once"):
        cell = parse(f"{backend.name}.direct.text_to_sql.llm.{interaction}.router")
        runs_ = {scope: changed(in_this_process, ask_scope=scope) for scope in ("interactive", "all")}
        tables = {}
        for scope, (spec, *_, chain) in runs_.items():
            key = cell_key(spec, cell, chain)
            if not store().ok(EPISODES, key):
                score_cell(spec, cell)
            tables[scope] = (store().read(EPISODES, key), store().read(METRICS, key))
        assert tables["all"][0].drop("asked").equals(tables["interactive"][0].drop("asked"))
        rate = pl.col("metric") == "Needless-Ask-Rate"
        assert tables["all"][1].filter(~rate).equals(tables["interactive"][1].filter(~rate))
        asked = asks.filter(pl.col("ask") & pl.col("task_id").is_in(ordinary)).height if interaction == "once" else 0
        whole = rate & (pl.col("slice") == "all")
        wanted = (asked, len(ordinary), asked / len(ordinary))
        assert tables["all"][1].filter(whole).select("numerator", "denominator", "value").row(0) == wanted
        assert tables["interactive"][1].filter(whole).select("numerator", "denominator").row(0) == (0.0, 0.0)
        frames.append(tables["all"][0])
    assert check_invariants(pl.concat(frames)) == []


def test_a_planner_told_in_chinese_makes_its_own_calls_and_the_same_plans_of_an_offline_policy(
    in_this_process: RunSpec,
) -> None:
    run, before, after = changed(in_this_process, planner_language="zh")
    asyncio.run(layers.ensure_chain(run, run.backends[0], Router.DIRECT, "test"))
    plans = [store().read(PLANS, key).filter(pl.col("planner") == "llm") for key in (before.plans, after.plans)]
    assert plans[0].height
    assert plans[0].drop("calls").equals(plans[1].drop("calls"))
    assert not set(plans[0]["calls"].explode()) & set(plans[1]["calls"].explode())


def test_every_turn_of_initial_and_clarified_routes_is_a_row(small_run: SmallRun) -> None:
    assert set(small_run.record["turns"]) == set(small_run.record["chains"])
    clarified = 0
    for chain, turns in small_run.record["turns"].items():
        for layer in ("routes", "clarified"):
            routes = store().read(ROUTES, small_run.record["chains"][chain][layer])
            rows = store().read(ROUTE_TURNS, turns[layer])
            found = {
                (task, branch): part.sort("turn")["call_key"].to_list()
                for (task, branch), part in rows.group_by("task_id", "branch_id")
            }
            assert found == {(r["task_id"], r["branch_id"]): r["calls"] for r in routes.iter_rows(named=True)}
            clarified += routes.height if layer == "clarified" else 0
    assert clarified
