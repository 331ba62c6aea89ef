"""What sharing saves: distinct items the tables rest on, against the sum over cells of the distinct items inside each cell.

"Unshared" always means the latter (DESIGN, the one idea).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tasks_lib.protocol.records import Cell
from tasks_lib.protocol.vocabulary import Interaction, Planner

Row = Mapping[str, Any]


def cell_items(
    cell: Cell,
    routes: Iterable[Row],
    asks: Iterable[Row],
    releases: Iterable[Row],
    plans: Iterable[Row],
    contributions: Iterable[Row],
) -> tuple[set[str], set[str]]:
    """(model-call keys, execution keys) one cell rests on, from its layers (of its backend, router and data agent)."""
    calls: set[str] = set()
    executions: set[str] = set()
    once = cell.interaction is Interaction.ONCE
    released = {(r["task_id"], r["branch_id"]) for r in releases if r["released"]} if once else set()
    if once:
        for row in asks:
            calls.update(row["calls"])
        for row in releases:
            if row["judge_call"]:
                calls.add(row["judge_call"])
    for row in routes:
        if row["branch_id"] == "" or (row["task_id"], row["branch_id"]) in released:
            calls.update(row["calls"])
    if cell.planner is Planner.LLM:
        for row in plans:
            if row["planner"] == Planner.LLM and (
                row["branch_id"] == "" or (row["task_id"], row["branch_id"]) in released
            ):
                calls.update(row["calls"])
    for row in contributions:
        if row["planner"] != cell.planner or row["query_mode"] != cell.query_mode:
            continue
        clarified = (row["task_id"], row["branch_id"]) in released
        if (row["state"] == "clarified") == clarified:
            calls.update(row["calls"])
            executions.update(row["executions"])
            if row["execution"]:
                executions.add(row["execution"])
    return calls, executions
