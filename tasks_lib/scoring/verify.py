"""Checks of a run before its numbers may be published (PROTOCOL 14, 16): recomputation, diagnostics, invariants.

Every check returns problems; an empty list is a pass. Those of episodes and contributions look at one part of the grid after the
other, and `findings.told` adds up what they find. Nothing here repairs anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from tasks_lib.scoring.findings import Found, found
from tasks_lib.scoring.metrics import ROUTING, measure
from tasks_lib.scoring.tables import cells_tables
from tasks_lib.scoring.targets import episodes_of
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.artifacts import conform
from tasks_lib.store.schemas import ROUTING_EPISODES

Rows = list[dict[str, Any]]
POINT = ("backend", "router", "data_agent", "planner", "query_mode")
OUTCOME = ("valid", "s", "label_ok", "edges_ok", "g", "t", "h", "bindings_ok", "correct", "ran", "f1", "failure_stage")
"""What an ordinary episode must have alike under Never and Once."""


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


def check_invariants(episodes: pl.DataFrame) -> list[Found]:
    """Invariants of the episodes of whole chains: nested gates, g·t·h ≤ g, equal ordinary rows under Never and Once, planners that
    move sequential tasks alone, one ask decision a task.

    `episodes`: all rows of one or more (backend, router); every invariant stays inside one of them.
    """
    gates = episodes.filter(
        (pl.col("g") & ~pl.col("s"))
        | (pl.col("g") != (pl.col("s") & pl.col("label_ok") & pl.col("edges_ok")))
        | (pl.col("t") & ((pl.col("correct") != pl.col("required")) | ~pl.col("bindings_ok")))
        | (pl.col("correct") > pl.col("ran"))
    )
    problems = found(
        "{count} episodes break the nesting of gates (first {first}).", gates.select("cell_id", "task_id", "branch_id")
    )
    ordinary = episodes.filter(pl.col("behavior") != "interactive")
    spread = ordinary.group_by(*POINT, "task_id", maintain_order=True).agg(kinds=pl.struct(OUTCOME).n_unique())
    problems += found(
        "{count} ordinary rows differ between Never and Once (first {first}).", spread.filter(pl.col("kinds") > 1)
    )
    problems += found(
        "{count} ordinary episodes were released an answer or rerouted (first {first}).",
        ordinary.filter(pl.col("released") | pl.col("changed")).select("cell_id", "task_id"),
    )
    free = episodes.filter(pl.col("behavior") != "sequential")
    by_plan = [*(n for n in POINT if n != "planner"), "interaction", "task_id", "branch_id"]
    differing = free.group_by(by_plan, maintain_order=True).agg(kinds=pl.struct("correct", "ran", "t", "h").n_unique())
    problems += found(
        "{count} non-sequential episodes change with the planner (first {first}).",
        differing.filter(pl.col("kinds") > 1),
    )
    asked = (
        episodes.filter(pl.col("interaction") == "once")
        .group_by("backend", "router", "task_id", maintain_order=True)
        .agg(decisions=pl.col("asked").n_unique())
    )
    return problems + found(
        "{count} tasks hold two ask decisions (first {first}).", asked.filter(pl.col("decisions") > 1)
    )


FUSED_COLUMNS = ("backend", "router", "task_id", "branch_id", "state", "query_mode", "request_text")


def check_fused(
    contributions: pl.DataFrame, requests: Mapping[str, str], exchanges: Mapping[tuple[str, str], tuple[str, str]]
) -> list[Found]:
    """Fused text is the visible request, with the released exchange where there is one, and nothing else.

    `contributions`: FUSED_COLUMNS of one table. `exchanges`: (question, answer) by (task, branch) of what was released.
    """
    fused = contributions.filter((pl.col("query_mode") == "fused") & (pl.col("request_text") != ""))
    wrong = []
    for row in fused.unique(maintain_order=True).iter_rows(named=True):
        clarified = row["state"] == "clarified"
        exchange = exchanges.get((row["task_id"], row["branch_id"])) if clarified else None
        lost = clarified and exchange is None
        if lost or row["request_text"] != fused_text(requests.get(row["task_id"], ""), exchange):
            wrong.append(f"{row['task_id']} of {row['backend']} {row['router']}")
    if not wrong:
        return []
    return [Found("{count} fused texts are not the visible request (first {first}).", len(wrong), wrong[0])]
