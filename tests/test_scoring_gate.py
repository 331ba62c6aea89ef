"""Every count of the gate before publication: a whole grid passes, and each planted fault is found and named."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import polars as pl
import pytest
import test_scoring_diagnostics as td

from tasks_lib.scoring.cells import grid
from tasks_lib.scoring.findings import Found, told
from tasks_lib.scoring.gate import check_episodes, check_grid, check_metrics, check_partition
from tasks_lib.scoring.metrics import CELL_METRICS
from tasks_lib.scoring.targets import episodes_of

Fault: TypeAlias = Callable[[pl.DataFrame], pl.DataFrame]

TARGETS = episodes_of(td.CONTRACTS)
CELLS = [c.cell_id for c in grid(["gold"])]
ONE = CELLS[5]
HERE = pl.col("cell_id") == ONE


@pytest.fixture(scope="module")
def tables() -> tuple[pl.DataFrame, pl.DataFrame]:
    return td.tables("gold")


def test_a_whole_grid_passes(tables: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    episodes, metrics = tables
    assert check_grid(CELLS, ["gold"]) == []
    assert check_episodes(episodes, TARGETS, CELLS) == []
    assert check_metrics(metrics, TARGETS, CELLS, CELL_METRICS) == []


def test_cells_that_are_missing_or_unknown_are_named() -> None:
    assert "lacks 1 cells (first gold.direct" in check_grid(CELLS[1:], ["gold"])[0]
    assert "lacks 72 cells (first other." in check_grid(CELLS, ["gold", "other"])[0]
    assert "holds unknown 72 cells" in check_grid([*CELLS, *(c.replace("gold", "x", 1) for c in CELLS)], ["gold"])[0]


def put(name: str, value: object, task: str = "t1") -> pl.Expr:
    """One value in one cell's rows of one task."""
    return pl.when(HERE & (pl.col("task_id") == task)).then(pl.lit(value)).otherwise(pl.col(name)).alias(name)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda e: e.filter(~(HERE & (pl.col("task_id") == "t6"))), "1 cells do not add up"),
        (lambda e: e.filter(~(HERE & (pl.col("branch_id") == "b1") & (pl.col("task_id") == "t3"))), "lack a branch"),
        (lambda e: pl.concat([e, e.filter(HERE).head(1)]), "share a key"),
        # one cell's row stands in another cell: the total is right
        (lambda e: e.with_columns(put("cell_id", CELLS[6])), "2 cells do not add up"),
        (lambda e: e.filter(~HERE), f"(first {ONE}): (episodes, tasks, weighted contributions) are None"),
        (lambda e: e.with_columns(put("task_id", "t9")), "not of the release"),
        (lambda e: e.with_columns(put("weight", 2.0)), "not of the release"),
        (lambda e: e.with_columns(put("behavior", "parallel")), "not of the release"),
        (lambda e: e.with_columns(put("required", 3, "t4")), "do not add up"),
        (lambda e: e.with_columns(put("f1", float("nan"))), "out of range"),
        (lambda e: e.with_columns(put("recall", 1.5)), "out of range"),
        (lambda e: e.with_columns(put("ran", 0)), "out of range"),
    ],
)
def test_a_fault_in_the_episodes_is_found(fault: Fault, said: str, tables: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    problems = told(check_episodes(fault(tables[0]), TARGETS, CELLS))
    assert any(said in p for p in problems), problems


def change(metric: str, name: str, value: float) -> pl.Expr:
    there = HERE & (pl.col("metric") == metric) & (pl.col("slice") == "all")
    return pl.when(there).then(value).otherwise(pl.col(name)).alias(name)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            lambda m: m.filter(~(HERE & (pl.col("metric") == "Harm-per-Ask") & (pl.col("slice") == "size"))),
            "are missing",
        ),
        (lambda m: pl.concat([m, m.head(1)]), "appear twice"),
        (lambda m: m.with_columns(metric=pl.col("metric").str.replace("^OR$", "Over")), "are unknown"),
        (lambda m: m.with_columns(change("Recall", "value", float("inf"))), "out of range"),
        (lambda m: m.with_columns(change("TEA", "value", 0.123)), "out of range"),
        (lambda m: m.with_columns(change("TEA", "numerator", 7.0)), "out of range"),
        (lambda m: m.with_columns(change("RA-Set", "numerator", 0.0)), "RA-Graph is above RA-Set"),
        (lambda m: m.with_columns(change("RA-Graph", "numerator", 0.0)), "R+E-Graph is above RA-Graph"),
    ],
)
def test_a_fault_in_the_metrics_is_found(fault: Fault, said: str, tables: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    problems = told(check_metrics(fault(tables[1]), TARGETS, CELLS, CELL_METRICS))
    assert any(said in p for p in problems), problems


def test_the_grid_in_parts_tells_what_the_whole_tells(tables: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    episodes = tables[0].with_columns(
        put("weight", 2.0),
        f1=pl.when(pl.col("cell_id").is_in([CELLS[3], CELLS[70]])).then(1.5).otherwise(pl.col("f1")),
    )
    halves = (CELLS[:24], CELLS[24:])
    parts = [check_episodes(episodes.filter(pl.col("cell_id").is_in(half)), TARGETS, half) for half in halves]
    together = told(f for part in parts for f in part)
    assert together == told(check_episodes(episodes, TARGETS, CELLS))
    assert any(p.startswith(f"{2 * len(TARGETS)} episode rows are out of range") for p in together)


def test_a_row_in_another_cells_partition_and_an_empty_one_are_found(tables: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    mine = tables[0].filter(HERE)
    assert check_partition(ONE, mine) == []
    assert "stand in the partition of another cell" in told(check_partition(CELLS[0], mine))[0]
    assert f"1 episode partitions are empty (first {ONE})" in told(check_partition(ONE, mine.clear()))[0]


def test_what_parts_found_is_added_up() -> None:
    parts = [
        Found("{count} odd (first {first}).", 2, "a"),
        Found("other", 1, "x"),
        Found("{count} odd (first {first}).", 3, "b"),
    ]
    assert told(parts) == ["5 odd (first a).", "other"]
