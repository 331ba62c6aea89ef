"""What a report is made from: the published tables of one run and its record, checked once, and quick look-ups into them.

No formatting here (see views), no choice of what is shown (see tables and appendix).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tasks_lib.protocol.records import Cell
from tasks_lib.scoring.cells import grid
from tasks_lib.scoring.comparison import Comparison
from tasks_lib.store.schemas import ANALYSES, Table

COUNTS = tuple(f"{item}{part}" for item in ("model_calls", "sql_executions") for part in ("", "_made", "_unshared"))
RECORD_KEYS = ("run", "release", "status", "reason", "backends", "cost", "manifest", *COUNTS)
MANIFEST_KEYS = ("tasks", "by_corpus", "by_behavior", "by_difficulty", "origins")
FRAMES = {
    "contributions": ("backend", "data_agent", "kind", "n"),
    "stages": ("cell_id", "failure_stage", "weight"),
    "tasks": ("corpus", "behavior", "tasks"),
}
"""Columns of the frames that are counted for the page (see RunTables)."""
EPISODE_COLUMNS = ("cell_id", "task_id", "corpus", "behavior", "weight", "failure_stage")
"""All that the page asks of an episode."""


class ReportError(ValueError):
    """A run's tables do not hold what a report shows."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A published value by its parts; `value` is None for 0/0."""

    numerator: float
    denominator: float

    @property
    def value(self) -> float | None:
        return self.numerator / self.denominator if self.denominator else None


@dataclass(frozen=True, slots=True)
class Band:
    """A published interval. `value` and bounds are None when every resample had a zero denominator."""

    value: float | None
    low: float | None
    high: float | None
    tasks: int
    draws: int
    dropped: int


def pooled(parts: Iterable[Ratio]) -> Ratio:
    """Sum of numerators over sum of denominators."""
    parts = tuple(parts)
    return Ratio(sum(p.numerator for p in parts), sum(p.denominator for p in parts))


def counted(parts: Iterable[pl.DataFrame]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`stages` (cell_id, failure_stage, weight) and `tasks` (corpus, behavior, tasks) from the cells' episodes, one part at a time.

    A part needs EPISODE_COLUMNS of whole cells. Every cell holds the same tasks, so those of the first part are counted.
    """
    stages: list[pl.DataFrame] = []
    tasks = pl.DataFrame(schema={"corpus": pl.String, "behavior": pl.String, "tasks": pl.Int64})
    for part in parts:
        if not stages:
            seen = part.select("task_id", "corpus", "behavior").unique()
            tasks = seen.group_by("corpus", "behavior").agg(pl.len().cast(pl.Int64).alias("tasks"))
        stages.append(part.group_by("cell_id", "failure_stage").agg(pl.col("weight").sum()))
    none = pl.DataFrame(schema={"cell_id": pl.String, "failure_stage": pl.String, "weight": pl.Float64})
    together = pl.concat([none, *stages]).sort("cell_id", "failure_stage")
    return together, tasks.sort("corpus", "behavior")


@dataclass(frozen=True)
class RunTables:
    """Everything a page shows.

    `record`: run, release (folder name), status, reason, backends (`[{name, model}]` in report order), the six counts
    `model_calls`, `model_calls_made`, `model_calls_unshared`, `sql_executions…`, cost (`{known_usd, unknown_calls}`),
    manifest (tasks, by_corpus, by_behavior, by_difficulty, origins `{corpus: {origin: databases}}`) and, where they were
    measured, seconds and usage (`flows.usage`: what every cell and backend used).
    `metrics`, `intervals`, `analyses`, `routing_metrics`, `routing_intervals`, `audit`, `disagreement`: tables of `store.schemas`;
    the routing frames may be empty when no routing study ran. `stages` and `tasks`: see `counted`. `contributions`: backend,
    data_agent, kind, n. `verification`: ok, recomputed_values, max_discrepancy, gold_certificate, leak_findings, problems.
    `baselines`: names of offline policies.

    `study`: further tables of the routing study by name (`reporting.routing_section`), those the run has.

    `comparison`: the run beside an earlier one of its release, where there is one.

    Raises ReportError when the record lacks a key or a frame a column.
    """

    record: Mapping[str, Any]
    metrics: pl.DataFrame
    intervals: pl.DataFrame
    routing_metrics: pl.DataFrame
    routing_intervals: pl.DataFrame
    stages: pl.DataFrame
    tasks: pl.DataFrame
    contributions: pl.DataFrame
    analyses: pl.DataFrame | None = None
    audit: pl.DataFrame | None = None
    disagreement: pl.DataFrame | None = None
    study: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    verification: Mapping[str, Any] | None = None
    baselines: frozenset[str] = frozenset()
    comparison: Comparison | None = None
    _cells: tuple[Cell, ...] = field(init=False, repr=False)
    _metric: dict[tuple[str, str, str, str], Ratio] = field(init=False, repr=False)
    _routing: dict[tuple[str, str, str], Ratio] = field(init=False, repr=False)
    _bands: dict[tuple[str, str, str], Band] = field(init=False, repr=False)
    _routing_bands: dict[tuple[str, str], Band] = field(init=False, repr=False)
    _analyses: dict[tuple[str, str, str, str, str], Band] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        lost = [k for k in RECORD_KEYS if k not in self.record]
        lost += [f"manifest.{k}" for k in MANIFEST_KEYS if k not in self.record.get("manifest", {})]
        lost += [f"cost.{k}" for k in ("known_usd", "unknown_calls") if k not in self.record.get("cost", {})]
        if lost:
            raise ReportError(f"the run's record lacks {', '.join(lost)}; run the factorial again, results are kept.")
        for name, columns in FRAMES.items():
            gone = [c for c in columns if c not in getattr(self, name).columns]
            if gone:
                raise ReportError(f"the frame {name} lacks {', '.join(gone)}, expected {', '.join(columns)}.")
        cells = set(self.metrics["cell_id"].unique().to_list())
        strays = sorted(cells - {c.cell_id for c in grid(self.backends)})
        if strays:
            raise ReportError(
                f"the metrics hold {len(strays)} cells of no backend of the record (first {strays[0]}); "
                f"expected backends {', '.join(self.backends)}."
            )
        metric = {
            (c, s, v, m): Ratio(n, d)
            for c, s, v, m, n, d in self.metrics.select(
                "cell_id", "slice", "value_of", "metric", "numerator", "denominator"
            ).iter_rows()
        }
        routing = {
            (b, r, m): Ratio(n, d)
            for b, r, m, n, d in self.routing_metrics.filter(pl.col("slice") == "all")
            .select("backend", "router", "metric", "numerator", "denominator")
            .iter_rows()
        }
        object.__setattr__(self, "_cells", tuple(c for c in grid(self.backends) if c.cell_id in cells))
        object.__setattr__(self, "_metric", metric)
        object.__setattr__(self, "_routing", routing)
        bands = {(r["subject"], r["metric"], r["scope"]): _band(r) for r in self.intervals.iter_rows(named=True)}
        object.__setattr__(self, "_bands", bands)
        routed = {(r["subject"], r["metric"]): _band(r) for r in self.routing_intervals.iter_rows(named=True)}
        object.__setattr__(self, "_routing_bands", routed)
        analysed = {
            (r["analysis"], r["backend"], r["subject"], r["scope"], r["metric"]): band_of(r)
            for r in self.analysed.filter(pl.col("statistic").is_in(["mean", "pooled", "difference"])).iter_rows(
                named=True
            )
        }
        object.__setattr__(self, "_analyses", analysed)

    @property
    def backends(self) -> list[str]:
        """Backend names in report order."""
        return [str(b["name"]) for b in self.record["backends"]]

    @property
    def analysed(self) -> pl.DataFrame:
        """Rows of `analyses`; none when the run has no such table."""
        return self.analyses if self.analyses is not None else frame_of_none(ANALYSES)

    @property
    def usage(self) -> Mapping[str, Any]:
        """What was used, by `cells` and `backends` (see `flows.usage`); both empty where the run does not record it."""
        found: Mapping[str, Any] = self.record.get("usage") or {"cells": {}, "backends": {}}
        return found

    def analysis(self, name: str, backend: str, metric: str, subject: str = "all", scope: str = "all") -> Band | None:
        """A mean, pooled value or difference of `analyses`, or None when the run has no such row."""
        return self._analyses.get((name, backend, subject, scope, metric))

    def cells(self, **fixed: str | tuple[str, ...]) -> list[Cell]:
        """Scored cells, in grid order, whose factors have the given values (one, or any of several)."""
        wanted = {k: (v,) if isinstance(v, str) else v for k, v in fixed.items()}
        return [c for c in self._cells if all(str(getattr(c, k)) in values for k, values in wanted.items())]

    def ratio(self, cell_id: str, metric: str, slice_: str = "all", value_of: str = "all") -> Ratio | None:
        """A cell's value, or None when the cell is not scored or the slice holds no task."""
        return self._metric.get((cell_id, slice_, value_of, metric))

    def ratios(self, cells: Iterable[Cell], metric: str, slice_: str = "all", value_of: str = "all") -> list[Ratio]:
        """The values of scored cells that have the slice."""
        found = (self.ratio(c.cell_id, metric, slice_, value_of) for c in cells)
        return [r for r in found if r is not None]

    def band(self, subject: str, metric: str, scope: str = "all") -> Band | None:
        """An interval of a cell or a contrast, or None when none was computed."""
        return self._bands.get((subject, metric, scope))

    def routing_ratio(self, backend: str, router: str, metric: str) -> Ratio | None:
        return self._routing.get((backend, router, metric))

    def routing_band(self, backend: str, router: str, metric: str) -> Band | None:
        return self._routing_bands.get((f"{backend}.{router}", metric))


def frame_of_none(table: Table) -> pl.DataFrame:
    """An empty frame of the table's schema."""
    empty = pl.from_arrow(table.schema.empty_table())
    assert isinstance(empty, pl.DataFrame)
    return empty


def band_of(row: Mapping[str, Any]) -> Band:
    """A row of `analyses`: without interval where it is a spread, without value too where every draw was dropped (0/0)."""
    value = None if row["low"] is None and row["dropped"] else row["value"]
    return Band(value, row["low"], row["high"], row["tasks"], row["draws"], row["dropped"])


def _band(row: Mapping[str, Any]) -> Band:
    empty = row["dropped"] >= row["draws"]
    value, low, high = (None, None, None) if empty else (row["value"], row["low"], row["high"])
    return Band(value, low, high, row["tasks"], row["draws"], row["dropped"])
