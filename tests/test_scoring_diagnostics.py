"""`gold` and `silent` score exactly what PROTOCOL 16 states, in every cell; a wrong value, a broken invariant or a lost row is named."""

from __future__ import annotations

import itertools
from typing import Any

import polars as pl

from tasks_lib.evaluation.diagnostics import check, expected, gold_layers, silent_layers
from tasks_lib.protocol.records import Binding, Branch, Contract
from tasks_lib.protocol.vocabulary import Behavior, Corpus, Difficulty, Planner, QueryMode
from tasks_lib.scoring.cells import grid
from tasks_lib.scoring.findings import told
from tasks_lib.scoring.tables import cell_tables
from tasks_lib.scoring.targets import episodes_of
from tasks_lib.scoring.verify import check_fused, check_invariants


def contract(task_id: str, corpus: Corpus, behavior: Behavior, *databases: str) -> Contract:
    units = tuple(f"u_{d}" for d in databases)
    edges = tuple(itertools.pairwise(databases)) if behavior is Behavior.SEQUENTIAL else ()
    branches = (
        tuple(Branch(f"b{i}", u, f"a{i}", f"v{i}") for i, u in enumerate(units))
        if behavior is Behavior.INTERACTIVE
        else ()
    )
    bindings = tuple(Binding(f"u_{a}", f"u_{b}", "x.y", 0, "v", "", "") for a, b in edges)
    return Contract(task_id, corpus, behavior, Difficulty.EASY, units, databases, edges, bindings, branches, "which?")


CONTRACTS = [
    contract("t1", Corpus.SPIDER, Behavior.SINGLE, "a"),
    contract("t2", Corpus.SPIDER, Behavior.SEQUENTIAL, "a", "b", "c"),
    contract("t3", Corpus.SPIDER, Behavior.INTERACTIVE, "a", "b"),
    contract("t4", Corpus.BIRD, Behavior.EXPLORATORY, "d", "e"),
    contract("t5", Corpus.BIRD, Behavior.INTERACTIVE, "d", "e"),
    contract("t6", Corpus.BIRD, Behavior.PARALLEL, "d", "e"),
]
GROUPS = {"all": CONTRACTS, "spider": CONTRACTS[:3], "bird": CONTRACTS[3:]}


def contributions(backend: str) -> list[dict[str, Any]]:
    """What the driver gives for the diagnostics: gold right wherever its route goes, silent nowhere."""
    rows = []
    for target in episodes_of(CONTRACTS):
        interactive = target.behavior is Behavior.INTERACTIVE
        for state in ("initial", "clarified") if interactive and backend == "gold" else ("initial",):
            for unit in target.units:
                routed = backend == "gold" and (not interactive or state == "clarified" or target.branch_id == "b0")
                for planner in Planner:
                    for mode in QueryMode:
                        rows.append(
                            {
                                "planner": str(planner),
                                "query_mode": str(mode),
                                "trial": 0,
                                "state": state,
                                "task_id": target.task_id,
                                "branch_id": target.branch_id,
                                "unit_id": unit,
                                "kind": "correct" if routed else "not_selected",
                                "ran": routed,
                                "needs_binding": False,
                            }
                        )
    return rows


def tables(backend: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    layers = {
        **(gold_layers if backend == "gold" else silent_layers)("direct", CONTRACTS),
        "contributions": contributions(backend),
    }
    made = [cell_tables(c, episodes_of(CONTRACTS), layers) for c in grid([backend])]
    return pl.concat([e for e, _ in made]), pl.concat([m for _, m in made])


def test_expected_values_by_hand() -> None:
    """Six tasks, two interactive: Never gives 5/6 of tasks and (1+3+0.5+2+0.5+2)/10 of contributions."""
    never = expected("gold", "never", CONTRACTS)
    assert never["RA-Set"] == 5 / 6
    assert never["EA-Micro"] == 9 / 10
    assert never["CEA-Graph"] == 1.0
    assert set(expected("gold", "once", CONTRACTS).values()) == {1.0, 0.0}
    assert expected("silent", "once", CONTRACTS)["R+E-Graph"] == 0.0


def test_both_diagnostics_are_exact_in_every_cell_and_corpus() -> None:
    for backend in ("gold", "silent"):
        episodes, metrics = tables(backend)
        assert metrics["cell_id"].n_unique() == 72
        assert check(metrics, GROUPS) == []
        assert check_invariants(episodes) == []


def test_a_changed_value_is_named() -> None:
    _, metrics = tables("gold")
    wrong = metrics.with_columns(
        value=pl.when((pl.col("metric") == "TEA") & (pl.col("value_of") == "bird"))
        .then(0.999)
        .otherwise(pl.col("value"))
    )
    problems = check(wrong, GROUPS)
    assert len(problems) == 72
    assert all("TEA" in p and "bird" in p for p in problems)
    assert check(metrics.filter(pl.col("metric") != "RA-Set"), GROUPS) != []


def test_broken_invariants_are_named() -> None:
    episodes, _ = tables("gold")
    once = pl.col("interaction") == "once"
    ordinary = episodes.with_columns(f1=pl.when(once & (pl.col("task_id") == "t1")).then(0.5).otherwise(pl.col("f1")))
    assert "differ between Never and Once" in told(check_invariants(ordinary))[0]
    planner = episodes.with_columns(
        ran=pl.when((pl.col("planner") == "llm") & (pl.col("task_id") == "t4")).then(3).otherwise(pl.col("ran"))
    )
    assert any("change with the planner" in p for p in told(check_invariants(planner)))
    asked = episodes.with_columns(asked=pl.col("asked") & (pl.col("branch_id") != "b1"))
    assert any("two ask decisions" in p for p in told(check_invariants(asked)))
    given = episodes.with_columns(released=pl.col("released") | (once & (pl.col("task_id") == "t1")))
    assert any("were released an answer" in p for p in told(check_invariants(given)))
    nested = episodes.with_columns(s=pl.lit(False))
    assert any("nesting of gates" in p for p in told(check_invariants(nested)))


def test_fused_text_is_the_visible_request() -> None:
    row = {
        "query_mode": "fused",
        "request_text": "Ask.",
        "state": "initial",
        "task_id": "t",
        "branch_id": "",
        "backend": "x",
        "router": "react",
    }
    requests, exchanges = {"t": "Ask."}, {("t", "b"): ("q", "a")}
    assert check_fused(pl.DataFrame([row]), requests, {}) == []
    steered = pl.DataFrame([row, {**row, "request_text": "Ask. Use db_1 first."}, {**row, "query_mode": "router"}])
    assert told(check_fused(steered, requests, {})) == [
        "1 fused texts are not the visible request (first t of x react)."
    ]
    clarified = pl.DataFrame(
        [{**row, "state": "clarified", "branch_id": "b", "request_text": "Ask.\nQuestion: q\nAnswer: a"}]
    )
    assert check_fused(clarified, requests, exchanges) == []
    assert "not the visible request" in told(check_fused(clarified, requests, {}))[0]
