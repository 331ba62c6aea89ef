"""What scoring costs beside its Prefect runs: a cell of 920 episodes (join, verdicts, gates, metrics, both partitions), and the intervals
of a grid's 2,304 headline values.

Run by name: `pytest -m bench tests/bench/test_bench_scoring.py -s`. CPU time of the process, because the machine may be shared.
inspect_ai is no part of the project: `python -m venv V && V/bin/pip install inspect_ai`, then DSABENCH_INSPECT=V/bin/python gives
the ratio to its `score()`; without it ours is printed alone.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest
from scipy import stats
from scoring_support import simulated

from tasks_lib.scoring.bootstrap import counts, intervals
from tasks_lib.scoring.cells import FACTORIAL_ROUTERS, grid
from tasks_lib.scoring.tables import Scorer
from tasks_lib.store.schemas import EPISODES, METRICS

EPISODE_MS, INSPECT_TIMES = 0.10, 50
INTERVAL_MS, SCIPY_TIMES = 0.5, 60
TASKS, SUBJECTS, DRAWS = 815, 2304, 5000


def cpu_ms(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return 1000 * (time.process_time() - begun)


def inspect_ms(samples: int) -> float | None:
    """CPU ms a sample of inspect_ai's `score()`, None where it is not at hand."""
    python = os.environ.get("DSABENCH_INSPECT")
    if not python:
        return None
    script = Path(__file__).with_name("inspect_score.py")
    said = subprocess.run([python, str(script), str(samples)], check=True, capture_output=True, text=True, timeout=900)
    return float(said.stdout.split()[-1])


@pytest.mark.bench
def test_an_episode_is_scored_in_a_tenth_of_a_millisecond(tmp_path: Path) -> None:
    made = simulated(str(tmp_path))
    for router in FACTORIAL_ROUTERS:
        made.add("sim", str(router))
    scorer = Scorer(made.store, made.targets)

    def score() -> None:
        for cell in grid(["sim"]):
            keys = made.layer_keys("sim", str(cell.router), str(cell.data_agent))
            episodes, metrics = scorer.tables(cell, keys)
            assert episodes.height == 920
            made.store.write(EPISODES, cell.cell_id, episodes, inputs=keys)
            made.store.write(METRICS, cell.cell_id, metrics, inputs=keys)

    ours = cpu_ms(score) / (72 * 920)
    resident = psutil.Process().memory_info().rss / 2**20
    theirs = inspect_ms(920)
    beside = (
        "inspect_ai is not at hand"
        if theirs is None
        else f"inspect_ai's score() {theirs:.3f}, {theirs / ours:.0f}× as much"
    )
    print(f"\n{ours:.4f} CPU ms an episode (72 cells of 920); {beside}; {resident:.0f} MiB resident")
    assert ours <= EPISODE_MS
    assert theirs is None or theirs >= INSPECT_TIMES * ours


@pytest.mark.bench
def test_an_interval_is_sixty_times_cheaper_than_scipys() -> None:
    """Columns of distinct subjects; ratios whose denominators are resampled too, as those given a gate are."""
    rng = np.random.default_rng(1)
    gate = (rng.random((TASKS, SUBJECTS)) < 0.6) * 1.0
    right = gate * (rng.random((TASKS, SUBJECTS)) < 0.4)
    ours = cpu_ms(lambda: intervals(counts(TASKS, DRAWS), right, gate)) / SUBJECTS

    def ratio(top: np.ndarray, bottom: np.ndarray, axis: int = -1) -> np.ndarray:
        return top.sum(axis=axis) / bottom.sum(axis=axis)

    def theirs(batch: int) -> float:
        spent = [
            cpu_ms(
                lambda j=j: stats.bootstrap(
                    (right[:, j], gate[:, j]), ratio, n_resamples=DRAWS, paired=True, vectorized=True,
                    method="percentile", batch=batch, rng=np.random.default_rng(1),
                )
            )
            for j in range(3)
        ]  # fmt: skip
        return min(spent)

    best = min((theirs(batch), batch) for batch in (10, 50, 200, 1000, 5000))
    print(
        f"\n{ours:.3f} CPU ms an interval ({SUBJECTS} × {DRAWS}); scipy {best[0]:.1f} (batch {best[1]}), {best[0] / ours:.0f}×"
    )
    assert ours <= INTERVAL_MS
    assert best[0] >= SCIPY_TIMES * ours
