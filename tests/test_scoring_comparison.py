"""Two runs set side by side: McNemar and paired intervals against hand-made numbers, and what must hold of any two runs."""

from __future__ import annotations

import random

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import chdtrc

from tasks_lib.scoring.bootstrap import counts
from tasks_lib.scoring.comparison import (
    MEDIAN,
    REFERENCE_CELL,
    Compared,
    NotComparable,
    compare_backend,
    mcnemar,
    open_cells,
)

DRAWS = 200
REFERENCE = "hermes.adapter.llm.never.router"


def test_mcnemar_by_hand() -> None:
    """25 against 10: (15 − 1)² / 35 = 5.6, beyond the 5 % point 3.841 and short of the 1 % point 6.635."""
    got = mcnemar(25, 10)
    assert got.statistic == pytest.approx(196 / 35)
    assert got.p == pytest.approx(0.017960, abs=1e-6)
    assert mcnemar(10, 25).p == got.p


def test_mcnemar_at_its_edges() -> None:
    nothing = mcnemar(0, 0)
    assert (nothing.statistic, nothing.p) == (None, 1.0)
    assert (mcnemar(4, 4).statistic, mcnemar(4, 4).p) == (0.0, 1.0)
    assert (mcnemar(1, 0).statistic, mcnemar(1, 0).p) == (0.0, 1.0)
    assert mcnemar(6, 0).statistic == pytest.approx(25 / 6)


@settings(deadline=None)
@given(st.integers(0, 300), st.integers(0, 300))
def test_mcnemar_is_a_chi_squared_test(gained: int, lost: int) -> None:
    got = mcnemar(gained, lost)
    assert 0 <= got.p <= 1
    assert got.p == mcnemar(lost, gained).p
    if got.statistic is not None:
        assert got.p == pytest.approx(chdtrc(1, got.statistic), abs=1e-12)


def episodes(backend: str, seed: int, tasks: int = 12, share: float = 0.5) -> pl.DataFrame:
    """Episodes of a backend's open cells; every fourth task is interactive with two branches."""
    rng = random.Random(seed)
    rows = []
    for cell in open_cells(backend):
        for number in range(tasks):
            branches = ("a", "b") if number % 4 == 3 else ("",)
            for branch in branches:
                s = rng.random() < share
                g, t, h = (s and rng.random() < 0.8), rng.random() < 0.6, rng.random() < 0.9
                rows.append(
                    {
                        **{"cell_id": cell.cell_id, "task_id": f"t{number:02}", "branch_id": branch},
                        **{"behavior": "interactive" if branch else "parallel", "weight": 1 / len(branches)},
                        **{"required": 2, "correct": 2 * t, "ran": 2, "valid": True, "s": s, "g": g, "t": t, "h": h},
                    }
                )
    return pl.DataFrame(rows)


def with_outcome(frame: pl.DataFrame, right: set[str]) -> pl.DataFrame:
    """Set and graph right on exactly these tasks, in every cell and on both branches."""
    held = pl.col("task_id").is_in(sorted(right))
    return frame.with_columns(s=held, g=held)


def test_the_paired_interval_by_hand() -> None:
    """Ten ordinary tasks, seven right now, four of these before: +0.3, and per draw three task counts by ten."""
    plain = episodes("x", 1, 10).with_columns(behavior=pl.lit("parallel"), branch_id=pl.lit(""), weight=pl.lit(1.0))
    plain = plain.unique(["cell_id", "task_id"], maintain_order=True)
    right = {f"t{i:02}" for i in range(7)}
    got = compare_backend(
        "x", with_outcome(plain, right), "x", with_outcome(plain, {f"t{i:02}" for i in range(4)}), DRAWS, 5
    )
    found = next(d for d in got.differences if (d.subject, d.metric) == (REFERENCE_CELL, "RA-Set"))
    assert (found.now, found.before) == (0.7, 0.4)
    assert found.difference is not None
    samples = counts(10, DRAWS, 5)[:, 4:7].sum(axis=1).astype(float) / 10
    assert found.difference.value == pytest.approx(0.3)
    assert (found.difference.low, found.difference.high) == pytest.approx(tuple(np.percentile(samples, [2.5, 97.5])))
    outcome = got.outcomes[0]
    assert (outcome.metric, outcome.tasks, outcome.gained, outcome.lost) == ("RA-Set", 10, ("t04", "t05", "t06"), ())
    assert outcome.test.statistic == pytest.approx(4 / 3)


def test_interactive_tasks_count_in_values_and_not_in_mcnemar() -> None:
    frame = episodes("x", 2)
    got = compare_backend("x", with_outcome(frame, {"t03", "t07", "t00"}), "x", with_outcome(frame, set()), DRAWS)
    assert (got.tasks, got.outcomes[0].tasks, got.outcomes[0].gained) == (12, 9, ("t00",))
    assert next(d for d in got.differences if d.metric == "RA-Set").now == 0.25


def test_a_value_of_zero_by_zero_is_none_and_has_no_difference() -> None:
    frame = episodes("x", 2)
    got = compare_backend("x", frame, "x", with_outcome(frame, set()), DRAWS)
    found = next(d for d in got.differences if d.metric == "CEA-Set")
    assert found.now is not None
    assert (found.before, found.difference) == (None, None)


def test_medians_are_of_the_twelve_cells_of_an_interaction() -> None:
    frame = episodes("x", 4)
    right = {c.cell_id: i for i, c in enumerate(open_cells("x")) if str(c.interaction) == "once"}
    ranked = frame.with_columns(
        s=pl.col("task_id").str.slice(1).cast(pl.Int64) * 2 < pl.col("cell_id").replace_strict(right, default=0)
    )
    got = compare_backend("x", ranked, "x", frame.with_columns(s=pl.lit(False)), DRAWS)
    shares = [min((place + 1) // 2, 12) / 12 for place in right.values()]
    values = {d.subject: d.now for d in got.differences if d.metric == "RA-Set"}
    assert len(shares) == 12
    assert values[MEDIAN["once"]] == pytest.approx(np.median(shares))  # type: ignore[index]
    assert values[MEDIAN["never"]] == 0  # type: ignore[index]


def signed(found: Compared) -> list[tuple[float, float, float] | None]:
    """Every difference as (value, low, high)."""
    kept = (d.difference for d in found.differences)
    return [None if d is None else (d.value, d.low, d.high) for d in kept]


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 1000), st.floats(0, 1))
def test_runs_swapped_negate_and_a_run_against_itself_is_zero(one: int, two: int, share: float) -> None:
    a, b = episodes("x", one, share=share), episodes("y", two)
    there, back = compare_backend("x", a, "y", b, DRAWS), compare_backend("y", b, "x", a, DRAWS)
    for ahead, behind in zip(signed(there), signed(back), strict=True):
        assert (ahead is None) == (behind is None)
        if ahead is not None and behind is not None:
            assert ahead == pytest.approx((-behind[0], -behind[2], -behind[1]), abs=1e-12)
    for ours, theirs in zip(there.outcomes, back.outcomes, strict=True):
        assert (ours.gained, ours.lost, ours.test.p) == (theirs.lost, theirs.gained, theirs.test.p)
    same = compare_backend("x", a, "x", a, DRAWS)
    assert {d for d in signed(same) if d is not None} <= {(0.0, 0.0, 0.0)}
    assert {(o.test.statistic, o.test.p) for o in same.outcomes} == {(None, 1.0)}


def test_only_tasks_that_both_hold_are_compared() -> None:
    whole = episodes("x", 3)
    part = whole.filter(pl.col("task_id") < "t05")
    assert compare_backend("x", whole, "x", part, DRAWS) == compare_backend("x", part, "x", part, DRAWS)


def test_what_cannot_be_compared_says_why() -> None:
    frame = episodes("x", 3)
    with pytest.raises(NotComparable, match="no task in common"):
        compare_backend("x", frame, "x", frame.with_columns(task_id=pl.lit("u") + pl.col("task_id")), DRAWS)
    with pytest.raises(NotComparable, match="24 × 12"):
        compare_backend("x", frame.filter(~pl.col("cell_id").str.ends_with(REFERENCE)), "x", frame, DRAWS)
    with pytest.raises(NotComparable, match="t03 has other episodes"):
        compare_backend("x", frame.filter(pl.col("branch_id") != "b"), "x", frame, DRAWS)
