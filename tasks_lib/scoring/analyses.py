"""Every matched analysis of the factorial beside the cells' own values and contrasts (PROTOCOL 14), as rows of `analyses`.

Which cells and tasks an analysis looks at is data (`ANALYSES`). A fixed set of cells has a percentile interval of the shared draws;
what describes a spread of configurations (medians, quartiles, ranges) or was picked by looking at the scores (maxima, best of 72)
has none, and says so in `statistic` and `selected`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from tasks_lib.protocol.records import Cell
from tasks_lib.protocol.vocabulary import Corpus, DataAgent, Interaction, Planner, QueryMode, Router
from tasks_lib.scoring.bootstrap import Counts, Floats, Interval, counts, distinct, interval, quotients, sums
from tasks_lib.scoring.cells import grid, parse
from tasks_lib.scoring.metrics import CELL_METRICS, HEADLINE, G, H, S, T, W, per_task, truth

LABEL, EDGES = truth("label_ok"), truth("edges_ok")
METRICS = CELL_METRICS | {
    "Graph-given-Set": (W * G, W * S),
    "R+E-given-Graph": (W * G * T * H, W * G),
    "R+E-given-Set": (W * G * T * H, W * S),
    "Label-wrong-given-Set": (W * S * (1 - LABEL) * EDGES, W * S),
    "Edges-wrong-given-Set": (W * S * LABEL * (1 - EDGES), W * S),
    "Both-wrong-given-Set": (W * S * (1 - LABEL) * (1 - EDGES), W * S),
}
"""The cells' metrics, the transitions between gates, and which half of the graph gate failed where the set is right."""

Fixed = Mapping[str, str | tuple[str, ...]]
OPEN = (str(QueryMode.FUSED), str(QueryMode.ROUTER))
LLM_NEVER: Fixed = {"planner": str(Planner.LLM), "interaction": str(Interaction.NEVER)}
LLM_ONCE: Fixed = {"planner": str(Planner.LLM), "interaction": str(Interaction.ONCE)}
REFERENCE: Fixed = {
    "router": str(Router.HERMES),
    "data_agent": str(DataAgent.ADAPTER),
    "query_mode": str(QueryMode.ROUTER),
    **LLM_NEVER,
}
"""The one fixed cell whose transitions the paper shows."""
ORDINARY = "ordinary"
SCOPES: dict[str, pl.Expr] = {
    "all": pl.lit(True),
    ORDINARY: pl.col("behavior") != "interactive",
    "interactive": pl.col("behavior") == "interactive",
    "sequential": pl.col("behavior") == "sequential",
    **{str(c): pl.col("corpus") == str(c) for c in Corpus},
}


@dataclass(frozen=True, slots=True)
class Analysis:
    """One analysis of each backend. `cells`: values of factors held fixed; `scopes`: names of SCOPES.

    With `factor` the value is the mean over matched cells of metric(high) − metric(low), else the mean over the cells; `pooled`
    divides summed numerators by summed denominators. `by`: factors whose values are looked at apart as well.
    `marginal`: over the whole grid, privileged inputs included, so not interchangeable with fixed controls.
    """

    name: str
    paper: str
    metrics: tuple[str, ...]
    cells: Fixed = field(default_factory=dict)
    scopes: tuple[str, ...] = ("all",)
    factor: str = ""
    high: str = ""
    low: str = ""
    pooled: bool = False
    by: tuple[str, ...] = ()
    marginal: bool = False


def _differences() -> Iterable[Analysis]:
    """Matched differences: request modes, clarification, planners, routers, data agents; then the same over the whole grid."""
    mode, both = ("EA-Micro", "TEA", "R+E-Graph"), ("router", "data_agent")
    pairs: list[tuple[str, str, str, str, tuple[str, ...], Fixed, tuple[str, ...], tuple[str, ...]]] = [
        ("query_mode", QueryMode.ROUTER, QueryMode.FUSED, "Figure 3", mode, LLM_NEVER, both, ("all", ORDINARY)),
        ("query_mode", QueryMode.PRIVILEGED, QueryMode.ROUTER, "Figure 3", mode, LLM_NEVER, both, ("all", ORDINARY)),
        ("query_mode", QueryMode.PRIVILEGED, QueryMode.FUSED, "Figure 3", mode, LLM_NEVER, both, ("all", ORDINARY)),
    ]
    open_llm: Fixed = {"planner": str(Planner.LLM), "query_mode": OPEN}
    gates = ("RA-Set", "RA-Graph", "TEA", "R+E-Graph")
    pairs.append(
        ("interaction", Interaction.ONCE, Interaction.NEVER, "Table 23", gates, open_llm, both, ("interactive",))
    )
    pairs.append(("interaction", Interaction.ONCE, Interaction.NEVER, "Table 5", gates, open_llm, both, ("all",)))
    never_open: Fixed = {"interaction": str(Interaction.NEVER), "query_mode": OPEN}
    plan = ("Plan-Accuracy", "R+E-given-Set", "R+E-Graph")
    pairs.append(("planner", Planner.LLM, Planner.ORACLE, "Figure 4", plan, never_open, both, ("sequential",)))
    routed: Fixed = {**LLM_NEVER, "query_mode": OPEN}
    ends = (*HEADLINE, "Graph-given-Set", "R+E-given-Graph")
    scopes = ("all", ORDINARY)
    for high, low in (("react", "direct"), ("hermes", "direct"), ("hermes", "react")):
        pairs.append(("router", high, low, "router split", ends, routed, ("data_agent",), scopes))
    agents = (DataAgent.ADAPTER, DataAgent.TEXT_TO_SQL)
    pairs.append(("data_agent", *agents, "data-agent split", ends, routed, ("router",), scopes))
    for factor, high, low, paper, metrics, cells, by, where in pairs:
        yield Analysis(f"{high}−{low}", paper, metrics, cells, where, factor, high, low, by=by)
        if where != ("interactive",):
            yield Analysis(
                f"{high}−{low}, full grid", "E.4 marginal", metrics, {}, where, factor, high, low, marginal=True
            )


ANALYSES: tuple[Analysis, ...] = (
    Analysis(
        "reference cell",
        "Tables 4, 6, 17, 25",
        (*HEADLINE, "Graph-given-Set", "R+E-given-Graph"),
        REFERENCE,
        ("all", ORDINARY, *(str(c) for c in Corpus)),
    ),
    Analysis(
        "routers and data agents",
        "Table 25 beyond its one cell",
        (*HEADLINE, "Graph-given-Set", "R+E-given-Graph", "R+E-given-Set"),
        {**LLM_NEVER, "query_mode": OPEN},
        ("all", ORDINARY),
        pooled=True,
        by=("router", "data_agent"),
    ),
    Analysis("request modes", "Figure 3", ("EA-Micro", "TEA", "R+E-Graph"), LLM_NEVER, by=("query_mode",)),
    Analysis(
        "interactive tasks",
        "Table 23",
        ("RA-Set", "RA-Graph", "TEA", "R+E-Graph"),
        {"planner": str(Planner.LLM), "query_mode": OPEN},
        ("interactive",),
        by=("interaction",),
    ),
    Analysis(
        "clarification",
        "Table 37",
        ("Ask-Rate", "Release-Rate", "Change-per-Ask", "Repair-per-Ask", "Harm-per-Ask"),
        {**LLM_ONCE, "query_mode": OPEN},
        ("interactive",),
        pooled=True,
        by=("router",),
    ),
    Analysis(
        "planners",
        "Figure 4",
        ("Plan-Accuracy", "R+E-given-Set"),
        {"interaction": str(Interaction.NEVER), "query_mode": OPEN},
        ("sequential",),
        pooled=True,
        by=("planner",),
    ),
    Analysis(
        "label against edges",
        "the split of RA-Graph that G.5 could not make",
        ("Graph-given-Set", "Label-wrong-given-Set", "Edges-wrong-given-Set", "Both-wrong-given-Set"),
        {**LLM_NEVER, "query_mode": OPEN},
        ("all", ORDINARY, "sequential"),
        pooled=True,
        by=("router",),
    ),
    *_differences(),
)


USED = tuple(dict.fromkeys([*HEADLINE, *(metric for a in ANALYSES for metric in a.metrics)]))


class Grid:
    """Numerators and denominators of one backend's cells in one scope, summed over its tasks and over each of its draws.

    Every distinct column is resampled once, however many analyses look at it.
    """

    def __init__(self, episodes: pl.DataFrame, matrix: Counts, tasks: Sequence[str]) -> None:
        place = {t: i for i, t in enumerate(tasks)}
        parts = per_task(episodes, {m: METRICS[m] for m in USED}, ["cell_id"]).partition_by("cell_id", as_dict=True)
        keys, columns = [], []
        for (cell_id,), part in parts.items():
            rows = part["task_id"].replace_strict(place, return_dtype=pl.Int64).to_numpy()
            for name in USED:
                for side in "nd":
                    column = np.zeros(len(tasks))
                    column[rows] = part[f"{name}|{side}"].to_numpy()
                    keys.append((str(cell_id), name, side))
                    columns.append(column)
        different, which = distinct(np.stack(columns, axis=1))
        self._which = dict(zip(keys, which.tolist(), strict=True))
        self._whole, self._drawn = different.sum(axis=0), sums(matrix, different)
        self.draws = len(matrix)

    def _sides(self, cells: Sequence[Cell], metric: str) -> tuple[list[int], list[int]]:
        return (
            [self._which[(c.cell_id, metric, "n")] for c in cells],
            [self._which[(c.cell_id, metric, "d")] for c in cells],
        )

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


def chosen(cells: Iterable[Cell], fixed: Fixed) -> list[Cell]:
    """Cells whose factors have the fixed values (one, or any of several)."""
    wanted = {k: (v,) if isinstance(v, str) else v for k, v in fixed.items()}
    return [c for c in cells if all(str(getattr(c, k)) in values for k, values in wanted.items())]


def other_side(cell: Cell, factor: str, value: str) -> Cell:
    """The cell that differs in one factor alone."""
    parts = cell.cell_id.split(".")
    parts[("backend", "router", "data_agent", "planner", "interaction", "query_mode").index(factor)] = value
    return parse(".".join(parts))


def analysis_rows(episodes: pl.DataFrame, backends: Sequence[str], draws: int, seed: int) -> list[dict[str, Any]]:
    """Rows of `analyses` for backends whose 72 cells are all there; scopes without a task have none."""
    found: list[dict[str, Any]] = []
    for scope, condition in SCOPES.items():
        part = episodes.filter(condition)
        tasks = sorted(part["task_id"].unique().to_list())
        if not tasks:
            continue
        matrix = counts(len(tasks), draws, seed)
        for backend in backends:
            values = Grid(part.filter(pl.col("backend") == backend), matrix, tasks)
            rows = [r for a in ANALYSES if scope in a.scopes for r in _rows_of(a, values, backend)]
            if scope in ("all", ORDINARY):
                rows += _spread(values, backend) + _best(values, backend)
            for row in rows:
                drawn = row["low"] is not None
                row |= {"backend": backend, "scope": scope, "tasks": len(tasks)}
                row |= {"draws": draws if drawn else 0, "seed": seed if drawn else 0}
            found += rows
    return found


def _row(
    analysis: str, paper: str, subject: str, metric: str, statistic: str, value: float, cells: int
) -> dict[str, Any]:
    """A row without interval."""
    named = {"analysis": analysis, "paper": paper, "subject": subject, "metric": metric, "statistic": statistic}
    return {
        **named,
        "value": value,
        "low": None,
        "high": None,
        "cells": cells,
        "dropped": 0,
        "selected": False,
        "marginal": False,
    }


def _rows_of(a: Analysis, values: Grid, backend: str) -> list[dict[str, Any]]:
    cells = chosen(grid([backend]), {**a.cells, **({a.factor: a.high} if a.factor else {})})
    groups = {"all": cells} if a.factor or not a.by or a.pooled else {}
    for factor in a.by:
        for value in dict.fromkeys(str(getattr(c, factor)) for c in cells):
            groups[f"{factor}={value}"] = chosen(cells, {factor: value})
    rows = []
    for subject, some in groups.items():
        less = [other_side(c, a.factor, a.low) for c in some] if a.factor else []
        for metric in a.metrics:
            got = values.pooled(some, metric) if a.pooled else values.mean(some, metric, less)
            statistic = "difference" if a.factor else "pooled" if a.pooled else "mean"
            row = _row(a.name, a.paper, subject, metric, statistic, got.value, len(some))
            ends = (got.low, got.high) if got.dropped < values.draws else (None, None)
            rows.append(row | {"low": ends[0], "high": ends[1], "dropped": got.dropped, "marginal": a.marginal})
    return rows


def _spread(values: Grid, backend: str) -> list[dict[str, Any]]:
    """Median, quartiles and maximum over the 12 open cells of the LLM planner, by interaction (Tables 5 and 24)."""
    rows = []
    for interaction in Interaction:
        fixed: Fixed = {"planner": str(Planner.LLM), "query_mode": OPEN, "interaction": str(interaction)}
        cells = chosen(grid([backend]), fixed)
        for metric in HEADLINE:
            got = values.values(cells, metric)
            q1, median, q3 = (float(v) for v in np.percentile(got, [25, 50, 75], method="linear"))
            for statistic, value in (("median", median), ("q1", q1), ("q3", q3), ("maximum", float(got.max()))):
                row = _row("configurations", "Tables 5, 24", f"interaction={interaction}", metric, statistic, value, 12)
                rows.append(row | {"selected": statistic == "maximum"})
    return rows


def _best(values: Grid, backend: str) -> list[dict[str, Any]]:
    """The four cells of the 72 with the highest R+E-Graph (ties in grid order): picked on these very scores (Tables 33-36)."""
    cells = grid([backend])
    scores = values.values(cells, "R+E-Graph")
    rows = []
    for rank, place in enumerate(np.lexsort((np.arange(len(cells)), -np.round(scores, 12)))[:4], 1):
        cell = cells[place]
        for metric in ("EA-Micro", "R+E-Graph"):
            value = float(values.values([cell], metric)[0])
            row = _row("best of 72", "Tables 33-36", cell.cell_id, metric, f"rank {rank}", value, 1)
            rows.append(row | {"selected": True})
    return rows
