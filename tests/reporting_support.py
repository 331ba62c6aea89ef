"""A small run for report tests: 24 tasks of all behaviors and three corpora, two backends × 72 cells, scored by the real functions."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import polars as pl

from tasks_lib.protocol.records import Branch, Cell, Contract
from tasks_lib.protocol.vocabulary import (
    Behavior,
    Corpus,
    DataAgent,
    Difficulty,
    FailureStage,
    Interaction,
    QueryMode,
    Router,
)
from tasks_lib.reporting.page import RunTables
from tasks_lib.reporting.run_tables import counted
from tasks_lib.scoring.analyses import analysis_rows
from tasks_lib.scoring.cells import ROUTING_STUDY_ROUTERS, grid
from tasks_lib.scoring.contrasts import cell_intervals, contrast_intervals, routing_intervals
from tasks_lib.scoring.metrics import CELL_METRICS, ROUTING, measure
from tasks_lib.scoring.publish import frame_of
from tasks_lib.scoring.spreads import ranges
from tasks_lib.scoring.targets import Target, episodes_of
from tasks_lib.store.artifacts import conform
from tasks_lib.store.schemas import ANALYSES, AUDIT, EPISODES, INTERVALS, METRICS, ROUTING_EPISODES, Table

POLICY, MODEL = "offline-hybrid", "model-x"
DRAWS = 100
ROUTING_STAGES = (FailureStage.RETRIEVAL_MISS, FailureStage.UNDER_SELECTION, FailureStage.OVER_SELECTION)
STRENGTH = {Router.DIRECT: 0.4, Router.REACT: 0.6, Router.HERMES: 0.8}


def _contract(number: int, corpus: Corpus, behavior: Behavior) -> Contract:
    databases = ("a",) if behavior is Behavior.SINGLE else ("a", "b")
    units = tuple(f"u_{d}" for d in databases)
    edges = (("a", "b"),) if behavior is Behavior.SEQUENTIAL else ()
    branches = ()
    if behavior is Behavior.INTERACTIVE:
        branches = tuple(Branch(f"b{i}", u, f"answer {i}", f"value {i}") for i, u in enumerate(units))
    return Contract(f"t{number:02}", corpus, behavior, Difficulty.EASY, units, databases, edges, (), branches)


@lru_cache(maxsize=1)
def targets() -> tuple[Target, ...]:
    corpora = (Corpus.SPIDER, Corpus.SPIDER, Corpus.BIRD)
    return episodes_of(_contract(i, corpora[i % 3], list(Behavior)[i % 5]) for i in range(24))


def frame(table: Table, rows: list[dict[str, Any]]) -> pl.DataFrame:
    found = pl.from_arrow(conform(table, rows))
    assert isinstance(found, pl.DataFrame)
    return found


def _episode(cell: Cell, t: Target, rng: random.Random) -> dict[str, Any]:
    interactive, once = t.behavior is Behavior.INTERACTIVE, cell.interaction is Interaction.ONCE
    asked = interactive and once
    blind = cell.backend == POLICY and cell.router is Router.DIRECT
    s = not blind and rng.random() < STRENGTH[cell.router] + 0.15 * asked
    g = s and rng.random() < 0.7
    good = {QueryMode.FUSED: 0.3, QueryMode.ROUTER: 0.5, QueryMode.PRIVILEGED: 0.8}[cell.query_mode]
    correct = sum(rng.random() < good for _ in t.units) if s else 0
    done = correct == len(t.units)
    stage = FailureStage.NONE
    if not s:
        stage = FailureStage.BRANCH_ERROR if interactive else rng.choice(ROUTING_STAGES)
    elif not g:
        stage = FailureStage.GRAPH_ERROR
    elif not done:
        stage = FailureStage.SOURCE_EXECUTION_ERROR
    some = 1.0 if s else 0.5
    return {
        **{k: str(getattr(cell, k)) for k in ("cell_id", "backend", "router", "data_agent", "planner", "interaction")},
        "query_mode": str(cell.query_mode),
        "task_id": t.task_id,
        "branch_id": t.branch_id,
        "corpus": str(t.corpus),
        "behavior": str(t.behavior),
        "difficulty": str(t.difficulty),
        "weight": t.weight,
        "target_size": len(t.databases),
        "list_size": t.list_size,
        "required": len(t.units),
        "correct": correct,
        "ran": correct,
        **{"valid": True, "s": s, "label_ok": g, "edges_ok": g, "g": g, "t": done, "h": True, "bindings_ok": True},
        **{"precision": some, "recall": some, "f1": some, "over_rate": 1 - some, "under_rate": 1 - some},
        **{"asked": asked, "released": asked, "changed": asked and s, "initial_s": False},
        **{"planned": len(t.units) > 1, "plan_ok": True, "failure_stage": str(stage), "failure_flag": ""},
    }


def _routed(backend: str, router: Router, t: Target, rng: random.Random) -> dict[str, Any]:
    s = rng.random() < 0.5
    some = 1.0 if s else 0.5
    return {
        **{"backend": backend, "router": str(router), "task_id": t.task_id, "branch_id": t.branch_id},
        **{"corpus": str(t.corpus), "behavior": str(t.behavior), "difficulty": str(t.difficulty)},
        **{"weight": t.weight, "list_size": t.list_size, "valid": True, "s": s, "label_ok": s, "edges_ok": s, "g": s},
        **{"precision": some, "recall": some, "f1": some, "over_rate": 1 - some, "under_rate": 1 - some},
        **{"turns": 1, "malformed_turns": 0, "failure_stage": "none", "failure_flag": ""},
    }


def record(backends: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "run": "run-0a1b2c",
        "release": "release-small",
        "conditions": {"judge": "offline-hybrid", "evidence": "unit", "ask scope": "all", "planner language": "zh"},
        "status": "completed",
        "reason": "",
        "backends": backends,
        "model_calls": 1200,
        "model_calls_made": 300,
        "model_calls_unshared": 9800,
        "sql_executions": 640,
        "sql_executions_made": 640,
        "sql_executions_unshared": 5100,
        "cost": {"known_usd": 1.25, "unknown_calls": 7},
        "seconds": 83.4,
        "manifest": {
            "tasks": 24,
            "by_corpus": {"spider": 16, "bird": 8},
            "by_behavior": {str(b): 5 for b in Behavior},
            "by_difficulty": {"easy": 24},
            "origins": {"spider": {"original": 12}, "bird": {"surrogate": 8}},
        },
    }


@lru_cache(maxsize=4)
def cell_episodes(names: tuple[str, ...] = (POLICY, MODEL)) -> tuple[pl.DataFrame, ...]:
    """The episodes of every cell, in grid order; the same seed every time."""
    rng = random.Random(11)
    return tuple(frame(EPISODES, [_episode(cell, t, rng) for t in targets()]) for cell in grid(names))


def used(backend: str, cells: int) -> dict[str, Any]:
    """Usage of as many cells: the policy tells no tokens and costs nothing, of the model's calls one in ten has no known price."""
    told = backend != POLICY
    return {
        **{"calls": 40 * cells, "judge_calls": cells, "executions": 20 * cells},
        **{"known_usd": 0.5 * cells * told, "unknown_cost_calls": 4 * cells * told},
        **{"prompt_tokens": 9000 * cells * told, "completion_tokens": 1000 * cells * told},
        "unknown_token_calls": 0 if told else 40 * cells,
    }


def usage(names: tuple[str, ...]) -> dict[str, dict[str, dict[str, Any]]]:
    apart = {"calls_apart": 40 * 72, "executions_apart": 20 * 72}
    return {
        "cells": {cell.cell_id: used(cell.backend, 1) for cell in grid(names)},
        "backends": {name: used(name, 6) | apart for name in names},
    }


@lru_cache(maxsize=4)
def run_tables(names: tuple[str, ...] = (POLICY, MODEL)) -> RunTables:
    """A run of these backends; the same seed every time."""
    rng = random.Random(12)
    rows, metrics = cell_episodes(names), []
    for cell, part in zip(grid(names), rows, strict=True):
        measured = measure(part, targets(), CELL_METRICS, cell.cell_id).with_columns(cell_id=pl.lit(cell.cell_id))
        metrics.append(measured.select(METRICS.schema.names))
    episodes = pl.concat(rows)
    routed, routing = [], []
    for backend in names:
        for router in ROUTING_STUDY_ROUTERS:
            part = frame(ROUTING_EPISODES, [_routed(backend, router, t, rng) for t in targets()])
            routed.append(part)
            values = measure(part, targets(), ROUTING, router)
            routing.append(values.with_columns(backend=pl.lit(backend), router=pl.lit(str(router))))
    study = pl.concat(routed)
    audit = [
        {
            "scope": scope,
            "slice": cut,
            "value_of": of,
            "stage": stage,
            "metric": metric,
            "value": value,
            "n": 24,
            "low": None,
            "high": None,
            "release": "0" * 64,
        }
        for scope, cut, of, stage, metric, value in (
            ("task", "all", "all", "candidate", "target_recall_at_50", 0.9375),
            ("task", "all", "all", "candidate", "target_recall_at_9", 0.5),
            ("task", "all", "all", "reranked", "target_recall_at_10", 0.75),
            ("own_corpus", "corpus", "bird", "reranked", "mrr", 0.8703),
        )
    ]
    counts = counted(rows)
    analysed = analysis_rows(episodes, names, DRAWS, 1)
    return RunTables(
        record=record([{"name": n, "model": "offline/hybrid" if n == POLICY else f"lab/{n}"} for n in names])
        | {"usage": usage(names)},
        metrics=pl.concat(metrics),
        intervals=frame(INTERVALS, cell_intervals(episodes, DRAWS) + contrast_intervals(episodes, names, DRAWS)),
        routing_metrics=pl.concat(routing),
        routing_intervals=frame(INTERVALS, routing_intervals(study, DRAWS)),
        stages=counts[0],
        tasks=counts[1],
        analyses=frame_of(ANALYSES, analysed + ranges(analysed)),
        contributions=pl.DataFrame(
            [(b, str(a), k, n) for b in names for a in DataAgent for k, n in (("correct", 900), ("timeout", 31))],
            schema=["backend", "data_agent", "kind", "n"],
            orient="row",
        ),
        audit=frame(AUDIT, audit),
        verification={
            "ok": True,
            "recomputed_values": 1152,
            "max_discrepancy": 0.0,
            "gold_certificate": {"ok": True, "units": {"checked": 40, "refused": 2}},
            "leak_findings": 0,
        },
        baselines=frozenset({POLICY}),
    )
