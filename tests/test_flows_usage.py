"""What cells and backends used: distinct items, unknown is counted and never 0, the judge is apart, sharing is told (M02)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from flows.usage import Meter
from tasks_lib.models.transcripts import KIND
from tasks_lib.protocol.vocabulary import Audience
from tasks_lib.scoring.cells import grid
from tasks_lib.scoring.layers import Lineage
from tasks_lib.store.ledgers import Ledger, Produced

CALLS: dict[str, tuple[float | None, int | None, Audience]] = {
    "a": (0.25, 100, Audience.ROUTER),
    "b": (0.5, None, Audience.ROUTER),
    "c": (None, 40, Audience.EXECUTOR),
    "j": (8.0, 1000, Audience.JUDGE),
    "other": (0.0, 7, Audience.ROUTER),
}


async def test_usage_of_cells_and_backends(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path / 'l.sqlite'}")
    for key, (cost, prompt, audience) in CALLS.items():
        meta: dict[str, Any] = {"cost": cost, "prompt_tokens": prompt, "completion_tokens": 1, "audience": audience}

        async def produce(meta: dict[str, Any] = meta) -> Produced:
            return Produced("ok", b"", meta)

        await ledger.once(key, KIND, produce)
    first, second, *_ = grid(["x"])
    other = grid(["y"])[0]
    meter = Meter(ledger)
    calls = pl.Series("calls", ["a", "b", "c", "j", "lost"])
    cells = {
        first.cell_id: (np.array([0, 1, 3, 4]), np.array([0, 1])),
        second.cell_id: (np.array([0, 2]), np.array([1])),
    }
    meter.add("x", Lineage(calls, pl.Series(["s1", "s2"]), cells))
    none = np.array([], dtype=np.int64)
    meter.add(
        "y", Lineage(pl.Series(["other"]), pl.Series([], dtype=pl.String), {other.cell_id: (np.array([0]), none)})
    )
    ledger.close()
    table = meter.table()
    assert table["cells"][first.cell_id] == {
        **{"calls": 2, "judge_calls": 1, "known_usd": 0.75, "unknown_cost_calls": 0},
        **{"prompt_tokens": 100, "completion_tokens": 1, "unknown_token_calls": 1, "executions": 2},
    }
    assert table["cells"][second.cell_id]["unknown_cost_calls"] == 1
    assert table["cells"][second.cell_id]["known_usd"] == 0.25
    shared = table["backends"]["x"]
    assert (shared["calls"], shared["calls_apart"]) == (3, 4)
    assert (shared["executions"], shared["executions_apart"]) == (2, 3)
    assert (shared["known_usd"], shared["unknown_cost_calls"], shared["prompt_tokens"]) == (0.75, 1, 140)
    assert table["backends"]["y"]["known_usd"] == 0.0
    assert [key for told in meter.told.values() for key in told["key"]] == [*CALLS]
