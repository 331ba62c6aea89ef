"""One backend's cells resampled together, and which of them an analysis looks at (PROTOCOL 14).

Belongs here: choosing cells by their factors, and values and intervals over chosen cells. Does not belong here: what is looked at
(analyses) and what has no interval (spreads).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from tasks_lib.protocol.records import Cell
from tasks_lib.protocol.vocabulary import QueryMode
from tasks_lib.scoring.bootstrap import Counts, Floats, Interval, distinct, interval, quotients, sums
from tasks_lib.scoring.cells import parse
from tasks_lib.scoring.metrics import per_task

Fixed = Mapping[str, str | tuple[str, ...]]
"""Values of factors that are held fixed: one, or any of several."""
Metrics = Mapping[str, tuple[pl.Expr, pl.Expr]]
"""Numerator and denominator of an episode by metric."""
FACTORS = ("backend", "router", "data_agent", "planner", "interaction", "query_mode")
OPEN = (str(QueryMode.FUSED), str(QueryMode.ROUTER))
"""Request modes without privileged inputs."""


def chosen(cells: Iterable[Cell], fixed: Fixed) -> list[Cell]:
    """Cells whose factors have the fixed values."""
    wanted = {k: (v,) if isinstance(v, str) else v for k, v in fixed.items()}
    return [c for c in cells if all(str(getattr(c, k)) in values for k, values in wanted.items())]


def other_side(cell: Cell, factor: str, value: str) -> Cell:
    """The cell that differs in one factor alone."""
    parts = cell.cell_id.split(".")
    parts[FACTORS.index(factor)] = value
    return parse(".".join(parts))


def controls(fixed: Fixed) -> str:
    """Fixed values in words, such as `planner=llm, query_mode=fused or router`; empty when nothing is held fixed."""
    told = {k: (v,) if isinstance(v, str) else v for k, v in fixed.items()}
    return ", ".join(f"{name}={' or '.join(told[name])}" for name in FACTORS if name in told)


class Grid:
    """Numerators and denominators of one backend's cells in one scope, summed over its tasks and over each of its draws.

    Every distinct column is resampled once, however many analyses look at it.
    """

    def __init__(
        self,
        episodes: pl.DataFrame,
        matrix: Counts,
        tasks: Sequence[str],
        metrics: Metrics,
    ) -> None:
        """`episodes`: of the wanted cells in the scope. `matrix`: draws of `tasks`, the scope's base tasks in order."""
        place = {t: i for i, t in enumerate(tasks)}
        parts = per_task(episodes, dict(metrics), ["cell_id"]).partition_by("cell_id", as_dict=True)
        keys: list[tuple[str, str, str]] = []
        columns: list[Floats] = []
        for (cell_id,), part in parts.items():
            rows = part["task_id"].replace_strict(place, return_dtype=pl.Int64).to_numpy()
            for name in metrics:
                for side in "nd":
                    column = np.zeros(len(tasks))
                    column[rows] = part[f"{name}|{side}"].to_numpy()
                    keys.append((str(cell_id), name, side))
                    columns.append(column)
        self._columns, which = distinct(np.stack(columns, axis=1))
        self._which = dict(zip(keys, which.tolist(), strict=True))
        self._whole, self._drawn = self._columns.sum(axis=0), sums(matrix, self._columns)
        self.draws = len(matrix)

    def _sides(self, cells: Sequence[Cell], metric: str) -> tuple[list[int], list[int]]:
        return (
            [self._which[(c.cell_id, metric, "n")] for c in cells],
            [self._which[(c.cell_id, metric, "d")] for c in cells],
        )

    def parts(self, cells: Sequence[Cell], metric: str) -> tuple[float, float]:
        """(numerator, denominator) of the mean cell, in task-equivalents."""
        top, bottom = (float(self._whole[side].sum()) / len(cells) for side in self._sides(cells, metric))
        return top, bottom

    def counted(self, cells: Collection[Cell], metric: str) -> int:
        """Base tasks that the denominator of at least one of the cells counts."""
        return int((self._columns[:, self._sides(list(cells), metric)[1]] != 0).any(axis=1).sum())

    def values(self, cells: Sequence[Cell], metric: str) -> Floats:
        """Point values, [cells]; 0 for 0/0."""
        top, bottom = (self._whole[side] for side in self._sides(cells, metric))
        found: Floats = np.divide(top, bottom, out=np.zeros_like(top), where=bottom != 0)
        return found

    def _samples(self, cells: Sequence[Cell], metric: str) -> Floats:
        """[cells, draws]; NaN for 0/0."""
        top, bottom = self._sides(cells, metric)
        return quotients(self._drawn[top], self._drawn[bottom])

    def mean(self, cells: Sequence[Cell], metric: str, less: Sequence[Cell] = ()) -> Interval:
        """Mean over cells, less that over their matched cells; draws with a zero denominator in any of them are dropped."""
        samples, value = self._samples(cells, metric), self.values(cells, metric)
        if less:
            samples, value = samples - self._samples(less, metric), value - self.values(less, metric)
        return interval(float(np.mean(value)), np.mean(samples, axis=0))

    def pooled(self, cells: Sequence[Cell], metric: str) -> Interval:
        """Summed numerators over summed denominators."""
        sides = self._sides(cells, metric)
        top, bottom = (float(self._whole[side].sum()) for side in sides)
        drawn = [self._drawn[side].sum(axis=0, dtype=np.float64) for side in sides]
        return interval(top / bottom if bottom else 0.0, quotients(drawn[0], drawn[1]))


def plain_row(
    analysis: str, paper: str, subject: str, metric: str, statistic: str, value: float, cells: int, fixed: Fixed
) -> dict[str, Any]:
    """A row of `analyses` without interval and parts; backend and scope are set by whoever asks."""
    return {
        "analysis": analysis,
        "paper": paper,
        "subject": subject,
        "metric": metric,
        "statistic": statistic,
        "value": value,
        "low": None,
        "high": None,
        "numerator": None,
        "denominator": None,
        "counted": None,
        "cells": cells,
        "controls": controls(fixed),
        "dropped": 0,
        "selected": False,
        "marginal": False,
    }
