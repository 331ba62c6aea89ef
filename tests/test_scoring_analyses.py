"""Every analysis beside the cells' own values, on four tasks and 72 cells whose outcomes follow from the cell's name: all by hand."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tasks_lib.protocol.records import Cell
from tasks_lib.scoring.analyses import ANALYSES, SCOPES, analysis_rows, chosen, other_side
from tasks_lib.scoring.cells import grid
from tasks_lib.scoring.publish import frame_of
from tasks_lib.store.schemas import ANALYSES as TABLE

TASKS = (
    ("a", "", "single"),
    ("b", "", "parallel"),
    ("c", "", "sequential"),
    ("d", "b0", "interactive"),
    ("d", "b1", "interactive"),
)
DRAWS = 400


def episode(cell: Cell, task: str, branch: str, behavior: str) -> dict[str, Any]:
    """Direct finds no source of b and c. Hermes has the label of b wrong and the edges of c; ReAct the label of b alone.

    SQL is right under privileged and router requests (fused: of task a alone). The LLM planner fails on c. Once, agents ask about d:
    branch b1 is repaired, and stays wrong under Never; b0 is right from the start.
    """
    direct, once = cell.router == "direct", cell.interaction == "once"
    s = not (direct and task in "bc") and (branch != "b1" or once)
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
    row |= {"changed": asked and branch == "b1", "initial_s": s and branch != "b1"}
    return row | dict.fromkeys(("precision", "recall", "f1", "over_rate", "under_rate"), 1.0 * s)


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str, str, str, str], dict[str, Any]]:
    episodes = pl.DataFrame([episode(c, *t) for c in grid(["x"]) for t in TASKS])
    rows = frame_of(TABLE, analysis_rows(episodes, ["x"], DRAWS, 1)).to_dicts()
    keys = ("analysis", "subject", "scope", "metric", "statistic")
    table = {tuple(r[k] for k in keys): r for r in rows}
    assert len(table) == len(rows)
    return table


HAND = {
    # Hermes, adapter, LLM, Never, router: sets a b c and half of d, graphs a and half of d, both run. N = 4, of 3.5 sets.
    ("reference cell", "all", "all", "RA-Set", "mean"): 3.5 / 4,
    ("reference cell", "all", "all", "Graph-given-Set", "mean"): 1.5 / 3.5,
    ("reference cell", "all", "all", "R+E-given-Graph", "mean"): 1.0,
    ("reference cell", "all", "ordinary", "Graph-given-Set", "mean"): 1 / 3,
    ("reference cell", "all", "spider", "R+E-Graph", "mean"): 1.5 / 4,
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


@pytest.mark.parametrize("key", HAND, ids=" / ".join)
def test_values_by_hand(key: tuple[str, str, str, str, str], found: dict[Any, dict[str, Any]]) -> None:
    assert found[key]["value"] == pytest.approx(HAND[key], abs=1e-12)


def test_intervals_stand_where_they_may(found: dict[Any, dict[str, Any]]) -> None:
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
