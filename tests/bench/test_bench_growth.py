"""How the work grows with the release: 100, 815 and 8,150 tasks, resampled. Scoring, statistics and report of one backend's 72 cells over
simulated layers in the paper's mix; and the layers before them (`growth_layers`), of one router and data agent over the embedded release.

Run by name: `pytest -m bench tests/bench/test_bench_growth.py -s --timeout=0`. Each size runs in a process of its own, so that its peak
memory is its own; CPU time, because the machine may be shared. The exponent is the slope of log cost over log tasks.
"""

from __future__ import annotations

import itertools
import json
import math
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

SIZES = (100, 815, 8150)
TIMES, GIB = 1.15, 2.0


def make_layers(tasks: int, folder: str) -> None:
    """Simulated layers of every router in the store `folder`, and beside them what finds them."""
    from scoring_support import simulated

    from tasks_lib.scoring.cells import FACTORIAL_ROUTERS

    made = simulated(folder, tasks)
    for router in FACTORIAL_ROUTERS:
        made.add("sim", str(router))
    Path(folder, "made.pickle").write_bytes(pickle.dumps((made.targets, made.keys)))


def measured(tasks: int, folder: str) -> dict[str, float]:
    """CPU seconds of each stage, peak GiB and MB on disk of one size; layers are made by another process and do not count."""
    import polars as pl
    from reporting_support import record
    from scoring_support import Simulated

    from tasks_lib.reporting.page import write_page
    from tasks_lib.reporting.run_tables import RunTables, counted
    from tasks_lib.scoring.cells import grid
    from tasks_lib.scoring.publish import frame_of, publish, read_episodes
    from tasks_lib.scoring.tables import Scorer
    from tasks_lib.store import schemas
    from tasks_lib.store.artifacts import ArtifactStore

    subprocess.run([sys.executable, __file__, str(tasks), folder, "layers"], check=True)
    store = ArtifactStore(folder)
    targets, layers = pickle.loads(Path(folder, "made.pickle").read_bytes())
    made = Simulated(store, None, targets, layers)
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

    counts = counted(read_episodes(store, [key]) for key in keys.values())
    run = RunTables(
        record=record([{"name": "sim", "model": "offline/hybrid"}]),
        metrics=store.read(schemas.METRICS, tables.metrics),
        intervals=store.read(schemas.INTERVALS, tables.intervals),
        routing_metrics=none(schemas.ROUTING_METRICS),
        routing_intervals=none(schemas.INTERVALS),
        stages=counts[0],
        tasks=counts[1],
        analyses=store.read(schemas.ANALYSES, tables.analyses),
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
        "disk_mb": disk / 1e6,
    }


def study(program: Path, before: list[str], stages: Sequence[str]) -> None:
    """Run the program at every size; the largest may cost each task no more than `TIMES` what the middle one does, nor over `GIB`."""
    found: dict[int, dict[str, float]] = {}
    for tasks in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, str(program), *before, str(tasks), folder]
            said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=7200)
        found[tasks] = json.loads(said.stdout.splitlines()[-1])
        print(f"\n{tasks} tasks: " + ", ".join(f"{k} {v:.3f}" for k, v in found[tasks].items()))
    for name in (*stages, "peak_gib", "disk_mb"):
        slopes = [
            math.log(max(found[b][name], 1e-3) / max(found[a][name], 1e-3)) / math.log(b / a)
            for a, b in itertools.pairwise(SIZES)
        ]
        print(f"{name}: exponents {', '.join(f'{s:.2f}' for s in slopes)}")
    each = {n: sum(found[n][k] for k in stages) / n for n in SIZES}
    _, middle, large = SIZES
    print(f"{', '.join(f'{1000 * each[n]:.2f}' for n in SIZES)} CPU ms a task, {each[large] / each[middle]:.2f}×")
    assert each[large] <= TIMES * each[middle]
    assert found[large]["peak_gib"] <= GIB


@pytest.mark.bench
def test_scoring_ten_times_the_tasks_costs_no_more_each() -> None:
    study(Path(__file__), [], ("scoring", "statistics", "report"))


@pytest.mark.bench
def test_layers_of_ten_times_the_tasks_cost_no_more_each(embedded: Path) -> None:
    layers = ("routes", "asks", "releases", "clarified", "plans", "contributions")
    study(Path(__file__).with_name("growth_layers.py"), [str(embedded)], layers)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    if sys.argv[3:] == ["layers"]:
        make_layers(int(sys.argv[1]), sys.argv[2])
    else:
        print(json.dumps(measured(int(sys.argv[1]), sys.argv[2])))
