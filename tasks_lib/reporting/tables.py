"""The tables of the results: headline, routing study, request modes, sequential plans, matched contrasts; words they share.

Each function turns a run's published values into one view. Nothing is scored here: what is shown is a published value, a sum of
published numerators and denominators, or a mean or quantile over cells, and the captions say which (PROTOCOL 13, 14).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

import numpy as np
import polars as pl

from tasks_lib.protocol.records import Cell
from tasks_lib.protocol.vocabulary import DataAgent, Interaction, Planner, QueryMode, Router
from tasks_lib.reporting.run_tables import Ratio, RunTables, pooled
from tasks_lib.reporting.views import (
    BASELINE,
    DIAGNOSTIC,
    MISSING,
    Column,
    Entry,
    View,
    bracket,
    difference,
    number,
    percent,
    plain,
    share,
    text_columns,
    words,
)
from tasks_lib.scoring.cells import ROUTING_STUDY_ROUTERS
from tasks_lib.scoring.contrasts import CONTRASTS

OPEN = (str(QueryMode.FUSED), str(QueryMode.ROUTER))
LLM, NEVER = str(Planner.LLM), str(Interaction.NEVER)
FIXED_SLICE = {
    "router": str(Router.HERMES),
    "data_agent": str(DataAgent.ADAPTER),
    "planner": LLM,
    "query_mode": str(QueryMode.ROUTER),
}
FIXED_WORDS = "Hermes router, adapter data agent, LLM planner, router-local requests"


def backend_entry(run: RunTables, name: str) -> Entry:
    """A backend's name, marked when it is an offline policy."""
    return Entry(name, marks=(BASELINE,) if name in run.baselines else ())


def mode_entry(mode: str) -> Entry:
    """A request mode, marked when it is privileged."""
    return Entry(words(mode), marks=(DIAGNOSTIC,) if mode == QueryMode.PRIVILEGED else ())


def defined(ratios: Iterable[Ratio]) -> list[float]:
    """Values of the ratios that are not 0/0."""
    return [r.value for r in ratios if r.value is not None]


def quantile(values: Sequence[float], q: float) -> float | None:
    """Linear-interpolation quantile; None of nothing."""
    return float(np.quantile(np.array(values), q)) if values else None


def mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def headline(run: RunTables) -> View:
    """Distribution over each backend's 12 non-privileged LLM-planner cells, by interaction."""
    rows = []
    for backend in run.backends:
        for interaction in Interaction:
            cells = run.cells(backend=backend, planner=LLM, interaction=str(interaction), query_mode=OPEN)
            ends = defined(run.ratios(cells, "R+E-Graph"))
            rows.append(
                [
                    backend_entry(run, backend),
                    Entry(str(interaction)),
                    plain(quantile(ends, 0.5)),
                    Entry(bracket(quantile(ends, 0.25), quantile(ends, 0.75)), sort=quantile(ends, 0.25)),
                    plain(max(ends, default=None)),
                    *(plain(quantile(defined(run.ratios(cells, m)), 0.5)) for m in ("RA-Set", "RA-Graph", "EA-Micro")),
                    Entry(f"{len(cells)} of 12", sort=len(cells)),
                ]
            )
    return View(
        "headline",
        "Headline values over the non-privileged cells with the LLM planner, by clarification policy (percent)",
        [
            *text_columns("Backend", "Interaction"),
            Column("R+E-Graph median"),
            Column("R+E-Graph IQR"),
            Column("R+E-Graph max"),
            Column("RA-Set median"),
            Column("RA-Graph median"),
            Column("EA-Micro median"),
            Column("Cells"),
        ],
        rows,
        "IQR is the spread over the 12 configurations (3 routers × 2 data agents × 2 request modes), not sampling "
        "uncertainty. The maximum is a selected descriptive value and has no interval.",
    )


def routing(run: RunTables) -> View:
    """The routing study: backend × six routers, with intervals."""
    metrics = ("RA-Set", "RA-Graph", "Precision", "Recall", "F1", "OR", "UR", "Valid")
    rows = [
        [
            backend_entry(run, b),
            Entry(str(r)),
            *(share(run.routing_ratio(b, str(r), m), run.routing_band(b, str(r), m)) for m in metrics),
        ]
        for b in run.backends
        for r in ROUTING_STUDY_ROUTERS
        if run.routing_ratio(b, str(r), "RA-Set") is not None
    ]
    return View(
        "routing",
        "Initial routes of every backend and router, with 95 % intervals (percent)",
        [*text_columns("Backend", "Router"), *(Column(m) for m in metrics)],
        rows,
        "No clarification is performed: the one route of an interactive task is scored on both branches at half weight. "
        "Routers see different amounts of evidence, so rows are reference conditions, not matched ablations.",
        "No routing study belongs to this run.",
        sortable=True,
    )


def mode_cells(run: RunTables, backend: str, mode: str) -> list[Cell]:
    """The six router × data agent cells of a request mode, LLM planner, Never."""
    return run.cells(backend=backend, planner=LLM, interaction=NEVER, query_mode=mode)


MODE_METRICS = ("EA-Micro", "TEA", "R+E-Graph")


def _mode_value(run: RunTables, backend: str, mode: str, metric: str) -> Entry:
    """Mean of the scored cells, with the interval that was computed where all of them are there."""
    value = mean(defined(run.ratios(mode_cells(run, backend, mode), metric)))
    band = run.analysis("request modes", backend, metric, f"query_mode={mode}")
    return Entry(percent(value), "" if band is None else bracket(band.low, band.high), value)


def modes(run: RunTables) -> View:
    """Mean EA-Micro and R+E-Graph by request mode over the same six cells."""
    rows = []
    for backend in run.backends:
        for mode in (QueryMode.FUSED, QueryMode.ROUTER, QueryMode.PRIVILEGED):
            cells = mode_cells(run, backend, str(mode))
            rows.append(
                [
                    backend_entry(run, backend),
                    mode_entry(str(mode)),
                    *(_mode_value(run, backend, str(mode), m) for m in MODE_METRICS),
                    Entry(f"{len(cells)} of 6", sort=len(cells)),
                ]
            )
    return View(
        "modes",
        "Mean over the same six router and data-agent cells by request mode: LLM planner, Never, with 95 % intervals (percent)",
        [*text_columns("Backend", "Request mode"), *(Column(m) for m in MODE_METRICS), Column("Cells")],
        rows,
        "Privileged requests are the evaluator's own source questions: a diagnostic, never a ranking.",
    )


def contrasts(run: RunTables, name: str, caption: str, wanted: Sequence[str]) -> View:
    """Matched differences with intervals. `wanted`: contrast names of `scoring.contrasts`."""
    rows = []
    for backend in run.backends:
        for c in (c for n in wanted for c in CONTRASTS if c.name == n):
            for metric in c.metrics:
                band = run.band(f"{backend}: {c.name}", metric, c.scope)
                marks = (DIAGNOSTIC,) if QueryMode.PRIVILEGED in (c.high, c.low) else ()
                high, low = c.name.split("−")
                rows.append(
                    [
                        backend_entry(run, backend),
                        Entry(f"{words(high)} − {words(low)}", marks=marks),
                        Entry("all tasks" if c.scope == "all" else f"{c.scope} tasks"),
                        Entry(metric),
                        *difference(band),
                        number(band.tasks) if band else Entry(MISSING),
                        number(band.dropped) if band else Entry(MISSING),
                    ]
                )
    return View(
        name,
        caption,
        [
            *text_columns("Backend", "Contrast", "Scope", "Metric"),
            Column("Difference, points"),
            Column("95 % interval"),
            Column("Tasks"),
            Column("Draws dropped"),
        ],
        rows,
        "Mean over matched cells of the difference, every other factor held fixed, the same resamples on both sides. Draws "
        "with a zero denominator in any matched cell are dropped; an en dash means that none was left.",
    )


def sequential(run: RunTables) -> View:
    """Plan accuracy of both planners on set-correct sequential tasks, Never, open modes."""
    rows = []
    for backend in run.backends:
        for planner in (Planner.LLM, Planner.ORACLE):
            cells = run.cells(backend=backend, planner=str(planner), interaction=NEVER, query_mode=OPEN)
            plans = run.ratios(cells, "Plan-Accuracy", "behavior", "sequential")
            if not plans:
                continue
            whole = pooled(plans)
            rows.append(
                [
                    backend_entry(run, backend),
                    Entry(str(planner)),
                    plain(mean(defined(plans))),
                    share(
                        whole, run.analysis("planners", backend, "Plan-Accuracy", f"planner={planner}", "sequential")
                    ),
                    number(whole.numerator),
                    number(whole.denominator),
                    plain(mean(defined(run.ratios(cells, "R+E-Graph", "behavior", "sequential")))),
                    Entry(f"{len(defined(plans))} of {len(cells)}", sort=len(defined(plans))),
                ]
            )
    return View(
        "sequential",
        "Sequential tasks by planner: mean over the 12 non-privileged Never cells (percent)",
        [
            *text_columns("Backend", "Planner"),
            Column("Plan accuracy"),
            Column("Pooled, 95 % interval"),
            Column("Right plans"),
            Column("Set-correct attempts"),
            Column("R+E-Graph"),
            Column("Cells with an attempt"),
        ],
        rows,
        "A plan is judged only where the source set is right. The number of sequential tasks is small: read as exploratory.",
        "This run has no sequential task.",
    )


def headline_text(metrics: pl.DataFrame) -> str:
    """The headline table of a run's `metrics` for a terminal: plain aligned text, percent, backends in order of appearance."""
    part = metrics.filter((pl.col("slice") == "all") & (pl.col("denominator") > 0))
    found: dict[tuple[str, str, str], list[float]] = {}
    order: dict[tuple[str, str], None] = {}
    for cell_id, metric, value in part.select("cell_id", "metric", "value").iter_rows():
        backend, _, _, planner, interaction, mode = cell_id.split(".")
        if planner == LLM and mode in OPEN:
            order[(backend, interaction)] = None
            found.setdefault((backend, interaction, metric), []).append(value)
    lines = [["backend", "interaction", "R+E-Graph", "IQR", "RA-Set", "RA-Graph", "EA-Micro", "cells"]]
    for b, i in order:
        ends = found.get((b, i, "R+E-Graph"), [])
        lines.append(
            [b, i, percent(quantile(ends, 0.5)), bracket(quantile(ends, 0.25), quantile(ends, 0.75))]
            + [percent(quantile(found.get((b, i, m), []), 0.5)) for m in ("RA-Set", "RA-Graph", "EA-Micro")]
            + [str(len(ends))]
        )
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    shown = [
        "  ".join(
            t.ljust(w) if k < 2 else t.rjust(w) for k, (t, w) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join(["Medians over the non-privileged LLM-planner cells, percent", *shown])
