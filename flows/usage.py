"""What every cell and backend of a run used: model calls, tokens, known cost, SQL executions, apart and shared.

A cell's usage is that of the distinct items it rests on, as if it stood alone; a backend's is that of the distinct items of its
cells together. Calls of the clarification judge are the evaluator's, not the backend's, and are counted apart. What nobody told
(a price, tokens) is counted as unknown and is in no sum.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks_lib.protocol.records import Cell
from tasks_lib.protocol.vocabulary import Audience
from tasks_lib.store.ledgers import Ledger

Places = npt.NDArray[np.int64]
TOLD = ("cost", "prompt_tokens", "completion_tokens")


class Meter:
    """Adds up usage cell by cell. `metas`: metadata of every call met so far, by ledger key."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.metas: dict[str, dict[str, Any]] = {}
        self._place: dict[str, int] = {}
        self._told: list[tuple[float, float, float]] = []
        self._judged: list[bool] = []
        self._cells: dict[str, dict[str, Any]] = {}
        self._calls: dict[str, list[Places]] = {}
        self._executions: dict[str, set[str]] = {}

    def add(self, cell: Cell, calls: Collection[str], executions: Collection[str]) -> None:
        """Count one cell. `calls`, `executions`: ledger keys of the distinct items it rests on."""
        for key, meta in self._ledger.meta_of(k for k in calls if k not in self._place).items():
            self.metas[key] = meta
            self._place[key] = len(self._told)
            cost, prompt, completion = (np.nan if meta.get(name) is None else float(meta[name]) for name in TOLD)
            self._told.append((cost, prompt, completion))
            self._judged.append(meta.get("audience") == Audience.JUDGE)
        places = np.fromiter((self._place[k] for k in calls if k in self._place), np.int64)
        self._calls.setdefault(cell.backend, []).append(places)
        self._executions.setdefault(cell.backend, set()).update(executions)
        self._cells[cell.cell_id] = {"places": places, "executions": len(executions), "backend": cell.backend}

    def table(self) -> dict[str, dict[str, dict[str, Any]]]:
        """`cells` by id and `backends` by name: calls, judge_calls, known_usd, unknown_cost_calls, prompt_tokens,
        completion_tokens, unknown_token_calls, executions; of backends also calls_apart and executions_apart, the sums over their
        cells."""
        told = np.array(self._told, np.float64).reshape(-1, 3)
        judged = np.array(self._judged, np.bool_)
        cells = {
            cell_id: _used(told, judged, found["places"]) | {"executions": found["executions"]}
            for cell_id, found in self._cells.items()
        }
        backends = {}
        for name, parts in self._calls.items():
            own = [cells[c] for c, found in self._cells.items() if found["backend"] == name]
            backends[name] = _used(told, judged, np.unique(np.concatenate(parts))) | {
                "executions": len(self._executions[name]),
                "calls_apart": sum(u["calls"] for u in own),
                "executions_apart": sum(u["executions"] for u in own),
            }
        return {"cells": cells, "backends": backends}


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
