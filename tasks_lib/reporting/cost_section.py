"""What a right task costs, and what sharing saves: money, tokens, model calls and SQL executions.

Belongs here: recorded usage over published numerators. Unknown usage is said and never counted as 0. Does not belong here:
counting usage (`flows.usage`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks_lib.reporting.run_tables import RunTables
from tasks_lib.reporting.tables import FIXED_SLICE, NEVER, backend_entry, mode_entry
from tasks_lib.reporting.views import DASH, Column, Entry, View, count, number, text_columns, words

END = "R+E-Graph"
Used = Mapping[str, Any]


def _money(value: float) -> str:
    return f"{value:,.4f}" if value < 100 else f"{value:,.2f}"


def _plain_number(value: float) -> str:
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _each(total: float, unknown: int, calls: int, right: float, money: bool = False) -> Entry:
    """A total per right task. What is unknown is told below; without anything known, or any right task, there is no number."""
    missing = f"{count(unknown)} calls unknown" if unknown else ""
    if unknown and unknown == calls:
        return Entry("unknown", missing)
    if not right:
        return Entry(DASH, missing)
    value = total / right
    return Entry(_money(value) if money else _plain_number(value), missing, value)


def _total(total: float, unknown: int, calls: int, money: bool = False) -> Entry:
    missing = f"{count(unknown)} calls unknown" if unknown else ""
    if unknown and unknown == calls:
        return Entry("unknown", missing)
    return Entry(_money(total) if money else count(total), missing, total)


def _row(used: Used, right: float) -> list[Entry]:
    calls = used["calls"]
    tokens = used["prompt_tokens"] + used["completion_tokens"]
    return [
        number(right),
        number(calls),
        _each(calls, 0, calls, right),
        _total(tokens, used["unknown_token_calls"], calls),
        _each(tokens, used["unknown_token_calls"], calls, right),
        _total(used["known_usd"], used["unknown_cost_calls"], calls, money=True),
        _each(used["known_usd"], used["unknown_cost_calls"], calls, right, money=True),
        number(used["executions"]),
        _each(used["executions"], 0, calls, right),
    ]


COLUMNS = [
    Column("Right tasks"),
    Column("Model calls"),
    Column("Calls per right task"),
    Column("Tokens"),
    Column("Tokens per right task"),
    Column("Known cost, USD"),
    Column("USD per right task"),
    Column("SQL executions"),
    Column("SQL per right task"),
]
NOTE = (
    "Right tasks are weighted: graph, execution and plan right together (the numerator of R+E-Graph). Calls of the clarification "
    "judge are the evaluator's and left out. Where some calls have no known price or tokens, the number rests on the others and is "
    "a lower bound; an en dash: no task was right."
)
NOTHING = "This run does not record what its cells used; run the factorial again, results are kept."


def backends(run: RunTables) -> View:
    """Every backend: its reference cell alone, and all of its cells with what they share counted once."""
    rows = []
    for b in run.backends:
        for cell in run.cells(backend=b, interaction=NEVER, **FIXED_SLICE):
            used, ratio = run.usage["cells"].get(cell.cell_id), run.ratio(cell.cell_id, END)
            if used is not None and ratio is not None:
                rows.append([backend_entry(run, b), Entry("reference cell alone"), *_row(used, ratio.numerator)])
        used = run.usage["backends"].get(b)
        if used is not None:
            cells = run.cells(backend=b)
            right = sum(r.numerator for r in run.ratios(cells, END))
            rows.append([backend_entry(run, b), Entry(f"{len(cells)} cells, shared"), *_row(used, right)])
    return View(
        "cost",
        "Cost of a right task by backend",
        [*text_columns("Backend", "Of"), *COLUMNS],
        rows,
        f"{NOTE} Shared: the right tasks of all cells, privileged ones too, over what these cells used together.",
        NOTHING,
    )


def cells(run: RunTables) -> View:
    """Every cell as if it stood alone."""
    rows = []
    for c in run.cells():
        used, ratio = run.usage["cells"].get(c.cell_id), run.ratio(c.cell_id, END)
        if used is not None and ratio is not None:
            rows.append(
                [
                    backend_entry(run, c.backend),
                    Entry(str(c.router)),
                    Entry(words(str(c.data_agent))),
                    Entry(str(c.planner)),
                    Entry(str(c.interaction)),
                    mode_entry(str(c.query_mode)),
                    *_row(used, ratio.numerator),
                ]
            )
    heads = ("Backend", "Router", "Data agent", "Planner", "Interaction", "Request mode")
    return View(
        "cost-cells",
        "Cost of a right task by cell, each as if it stood alone",
        [*text_columns(*heads), *COLUMNS],
        rows,
        NOTE,
        NOTHING,
        sortable=True,
        filtered=True,
        choices=heads,
    )


def _saved(apart: float, shared: float) -> list[Entry]:
    times = apart / shared if shared else None
    return [number(apart), number(shared), Entry(DASH if times is None else f"{times:,.1f}×", sort=times)]


def sharing(run: RunTables) -> View:
    """Unshared over shared: model calls and SQL executions of the run and of every backend."""
    r = run.record
    shared = r["model_calls"] - r.get("model_calls_study_only", 0)
    sql = _saved(r["sql_executions_unshared"], r["sql_executions"])
    rows = [[Entry("whole run"), *_saved(r["model_calls_unshared"], shared), *sql]]
    for b in run.backends:
        used = run.usage["backends"].get(b)
        if used is not None:
            rows.append(
                [
                    backend_entry(run, b),
                    *_saved(used["calls_apart"], used["calls"]),
                    *_saved(used["executions_apart"], used["executions"]),
                ]
            )
    return View(
        "sharing",
        "What sharing saves: items that separate cells would need, and items the cells rest on together",
        [
            *text_columns("Of"),
            Column("Model calls apart"),
            Column("Model calls shared"),
            Column("Calls saved"),
            Column("SQL apart"),
            Column("SQL shared"),
            Column("SQL saved"),
        ],
        rows,
        "Apart is the sum over cells of the distinct items inside each. The whole run counts the judge's calls too, and a query that two "
        "backends wrote alike once. Calls of the routing study alone are in neither.",
    )
