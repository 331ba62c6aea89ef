"""Scores of an agent that ran elsewhere, by the code that scores cells: its episodes under Never and Once, its own plan and the oracle's.

A cell needs a point of our grid to be joined; its rows are named after the agent (`own`) before they are handed out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tasks_lib.protocol.records import Cell
from tasks_lib.protocol.vocabulary import AskScope, DataAgent, Interaction, Planner, QueryMode, Router
from tasks_lib.scoring.chains import Routed, Verdicts, join
from tasks_lib.scoring.metrics import ROUTING, cell_metrics, measure
from tasks_lib.scoring.targets import Target

CLARIFICATION = ("Ask-Rate", "Release-Rate", "Change-per-Ask", "Repair-per-Ask", "Harm-per-Ask", "Needless-Ask-Rate")
PLANS = {Planner.LLM: "own", Planner.ORACLE: "oracle"}


def own_tables(
    name: str, targets: Sequence[Target], layers: Mapping[str, list[dict[str, Any]]], asked: bool, executed: bool
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(rows of `episodes`, rows of `metrics`) of the agent `name`.

    `asked`: decisions on every task were handed in, so that Once is scored beside Never. `executed`: SQL was; without it only routing and
    clarification are measured. Raises JoinError or DenominatorError.
    """
    scope: AskScope = "all" if asked else "interactive"
    every = cell_metrics(scope)
    metrics = every if executed else ROUTING | {m: every[m] for m in CLARIFICATION}
    routed = Routed(name, targets, layers["routes"], layers["asks"], layers["releases"], layers["plans"], scope)
    verdicts = Verdicts(f"{name}, contributions", routed.targets, layers["contributions"])
    episodes, values = [], []
    for interaction in Interaction if asked else (Interaction.NEVER,):
        for planner, plan in PLANS.items() if executed else ((Planner.LLM, "own"),):
            point = Cell("", name, Router.REACT, DataAgent.TEXT_TO_SQL, planner, interaction, QueryMode.FUSED)
            rows = join(point, routed, verdicts)
            cell_id = f"{name}.own.own.{plan}.{interaction}.own"
            named = {"cell_id": cell_id, "router": "own", "data_agent": "own", "planner": plan, "query_mode": "own"}
            frame = rows.with_columns(pl.lit(value).alias(column) for column, value in named.items())
            episodes.append(frame)
            values.append(measure(frame, targets, metrics, cell_id).with_columns(cell_id=pl.lit(cell_id)))
    return pl.concat(episodes), pl.concat(values)
