"""The results page of a run: one HTML file that opens offline, with nothing loaded from anywhere.

Here is only the order of the page and its writing; what the tables say is in the modules of their sections, how they look in templates.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from tasks_lib.reporting import (
    appendix,
    clarification_section,
    comparison,
    cost_section,
    cuts_section,
    disagreement_section,
    effects_section,
    figures,
    figures_effects,
    gates_section,
    glossary,
    leaderboards,
    routing_section,
    spread_section,
    stages_section,
    tables,
    tiers,
)
from tasks_lib.reporting.figures import Figure
from tasks_lib.reporting.run_tables import ReportError, RunTables
from tasks_lib.reporting.tables import headline_text
from tasks_lib.reporting.views import View

__all__ = ["ReportError", "RunTables", "headline_text", "page_html", "render", "write_page", "write_whole"]

TEMPLATES = Path(__file__).with_name("templates")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page. `facts`: name and words, before the tables."""

    name: str
    title: str
    text: str = ""
    figure: Figure | None = None
    views: tuple[View, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()


def _interval_words(run: RunTables) -> str:
    frame = run.intervals if run.intervals.height else run.routing_intervals
    if not frame.height:
        return "No intervals were computed."
    draws, seed = frame["draws"][0], frame["seed"][0]
    return f"Intervals are 95 % percentile intervals of {draws:,} task-cluster resamples (seed {seed})."


def sections(run: RunTables) -> list[Section]:
    """The page's sections in reading order."""
    return [*_results(run), *_around(run)]


def _results(run: RunTables) -> list[Section]:
    return [
        Section("run", "The run", facts=tuple(appendix.facts(run)), views=(appendix.tasks(run),)),
        Section("headline", "Headline", _interval_words(run), views=(tables.headline(run),)),
        Section(
            "boards",
            "Leaderboards",
            f"Who stands together, and who apart? Tiers, no ranks: a rank would tell apart what the intervals do not. {tiers.RULE}",
            views=leaderboards.views(run),
        ),
        Section(
            "routing",
            "Routing study",
            "Which databases do routers find before any question is asked?",
            figures.routing_figure(run),
            (tables.routing(run), *routing_section.views(run)),
        ),
        Section(
            "gates",
            "From sources to results",
            "How much of what is found is also structured and executed rightly?",
            figures_effects.funnel_figure(run),
            (gates_section.funnel(run), gates_section.gates(run), gates_section.wrong_graphs(run)),
        ),
        Section(
            "factors",
            "Factor effects",
            "What does each choice change, every other one held fixed?",
            figures_effects.effects_figure(run),
            (effects_section.effects(run),),
        ),
        Section(
            "modes",
            "Request modes",
            "What does each data agent receive: the whole request, the router's local request, or the evaluator's question?",
            figures.modes_figure(run),
            (
                tables.modes(run),
                tables.contrasts(
                    run, "mode-contrasts", "Matched contrasts of request modes", ("router−fused", "privileged−router")
                ),
            ),
        ),
        Section(
            "clarification",
            "Clarification",
            "Does one question repair the choice of sources?",
            views=(
                clarification_section.interactive(run),
                clarification_section.asking(run),
                tables.contrasts(run, "ask-contrasts", "Matched contrasts of clarification", ("once−never",)),
            ),
        ),
        Section(
            "failures",
            "Where episodes fail",
            "One primary stage for every failed episode.",
            figures.stages_figure(run),
            (
                stages_section.stages(run),
                stages_section.shares(run),
                stages_section.limits(run),
                stages_section.verdicts(run),
            ),
        ),
        Section(
            "slices",
            "By corpus and kind of task",
            appendix.not_original(run),
            views=(cuts_section.corpora(run), cuts_section.ranges(run), cuts_section.cuts(run)),
        ),
        Section(
            "planning",
            "Sequential planning",
            "Can the LLM planner keep the order that dependent queries need?",
            views=(
                tables.sequential(run),
                tables.contrasts(run, "plan-contrasts", "Matched contrasts of planners", ("llm−oracle",)),
            ),
        ),
        Section(
            "spread",
            "Configurations",
            "How far do configurations of one backend differ? Descriptive: no intervals, and maxima are selected.",
            views=(spread_section.spread(run), spread_section.best(run)),
        ),
        Section(
            "costs",
            "Cost and sharing",
            "What does a right task cost, and what does sharing save?",
            views=(cost_section.backends(run), cost_section.sharing(run)),
        ),
    ]


def _around(run: RunTables) -> list[Section]:
    found = []
    if run.disagreement is not None:
        view = disagreement_section.disagreement(run)
        found.append(Section("rules", "Rules of comparing", disagreement_section.TEXT, views=(view,)))
    if run.comparison is not None:
        told = comparison.views(run.comparison)
        found.append(Section("comparison", "Beside an earlier run", comparison.lead(run.comparison), views=told))
    audits = appendix.audits(run)
    if audits:
        found.append(
            Section("audit", "Retrieval audit", "What search over the catalog finds, before any agent.", views=audits)
        )
    return [
        *found,
        Section("verification", "Verification", facts=tuple(appendix.verification(run))),
        Section("all-cells", "All cells", views=(leaderboards.cells(run), cost_section.cells(run))),
        Section("splits", "All differences", views=(effects_section.splits(run),)),
        Section("words", "Glossary", views=(glossary.glossary(),)),
    ]


def page_html(run: RunTables) -> str:
    """The whole page as text; the same run gives the same bytes."""
    return render(
        "page.html.j2",
        record=run.record,
        reason=appendix.reason(run),
        warnings=appendix.warnings(run),
        sections=sections(run),
    )


def render(template: str, **values: object) -> str:
    """A page of this folder's style from one of its templates."""
    import jinja2

    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    html = env.get_template(template).render(
        css=(TEMPLATES / "page.css").read_text("utf-8") + figures.palette_css(),
        script=(TEMPLATES / "sort.js").read_text("utf-8"),
        **values,
    )
    return re.sub(r"\n\s*\n+", "\n", html)


def write_page(run: RunTables, out: Path) -> Path:
    """Write the page to the file `out`, whole or not at all, and return it. Raises ReportError when `out` is a folder."""
    return write_whole(page_html(run), out)


def write_whole(html: str, out: Path) -> Path:
    """Write a page to the file `out`, whole or not at all, and return it. Raises ReportError when `out` is a folder."""
    if out.is_dir():
        raise ReportError(f"{out} is a folder, expected a file name such as {out / 'index.html'}; name the file.")
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = out.with_name(f".{out.name}.{os.getpid()}")
    draft.write_text(html, "utf-8")
    os.replace(draft, out)
    return out
