"""Task-cluster bootstrap as one count matrix shared by all subjects and metrics (PROTOCOL 14, known fault A01).

The base task is the cluster: a drawn task brings both branches, every matched cell and all its contributions, with
multiplicity; numerators and denominators are recomputed per draw. Percentile intervals, linear interpolation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.float32]
DRAWS, SEED = 5000, 20260
BOUNDS = [2.5, 97.5]
BLOCK = 128
"""Resamples or subjects worked on at a time, which bounds memory."""
EXACT = 2.0**22
"""Sums below it keep halves in single precision."""


@dataclass(frozen=True, slots=True)
class Interval:
    """`value`: point value; `low`, `high`: 2.5 and 97.5 percentiles; `dropped`: draws with a zero denominator."""

    value: float
    low: float
    high: float
    dropped: int


def counts(tasks: int, draws: int = DRAWS, seed: int = SEED) -> Counts:
    """[draws, tasks] multiplicities of a seeded resample of base tasks with replacement.

    Drawn a block of resamples after the other: the stream is the same, and memory is the matrix alone.
    """
    rng = np.random.default_rng(seed)
    matrix = np.empty((draws, tasks), dtype=np.float32)
    for begin in range(0, draws, BLOCK):
        size = min(BLOCK, draws - begin)
        drawn = rng.integers(0, tasks, size=(size, tasks))
        drawn += np.arange(size)[:, None] * tasks
        matrix[begin : begin + size] = np.bincount(drawn.ravel(), minlength=size * tasks).reshape(size, tasks)
    return matrix


def sums(matrix: Counts, columns: Floats) -> npt.NDArray[np.floating[Any]]:
    """[subjects, draws] resampled sums of columns [tasks, subjects].

    Sums of halves below 2^22 are exact in single precision, whatever their order, and cost half; all others are added in double.
    """
    if _exact(columns):
        return columns.T.astype(np.float32) @ matrix.T
    found = np.empty((columns.shape[1], matrix.shape[0]))
    for begin in range(0, matrix.shape[0], BLOCK):
        found[:, begin : begin + BLOCK] = columns.T @ matrix[begin : begin + BLOCK].T.astype(np.float64)
    return found


def _exact(columns: Floats) -> bool:
    """Halves throughout, of which a whole resample adds up to less than EXACT; looked at a block after the other."""
    for begin in range(0, columns.shape[1], BLOCK):
        doubled = 2 * columns[:, begin : begin + BLOCK]
        if len(columns) * np.abs(doubled).max(initial=0) >= 2 * EXACT or (np.rint(doubled) != doubled).any():
            return False
    return True


def quotients(top: npt.NDArray[np.floating[Any]], bottom: npt.NDArray[np.floating[Any]]) -> Floats:
    """top / bottom in double precision, NaN where the denominator is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        out: Floats = np.divide(top, bottom, dtype=np.float64)
    empty = bottom == 0
    if empty.any():
        out[empty] = np.nan
    return out


def interval(value: float, samples: Floats) -> Interval:
    """Percentile interval of one subject's draws; NaN draws are dropped and counted."""
    kept = samples[~np.isnan(samples)]
    dropped = int(samples.size - kept.size)
    if not kept.size:
        return Interval(value, 0.0, 0.0, dropped)
    low, high = np.percentile(kept, BOUNDS, method="linear")
    return Interval(value, float(low), float(high), dropped)


def point(numerators: Floats, denominators: Floats) -> Floats:
    """[subjects] ratios of sums; 0 where the denominator is zero."""
    top, bottom = numerators.sum(axis=0), denominators.sum(axis=0)
    values: Floats = np.divide(top, bottom, out=np.zeros_like(top), where=bottom != 0)
    return values


def intervals(matrix: Counts, numerators: Floats, denominators: Floats) -> list[Interval]:
    """One interval per subject (column). Equal columns are resampled once: cells of one chain share most of them, and one
    metric's numerator is the other's denominator."""
    subjects = numerators.shape[1]
    columns, which = distinct(np.concatenate([numerators, denominators], axis=1))
    pairs, pair_of = np.unique(np.stack([which[:subjects], which[subjects:]]), axis=1, return_inverse=True)
    resampled = sums(matrix, columns)
    found: list[tuple[float, float, int]] = []
    for begin in range(0, pairs.shape[1], BLOCK):
        top, bottom = pairs[:, begin : begin + BLOCK]
        found += _bounds(quotients(resampled[top], resampled[bottom]))
    values = point(numerators, denominators)
    return [Interval(float(value), *found[pair]) for value, pair in zip(values, pair_of.ravel(), strict=True)]


def _bounds(samples: Floats) -> list[tuple[float, float, int]]:
    """(low, high, dropped) of each row of [subjects, draws], which is sorted in place (NaN last); as `interval` gives them."""
    samples.sort(axis=1)
    dropped = np.zeros(len(samples), dtype=np.int64)
    some = np.isnan(samples[:, -1])
    dropped[some] = np.isnan(samples[some]).sum(axis=1)
    found = [(0.0, 0.0, samples.shape[1])] * len(samples)
    for n in np.unique(dropped):
        rows, kept = np.flatnonzero(dropped == n), samples.shape[1] - int(n)
        if not kept:
            continue
        ends = [_linear(samples, rows, (kept - 1) * np.true_divide(bound, 100)) for bound in BOUNDS]
        for place, low, high in zip(rows, *ends, strict=True):
            found[place] = (float(low), float(high), int(n))
    return found


def _linear(samples: Floats, rows: npt.NDArray[np.int64], place: float) -> Floats:
    """Values of some sorted rows at a fractional place: numpy's linear rule, to the last bit."""
    below = int(place)
    share = place - below
    a, b = samples[rows, below], samples[rows, min(below + 1, samples.shape[1] - 1)]
    value: Floats = b - (b - a) * (1 - share) if share >= 0.5 else a + (b - a) * share
    return value


def distinct(columns: Floats) -> tuple[Floats, npt.NDArray[np.int64]]:
    """(the distinct columns in order of appearance, which of them each column is)."""
    rows = np.ascontiguousarray(columns.T)  # a column in one piece, as it is compared here and multiplied later
    seen: dict[bytes, int] = {}
    which = np.array([seen.setdefault(row.tobytes(), len(seen)) for row in rows], dtype=np.int64)
    if len(seen) < len(rows):
        rows = rows[np.unique(which, return_index=True)[1]]
    return rows.T, which


def wilson(successes: int, n: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """Wilson interval; only for 0/1 outcomes of weight 1."""
    if n == 0:
        return 0.0, 0.0
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return float(centre - half), float(centre + half)


def stack(columns: Sequence[Floats]) -> Floats:
    """[tasks, subjects] from per-subject vectors."""
    return np.stack(columns, axis=1)
