"""PRIVATE. The stored rows of a run, a batch of tasks at a time: layers, transcripts and outcomes of every backend and router.

Memory is that of one batch, however many tasks there are. Does not belong here: what the rows mean (browser_tasks).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import polars as pl

from tasks_lib.reporting.browser_views import TaskRows
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.schemas import ASKS, CONTRIBUTIONS, EPISODES, PLANS, RELEASES, ROUTE_TURNS, ROUTES, Table

BATCH = 128
"""Tasks read at a time."""
Rows = Sequence[Mapping[str, Any]]
LAYER_TABLES = {
    "routes": ROUTES,
    "turns": ROUTE_TURNS,
    "asks": ASKS,
    "releases": RELEASES,
    "plans": PLANS,
    "contributions": CONTRIBUTIONS,
    "episodes": EPISODES,
}
COLUMNS: Mapping[str, Sequence[str]] = {
    "contributions": [
        "data_agent",
        "planner",
        "query_mode",
        "state",
        "branch_id",
        "unit_id",
        "database_id",
        "request_text",
        "sql",
        "bindings_json",
        "execution",
        "kind",
    ],
    "episodes": [
        "data_agent",
        "planner",
        "interaction",
        "query_mode",
        "branch_id",
        "s",
        "g",
        "t",
        "h",
        "failure_stage",
        "failure_flag",
    ],
    "plans": ["planner", "branch_id", "order", "edges", "ok", "attempts"],
}
"""Columns that are read of the long tables; all of the others."""


class LayerLost(ValueError):
    """A layer that the run rests on is not in the store."""


@dataclass(frozen=True, slots=True)
class ChainFiles:
    """Artifact keys of one (backend, router), by layer: initial and clarified ones together, and its cells."""

    backend: str
    router: str
    keys: Mapping[str, Sequence[str]]


def checked(store: ArtifactStore, chains: Iterable[ChainFiles]) -> None:
    """Raises LayerLost naming the first layer that is missing or damaged."""
    for chain in chains:
        for name, keys in chain.keys.items():
            for key in keys:
                if not store.ok(LAYER_TABLES[name], key):
                    raise LayerLost(
                        f"{name} of {chain.backend} {chain.router} ({key[:12]}) are missing or damaged, expected them in {store.root}; "
                        "run again to make them anew."
                    )


def batches(
    store: ArtifactStore, chains: Sequence[ChainFiles], task_ids: Sequence[str], size: int = BATCH
) -> Iterator[Iterator[tuple[str, list[TaskRows]]]]:
    """For every batch of tasks, (task id, its rows in each chain), in the order given.

    Every artifact is read once a batch and filtered there. Raises LayerLost before anything is read.
    """
    checked(store, chains)
    with ExitStack() as stack:
        paths = [
            {name: stack.enter_context(store.files(LAYER_TABLES[name], keys)) for name, keys in chain.keys.items()}
            for chain in chains
        ]
        for begin in range(0, len(task_ids), size):
            yield _batch(chains, paths, task_ids[begin : begin + size])


def _batch(
    chains: Sequence[ChainFiles], paths: Sequence[Mapping[str, list[str]]], task_ids: Sequence[str]
) -> Iterator[tuple[str, list[TaskRows]]]:
    read = [{name: _by_task(LAYER_TABLES[name], name, of[name], task_ids) for name in LAYER_TABLES} for of in paths]
    for task in task_ids:
        yield (
            task,
            [
                _rows(chain, {name: found.get(task, ()) for name, found in layer.items()})
                for chain, layer in zip(chains, read, strict=True)
            ],
        )


def _rows(chain: ChainFiles, of: Mapping[str, Rows]) -> TaskRows:
    turns: dict[str, list[Mapping[str, Any]]] = {}
    for turn in of["turns"]:
        turns.setdefault(turn["branch_id"], []).append(turn)
    rest = {name: rows for name, rows in of.items() if name != "turns"}
    return TaskRows(chain.backend, chain.router, turns=turns, **rest)


def _by_task(table: Table, name: str, paths: Sequence[str], task_ids: Sequence[str]) -> Mapping[str, Rows]:
    """Rows of the first trial of these tasks, by task, in the order stored."""
    if not paths:
        return {}
    frame = pl.scan_parquet(list(paths)).filter(pl.col("task_id").is_in(list(task_ids)))
    if "trial" in table.schema.names:
        frame = frame.filter(pl.col("trial") == 0)
    chosen = frame.select("task_id", *(COLUMNS.get(name) or [c for c in table.schema.names if c != "task_id"]))
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in chosen.collect().iter_rows(named=True):
        found.setdefault(row["task_id"], []).append(row)
    return found
