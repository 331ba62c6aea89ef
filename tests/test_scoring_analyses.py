"""Every analysis beside the cells' own values, on four tasks and 72 cells whose outcomes follow from the cell's name: all by hand.

Backend `y` is `x`, but that it never finds the source of task a.
"""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tasks_lib.protocol.records import Cell
from tasks_lib.protocol.vocabulary import FailureStage
from tasks_lib.scoring.analyses import ANALYSES, SCOPES, analysis_rows, row_count
from tasks_lib.scoring.cells import grid
from tasks_lib.scoring.contrasts import CONTRASTS, contrast_intervals
from tasks_lib.scoring.grids import chosen, other_side
from tasks_lib.scoring.publish import frame_of
from tasks_lib.scoring.spreads import EVERY, ranges
from tasks_lib.store.schemas import ANALYSES as TABLE

TASKS = (
    ("a", "", "single", "easy", 1),
    ("b", "", "parallel", "easy", 2),
    ("c", "", "sequential", "medium", 2),
    ("d", "b0", "interactive", "hard", 2),
    ("d", "b1", "interactive", "hard", 2),
)
DRAWS = 400


def episode(cell: Cell, task: str, branch: str, behavior: str, difficulty: str, size: int) -> dict[str, Any]:
    """Direct finds no source of b, and saw that of c without selecting it. Hermes has the label of b wrong and the edges of c; ReAct the label of b alone.

    SQL is right under privileged and router requests (fused: of task a alone). The LLM planner fails on c. Once, agents ask about d:
    branch b1 is repaired, and stays wrong under Never; b0 is right from the start.
    """
    direct, once = cell.router == "direct", cell.interaction == "once"
    s = not (direct and task in "bc") and (branch != "b1" or once) and not (cell.backend == "y" and task == "a")
    label, edges = s and task != "b", s and not (task == "c" and cell.router == "hermes")
    t = s and (cell.query_mode != "fused" or task == "a")
    asked = task == "d" and once
    row: dict[str, Any] = {
        "cell_id": cell.cell_id,
        "backend": cell.backend,
        "task_id": task,
        "branch_id": branch,
        "corpus": "spider",
    }
    row |= {"behavior": behavior, "weight": 0.5 if branch else 1.0, "required": 1, "correct": int(t), "ran": int(t)}
    row |= {"valid": True, "s": s, "label_ok": label, "edges_ok": edges, "g": s and label and edges, "t": t}
    row |= {"h": task != "c" or cell.planner == "oracle", "asked": asked, "released": asked}
    row |= {"difficulty": difficulty, "list_size": size}
    row["failure_stage"] = stage(task, s, s and label and edges, t, row["h"])
    row |= {"changed": asked and branch == "b1", "initial_s": s and branch != "b1"}
    return row | dict.fromkeys(("precision", "recall", "f1", "over_rate", "under_rate"), 1.0 * s)


def stage(task: str, s: bool, g: bool, t: bool, h: bool) -> str:
    if not s:
        return {"a": "over_selection", "b": "retrieval_miss", "c": "under_selection", "d": "branch_error"}[task]
    if not g:
        return "graph_error"
    return "none" if t and h else "source_execution_error" if h else "binding_order_error"


KEY = ("analysis", "subject", "scope", "metric", "statistic")
Table = dict[tuple[str, ...], dict[str, Any]]


@pytest.fixture(scope="module")
def episodes() -> pl.DataFrame:
    return pl.DataFrame([episode(c, *t) for c in grid(["x", "y"]) for t in TASKS])


@pytest.fixture(scope="module")
def every(episodes: pl.DataFrame) -> dict[str, Table]:
    """Rows by backend and key."""
    rows = analysis_rows(episodes, ["x", "y"], DRAWS, 1)
    rows = frame_of(TABLE, rows + ranges(rows)).to_dicts()
    tables: dict[str, Table] = {"x": {}, "y": {}, EVERY: {}}
    for row in rows:
        tables[row["backend"]][tuple(row[k] for k in KEY)] = row
    assert sum(map(len, tables.values())) == len(rows)
    return tables


@pytest.fixture(scope="module")
def found(every: dict[str, Table]) -> Table:
    return every["x"]


HAND: dict[tuple[str, ...], float] = {
    # Hermes, adapter, LLM, Never, router: sets a b c and half of d, graphs a and half of d, both run. N = 4, of 3.5 sets.
    ("reference cell", "all", "all", "RA-Set", "mean"): 3.5 / 4,
    ("reference cell", "all", "all", "Graph-given-Set", "mean"): 1.5 / 3.5,
    ("reference cell", "all", "all", "R+E-given-Graph", "mean"): 1.0,
    ("reference cell", "all", "ordinary", "Graph-given-Set", "mean"): 1 / 3,
    ("reference cell", "all", "spider", "R+E-Graph", "mean"): 1.5 / 4,
    # cuts: a and b are easy, c is medium, d hard; the target list of a has one database, the others have two.
    ("reference cell", "all", "easy", "RA-Graph", "mean"): 1 / 2,
    ("reference cell", "all", "medium", "RA-Graph", "mean"): 0.0,
    ("reference cell", "all", "parallel", "RA-Set", "mean"): 1.0,
    ("reference cell", "all", "interactive", "R+E-Graph", "mean"): 1 / 2,
    ("reference cell", "all", "size=1", "R+E-Graph", "mean"): 1.0,
    ("reference cell", "all", "size=2-3", "RA-Set", "mean"): 2.5 / 3,
    # primary stages there: the graphs of b and c, and the wrong branch of d; all weights and R+E-Graph make 1.
    ("reference cell, failures", "all", "all", "Failed: graph_error", "mean"): 2 / 4,
    ("reference cell, failures", "all", "all", "Failed: branch_error", "mean"): 0.5 / 4,
    ("reference cell, failures", "all", "ordinary", "Failed: graph_error", "mean"): 2 / 3,
    ("reference cell, failures", "all", "sequential", "Failed: binding_order_error", "mean"): 0.0,
    # two cells of each router: direct misses b and c, ReAct has the graph of b wrong and the order of c, Hermes both graphs.
    ("failures", "router=direct", "all", "Failed: retrieval_miss", "mean"): 1 / 4,
    ("failures", "router=direct", "ordinary", "Failed: under_selection", "mean"): 1 / 3,
    ("failures", "router=react", "ordinary", "Failed: binding_order_error", "mean"): 1 / 3,
    ("failures", "data_agent=adapter", "all", "Failed: graph_error", "mean"): (0 + 1 + 2) / 3 / 4,
    ("failures, asking once", "router=direct", "interactive", "Failed: branch_error", "mean"): 0.0,
    ("failures, asking once", "router=direct", "all", "Failed: retrieval_miss", "mean"): 1 / 4,
    ("retriever or agent", "all", "ordinary", "Retriever-limited", "pooled"): 1 / 2,
    ("retriever or agent", "router=direct", "spider", "Agent-limited", "pooled"): 1 / 2,
    ("retriever or agent", "router=hermes", "ordinary", "Agent-limited", "pooled"): 0.0,
    # four open cells of Hermes: sets of a b c and half of d, every time.
    ("routers and data agents", "router=hermes", "ordinary", "Graph-given-Set", "pooled"): 1 / 3,
    # Hermes' four open cells: graphs a and half of d; two fused ones with a alone right, two of router requests with both.
    ("routers and data agents", "router=hermes", "all", "R+E-Graph", "pooled"): (2 * 1 + 2 * 1.5) / 4 / 4,
    ("routers and data agents", "router=hermes", "all", "R+E-given-Graph", "pooled"): (2 * 1 + 2 * 1.5) / (4 * 1.5),
    # six cells: direct finds a and half of d, the others all but half of d; fused answers a alone.
    ("request modes", "query_mode=fused", "all", "EA-Micro", "mean"): 1 / 4,
    ("request modes", "query_mode=router", "all", "EA-Micro", "mean"): (1.5 + 3.5 + 3.5) / 3 / 4,
    ("router−fused", "all", "all", "EA-Micro", "difference"): (0.5 + 2.5 + 2.5) / 3 / 4,
    ("router−fused", "router=direct", "all", "EA-Micro", "difference"): 0.5 / 4,
    ("router−fused", "data_agent=adapter", "ordinary", "EA-Micro", "difference"): (0 + 2 + 2) / 3 / 3,
    ("privileged−router", "all", "all", "R+E-Graph", "difference"): 0.0,
    ("privileged−fused", "all", "all", "R+E-Graph", "difference"): 0.5 / 4,
    ("interactive tasks", "interaction=never", "interactive", "RA-Set", "mean"): 0.5,
    ("interactive tasks", "interaction=once", "interactive", "RA-Set", "mean"): 1.0,
    ("once−never", "all", "interactive", "RA-Set", "difference"): 0.5,
    ("once−never", "router=react", "interactive", "RA-Set", "difference"): 0.5,
    # half of the twelve cells are fused, where nothing of d is right: 0 → 0, else half → all.
    ("once−never", "all", "interactive", "R+E-Graph", "difference"): 0.25,
    ("once−never", "all", "all", "R+E-Graph", "difference"): 0.25 / 4,
    ("clarification", "all", "interactive", "Repair-per-Ask", "pooled"): 0.5,
    ("clarification", "router=hermes", "interactive", "Harm-per-Ask", "pooled"): 0.0,
    ("planners", "planner=llm", "sequential", "Plan-Accuracy", "pooled"): 0.0,
    ("planners", "planner=oracle", "sequential", "Plan-Accuracy", "pooled"): 1.0,
    # set-correct on c: ReAct and Hermes; graph-correct: ReAct; right under router requests, one of two open modes.
    ("planners", "planner=oracle", "sequential", "R+E-given-Set", "pooled"): 1 / 4,
    ("label against edges", "router=hermes", "all", "Label-wrong-given-Set", "pooled"): 1 / 3.5,
    ("label against edges", "router=hermes", "all", "Edges-wrong-given-Set", "pooled"): 1 / 3.5,
    ("label against edges", "router=react", "all", "Edges-wrong-given-Set", "pooled"): 0.0,
    ("label against edges", "all", "all", "Both-wrong-given-Set", "pooled"): 0.0,
    ("hermes−direct", "all", "all", "RA-Set", "difference"): 2 / 4,
    ("react−direct", "all", "all", "RA-Graph", "difference"): 1 / 4,
    ("hermes−react", "all", "all", "RA-Graph", "difference"): -1 / 4,
    ("adapter−text_to_sql", "all", "all", "R+E-Graph", "difference"): 0.0,
    # all 72 cells, mode by mode: privileged is router here, and half of the cells may ask.
    ("router−fused, full grid", "all", "all", "EA-Micro", "difference"): ((0.5 + 2.5 + 2.5) + (1 + 3 + 3)) / 6 / 4,
    # twelve cells under Never: 1/4 in the six fused ones and 1.5/4 in the others.
    ("configurations", "interaction=never", "all", "R+E-Graph", "median"): (1 / 4 + 1.5 / 4) / 2,
    ("configurations", "interaction=never", "all", "R+E-Graph", "q1"): 1 / 4,
    ("configurations", "interaction=never", "all", "R+E-Graph", "maximum"): 1.5 / 4,
    ("configurations", "interaction=once", "ordinary", "R+E-Graph", "maximum"): 1 / 3,
    # ReAct with the oracle's order also has c; the first four in grid order.
    ("best of 72", "x.react.text_to_sql.oracle.once.privileged", "all", "R+E-Graph", "rank 1"): 3 / 4,
    ("best of 72", "x.react.text_to_sql.oracle.once.router", "all", "EA-Micro", "rank 2"): 1.0,
}  # fmt: skip


RANGES: dict[tuple[str, ...], float] = {
    # y: b, c and half of d have their set, only half of d its graph; it answers what it has found.
    ("reference cell", "all", "all", "RA-Set", "lowest mean"): 2.5 / 4,
    ("reference cell", "all", "all", "RA-Set", "highest mean"): 3.5 / 4,
    ("reference cell", "all", "ordinary", "R+E-Graph", "lowest mean"): 0.0,
    ("reference cell", "all", "ordinary", "R+E-Graph", "highest mean"): 1 / 3,
    ("reference cell", "all", "spider", "TEA", "lowest mean"): 2.5 / 4,
    ("request modes", "query_mode=fused", "all", "EA-Micro", "lowest mean"): 0.0,
    ("request modes", "query_mode=fused", "all", "EA-Micro", "highest mean"): 1 / 4,
    ("clarification", "all", "interactive", "Repair-per-Ask", "highest pooled"): 1 / 2,
    ("configurations", "interaction=never", "ordinary", "R+E-Graph", "highest maximum"): 1 / 3,
    ("once−never", "all", "interactive", "RA-Set", "lowest difference"): 0.5,
}
PARTS: dict[tuple[str, ...], tuple[float | None, float | None, int]] = {
    # (numerator, denominator, tasks that are counted): a b c and half of d have their set, a and half of d their graph, both run.
    ("reference cell", "all", "all", "RA-Set", "mean"): (3.5, 4, 4),
    ("reference cell", "all", "all", "RA-Graph", "mean"): (1.5, 4, 4),
    ("reference cell", "all", "all", "R+E-Graph", "mean"): (1.5, 4, 4),
    ("reference cell", "all", "all", "CEA-Graph", "mean"): (1.5, 1.5, 2),
    ("reference cell, failures", "all", "all", "Failed: branch_error", "mean"): (0.5, 4, 4),
    ("planners", "planner=llm", "sequential", "Plan-Accuracy", "pooled"): (0, 8 / 12, 1),
    # half of its four cells are fused and have a alone, the others a and half of d.
    ("routers and data agents", "router=direct", "all", "EA-Micro", "pooled"): (1.25, 4, 4),
    ("retriever or agent", "router=hermes", "ordinary", "Agent-limited", "pooled"): (0, 0, 0),
    ("router−fused", "all", "all", "EA-Micro", "difference"): (None, None, 4),
}


@pytest.mark.parametrize("key", HAND, ids=" / ".join)
def test_values_by_hand(key: tuple[str, ...], found: Table) -> None:
    assert found[key]["value"] == pytest.approx(HAND[key], abs=1e-12)


@pytest.mark.parametrize("key", RANGES, ids=" / ".join)
def test_ranges_over_backends_by_hand(key: tuple[str, ...], every: dict[str, Table]) -> None:
    row = every[EVERY][key]
    assert row["value"] == pytest.approx(RANGES[key], abs=1e-12)
    assert (row["low"], row["high"], row["draws"], row["selected"]) == (None, None, 0, True)


@pytest.mark.parametrize("key", PARTS, ids=" / ".join)
def test_parts_by_hand(key: tuple[str, ...], found: Table) -> None:
    row = found[key]
    assert (row["numerator"], row["denominator"], row["counted"]) == pytest.approx(PARTS[key])


def test_what_has_no_range(every: dict[str, Table]) -> None:
    """What is 0/0 in a backend, marginals, and the best cells, which are others in every backend; one backend has none at all."""
    named = {key[0] for key in every[EVERY]}
    assert "best of 72" not in named
    assert not any(name.endswith("full grid") for name in named)
    assert ("retriever or agent", "router=hermes", "ordinary", "Agent-limited", "lowest pooled") not in every[EVERY]
    assert ("retriever or agent", "router=direct", "ordinary", "Agent-limited", "lowest pooled") in every[EVERY]
    assert ranges([row | {"backend": "x"} for row in every["x"].values()]) == []


def test_a_backend_is_computed_from_its_own_episodes(episodes: pl.DataFrame, every: dict[str, Table]) -> None:
    """So that no more than one backend has to be in memory; and as many rows as the tasks let expect."""
    alone = frame_of(TABLE, analysis_rows(episodes.filter(pl.col("backend") == "y"), ["y"], DRAWS, 1)).to_dicts()
    assert {tuple(r[k] for k in KEY): r for r in alone} == every["y"]
    assert len(alone) == row_count(episodes.filter(pl.col("cell_id") == grid(["y"])[0].cell_id))


def test_the_stages_and_the_end_add_up(found: Table) -> None:
    for scope in ("all", "ordinary"):
        failed = [r for k, r in found.items() if k[0] == "reference cell, failures" and k[2] == scope]
        end = found[("reference cell", "all", scope, "R+E-Graph", "mean")]["value"]
        assert sum(r["value"] for r in failed) + end == pytest.approx(1)
        assert len(failed) == len(FailureStage) - 1


def test_a_contrast_of_the_intervals_is_the_same_number_here(episodes: pl.DataFrame, found: Table) -> None:
    compared = 0
    for row in contrast_intervals(episodes.filter(pl.col("backend") == "x"), ["x"], DRAWS, 1):
        key = (row["subject"].removeprefix("x: "), "all", row["scope"], row["metric"], "difference")
        same = found[key]
        assert (same["value"], same["dropped"]) == (row["value"], row["dropped"])
        if row["dropped"] < DRAWS:
            assert (same["low"], same["high"]) == (row["low"], row["high"])
        compared += 1
    assert compared == sum(len(c.metrics) for c in CONTRASTS)


def test_controls_are_told(found: Table) -> None:
    fixed = found[("router−fused", "all", "all", "EA-Micro", "difference")]
    assert (fixed["controls"], fixed["cells"]) == ("planner=llm, interaction=never", 6)
    asked = found[("once−never", "all", "interactive", "RA-Set", "difference")]
    assert (asked["controls"], asked["cells"]) == ("planner=llm, query_mode=fused or router", 12)
    whole = found[("router−fused, full grid", "all", "all", "EA-Micro", "difference")]
    assert (whole["controls"], whole["cells"]) == ("", 24)


def test_intervals_stand_where_they_may(found: Table) -> None:
    """Fixed sets of cells have one round their value; spreads and what was picked by its score have none, and say so."""
    for (analysis, _, _, _, statistic), row in found.items():
        if analysis in ("configurations", "best of 72"):
            assert (row["low"], row["high"], row["draws"]) == (None, None, 0)
            assert row["selected"] == (statistic == "maximum" or analysis == "best of 72")
        elif row["dropped"] < DRAWS:
            assert row["low"] <= row["value"] + 1e-12
            assert row["value"] <= row["high"] + 1e-12
            assert not row["selected"]
        else:
            assert row["low"] is None
        assert row["marginal"] == analysis.endswith("full grid")
    whole = found[("router−fused", "all", "all", "EA-Micro", "difference")]
    assert whole["low"] < whole["value"] < whole["high"]
    never = found[("planners", "all", "sequential", "Plan-Accuracy", "pooled")]
    assert (never["tasks"], never["low"], never["high"]) == (1, 0.5, 0.5)


def test_differences_hold_every_other_factor_fixed() -> None:
    names = ("router", "data_agent", "planner", "interaction", "query_mode")
    sizes = {}
    for analysis in (a for a in ANALYSES if a.factor):
        cells = chosen(grid(["x"]), {**analysis.cells, analysis.factor: analysis.high})
        sizes[(analysis.name, analysis.scopes[0])] = len(cells)
        for cell in cells:
            low = other_side(cell, analysis.factor, analysis.low)
            assert [n for n in names if getattr(cell, n) != getattr(low, n)] == [analysis.factor]
    assert sizes[("router−fused", "all")] == 6
    assert sizes[("once−never", "interactive")] == 12
    assert sizes[("llm−oracle", "sequential")] == 12
    assert sizes[("router−fused, full grid", "all")] == 24
    assert sizes[("once−never, full grid", "all")] == 36
    assert all(scope in SCOPES for a in ANALYSES for scope in a.scopes)
