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

COUNTS = tuple(f"{item}{part}" for item in ("model_calls", "sql_executions") for part in ("", "_made", "_unshared"))
RECORD_KEYS = ("run", "release", "status", "reason", "backends", "cost", "manifest", *COUNTS)
MANIFEST_KEYS = ("tasks", "by_corpus", "by_behavior", "by_difficulty", "origins")
CONTRIBUTION_COLUMNS = ("backend", "data_agent", "kind", "n")
SLICES = ("all", "corpus", "behavior")


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


@dataclass(frozen=True)
class RunTables:
    """Everything a page shows.

    `record`: run, release (folder name), status, reason, backends (`[{name, model}]` in report order), the six counts
    `model_calls`, `model_calls_made`, `model_calls_unshared`, `sql_executions…`, cost (`{known_usd, unknown_calls}`),
    manifest (tasks, by_corpus, by_behavior, by_difficulty, origins `{corpus: {origin: databases}}`) and, where it was
    measured, seconds.
    `metrics`, `intervals`, `routing_metrics`, `routing_intervals`, `episodes`, `audit`, `disagreement`: tables of `store.schemas`; the routing
    frames may be empty when no routing study ran. `contributions`: backend, data_agent, kind, n. `verification`: ok,
    recomputed_values, max_discrepancy, gold_certificate, leak_findings, problems. `baselines`: names of offline policies.

    `study`: further tables of the routing study by name (`reporting.routing_section`), those the run has.

    `comparison`: the run beside an earlier one of its release, where there is one.

    Raises ReportError when the record lacks a key or a frame a column.
    """

    record: Mapping[str, Any]
    metrics: pl.DataFrame
    intervals: pl.DataFrame
    routing_metrics: pl.DataFrame
    routing_intervals: pl.DataFrame
    episodes: pl.DataFrame
    contributions: pl.DataFrame
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

    def __post_init__(self) -> None:
        lost = [k for k in RECORD_KEYS if k not in self.record]
        lost += [f"manifest.{k}" for k in MANIFEST_KEYS if k not in self.record.get("manifest", {})]
        lost += [f"cost.{k}" for k in ("known_usd", "unknown_calls") if k not in self.record.get("cost", {})]
        if lost:
            raise ReportError(f"the run's record lacks {', '.join(lost)}; run the factorial again, results are kept.")
        gone = [c for c in CONTRIBUTION_COLUMNS if c not in self.contributions.columns]
        if gone:
            raise ReportError(f"the verdict counts lack {', '.join(gone)}, expected {', '.join(CONTRIBUTION_COLUMNS)}.")
        cells = set(self.metrics["cell_id"].unique().to_list())
        strays = sorted(cells - {c.cell_id for c in grid(self.backends)})
        if strays:
            raise ReportError(
                f"the metrics hold {len(strays)} cells of no backend of the record (first {strays[0]}); "
                f"expected backends {', '.join(self.backends)}."
            )
        metric = {
            (c, s, v, m): Ratio(n, d)
            for c, s, v, m, n, d in self.metrics.filter(pl.col("slice").is_in(SLICES))
            .select("cell_id", "slice", "value_of", "metric", "numerator", "denominator")
            .iter_rows()
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

    @property
    def backends(self) -> list[str]:
        """Backend names in report order."""
        return [str(b["name"]) for b in self.record["backends"]]

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


def _band(row: Mapping[str, Any]) -> Band:
    empty = row["dropped"] >= row["draws"]
    value, low, high = (None, None, None) if empty else (row["value"], row["low"], row["high"])
    return Band(value, low, high, row["tasks"], row["draws"], row["dropped"])
