"""The routing study's tables, each number worked out by hand on four tasks: first probes, usage, events, repeats, cuts, suites."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tasks_lib.protocol.records import Branch, Contract
from tasks_lib.protocol.vocabulary import Behavior, Corpus, Difficulty
from tasks_lib.scoring.contrasts import routing_intervals
from tasks_lib.scoring.metrics import ROUTING, measure
from tasks_lib.scoring.publish import QualityError
from tasks_lib.scoring.routing_probes import PROBES, opened, probe_rows
from tasks_lib.scoring.routing_publish import MEAN, banded, publish_study, publish_trials
from tasks_lib.scoring.routing_trials import METRICS, trial_rows
from tasks_lib.scoring.routing_usage import event_rows, rule_of, usage_rows
from tasks_lib.scoring.targets import episodes_of
from tasks_lib.store.artifacts import ArtifactStore, conform
from tasks_lib.store.schemas import (
    ROUTE_TURNS,
    ROUTES,
    ROUTING_EPISODES,
    ROUTING_EVENTS,
    ROUTING_PROBES,
    ROUTING_TABLE,
    ROUTING_TRIALS,
    ROUTING_USAGE,
    Table,
)

DRAWS = 200


def contract(
    task_id: str, behavior: Behavior, databases: tuple[str, ...], edges: tuple[tuple[str, str], ...] = ()
) -> Contract:
    units = tuple(f"u_{d}" for d in databases)
    branches = ()
    if behavior is Behavior.INTERACTIVE:
        branches = tuple(Branch(f"b{i}", u, f"answer {i}", f"value {i}") for i, u in enumerate(units))
    corpus = Corpus.BIRD if task_id == "t3" else Corpus.SPIDER
    return Contract(task_id, corpus, behavior, Difficulty.EASY, units, databases, edges, (), branches)


TARGETS = episodes_of(
    (
        contract("t1", Behavior.SINGLE, ("a",)),
        contract("t2", Behavior.PARALLEL, ("a", "b")),
        contract("t3", Behavior.SEQUENTIAL, ("a", "b"), (("a", "b"),)),
        contract("t4", Behavior.INTERACTIVE, ("a", "b")),
    )
)


def route(task_id: str, *selected: str, topology: str = "", edges: Any = (), **more: Any) -> dict[str, Any]:
    return {
        "backend": "x",
        "router": "react",
        "task_id": task_id,
        "branch_id": "",
        "trial": 0,
        "valid": bool(selected),
        "reason": "" if selected else "no route was accepted within the turns.",
        "selected": list(selected),
        "topology": topology,
        "nodes": [{"database_id": d, "information_request": ""} for d in selected],
        "edges": [{"source": a, "target": b, "type": "", "reason": ""} for a, b in edges],
        "evidence_ids": [],
        "confidence": 0.5,
        "observed": list(selected),
        "turns": 0,
        "malformed_turns": 0,
        "failure": "",
        "calls": [],
        **more,
    }


def turn(task_id: str, number: int, kind: str, *shown: str, **more: Any) -> dict[str, Any]:
    """`shown`: databases observed by an action or a decision, selected by a submission."""
    submits = kind == "final"
    return {
        "backend": "x",
        "router": "react",
        "task_id": task_id,
        "branch_id": "",
        "trial": 0,
        "turn": number,
        "call_key": f"{task_id}.{number}",
        "outcome": "ok",
        "kind": kind,
        "action": {"action": "inspect_database", "final": "submit_route"}.get(kind, ""),
        "arguments": "{}" if kind in ("action", "final", "decision") else "",
        "malformed_reason": "",
        "recovery": "",
        "observed": [] if submits else list(shown),
        "selected": list(shown) if submits else [],
        "accepted": submits,
        "prompt_tokens": None,
        "completion_tokens": None,
        "cached_tokens": None,
        **more,
    }


ROUTED = [
    route("t1", "a", topology="single", turns=2),
    route("t2", "a", "b", topology="parallel", turns=6),
    route("t3", "a", topology="single", turns=4),
    route("t4", "b", topology="interactive", turns=5),
]
TURNS = [
    turn("t1", 1, "action", "a", prompt_tokens=100, completion_tokens=10, cached_tokens=0),
    turn("t1", 2, "final", "a", prompt_tokens=150, completion_tokens=20, cached_tokens=90),
    # Looks at the wrong one first, hands in the right set too early, is told so, and hands it in again.
    turn("t2", 1, "action", "a", "b", "c", action="search_catalog", prompt_tokens=100, completion_tokens=10),
    turn("t2", 2, "action", "c", prompt_tokens=200, completion_tokens=10),
    turn("t2", 3, "action", "a"),
    turn("t2", 4, "final", "a", "b", accepted=False),
    turn("t2", 5, "action", "b"),
    turn("t2", 6, "final", "a", "b"),
    # Hands in the right set, is refused, and gives half of it up.
    turn("t3", 1, "action", "a"),
    turn("t3", 2, "action", "b", "a", action="inspect_table", recovery="kimi"),
    turn("t3", 3, "final", "a", "b", accepted=False),
    turn("t3", 4, "final", "a"),
    # Opens the database of one branch first and declares that of the other.
    turn("t4", 1, "malformed", malformed_reason="none"),
    turn("t4", 2, "failed", outcome="truncated"),
    turn("t4", 3, "action", "a"),
    turn("t4", 4, "action", "b"),
    turn("t4", 5, "final", "b"),
]


def frame(table: Table, rows: list[dict[str, Any]]) -> pl.DataFrame:
    found = pl.from_arrow(conform(table, rows))
    assert isinstance(found, pl.DataFrame)
    return found


def parts(rows: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    got = measure(frame(ROUTING_PROBES, rows), TARGETS, PROBES, "probes").filter(pl.col("slice") == "all")
    return {m: (n, d) for m, n, d in got.select("metric", "numerator", "denominator").iter_rows()}


def test_first_probe_first_route_and_declared_route_by_hand() -> None:
    rows = probe_rows("x", "react", TARGETS, ROUTED, TURNS)
    by = {(r["task_id"], r["branch_id"]): r for r in rows}
    assert by["t2", ""]["opened"] == ["c", "a"], "what is opened after the first submission is no first probe"
    assert by["t3", ""]["opened"] == ["a", "b"], "a table belongs to the first database its observation shows"
    assert [by["t4", b]["probe_s"] for b in ("b0", "b1")] == [True, False]
    # t1 and the first branch of t4 were looked at rightly; t2 was found after all, and t4 moved from one branch to the other.
    assert parts(rows) == {
        "First-Probe": (1.5, 4),
        "Declared-after-Probe": (2.5, 4),
        "Probe-Right-to-Wrong": (0.5, 4),
        "Probe-Wrong-to-Right": (1.5, 4),
        "First-Route": (3.5, 4),
        "Declared-after-Route": (2.5, 4),
        "Route-Right-to-Wrong": (1, 4),
        "Route-Wrong-to-Right": (0, 4),
    }


def test_a_schedule_opens_what_it_inspects_and_a_broken_decision_hands_nothing_in() -> None:
    routed = [route("t1", "a"), route("t2"), route("t3"), route("t4", "b")]
    turns = [
        turn("t1", 1, "decision", "c", "a", selected=["a"], accepted=True),
        turn("t2", 1, "decision", "a", "b", selected=["a", "b"]),
        turn("t3", 1, "decision", "a", "b", arguments="", malformed_reason="not_json"),
        turn("t4", 1, "decision", "b", "a", selected=["b"], accepted=True),
    ]
    assert opened(turns[:1]) == ["c", "a"]
    got = parts(probe_rows("x", "direct", TARGETS, routed, turns))
    # Nothing was declared for t2 and t3, so that there is no k; t2 was handed in rightly and refused.
    assert (got["First-Probe"], got["Declared-after-Probe"]) == ((0.5, 2), (1.5, 2))
    assert (got["First-Route"], got["Declared-after-Route"], got["Route-Right-to-Wrong"]) == (
        (2.5, 3),
        (1.5, 3),
        (1, 3),
    )
    none = parts(probe_rows("x", "random", TARGETS, routed, []))
    assert set(none.values()) == {(0, 0)}


def test_usage_counts_unknown_tokens_apart() -> None:
    rows = {r["quantity"]: r for r in usage_rows("x", "react", ["t1", "t2", "t3", "t4"], TURNS)}
    assert {r["routes"] for r in rows.values()} == {4}
    turns = rows["turns"]  # 2, 6, 4, 5
    assert (turns["total"], turns["mean"], turns["median"], turns["most"]) == (17, 4.25, 4.5, 6)
    assert turns["p90"] == pytest.approx(5.7)
    assert rows["tool_calls"]["total"] == 1 + 4 + 2 + 2
    prompts = rows["prompt_tokens"]  # all turns of t1, two of t2, none of the others
    assert (prompts["total"], prompts["known_turns"], prompts["unknown_turns"]) == (550, 4, 13)
    assert (prompts["known_routes"], prompts["mean"]) == (1, 250)
    assert (rows["cached_tokens"]["total"], rows["cached_tokens"]["known_turns"]) == (90, 2)
    assert rows["databases_opened"]["total"] == 1 + 2 + 2 + 2
    assert rows["submissions"]["total"] == 1 + 2 + 2 + 1
    assert rows["switches"]["total"] == 1, "only t3 handed in another set than before"
    empty = {r["quantity"]: r for r in usage_rows("x", "react", ["t9"], [turn("t9", 1, "failed")])}
    assert (empty["prompt_tokens"]["mean"], empty["prompt_tokens"]["known_routes"]) == (None, 0)
    random = {r["quantity"]: r for r in usage_rows("x", "random", ["t1"], [])}
    assert (random["turns"]["total"], random["prompt_tokens"]["unknown_turns"]) == (0, 0)


def test_events_are_counted_by_kind() -> None:
    refused = "execution_plan.nodes[3] is not among selected_databases."
    routed = [*ROUTED[:3], route("t4", reason=refused)]
    rows = event_rows("x", "react", routed, TURNS)
    assert {(r["event"], r["kind"]): (r["n"], r["of"]) for r in rows} == {
        ("action", "inspect_database"): (7, 17),
        ("action", "inspect_table"): (1, 17),
        ("action", "search_catalog"): (1, 17),
        ("malformed_turn", "none"): (1, 17),
        ("failed_turn", "truncated"): (1, 17),
        ("recovery", "kimi"): (1, 17),
        ("refused_submission", ""): (2, 17),
        ("invalid_plan", "execution_plan.nodes[] is not among selected_databases"): (1, 4),
        ("empty_prediction", ""): (1, 4),
    }


@pytest.mark.parametrize(
    ("reason", "rule"),
    [
        ("db_0a1 is selected but has no node; give each selected database exactly one node.", "a database is selected but has no node"),
        ("grounding[2].object_ids[11] was not observed as part of that database.", "grounding[].object_ids[] was not observed as part of that database"),
        ("execution_plan.nodes.0.information_request: field required.", "execution_plan.nodes.[].information_request: field required"),
        ("the reply is no JSON object (not_json).", "the reply is no JSON object (not_json)"),
    ],
)  # fmt: skip
def test_refusals_of_one_rule_are_one_kind(reason: str, rule: str) -> None:
    assert rule_of(reason) == rule


FIRST = [
    route("t1", "a", topology="single"),
    route("t2", "a", "b", topology="parallel"),
    route("t3", "a", "b", topology="sequential", edges=[("a", "b")]),
    route("t4", "a", topology="interactive"),
]
SECOND = [
    {**row, "trial": 1}
    for row in (FIRST[0], route("t2", "b", "a", topology="exploratory"), route("t3", "a", topology="single"), FIRST[3])
]


def test_repeats_by_hand() -> None:
    rows = {r["metric"]: r for r in trial_rows("x", "react", TARGETS, [FIRST, SECOND])}
    assert set(rows) == set(METRICS)
    s, g = rows["RA-Set"], rows["RA-Graph"]
    assert (s["published"], s["low"], s["high"]) == (0.875, 0.625, 0.875)
    assert (g["published"], g["low"], g["high"]) == (0.875, 0.375, 0.875)
    assert s["deviation"] == pytest.approx(0.25 / 2**0.5)
    assert (s["tasks"], s["set_changed"], s["graph_changed"]) == (4, 1, 2), "the order of databases is no change"
    still = trial_rows("x", "react", TARGETS, [FIRST, [{**row, "trial": 1} for row in FIRST]])
    assert {(r["low"] == r["high"], r["deviation"], r["set_changed"], r["graph_changed"]) for r in still} == {
        (True, 0.0, 0, 0)
    }


def stored(store: ArtifactStore, backend: str, routed: list[dict[str, Any]], turns: list[dict[str, Any]]) -> str:
    """Routes and turns of a backend under one key."""
    store.write(ROUTES, backend, [{**row, "backend": backend} for row in routed])
    store.write(ROUTE_TURNS, backend, [{**row, "backend": backend} for row in turns])
    return backend


def test_the_study_is_published_with_cuts_intervals_and_the_mean(tmp_path: Path) -> None:
    store = ArtifactStore(str(tmp_path))
    pairs = {("x", "react"): stored(store, "x", ROUTED, TURNS)}
    quiet = [{**row, "turns": 0} for row in FIRST]
    pairs[("y", "react")] = stored(store, "y", quiet, [])
    made = publish_study(store, pairs, pairs, TARGETS, DRAWS, 7, "0" * 64)
    table = store.read(ROUTING_TABLE, made.keys["routing_table"])
    values = {(r["backend"], r["slice"], r["value_of"], r["metric"]): r for r in table.iter_rows(named=True)}
    # x: t1, t2 and one branch of t4; y: everything but one branch of t4.
    assert (values["x", "all", "all", "RA-Set"]["value"], values["y", "all", "all", "RA-Set"]["value"]) == (
        0.625,
        0.875,
    )
    assert values[MEAN, "all", "all", "RA-Set"]["value"] == 0.75
    assert values["x", "corpus", "bird", "RA-Set"]["value"] == 0
    sequential = values["y", "behavior", "sequential", "RA-Graph"]
    assert (sequential["value"], sequential["low"], sequential["high"], sequential["tasks"]) == (1, 1, 1, 1)
    assert {v for _, cut, v, _ in values if cut == "size"} == {"1", "2-3"}
    # ordinary: t1, t2 and t3 without t4; both routes of x that are right are among them.
    ordinary = values["x", "scope", "ordinary", "RA-Set"]
    assert (ordinary["numerator"], ordinary["denominator"], ordinary["tasks"]) == (2, 3, 3)
    two = values["x", "size", "2-3", "RA-Set"]
    assert (two["numerator"], two["denominator"], two["tasks"]) == (1.5, 3, 3)
    assert values["x", "all", "all", "First-Probe"]["value"] == 0.375
    nothing = values["y", "all", "all", "First-Probe"]
    assert (nothing["value"], nothing["denominator"], nothing["dropped"]) == (0, 0, DRAWS)
    assert (MEAN, "all", "all", "First-Probe") not in values, "its denominators differ between backends"
    episodes = store.read(ROUTING_EPISODES, made.keys["routing_episodes"])
    for row in routing_intervals(episodes, DRAWS, 7):
        mine = values[(row["subject"].split(".")[0], "all", "all", row["metric"])]
        assert (mine["low"], mine["high"], mine["dropped"]) == (row["low"], row["high"], row["dropped"])
    assert store.read(ROUTING_USAGE, made.keys["routing_usage"]).height == 16
    assert store.read(ROUTING_EVENTS, made.keys["routing_events"]).filter(pl.col("event") == "recovery")[
        "n"
    ].to_list() == [1]
    assert publish_study(store, pairs, pairs, TARGETS, DRAWS, 7, "0" * 64) == made

    store.write(ROUTES, "again", [{**row, "backend": "x"} for row in SECOND])
    store.write(ROUTES, "first", [{**row, "backend": "x"} for row in FIRST])
    key = publish_trials(store, {("x", "react"): ["first", "again"]}, TARGETS, "0" * 64)
    assert set(store.read(ROUTING_TRIALS, key)["graph_changed"]) == {2}


def test_a_transcript_that_lacks_a_turn_stops_publication(tmp_path: Path) -> None:
    store = ArtifactStore(str(tmp_path))
    pairs = {("x", "react"): stored(store, "x", ROUTED, TURNS[:-1])}
    with pytest.raises(QualityError, match="route_turns@1 fails row_count"):
        publish_study(store, pairs, pairs, TARGETS, DRAWS, 7, "0" * 64)
    assert not store.committed(ROUTING_TABLE)


def test_resampling_keeps_both_branches_together() -> None:
    """Of one interactive task half is right in every resample."""
    episodes = [r for r in probe_rows("x", "react", TARGETS, ROUTED, TURNS) if r["task_id"] == "t4"]
    found = {r["metric"]: r for r in banded(frame(ROUTING_PROBES, episodes), PROBES, DRAWS, 7)}
    assert (found["First-Probe"]["low"], found["First-Probe"]["high"]) == (0.5, 0.5)
    assert ROUTING.keys().isdisjoint(PROBES)
