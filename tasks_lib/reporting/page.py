"""The results page of a run: one HTML file that opens offline, with nothing loaded from anywhere.

Here is only the order of the page and its writing; what the tables say is in tables and appendix, how they look in templates.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from tasks_lib.reporting import appendix, comparison, disagreement_section, figures, routing_section, tables
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
    found = [
        Section("run", "The run", facts=tuple(appendix.facts(run)), views=(appendix.tasks(run),)),
        Section("headline", "Headline", _interval_words(run), views=(tables.headline(run),)),
        Section(
            "routing",
            "Routing study",
            "Which databases do routers find before any question is asked?",
            figures.routing_figure(run),
            (tables.routing(run), *routing_section.views(run)),
        ),
        Section(
            "funnel",
            "From sources to results",
            "How much of what is found is also structured and executed rightly?",
            views=(tables.funnel(run),),
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
            "interactive",
            "Clarification",
            "Does one question repair the choice of sources?",
            views=(
                tables.interactive(run),
                tables.contrasts(run, "ask-contrasts", "Matched contrasts of clarification", ("once−never",)),
            ),
        ),
        Section(
            "stages",
            "Where episodes fail",
            "One primary stage for every failed episode.",
            figures.stages_figure(run),
            (appendix.stages(run), appendix.verdicts(run)),
        ),
        Section("corpora", "By corpus", appendix.not_original(run), views=(tables.corpora(run),)),
        Section(
            "sequential",
            "Sequential planning",
            "Can the LLM planner keep the order that dependent queries need?",
            views=(
                tables.sequential(run),
                tables.contrasts(run, "plan-contrasts", "Matched contrasts of planners", ("llm−oracle",)),
            ),
        ),
        Section(
            "factors",
            "Routers and data agents",
            "The other two factors, every other one held fixed.",
            views=(
                tables.contrasts(
                    run,
                    "factor-contrasts",
                    "Matched contrasts of routers and data agents",
                    ("react−direct", "hermes−direct", "adapter−text_to_sql"),
                ),
            ),
        ),
    ]
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
        Section("cells", "All cells", views=(appendix.cells(run),)),
        Section("glossary", "Glossary", views=(appendix.glossary(),)),
    ]


def page_html(run: RunTables) -> str:
    """The whole page as text; the same run gives the same bytes."""
    return render("page.html.j2", record=run.record, warnings=appendix.warnings(run), sections=sections(run))


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
