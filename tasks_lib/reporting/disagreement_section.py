"""The section on rules of comparing: how many verdicts another rule would change, and how many points of EA-Micro that makes.

Belongs here: that one table in words. Does not belong here: judging anything (`scoring.disagreement` did).
"""

from __future__ import annotations

from typing import Any

import polars as pl

from tasks_lib.reporting.run_tables import Ratio, RunTables
from tasks_lib.reporting.tables import backend_entry
from tasks_lib.reporting.views import DASH, Column, Entry, View, number, percent, plain, text_columns, words
from tasks_lib.scoring.disagreement import ALL

TEXT = (
    "The same stored results under the rules of the other corpora, and under the rule that the corpus's own evaluator publishes. "
    "Nothing is run again."
)
NAMES = {
    "spider": "Spider's: rows counted, in order if the gold is ordered",
    "bird": "BIRD's: set of rows",
    "livesqlbench": "LiveSQLBench's: two decimals, set of rows",
    "spider_published": "published by Spider",
    "bird_published": "published by BIRD",
    "livesqlbench_published": "published by LiveSQLBench",
}
"""What a rule is called on the page."""


def disagreement(run: RunTables) -> View:
    """One row for every backend, corpus and rule. `run.disagreement` holds rows of the table of that name."""
    frame = run.disagreement
    assert frame is not None
    named: dict[tuple[str, str, str], list[str]] = {}
    for row in frame.filter(pl.col("reason") != ALL).iter_rows(named=True):
        reason = f"{words(row['reason'])} {row['to_right'] + row['to_wrong']:,}"
        named.setdefault((row["backend"], row["corpus"], row["rule"]), []).append(reason)
    rows = [
        _row(run, row, named.get((row["backend"], row["corpus"], row["rule"]), []))
        for row in frame.filter(pl.col("reason") == ALL).iter_rows(named=True)
    ]
    return View(
        "disagreement",
        "Verdicts that another rule of comparing would change, and mean EA-Micro over the backend's cells (percent)",
        [
            *text_columns("Backend", "Verdicts of", "Under the rule"),
            Column("Verdicts"),
            Column("Become right"),
            Column("Become wrong"),
            Column("EA-Micro as judged"),
            Column("EA-Micro under the rule"),
            Column("Difference"),
            Column("Because of", number=False),
        ],
        rows,
        "Verdicts are those that rest on a result; SQL without a result is wrong under every rule. Each is read on its own: a "
        "downstream query that another rule would have let bind is not run.",
        sortable=True,
    )


def _row(run: RunTables, row: dict[str, Any], because: list[str]) -> list[Entry]:
    ours = Ratio(row["numerator"], row["denominator"]).value
    theirs = Ratio(row["other_numerator"], row["denominator"]).value
    moved = None if ours is None or theirs is None else theirs - ours
    sign = "+" if moved is not None and float(f"{100 * moved:.2f}") > 0 else ""
    return [
        backend_entry(run, row["backend"]),
        Entry(row["corpus"]),
        Entry(NAMES[row["rule"]]),
        number(row["verdicts"]),
        number(row["to_right"]),
        number(row["to_wrong"]),
        plain(ours),
        plain(theirs),
        Entry(sign + percent(moved), sort=moved),
        Entry(", ".join(because) or DASH),
    ]
