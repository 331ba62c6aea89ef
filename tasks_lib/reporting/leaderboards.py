"""Leaderboards: backends, routers, data agents and every cell, by value and in tiers (see tiers), never by a rank.

Belongs here: what is compared, and by which published value and interval. Does not belong here: the rule of tiers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tasks_lib.protocol.records import Cell
from tasks_lib.protocol.vocabulary import DataAgent, QueryMode
from tasks_lib.reporting.run_tables import Band, RunTables
from tasks_lib.reporting.tables import FIXED_SLICE, FIXED_WORDS, NEVER, backend_entry, mode_entry
from tasks_lib.reporting.tiers import RULE, SHORT_RULE, Standing, tier_name, tiers
from tasks_lib.reporting.views import DASH, Column, Entry, View, banded, share, text_columns, words
from tasks_lib.scoring.cells import FACTORIAL_ROUTERS, ROUTING_STUDY_ROUTERS
from tasks_lib.scoring.metrics import HEADLINE
from tasks_lib.scoring.routing_publish import MEAN
from tasks_lib.store.schemas import ROUTING_TABLE

END = "R+E-Graph"
OPEN_ANALYSIS = "routers and data agents"
"""Name of the analysis that pools each router's and each data agent's open cells."""
SHOWN = (END, "RA-Set", "RA-Graph", "EA-Micro", "TEA")
CELL_VALUES = (END, *(m for m in HEADLINE if m != END))
"""The value that places an entry stands beside its tier."""


@dataclass(frozen=True, slots=True)
class Line:
    """One entry of a leaderboard: the words before its tier, its values, and the value that places it."""

    head: Sequence[Entry]
    values: Sequence[Entry]
    standing: Standing


def standing(band: Band | None, apart: bool = False) -> Standing:
    """Where a published interval stands; nothing without one."""
    return Standing(None) if band is None else Standing(band.value, band.low, band.high, apart)


def _board(
    name: str, caption: str, heads: Sequence[str], metrics: Sequence[str], lines: Sequence[Line], by: str, note: str
) -> View:
    """The lines in tiers of `by`."""
    rows = [
        [*lines[place].head, _tier(tier, lines[place].standing), *lines[place].values]
        for place, tier in tiers([line.standing for line in lines])
    ]
    return View(
        name,
        f"{caption}, in tiers of {by}, with 95 % intervals (percent)",
        [*text_columns(*heads), Column("Tier"), *(Column(m) for m in metrics)],
        rows,
        f"{note} {SHORT_RULE}",
        "No such value with an interval belongs to this run.",
        sortable=True,
    )


def _tier(tier: int | None, where: Standing) -> Entry:
    if tier is None:
        return Entry(DASH if where.apart or where.value is None else "no interval")
    return Entry(tier_name(tier), sort=tier)


def backends(run: RunTables) -> View:
    """Every backend's reference cell."""
    lines = []
    for cell in run.cells(interaction=NEVER, **FIXED_SLICE):
        values = [share(run.ratio(cell.cell_id, m), run.band(cell.cell_id, m)) for m in SHOWN]
        lines.append(Line([backend_entry(run, cell.backend)], values, standing(run.band(cell.cell_id, END))))
    note = "One fixed cell of each backend, chosen before any score was seen. Offline policies are baselines."
    return _board("board-backends", f"Backends: {FIXED_WORDS}, Never", ["Backend"], SHOWN, lines, END, note)


def study_routers(run: RunTables) -> View:
    """The six routers of the routing study: mean over backends, or the one backend's values."""
    metrics, by = ("RA-Set", "RA-Graph", "Recall", "F1"), "RA-Set"
    table = run.study.get(ROUTING_TABLE.name)
    found: dict[tuple[str, str], Band] = {}
    if table is not None:
        whose = MEAN if (table["backend"] == MEAN).any() else run.backends[0]
        for row in table.iter_rows(named=True):
            if row["backend"] == whose and row["slice"] == "all":
                none = row["dropped"] >= row["draws"]
                value, low, high = (None, None, None) if none else (row["value"], row["low"], row["high"])
                found[(row["router"], row["metric"])] = Band(
                    value, low, high, row["tasks"], row["draws"], row["dropped"]
                )
    lines = [
        Line([Entry(str(r))], [banded(found.get((str(r), m))) for m in metrics], standing(found[(str(r), by)]))
        for r in ROUTING_STUDY_ROUTERS
        if (str(r), by) in found
    ]
    whose = "mean over the backends" if len(run.backends) > 1 else "of the one backend"
    note = f"Initial routes, {whose} of the run. Routers see different amounts of evidence."
    return _board("board-routing", "Routers of the routing study", ["Router"], metrics, lines, by, note)


def _pooled(run: RunTables, factor: str, values: Sequence[str], label: str, cells: str) -> View:
    lines = []
    for backend in run.backends:
        for value in values:
            bands = [run.analysis(OPEN_ANALYSIS, backend, m, f"{factor}={value}") for m in SHOWN]
            if bands[0] is not None:
                head = [backend_entry(run, backend), Entry(words(value))]
                lines.append(Line(head, [banded(b) for b in bands], standing(bands[0])))
    return _board(
        f"board-{factor.replace('_', '-')}",
        f"{label} within the factorial: LLM planner, Never",
        ["Backend", label.removesuffix("s")],
        SHOWN,
        lines,
        END,
        f"Pooled over the {cells}; privileged requests are left out.",
    )


def routers(run: RunTables) -> View:
    """The factorial's routers by backend, each pooled over its open cells."""
    return _pooled(run, "router", [str(r) for r in FACTORIAL_ROUTERS], "Routers", "2 data agents × 2 request modes")


def agents(run: RunTables) -> View:
    """The data agents by backend, each pooled over its open cells."""
    return _pooled(run, "data_agent", [str(a) for a in DataAgent], "Data agents", "3 routers × 2 request modes")


def views(run: RunTables) -> tuple[View, ...]:
    """The leaderboards but that of all cells."""
    return (
        backends(run),
        *((study_routers(run),) if ROUTING_TABLE.name in run.study else ()),
        routers(run),
        agents(run),
    )


def _cell_line(run: RunTables, c: Cell) -> Line:
    head = [
        backend_entry(run, c.backend),
        Entry(str(c.router)),
        Entry(words(str(c.data_agent))),
        Entry(str(c.planner)),
        Entry(str(c.interaction)),
        mode_entry(str(c.query_mode)),
    ]
    values = [share(run.ratio(c.cell_id, m), run.band(c.cell_id, m)) for m in CELL_VALUES]
    return Line(head, values, standing(run.band(c.cell_id, END), apart=c.query_mode is QueryMode.PRIVILEGED))


def cells(run: RunTables) -> View:
    """Every scored cell with its eight headline values and their intervals, in tiers of the cells that may be compared."""
    lines = [_cell_line(run, c) for c in run.cells()]
    heads = ("Backend", "Router", "Data agent", "Planner", "Interaction", "Request mode")
    rows = [
        [*lines[place].head, _tier(tier, lines[place].standing), *lines[place].values]
        for place, tier in tiers([line.standing for line in lines])
    ]
    return View(
        "cells",
        f"Every cell of the factorial with its eight headline values and 95 % intervals (percent), in tiers of {END}",
        [*text_columns(*heads), Column("Tier"), *(Column(m) for m in CELL_VALUES)],
        rows,
        f"{RULE} Privileged cells are a diagnostic, in no tier and last. Choose a column head to sort by it, again to reverse. "
        "Entries of 0/0 stay last.",
        "No cell is complete.",
        sortable=True,
        filtered=True,
        choices=heads,
    )
