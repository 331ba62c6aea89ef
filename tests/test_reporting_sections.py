"""Leaderboards, gates, effects, asking, cuts, spreads, failures and costs show what was published, and say what they may not."""

from __future__ import annotations

import dataclasses

import polars as pl
import pytest
from reporting_support import MODEL, POLICY, run_tables
from test_reporting_page import Page, two

from tasks_lib.reporting import cost_section, effects_section
from tasks_lib.reporting.page import RunTables, page_html
from tasks_lib.scoring.cells import grid

REFERENCE = "hermes.adapter.llm.never.router"


@pytest.fixture(scope="module")
def run() -> RunTables:
    return run_tables()


@pytest.fixture(scope="module")
def page(run: RunTables) -> Page:
    return Page(page_html(run))


def shown(run: RunTables, analysis: str, metric: str, subject: str = "all", scope: str = "all", of: str = MODEL) -> str:
    """A row of `analyses` as the page writes it."""
    asked = {"analysis": analysis, "backend": of, "subject": subject, "scope": scope, "metric": metric}
    (row,) = run.analysed.filter(*(pl.col(k) == v for k, v in asked.items())).to_dicts()
    return f"{two(row['value'])} [{two(row['low'])}, {two(row['high'])}]".replace("-", "−")


def test_backends_stand_in_tiers_of_their_reference_cell(run: RunTables, page: Page) -> None:
    bands = {
        s: (v, low, high)
        for s, v, low, high in run.intervals.filter(pl.col("metric") == "R+E-Graph")
        .select("subject", "value", "low", "high")
        .iter_rows()
    }
    found = [(b, *bands[f"{b}.{REFERENCE}"]) for b in (POLICY, MODEL)]
    first, second = sorted(found, key=lambda x: -x[1])
    rows = page.rows("board-backends")
    assert [row["Backend"].removesuffix(" baseline") for row in rows] == [first[0], second[0]]
    assert [row["Tier"] for row in rows] == ["A", "A" if second[3] >= first[2] else "B"]
    assert rows[0]["R+E-Graph"] == f"{two(first[1])} [{two(first[2])}, {two(first[3])}]"
    assert "baseline" in page.row("board-backends", POLICY)["Backend"]


@pytest.mark.parametrize(("board", "factor"), [("board-router", "router"), ("board-data-agent", "data_agent")])
def test_routers_and_agents_are_pooled_over_their_open_cells(
    run: RunTables, page: Page, board: str, factor: str
) -> None:
    rows = page.rows(board)
    values = [float(row["R+E-Graph"].split(" ")[0]) for row in rows]
    assert values == sorted(values, reverse=True)
    tiers = [row["Tier"] for row in rows]
    assert tiers == sorted(tiers)
    assert tiers[0] == "A"
    # The policy's direct router never finds a source set: it stands apart.
    assert len(set(tiers)) > 1 or factor == "data_agent"
    value = "direct" if factor == "router" else "adapter"
    assert page.row(board, MODEL, value)["RA-Set"] == shown(
        run, "routers and data agents", "RA-Set", f"{factor}={value}"
    )


def test_cells_stand_in_tiers_and_privileged_ones_outside(page: Page) -> None:
    rows = page.rows("cells")
    outside = [row for row in rows if row["Tier"] == "–"]
    assert len(outside) == 48
    assert rows[-48:] == outside
    assert all("diagnostic" in row["Request mode"] for row in outside)
    values = [float(row["R+E-Graph"].split(" ")[0]) for row in rows[:-48]]
    assert values == sorted(values, reverse=True)
    assert rows[0]["Tier"] == "A"
    assert not any(name.lower() in ("rank", "#", "place") for name in rows[0])


def test_gates_of_every_backend_and_router_with_intervals(run: RunTables, page: Page) -> None:
    assert len(page.rows("gates")) == 2 * 3 * 2
    row = page.row("gates", MODEL, "react", "ordinary tasks")
    for column, metric in (("Set correct", "RA-Set"), ("Execution given graph", "R+E-given-Graph")):
        assert row[column] == shown(run, "routers and data agents", metric, "router=react", "ordinary")
    assert page.row("gates", POLICY, "direct", "all tasks")["Graph given set"] == "–", "no set is right: 0/0"
    assert page.row("wrong-graphs", MODEL, "all routers", "all tasks")["Label alone wrong"] == shown(
        run, "label against edges", "Label-wrong-given-Set"
    )


def test_effects_are_paired_and_marginal_ones_are_marked(run: RunTables, page: Page) -> None:
    asked = (MODEL, "router", "hermes − direct")
    matched = page.row("effects", *asked, "matched", "all tasks", "R+E-Graph")
    marginal = page.row("effects", *asked, "marginal", "all tasks", "R+E-Graph")
    for row, name in ((matched, "hermes−direct"), (marginal, "hermes−direct, full grid")):
        told = f"{row['Difference, points']} {row['95 % interval']}"
        assert told.removeprefix("+") == shown(run, name, "R+E-Graph")
    assert (matched["Cells a side"], marginal["Cells a side"]) == ("4", "24")
    assert "diagnostic" in marginal["Contrast"]
    assert "diagnostic" not in matched["Contrast"]
    factors = {row["Factor"] for row in page.rows("effects", MODEL)}
    assert factors == {"router", "data agent", "planner", "interaction", "request mode"}
    split = page.row("effect-splits", *asked, "data agent: adapter", "all tasks", "R+E-Graph")
    assert split["Difference, points"].removeprefix("+") == shown(
        run, "hermes−direct", "R+E-Graph", "data_agent=adapter"
    ).split(" ")[0]  # fmt: skip


def test_asking_by_router_has_intervals(run: RunTables, page: Page) -> None:
    row = page.row("asking", MODEL, "hermes")
    for column, metric in (("Ask-Rate", "Ask-Rate"), ("Repair per ask", "Repair-per-Ask")):
        assert row[column] == shown(run, "clarification", metric, "router=hermes", "interactive")
    assert page.row("interactive", MODEL, "once")["TEA"] == shown(
        run, "interactive tasks", "TEA", "interaction=once", "interactive"
    )


def test_cuts_have_the_intervals_of_their_tasks(run: RunTables, page: Page) -> None:
    asked = (("behavior", "parallel", "parallel"), ("difficulty", "easy", "easy"), ("databases", "2-3", "size=2-3"))
    for cut, value, scope in asked:
        row = page.row("cuts", MODEL, cut, value)
        assert row["RA-Set"] == shown(run, "reference cell", "RA-Set", "all", scope)
    assert page.row("corpora", MODEL, "bird")["TEA"] == shown(run, "reference cell", "TEA", "all", "bird")
    low, _, high = page.row("ranges", "all tasks")["RA-Set"].partition(" to ")
    assert float(low) <= float(page.row("board-backends", MODEL)["RA-Set"].split(" ")[0]) <= float(high)


def test_what_was_selected_by_its_score_says_so_and_has_no_interval(run: RunTables, page: Page) -> None:
    row = page.row("configurations", MODEL, "once", "all tasks", "maximum")
    assert "selected" in row["Statistic"]
    assert "[" not in row["R+E-Graph"]
    middle = page.row("configurations", MODEL, "once", "all tasks", "median")
    assert middle["R+E-Graph"].split(" ")[0] == page.row("headline", MODEL, "once")["R+E-Graph median"]
    best = page.rows("best", MODEL)
    assert len(best) == 8
    assert all("selected" in row["Scope"] and "[" not in row["R+E-Graph"] for row in best)
    open_best = max(
        run.metrics.filter(
            (pl.col("slice") == "all") & (pl.col("metric") == "R+E-Graph") & pl.col("cell_id").str.starts_with(MODEL)
        )["value"]
    )
    assert best[0]["R+E-Graph"] == two(open_best)


def test_failure_shares_and_limits_have_intervals(run: RunTables, page: Page) -> None:
    row = page.row("stage-shares", MODEL, "router: react", "never")
    assert row["graph error"] == shown(run, "failures", "Failed: graph_error", "router=react")
    row = page.row("limits", MODEL, "all routers")
    assert row["Never seen (retriever)"] == shown(run, "retriever or agent", "Retriever-limited", scope="ordinary")


def test_cost_of_a_right_task_and_what_is_unknown(run: RunTables, page: Page) -> None:
    right = run.ratio(f"{MODEL}.{REFERENCE}", "R+E-Graph")
    assert right is not None
    row = page.row("cost", MODEL, "reference cell")
    assert row["Calls per right task"] == f"{40 / right.numerator:.1f}"
    assert row["Tokens per right task"].startswith(f"{10000 / right.numerator:,.0f}")
    assert row["USD per right task"] == f"{0.5 / right.numerator:.4f} 4 calls unknown"
    policy = page.row("cost", POLICY, "reference cell")
    assert policy["Tokens"] == policy["Tokens per right task"] == "unknown 40 calls unknown"
    assert policy["Known cost, USD"] == "0.0000", "known to be free, not unknown"
    whole = sum(run.ratios(run.cells(backend=MODEL), "R+E-Graph")[i].numerator for i in range(72))
    assert page.row("cost", MODEL, "72 cells")["SQL per right task"] == f"{120 / whole:.1f}"
    blind = page.row("cost-cells", POLICY, "direct", "adapter", "llm", "never", "router")
    assert (blind["Right tasks"], blind["Calls per right task"], blind["USD per right task"]) == ("0", "–", "–")
    assert len(page.rows("cost-cells")) == len(grid((POLICY, MODEL)))


def test_calls_saved_by_sharing(page: Page) -> None:
    row = page.row("sharing", "whole run")
    assert (row["Model calls apart"], row["Model calls shared"], row["Calls saved"]) == ("9,800", "1,200", "8.2×")
    assert page.row("sharing", MODEL)["SQL saved"] == "12.0×"


def test_a_run_that_recorded_no_usage_says_so(run: RunTables) -> None:
    bare = dataclasses.replace(run, record={k: v for k, v in run.record.items() if k != "usage"}, analyses=None)
    for view in (cost_section.backends(bare), cost_section.cells(bare)):
        assert not view.rows
        assert "This run does not record what its cells used" in view.empty
    assert not effects_section.effects(bare).rows
    assert len(cost_section.sharing(bare).rows) == 1
