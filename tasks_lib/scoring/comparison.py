"""Two runs side by side (PROTOCOL 14): paired differences over the tasks both hold, and McNemar's test on ordinary tasks.

Belongs here: the statistics of episodes already scored. Does not belong here: which runs may be compared and what differs between
them (`flows.compare`), and how it is shown (`reporting.comparison`). "Now" is the run that is asked about, "before" the other one;
a difference is now − before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from tasks_lib.protocol.records import Cell
from tasks_lib.protocol.vocabulary import Interaction, Planner
from tasks_lib.scoring.analyses import OPEN, REFERENCE
from tasks_lib.scoring.bootstrap import DRAWS, SEED, Counts, Floats, Interval, counts, interval, quotients, sums
from tasks_lib.scoring.cells import grid
from tasks_lib.scoring.metrics import CELL_METRICS, HEADLINE, G, H, S, T, per_task

REFERENCE_CELL = "reference cell"
MEDIAN = {i: f"median of 12 cells, {i}" for i in Interaction}
"""What is compared beside the reference cell: the headline's medians, one without and one with clarification."""
OUTCOMES: dict[str, pl.Expr] = {"RA-Set": S, "RA-Graph": G, "R+E-Graph": G * T * H}
"""Outcomes that are 0 or 1 on an ordinary task."""
COLUMNS = (
    "cell_id",
    "task_id",
    "branch_id",
    "behavior",
    "weight",
    "required",
    "correct",
    "ran",
    "valid",
    "s",
    "g",
    "t",
    "h",
)
"""Columns of `episodes` that a comparison reads."""


class NotComparable(ValueError):
    """Two runs, or two backends of theirs, that cannot be set beside each other."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One headline value of both runs. `subject`: the reference cell or a median; None for 0/0. `difference`: now − before, with the
    95 % interval of the paired draws, None when a side is 0/0."""

    subject: str
    metric: str
    now: float | None
    before: float | None
    difference: Interval | None


@dataclass(frozen=True, slots=True)
class McNemar:
    """McNemar's test with continuity correction. `gained`: right now only; `lost`: right before only.

    `statistic`: (|gained − lost| − 1)² / (gained + lost), and 0 where both are equal; None when no outcome differs, where there is
    nothing to test and `p` is 1. `p`: of the chi-squared distribution with one degree of freedom.
    """

    gained: int
    lost: int
    statistic: float | None
    p: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """One 0/1 outcome of the ordinary tasks in the reference cell. `gained`, `lost`: task ids in order."""

    metric: str
    tasks: int
    test: McNemar
    gained: tuple[str, ...]
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """Everything about one backend in two runs. `tasks`: base tasks both runs hold; `draws`, `seed`: of the intervals."""

    backend: str
    other: str
    tasks: int
    draws: int
    seed: int
    differences: tuple[Difference, ...]
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that is not the same in both runs, such as a setting or a prompt file, as words."""

    name: str
    now: str
    before: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run beside an earlier one of the same release. `conditions`: all that differs. `left_out`: why backends were not compared."""

    run: str
    other: str
    conditions: tuple[Condition, ...]
    compared: tuple[Compared, ...]
    left_out: tuple[str, ...] = ()


def mcnemar(gained: int, lost: int) -> McNemar:
    """The test of two discordant counts."""
    if gained + lost == 0:
        return McNemar(0, 0, None, 1.0)
    # The correction brings the difference towards zero, never past it.
    statistic = max(abs(gained - lost) - 1, 0) ** 2 / (gained + lost)
    return McNemar(gained, lost, statistic, math.erfc(math.sqrt(statistic / 2)))


def open_cells(backend: str) -> tuple[Cell, ...]:
    """The cells of a backend that a comparison reads: LLM planner, requests that are not privileged."""
    return tuple(c for c in grid([backend]) if c.planner is Planner.LLM and str(c.query_mode) in OPEN)


def compare_backend(
    backend: str, now: pl.DataFrame, other: str, before: pl.DataFrame, draws: int = DRAWS, seed: int = SEED
) -> Compared:
    """One backend against itself, or another, in an earlier run. Frames: episodes of its open cells, with COLUMNS.

    Only the tasks that both frames hold count. Raises NotComparable when there are none, or when a cell is missing.
    """
    tasks = sorted(set(now["task_id"]) & set(before["task_id"]))
    if not tasks:
        raise NotComparable(f"{backend} and {other} have no task in common, expected at least one; compare other runs.")
    now, before = (frame.filter(pl.col("task_id").is_in(tasks)) for frame in (now, before))
    odd = (
        _weights(now)
        .join(_weights(before), on=["task_id", "branch_id"], how="full", coalesce=True)
        .filter(pl.col("weight").ne_missing(pl.col("weight_right")))
    )
    if odd.height:
        raise NotComparable(
            f"task {odd['task_id'].sort()[0]} has other episodes in the two runs, expected the same; compare runs of one release."
        )
    matrix = counts(len(tasks), draws, seed)
    mine = _draws(matrix, _per_cell(now, backend, tasks))
    theirs = _draws(matrix, _per_cell(before, other, tasks))
    places = [i for i, c in enumerate(open_cells(backend)) if _is_reference(c)]
    differences = [_difference(REFERENCE_CELL, m, mine[m], theirs[m], places) for m in HEADLINE]
    for interaction, name in MEDIAN.items():
        places = [i for i, c in enumerate(open_cells(backend)) if c.interaction is interaction]
        differences += [_difference(name, m, mine[m], theirs[m], places) for m in HEADLINE]
    return Compared(backend, other, len(tasks), draws, seed, tuple(differences), _outcomes(now, backend, before, other))


def _is_reference(cell: Cell) -> bool:
    return all(str(getattr(cell, name)) == value for name, value in REFERENCE.items())


def _weights(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select("task_id", "branch_id", "weight").unique()


@dataclass(frozen=True, slots=True)
class _Sampled:
    """A metric of every open cell. `point`: [cells], NaN for 0/0; `samples`: [draws, cells], NaN where a draw is 0/0."""

    point: Floats
    samples: Floats


def _per_cell(frame: pl.DataFrame, backend: str, tasks: Sequence[str]) -> Mapping[str, tuple[Floats, Floats]]:
    """{metric: (numerators, denominators)}, each [tasks, open cells]. Raises NotComparable when a cell lacks a task."""
    cells = {c.cell_id: i for i, c in enumerate(open_cells(backend))}
    place = {t: i for i, t in enumerate(tasks)}
    sums_of = per_task(frame.filter(pl.col("cell_id").is_in(list(cells))), _headline(), ["cell_id"])
    if sums_of.height != len(cells) * len(tasks):
        raise NotComparable(
            f"{backend} has {sums_of.height} tasks over its open cells, expected {len(cells)} × {len(tasks)}; resume its run."
        )
    rows = sums_of["task_id"].replace_strict(place, return_dtype=pl.Int64).to_numpy()
    columns = sums_of["cell_id"].replace_strict(cells, return_dtype=pl.Int64).to_numpy()
    found = {}
    for metric in HEADLINE:
        top, bottom = np.zeros((len(tasks), len(cells))), np.zeros((len(tasks), len(cells)))
        top[rows, columns] = sums_of[f"{metric}|n"].to_numpy()
        bottom[rows, columns] = sums_of[f"{metric}|d"].to_numpy()
        found[metric] = (top, bottom)
    return found


def _headline() -> dict[str, tuple[pl.Expr, pl.Expr]]:
    return {m: CELL_METRICS[m] for m in HEADLINE}


def _draws(matrix: Counts, parts: Mapping[str, tuple[Floats, Floats]]) -> dict[str, _Sampled]:
    return {
        metric: _Sampled(
            quotients(top.sum(axis=0), bottom.sum(axis=0)), quotients(sums(matrix, top), sums(matrix, bottom)).T
        )
        for metric, (top, bottom) in parts.items()
    }


def _difference(subject: str, metric: str, now: _Sampled, before: _Sampled, places: Sequence[int]) -> Difference:
    """Median over the cells at `places` (of one cell: its value) now and before, the same draws on both sides."""
    a, b = (float(_median(s.point[None, places])[0]) for s in (now, before))
    shown = [None if math.isnan(v) else v for v in (a, b)]
    if None in shown:
        return Difference(subject, metric, shown[0], shown[1], None)
    samples = _median(now.samples[:, places]) - _median(before.samples[:, places])
    return Difference(subject, metric, a, b, interval(a - b, samples))


def _median(values: Floats) -> npt.NDArray[np.float64]:
    """Median of each row over what is not NaN; NaN where all is. As the headline has it: a cell of 0/0 has no say."""
    if not np.isnan(values).any():
        return np.asarray(np.median(values, axis=1))
    whole = ~np.isnan(values).all(axis=1)
    found = np.full(len(values), np.nan)
    found[whole] = np.nanmedian(values[whole], axis=1)
    return found


def _outcomes(now: pl.DataFrame, backend: str, before: pl.DataFrame, other: str) -> tuple[Outcome, ...]:
    """0/1 outcomes of the ordinary tasks in the reference cell of both runs."""
    sides = []
    for frame, name in ((now, backend), (before, other)):
        (cell,) = (c for c in open_cells(name) if _is_reference(c))
        ordinary = frame.filter((pl.col("cell_id") == cell.cell_id) & (pl.col("behavior") != "interactive"))
        sides.append(ordinary.select("task_id", **{m: e == 1 for m, e in OUTCOMES.items()}))
    both = sides[0].join(sides[1], on="task_id", suffix=" before").sort("task_id")
    found = []
    for metric in OUTCOMES:
        right, was = pl.col(metric), pl.col(f"{metric} before")
        gained, lost = (both.filter(e)["task_id"].to_list() for e in (right & ~was, was & ~right))
        found.append(Outcome(metric, both.height, mcnemar(len(gained), len(lost)), tuple(gained), tuple(lost)))
    return tuple(found)
