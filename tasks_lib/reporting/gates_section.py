"""The stage funnel: how many tasks pass the set, graph and execution gates, and with what chance from one gate to the next.

Belongs here: the funnel of the fixed slice in counts, of every backend and router in percent, and the split of wrong graphs.
Does not belong here: where episodes fail first (see stages_section).
"""

from __future__ import annotations

from tasks_lib.reporting.leaderboards import OPEN_ANALYSIS
from tasks_lib.reporting.run_tables import Ratio, RunTables
from tasks_lib.reporting.tables import FIXED_SLICE, FIXED_WORDS, NEVER, backend_entry
from tasks_lib.reporting.views import Column, Entry, View, banded, number, share, text_columns
from tasks_lib.scoring.cells import FACTORIAL_ROUTERS

GATES = (("RA-Set", "Set correct"), ("RA-Graph", "Graph correct"), ("R+E-Graph", "Graph and execution correct"))
STEPS = (
    ("Graph-given-Set", "Graph given set"),
    ("R+E-given-Graph", "Execution given graph"),
    ("R+E-given-Set", "Execution given set"),
)
WRONG = (
    ("Graph-given-Set", "Graph right"),
    ("Label-wrong-given-Set", "Label alone wrong"),
    ("Edges-wrong-given-Set", "Edges alone wrong"),
    ("Both-wrong-given-Set", "Both wrong"),
)
SCOPES = {
    "all": "all tasks",
    "ordinary": "ordinary tasks",
    "sequential": "sequential tasks",
    "interactive": "interactive tasks",
}
"""Scopes of `analyses` in words; a corpus is its own word."""


def scope_words(scope: str) -> str:
    return SCOPES.get(scope, scope)


def funnel(run: RunTables) -> View:
    """How many tasks pass the set, graph and execution gates in the fixed slice under Never."""
    rows = []
    for cell in run.cells(interaction=NEVER, **FIXED_SLICE):
        s, g, e = (run.ratios([cell], m)[0] for m, _ in GATES)
        steps = (
            share(Ratio(below.numerator, above.numerator), run.analysis("reference cell", cell.backend, step))
            for below, above, step in ((g, s, "Graph-given-Set"), (e, g, "R+E-given-Graph"))
        )
        rows.append(
            [
                backend_entry(run, cell.backend),
                number(s.denominator),
                number(s.numerator),
                number(g.numerator),
                number(e.numerator),
                *steps,
            ]
        )
    return View(
        "funnel",
        f"Task-equivalents that pass each gate: {FIXED_WORDS}, Never",
        [
            *text_columns("Backend"),
            Column("Tasks"),
            Column("Set correct"),
            Column("Graph correct"),
            Column("Route and execution correct"),
            Column("Graph given set, %"),
            Column("Execution given graph, %"),
        ],
        rows,
        "Each branch of an interactive task counts one half. Intervals of a transition resample tasks, so its denominator too.",
        "No cell of this slice is complete.",
    )


def gates(run: RunTables) -> View:
    """Gates and transitions of every backend and factorial router, pooled over its open cells."""
    rows = [
        [
            backend_entry(run, b),
            Entry(str(r)),
            Entry(scope_words(scope)),
            *(banded(run.analysis(OPEN_ANALYSIS, b, m, f"router={r}", scope)) for m, _ in (*GATES, *STEPS)),
        ]
        for scope in ("all", "ordinary")
        for b in run.backends
        for r in FACTORIAL_ROUTERS
        if run.analysis(OPEN_ANALYSIS, b, "RA-Set", f"router={r}", scope) is not None
    ]
    return View(
        "gates",
        "Gates and transitions of every backend and router, with 95 % intervals (percent)",
        [*text_columns("Backend", "Router", "Scope"), *(Column(label) for _, label in (*GATES, *STEPS))],
        rows,
        "Pooled over the 2 data agents × 2 non-privileged request modes with the LLM planner and Never: summed numerators by summed "
        "denominators. Ordinary tasks are all but the interactive ones.",
        "No backend has all of its cells.",
        sortable=True,
        filtered=True,
        choices=("Backend", "Router", "Scope"),
    )


def wrong_graphs(run: RunTables) -> View:
    """Which half of the graph gate fails where the set is right."""
    subjects = ("all", *(f"router={r}" for r in FACTORIAL_ROUTERS))
    rows = [
        [
            backend_entry(run, b),
            Entry("all routers" if subject == "all" else subject.removeprefix("router=")),
            Entry(scope_words(scope)),
            *(banded(run.analysis("label against edges", b, m, subject, scope)) for m, _ in WRONG),
        ]
        for scope in ("all", "ordinary", "sequential")
        for b in run.backends
        for subject in subjects
        if run.analysis("label against edges", b, WRONG[0][0], subject, scope) is not None
    ]
    return View(
        "wrong-graphs",
        "Graphs of routes whose source set is right: what is wrong in them, with 95 % intervals (percent)",
        [*text_columns("Backend", "Router", "Scope"), *(Column(label) for _, label in WRONG)],
        rows,
        "Pooled over the non-privileged cells with the LLM planner and Never. The label is the topology, the edges are dependencies.",
        "No backend has all of its cells.",
        sortable=True,
        filtered=True,
        choices=("Backend", "Router", "Scope"),
    )
