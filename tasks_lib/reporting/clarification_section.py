"""Clarification on interactive tasks: both policies side by side, and what asking repairs and harms, by router too.

Belongs here: values pooled over the open cells with the intervals of `analyses`. Does not belong here: paired differences
(`tables.contrasts`, effects_section).
"""

from __future__ import annotations

from tasks_lib.protocol.vocabulary import Interaction
from tasks_lib.reporting.run_tables import RunTables, pooled
from tasks_lib.reporting.tables import LLM, OPEN, backend_entry
from tasks_lib.reporting.views import Column, Entry, View, banded, share, text_columns
from tasks_lib.scoring.cells import FACTORIAL_ROUTERS

GATES = ("RA-Set", "RA-Graph", "TEA", "R+E-Graph")
ASKING = ("Ask-Rate", "Release-Rate", "Change-per-Ask", "Repair-per-Ask", "Harm-per-Ask")


def _label(metric: str) -> str:
    return metric.replace("-per-Ask", " per ask")


def interactive(run: RunTables) -> View:
    """Never against Once on interactive tasks, pooled over the 12 open cells of the LLM planner."""
    rows = []
    for backend in run.backends:
        for interaction in Interaction:
            cells = run.cells(backend=backend, planner=LLM, interaction=str(interaction), query_mode=OPEN)
            found = {m: run.ratios(cells, m, "behavior", "interactive") for m in (*GATES, *ASKING)}
            if not found["RA-Set"]:
                continue
            subject, scope = f"interaction={interaction}", "interactive"
            # Every cell has the same denominator in a gate, so the mean of the analysis is the pooled value.
            bands = {m: run.analysis("interactive tasks", backend, m, subject, scope) for m in GATES}
            if interaction is Interaction.ONCE:
                bands |= {m: run.analysis("clarification", backend, m, "all", scope) for m in ASKING}
            needless = run.ratios(cells, "Needless-Ask-Rate", "all", "all")
            rows.append(
                [
                    backend_entry(run, backend),
                    Entry(str(interaction)),
                    *(share(pooled(found[m]), bands.get(m)) for m in (*GATES, *ASKING)),
                    share(pooled(needless)),
                ]
            )
    return View(
        "interactive",
        "Interactive tasks under both clarification policies, pooled over the 12 non-privileged cells with the LLM planner, with "
        "95 % intervals (percent)",
        [
            *text_columns("Backend", "Interaction"),
            *(Column(_label(m)) for m in (*GATES, *ASKING)),
            Column("Needless asks"),
        ],
        rows,
        "Release rate, change, repair and harm are shares of asked questions; nothing is asked under Never, which is 0/0. "
        "Needless asks are a share of ordinary tasks, 0/0 in a run that lets agents ask on interactive tasks only; they have no "
        "interval.",
        "This run has no interactive task.",
    )


def asking(run: RunTables) -> View:
    """Ask, release, change, repair and harm by router."""
    rows = [
        [
            backend_entry(run, b),
            Entry(str(r)),
            *(banded(run.analysis("clarification", b, m, f"router={r}", "interactive")) for m in ASKING),
        ]
        for b in run.backends
        for r in FACTORIAL_ROUTERS
        if run.analysis("clarification", b, ASKING[0], f"router={r}", "interactive") is not None
    ]
    return View(
        "asking",
        "Asking by router on interactive tasks: LLM planner, Once, with 95 % intervals (percent)",
        [*text_columns("Backend", "Router"), *(Column(_label(m)) for m in ASKING)],
        rows,
        "Pooled over the 2 data agents × 2 non-privileged request modes. A router decides once whether to ask about a task, so its "
        "four cells agree.",
        "No backend has all of its cells, or there is no interactive task.",
        sortable=True,
    )
