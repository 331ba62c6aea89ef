"""The published tables of a backend that never finds a whole source set: its conditional values are 0 over nothing, which is no fault of a table."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import simulated_backend
from scoring_support import simulated

from tasks_lib.protocol.vocabulary import Router
from tasks_lib.scoring.cells import FACTORIAL_ROUTERS, grid
from tasks_lib.scoring.publish import publish
from tasks_lib.scoring.tables import Scorer
from tasks_lib.store.schemas import ANALYSES, EPISODES, METRICS


def test_a_backend_whose_conditional_values_are_over_nothing_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(simulated_backend.SET, Router.REACT, 0.0)
    made = simulated(str(tmp_path), tasks=12)
    for router in FACTORIAL_ROUTERS:
        made.add("weak", str(router))
    scorer = Scorer(made.store, made.targets)
    keys = {}
    for cell in grid(["weak"]):
        keys[cell.cell_id] = cell.cell_id.replace(".", "_")
        layers = made.layer_keys("weak", str(cell.router), str(cell.data_agent))
        episodes, metrics = scorer.tables(cell, layers)
        made.store.write(EPISODES, keys[cell.cell_id], episodes)
        made.store.write(METRICS, keys[cell.cell_id], metrics)
    tables = publish(made.store, grid(["weak"]), keys, made.targets, draws=50, seed=1)
    spreads = made.store.read(ANALYSES, tables.analyses).filter(
        (pl.col("analysis") == "configurations")
        & (pl.col("subject") == "interaction=never")
        & pl.col("metric").is_in(["CEA-Set", "CEA-Graph"])
    )
    assert set(spreads["metric"]) == {"CEA-Set", "CEA-Graph"}
    assert spreads.select("cells", "value").unique().rows() == [(0, 0.0)]
