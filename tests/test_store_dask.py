"""Jobs on Dask workers, on a real cluster of two processes: a worker that dies costs nothing, a scheduler that goes away is told."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks_lib.store.dask_workers import DaskWorkers
from tasks_lib.store.runners import RunnerUnusable, WorkerLost


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0") as made:
        yield made


def refuse(text: str) -> None:
    raise ValueError(text)


def die_once(folder: str) -> int:
    """Kill the worker that has this job, unless one was killed already; the process that ends it."""
    marker = Path(folder) / "died"
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def wait_for(path: str) -> None:
    while not Path(path).exists():
        time.sleep(0.01)


def test_jobs_give_results_errors_and_survive_a_worker(cluster: Any, tmp_path: Path) -> None:
    workers = DaskWorkers(cluster.scheduler_address)
    try:
        answers = [workers.submit(divmod, 7, 2), workers.submit(divmod, 7, 2)]
        assert [a.result(60) for a in answers] == [(3, 1), (3, 1)]
        with pytest.raises(ValueError, match="no such cell"):
            workers.submit(refuse, "no such cell").result(60)
        assert workers.submit(die_once, str(tmp_path)).result(120) != os.getpid()
    finally:
        workers.shutdown()
    assert cluster.scheduler.workers, "a cluster that others started stays"


def test_a_scheduler_that_goes_away_is_one_sentence(cluster: Any, tmp_path: Path) -> None:
    workers = DaskWorkers(cluster.scheduler_address)
    running = workers.submit(wait_for, str(tmp_path / "go"))
    cluster.close()
    with pytest.raises(WorkerLost, match=r"Dask lost a job .* run the same command again") as raised:
        running.result(60)
    assert "\n" not in str(raised.value)
    with pytest.raises(WorkerLost):
        workers.submit(divmod, 7, 2).result(60)
    workers.shutdown()


def test_a_scheduler_without_workers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import LocalCluster

    monkeypatch.setattr("tasks_lib.store.dask_workers.CONNECT_SECONDS", 1)
    with (
        LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as empty,
        pytest.raises(RunnerUnusable, match="has no worker after 1 s"),
    ):
        DaskWorkers(empty.scheduler_address)
