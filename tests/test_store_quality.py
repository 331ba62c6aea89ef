"""Suites on published tables (known fault S08): row counts and nulls fail by name before any value check."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tasks_lib.store.quality import (
    Check,
    Kind,
    QualityFailed,
    QualityReport,
    Suite,
    inspect,
    require,
    suite_of,
    validate,
)
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


FRAME = pl.DataFrame(
    {"id": ["a", "b", "c"], "here": ["x", "y", None], "there": ["x", "z", None], "code": ["1", "?", "2"]}
)


def test_pairs_patterns_and_reasons_are_told_with_the_rows_that_break_them() -> None:
    checks = (
        Check(Kind.EQUAL, ("here", "there"), about="both sides agree"),
        Check(Kind.MATCHES, ("code",), "^[0-9]$"),
        Check(Kind.NOT_NULL, ("here",)),
    )
    (report,) = inspect([Suite("pairs", FRAME, checks, ("id",))])
    assert [line.split(",")[0] for line in report.failures] == [
        "equal: here", "matches: code", "not_null: here"
    ]  # fmt: skip
    assert "(both sides agree)" in report.failures[0]
    assert "id 'b'" in report.failures[0]
    assert "code '?'" in report.failures[1]
    assert "id 'c'" in report.failures[2]


def test_more_checks_may_speak_of_columns_beyond_the_table() -> None:
    frame = pl.DataFrame(
        {"task": ["a"], "note": [None], "seen": [False]}, {"task": pl.String, "note": pl.String, "seen": pl.Boolean}
    )
    suite = suite_of(SINGLE, frame, 1, more=[Check(Kind.ALLOWED, ("seen",), frozenset({True}))])
    (report,) = inspect([suite])
    assert [line.split(",")[0] for line in report.failures] == ["allowed: seen"]


def test_docs_are_one_offline_site_of_all_suites(tmp_path: Path) -> None:
    passes = Suite("good things", FRAME, (Check(Kind.NOT_NULL, ("id",)),))
    fails = Suite("bad things", FRAME, (Check(Kind.MATCHES, ("code",), "^[0-9]$", "codes are numbers"),))
    inspect([passes, fails], tmp_path / "docs")
    pages = [page.read_text("utf-8") for page in (tmp_path / "docs").rglob("*.html")]
    assert any("codes are numbers" in page for page in pages)
    assert all('src="http' not in page for page in pages)
    index = (tmp_path / "docs" / "index.html").read_text("utf-8")
    assert "good things" in index
    assert "bad things" in index


def test_gx_says_nothing_even_where_info_is_logged() -> None:
    """In a process of its own: only the first import of GX talks."""
    script = (
        "import logging; logging.basicConfig(level=logging.INFO)\n"
        "import polars as pl\n"
        "from tasks_lib.store.quality import Check, Kind, Suite, inspect\n"
        "print(inspect([Suite('s', pl.DataFrame({'a': [1]}), (Check(Kind.NOT_NULL, ('a',)),))])[0].ok)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "True\n"
    assert done.stderr == ""
