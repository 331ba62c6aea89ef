"""What every cell and backend of a run used: model calls, tokens, known cost, SQL executions, apart and shared.

A cell's usage is that of the distinct items it rests on, as if it stood alone; a backend's is that of the distinct items of its
cells together. Calls of the clarification judge are the evaluator's, not the backend's, and are counted apart. What nobody told
(a price, tokens) is counted as unknown and is in no sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tasks_lib.protocol.vocabulary import Audience
from tasks_lib.scoring.layers import Lineage, Places
from tasks_lib.store.ledgers import Ledger

TOLD: dict[str, type[pl.DataType]] = {
    "cost": pl.Float64,
    "prompt_tokens": pl.Float64,
    "completion_tokens": pl.Float64,
    "cached_tokens": pl.Float64,
    "audience": pl.String,
    "layer": pl.String,
}
CHUNK = 10_000
"""Calls whose metadata is in memory at a time."""


def told_of(ledger: Ledger, calls: Iterable[str]) -> pl.DataFrame:
    """What the ledger holds of model calls: `key` and TOLD, null for what nobody told, in key order; no row for a call it does not hold."""
    keys = sorted(set(calls))
    schema: dict[str, type[pl.DataType]] = {"key": pl.String, **TOLD}
    frames = [pl.DataFrame(schema=schema)]
    for start in range(0, len(keys), CHUNK):
        metas = sorted(ledger.meta_of(keys[start : start + CHUNK]).items())
        columns = {
            name: pl.Series(name, [m.get(name) for _, m in metas], kind, strict=False) for name, kind in TOLD.items()
        }
        frames.append(pl.DataFrame({"key": pl.Series("key", [key for key, _ in metas], pl.String), **columns}))
    return pl.concat(frames)


class Meter:
    """Adds up usage backend by backend. `told`: what the ledger holds of each backend's calls (see `told_of`)."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.told: dict[str, pl.DataFrame] = {}
        self._cells: dict[str, dict[str, Any]] = {}
        self._backends: dict[str, dict[str, Any]] = {}

    def add(self, backend: str, found: Lineage) -> None:
        """Count the cells of one backend."""
        told = self.told[backend] = told_of(self._ledger, found.calls)
        lined = pl.DataFrame({"key": found.calls}).join(told, on="key", how="left", maintain_order="left")
        numbers = lined.select(pl.col("cost", "prompt_tokens", "completion_tokens").fill_null(np.nan)).to_numpy()
        judged = (lined["audience"] == Audience.JUDGE).fill_null(False).to_numpy()
        held = found.calls.is_in(told["key"].implode()).to_numpy()
        own = {
            cell_id: _used(numbers, judged, calls[held[calls]]) | {"executions": len(executions)}
            for cell_id, (calls, executions) in found.cells.items()
        }
        self._cells |= own
        self._backends[backend] = _used(numbers, judged, np.flatnonzero(held)) | {
            "executions": len(found.executions),
            "calls_apart": sum(u["calls"] for u in own.values()),
            "executions_apart": sum(u["executions"] for u in own.values()),
        }

    def table(self) -> dict[str, dict[str, dict[str, Any]]]:
        """`cells` by id and `backends` by name: calls, judge_calls, known_usd, unknown_cost_calls, prompt_tokens,
        completion_tokens, unknown_token_calls, executions; of backends also calls_apart and executions_apart, the sums over their
        cells."""
        return {"cells": self._cells, "backends": self._backends}


def _used(told: npt.NDArray[np.float64], judged: npt.NDArray[np.bool_], places: Places) -> dict[str, Any]:
    own = told[places[~judged[places]]]
    known = ~np.isnan(own)
    tokens = known[:, 1] & known[:, 2]
    return {
        "calls": len(own),
        "judge_calls": len(places) - len(own),
        # Sorted, so that no order of a set reaches the last digit of a sum.
        "known_usd": float(np.sort(own[known[:, 0], 0]).sum()),
        "unknown_cost_calls": int((~known[:, 0]).sum()),
        "prompt_tokens": int(own[tokens, 1].sum()),
        "completion_tokens": int(own[tokens, 2].sum()),
        "unknown_token_calls": int((~tokens).sum()),
    }
