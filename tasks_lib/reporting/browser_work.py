"""PRIVATE. Local work in words: verdicts by unit, data agent and query mode, and how the cells ended.

Does not belong here: SQL texts and their results (browser_tasks), routes (browser_routes).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

from tasks_lib.protocol.vocabulary import DataAgent, Interaction, Planner, QueryMode
from tasks_lib.reporting.browser_texts import clipped, printable
from tasks_lib.reporting.browser_views import (
    REQUEST,
    AnswerKey,
    CellsView,
    Gold,
    Local,
    Row,
    TaskRows,
    answer_key,
)
from tasks_lib.reporting.views import words


def locals_of(gold: Gold, rows: TaskRows, numbers: Mapping[AnswerKey, tuple[int, int]]) -> Iterable[Local]:
    """Verdicts by state, branch, unit and data agent; planners that led to the same are one entry."""
    place = {u.unit_id: n for n, u in enumerate(gold.units, 1)}
    question = {u.unit_id: u.question for u in gold.units}
    groups: dict[tuple[str, str, int, str], dict[str, list[Row]]] = {}
    for row in rows.contributions:
        key = (row["state"], row["branch_id"], place[row["unit_id"]], row["data_agent"])
        groups.setdefault(key, {str(m): [] for m in QueryMode})[row["query_mode"]].append(row)
    order = [str(a) for a in DataAgent]
    for (state, branch, unit, agent), by_mode in sorted(
        groups.items(), key=lambda g: (g[0][0] == "clarified", *g[0][1:3], order.index(g[0][3]))
    ):
        modes = []
        for mine in by_mode.values():
            entries: dict[tuple[str, int, int, str], list[str]] = {}
            for row in mine:
                number = numbers.get(answer_key(row), (unit, 0))
                asked = _asked(row, gold.task.request, question[row["unit_id"]])
                entries.setdefault((words(row["kind"]), *number, asked), []).append(row["planner"])
            modes.append(
                tuple(
                    ("" if len(planners) == len(Planner) else f"{planners[0]} planner", *entry)
                    for entry, planners in entries.items()
                )
            )
        yield Local(
            f"{state} route" + (f", branch {branch}" if branch else ""),
            unit,
            gold.units[unit - 1].database,
            words(agent),
            tuple(modes),
        )


def _asked(row: Row, request: str, question: str) -> str:
    """The local request where it is neither the whole request nor the unit's own question nor the route's (shown with it)."""
    text = row["request_text"]
    if not text or text in (request, question) or row["query_mode"] == QueryMode.ROUTER:
        return ""
    return printable(clipped(text, REQUEST))


GATES = {"s": "set", "g": "graph", "t": "execution", "h": "plan"}


def cells_of(episodes: Sequence[Row]) -> Iterable[CellsView]:
    """Cells that ended alike, the most frequent end first."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for e in episodes:
        key = (e["branch_id"], e["failure_stage"], e["failure_flag"], *(e[gate] for gate in GATES))
        groups.setdefault(key, []).append(e)
    for (branch, stage, flag, *passed), mine in sorted(groups.items(), key=lambda g: (g[0][0], -len(g[1]), g[0])):
        gates = ", ".join(
            f"{name} {'yes' if good else 'no'}" for name, good in zip(GATES.values(), passed, strict=True)
        )
        yield CellsView(
            branch, gates, "solved" if stage == "none" else words(stage), words(flag), len(mine), factor_words(mine)
        )


FACTORS = {"data_agent": DataAgent, "planner": Planner, "interaction": Interaction, "query_mode": QueryMode}


def factor_words(cells: Sequence[Row]) -> str:
    """Which cells these are: the values of each factor that does not take them all when they are a full product, else every cell."""
    seen = [(c["data_agent"], c["planner"], c["interaction"], c["query_mode"]) for c in cells]
    values = [list(dict.fromkeys(s[i] for s in seen)) for i in range(len(FACTORS))]
    if prod(map(len, values)) != len(set(seen)):
        return "; ".join(words(" ".join(s)) for s in seen)
    told = [
        words(" or ".join(v))
        for v, all_values in zip(values, FACTORS.values(), strict=True)
        if len(v) < len(all_values)
    ]
    return " × ".join(told) or "all cells"
