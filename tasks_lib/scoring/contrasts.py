"""Matched contrasts with their intervals (PROTOCOL 14): every other factor held fixed, the same draws on both sides.

Which cells a contrast compares is data (`CONTRASTS`); how it is computed is `Grid.mean` of grids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tasks_lib.protocol.records import Cell
from tasks_lib.protocol.vocabulary import DataAgent, Interaction, Planner, QueryMode, Router
from tasks_lib.scoring.bootstrap import DRAWS, SEED, Counts, Floats, counts, intervals, stack
from tasks_lib.scoring.cells import grid
from tasks_lib.scoring.grids import Grid, Metrics, chosen, other_side
from tasks_lib.scoring.metrics import CELL_METRICS, HEADLINE, ROUTING, per_task


@dataclass(frozen=True, slots=True)
class Contrast:
    """`high` − `low` of one factor. `fixed`: values held fixed; `scope`: behavior whose tasks are compared, or all."""

    name: str
    factor: str
    high: str
    low: str
    fixed: Mapping[str, tuple[str, ...]]
    metrics: tuple[str, ...]
    scope: str = "all"


OPEN_MODES = (str(QueryMode.FUSED), str(QueryMode.ROUTER))
LLM, NEVER = (str(Planner.LLM),), (str(Interaction.NEVER),)
CONTRASTS = (
    Contrast(
        "router−fused",
        "query_mode",
        QueryMode.ROUTER,
        QueryMode.FUSED,
        {"planner": LLM, "interaction": NEVER},
        ("EA-Micro", "R+E-Graph"),
    ),
    Contrast(
        "privileged−router",
        "query_mode",
        QueryMode.PRIVILEGED,
        QueryMode.ROUTER,
        {"planner": LLM, "interaction": NEVER},
        ("EA-Micro", "R+E-Graph"),
    ),
    Contrast(
        "once−never",
        "interaction",
        Interaction.ONCE,
        Interaction.NEVER,
        {"planner": LLM, "query_mode": OPEN_MODES},
        ("RA-Set", "RA-Graph", "R+E-Graph"),
        "interactive",
    ),
    Contrast(
        "once−never",
        "interaction",
        Interaction.ONCE,
        Interaction.NEVER,
        {"planner": LLM, "query_mode": OPEN_MODES},
        ("R+E-Graph",),
    ),
    Contrast(
        "llm−oracle",
        "planner",
        Planner.LLM,
        Planner.ORACLE,
        {"interaction": NEVER, "query_mode": OPEN_MODES},
        ("Plan-Accuracy", "R+E-Graph"),
        "sequential",
    ),
    Contrast(
        "react−direct",
        "router",
        Router.REACT,
        Router.DIRECT,
        {"planner": LLM, "interaction": NEVER, "query_mode": OPEN_MODES},
        ("RA-Set", "R+E-Graph"),
    ),
    Contrast(
        "hermes−direct",
        "router",
        Router.HERMES,
        Router.DIRECT,
        {"planner": LLM, "interaction": NEVER, "query_mode": OPEN_MODES},
        ("RA-Set", "R+E-Graph"),
    ),
    Contrast(
        "adapter−text_to_sql",
        "data_agent",
        DataAgent.ADAPTER,
        DataAgent.TEXT_TO_SQL,
        {"planner": LLM, "interaction": NEVER, "query_mode": OPEN_MODES},
        ("EA-Micro", "R+E-Graph"),
    ),
)


def matched_pairs(contrast: Contrast, backend: str) -> list[tuple[Cell, Cell]]:
    """(high, low) cells of one backend that differ in the factor alone."""
    high = chosen(grid([backend]), {**contrast.fixed, contrast.factor: contrast.high})
    return [(cell, other_side(cell, contrast.factor, contrast.low)) for cell in high]


def _columns(
    frame: pl.DataFrame, by: Sequence[str], tasks: Sequence[str], metrics: Sequence[str]
) -> dict[tuple[Any, ...], Floats]:
    """{(subject…, metric): [tasks, 2] numerators and denominators} in the order of `tasks`."""
    chosen = {m: CELL_METRICS[m] for m in metrics}
    place = {t: i for i, t in enumerate(tasks)}
    found: dict[tuple[Any, ...], Floats] = {}
    for subject, part in per_task(frame, chosen, by).group_by(list(by), maintain_order=True):
        rows = part["task_id"].replace_strict(place, return_dtype=pl.Int64).to_numpy()
        for name in metrics:
            column = np.zeros((len(tasks), 2))
            column[rows, 0] = part[f"{name}|n"].to_numpy()
            column[rows, 1] = part[f"{name}|d"].to_numpy()
            found[(*subject, name)] = column
    return found


def _row(subject: str, metric: str, scope: str, got: Any, tasks: int, draws: int, seed: int) -> dict[str, Any]:
    return {
        "subject": subject,
        "metric": metric,
        "scope": scope,
        "value": got.value,
        "low": got.low,
        "high": got.high,
        "tasks": tasks,
        "draws": draws,
        "dropped": got.dropped,
        "seed": seed,
    }


def subject_intervals(
    frame: pl.DataFrame, by: Sequence[str], metrics: Sequence[str], draws: int = DRAWS, seed: int = SEED
) -> list[dict[str, Any]]:
    """Rows of `intervals`: each metric of each subject (columns `by` joined by dots) over all base tasks."""
    tasks = sorted(frame["task_id"].unique().to_list())
    columns = _columns(frame, by, tasks, metrics)
    matrix = counts(len(tasks), draws, seed)
    keys = list(columns)
    got = intervals(matrix, stack([columns[k][:, 0] for k in keys]), stack([columns[k][:, 1] for k in keys]))
    return [
        _row(".".join(map(str, k[:-1])), str(k[-1]), "all", g, len(tasks), draws, seed)
        for k, g in zip(keys, got, strict=True)
    ]


def cell_intervals(episodes: pl.DataFrame, draws: int = DRAWS, seed: int = SEED) -> list[dict[str, Any]]:
    """Intervals of the eight headline values of every cell."""
    return subject_intervals(episodes, ["cell_id"], HEADLINE, draws, seed)


def routing_intervals(rows: pl.DataFrame, draws: int = DRAWS, seed: int = SEED) -> list[dict[str, Any]]:
    """Intervals of the routing study's metrics by backend and router."""
    return subject_intervals(rows, ["backend", "router"], tuple(ROUTING), draws, seed)


def contrast_intervals(
    episodes: pl.DataFrame, backends: Sequence[str], draws: int = DRAWS, seed: int = SEED
) -> list[dict[str, Any]]:
    """Rows of `intervals` for every contrast and backend; subject `<backend>: <contrast>`."""
    found = []
    for scope in dict.fromkeys(c.scope for c in CONTRASTS):
        part = episodes if scope == "all" else episodes.filter(pl.col("behavior") == scope)
        tasks = sorted(part["task_id"].unique().to_list())
        if not tasks:
            continue
        wanted = [c for c in CONTRASTS if c.scope == scope]
        metrics = {m: CELL_METRICS[m] for m in sorted({m for c in wanted for m in c.metrics})}
        matrix = counts(len(tasks), draws, seed)
        grids = {backend: _grid(part, backend, wanted, matrix, tasks, metrics) for backend in backends}
        for contrast in wanted:
            for backend in backends:
                high, low = zip(*matched_pairs(contrast, backend), strict=True)
                for metric in contrast.metrics:
                    got = grids[backend].mean(high, metric, low)
                    found.append(_row(f"{backend}: {contrast.name}", metric, scope, got, len(tasks), draws, seed))
    return found


def _grid(
    part: pl.DataFrame,
    backend: str,
    wanted: Sequence[Contrast],
    matrix: Counts,
    tasks: Sequence[str],
    metrics: Metrics,
) -> Grid:
    """The cells of one backend that contrasts compare."""
    cells = {c.cell_id for contrast in wanted for pair in matched_pairs(contrast, backend) for c in pair}
    return Grid(part.filter(pl.col("cell_id").is_in(sorted(cells))), matrix, tasks, metrics)
