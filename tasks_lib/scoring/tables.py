"""The tables of one cell from its layers: episodes and metrics. The join itself is in chains.

A `Scorer` keeps the layers that the cells of one process share, joined to the targets, and no more than a few of them: memory
stays flat over cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import polars as pl

from tasks_lib.protocol.records import Cell
from tasks_lib.protocol.vocabulary import AskScope
from tasks_lib.scoring.chains import Routed, Verdicts, join
from tasks_lib.scoring.metrics import cell_metrics, measure
from tasks_lib.scoring.targets import Target, Targets
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.schemas import ASKS, CONTRIBUTIONS, PLANS, RELEASES, ROUTES, Table

T = TypeVar("T")
Rows = list[dict[str, Any]]
KEPT = 4
"""Joined layers that a scorer keeps of each kind; cells come in grid order, a chain after the other."""


def read_rows(store: ArtifactStore, table: Table, key: str) -> Rows:
    """Rows of a layer artifact. Raises FileNotFoundError when it is not done."""
    return store.read(table, key).to_dicts()


class Scorer:
    """Scores cells of one release from the layers in a store."""

    def __init__(self, store: ArtifactStore, targets: Sequence[Target], ask_scope: AskScope = "interactive") -> None:
        self.store, self.targets, self.ask_scope = store, Targets.of(targets), ask_scope
        self._routed: dict[tuple[str, ...], Routed] = {}
        self._verdicts: dict[tuple[str, ...], Verdicts] = {}

    def tables(self, cell: Cell, keys: Mapping[str, str]) -> tuple[pl.DataFrame, pl.DataFrame]:
        """(episodes, metrics) of a cell; `keys` of routes, clarified, asks, releases, plans and contributions. Raises JoinError, DenominatorError or FileNotFoundError."""
        chain = tuple(keys[name] for name in ("routes", "clarified", "asks", "releases", "plans"))
        what = f"{cell.backend} {cell.router}"
        routed = _kept(self._routed, chain, lambda: self._route(what, keys))
        verdicts = _kept(
            self._verdicts, (keys["contributions"],), lambda: self._judge(f"{what} {cell.data_agent}", keys)
        )
        return tables_of(cell, routed, verdicts)

    def _route(self, what: str, keys: Mapping[str, str]) -> Routed:
        read = self.store.read
        routes = [*read(ROUTES, keys["routes"]).to_dicts(), *read(ROUTES, keys["clarified"]).to_dicts()]
        asks, releases = read(ASKS, keys["asks"]).to_dicts(), read(RELEASES, keys["releases"]).to_dicts()
        return Routed(what, self.targets, routes, asks, releases, read(PLANS, keys["plans"]).to_dicts(), self.ask_scope)

    def _judge(self, what: str, keys: Mapping[str, str]) -> Verdicts:
        return Verdicts(f"{what}, contributions", self.targets, self.store.read(CONTRIBUTIONS, keys["contributions"]))


def _kept(kept: dict[tuple[str, ...], T], key: tuple[str, ...], make: Callable[[], T]) -> T:
    """The kept value of a key, made if it is not there; the oldest goes when there are more than KEPT."""
    if key not in kept:
        kept[key] = make()
        while len(kept) > KEPT:
            del kept[next(iter(kept))]
    return kept[key]


def tables_of(cell: Cell, routed: Routed, verdicts: Verdicts) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(episodes, metrics) of a cell of joined layers. Raises JoinError or DenominatorError."""
    episodes = join(cell, routed, verdicts)
    metrics = measure(episodes, routed.targets, cell_metrics(routed.ask_scope), f"cell {cell.cell_id}")
    return episodes, metrics.with_columns(cell_id=pl.lit(cell.cell_id))


def cell_tables(
    cell: Cell, targets: Sequence[Target], layers: Mapping[str, Rows], ask_scope: AskScope = "interactive"
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(episodes, metrics) of one cell of layer rows. Raises JoinError or DenominatorError."""
    return cells_tables([cell], targets, layers, ask_scope)[0]


def cells_tables(
    cells: Sequence[Cell], targets: Sequence[Target], layers: Mapping[str, Rows], ask_scope: AskScope = "interactive"
) -> list[tuple[pl.DataFrame, pl.DataFrame]]:
    """(episodes, metrics) of cells that share their layers. Raises JoinError or DenominatorError."""
    what = f"{cells[0].backend} {cells[0].router}"
    layer = (layers["routes"], layers["asks"], layers["releases"], layers["plans"])
    routed = Routed(what, targets, *layer, ask_scope)
    verdicts = Verdicts(f"{what}, contributions", routed.targets, layers["contributions"])
    return [tables_of(cell, routed, verdicts) for cell in cells]
