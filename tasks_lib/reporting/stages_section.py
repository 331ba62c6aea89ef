"""Where episodes fail: primary failure stages of the fixed slice, and verdicts by kind.

Belongs here: counts of stages and verdicts. Does not belong here: deciding a stage (`scoring.stages`).
"""

from __future__ import annotations

import polars as pl

from tasks_lib.protocol.vocabulary import DataAgent, FailureStage, Interaction, VerdictKind
from tasks_lib.reporting.run_tables import RunTables
from tasks_lib.reporting.tables import FIXED_SLICE, FIXED_WORDS, backend_entry
from tasks_lib.reporting.views import Column, Entry, View, banded, count, number, percent, text_columns, words
from tasks_lib.scoring.cells import FACTORIAL_ROUTERS


def stage_words(stage: FailureStage) -> str:
    return "success" if stage is FailureStage.NONE else words(str(stage))


def stage_weights(run: RunTables) -> dict[tuple[str, str], dict[str, float]]:
    """Task-equivalents by primary failure stage for (backend, interaction) of the fixed slice."""
    found = {}
    for cell in run.cells(**FIXED_SLICE):
        have = dict(run.stages.filter(pl.col("cell_id") == cell.cell_id).select("failure_stage", "weight").iter_rows())
        if have:
            found[(cell.backend, str(cell.interaction))] = {str(s): have.get(str(s), 0.0) for s in FailureStage}
    order = [(b, str(i)) for b in run.backends for i in Interaction]
    return {key: found[key] for key in order if key in found}


def stages(run: RunTables) -> View:
    """Primary failure stages of the fixed slice, in task-equivalents and percent."""
    rows = []
    for (backend, interaction), weights in stage_weights(run).items():
        total = sum(weights.values())
        rows.append(
            [
                backend_entry(run, backend),
                Entry(interaction),
                *(Entry(count(w), f"{percent(w / total)} %", w) for w in weights.values()),
            ]
        )
    labels = [stage_words(s) for s in FailureStage]
    return View(
        "stages",
        f"Primary failure stage in task-equivalents: {FIXED_WORDS}",
        [*text_columns("Backend", "Interaction"), *(Column(label) for label in labels)],
        rows,
        "Each failed episode has one primary stage, the first that applies from left to right.",
        "No cell of this slice is complete.",
    )


FAILED = tuple(s for s in FailureStage if s is not FailureStage.NONE)
SHARES: tuple[tuple[str, str, str, str], ...] = (
    ("reference cell, failures", "all", "fixed slice", "never"),
    *(("failures", f"router={r}", f"router: {r}", "never") for r in FACTORIAL_ROUTERS),
    *(("failures", f"data_agent={a}", f"data agent: {words(str(a))}", "never") for a in DataAgent),
    *(("failures, asking once", f"router={r}", f"router: {r}", "once") for r in FACTORIAL_ROUTERS),
)
"""Analysis, its subject, what that is in words, and interaction."""


def shares(run: RunTables) -> View:
    """Share of every failure stage with its interval: fixed slice, routers and data agents."""
    rows = []
    for analysis, subject, what, interaction in SHARES:
        for backend in run.backends:
            bands = [run.analysis(analysis, backend, f"Failed: {s}", subject) for s in FAILED]
            if any(b is not None for b in bands):
                head = [backend_entry(run, backend), Entry(what), Entry(interaction)]
                rows.append([*head, *(banded(b) for b in bands)])
    return View(
        "stage-shares",
        "Primary failure stages as shares of all tasks, with 95 % intervals (percent): LLM planner, router-local requests",
        [*text_columns("Backend", "Of", "Interaction"), *(Column(stage_words(s)) for s in FAILED)],
        rows,
        "Routers: mean over the two data agents; data agents: mean over the three routers. The shares of a row and its R+E-Graph "
        "add up to all tasks.",
        "No backend has all of its cells.",
        sortable=True,
        filtered=True,
        choices=("Backend", "Of", "Interaction"),
    )


def limits(run: RunTables) -> View:
    """Of routes that lack a required database: was it never seen, or seen and not chosen?"""
    metrics = (("Retriever-limited", "Never seen (retriever)"), ("Agent-limited", "Seen, not chosen (agent)"))
    subjects = ("all", *(f"router={r}" for r in FACTORIAL_ROUTERS))
    rows = [
        [
            backend_entry(run, b),
            Entry("all routers" if subject == "all" else subject.removeprefix("router=")),
            *(banded(run.analysis("retriever or agent", b, m, subject, "ordinary")) for m, _ in metrics),
        ]
        for b in run.backends
        for subject in subjects
        if run.analysis("retriever or agent", b, metrics[0][0], subject, "ordinary") is not None
    ]
    return View(
        "limits",
        "Routes that lack a required database: was it never seen, or not chosen? Ordinary tasks, with 95 % intervals (percent)",
        [*text_columns("Backend", "Router"), *(Column(label) for _, label in metrics)],
        rows,
        "Pooled over the two data agents: LLM planner, Never, router-local requests.",
        "No backend has all of its cells.",
    )


def verdicts(run: RunTables) -> View:
    """Verdict kinds of contributions by backend and data agent."""
    table = {(b, a, k): n for b, a, k, n in run.contributions.select("backend", "data_agent", "kind", "n").iter_rows()}
    kinds = [str(k) for k in VerdictKind if any(key[2] == k for key in table)]
    groups = [(b, a) for b in run.backends for a in dict.fromkeys(k[1] for k in sorted(table) if k[0] == b)]
    rows = []
    for b, a in groups:
        total = sum(n for (x, y, _), n in table.items() if (x, y) == (b, a))
        rows.append(
            [
                backend_entry(run, b),
                Entry(words(a)),
                number(total),
                *(number(table.get((b, a, k), 0)) for k in kinds),
            ]
        )
    return View(
        "verdicts",
        "Distinct contribution verdicts by kind (planners, request modes and route states together)",
        [*text_columns("Backend", "Data agent"), Column("All"), *(Column(words(k)) for k in kinds)],
        rows,
        "Only “correct” counts; every other kind stays in the denominators.",
        "No contribution was judged.",
    )
