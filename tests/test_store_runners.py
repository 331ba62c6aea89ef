"""Worker processes that are lost: one costs its own job a second attempt, a job that loses each of its workers is told, and workers
end with their parent. The functions below run in workers, which import this module: nothing here may import the shared fixtures."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from tasks_lib.store.runners import ATTEMPTS, Processes, WorkerLost

TESTS = Path(__file__).parent


def note_and_die(folder: str, deaths: int) -> int:
    """Kill this process the first `deaths` times; which attempt came to its end."""
    attempt = len(list(Path(folder).iterdir())) + 1
    (Path(folder) / str(attempt)).touch()
    if attempt <= deaths:
        os.kill(os.getpid(), signal.SIGKILL)
    return attempt


def wait_for_line(fifo: str) -> int:
    """Wait until somebody writes to the pipe; the pid of this process."""
    with open(fifo) as stream:
        stream.read()
    return os.getpid()


async def rows_or_death(_context: Any, folder: str, deaths: int) -> Sequence[dict[str, Any]]:
    """A job of a stage that makes an empty table, if its worker lives."""
    note_and_die(folder, deaths)
    return []


@pytest.fixture
def workers() -> Any:
    workers = Processes(2)
    yield workers
    workers.end()


def test_a_lost_worker_costs_its_own_job_one_more_attempt(workers: Processes, tmp_path: Path) -> None:
    fifo, folder, lost = tmp_path / "fifo", tmp_path / "once", tmp_path / "always"
    os.mkfifo(fifo)
    folder.mkdir()
    lost.mkdir()
    beside = workers.submit(wait_for_line, str(fifo))
    assert workers.submit(note_and_die, str(folder), 1).result(60) == 2
    with pytest.raises(WorkerLost):
        workers.submit(note_and_die, str(lost), ATTEMPTS).result(60)
    assert len(list(lost.iterdir())) == ATTEMPTS
    assert workers.submit(os.getpid).result(60) != os.getpid()
    # All the while the other worker was at its job.
    assert not beside.done()
    fifo.write_text("go")
    assert psutil.pid_exists(beside.result(60))


def test_a_worker_that_has_grown_gives_its_place_to_a_fresh_one(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Processes(1)
    try:
        first = workers.submit(os.getpid).result(60)
        assert workers.submit(os.getpid).result(60) == first
        monkeypatch.setattr("tasks_lib.store.runners.ROOMY", 1.0)
        assert workers.submit(os.getpid).result(60) == first
        assert workers.submit(os.getpid).result(60) != first
        assert not psutil.pid_exists(first)
    finally:
        workers.end()


def test_end_does_not_wait_and_leaves_no_worker(tmp_path: Path) -> None:
    workers, fifo = Processes(2), tmp_path / "fifo"
    os.mkfifo(fifo)
    pid = workers.submit(os.getpid).result(60)
    process = psutil.Process(pid)
    running, waiting = workers.submit(wait_for_line, str(fifo)), [workers.submit(os.getpid) for _ in range(3)]
    workers.end()
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    assert isinstance(running.exception(60), WorkerLost)
    assert all(w.cancelled() or w.done() for w in waiting)


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    code = (
        f"import os, sys, threading; sys.path.insert(0, {str(TESTS)!r})\n"
        "from test_store_runners import Processes, wait_for_line\n"
        "workers = Processes(2)\n"
        "if __name__ == '__main__':\n"
        "    print(workers.submit(os.getpid).result(60), flush=True)\n"
        f"    workers.submit(wait_for_line, {str(tmp_path / 'fifo')!r}).result()\n"
    )
    os.mkfifo(tmp_path / "fifo")
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=TESTS.parent)
    assert parent.stdout is not None
    process = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait(30)
    parent.stdout.close()
    _, alive = psutil.wait_procs([process], timeout=30)
    assert not alive
