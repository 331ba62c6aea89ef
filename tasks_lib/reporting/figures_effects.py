"""Two more figures: the stage funnel by backend and router, and the factor effects as a forest of intervals.

Belongs here: their charts. Does not belong here: how a chart becomes SVG (see figures).
"""

from __future__ import annotations

import math

from tasks_lib.protocol.vocabulary import FailureStage
from tasks_lib.reporting.effects_section import contrast_words, differences
from tasks_lib.reporting.figures import FAINT, GRID, MODE_COLOURS, STAGE_COLOURS, Figure, domain_of, drawn
from tasks_lib.reporting.gates_section import GATES, scope_words
from tasks_lib.reporting.leaderboards import OPEN_ANALYSIS
from tasks_lib.reporting.run_tables import RunTables
from tasks_lib.scoring.cells import FACTORIAL_ROUTERS

GATE_COLOURS = ("#7facd0", "#8a6fb0", STAGE_COLOURS[FailureStage.NONE])
"""Set, graph, execution: the colours of the failure stages."""
MATCHED, MARGINAL = "matched controls", "marginal, whole grid"
METRIC = "R+E-Graph"


def funnel_figure(run: RunTables) -> Figure | None:
    """Bars of the three gates by router, a panel for each backend; None without a backend whose cells are all there."""
    import altair as alt
    import polars as pl

    rows = []
    for b in run.backends:
        for r in FACTORIAL_ROUTERS:
            for metric, label in GATES:
                band = run.analysis(OPEN_ANALYSIS, b, metric, f"router={r}")
                if band is not None and band.value is not None and band.low is not None and band.high is not None:
                    rows.append((b, str(r), label, 100 * band.value, 100 * band.low, 100 * band.high))
    if not rows:
        return None
    frame = pl.DataFrame(rows, schema=["backend", "router", "gate", "value", "low", "high"], orient="row")
    labels = [label for _, label in GATES]
    y = alt.Y("router:N", sort=[str(r) for r in FACTORIAL_ROUTERS], title=None, axis=alt.Axis(grid=False))
    offset = alt.YOffset("gate:N", sort=labels)
    scale = alt.Scale(domain=domain_of(r[5] for r in rows))
    colour = alt.Color("gate:N", sort=labels, scale=alt.Scale(domain=labels, range=list(GATE_COLOURS)))
    x = alt.X("value:Q", title="Percent of tasks", axis=alt.Axis(tickCount=5), scale=scale)
    whole = alt.layer(
        alt.Chart().mark_bar().encode(x=x, y=y, yOffset=offset, color=colour),
        alt.Chart().mark_rule(color=FAINT, strokeWidth=1.5).encode(x="low:Q", x2="high:Q", y=y, yOffset=offset),
        data=frame,
    ).properties(width=225, height=165)
    chart = whole.facet(facet=alt.Facet("backend:N", sort=run.backends, title=None), columns=4)
    said = "; ".join(f"{b} {r} {gate} {v:.2f} [{lo:.2f}, {hi:.2f}]" for b, r, gate, v, lo, hi in rows)
    caption = (
        "Tasks that pass the set, graph and execution gates by backend and router, with 95 % intervals: pooled over the "
        "non-privileged cells with the LLM planner and Never."
    )
    return Figure("fig-funnel", caption, drawn(chart, "fig-funnel", "Stage funnel", f"Percent. {said}."))


def effects_figure(run: RunTables) -> Figure | None:
    """Differences in R+E-Graph with paired intervals, a panel for each backend; None without any."""
    import altair as alt
    import polars as pl

    rows, seen = [], set()
    for r in differences(run):
        key = (r["backend"], contrast_words(r), r["marginal"])
        # The widest scope of a contrast comes first in the table.
        if (
            r["subject"] != "all"
            or r["metric"] != METRIC
            or r["low"] is None
            or r["scope"] not in ("all", "sequential")
        ):
            continue
        if key in seen:
            continue
        seen.add(key)
        label = contrast_words(r) + ("" if r["scope"] == "all" else f" ({scope_words(r['scope'])})")
        kind = MARGINAL if r["marginal"] else MATCHED
        rows.append((r["backend"], label, kind, 100 * r["value"], 100 * r["low"], 100 * r["high"]))
    if not rows:
        return None
    frame = pl.DataFrame(rows, schema=["backend", "contrast", "kind", "value", "low", "high"], orient="row")
    order = list(dict.fromkeys(r[1] for r in rows))
    kinds = [k for k in (MATCHED, MARGINAL) if any(r[2] == k for r in rows)]
    low, high = min(r[4] for r in rows), max(r[5] for r in rows)
    scale = alt.Scale(domain=[min(0.0, 5.0 * math.floor(low / 5)), max(0.0, 5.0 * math.ceil(high / 5))], nice=False)
    y = alt.Y("contrast:N", sort=order, title=None, axis=alt.Axis(grid=False, labelLimit=260))
    offset = alt.YOffset("kind:N", sort=kinds)
    colours = {MATCHED: MODE_COLOURS["router"], MARGINAL: MODE_COLOURS["privileged"]}
    colour = alt.Color("kind:N", sort=kinds, scale=alt.Scale(domain=kinds, range=[colours[k] for k in kinds]))
    x = alt.X("low:Q", title=f"Difference in {METRIC}, points", axis=alt.Axis(tickCount=5), scale=scale)
    whole = alt.layer(
        alt.Chart().mark_rule(color=GRID, strokeWidth=1).encode(x=alt.datum(0)),
        alt.Chart().mark_rule(strokeWidth=2).encode(x=x, x2="high:Q", y=y, yOffset=offset, color=colour),
        alt.Chart().mark_circle(size=45, opacity=1).encode(x="value:Q", y=y, yOffset=offset, color=colour),
        data=frame,
    ).properties(width=185, height=alt.Step(11, **{"for": "offset"}))
    chart = whole.facet(facet=alt.Facet("backend:N", sort=run.backends, title=None), columns=4)
    said = "; ".join(f"{b}, {c}, {kind}: {v:.2f} [{lo:.2f}, {hi:.2f}]" for b, c, kind, v, lo, hi in rows)
    caption = (
        f"Effect of one factor on {METRIC} in percentage points, with paired 95 % intervals. Marginal effects rest on the whole "
        "grid, privileged requests included."
    )
    return Figure("fig-effects", caption, drawn(chart, "fig-effects", "Factor effects", f"Points. {said}."))
