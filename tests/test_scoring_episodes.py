"""Gates, set measures, failure stages and the join of a cell, each against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks_lib.protocol.records import Binding, Branch, Contract
from tasks_lib.protocol.vocabulary import AskScope, Behavior, Corpus, Difficulty, FailureStage
from tasks_lib.scoring.cells import UnknownCell, grid, parse
from tasks_lib.scoring.chains import score_cell
from tasks_lib.scoring.episodes import JoinError, index, score_routes, set_score
from tasks_lib.scoring.metrics import CELL_METRICS, DenominatorError, cell_metrics, measure
from tasks_lib.scoring.stages import execution_stages
from tasks_lib.scoring.targets import base_tasks, episodes_of


def contract(
    task_id: str, behavior: Behavior, databases: tuple[str, ...], edges: tuple[tuple[str, str], ...] = ()
) -> Contract:
    units = tuple(f"u_{d}" for d in databases)
    branches: tuple[Branch, ...] = ()
    if behavior is Behavior.INTERACTIVE:
        branches = tuple(Branch(f"b{i}", u, f"answer {i}", f"value {i}") for i, u in enumerate(units))
    bindings = tuple(Binding(f"u_{a}", f"u_{b}", "x.y", 0, "v", "", "") for a, b in edges)
    return Contract(task_id, Corpus.SPIDER, behavior, Difficulty.EASY, units, databases, edges, bindings, branches)


CONTRACTS = (
    contract("t1", Behavior.SINGLE, ("a",)),
    contract("t2", Behavior.PARALLEL, ("a", "b")),
    contract("t3", Behavior.SEQUENTIAL, ("a", "b"), (("a", "b"),)),
    contract("t4", Behavior.INTERACTIVE, ("a", "b")),
)
TARGETS = episodes_of(CONTRACTS)


def route(
    task_id: str,
    selected: tuple[str, ...],
    topology: str,
    branch_id: str = "",
    edges: tuple[tuple[str, str], ...] = (),
    observed: tuple[str, ...] | None = None,
) -> dict[str, Any]:
    return {
        "task_id": task_id,
        "branch_id": branch_id,
        "trial": 0,
        "valid": bool(selected),
        "selected": list(selected),
        "topology": topology,
        "edges": [{"source": a, "target": b, "type": "", "reason": ""} for a, b in edges],
        "observed": list(selected if observed is None else observed),
        "failure": "",
        "turns": 1,
        "malformed_turns": 0,
        "calls": [],
    }


def contribution(
    task_id: str,
    unit_id: str,
    kind: str = "correct",
    mode: str = "router",
    state: str = "initial",
    branch_id: str = "",
    needs: bool = False,
) -> dict[str, Any]:
    return {
        "planner": "llm",
        "query_mode": mode,
        "trial": 0,
        "state": state,
        "task_id": task_id,
        "branch_id": branch_id,
        "unit_id": unit_id,
        "kind": kind,
        "ran": kind in ("correct", "mismatch"),
        "needs_binding": needs,
    }


def both_modes(*args: Any, **kwargs: Any) -> list[dict[str, Any]]:
    return [contribution(*args, **kwargs), contribution(*args, **kwargs | {"mode": "privileged"})]


ROUTES = [
    route("t1", ("a",), "single"),
    route("t2", ("a", "b"), "sequential"),
    route("t3", ("a", "b"), "sequential", edges=(("a", "b"),)),
    route("t4", ("a",), "interactive"),
    route("t4", ("b",), "interactive", branch_id="b1"),
]
PLANS = [
    {"planner": "llm", "task_id": t, "branch_id": "", "trial": 0, "order": ["a", "b"], "ok": True, "edges": []}
    for t in ("t2", "t3")
]
CONTRIBUTIONS = [
    *both_modes("t1", "u_a"),
    *both_modes("t2", "u_a"),
    *both_modes("t2", "u_b", "mismatch"),
    *both_modes("t3", "u_a"),
    *both_modes("t3", "u_b", needs=True),
    *both_modes("t4", "u_a", branch_id="b0"),
    *both_modes("t4", "u_b", "not_selected", branch_id="b1"),
    *both_modes("t4", "u_b", branch_id="b1", state="clarified"),
]
ASKS: list[dict[str, Any]] = [{"task_id": "t4", "trial": 0, "ask": True, "question": "which?"}]
RELEASES = [
    {"task_id": "t4", "branch_id": "b0", "trial": 0, "released": False},
    {"task_id": "t4", "branch_id": "b1", "trial": 0, "released": True},
]


def cell(interaction: str) -> pl.DataFrame:
    point = parse(f"x.react.adapter.llm.{interaction}.router")
    return pl.DataFrame(score_cell(point, TARGETS, ROUTES, ASKS, RELEASES, PLANS, CONTRIBUTIONS))


def value(frame: pl.DataFrame, metric: str, ask_scope: AskScope = "interactive") -> tuple[float, float, float]:
    got = measure(frame, TARGETS, cell_metrics(ask_scope), "cell").filter(
        (pl.col("slice") == "all") & (pl.col("metric") == metric)
    )
    return got.row(0)[3:]


def test_set_measures_by_hand() -> None:
    got = set_score(["a", "c"], ["a", "b"])
    assert (got.s, got.precision, got.recall, got.f1, got.over_rate, got.under_rate) == (False, 0.5, 0.5, 0.5, 0.5, 0.5)
    empty = set_score([], ["a", "b"])
    assert (empty.s, empty.precision, empty.recall, empty.f1, empty.over_rate, empty.under_rate) == (
        False,
        0,
        0,
        0,
        0,
        1,
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sets(st.sampled_from("abcdef")), st.sets(st.sampled_from("abcdef"), min_size=1))
def test_set_measures_hold_their_bounds(p: set[str], g: set[str]) -> None:
    got = set_score(p, g)
    assert got.s == (p == g)
    assert 0 <= got.f1 <= 1
    assert min(got.precision, got.recall) <= got.f1 + 1e-12 or got.f1 == 0
    assert got.recall + got.under_rate == pytest.approx(1)
    if p:
        assert got.precision + got.over_rate == pytest.approx(1)
        if got.precision + got.recall:
            assert got.f1 == pytest.approx(2 * got.precision * got.recall / (got.precision + got.recall))


def test_never_by_hand() -> None:
    """t1 full; t2 right set, wrong label, one unit wrong; t3 full; t4 right on one branch of two. N = 4."""
    frame = cell("never")
    assert value(frame, "RA-Set") == (3.5, 4.0, 0.875)
    assert value(frame, "RA-Graph") == (2.5, 4.0, 0.625)
    assert value(frame, "EA-Micro") == (1 + 1 + 2 + 0.5, 1 + 2 + 2 + 1, 0.75)
    assert value(frame, "TEA") == (2.5, 4.0, 0.625)
    assert value(frame, "CEA-Set") == (2.5, 3.5, 2.5 / 3.5)
    assert value(frame, "CEA-Graph") == (2.5, 2.5, 1.0)
    assert value(frame, "R+E-Graph") == (2.5, 4.0, 0.625)
    assert value(frame, "Ask-Rate") == (0.0, 1.0, 0.0)
    assert value(frame, "Release-Rate") == (0.0, 0.0, 0.0)
    assert value(frame, "Plan-Accuracy") == (1.0, 1.0, 1.0)
    assert value(frame, "Execution-Coverage") == (1 + 2 + 2 + 0.5, 6.0, 5.5 / 6)


def test_routing_measures_of_a_cell_by_hand() -> None:
    """On branch b1 of t4 the route selects a where b is required; t2 has the wrong label, no edges are wrong."""
    frame = cell("never")
    for metric in ("Precision", "Recall", "F1"):
        assert value(frame, metric) == (3.5, 4.0, 0.875)
    assert value(frame, "OR") == (0.5, 4.0, 0.125)
    assert value(frame, "UR") == (0.5, 4.0, 0.125)
    assert value(frame, "Valid") == (4.0, 4.0, 1.0)
    assert value(frame, "Label") == (3.0, 4.0, 0.75)
    assert value(frame, "Label-given-Set") == (2.5, 3.5, 2.5 / 3.5)
    assert value(frame, "Edges-given-Set") == (3.5, 3.5, 1.0)


def changed(
    task_id: str, new: dict[str, Any], kinds: dict[str, str], plans: list[dict[str, Any]] = PLANS
) -> pl.DataFrame:
    """The cell under Never with another route of a task and other verdicts of its units."""
    routes = [new if (r["task_id"], r["branch_id"]) == (task_id, "") else r for r in ROUTES]
    rows = [c | {"kind": kinds.get(c["unit_id"], c["kind"])} if c["task_id"] == task_id else c for c in CONTRIBUTIONS]
    rows = [c | {"ran": c["kind"] in ("correct", "mismatch")} for c in rows]
    return score_cell(parse("x.react.adapter.llm.never.router"), TARGETS, routes, ASKS, RELEASES, plans, rows)


def test_an_empty_prediction_by_hand() -> None:
    """No plan of t1 was accepted: no precision and no over-selection, all of its set is missing, and it stays in every denominator."""
    frame = changed("t1", route("t1", (), ""), {"u_a": "not_selected"})
    for metric in ("Precision", "Recall", "F1", "RA-Set"):
        assert value(frame, metric) == (2.5, 4.0, 0.625)
    assert value(frame, "OR") == (0.5, 4.0, 0.125)
    assert value(frame, "UR") == (1.5, 4.0, 0.375)
    assert value(frame, "Valid") == (3.0, 4.0, 0.75)
    assert value(frame, "Label") == (2.0, 4.0, 0.5)
    assert value(frame, "EA-Micro") == (1 + 2 + 0.5, 6.0, 3.5 / 6)
    assert value(frame, "TEA") == (1.5, 4.0, 0.375)
    assert value(frame, "CEA-Graph") == (1.5, 1.5, 1.0)


def test_f1_is_the_mean_of_f1s() -> None:
    """t3 selects a, b and a stranger: precision 2/3, recall 1, F1 4/5; of the means it would be another."""
    frame = changed("t3", route("t3", ("a", "b", "c"), "sequential", edges=(("a", "b"),)), {})
    assert value(frame, "Precision") == pytest.approx((2 + 2 / 3 + 0.5, 4.0, (2.5 + 2 / 3) / 4))
    assert value(frame, "Recall") == (3.5, 4.0, 0.875)
    assert value(frame, "F1") == pytest.approx((2.5 + 0.8, 4.0, 0.825))
    assert value(frame, "OR") == pytest.approx((0.5 + 1 / 3, 4.0, (0.5 + 1 / 3) / 4))
    assert value(frame, "UR") == (0.5, 4.0, 0.125)


def test_execution_that_the_graph_gate_does_not_count_by_hand() -> None:
    """t2 right but for its label: the set gate counts it, the graph gate does not."""
    frame = changed("t2", ROUTES[1], {"u_b": "correct"})
    assert value(frame, "TEA") == (3.5, 4.0, 0.875)
    assert value(frame, "R+E-Set") == (3.5, 4.0, 0.875)
    assert value(frame, "R+E-Graph") == (2.5, 4.0, 0.625)
    assert value(frame, "CEA-Set") == (3.5, 3.5, 1.0)
    assert value(frame, "CEA-Graph") == (2.5, 2.5, 1.0)


def test_an_order_that_breaks_an_edge_by_hand() -> None:
    """t3 planned b before a: the plan gate is in the conjunctions and in no execution accuracy."""
    reversed_ = [plan | {"order": ["b", "a"]} if plan["task_id"] == "t3" else plan for plan in PLANS]
    frame = changed("t1", ROUTES[0], {}, reversed_)
    assert value(frame, "Plan-Accuracy") == (0.0, 1.0, 0.0)
    assert value(frame, "TEA") == (2.5, 4.0, 0.625)
    assert value(frame, "CEA-Graph") == (2.5, 2.5, 1.0)
    assert value(frame, "R+E-Set") == (1.5, 4.0, 0.375)
    assert value(frame, "R+E-Graph") == (1.5, 4.0, 0.375)


def test_missing_outputs_stay_in_the_denominators() -> None:
    """t2 wrote no SQL for one unit and ran out of time on the other: nothing right, nothing ran, two required contributions."""
    frame = changed("t2", ROUTES[1], {"u_a": "missing_sql", "u_b": "timeout"})
    assert value(frame, "EA-Micro") == (1 + 2 + 0.5, 6.0, 3.5 / 6)
    assert value(frame, "Execution-Coverage") == (1 + 2 + 0.5, 6.0, 3.5 / 6)
    assert value(frame, "TEA") == (2.5, 4.0, 0.625)


def test_once_by_hand() -> None:
    """The answer of branch b1 was released: its clarified route is right; b0 keeps the initial route, also right."""
    frame = cell("once")
    assert value(frame, "RA-Set") == (4.0, 4.0, 1.0)
    assert value(frame, "R+E-Graph") == (3.0, 4.0, 0.75)
    assert value(frame, "Ask-Rate") == (1.0, 1.0, 1.0)
    assert value(frame, "Release-Rate") == (0.5, 1.0, 0.5)
    assert value(frame, "Repair-per-Ask") == (0.5, 1.0, 0.5)
    assert value(frame, "Harm-per-Ask") == (0.0, 1.0, 0.0)
    assert value(frame, "Change-per-Ask") == (0.5, 1.0, 0.5)


def test_ordinary_rows_are_equal_under_never_and_once() -> None:
    drop = ["cell_id", "interaction"]
    ordinary = [cell(i).filter(pl.col("behavior") != "interactive").drop(drop) for i in ("never", "once")]
    assert ordinary[0].equals(ordinary[1])


def test_asks_on_ordinary_tasks_by_hand() -> None:
    """Scope `all`: the agent also asks about t2 and t3, which are two of the three ordinary tasks; the rates of questions that
    could be answered stay those of t4, whatever is asked elsewhere, and so does every other value."""
    ordinary: list[dict[str, Any]] = [
        {"task_id": t, "trial": 0, "ask": t != "t1", "question": "which?"} for t in ("t1", "t2", "t3")
    ]
    frames = {}
    for interaction in ("never", "once"):
        point = parse(f"x.react.adapter.llm.{interaction}.router")
        asks = [*ASKS, *ordinary]
        frames[interaction] = score_cell(point, TARGETS, ROUTES, asks, RELEASES, PLANS, CONTRIBUTIONS, "all")
    assert value(frames["once"], "Needless-Ask-Rate", "all") == (2.0, 3.0, 2 / 3)
    assert value(frames["never"], "Needless-Ask-Rate", "all") == (0.0, 3.0, 0.0)
    assert value(cell("once"), "Needless-Ask-Rate") == (0.0, 0.0, 0.0)
    for metric in CELL_METRICS.keys() - {"Needless-Ask-Rate"}:
        assert value(frames["once"], metric, "all") == value(cell("once"), metric), metric
    for interaction, frame in frames.items():
        assert frame.drop("asked").equals(cell(interaction).drop("asked"))
    missing, point = [*ASKS, *ordinary[1:]], parse("x.react.adapter.llm.once.router")
    with pytest.raises(JoinError, match=r"asks: key \('t1',\) is missing"):
        score_cell(point, TARGETS, ROUTES, missing, RELEASES, PLANS, CONTRIBUTIONS, "all")


def test_a_question_that_makes_a_right_route_wrong_is_harm() -> None:
    """Both answers are released. b0: right, then wrong; b1: wrong, then still wrong with the set it had: no change."""
    routes = [r for r in ROUTES if r["branch_id"] == ""]
    routes += [route("t4", ("b",), "interactive", "b0"), route("t4", ("a",), "interactive", "b1")]
    released = [{**row, "released": True} for row in RELEASES]
    clarified = [
        row
        for branch, unit in (("b0", "u_a"), ("b1", "u_b"))
        for row in both_modes("t4", unit, "not_selected", branch_id=branch, state="clarified")
    ]
    first = [c for c in CONTRIBUTIONS if c["state"] == "initial"]
    point = parse("x.react.adapter.llm.once.router")
    frame = pl.DataFrame(score_cell(point, TARGETS, routes, ASKS, released, PLANS, [*first, *clarified]))
    assert value(frame, "Release-Rate") == (1.0, 1.0, 1.0)
    assert value(frame, "Harm-per-Ask") == (0.5, 1.0, 0.5)
    assert value(frame, "Change-per-Ask") == (0.5, 1.0, 0.5)
    assert value(frame, "Repair-per-Ask") == (0.0, 1.0, 0.0)


def test_gates_are_multiplied_inside_a_branch() -> None:
    """A04: (g,t,h) = (1,0,1) and (0,1,1) add up to 0, not 0.25; (1,1,1) and (1,1,0)-like to 0.5."""
    both = [contract("t", Behavior.INTERACTIVE, ("a", "b"))]
    targets = episodes_of(both)
    base = cell("never").filter(pl.col("task_id") == "t4").with_columns(task_id=pl.lit("t"), h=pl.lit(True))

    def r_e_graph(g: list[bool], t: list[bool]) -> float:
        frame = base.sort("branch_id").with_columns(pl.Series("g", g), pl.Series("t", t))
        got = measure(frame, targets, CELL_METRICS, "x").filter(
            (pl.col("slice") == "all") & (pl.col("metric") == "R+E-Graph")
        )
        return float(got["value"][0])

    assert r_e_graph([True, False], [False, True]) == 0.0
    assert r_e_graph([True, True], [True, False]) == 0.5
    assert base_tasks(targets) == 1


def test_full_grid_weights_add_up() -> None:
    many = [contract(f"o{i}", Behavior.SINGLE, ("a",)) for i in range(710)]
    many += [contract(f"i{i}", Behavior.INTERACTIVE, ("a", "b")) for i in range(105)]
    targets = episodes_of(many)
    assert (len(targets), base_tasks(targets)) == (920, 815)
    assert len(grid(["w", "x", "y", "z"])) == 288


def test_denominator_comes_from_the_release() -> None:
    """A02, C12: a missing, repeated or unknown episode is an error that names it; nothing is averaged over what is left."""
    frame = cell("never")
    with pytest.raises(DenominatorError, match=r"1 of 5 episodes are missing \(first \('t1'"):
        measure(frame.filter(pl.col("task_id") != "t1"), TARGETS, CELL_METRICS, "cell")
    with pytest.raises(DenominatorError, match=r"\('t1', ''\) appears twice"):
        measure(pl.concat([frame, frame.filter(pl.col("task_id") == "t1")]), TARGETS, CELL_METRICS, "cell")
    with pytest.raises(DenominatorError, match="unknown to the release"):
        measure(frame.with_columns(task_id=pl.col("task_id") + "x"), TARGETS, CELL_METRICS, "cell")


def test_ea_micro_pools_contributions() -> None:
    """A03: tasks with 1/1, 0/1, 1/8 give 2/10; TEA is 1/3."""
    many = [
        contract("p", Behavior.SINGLE, ("a",)),
        contract("q", Behavior.SINGLE, ("a",)),
        contract("r", Behavior.PARALLEL, tuple("abcdefgh")),
    ]
    targets = episodes_of(many)
    base = cell("never").filter(pl.col("task_id") == "t1")
    frame = pl.concat(
        [
            base.with_columns(
                task_id=pl.lit(t), required=pl.lit(r, pl.Int64), correct=pl.lit(c, pl.Int64), t=pl.lit(c == r)
            )
            for t, c, r in (("p", 1, 1), ("q", 0, 1), ("r", 1, 8))
        ]
    )
    got = {
        r["metric"]: r["value"]
        for r in measure(frame, targets, CELL_METRICS, "x").filter(pl.col("slice") == "all").iter_rows(named=True)
    }
    assert got["EA-Micro"] == 0.2
    assert got["TEA"] == 1 / 3


def test_failure_stages() -> None:
    """PROTOCOL 15, in order."""
    stages = {(r["task_id"], r["branch_id"]): r["failure_stage"] for r in cell("never").iter_rows(named=True)}
    assert stages == {
        ("t1", ""): "none",
        ("t2", ""): "graph_error",
        ("t3", ""): "none",
        ("t4", "b0"): "none",
        ("t4", "b1"): "branch_error",
    }
    routes = [
        route("t1", ("c",), "single", observed=("c",)),
        route("t2", ("a",), "parallel", observed=("a", "b")),
        route("t3", ("a", "b", "c"), "sequential"),
        route("t4", (), ""),
    ]
    rows = score_routes("x", "direct", TARGETS, routes)
    assert [r["failure_stage"] for r in rows] == [
        "retrieval_miss",
        "under_selection",
        "over_selection",
        "branch_error",
        "branch_error",
    ]


def test_execution_stages() -> None:
    """t, h, a binding invalid, a unit right when asked its privileged question: the first failing gate names the stage."""
    cases = [
        (True, True, False, False, FailureStage.NONE),
        (True, False, False, False, FailureStage.BINDING_ORDER_ERROR),
        (False, True, True, True, FailureStage.BINDING_ORDER_ERROR),
        (False, True, False, True, FailureStage.DECOMPOSITION_ERROR),
        (False, True, False, False, FailureStage.SOURCE_EXECUTION_ERROR),
    ]
    flags = [np.array([case[i] for case in cases]) for i in range(4)]
    assert execution_stages(*flags).tolist() == [str(case[4]) for case in cases]


@pytest.mark.parametrize(
    ("kind", "privileged", "mode", "stage"),
    [
        ("mismatch", "correct", "router", "decomposition_error"),
        ("mismatch", "timeout", "router", "source_execution_error"),
        ("mismatch", "correct", "fused", "source_execution_error"),
        ("binding_invalid", "correct", "router", "binding_order_error"),
        ("correct", "mismatch", "router", "none"),
    ],
)
def test_verdicts_name_the_stage_of_a_graph_correct_episode(kind: str, privileged: str, mode: str, stage: str) -> None:
    """Task t3, a right chain a → b: what its second unit's verdict under this mode and under the privileged one says."""
    others = [c for c in CONTRIBUTIONS if c["task_id"] != "t3"]
    fused = [{**c, "query_mode": "fused"} for c in others if c["query_mode"] == "router"]
    own = [
        contribution("t3", u, kind if u == "u_b" else "correct", mode=mode, needs=u == "u_b") for u in ("u_a", "u_b")
    ]
    own += [contribution("t3", u, privileged if u == "u_b" else "correct", mode="privileged") for u in ("u_a", "u_b")]
    point = parse(f"x.react.adapter.llm.never.{mode}")
    rows = score_cell(point, TARGETS, ROUTES, ASKS, RELEASES, PLANS, [*others, *fused, *own])
    assert rows.row(by_predicate=pl.col("task_id") == "t3", named=True)["failure_stage"] == stage


def test_a_missing_verdict_is_named() -> None:
    """Of the cell's own mode always; of the privileged mode where the stage of a graph-correct episode needs it."""
    point = parse("x.react.adapter.llm.never.router")
    for mode in ("router", "privileged"):
        lost = [c for c in CONTRIBUTIONS if (c["task_id"], c["unit_id"], c["query_mode"]) != ("t3", "u_b", mode)]
        with pytest.raises(JoinError, match=rf"{mode}\): key \('initial', 't3', '', 'u_b'\) is missing"):
            score_cell(point, TARGETS, ROUTES, ASKS, RELEASES, PLANS, lost)
    with pytest.raises(JoinError, match=r"\('initial', 't1', '', 'u_a'\) appears twice"):
        score_cell(point, TARGETS, ROUTES, ASKS, RELEASES, PLANS, [*CONTRIBUTIONS, CONTRIBUTIONS[0]])


def test_invalid_topology_and_null_prediction_are_wrong() -> None:
    """S06: an absent topology equals nothing."""
    routes = [route(t, (), "") for t in ("t1", "t2", "t3", "t4")]
    rows = score_routes("x", "direct", TARGETS, routes)
    assert not any(r["label_ok"] or r["edges_ok"] or r["g"] or r["valid"] for r in rows)
    assert all(r["under_rate"] == 1 and r["over_rate"] == 0 for r in rows)


def test_a_missing_layer_row_is_named() -> None:
    with pytest.raises(JoinError, match=r"\('t2', ''\) is missing"):
        score_cell(
            parse("x.react.adapter.llm.never.router"),
            TARGETS,
            [r for r in ROUTES if r["task_id"] != "t2"],
            ASKS,
            RELEASES,
            PLANS,
            CONTRIBUTIONS,
        )
    with pytest.raises(JoinError, match="appears twice"):
        index([{"k": "0", "v": "A"}, {"k": "0", "v": "Z"}], "k", what="predictions")


def test_cell_ids() -> None:
    with pytest.raises(UnknownCell, match="2 parts"):
        parse("x.react")
    with pytest.raises(UnknownCell, match="not in the grid"):
        parse("x.teleport.adapter.llm.never.router")
    with pytest.raises(UnknownCell, match="random"):
        parse("x.random.adapter.llm.never.router")
