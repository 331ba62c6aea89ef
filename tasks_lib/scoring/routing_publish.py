"""From the layers of a routing study to its published tables, behind their suites (PROTOCOL 13, 14; paper Tables 3 and 26-32).

The tables: `routing_table` (every pair and cut with intervals), and of transcripts `routing_probes`, `routing_usage` and
`routing_events`; of repeats `routing_trials`. What a row says is decided in the modules they are made by; here they are put
together, checked, and written. A table that fails its suite is not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tasks_lib.protocol.vocabulary import Behavior
from tasks_lib.scoring.bootstrap import Floats, counts, intervals, stack
from tasks_lib.scoring.metrics import ROUTING, per_task
from tasks_lib.scoring.publish import QualityError
from tasks_lib.scoring.routing_probes import PROBES, probe_rows
from tasks_lib.scoring.routing_suites import probes_suite, table_suite, transcript_suites, trials_suite
from tasks_lib.scoring.routing_tables import routing_tables
from tasks_lib.scoring.routing_trials import trial_rows
from tasks_lib.scoring.routing_usage import event_rows, usage_rows
from tasks_lib.scoring.targets import Target, Targets, base_tasks
from tasks_lib.store.artifacts import ArtifactStore, conform
from tasks_lib.store.keys import artifact_key, code_digest
from tasks_lib.store.quality import Suite, inspect
from tasks_lib.store.schemas import (
    ROUTE_TURNS,
    ROUTES,
    ROUTING_EPISODES,
    ROUTING_EVENTS,
    ROUTING_PROBES,
    ROUTING_TABLE,
    ROUTING_TRIALS,
    ROUTING_USAGE,
    Table,
)

Pair = tuple[str, str]
Row = Mapping[str, Any]
MEAN = "(mean)"
"""The subject of the mean over backends; no backend can be called this."""


@dataclass(frozen=True, slots=True)
class StudyTables:
    """Keys of the study's tables by table name, as a run's record holds them. `rows`: scored episodes."""

    keys: dict[str, str]
    rows: int


def _frame(table: Table, rows: Iterable[Row]) -> pl.DataFrame:
    found = pl.from_arrow(conform(table, list(rows)))
    assert isinstance(found, pl.DataFrame)
    return found


def _checked(suites: Sequence[Suite]) -> None:
    """Raises QualityError naming every table that fails its suite."""
    failed = [f"{r.table} fails {'; '.join(r.failures)}" for r in inspect(suites) if not r.ok]
    if failed:
        raise QualityError(f"{' | '.join(failed)}; nothing was published of the routing study, run it again.")


def banded(
    frame: pl.DataFrame, defined: Mapping[str, tuple[pl.Expr, pl.Expr]], draws: int, seed: int
) -> list[dict[str, Any]]:
    """Each metric of each (backend, router) of the frame with its interval; the frame's base tasks are resampled.

    A subject lacks a task where it has no row of it: it counts 0/0 there.
    """
    tasks = sorted(frame["task_id"].unique().to_list())
    place = {task_id: i for i, task_id in enumerate(tasks)}
    subjects: list[tuple[str, str, str]] = []
    tops: list[Floats] = []
    bottoms: list[Floats] = []
    for (backend, router), part in per_task(frame, dict(defined), ["backend", "router"]).group_by(
        "backend", "router", maintain_order=True
    ):
        rows = part["task_id"].replace_strict(place, return_dtype=pl.Int64).to_numpy()
        for name in defined:
            subjects.append((str(backend), str(router), name))
            for side, columns in (("n", tops), ("d", bottoms)):
                column = np.zeros(len(tasks))
                column[rows] = part[f"{name}|{side}"].to_numpy()
                columns.append(column)
    over, under = stack(tops), stack(bottoms)
    found = []
    bands = intervals(counts(len(tasks), draws, seed), over, under)
    for (backend_name, router_name, metric), band, n, d in zip(
        subjects, bands, over.sum(axis=0), under.sum(axis=0), strict=True
    ):
        found.append(
            {
                "backend": backend_name,
                "router": router_name,
                "metric": metric,
                "numerator": float(n),
                "denominator": float(d),
                "value": band.value,
                "low": band.low,
                "high": band.high,
                "tasks": len(tasks),
                "draws": draws,
                "dropped": band.dropped,
                "seed": seed,
            }
        )
    return found


def cut_rows(
    frame: pl.DataFrame,
    targets: Sequence[Target],
    defined: Mapping[str, tuple[pl.Expr, pl.Expr]],
    draws: int,
    seed: int,
) -> list[dict[str, Any]]:
    """Rows of `routing_table`: every subject of the frame in every cut of the targets, the tasks of the cut resampled.

    Beside the cuts of the metrics there is `scope`: the ordinary tasks alone (paper Table 24).
    """
    found = []
    slices = Targets.of(targets).slices.with_columns(
        scope=pl.when(pl.col("behavior") != Behavior.INTERACTIVE).then(pl.lit("ordinary"))
    )
    for cut in slices.columns[1:]:
        for value in sorted(slices[cut].drop_nulls().unique().to_list()):
            part = frame.join(slices.filter(pl.col(cut) == value), on="task_id", how="semi", maintain_order="left")
            found += [{**row, "slice": cut, "value_of": value} for row in banded(part, defined, draws, seed)]
    return found


def with_mean(episodes: pl.DataFrame) -> pl.DataFrame:
    """The episodes, and those of all backends once more under `MEAN` where there are several.

    Every backend is scored on the same tasks, so that the pooled value is the mean of the backends' values (paper Table 3);
    a router that not every backend has done has no mean.
    """
    backends = episodes["backend"].n_unique()
    if backends < 2:
        return episodes
    done = episodes.group_by("router").agg(pl.col("backend").n_unique().alias("n")).filter(pl.col("n") == backends)
    pooled = episodes.filter(pl.col("router").is_in(done["router"].to_list())).with_columns(backend=pl.lit(MEAN))
    return pl.concat([episodes, pooled])


def _read(store: ArtifactStore, table: Table, keys: Mapping[Pair, str]) -> pl.DataFrame:
    empty = pl.from_arrow(table.schema.empty_table())
    assert isinstance(empty, pl.DataFrame)
    return pl.concat([empty, *(store.read(table, key) for _, key in sorted(keys.items()))])


def publish_study(
    store: ArtifactStore,
    routes: Mapping[Pair, str],
    turns: Mapping[Pair, str],
    targets: Sequence[Target],
    draws: int,
    seed: int,
    release: str,
) -> StudyTables:
    """Score and write the study. `routes`, `turns`: artifact keys of initial routes and their transcripts by (backend, router).

    Pairs without transcripts have no row in the tables made from them. Raises QualityError.
    """
    base = routing_tables(store, routes, targets, draws, seed, release)
    inputs = {f"{b}.{r}": key for (b, r), key in sorted(routes.items())} | {"release": release}
    inputs |= {f"turns of {b}.{r}": key for (b, r), key in sorted(turns.items())}
    params = {"code": code_digest("tasks_lib/scoring"), "tasks": len(targets)}
    keys = {
        table.name: artifact_key(table.stage, inputs, params | extra)
        for table, extra in (
            (ROUTING_TABLE, {"draws": draws, "seed": seed}),
            (ROUTING_PROBES, {}),
            (ROUTING_USAGE, {}),
            (ROUTING_EVENTS, {}),
        )
    }
    tables = {table.name: table for table in (ROUTING_TABLE, ROUTING_PROBES, ROUTING_USAGE, ROUTING_EVENTS)}
    named = {"routing_episodes": base.episodes, "routing_metrics": base.metrics, "routing_intervals": base.intervals}
    done = StudyTables(named | keys, base.rows)
    if all(store.ok(tables[name], key) for name, key in keys.items()):
        return done
    episodes = store.read(ROUTING_EPISODES, base.episodes)
    probes, usage, events, expected_turns = [], [], [], 0
    task_ids = list(dict.fromkeys(t.task_id for t in targets))
    for (backend, router), key in sorted(turns.items()):
        routed = store.read(ROUTES, routes[(backend, router)]).filter(pl.col("branch_id") == "").to_dicts()
        transcript = store.read(ROUTE_TURNS, key).to_dicts()
        expected_turns += sum(route["turns"] for route in routed)
        probes += probe_rows(backend, router, targets, routed, transcript)
        usage += usage_rows(backend, router, task_ids, transcript)
        events += event_rows(backend, router, routed, transcript)
    frames = {
        ROUTING_PROBES.name: _frame(ROUTING_PROBES, probes),
        ROUTING_USAGE.name: _frame(ROUTING_USAGE, usage),
        ROUTING_EVENTS.name: _frame(ROUTING_EVENTS, events),
    }
    subjects = with_mean(episodes)
    rows = cut_rows(subjects, targets, ROUTING, draws, seed)
    metrics = list(ROUTING)
    expected = subjects.select("backend", "router").unique().height * len(ROUTING)
    if probes:
        rows += cut_rows(frames[ROUTING_PROBES.name], targets, PROBES, draws, seed)
        metrics += PROBES
        expected += len(turns) * len(PROBES)
    cuts = len({(row["slice"], row["value_of"]) for row in rows})
    frames[ROUTING_TABLE.name] = _frame(ROUTING_TABLE, rows)
    _checked(
        [
            probes_suite(frames[ROUTING_PROBES.name], targets, len(turns)),
            table_suite(frames[ROUTING_TABLE.name], expected * cuts, metrics),
            *transcript_suites(
                _read(store, ROUTE_TURNS, turns),
                frames[ROUTING_USAGE.name],
                frames[ROUTING_EVENTS.name],
                expected_turns,
                len(turns),
            ),
        ]
    )
    for name, key in keys.items():
        store.write(tables[name], key, frames[name], inputs=inputs)
    return done


def publish_trials(
    store: ArtifactStore, trials: Mapping[Pair, Sequence[str]], targets: Sequence[Target], release: str
) -> str:
    """Write `routing_trials` and return its key. `trials`: keys of the initial routes by pair, trial 0 first, two at least.

    Raises QualityError.
    """
    inputs = {f"{b}.{r}.{i}": key for (b, r), keys in sorted(trials.items()) for i, key in enumerate(keys)}
    inputs["release"] = release
    key = artifact_key(ROUTING_TRIALS.stage, inputs, {"code": code_digest("tasks_lib/scoring"), "tasks": len(targets)})
    if store.ok(ROUTING_TRIALS, key):
        return key
    rows: list[dict[str, Any]] = []
    for (backend, router), keys in sorted(trials.items()):
        rows += trial_rows(backend, router, targets, [store.read(ROUTES, k).to_dicts() for k in keys])
    frame = _frame(ROUTING_TRIALS, rows)
    _checked([trials_suite(frame, len(trials), base_tasks(targets))])
    store.write(ROUTING_TRIALS, key, frame, inputs=inputs)
    return key
