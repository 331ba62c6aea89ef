"""The results page: its numbers are the frames' numbers, it says what it cannot know, and it refers to nothing outside itself."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path
from statistics import fmean, median

import polars as pl
import pytest
from reporting_support import MODEL, POLICY, cell_episodes, run_tables

from tasks_lib.reporting.appendix import facts, reason
from tasks_lib.reporting.page import ReportError, RunTables, headline_text, page_html, write_page
from tasks_lib.scoring.cells import ROUTING_STUDY_ROUTERS, grid
from tasks_lib.scoring.metrics import HEADLINE

OPEN = ("fused", "router")


class Page(HTMLParser):
    """Texts of the table cells by table name; every element's attributes; ids."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._rows: list[list[str]] = []
        self._open = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append((tag, found))
        if tag == "table":
            self._rows = self.tables.setdefault(str(found["id"]).removeprefix("table-"), [])
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")
            self._open = True
        elif tag == "small":
            self._rows[-1][-1] += " "

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self._rows[-1][-1] += data

    def rows(self, table: str, *start: str) -> list[dict[str, str]]:
        """Rows of a table, by column head, whose first entries begin with these words."""
        head, *rows = self.tables[table]
        chosen = [r for r in rows if all(cell.startswith(s) for cell, s in zip(r, start, strict=False))]
        return [dict(zip(head, r, strict=True)) for r in chosen]

    def row(self, table: str, *start: str) -> dict[str, str]:
        (found,) = self.rows(table, *start)
        return found


@pytest.fixture(scope="module")
def run() -> RunTables:
    return run_tables()


@pytest.fixture(scope="module")
def html(run: RunTables) -> str:
    return page_html(run)


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def values(run: RunTables, metric: str, slice_: str = "all", **factors: tuple[str, ...]) -> list[float]:
    """Published values of the chosen cells, straight from the frame, 0/0 left out."""
    chosen = [c.cell_id for c in grid((POLICY, MODEL)) if all(str(getattr(c, k)) in v for k, v in factors.items())]
    part = run.metrics.filter(
        (pl.col("slice") == slice_) & (pl.col("metric") == metric) & pl.col("cell_id").is_in(chosen)
    )
    if slice_ == "behavior":
        part = part.filter(pl.col("value_of") == "sequential")
    return part.filter(pl.col("denominator") > 0)["value"].to_list()


def two(fraction: float) -> str:
    return f"{100 * fraction:.2f}"


def test_every_cell_shows_its_published_values_and_intervals(run: RunTables, page: Page) -> None:
    published = {
        (c, m): (v, d)
        for c, m, v, d in run.metrics.filter(pl.col("slice") == "all")
        .select("cell_id", "metric", "value", "denominator")
        .iter_rows()
    }
    bands = {
        (s, m): (low, high) for s, m, low, high in run.intervals.select("subject", "metric", "low", "high").iter_rows()
    }
    assert len(page.rows("cells")) == 144
    dashes = 0
    for cell in grid((POLICY, MODEL)):
        row = page.row("cells", *cell.cell_id.replace("_", " ").split("."))
        for metric in HEADLINE:
            value, denominator = published[(cell.cell_id, metric)]
            if denominator == 0:
                dashes += 1
                assert row[metric] == "–"
            else:
                low, high = bands[(cell.cell_id, metric)]
                assert row[metric] == f"{two(value)} [{two(low)}, {two(high)}]"
        assert ("diagnostic" in row["Request mode"]) == (cell.query_mode == "privileged")
        assert ("baseline" in row["Backend"]) == (cell.backend == POLICY)
    assert dashes == 48, "24 cells of the blind router have no set-correct task: CEA-Set and CEA-Graph are 0/0"


def test_the_headline_is_the_median_over_twelve_open_cells(run: RunTables, page: Page) -> None:
    for backend in (POLICY, MODEL):
        for interaction in ("never", "once"):
            row = page.row("headline", backend, interaction)
            factors = {"backend": (backend,), "planner": ("llm",), "interaction": (interaction,), "query_mode": OPEN}
            for column, metric in (
                ("R+E-Graph median", "R+E-Graph"),
                ("RA-Set median", "RA-Set"),
                ("RA-Graph median", "RA-Graph"),
                ("EA-Micro median", "EA-Micro"),
            ):
                assert row[column] == two(median(values(run, metric, **factors)))
            ends = sorted(values(run, "R+E-Graph", **factors))
            assert len(ends) == 12
            low, high = ends[2] + 0.75 * (ends[3] - ends[2]), ends[8] + 0.25 * (ends[9] - ends[8])
            assert row["R+E-Graph IQR"] == f"[{two(low)}, {two(high)}]"
            assert row["Cells"] == "12 of 12"


def test_the_terminal_says_the_same_as_the_page(run: RunTables, page: Page) -> None:
    _, head, *lines = headline_text(run.metrics).splitlines()
    assert head.split() == ["backend", "interaction", "R+E-Graph", "IQR", "RA-Set", "RA-Graph", "EA-Micro", "cells"]
    for line, row in zip(lines, page.rows("headline"), strict=True):
        shown = re.split(r"\s{2,}", line)
        wanted = [row[f"{m} median"] for m in ("RA-Set", "RA-Graph", "EA-Micro")]
        assert shown == [
            row["Backend"].removesuffix(" baseline"),
            row["Interaction"],
            row["R+E-Graph median"],
            row["R+E-Graph IQR"],
            *wanted,
            "12",
        ]


def test_the_routing_study_shows_its_frame(run: RunTables, page: Page) -> None:
    assert len(page.rows("routing")) == 2 * len(ROUTING_STUDY_ROUTERS)
    bands = {
        (s, m): (v, low, high)
        for s, m, v, low, high in run.routing_intervals.select("subject", "metric", "value", "low", "high").iter_rows()
    }
    for backend in (POLICY, MODEL):
        for router in ROUTING_STUDY_ROUTERS:
            row = page.row("routing", backend, str(router))
            for metric in ("RA-Set", "RA-Graph", "Recall"):
                value, low, high = bands[(f"{backend}.{router}", metric)]
                assert row[metric] == f"{two(value)} [{two(low)}, {two(high)}]"


def test_the_funnel_counts_task_equivalents(run: RunTables, page: Page) -> None:
    part = pl.concat(cell_episodes()).filter(pl.col("cell_id") == f"{MODEL}.hermes.adapter.llm.never.router")
    row = page.row("funnel", MODEL)
    weights = [
        part["weight"].sum(),
        part.filter("s")["weight"].sum(),
        part.filter("g")["weight"].sum(),
        part.filter(pl.col("g") & pl.col("t") & pl.col("h"))["weight"].sum(),
    ]
    columns = ("Tasks", "Set correct", "Graph correct", "Route and execution correct")
    assert [float(row[c]) for c in columns] == weights
    assert row["Graph given set, %"].split(" ")[0] == two(weights[2] / weights[1])


def test_request_modes_are_means_over_six_cells_with_their_contrast(run: RunTables, page: Page) -> None:
    for mode in ("fused", "router", "privileged"):
        got = values(run, "EA-Micro", backend=(MODEL,), planner=("llm",), interaction=("never",), query_mode=(mode,))
        assert len(got) == 6
        shown = page.row("modes", MODEL, mode)["EA-Micro"].split(" ")
        assert shown[0] == two(fmean(got))
        assert len(shown) == 3, "an interval stands below"
    band = run.intervals.row(
        by_predicate=(pl.col("subject") == f"{MODEL}: router−fused") & (pl.col("metric") == "EA-Micro"), named=True
    )
    row = page.row("mode-contrasts", MODEL, "router − fused", "all", "EA-Micro")
    assert row["Difference, points"].lstrip("+").replace("−", "-") == two(band["value"])
    assert row["95 % interval"].replace("−", "-") == f"[{two(band['low'])}, {two(band['high'])}]"


def test_nothing_asked_is_an_en_dash_and_nothing_hit_is_zero(page: Page) -> None:
    never, once = page.row("interactive", MODEL, "never"), page.row("interactive", MODEL, "once")
    assert never["Ask-Rate"] == "0.00"
    assert [never[c] for c in ("Release-Rate", "Change per ask", "Repair per ask", "Harm per ask")] == ["–"] * 4
    shown = {name: once[name].split(" ")[0] for name in once}
    assert (shown["Ask-Rate"], shown["Release-Rate"], shown["Harm per ask"]) == ("100.00", "100.00", "0.00")
    assert shown["RA-Set"] == shown["Repair per ask"]
    assert (never["Needless asks"], once["Needless asks"]) == ("–", "–")  # nobody could ask on an ordinary task


def test_a_contrast_without_any_draw_is_an_en_dash(run: RunTables, page: Page) -> None:
    row = page.row("plan-contrasts", POLICY, "llm − oracle", "sequential", "Plan-Accuracy")
    assert (row["Difference, points"], row["95 % interval"], row["Draws dropped"]) == ("–", "–", "100")
    cells = values(
        run, "Plan-Accuracy", "behavior", backend=(POLICY,), planner=("llm",), interaction=("never",), query_mode=OPEN
    )
    assert page.row("sequential", POLICY, "llm")["Cells with an attempt"] == f"{len(cells)} of 12"


def test_failure_stages_add_up_to_the_tasks(run: RunTables, page: Page) -> None:
    cell = f"{MODEL}.hermes.adapter.llm.once.router"
    sums = dict(
        pl.concat(cell_episodes())
        .filter(pl.col("cell_id") == cell)
        .group_by("failure_stage")
        .agg(pl.col("weight").sum())
        .iter_rows()
    )
    row = page.row("stages", MODEL, "once")
    shown = {k: float(v.split()[0]) for k, v in list(row.items())[2:]}
    assert sum(shown.values()) == 24
    assert shown["success"] == sums["none"]
    assert shown["graph error"] == sums["graph_error"]


def test_corpora_carry_their_origin(run: RunTables, page: Page, html: str) -> None:
    row = page.row("corpora", MODEL, "bird")
    assert (row["Databases by origin"], row["Tasks"]) == ("surrogate (8)", "8")
    cell = f"{MODEL}.hermes.adapter.llm.never.router"
    where = (pl.col("cell_id") == cell) & (pl.col("value_of") == "bird") & (pl.col("metric") == "EA-Micro")
    assert row["EA-Micro"].split(" ")[0] == two(run.metrics.row(by_predicate=where, named=True)["value"])
    assert "Not BIRD results: the databases are marked surrogate." in html
    assert "Spider results" not in html
    assert page.row("tasks", "BIRD")["All"] == "8"


def test_run_facts_and_verdicts(html: str, page: Page) -> None:
    for words in (
        "the tables rest on 1,200; 300 were made in this run; separate cells would need 9,800",
        "1.2500 USD known; the price of 7 calls is unknown and not in it",
        "124 of 3,724 verdicts: timeout 124",
        "144 of 144 scored",
        "ok yes, units (checked 40, refused 2)",
    ):
        assert words in html
    assert page.row("verdicts", MODEL, "adapter")["timeout"] == "31"
    audit = page.row("audit-tasks", "task", "all")
    wanted = {"candidate target recall @9": "50.00", "candidate target recall @50": "93.75"}
    assert list(audit.items())[2:] == [("Tasks", "24"), *wanted.items(), ("reranked target recall @10", "75.00")]
    assert page.row("audit-units", "own corpus", "corpus: bird")["reranked MRR"] == "87.03"


def test_m04_what_was_sent_in_place_of_what_was_asked_for_is_told(run: RunTables) -> None:
    """Known fault M04: a temperature that a provider does not take is no temperature of the run."""
    specs = [{**b, "temperature": 0.0} for b in run.record["backends"]]

    def told(temperature: float | None, dropped: list[str]) -> str:
        effective = {MODEL: {"temperature": temperature, "dropped": dropped}}
        return dict(facts(dataclasses.replace(run, record={**run.record, "backends": specs, "effective": effective})))[
            "Backends"
        ]

    as_asked = dict(facts(run))["Backends"]
    assert told(0.0, []) == as_asked
    changed = f"{MODEL} (lab/{MODEL}, temperature the provider's default in place of 0.0"
    assert f"{changed})" in told(None, ["temperature"])
    assert f"{changed}, not sent: seed)" in told(None, ["seed", "temperature"])


def test_the_page_refers_to_nothing_outside(html: str, page: Page) -> None:
    assert not re.search(r"https?:|//[a-z]", html)
    for tag, attrs in page.elements:
        assert tag not in ("iframe", "object", "embed", "audio", "video", "img")
        for name in ("src", "href", "xlink:href", "action", "srcset"):
            assert (attrs.get(name) or "#").startswith("#") or attrs[name] == "data:,"
    assert "@import" not in html
    assert not re.search(r"url\((?!#)", html)


def test_the_page_is_marked_up_for_every_reader(page: Page) -> None:
    tags = [tag for tag, _ in page.elements]
    assert tags.count("h1") == 1
    assert tags.count("caption") == tags.count("table") > 12
    assert all(a.get("scope") in ("col", "row") for tag, a in page.elements if tag == "th")
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert tags.count("figure") == 5
    figures = [a for tag, a in page.elements if tag == "svg"]
    for figure in figures:
        assert figure["role"] == "img"
        assert set(str(figure["aria-labelledby"]).split()) <= set(ids)
    for _, attrs in page.elements:
        assert (attrs.get("href") or "#main").removeprefix("#") in ids or attrs["href"] == "data:,"


def test_the_figures_say_their_numbers(run: RunTables, html: str, page: Page) -> None:
    row = page.row("routing", MODEL, "hermes")
    assert f"{MODEL} hermes {row['RA-Set']}" in html
    assert (
        f"{MODEL}, router-local request, EA-Micro {page.row('modes', MODEL, 'router')['EA-Micro'].split()[0]}" in html
    )


def test_the_same_run_gives_the_same_bytes(run: RunTables, html: str, tmp_path: Path) -> None:
    out = write_page(run, tmp_path / "deep" / "page.html")
    assert out.read_text("utf-8") == html
    assert [p.name for p in out.parent.iterdir()] == ["page.html"]
    with pytest.raises(ReportError, match="is a folder, expected a file name"):
        write_page(run, tmp_path)


def doubled(run: RunTables) -> RunTables:
    """The run with each of its backends twice, under other names."""
    names = [f"{b} again" for b in run.backends]
    pairs = list(zip(run.backends, names, strict=True))
    again = {}
    for name in ("metrics", "intervals", "routing_metrics", "routing_intervals", "stages", "analyses"):
        table = getattr(run, name)
        words = [c for c in ("cell_id", "subject", "backend") if c in table.columns]
        copy = table.with_columns(pl.col(words).str.replace_many(run.backends, names))
        again[name] = pl.concat([table, copy])
    record = {**run.record, "backends": [{"name": n, "model": "x"} for pair in pairs for n in pair]}
    return dataclasses.replace(run, record=record, **again)


def test_288_cells_stay_under_ten_megabytes() -> None:
    """Every row there can be, with all intervals: the size hardly depends on the number of tasks."""
    html = page_html(doubled(run_tables()))
    assert html.count("<tr>") > 288
    assert len(html.encode()) < 7_000_000


def test_text_from_outside_is_escaped(run: RunTables) -> None:
    hostile = dataclasses.replace(run, record={**run.record, "reason": "<script>alert(1)</script>"})
    assert "<script>alert" not in page_html(hostile)


@pytest.mark.parametrize(
    ("status", "told", "shown"),
    [
        ("incomplete", "8 cells are missing; resume the run.", "8 cells are missing; resume the run."),
        (
            "incomplete",
            "8 are missing. leak: gold_sql 'SELECT 1' was shown.",
            "8 are missing. Its checks found problems; see",
        ),
        ("incomplete", "Values differ in x.", "Its checks found problems; see verification.json"),
        ("failed", "certificate: 'SELECT 1' gave nothing.", "Its checks found problems; see verification.json"),
    ],
)
def test_what_checks_found_is_never_quoted(run: RunTables, status: str, told: str, shown: str) -> None:
    """A problem may hold gold; the page of a run that failed is as public as any."""
    verification = {**(run.verification or {}), "ok": False, "problems": ["Values differ in x."]}
    record = {**run.record, "status": status, "reason": told}
    bad = dataclasses.replace(run, record=record, verification=verification)
    assert reason(bad).startswith(shown)
    html = page_html(bad) if "SELECT" in told and status == "failed" else reason(bad)
    assert "SELECT" not in html


def test_an_incomplete_run_says_what_is_missing(run: RunTables) -> None:
    left = pl.col("cell_id").str.starts_with(f"{MODEL}.") | ~pl.col("cell_id").str.contains("hermes")
    part = dataclasses.replace(
        run,
        metrics=run.metrics.filter(left),
        stages=run.stages.filter(left),
        analyses=run.analysed.filter(pl.col("backend") == MODEL),
        intervals=run.intervals.filter(~pl.col("subject").str.starts_with(f"{POLICY}: ")),
        routing_metrics=run.routing_metrics.clear(),
        routing_intervals=run.routing_intervals.clear(),
        audit=None,
        verification={**(run.verification or {}), "ok": False, "problems": ["leak: secret words"]},
        record={k: v for k, v in run.record.items() if k != "seconds"},
    )
    html = page_html(part)
    page = Page(html)
    assert "24 of 144 cells are not complete and not shown." in html
    assert "The verification of this run failed" in html
    assert "1; see verification.json" in html
    assert "secret words" not in html
    assert "<dt>Time</dt><dd>not recorded</dd>" in html
    assert page.row("headline", POLICY, "once")["Cells"] == "8 of 12"
    assert page.rows("mode-contrasts", POLICY)[0]["95 % interval"] == "not computed"
    assert len(page.rows("funnel")) == 1
    assert "No routing study belongs to this run." in html
    assert "routing" not in page.tables
    assert "audit-tasks" not in page.tables
    assert "have not been recomputed" in page_html(dataclasses.replace(part, verification=None))


def test_a_run_without_what_the_page_needs_is_refused(run: RunTables) -> None:
    record = {k: v for k, v in run.record.items() if k != "model_calls_made"} | {"cost": {"known_usd": 0.0}}
    with pytest.raises(ReportError, match=r"lacks model_calls_made, cost\.unknown_calls"):
        dataclasses.replace(run, record=record)
    with pytest.raises(ReportError, match="hold 72 cells of no backend of the record"):
        dataclasses.replace(run, record={**run.record, "backends": [run.record["backends"][0]]})
    with pytest.raises(ReportError, match="the frame contributions lacks n, expected backend"):
        dataclasses.replace(run, contributions=run.contributions.drop("n"))


def test_the_conditions_of_a_run_stand_on_its_page(run: RunTables) -> None:
    told = dict(facts(run))["Conditions"]
    assert told == "judge: offline-hybrid; evidence: unit; ask scope: all; planner language: zh"
