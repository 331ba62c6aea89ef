"""The parts of a package's check: what counts as the same number, and which rows a table must hold."""

from __future__ import annotations

import math

import pytest

from tasks_lib.reporting.package_check import near, quantile, rows_lost


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (0.5, 0.5, True),
        (0.5, 0.5 + 1e-12, True),
        (0.5, 0.5 + 1e-6, False),
        (1e6, 1e6 + 1e-6, True),
        (math.inf, 0.5, False),
        (-math.inf, math.inf, False),
        (math.nan, 0.5, False),
        (math.nan, math.nan, False),
    ],
)
def test_near(a: float, b: float, same: bool) -> None:
    assert near(a, b) is same
    assert near(b, a) is same


def test_rows_are_those_of_the_outcomes_each_once() -> None:
    weights = {("cell", "none"): 2.5, ("cell", "graph_error"): 0.5}
    assert rows_lost("t", list(weights), weights) == []
    (fewer,) = rows_lost("t", [("cell", "none")], weights)
    assert (
        fewer
        == "t holds 1 rows, the outcomes give 2; 1 are missing, strange or repeated (first ('cell', 'graph_error'))."
    )
    (twice,) = rows_lost("t", [*weights, ("cell", "none")], weights)
    assert "holds 3 rows, the outcomes give 2; 1 are" in twice
    (strange,) = rows_lost("t", [("cell", "none"), ("other", "none")], weights)
    assert "2 are missing, strange or repeated" in strange
    assert len(rows_lost("t", [], weights)) == 1


def test_quantiles_are_linear_and_none_of_nothing() -> None:
    assert [quantile([0.0, 1.0, 4.0], q) for q in (0.25, 0.5, 0.75)] == [0.5, 1.0, 2.5]
    assert quantile([], 0.5) is None
