"""How far repeats of the routing study differ: by how much each value moves, and on how many tasks the answer is another.

Trial 0 is what is published; other trials are made to be compared with it and enter no other table. The interval of a
bootstrap says nothing about this: it resamples tasks, given the recorded outputs (PROTOCOL 14).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import stdev
from typing import Any

import polars as pl

from tasks_lib.scoring.episodes import score_routes
from tasks_lib.scoring.metrics import ROUTING, measure
from tasks_lib.scoring.targets import Target, base_tasks
from tasks_lib.store.artifacts import conform
from tasks_lib.store.schemas import ROUTING_EPISODES

Row = Mapping[str, Any]
METRICS = ("RA-Set", "RA-Graph", "Precision", "Recall", "F1", "OR", "UR", "Valid")


def selected_set(route: Row) -> frozenset[str]:
    """The answer as a set; an unaccepted plan is the empty one."""
    return frozenset(route["selected"])


def graph(route: Row) -> tuple[frozenset[str], str, frozenset[tuple[str, str]]]:
    """The answer as a graph: set, topology, directed edges."""
    edges = frozenset((edge["source"], edge["target"]) for edge in route["edges"])
    return selected_set(route), route["topology"], edges


def scored(backend: str, router: str, targets: Sequence[Target], routes: Iterable[Row]) -> dict[str, float]:
    """Value of each of `METRICS` of one trial's routes."""
    # Scoring reads what is published, which is trial 0; the number of the repeat decides no score.
    rows = score_routes(backend, router, targets, [{**route, "trial": 0} for route in routes])
    frame = pl.from_arrow(conform(ROUTING_EPISODES, rows))
    assert isinstance(frame, pl.DataFrame)
    values = measure(frame, targets, ROUTING, f"routing study, {backend} {router}").filter(pl.col("slice") == "all")
    found = dict(values.select("metric", "value").iter_rows())
    return {name: float(found[name]) for name in METRICS}


def trial_rows(
    backend: str, router: str, targets: Sequence[Target], trials: Sequence[Sequence[Row]]
) -> list[dict[str, Any]]:
    """Rows of `routing_trials` of one pair. `trials`: its initial routes by trial, two trials at least, trial 0 first."""
    values = [scored(backend, router, targets, routes) for routes in trials]
    answers: dict[str, list[Row]] = {}
    for routes in trials:
        for route in routes:
            answers.setdefault(route["task_id"], []).append(route)
    set_changed = sum(len({selected_set(route) for route in given}) > 1 for given in answers.values())
    graph_changed = sum(len({graph(route) for route in given}) > 1 for given in answers.values())
    rows = []
    for name in METRICS:
        moved = [value[name] for value in values]
        rows.append(
            {
                "backend": backend,
                "router": router,
                "metric": name,
                "trials": len(trials),
                "published": moved[0],
                "low": min(moved),
                "high": max(moved),
                "deviation": stdev(moved),
                "tasks": base_tasks(targets),
                "set_changed": set_changed,
                "graph_changed": graph_changed,
            }
        )
    return rows
