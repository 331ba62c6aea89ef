"""What sharing saves: distinct items the tables rest on, against the sum over cells of the distinct items inside each cell.

"Unshared" always means the latter (DESIGN, the one idea). Items are ledger keys of model calls and SQL executions. The layers of a
chain (backend and router) are cut into parts that a cell joins as wholes, so that no row is looked at once a cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from tasks_lib.protocol.records import Cell
from tasks_lib.protocol.vocabulary import DataAgent, Interaction, Planner, Router

Places = npt.NDArray[np.int64]
Part = tuple[str, ...]
BRANCH = ["task_id", "branch_id"]
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "routes": ("task_id", "branch_id", "calls"),
    "asks": ("calls",),
    "releases": ("task_id", "branch_id", "released", "judge_call"),
    "plans": ("task_id", "branch_id", "planner", "calls"),
    "contributions": (*BRANCH, "planner", "query_mode", "state", "calls", "execution", "executions"),
}
"""Columns of a layer's table that tell which items its rows rest on."""


@dataclass(frozen=True)
class ChainLayers:
    """Layers of one (backend, router) with at least COLUMNS; `routes`: initial and clarified ones."""

    routes: pl.DataFrame
    asks: pl.DataFrame
    releases: pl.DataFrame
    plans: pl.DataFrame
    contributions: Mapping[DataAgent, pl.DataFrame]


class Items:
    """Distinct ledger keys, sorted, and which of them each part holds."""

    def __init__(self, parts: Mapping[Part, pl.Series]) -> None:
        blank = pl.DataFrame(schema={"part": pl.UInt32, "key": pl.String})
        frames = [
            pl.DataFrame({"key": keys.unique()}).select(pl.lit(n, pl.UInt32).alias("part"), "key")
            for n, keys in enumerate(parts.values())
        ]
        rows = pl.concat([blank, *frames])
        self.keys = rows["key"].unique().sort()
        placed = rows.join(pl.DataFrame({"key": self.keys}).with_row_index("place"), on="key")
        by = placed.partition_by("part", as_dict=True)
        self._places = {part: by[(n,)]["place"].to_numpy() for n, part in enumerate(parts) if (n,) in by}

    def of(self, parts: Iterable[Part]) -> Places:
        """Places in `keys` of the distinct items of some parts; a part that is not there holds none."""
        held = np.zeros(len(self.keys), dtype=bool)
        for part in parts:
            if part in self._places:
                held[self._places[part]] = True
        return np.flatnonzero(held)


@dataclass(frozen=True)
class Lineage:
    """What one backend's cells rest on: distinct keys, and the places among them of each cell's items, by cell id."""

    calls: pl.Series
    executions: pl.Series
    cells: Mapping[str, tuple[Places, Places]]


def lineage(cells: Sequence[Cell], chains: Mapping[Router, ChainLayers]) -> Lineage:
    """The items that each cell of one backend rests on. `chains`: the layers of every router among the cells."""
    calls: dict[Part, pl.Series] = {}
    executions: dict[Part, pl.Series] = {}
    for router, layers in chains.items():
        _parts(str(router), layers, calls, executions)
    local = {cell.cell_id: _local_parts(cell) for cell in cells}
    joined = {cell.cell_id: [*_shared_parts(cell), *local[cell.cell_id]] for cell in cells}
    called = Items({part: calls[part] for part in calls if any(part in parts for parts in joined.values())})
    executed = Items({part: executions[part] for part in executions if any(part in parts for parts in local.values())})
    found = {name: (called.of(parts), executed.of(local[name])) for name, parts in joined.items()}
    return Lineage(called.keys, executed.keys, found)


def _parts(router: str, layers: ChainLayers, calls: dict[Part, pl.Series], executions: dict[Part, pl.Series]) -> None:
    """Cut the layers of one router into parts."""
    released = layers.releases.filter("released").select(BRANCH).unique().with_columns(open=pl.lit(True))

    def opened(frame: pl.DataFrame) -> pl.DataFrame:
        """Rows with `open`: their branch's answer was released."""
        return frame.join(released, on=BRANCH, how="left").with_columns(pl.col("open").fill_null(False))

    judged = layers.releases["judge_call"]
    calls[(router, "asks")] = pl.concat([_flat(layers.asks["calls"]), judged.filter(judged != "")])
    plans = layers.plans.filter(pl.col("planner") == Planner.LLM)
    for name, frame in (("routes", layers.routes), ("plans", plans)):
        initial = pl.col("branch_id") == ""
        calls[(router, name)] = _flat(frame.filter(initial)["calls"])
        calls[(router, name, "clarified")] = _flat(opened(frame.filter(~initial)).filter("open")["calls"])
    for agent, table in layers.contributions.items():
        rows = opened(table).with_columns(clarified=pl.col("state") == "clarified")
        cut = rows.partition_by("planner", "query_mode", "clarified", "open", as_dict=True)
        for (planner, mode, clarified, open_), part in cut.items():
            own = (router, str(agent), str(planner), str(mode), _state(bool(clarified), bool(open_)))
            calls[own] = _flat(part["calls"])
            single = part["execution"]
            executions[own] = pl.concat([_flat(part["executions"]), single.filter(single != "")])


def _state(clarified: bool, released: bool) -> str:
    return f"{'clarified' if clarified else 'initial'}, {'released' if released else 'kept'}"


def _flat(lists: pl.Series) -> pl.Series:
    return lists.explode().drop_nulls()


def _shared_parts(cell: Cell) -> list[Part]:
    """Parts of routing, asking and planning that a cell joins."""
    router, once = str(cell.router), cell.interaction is Interaction.ONCE
    parts: list[Part] = [(router, "routes")]
    if once:
        parts += [(router, "asks"), (router, "routes", "clarified")]
    if cell.planner is Planner.LLM:
        parts += [(router, "plans"), *([(router, "plans", "clarified")] if once else [])]
    return parts


def _local_parts(cell: Cell) -> list[Part]:
    """Parts of local SQL that a cell joins: where an answer was released, Once takes the clarified row, Never the initial one."""
    own = (str(cell.router), str(cell.data_agent), str(cell.planner), str(cell.query_mode))
    once = cell.interaction is Interaction.ONCE
    return [(*own, _state(False, False)), (*own, _state(once, True))]


def cell_keys(found: Lineage, cell: Cell) -> tuple[set[str], set[str]]:
    """(model-call keys, execution keys) one cell rests on."""
    calls, executions = found.cells[cell.cell_id]
    return set(found.calls[calls].to_list()), set(found.executions[executions].to_list())
