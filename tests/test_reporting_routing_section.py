"""The routing study's part of the page shows its tables' numbers, says what is unknown, and is left out when there is none."""

from __future__ import annotations

import dataclasses
from typing import Any

import polars as pl
import pytest
from reporting_support import MODEL, POLICY, frame, run_tables, targets
from test_reporting_page import Page

from tasks_lib.protocol.vocabulary import Router
from tasks_lib.reporting.page import RunTables, page_html
from tasks_lib.reporting.routing_section import cache_share, views
from tasks_lib.scoring.metrics import ROUTING
from tasks_lib.scoring.routing_probes import PROBES, probe_rows
from tasks_lib.scoring.routing_publish import cut_rows, with_mean
from tasks_lib.scoring.routing_usage import QUANTITIES
from tasks_lib.store.schemas import (
    ROUTING_EPISODES,
    ROUTING_EVENTS,
    ROUTING_PROBES,
    ROUTING_TABLE,
    ROUTING_TRIALS,
    ROUTING_USAGE,
)

DRAWS = 50
PAIRS = [(b, r) for b in (POLICY, MODEL) for r in (str(Router.RANDOM), str(Router.HERMES))]


def episode(backend: str, router: str, target: Any) -> dict[str, Any]:
    s = backend == POLICY or target.task_id < "t12"
    rate = 1.0 if s else 0.0
    return {
        **{"backend": backend, "router": router, "task_id": target.task_id, "branch_id": target.branch_id},
        **{"corpus": str(target.corpus), "behavior": str(target.behavior), "difficulty": str(target.difficulty)},
        **{"weight": target.weight, "list_size": target.list_size, "valid": True, "s": s, "label_ok": s},
        **{
            "edges_ok": s,
            "g": s,
            "precision": rate,
            "recall": rate,
            "f1": rate,
            "over_rate": 0.0,
            "under_rate": 1 - rate,
        },
        **{"turns": 1, "malformed_turns": 0, "failure_stage": "none", "failure_flag": ""},
    }


def quantity(backend: str, router: str, name: str) -> dict[str, Any]:
    unknown = name == "cached_tokens"
    total = {"prompt_tokens": 4800, "turns": 72}.get(name, 24)
    return {
        **{"backend": backend, "router": router, "quantity": name, "routes": 24, "total": 0 if unknown else total},
        **{
            "known_turns": 0 if unknown else 72,
            "unknown_turns": 72 if unknown else 0,
            "known_routes": 0 if unknown else 24,
        },
        **dict.fromkeys(("mean", "median", "p90", "most"), None if unknown else total / 24),
    }


@pytest.fixture(scope="module")
def run() -> RunTables:
    whole = targets()
    episodes = frame(ROUTING_EPISODES, [episode(b, r, t) for b, r in PAIRS for t in whole])
    routed = [{"task_id": t.task_id, "branch_id": "", "selected": list(t.databases)} for t in whole]
    turns = [
        {"task_id": t.task_id, "branch_id": "", "turn": n, "kind": kind, "action": "inspect_table", "arguments": "{}"}
        | {"observed": list(t.databases), "selected": list(t.databases)}
        for t in whole
        for n, kind in ((1, "action"), (2, "final"))
        if t.branch_id != "b1"
    ]
    probes = [row for b, r in PAIRS for row in probe_rows(b, r, whole, routed, turns if r == "hermes" else [])]
    rows = cut_rows(with_mean(episodes), whole, ROUTING, DRAWS, 7)
    rows += cut_rows(frame(ROUTING_PROBES, probes), whole, PROBES, DRAWS, 7)
    event = {"backend": MODEL, "router": "hermes", "event": "recovery", "kind": "kimi", "n": 3, "of": 72}
    moved = {"backend": MODEL, "router": "hermes", "metric": "RA-Set", "trials": 3, "published": 0.5, "low": 0.25}
    moved |= {"high": 0.75, "deviation": 0.25, "tasks": 24, "set_changed": 5, "graph_changed": 7}
    study = {
        ROUTING_TABLE.name: frame(ROUTING_TABLE, rows),
        ROUTING_USAGE.name: frame(ROUTING_USAGE, [quantity(b, r, q) for b, r in PAIRS for q in QUANTITIES]),
        ROUTING_EVENTS.name: frame(ROUTING_EVENTS, [event, {**event, "event": "action", "kind": "inspect_table"}]),
        ROUTING_TRIALS.name: frame(ROUTING_TRIALS, [moved]),
    }
    return dataclasses.replace(run_tables(), study=study)


@pytest.fixture(scope="module")
def page(run: RunTables) -> Page:
    return Page(page_html(run))


def test_means_and_cuts_are_the_table_s(run: RunTables, page: Page) -> None:
    # 12 of the 24 tasks are right with one backend, all with the other.
    assert page.row("routing-means", "hermes")["RA-Set"].startswith("75.00 [")
    table = run.study[ROUTING_TABLE.name]
    cuts = table.filter((pl.col("slice").is_in(["corpus", "behavior", "size"])) & (pl.col("backend") != "(mean)"))
    assert len(page.rows("routing-cuts")) == cuts.select("backend", "router", "slice", "value_of").unique().height
    (bird,) = [r for r in page.rows("routing-cuts", MODEL, "hermes") if r["Cut"] == "corpus: bird"]
    (value,) = cuts.filter(
        (pl.col("value_of") == "bird")
        & (pl.col("backend") == MODEL)
        & (pl.col("router") == "hermes")
        & (pl.col("metric") == "RA-Set")
    ).to_dicts()
    low, high = (f"{100 * value[name]:.2f}" for name in ("low", "high"))
    assert (bird["Tasks"], bird["RA-Set"]) == ("8", f"50.00 [{low}, {high}]")


def test_first_looks_usage_events_and_repeats_are_the_tables_s(page: Page) -> None:
    hermes, random = page.row("routing-probes", MODEL, "hermes"), page.row("routing-probes", MODEL, "random")
    assert hermes["Episodes with a first probe"] == "24"
    assert (random["Episodes with a first probe"], random["First probe right"]) == ("0", "–")
    used = page.row("routing-usage", MODEL, "hermes")
    assert (used["Model calls"], used["turns"], used["prompt tokens"]) == (
        "72",
        "3.0 3.0 / 3.0 / 3",
        "200.0 200.0 / 200.0 / 200",
    )
    assert (used["cached tokens"], used["Prompt read from cache, %"]) == ("unknown 72 turns", "–")
    (event,) = page.rows("routing-events")
    assert (event["Event"], event["Kind"], event["Count"], event["Of turns or routes"]) == (
        "recovery",
        "kimi",
        "3",
        "72",
    )
    repeat = page.row("routing-trials", MODEL, "hermes")
    assert [repeat[c] for c in ("Published", "Min", "Max", "Standard deviation")] == [
        "50.00",
        "25.00",
        "75.00",
        "25.00",
    ]
    assert (repeat["Set changed"], repeat["Graph changed"]) == ("5", "7")
    assert page.row("glossary", "First probe")


def test_the_share_read_from_a_cache_needs_both_numbers_of_the_same_turns() -> None:
    prompt = {"total": 200, "known_turns": 4}
    assert cache_share(prompt, {"total": 50, "known_turns": 4}) == 0.25
    assert cache_share(prompt, {"total": 50, "known_turns": 3}) is None
    assert cache_share({"total": 0, "known_turns": 0}, {"total": 0, "known_turns": 0}) is None


def test_without_a_study_the_views_are_left_out() -> None:
    assert views(run_tables()) == ()
