"""Checks of a run before its numbers may be published (PROTOCOL 14, 16): recomputation, diagnostics, invariants.

Every check returns problems, one sentence each; an empty list is a pass. Nothing here repairs anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from tasks_lib.evaluation import diagnostics
from tasks_lib.evaluation.diagnostics import GOLD, SILENT, GoldWriter, gold_layers, silent_layers, silent_writer
from tasks_lib.evaluation.drive import Driver, attempts_of
from tasks_lib.evaluation.gold import Gold
from tasks_lib.evaluation.requests import fused_text
from tasks_lib.protocol.records import Contract
from tasks_lib.protocol.vocabulary import DataAgent, Router
from tasks_lib.scoring.cells import ROUTING_STUDY_ROUTERS, grid
from tasks_lib.scoring.episodes import score_routes
from tasks_lib.scoring.metrics import ROUTING, measure
from tasks_lib.scoring.tables import cells_tables
from tasks_lib.scoring.targets import episodes_of
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.artifacts import conform
from tasks_lib.store.schemas import ROUTING_EPISODES

Rows = list[dict[str, Any]]


def _by_corpus(contracts: Sequence[Contract]) -> dict[str, list[Contract]]:
    groups: dict[str, list[Contract]] = {"all": list(contracts)}
    for c in contracts:
        groups.setdefault(str(c.corpus), []).append(c)
    return groups


async def check_diagnostics(
    contracts: Sequence[Contract], requests: Mapping[str, str], gold: Gold, runner: SqlRunner
) -> list[str]:
    """`gold` and `silent` through the same driver, join and metrics as every backend, in all 144 cells and six routers.

    `gold` really executes its SQL, bindings included.
    """
    problems: list[str] = []
    targets = episodes_of(contracts)
    groups = _by_corpus(contracts)
    for name, make, writer in ((GOLD, gold_layers, GoldWriter(contracts)), (SILENT, silent_layers, silent_writer)):
        layers: dict[str, Rows] = make(str(Router.DIRECT), contracts)
        attempts = attempts_of(
            contracts, requests, layers["routes"], layers["asks"], layers["releases"], layers["plans"]
        )
        rows = await Driver(gold, runner, writer).contributions(
            name, str(Router.DIRECT), DataAgent.TEXT_TO_SQL, attempts
        )
        layers["contributions"] = rows
        tables = [metrics for _, metrics in cells_tables(grid([name]), targets, layers)]
        problems += diagnostics.check(pl.concat(tables), groups)
        problems += _routing_study(name, layers["routes"], contracts, groups)
    return problems


def _routing_study(
    name: str, routes: Rows, contracts: Sequence[Contract], groups: Mapping[str, Sequence[Contract]]
) -> list[str]:
    targets = episodes_of(contracts)
    problems = []
    for router in ROUTING_STUDY_ROUTERS:
        frame = pl.from_arrow(conform(ROUTING_EPISODES, score_routes(name, str(router), targets, routes)))
        assert isinstance(frame, pl.DataFrame)
        table = measure(frame, targets, ROUTING, f"diagnostic {name} {router}")
        values = {(r["slice"], r["value_of"], r["metric"]): r["value"] for r in table.iter_rows(named=True)}
        for part, group in groups.items():
            for metric, want in diagnostics.expected(name, "", group).items():
                got = values.get(("all" if part == "all" else "corpus", part, metric))
                if metric in ROUTING and got != want:
                    problems.append(
                        f"{name} {router} in the routing study on {part}: {metric} is {got}, expected exactly {want}."
                    )
        right = frame.filter(pl.col("s"))
        if right.filter((pl.col("over_rate") != 0) | (pl.col("under_rate") != 0)).height:
            problems.append(f"{name} {router}: OR or UR is not 0 where the set is right.")
    return problems


def check_invariants(episodes: pl.DataFrame) -> list[str]:
    """Invariants of the episode table: nested gates, equal ordinary rows under Never and Once, planners, shared asks."""
    problems = []
    nested = episodes.filter(
        (pl.col("g") & ~pl.col("s"))
        | (pl.col("g") != (pl.col("s") & pl.col("label_ok") & pl.col("edges_ok")))
        | (pl.col("t") & (pl.col("correct") != pl.col("required")))
        | (pl.col("correct") > pl.col("ran"))
    )
    if nested.height:
        row = nested.row(0, named=True)
        problems.append(
            f"{nested.height} episodes break the nesting of gates (first {row['cell_id']} {row['task_id']})."
        )
    point = ["backend", "router", "data_agent", "planner", "query_mode"]
    values = [
        "valid",
        "s",
        "label_ok",
        "edges_ok",
        "g",
        "t",
        "h",
        "bindings_ok",
        "correct",
        "ran",
        "f1",
        "failure_stage",
    ]
    ordinary = episodes.filter(pl.col("behavior") != "interactive")
    spread = ordinary.group_by([*point, "task_id"]).agg(pl.struct(values).n_unique().alias("kinds"))
    changed = spread.filter(pl.col("kinds") > 1)
    if changed.height:
        problems.append(f"{changed.height} ordinary rows differ between Never and Once (first {changed.row(0)}).")
    released = ordinary.filter(pl.col("released") | pl.col("changed"))
    if released.height:
        row = released.row(0, named=True)
        problems.append(
            f"{released.height} ordinary episodes were released an answer or rerouted (first {row['cell_id']} {row['task_id']})."
        )
    free = episodes.filter(pl.col("behavior") != "sequential")
    by_plan = [n for n in point if n != "planner"] + ["interaction", "task_id", "branch_id"]
    differing = (
        free.group_by(by_plan)
        .agg(pl.struct("correct", "ran", "t", "h").n_unique().alias("kinds"))
        .filter(pl.col("kinds") > 1)
    )
    if differing.height:
        problems.append(
            f"{differing.height} non-sequential episodes change with the planner (first {differing.row(0)})."
        )
    asked = (
        episodes.filter(pl.col("interaction") == "once")
        .group_by("backend", "router", "task_id")
        .agg(pl.col("asked").n_unique().alias("decisions"))
        .filter(pl.col("decisions") > 1)
    )
    if asked.height:
        problems.append(f"{asked.height} tasks hold two ask decisions (first {asked.row(0)}).")
    return problems


def check_fused(
    contributions: Iterable[Mapping[str, Any]],
    requests: Mapping[str, str],
    exchanges: Mapping[tuple[str, str], tuple[str, str]],
) -> list[str]:
    """Fused text is the visible request, with the released exchange where there is one, and nothing else."""
    for row in contributions:
        if row["query_mode"] != "fused" or not row["request_text"]:
            continue
        exchange = exchanges[(row["task_id"], row["branch_id"])] if row["state"] == "clarified" else None
        if row["request_text"] != fused_text(requests[row["task_id"]], exchange):
            return [
                f"the fused text of {row['task_id']} ({row['backend']} {row['router']}) is not the visible request."
            ]
    return []
