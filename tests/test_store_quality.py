"""Suites on published tables (known fault S08): row counts and nulls fail by name before any value check."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tasks_lib.store.quality import QualityFailed, QualityReport, require, validate
from tasks_lib.store.schemas import BOOL, REAL, STR, STRS, Table

TASKS = 815
VERDICTS = Table(
    "verdicts_seen",
    1,
    "Verdicts.",
    [
        ("task", STR, "task"),
        ("kind", STR, "kind"),
        ("share", REAL, "share"),
        ("ok", BOOL, "verdict"),
        ("tags", STRS, "tags"),
    ],
    key=("task", "kind"),
)
SINGLE = Table(
    "single_seen",
    1,
    "One key.",
    [("task", STR, "task"), ("note", STR, "note or null")],
    key=("task",),
    nullable=frozenset({"note"}),
)
ALLOWED = {"kind": {"correct", "mismatch"}}
RANGES = {"share": (0.0, 1.0)}


def _frame(n: int = TASKS) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "task": [f"t{i:03}" for i in range(n)],
            "kind": ["correct"] * n,
            "share": [1.0] * n,
            "ok": [True] * n,
            "tags": [["a"]] * n,
        },
        schema={
            "task": pl.String,
            "kind": pl.String,
            "share": pl.Float64,
            "ok": pl.Boolean,
            "tags": pl.List(pl.String),
        },
    )


def _check(frame: pl.DataFrame) -> QualityReport:
    return validate(VERDICTS, frame, TASKS, ALLOWED, RANGES)


def test_a_good_table_passes() -> None:
    report = _check(_frame())
    assert report.failures == []
    assert report.ok
    require(report)


@pytest.mark.parametrize(
    ("frame", "names"),
    [
        (_frame(0), ["row_count"]),
        (_frame().with_columns(ok=pl.lit(None, pl.Boolean)), ["not_null: ok"]),
        (pl.concat([_frame(TASKS - 1), _frame(1)]), ["unique_key: task, kind"]),
        (_frame().with_columns(kind=pl.lit("perhaps")), ["allowed: kind"]),
        (_frame().with_columns(share=pl.lit(1.5)), ["range: share"]),
        (_frame().with_columns(tags=pl.lit(None, pl.List(pl.String))), ["not_null: tags"]),
        (_frame(TASKS + 1).with_columns(share=pl.lit(-0.1)), ["row_count", "range: share"]),
    ],
)
def test_a_bad_table_fails_on_the_expectation_that_names_the_fault(frame: pl.DataFrame, names: list[str]) -> None:
    report = _check(frame)
    assert not report.ok
    assert len(report.failures) == len(names)
    assert all(line.startswith(name) for line, name in zip(report.failures, names, strict=True))
    with pytest.raises(QualityFailed, match=names[0].split(":")[0]):
        require(report)


def test_nullable_columns_and_single_keys() -> None:
    rows: list[dict[str, Any]] = [{"task": "a", "note": None}, {"task": "b", "note": "x"}]
    assert validate(SINGLE, pl.DataFrame(rows), 2).ok
    twice = pl.DataFrame([*rows, {"task": "a", "note": "y"}])
    assert [line.split(",")[0] for line in validate(SINGLE, twice, 3).failures] == ["unique_key: task"]


def test_unknown_columns_are_a_callers_error() -> None:
    with pytest.raises(ValueError, match="colour"):
        validate(SINGLE, pl.DataFrame({"task": ["a"], "note": ["b"]}), 1, {"colour": {"red"}})
    with pytest.raises(ValueError, match="note"):
        validate(SINGLE, pl.DataFrame({"task": ["a"]}), 1)
