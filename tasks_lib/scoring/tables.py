"""The tables of one cell from its layers in the store: episodes and metrics. The join itself is `episodes.score_cell`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import polars as pl

from tasks_lib.protocol.records import Cell
from tasks_lib.protocol.vocabulary import AskScope
from tasks_lib.scoring.episodes import score_cell
from tasks_lib.scoring.metrics import cell_metrics, measure
from tasks_lib.scoring.targets import Target
from tasks_lib.store.artifacts import ArtifactStore, conform
from tasks_lib.store.schemas import ASKS, CONTRIBUTIONS, EPISODES, PLANS, RELEASES, ROUTES, Table

Rows = list[dict[str, Any]]


@lru_cache(maxsize=8)
def _rows(root: str, table_name: str, key: str) -> Rows:
    """Rows of a layer; the 24 cells of a (backend, router) read the same few, so that memory stays flat over cells."""
    from tasks_lib.store.schemas import TABLES

    return ArtifactStore(root).read(TABLES[table_name], key).to_dicts()


def read_rows(store: ArtifactStore, table: Table, key: str) -> Rows:
    """Rows of a layer artifact. Raises FileNotFoundError when it is not done."""
    return _rows(store.root, table.name, key)


def layers_of(store: ArtifactStore, keys: Mapping[str, str]) -> dict[str, Rows]:
    """Rows of every layer of a cell; `keys` holds routes, clarified, asks, releases, plans and contributions."""
    return {
        "routes": read_rows(store, ROUTES, keys["routes"]) + read_rows(store, ROUTES, keys["clarified"]),
        "asks": read_rows(store, ASKS, keys["asks"]),
        "releases": read_rows(store, RELEASES, keys["releases"]),
        "plans": read_rows(store, PLANS, keys["plans"]),
        "contributions": read_rows(store, CONTRIBUTIONS, keys["contributions"]),
    }


def cell_tables(
    cell: Cell, targets: Sequence[Target], layers: Mapping[str, Rows], ask_scope: AskScope = "interactive"
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(episodes, metrics) of a cell. Raises JoinError or DenominatorError."""
    rows = score_cell(
        cell,
        targets,
        layers["routes"],
        layers["asks"],
        layers["releases"],
        layers["plans"],
        layers["contributions"],
        ask_scope,
    )
    episodes = pl.from_arrow(conform(EPISODES, rows))
    assert isinstance(episodes, pl.DataFrame)
    metrics = measure(episodes, targets, cell_metrics(ask_scope), f"cell {cell.cell_id}")
    return episodes, metrics.with_columns(cell_id=pl.lit(cell.cell_id))
