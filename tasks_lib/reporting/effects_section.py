"""Factor effects: matched differences of routers, data agents, planners, clarification and request modes, from `analyses`.

Belongs here: every difference with its paired interval, those over the whole grid marked marginal. Does not belong here: which
cells are matched (`scoring.analyses`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from tasks_lib.protocol.vocabulary import DataAgent, Interaction, Planner, QueryMode, Router
from tasks_lib.reporting.gates_section import scope_words
from tasks_lib.reporting.run_tables import RunTables, band_of
from tasks_lib.reporting.tables import backend_entry
from tasks_lib.reporting.views import DIAGNOSTIC, MARGINAL, Column, Entry, View, difference, number, text_columns, words

FACTORS: dict[str, str] = {
    **{str(v): "router" for v in Router},
    **{str(v): "data agent" for v in DataAgent},
    **{str(v): "planner" for v in Planner},
    **{str(v): "interaction" for v in Interaction},
    # A request mode has the name of a factor, not of a router.
    **{str(v): "request mode" for v in QueryMode},
}
"""The factor that a value belongs to."""
ORDER = ("router", "data agent", "planner", "interaction", "request mode")
FULL = ", full grid"
Row = Mapping[str, Any]


def sides(analysis: str) -> tuple[str, str]:
    """(high, low) values of a difference by the name of its analysis."""
    high, low = analysis.removesuffix(FULL).split("−")
    return high, low


def differences(run: RunTables) -> list[Row]:
    """Rows of `analyses` that are differences, in the order of backends, factors, then as published."""
    found = run.analysed.filter(pl.col("statistic") == "difference").to_dicts()
    place = {b: i for i, b in enumerate(run.backends)}
    return sorted(
        (r for r in found if r["backend"] in place),
        key=lambda r: (place[r["backend"]], ORDER.index(FACTORS[sides(r["analysis"])[0]]), r["marginal"]),
    )


def contrast_words(row: Row) -> str:
    high, low = sides(row["analysis"])
    return f"{words(high)} − {words(low)}"


def _entries(run: RunTables, row: Row) -> list[Entry]:
    high, low = sides(row["analysis"])
    marks = (DIAGNOSTIC,) if str(QueryMode.PRIVILEGED) in (high, low) or row["marginal"] else ()
    return [
        backend_entry(run, row["backend"]),
        Entry(FACTORS[high]),
        Entry(contrast_words(row), marks=marks),
        Entry(f"{MARGINAL}, whole grid" if row["marginal"] else "matched"),
    ]


def _numbers(row: Row) -> list[Entry]:
    return [
        Entry(scope_words(row["scope"])),
        Entry(row["metric"]),
        *difference(band_of(row)),
        number(row["cells"]),
        number(row["tasks"]),
        number(row["dropped"]),
    ]


NUMBERS = [
    Column("Scope", number=False),
    Column("Metric", number=False),
    Column("Difference, points"),
    Column("95 % interval"),
    Column("Cells a side"),
    Column("Tasks"),
    Column("Draws dropped"),
]


def effects(run: RunTables) -> View:
    """Every difference over all of its matched cells."""
    rows = [[*_entries(run, r), *_numbers(r)] for r in differences(run) if r["subject"] == "all"]
    return View(
        "effects",
        "Differences of one factor, every other held fixed, with paired 95 % intervals",
        [*text_columns("Backend", "Factor", "Contrast", "Controls"), *NUMBERS],
        rows,
        "Mean over matched cells of the difference, the same resampled tasks on both sides. Matched: the paper's controls "
        "(LLM planner, Never, non-privileged requests where they are not the factor). Marginal: over the whole grid, privileged "
        "requests included, so not interchangeable with the matched ones. An en dash: a denominator was zero in every draw.",
        "No backend has all of its cells.",
        sortable=True,
        filtered=True,
        choices=("Backend", "Factor", "Controls", "Scope", "Metric"),
    )


def splits(run: RunTables) -> View:
    """The same differences, apart by the values of the other factors."""
    rows = []
    for r in differences(run):
        if r["subject"] != "all":
            factor, _, value = r["subject"].partition("=")
            head = _entries(run, r)[:3]
            rows.append([*head, Entry(f"{words(factor)}: {words(value)}"), *_numbers(r)])
    return View(
        "effect-splits",
        "The same differences by router and by data agent, with paired 95 % intervals",
        [*text_columns("Backend", "Factor", "Contrast", "Within"), *NUMBERS],
        rows,
        "Matched cells alone. Many intervals are read at once here: some exclude zero by chance.",
        "No backend has all of its cells.",
        sortable=True,
        filtered=True,
        choices=("Backend", "Factor", "Contrast", "Within", "Scope", "Metric"),
    )
