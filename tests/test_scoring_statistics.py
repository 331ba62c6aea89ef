"""Bootstrap, contrasts, recomputation: each against hand-made numbers (known fault A01)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks_lib.scoring.bootstrap import Floats, Interval, counts, interval, intervals, quotients, sums, wilson
from tasks_lib.scoring.cells import parse
from tasks_lib.scoring.contrasts import CONTRASTS, matched_pairs
from tasks_lib.scoring.grids import Grid
from tasks_lib.scoring.metrics import HEADLINE
from tasks_lib.scoring.recompute import check


def test_clusters_move_together() -> None:
    """A01: 100 tasks × 12 equal rows, every fifth task right: mean 0.20, standard error 0.040, interval about [0.12, 0.28]."""
    score = np.array([[12.0 if i % 5 == 0 else 0.0] for i in range(100)])
    total = np.full((100, 1), 12.0)
    matrix = counts(100)
    assert matrix.shape == (5000, 100)
    assert (matrix.sum(axis=1) == 100).all()
    samples = quotients(sums(matrix, score), sums(matrix, total))
    assert 0.038 <= samples.std() <= 0.042
    (got,) = intervals(matrix, score, total)
    assert got.value == 0.2
    assert 0.115 <= got.low <= 0.135
    assert 0.27 <= got.high <= 0.29


def test_the_seed_decides_the_draws() -> None:
    assert (counts(30, 50) == counts(30, 50)).all()
    assert (counts(30, 50, seed=1) != counts(30, 50, seed=2)).any()


def test_resamples_are_one_stream_whatever_the_block() -> None:
    drawn = np.random.default_rng(5).integers(0, 7, size=(300, 7))
    assert (counts(7, 300, 5) == np.stack([np.bincount(row, minlength=7) for row in drawn])).all()


def test_intervals_are_numpys_percentiles_of_each_subject() -> None:
    """Halves, thirds, equal columns and rare denominators: to the last bit what one subject after the other gives."""
    rng = np.random.default_rng(2)
    halves = rng.integers(0, 3, (60, 40)) / 2
    thirds = rng.integers(0, 4, (60, 40)) / 3
    rare: Floats = (rng.random((60, 40)) < 0.04).astype(np.float64)
    rare[7] = 1.0
    matrix = counts(60, 700)
    ones = np.ones_like(thirds)
    some: Floats = halves * rare
    sides: list[tuple[Floats, Floats]] = [(halves, ones), (thirds, ones), (some, rare)]
    for top, bottom in sides:
        found = intervals(matrix, np.hstack([top, top]), np.hstack([bottom, bottom]))
        assert found[:40] == found[40:]
        for subject, got in enumerate(found[:40]):
            draws = matrix.astype(float)
            below = draws @ bottom[:, subject]
            samples = (draws @ top[:, subject])[below != 0] / below[below != 0]
            assert got.dropped == (below == 0).sum()
            assert (got.low, got.high) == pytest.approx(np.percentile(samples, [2.5, 97.5]), abs=1e-14)
        assert found[0] == interval(found[0].value, quotients(sums(matrix, top), sums(matrix, bottom))[0])


def test_zero_denominators_are_dropped_and_counted() -> None:
    numerators, denominators = np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]])
    (got,) = intervals(counts(2, 4000), numerators, denominators)
    assert 800 <= got.dropped <= 1200
    assert (got.value, got.low, got.high) == (1.0, 1.0, 1.0)
    (none,) = intervals(counts(2, 10), numerators * 0, denominators * 0)
    assert (none.value, none.dropped) == (0.0, 10)


HIGH, LOW = (parse(f"x.react.adapter.llm.never.{mode}") for mode in ("router", "fused"))


def difference(high: list[float], low: list[float], draws: int) -> Interval:
    """Mean of one cell's tasks less that of a matched cell's."""
    tasks = [f"t{i:02}" for i in range(len(high))]
    sides = ((HIGH, high), (LOW, low))
    rows = pl.DataFrame(
        {
            "cell_id": [cell.cell_id for cell, side in sides for _ in side],
            "task_id": [*tasks, *tasks],
            "v": [v for _, side in sides for v in side],
        }
    )
    found = Grid(rows, counts(len(tasks), draws), tasks, {"mean": (pl.col("v"), pl.col("v") * 0 + 1)})
    return found.mean([HIGH], "mean", [LOW])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 1), min_size=5, max_size=30))
def test_a_paired_difference_of_equal_sides_is_zero(side: list[float]) -> None:
    got = difference([float(v) for v in side], [float(v) for v in side], 200)
    assert (got.value, got.low, got.high) == (0.0, 0.0, 0.0)


def test_paired_difference_by_hand() -> None:
    """The cells differ on one of two tasks: drawn twice it makes 1, not drawn 0."""
    got = difference([1.0, 1.0], [1.0, 0.0], 4000)
    assert (got.value, got.low, got.high) == (0.5, 0.0, 1.0)


def test_wilson_by_hand() -> None:
    """8 of 10: 0.4902 to 0.9433."""
    low, high = wilson(8, 10)
    assert (round(low, 4), round(high, 4)) == (0.4902, 0.9433)
    assert wilson(0, 0) == (0.0, 0.0)


def test_contrasts_are_matched() -> None:
    """Cells of a pair differ in the factor alone; the numbers of pairs are the paper's."""
    sizes = {(c.name, c.scope): len(matched_pairs(c, "x")) for c in CONTRASTS}
    assert sizes[("router−fused", "all")] == 6
    assert sizes[("once−never", "interactive")] == 12
    for contrast in CONTRASTS:
        for high, low in matched_pairs(contrast, "x"):
            differ = [
                n
                for n in ("router", "data_agent", "planner", "interaction", "query_mode")
                if getattr(high, n) != getattr(low, n)
            ]
            assert differ == [contrast.factor]


def _episodes(path: Path) -> pl.DataFrame:
    rng = np.random.default_rng(7)
    rows = []
    for cell in ("c1", "c2"):
        for task in range(40):
            for branch in ("b0", "b1") if task % 4 == 0 else ("",):
                s, label, edges, t, h = (bool(x) for x in rng.integers(0, 2, 5))
                rows.append(
                    {
                        "cell_id": cell,
                        "task_id": f"t{task}",
                        "branch_id": branch,
                        "weight": 0.5 if branch else 1.0,
                        "s": s,
                        "label_ok": label,
                        "edges_ok": edges,
                        "g": s and label and edges,
                        "t": t,
                        "h": h,
                        "bindings_ok": True,
                        "required": 2,
                        "correct": 2 if t else int(rng.integers(0, 2)),
                    }
                )
    frame = pl.DataFrame(rows)
    frame.write_parquet(path)
    return frame


def _published(frame: pl.DataFrame) -> pl.DataFrame:
    from tasks_lib.scoring.metrics import CELL_METRICS, per_task

    chosen = {m: CELL_METRICS[m] for m in HEADLINE}
    sums = per_task(frame, chosen, ["cell_id"]).group_by("cell_id").agg(pl.col(r"^.*\|[nd]$").sum())
    rows = [
        {
            "cell_id": r["cell_id"],
            "slice": "all",
            "metric": m,
            "numerator": r[f"{m}|n"],
            "denominator": r[f"{m}|d"],
            "value": r[f"{m}|n"] / r[f"{m}|d"] if r[f"{m}|d"] else 0.0,
        }
        for r in sums.iter_rows(named=True)
        for m in HEADLINE
    ]
    return pl.DataFrame(rows)


def test_recomputation_agrees_and_catches_a_changed_value(tmp_path: Path) -> None:
    path = tmp_path / "episodes.parquet"
    frame = _episodes(path)
    published = _published(frame.with_columns(behavior=pl.lit("single")))
    good = check([str(path)], published)
    assert good.ok
    assert (good.compared, good.worst) == (16, 0.0)
    spoiled = published.with_columns(
        value=pl.when((pl.col("cell_id") == "c2") & (pl.col("metric") == "TEA"))
        .then(pl.col("value") + 1e-12)
        .otherwise(pl.col("value"))
    )
    bad = check([str(path)], spoiled)
    assert not bad.ok
    assert "c2 TEA" in bad.problems[0]
    lost = check([str(path)], published.filter(pl.col("metric") != "RA-Set"))
    assert any("RA-Set" in p for p in lost.problems)


def test_recomputation_refuses_an_empty_table(tmp_path: Path) -> None:
    path = tmp_path / "episodes.parquet"
    frame = _episodes(path)
    with pytest.raises(ValueError):
        check([], _published(frame.with_columns(behavior=pl.lit("single"))))
