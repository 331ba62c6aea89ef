"""From cell partitions to the published tables: all metrics, and intervals of cells and contrasts, behind quality suites.

A table that fails its suite is not published; the error names the expectation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from tasks_lib.protocol.records import Cell
from tasks_lib.scoring.analyses import SCOPES, analysis_rows, row_count
from tasks_lib.scoring.contrasts import cell_intervals, contrast_intervals
from tasks_lib.scoring.metrics import CELL_METRICS
from tasks_lib.scoring.spreads import EVERY, ranges
from tasks_lib.scoring.targets import Target, Targets, base_tasks
from tasks_lib.store.artifacts import ArtifactStore, conform
from tasks_lib.store.keys import artifact_key, code_digest
from tasks_lib.store.quality import Bounds, validate
from tasks_lib.store.schemas import ANALYSES, EPISODES, INTERVALS, METRICS, Table

WHOLE = 72
"""Cells of a backend whose contrasts can be matched."""


class QualityError(RuntimeError):
    """A table does not satisfy its suite; nothing is published from it."""


@dataclass(frozen=True, slots=True)
class Published:
    """Keys of the run's tables. `base_rows`: cells × base tasks."""

    metrics: str
    intervals: str
    analyses: str
    episodes: int
    base_rows: int


def _checked(
    table: Table,
    frame: pl.DataFrame,
    rows: int,
    allowed: Mapping[str, set[str]] | None = None,
    unit: Sequence[str] = (),
    within: Mapping[str, Bounds] | None = None,
) -> None:
    bounds: dict[str, Bounds] = {**dict.fromkeys(unit, (0.0, 1.0)), **(within or {})}
    report = validate(table, frame, rows, allowed=allowed or {}, ranges=bounds)
    if not report.ok:
        raise QualityError(
            f"{table.stage} fails {', '.join(report.failures)}; nothing was published, run the cells again."
        )


def frame_of(table: Table, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Rows as a frame with the table's schema. Raises ArtifactRefused."""
    frame = pl.from_arrow(conform(table, rows))
    assert isinstance(frame, pl.DataFrame)
    return frame


def read_episodes(store: ArtifactStore, keys: Iterable[str], columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Episode partitions, in the order of the keys, with all columns or those given: a text column costs 16 bytes a row and more,
    so ask for what is needed."""
    return pl.concat([store.read(EPISODES, key, columns) for key in keys])


def publish(
    store: ArtifactStore,
    cells: Sequence[Cell],
    keys: Mapping[str, str],
    targets: Sequence[Target],
    draws: int,
    seed: int,
) -> Published:
    """Write the run's `metrics`, `intervals` and `analyses` (of backends whose 72 cells are all there). `keys`: artifact key by cell id.

    The statistics have one backend's episodes in memory at a time; the suite of all of them sees texts as categories, 150 bytes a row.
    Raises QualityError, before anything is written unless it is the suite of analyses.
    """
    inputs = {c.cell_id: keys[c.cell_id] for c in cells}
    code = code_digest("tasks_lib/scoring")
    metrics_key = artifact_key("metrics@1", inputs, {"code": code})
    intervals_key = artifact_key("intervals@1", inputs, {"code": code, "draws": draws, "seed": seed})
    analyses_key = artifact_key(ANALYSES.stage, inputs, {"code": code, "draws": draws, "seed": seed})
    made = Published(
        metrics_key, intervals_key, analyses_key, len(cells) * len(targets), len(cells) * base_tasks(targets)
    )
    if store.ok(METRICS, metrics_key) and store.ok(INTERVALS, intervals_key) and store.ok(ANALYSES, analyses_key):
        return made
    rows: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    whole: set[str] = set()
    seen: list[pl.DataFrame] = []
    for backend in dict.fromkeys(c.backend for c in cells):
        own = [c for c in cells if c.backend == backend]
        complete = [backend] if len(own) == WHOLE else []
        whole.update(complete)
        episodes = _episodes(store, own, keys, targets)
        rows += cell_intervals(episodes, draws, seed) + contrast_intervals(episodes, complete, draws, seed)
        found += analysis_rows(episodes, complete, draws, seed)
        seen.append(episodes.with_columns(pl.selectors.string().cast(pl.Categorical)))
    _checked(
        EPISODES,
        pl.concat(seen),
        made.episodes,
        {"cell_id": {c.cell_id for c in cells}, "task_id": {t.task_id for t in targets}},
        ("precision", "recall", "f1", "over_rate", "under_rate"),
    )
    del seen, episodes
    metrics = pl.concat([store.read(METRICS, keys[c.cell_id]) for c in cells])
    slices = metrics.select("slice", "value_of").unique().height
    _checked(METRICS, metrics, len(cells) * slices * len(CELL_METRICS), {"metric": set(CELL_METRICS)}, ("value",))
    store.write(METRICS, metrics_key, metrics, inputs=inputs)
    store.write(INTERVALS, intervals_key, rows, inputs=inputs)
    over_backends = ranges(found)
    analyses = frame_of(ANALYSES, found + over_backends)
    _checked(
        ANALYSES,
        analyses,
        len(whole) * row_count(Targets.of(targets).frame) + len(over_backends),
        {"scope": set(SCOPES), "backend": whole | {EVERY}},
        within={
            **dict.fromkeys(("value", "low", "high"), (-1.0, 1.0)),
            # 0 cells: a spread over conditional values that are all 0/0 (`spreads`).
            **dict.fromkeys(("numerator", "denominator", "counted", "cells"), (0.0, None)),
            "tasks": (1.0, None),
        },
    )
    store.write(ANALYSES, analyses_key, analyses, inputs=inputs)
    return made


def _episodes(
    store: ArtifactStore, cells: Sequence[Cell], keys: Mapping[str, str], targets: Sequence[Target]
) -> pl.DataFrame:
    """One backend's episodes, with as many base rows as its cells have. Raises QualityError."""
    episodes = read_episodes(store, [keys[c.cell_id] for c in cells])
    counted, base = episodes.select("cell_id", "task_id").unique().height, len(cells) * base_tasks(targets)
    if counted != base:
        raise QualityError(
            f"episodes of {cells[0].backend} hold {counted} base rows, expected {base}; run the cells again."
        )
    return episodes
