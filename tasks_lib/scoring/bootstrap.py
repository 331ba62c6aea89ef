"""Task-cluster bootstrap as one count matrix shared by all subjects and metrics (PROTOCOL 14, known fault A01).

The base task is the cluster: a drawn task brings both branches, every matched cell and all its contributions, with
multiplicity; numerators and denominators are recomputed per draw. Percentile intervals, linear interpolation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
DRAWS, SEED = 5000, 20260


@dataclass(frozen=True, slots=True)
class Interval:
    """`value`: point value; `low`, `high`: 2.5 and 97.5 percentiles; `dropped`: draws with a zero denominator."""

    value: float
    low: float
    high: float
    dropped: int


def counts(tasks: int, draws: int = DRAWS, seed: int = SEED) -> Floats:
    """[draws, tasks] multiplicities of a seeded resample of base tasks with replacement."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, tasks, size=(draws, tasks))
    flat = (drawn + np.arange(draws)[:, None] * tasks).ravel()
    return np.bincount(flat, minlength=draws * tasks).reshape(draws, tasks).astype(np.float64)


def ratios(matrix: Floats, numerators: Floats, denominators: Floats) -> Floats:
    """[draws, subjects] resampled ratios; NaN where a denominator is zero. Inputs are [tasks, subjects]."""
    top, bottom = matrix @ numerators, matrix @ denominators
    out = np.full(top.shape, np.nan)
    np.divide(top, bottom, out=out, where=bottom != 0)
    return out


def interval(value: float, samples: Floats) -> Interval:
    """Percentile interval of one subject's draws; NaN draws are dropped and counted."""
    kept = samples[~np.isnan(samples)]
    dropped = int(samples.size - kept.size)
    if not kept.size:
        return Interval(value, 0.0, 0.0, dropped)
    low, high = np.percentile(kept, [2.5, 97.5], method="linear")
    return Interval(value, float(low), float(high), dropped)


def point(numerators: Floats, denominators: Floats) -> Floats:
    """[subjects] ratios of sums; 0 where the denominator is zero."""
    top, bottom = numerators.sum(axis=0), denominators.sum(axis=0)
    values: Floats = np.divide(top, bottom, out=np.zeros_like(top), where=bottom != 0)
    return values


def intervals(matrix: Floats, numerators: Floats, denominators: Floats) -> list[Interval]:
    """One interval per subject (column)."""
    samples = ratios(matrix, numerators, denominators)
    values = point(numerators, denominators)
    return [interval(float(values[j]), samples[:, j]) for j in range(values.size)]


def paired_mean_difference(matrix: Floats, a: tuple[Floats, Floats], b: tuple[Floats, Floats]) -> Interval:
    """Mean over matched subjects of metric(a) − metric(b), the same draws on both sides.

    `a`, `b`: (numerators, denominators), each [tasks, subjects], columns matched. A draw with a zero denominator in any matched
    subject is dropped.
    """
    value = float(np.mean(point(*a) - point(*b)))
    samples = np.mean(ratios(matrix, *a) - ratios(matrix, *b), axis=1)
    return interval(value, samples)


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
