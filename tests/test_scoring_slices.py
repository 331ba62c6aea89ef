"""Values by corpus, behavior, difficulty and size (PROTOCOL 12): by hand, and as plain sums over the tasks of each value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl
import pytest
import test_scoring_episodes as te
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks_lib.protocol.records import Contract
from tasks_lib.protocol.vocabulary import Behavior, Corpus, Difficulty
from tasks_lib.scoring.metrics import CELL_METRICS, measure
from tasks_lib.scoring.targets import Targets, episodes_of

KINDS = (
    te.contract("", Behavior.SINGLE, ("a",)),
    te.contract("", Behavior.PARALLEL, ("a", "b")),
    te.contract("", Behavior.SEQUENTIAL, tuple("abcd")),
    te.contract("", Behavior.PARALLEL, tuple("abcdef")),
    te.contract("", Behavior.INTERACTIVE, ("a", "b")),
)


def episodes(targets: Targets, correct: Sequence[int]) -> pl.DataFrame:
    """Rows of all `targets` in their order, with so many correct contributions each."""
    any_row = te.cell("never").head(1).drop(targets.frame.columns).drop("correct", "t")
    return targets.frame.with_columns(
        pl.Series("correct", correct, pl.Int64), t=pl.Series(correct, dtype=pl.Int64) == pl.col("required")
    ).join(any_row, how="cross", maintain_order="left")


def test_slices_by_hand() -> None:
    """Task p: BIRD, easy, 1 of 1; q: Spider, hard, 1 of 2; r: Spider, easy, interactive, its branches 1 and 0 of 1 at half weight."""
    single, parallel, *_, interactive = KINDS
    tasks: list[Contract] = [
        replace(single, task_id="p", corpus=Corpus.BIRD),
        replace(parallel, task_id="q", difficulty=Difficulty.HARD),
        replace(interactive, task_id="r"),
    ]
    targets = episodes_of(tasks)
    got = measure(episodes(targets, [1, 1, 1, 0]), targets, CELL_METRICS, "x").filter(pl.col("metric") == "EA-Micro")
    assert [row[:2] + row[3:] for row in got.iter_rows()] == [
        ("all", "all", 2.5, 4.0, 0.625),
        ("corpus", "bird", 1.0, 1.0, 1.0),
        ("corpus", "spider", 1.5, 3.0, 0.5),
        ("behavior", "interactive", 0.5, 1.0, 0.5),
        ("behavior", "parallel", 1.0, 2.0, 0.5),
        ("behavior", "single", 1.0, 1.0, 1.0),
        ("difficulty", "easy", 1.5, 2.0, 0.75),
        ("difficulty", "hard", 1.0, 2.0, 0.5),
        ("size", "1", 1.0, 1.0, 1.0),
        ("size", "2-3", 1.5, 3.0, 0.5),
    ]


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_slice_is_the_sum_over_its_own_tasks(data: st.DataObject) -> None:
    """Whatever the tasks and the order of rows: each slice is what the metric gives on the tasks of that value alone."""
    drawn = data.draw(
        st.lists(
            st.tuples(st.sampled_from(KINDS), st.sampled_from(list(Corpus)), st.sampled_from(list(Difficulty))),
            min_size=1,
            max_size=12,
        )
    )
    tasks = [replace(c, task_id=f"t{i:02}", corpus=o, difficulty=d) for i, (c, o, d) in enumerate(drawn)]
    targets = episodes_of(tasks)
    rows = episodes(targets, [data.draw(st.integers(0, len(t.units))) for t in targets])
    table = measure(rows, targets, CELL_METRICS, "x")
    assert measure(rows.sample(fraction=1.0, shuffle=True, seed=1), targets, CELL_METRICS, "x").equals(table)
    assert table.select("slice", "value_of", "metric").is_unique().all()
    seen: dict[str, set[str]] = {}
    for (cut, shown), part in table.partition_by("slice", "value_of", as_dict=True).items():
        mine = targets.slices.filter(pl.col(str(cut)) == shown)["task_id"]
        alone = episodes_of(t for t in tasks if t.task_id in set(mine))
        own = measure(rows.filter(pl.col("task_id").is_in(mine.to_list())), alone, CELL_METRICS, "x")
        own = own.filter(pl.col("slice") == "all")
        assert part["metric"].to_list() == own["metric"].to_list()
        for name in ("numerator", "denominator", "value"):
            assert part[name].to_list() == pytest.approx(own[name].to_list(), abs=1e-12)
        seen.setdefault(str(cut), set()).add(str(shown))
    assert seen["corpus"] == {str(t.corpus) for t in tasks}
    assert seen["behavior"] == {str(t.behavior) for t in tasks}
    assert seen["difficulty"] == {str(t.difficulty) for t in tasks}
    assert seen["all"] == {"all"}
