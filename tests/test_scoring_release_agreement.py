"""Rows that do not agree with the release are refused, and what a model failed stays in the denominator (known faults A02-A04, C12, S06)."""

from __future__ import annotations

import polars as pl
import pytest
import test_scoring_episodes as te

from tasks_lib.protocol.vocabulary import Behavior
from tasks_lib.scoring.cells import parse
from tasks_lib.scoring.chains import score_cell
from tasks_lib.scoring.episodes import JoinError, score_routes
from tasks_lib.scoring.metrics import CELL_METRICS, ROUTING, DenominatorError, measure
from tasks_lib.scoring.targets import episodes_of


def test_a02_failures_of_the_model_are_zeros_and_of_the_infrastructure_are_missing() -> None:
    targets = episodes_of([te.contract(f"t{i:02}", Behavior.SINGLE, ("a",)) for i in range(100)])
    routes = [te.route(t.task_id, ("a",), "single") for t in targets]

    def scored(done: int) -> pl.DataFrame:
        verdicts = [
            row
            for i, t in enumerate(targets[:done])
            for row in te.both_modes(t.task_id, "u_a", "correct" if i < 3 else "missing_sql")
        ]
        cell = parse("x.react.adapter.llm.never.router")
        return pl.DataFrame(score_cell(cell, targets, routes, [], [], [], verdicts))

    with pytest.raises(JoinError, match=r"'t93'.* is missing"):
        scored(93)
    with pytest.raises(DenominatorError, match="7 of 100 episodes are missing"):
        measure(scored(100).head(93), targets, CELL_METRICS, "cell")
    values = measure(scored(100), targets, CELL_METRICS, "cell").filter(pl.col("slice") == "all")
    assert values.filter(pl.col("metric") == "TEA").row(0)[3:] == (3.0, 100.0, 0.03)


def test_a03_a_requirement_that_differs_from_the_release_is_refused() -> None:
    frame = te.cell("never")
    for spoiled in (frame.with_columns(required=pl.col("required") + 1), frame.with_columns(weight=pl.lit(1.0))):
        with pytest.raises(DenominatorError, match="weight or requirement"):
            measure(spoiled, te.TARGETS, CELL_METRICS, "cell")


def test_a04_a_task_without_one_of_its_branches_is_incomplete() -> None:
    with pytest.raises(DenominatorError, match=r"1 of 5 episodes are missing \(first \('t4', 'b1'\)"):
        measure(te.cell("never").filter(pl.col("branch_id") != "b1"), te.TARGETS, CELL_METRICS, "cell")


def test_s06_a_null_topology_stays_in_the_denominator() -> None:
    golds = (
        ("t1", Behavior.SINGLE, ("a",)),
        ("t2", Behavior.PARALLEL, ("a", "b")),
        ("t3", Behavior.PARALLEL, ("a", "b")),
    )
    targets = episodes_of([te.contract(*gold) for gold in golds])
    routes = [te.route("t1", (), ""), te.route("t2", ("a",), "parallel"), te.route("t3", ("a",), "single")]
    table = measure(pl.DataFrame(score_routes("x", "direct", targets, routes)), targets, ROUTING, "x")
    label = table.filter((pl.col("slice") == "all") & (pl.col("metric") == "Label"))
    assert label.row(0)[3:] == (1.0, 3.0, 1 / 3)


@pytest.mark.parametrize("layer", ["routes", "contributions"])
def test_c12_a_key_unknown_to_the_release_is_an_error(layer: str) -> None:
    routes, contributions = list(te.ROUTES), list(te.CONTRIBUTIONS)
    if layer == "routes":
        routes.append(te.route("t9", ("a",), "single"))
    else:
        contributions += te.both_modes("t9", "u_a")
    with pytest.raises(JoinError, match=r"'t9'.*unknown to the release"):
        score_cell(
            parse("x.react.adapter.llm.never.router"),
            te.TARGETS, routes, te.ASKS, te.RELEASES, te.PLANS, contributions,
        )  # fmt: skip


@pytest.mark.parametrize("interaction", ["never", "once"])
def test_c12_the_order_of_rows_decides_nothing(interaction: str) -> None:
    point = parse(f"x.react.adapter.llm.{interaction}.router")
    routes, asks, releases, plans, verdicts = te.ROUTES, te.ASKS, te.RELEASES, te.PLANS, te.CONTRIBUTIONS
    straight = score_cell(point, te.TARGETS, routes, asks, releases, plans, verdicts)
    turned = score_cell(point, te.TARGETS, routes[::-1], asks[::-1], releases[::-1], plans[::-1], verdicts[::-1])
    assert turned.equals(straight)
