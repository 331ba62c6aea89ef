"""Figures as inline SVG: routing intervals, request modes, failure stages (others in figures_effects). Drawn offline, coloured by the page's style.

Every colour is a literal of LIGHT; the style sheet made by `palette_css` swaps it in dark mode. Each figure has a title and a
description for readers who do not see it; its numbers stand in a table of the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from tasks_lib.protocol.vocabulary import FailureStage, QueryMode
from tasks_lib.reporting.run_tables import RunTables
from tasks_lib.reporting.stages_section import stage_weights
from tasks_lib.reporting.tables import defined, mean, mode_cells
from tasks_lib.reporting.views import percent, words
from tasks_lib.scoring.cells import ROUTING_STUDY_ROUTERS

INK, GRID, FAINT, HALO = "#1b1f24", "#d9dde2", "#57606a", "#fdfdfe"
DARK = {INK: "#e6e8eb", GRID: "#3a414a", FAINT: "#a4adb8", HALO: "#15181c"}
MODE_COLOURS = {"fused": "#6b8fb8", "router": "#1f5a94", "privileged": "#b98a3e"}
DARK |= {"#6b8fb8": "#5f86b3", "#1f5a94": "#8cc0f5", "#b98a3e": "#d9a95a"}
STAGE_COLOURS = {
    FailureStage.ASKED_WITHOUT_REVISING: "#0f3f66",
    FailureStage.BRANCH_ERROR: "#26618f",
    FailureStage.RETRIEVAL_MISS: "#4a86b3",
    FailureStage.UNDER_SELECTION: "#7facd0",
    FailureStage.OVER_SELECTION: "#b5d0e6",
    FailureStage.GRAPH_ERROR: "#8a6fb0",
    FailureStage.BINDING_ORDER_ERROR: "#b5651d",
    FailureStage.DECOMPOSITION_ERROR: "#d98f4a",
    FailureStage.SOURCE_EXECUTION_ERROR: "#f0c08a",
    FailureStage.NONE: "#3f8f63",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """`svg`: trusted markup made here. `caption`: visible. The text alternative is inside the SVG."""

    name: str
    caption: str
    svg: str


def palette_css() -> str:
    """Dark-mode rules for the literal colours of the figures."""
    rules = [f'figure svg [{a}="{light}"]{{{a}:{dark}}}' for light, dark in DARK.items() for a in ("fill", "stroke")]
    return "@media (prefers-color-scheme: dark){" + "".join(rules) + "}"


def _theme() -> dict[str, Any]:
    quiet = {
        "labelColor": FAINT,
        "titleColor": INK,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    }
    return {
        "background": None,
        "font": "sans-serif",
        "view": {"stroke": None},
        "axis": {**quiet, "gridColor": GRID, "domainColor": GRID, "tickColor": GRID},
        "legend": {**quiet, "orient": "top", "title": None, "symbolType": "square"},
        "header": {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "labelFontWeight": "bold", "title": None},
    }


def drawn(chart: Any, name: str, title: str, description: str) -> str:
    """The chart as an SVG that names itself, links nowhere and shares no id with another figure."""
    import vl_convert

    spec = chart.to_dict()
    spec["config"] = _theme()
    svg: str = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    svg = re.sub(r'\s(?:xmlns(?::\w+)?|role|aria-[a-z]+|class|version)="[^"]*"', "", svg)
    svg = svg.replace('id="', f'id="{name}-').replace("url(#", f"url(#{name}-")
    head = (
        f'<svg role="img" aria-labelledby="{name}-title {name}-desc"'
        f'><title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(description)}</desc>'
    )
    opening = re.match(r"<svg([^>]*)>", svg)
    if opening is None:
        raise ValueError(
            f"figure {name} was not drawn as SVG (it begins {svg[:40]!r}); install vl-convert-python again."
        )
    return head.replace("<svg ", f"<svg{opening.group(1)} ", 1) + svg[opening.end() :]


def domain_of(percents: Iterable[float]) -> list[float]:
    """From 0 to the next full ten above the largest value."""
    return [0.0, min(100.0, 10.0 * (int(max(percents)) // 10 + 1))]


def routing_figure(run: RunTables) -> Figure | None:
    """RA-Set of every backend and router with its interval; None without a routing study."""
    import altair as alt
    import polars as pl

    rows = []
    for b in run.backends:
        for r in ROUTING_STUDY_ROUTERS:
            ratio, band = run.routing_ratio(b, str(r), "RA-Set"), run.routing_band(b, str(r), "RA-Set")
            if ratio is not None and ratio.value is not None and band is not None and band.low is not None:
                rows.append((b, str(r), 100 * ratio.value, 100 * band.low, 100 * (band.high or 0.0)))
    if not rows:
        return None
    frame = pl.DataFrame(rows, schema=["backend", "router", "value", "low", "high"], orient="row")
    y = alt.Y("router:N", sort=[str(r) for r in ROUTING_STUDY_ROUTERS], title=None, axis=alt.Axis(grid=False))
    x = alt.X(
        "low:Q",
        title="RA-Set, percent",
        axis=alt.Axis(tickCount=5),
        scale=alt.Scale(domain=domain_of(r[4] for r in rows)),
    )
    whole = alt.layer(
        alt.Chart().mark_rule(color=MODE_COLOURS["router"], strokeWidth=2).encode(x=x, x2="high:Q", y=y),
        alt.Chart().mark_circle(color=MODE_COLOURS["router"], size=70, opacity=1).encode(x="value:Q", y=y),
        data=frame,
    ).properties(width=205, height=150)
    chart = whole.facet(facet=alt.Facet("backend:N", sort=run.backends, title=None), columns=4)
    said = "; ".join(f"{b} {r} {v:.2f} [{lo:.2f}, {hi:.2f}]" for b, r, v, lo, hi in rows)
    caption = "Exact source sets of the initial routes (RA-Set) with 95 % intervals, by backend and router."
    return Figure(
        "fig-routing", caption, drawn(chart, "fig-routing", "RA-Set by backend and router", f"Percent. {said}.")
    )


def modes_figure(run: RunTables) -> Figure | None:
    """Bars of mean EA-Micro and R+E-Graph by request mode; dots are the six cells. None without such cells."""
    import altair as alt
    import polars as pl

    order = [QueryMode.FUSED, QueryMode.ROUTER, QueryMode.PRIVILEGED]
    means, dots = [], []
    for b in run.backends:
        for mode in order:
            for metric in ("EA-Micro", "R+E-Graph"):
                values = defined(run.ratios(mode_cells(run, b, str(mode)), metric))
                middle = mean(values)
                if middle is not None:
                    means.append((b, _mode_words(mode), metric, 100 * middle))
                    dots += [(b, _mode_words(mode), metric, 100 * v) for v in values]
    if not means:
        return None
    names = ["backend", "mode", "metric", "value"]
    bars, points = (pl.DataFrame(rows, schema=names, orient="row") for rows in (means, dots))
    domain = [_mode_words(m) for m in order]
    colour = alt.Color(
        "mode:N", sort=domain, scale=alt.Scale(domain=domain, range=[MODE_COLOURS[str(m)] for m in order])
    )
    x = alt.X("backend:N", sort=run.backends, title=None, axis=alt.Axis(labelAngle=0, labelLimit=130))
    panels = []
    for metric in ("EA-Micro", "R+E-Graph"):
        top = domain_of(d[3] for d in dots if d[2] == metric)
        y = alt.Y("value:Q", title=f"{metric}, percent", scale=alt.Scale(domain=top))
        offset = alt.XOffset("mode:N", sort=domain)
        bar = (
            alt.Chart(bars.filter(pl.col("metric") == metric)).mark_bar().encode(x=x, xOffset=offset, y=y, color=colour)
        )
        dot = (
            alt.Chart(points.filter(pl.col("metric") == metric))
            .mark_circle(size=40, opacity=1, color=INK, stroke=HALO, strokeWidth=1)
            .encode(x=x, xOffset=offset, y=y)
        )
        panels.append((bar + dot).properties(width=max(200, min(460, 115 * len(run.backends))), height=210))
    chart = alt.hconcat(*panels, spacing=34)
    said = "; ".join(f"{b}, {mode}, {metric} {v:.2f}" for b, mode, metric, v in means)
    caption = "Mean over six matched cells by request mode (LLM planner, Never). Dots are the cells, not intervals."
    return Figure("fig-modes", caption, drawn(chart, "fig-modes", "Request modes", f"Means in percent. {said}."))


def _mode_words(mode: QueryMode) -> str:
    return {"fused": "fused request", "router": "router-local request", "privileged": "privileged (diagnostic)"}[
        str(mode)
    ]


def _stage_words(stage: FailureStage) -> str:
    return "success" if stage is FailureStage.NONE else words(str(stage))


def stages_figure(run: RunTables) -> Figure | None:
    """Stacked shares of the primary failure stages of the fixed slice; None when no such cell is complete."""
    import altair as alt
    import polars as pl

    weights: Mapping[tuple[str, str], Mapping[str, float]] = stage_weights(run)
    if not weights:
        return None
    order = list(STAGE_COLOURS)
    rows = [
        (f"{b}, {i}", _stage_words(s), order.index(s), found[str(s)] / sum(found.values()))
        for (b, i), found in weights.items()
        for s in order
        if found[str(s)]
    ]
    frame = pl.DataFrame(rows, schema=["row", "stage", "place", "share"], orient="row")
    shown = [s for s in order if any(r[1] == _stage_words(s) for r in rows)]
    domain = [_stage_words(s) for s in shown]
    chart = (
        alt.Chart(frame)
        .mark_bar(stroke=GRID, strokeWidth=0.5)
        .encode(
            y=alt.Y("row:N", sort=[f"{b}, {i}" for b, i in weights], title=None, axis=alt.Axis(labelLimit=240)),
            x=alt.X(
                "share:Q",
                title="Share of tasks",
                axis=alt.Axis(format="%", tickCount=5, grid=False),
                scale=alt.Scale(domain=[0, 1]),
            ),
            color=alt.Color(
                "stage:N",
                scale=alt.Scale(domain=domain, range=[STAGE_COLOURS[s] for s in shown]),
                legend=alt.Legend(columns=5, labelLimit=220),
            ),
            order="place:Q",
        )
        .properties(width=860, height=alt.Step(26))
    )
    parts: dict[str, list[str]] = {}
    for row, stage, _, part in rows:
        parts.setdefault(row, []).append(f"{stage} {percent(part)}")
    said = ". ".join(f"{row}: {', '.join(p)}" for row, p in parts.items())
    caption = "Where episodes fail first: blue is source selection, purple the graph, orange execution, green success."
    return Figure("fig-stages", caption, drawn(chart, "fig-stages", "Primary failure stages", f"Percent. {said}."))
