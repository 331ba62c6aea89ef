"""The routing study's tables: initial routes of every (backend, router), scored, with intervals (PROTOCOL 13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from tasks_lib.scoring.contrasts import routing_intervals
from tasks_lib.scoring.episodes import score_routes
from tasks_lib.scoring.metrics import ROUTING, measure
from tasks_lib.scoring.tables import read_rows
from tasks_lib.scoring.targets import Target
from tasks_lib.store.artifacts import ArtifactStore, conform
from tasks_lib.store.keys import artifact_key, code_digest
from tasks_lib.store.schemas import INTERVALS, ROUTES, ROUTING_EPISODES, ROUTING_METRICS


@dataclass(frozen=True, slots=True)
class RoutingTables:
    """Keys of the study's tables. `rows`: episodes."""

    episodes: str
    metrics: str
    intervals: str
    rows: int


def routing_tables(
    store: ArtifactStore,
    routes: Mapping[tuple[str, str], str],
    targets: Sequence[Target],
    draws: int,
    seed: int,
    release: str,
) -> RoutingTables:
    """Score and write the study. `routes`: artifact key of the initial routes by (backend, router)."""
    inputs = {f"{b}.{r}": key for (b, r), key in sorted(routes.items())} | {"release": release}
    params = {"code": code_digest("tasks_lib/scoring"), "tasks": len(targets)}
    episodes_key = artifact_key("routing_episodes@1", inputs, params)
    metrics_key = artifact_key("routing_metrics@1", inputs, params)
    intervals_key = artifact_key("routing_intervals@1", inputs, {**params, "draws": draws, "seed": seed})
    done = RoutingTables(episodes_key, metrics_key, intervals_key, len(routes) * len(targets))
    if (
        store.ok(ROUTING_EPISODES, episodes_key)
        and store.ok(ROUTING_METRICS, metrics_key)
        and store.ok(INTERVALS, intervals_key)
    ):
        return done
    rows, metrics = [], []
    for (backend, router), key in sorted(routes.items()):
        scored = score_routes(backend, router, targets, read_rows(store, ROUTES, key))
        rows += scored
        frame = pl.from_arrow(conform(ROUTING_EPISODES, scored))
        assert isinstance(frame, pl.DataFrame)
        values = measure(frame, targets, ROUTING, f"routing study, {backend} {router}")
        metrics.append(values.with_columns(backend=pl.lit(backend), router=pl.lit(router)))
    episodes = pl.from_arrow(conform(ROUTING_EPISODES, rows))
    assert isinstance(episodes, pl.DataFrame)
    store.write(ROUTING_EPISODES, episodes_key, episodes, inputs=inputs)
    store.write(ROUTING_METRICS, metrics_key, pl.concat(metrics), inputs=inputs)
    store.write(INTERVALS, intervals_key, routing_intervals(episodes, draws, seed), inputs=inputs)
    return done
