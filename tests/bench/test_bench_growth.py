"""How scoring, statistics and report grow with the release: 100, 815 and 8,150 tasks (the paper's mix, resampled), one backend's 72 cells.

Run by name: `pytest -m bench tests/bench/test_bench_growth.py -s`. Each size runs in a process of its own, so that its peak memory is its
own; CPU time, because the machine may be shared. The exponent is the slope of log cost over log tasks.
"""

from __future__ import annotations

import itertools
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

SIZES = (100, 815, 8150)
TIMES, GIB = 1.15, 2.0


def measured(tasks: int, folder: str) -> dict[str, float]:
    """CPU seconds of each stage, peak GiB and MB on disk of one size; layers are made first and do not count."""
    import polars as pl
    from reporting_support import record
    from scoring_support import simulated

    from tasks_lib.reporting.page import write_page
    from tasks_lib.reporting.run_tables import RunTables
    from tasks_lib.scoring.cells import FACTORIAL_ROUTERS, grid
    from tasks_lib.scoring.publish import frame_of, publish, read_episodes
    from tasks_lib.scoring.tables import Scorer
    from tasks_lib.store import schemas

    made = simulated(folder, tasks)
    for router in FACTORIAL_ROUTERS:
        made.add("sim", str(router))
    store, targets = made.store, made.targets
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    del made.world
    cells, marks = grid(["sim"]), [time.process_time()]
    scorer = Scorer(store, targets)
    for cell in cells:
        keys = made.layer_keys("sim", str(cell.router), str(cell.data_agent))
        episodes, metrics = scorer.tables(cell, keys)
        store.write(schemas.EPISODES, cell.cell_id, episodes, inputs=keys)
        store.write(schemas.METRICS, cell.cell_id, metrics, inputs=keys)
    marks.append(time.process_time())
    keys = {c.cell_id: c.cell_id for c in cells}
    tables = publish(store, cells, keys, targets, 5000, 1)
    marks.append(time.process_time())

    def none(table: schemas.Table) -> Any:
        return frame_of(table, [])

    run = RunTables(
        record=record([{"name": "sim", "model": "offline/hybrid"}]),
        metrics=store.read(schemas.METRICS, tables.metrics),
        intervals=store.read(schemas.INTERVALS, tables.intervals),
        routing_metrics=none(schemas.ROUTING_METRICS),
        routing_intervals=none(schemas.INTERVALS),
        episodes=read_episodes(store, list(keys.values())),
        contributions=pl.DataFrame(
            [("sim", "adapter", "correct", 1)], schema=["backend", "data_agent", "kind", "n"], orient="row"
        ),
    )
    write_page(run, Path(folder) / "report.html")
    marks.append(time.process_time())
    disk = sum(
        f.stat().st_size for n in ("episodes", "metrics", "intervals", "analyses") for f in Path(folder, n).iterdir()
    )
    return {
        "scoring": marks[1] - marks[0],
        "statistics": marks[2] - marks[1],
        "report": marks[3] - marks[2],
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "layers_gib": before,
        "disk_mb": disk / 1e6,
    }


@pytest.mark.bench
def test_ten_times_the_tasks_cost_no_more_each() -> None:
    found = {}
    for tasks in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            said = subprocess.run(
                [sys.executable, __file__, str(tasks), folder], check=True, capture_output=True, text=True, timeout=3000
            )
        found[tasks] = json.loads(said.stdout.splitlines()[-1])
        print(f"\n{tasks} tasks: " + ", ".join(f"{k} {v:.3f}" for k, v in found[tasks].items()))
    small, large = SIZES[1:]
    each = {n: sum(found[n][k] for k in ("scoring", "statistics", "report")) / n for n in SIZES}
    for name in ("scoring", "statistics", "report", "peak_gib", "disk_mb"):
        slopes = [math.log(found[b][name] / found[a][name]) / math.log(b / a) for a, b in itertools.pairwise(SIZES)]
        print(f"{name}: exponents {', '.join(f'{s:.2f}' for s in slopes)}")
    print(f"{1000 * each[small]:.2f} → {1000 * each[large]:.2f} CPU ms a task, {each[large] / each[small]:.2f}×")
    assert each[large] <= TIMES * each[small]
    assert found[small]["peak_gib"] <= GIB


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    print(json.dumps(measured(int(sys.argv[1]), sys.argv[2])))
