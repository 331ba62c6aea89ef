"""How far configurations of one backend differ, and which were best by these very scores: descriptive, never with an interval.

Belongs here: the spreads and selected maxima of `analyses`. Does not belong here: anything that may be compared (leaderboards).
"""

from __future__ import annotations

from typing import Any

import polars as pl

from tasks_lib.protocol.vocabulary import Interaction
from tasks_lib.reporting.gates_section import scope_words
from tasks_lib.reporting.run_tables import RunTables
from tasks_lib.reporting.tables import backend_entry, mode_entry
from tasks_lib.reporting.views import SELECTED, Column, Entry, View, bracket, percent, plain, text_columns, words
from tasks_lib.scoring.cells import parse
from tasks_lib.scoring.metrics import HEADLINE

SPREAD, BEST = "configurations", "best of 72"
SCOPES = ("all", "ordinary")


def spread(run: RunTables) -> View:
    """Median, quartiles and maximum over the 12 open cells of the LLM planner."""
    found: dict[tuple[str, str, str, str, str], float | None] = {
        (r["backend"], r["subject"], r["scope"], r["metric"], r["statistic"]): r["value"] if r["cells"] else None
        for r in run.analysed.filter(pl.col("analysis") == SPREAD).iter_rows(named=True)
    }
    rows = []
    for scope in SCOPES:
        for b in run.backends:
            for i in Interaction:
                at = {
                    (m, s): found.get((b, f"interaction={i}", scope, m, s))
                    for m in HEADLINE
                    for s in ("median", "q1", "q3", "maximum")
                }
                if at[(HEADLINE[0], "median")] is None:
                    continue
                head = [backend_entry(run, b), Entry(str(i)), Entry(scope_words(scope))]
                rows.append([*head, Entry("median and IQR"), *(_spread(at, m) for m in HEADLINE)])
                rows.append(
                    [*head, Entry("maximum", marks=(SELECTED,)), *(plain(at[(m, "maximum")]) for m in HEADLINE)]
                )
    return View(
        "configurations",
        "Spread over the 12 non-privileged configurations with the LLM planner (percent)",
        [*text_columns("Backend", "Interaction", "Scope", "Statistic"), *(Column(m) for m in HEADLINE)],
        rows,
        "3 routers × 2 data agents × 2 request modes. The interquartile range below a median is the spread of configurations, not "
        "sampling uncertainty. A maximum is selected by the score it shows and has no interval. Configurations of 0/0 are left out.",
        "No backend has all of its cells.",
        sortable=True,
        filtered=True,
        choices=("Backend", "Interaction", "Scope", "Statistic"),
    )


def _spread(at: dict[tuple[str, str], float | None], metric: str) -> Entry:
    middle = at[(metric, "median")]
    return Entry(percent(middle), bracket(at[(metric, "q1")], at[(metric, "q3")]), middle)


def best(run: RunTables) -> View:
    """The four cells of every backend with the highest R+E-Graph."""
    cells: dict[tuple[str, str, str], dict[str, Any]] = {}
    part = run.analysed.filter(pl.col("analysis") == BEST)
    for r in part.iter_rows(named=True):
        at = cells.setdefault((r["backend"], r["scope"], r["subject"]), {"place": int(r["statistic"].split()[-1])})
        at[r["metric"]] = r["value"]
    order = {b: i for i, b in enumerate(run.backends)}
    rows = []
    for (backend, scope, cell_id), at in sorted(
        cells.items(), key=lambda item: (SCOPES.index(item[0][1]), order.get(item[0][0], 0), item[1]["place"])
    ):
        cell = parse(cell_id)
        rows.append(
            [
                backend_entry(run, backend),
                Entry(scope_words(scope), marks=(SELECTED,)),
                Entry(str(cell.router)),
                Entry(words(str(cell.data_agent))),
                Entry(str(cell.planner)),
                Entry(str(cell.interaction)),
                mode_entry(str(cell.query_mode)),
                plain(at["EA-Micro"]),
                plain(at["R+E-Graph"]),
            ]
        )
    return View(
        "best",
        "The four of each backend's 72 cells with the highest R+E-Graph: selected by these very scores, without interval (percent)",
        [
            *text_columns("Backend", "Scope", "Router", "Data agent", "Planner", "Interaction", "Request mode"),
            Column("EA-Micro"),
            Column("R+E-Graph"),
        ],
        rows,
        "Best of 72 is the first row of a backend and scope. A maximum over many cells is too high on average; it is no estimate of "
        "how the cell does elsewhere. Privileged cells take part, as in the paper.",
        "No backend has all of its cells.",
    )
