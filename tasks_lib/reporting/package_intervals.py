"""The intervals of a publication package, resampled anew from its outcomes with its own draws and seed.

This is the project's own bootstrap again, not a second code path: it proves that the published intervals are those of the published
outcomes. The sums have their second path in `package_check`.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from tasks_lib.reporting.package_check import near
from tasks_lib.scoring.analyses import analysis_rows
from tasks_lib.scoring.contrasts import cell_intervals, contrast_intervals, routing_intervals
from tasks_lib.store.schemas import ANALYSES, EPISODES, INTERVALS, ROUTING_EPISODES, Table

COLUMNS = ("value", "low", "high", "tasks", "draws", "dropped")
"""What is compared of an interval; a bound that is not given is empty on both sides."""


def outcomes(folder: Path, name: str, table: Table) -> pl.DataFrame:
    """Task-level outcomes as the table they came from."""
    empty = pl.from_arrow(table.schema.empty_table())
    assert isinstance(empty, pl.DataFrame)
    data = gzip.decompress((folder / name).read_bytes())
    frame = pl.read_csv(io.BytesIO(data), schema_overrides=dict(empty.schema))
    return frame.select(empty.columns).with_columns(pl.col(pl.String).fill_null(""))


def check_intervals(folder: Path) -> tuple[dict[str, int], list[str]]:
    """(intervals compared by table, problems, one sentence each)."""
    done: dict[str, int] = {}
    problems: list[str] = []
    episodes = outcomes(folder, "outcomes/episodes.csv.gz", EPISODES)
    published = pl.read_csv(folder / "tables/intervals.csv")
    draws, seed = published["draws"][0], published["seed"][0]
    counted = episodes.group_by("backend", maintain_order=True).agg(pl.col("cell_id").n_unique())
    whole = [backend for backend, cells in counted.iter_rows() if cells == 72]
    again = [*cell_intervals(episodes, draws, seed), *contrast_intervals(episodes, whole, draws, seed)]
    done["intervals_resampled"] = _compared("tables/intervals.csv", INTERVALS, published, again, problems)
    if (folder / "tables/analyses.csv").is_file():
        analyses = pl.read_csv(folder / "tables/analyses.csv", infer_schema_length=None)
        again = analysis_rows(episodes, whole, draws, seed)
        done["analyses_recomputed"] = _compared("tables/analyses.csv", ANALYSES, analyses, again, problems)
    if (folder / "outcomes/routing_episodes.csv.gz").is_file():
        routed = outcomes(folder, "outcomes/routing_episodes.csv.gz", ROUTING_EPISODES)
        published = pl.read_csv(folder / "tables/routing_intervals.csv")
        again = routing_intervals(routed, published["draws"][0], published["seed"][0])
        name = "tables/routing_intervals.csv"
        done["routing_intervals_resampled"] = _compared(name, INTERVALS, published, again, problems)
    return done, problems


def _compared(
    name: str, table: Table, published: pl.DataFrame, again: Iterable[Mapping[str, Any]], problems: list[str]
) -> int:
    wanted = {tuple(r[k] or "" for k in table.key): r for r in again}
    for row in published.iter_rows(named=True):
        key = tuple(row[k] or "" for k in table.key)
        where = f"{name}: {' '.join(filter(None, key))}"
        new = wanted.pop(key, None)
        if new is None:
            problems.append(f"{where} cannot be computed by this version of DSABench.")
        elif not all(_same(row[c], new[c]) for c in COLUMNS):
            found, expected = ([r[c] for c in COLUMNS[:3]] for r in (row, new))
            problems.append(f"{where} is published as {found}, the outcomes give {expected}.")
    problems += [f"{name}: {' '.join(filter(None, key))} is not published." for key in wanted]
    return published.height


def _same(a: float | None, b: float | None) -> bool:
    return a is b if a is None or b is None else near(float(a), float(b))
