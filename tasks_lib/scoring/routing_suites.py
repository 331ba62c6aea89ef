"""What is expected of the routing study's tables before they are written: how many rows, which values, in which bounds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import polars as pl

from tasks_lib.protocol.vocabulary import Corpus, Router
from tasks_lib.routing.turns import turns_suite
from tasks_lib.scoring.metrics import ROUTING
from tasks_lib.scoring.routing_trials import METRICS as TRIAL_METRICS
from tasks_lib.scoring.routing_usage import EVENTS, QUANTITIES
from tasks_lib.scoring.targets import Target
from tasks_lib.store.quality import Check, Kind, Suite, suite_of
from tasks_lib.store.schemas import (
    ROUTING_EVENTS,
    ROUTING_PROBES,
    ROUTING_TABLE,
    ROUTING_TRIALS,
    ROUTING_USAGE,
)

ROUTERS = {r.value for r in Router} | {"own"}
"""`own`: an agent that ran elsewhere."""
SHARE = (0.0, 1.0)
COUNT = (0.0, None)


def probes_suite(probes: pl.DataFrame, targets: Sequence[Target], pairs: int) -> Suite:
    """Suite of `routing_probes` of `pairs` pairs with transcripts."""
    known = {"task_id": {t.task_id for t in targets}, "corpus": {str(c) for c in Corpus}, "router": ROUTERS}
    return suite_of(ROUTING_PROBES, probes, pairs * len(targets), known, {"weight": (0.5, 1.0)})


def table_suite(table: pl.DataFrame, rows: int, metrics: Collection[str]) -> Suite:
    """Suite of `routing_table`; `rows`: subjects × cuts × metrics."""
    allowed: dict[str, Collection[str]] = {
        "router": ROUTERS,
        "slice": {"all", "corpus", "behavior", "difficulty", "size", "scope"},
        "metric": metrics,
    }
    ranges = {**dict.fromkeys(("value", "low", "high"), SHARE), "numerator": COUNT, "denominator": COUNT}
    return suite_of(ROUTING_TABLE, table, rows, allowed, {**ranges, "tasks": (1, None), "dropped": COUNT})


def transcript_suites(
    turns: pl.DataFrame, usage: pl.DataFrame, events: pl.DataFrame, expected_turns: int, pairs: int
) -> list[Suite]:
    """Suites of `route_turns` (all pairs together), `routing_usage` and `routing_events`."""
    totals = usage.with_columns(told=pl.col("known_turns") + pl.col("unknown_turns"))
    turns_of = usage.filter(pl.col("quantity") == "turns").select("backend", "router", told_by_turns="total")
    totals = totals.join(turns_of, on=["backend", "router"], how="left")
    counts: Mapping[str, tuple[float | None, float | None]] = dict.fromkeys(
        ("total", "known_turns", "unknown_turns", "known_routes"), COUNT
    )
    return [
        turns_suite(turns, expected_turns),
        suite_of(
            ROUTING_USAGE,
            totals,
            pairs * len(QUANTITIES),
            {"quantity": set(QUANTITIES), "router": ROUTERS},
            counts,
            [Check(Kind.EQUAL, ("told", "told_by_turns"), about="every turn is known or unknown")],
        ),
        suite_of(
            ROUTING_EVENTS,
            events.with_columns(left=pl.col("of") - pl.col("n")),
            events.height,
            {"event": set(EVENTS), "router": ROUTERS},
            {"n": (1, None)},
            [Check(Kind.RANGE, ("left",), COUNT, "no kind happens more often than there are turns or routes")],
        ),
    ]


def trials_suite(trials: pl.DataFrame, pairs: int, tasks: int) -> Suite:
    """Suite of `routing_trials`: trial 0 lies between the smallest and the largest value, and no more tasks change than there are."""
    checked = trials.with_columns(below=pl.col("published") - pl.col("low"), above=pl.col("high") - pl.col("published"))
    return suite_of(
        ROUTING_TRIALS,
        checked,
        pairs * len(TRIAL_METRICS),
        {"metric": set(TRIAL_METRICS) & set(ROUTING), "router": ROUTERS},
        {
            **dict.fromkeys(("published", "low", "high"), SHARE),
            "trials": (2, None),
            "deviation": COUNT,
            "set_changed": (0, tasks),
            "graph_changed": (0, tasks),
        },
        [Check(Kind.RANGE, (name,), COUNT) for name in ("below", "above")],
    )
