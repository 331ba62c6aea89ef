"""Where jobs of offline policies run: worker processes of this machine, or Dask workers, here or elsewhere.

Each is an executor that takes a plain function and plain arguments, so nothing else knows which one is at work. It decides no key and
no number. Does not belong here: jobs that wait for endpoints, which stay in the main process under the client's limits (`jobs`).

Dask workers elsewhere need the same installation, the release's folder under the same path, a store and a ledger that they can reach
(`s3://`, `postgresql://`), and for LiveSQLBench DSABENCH_POSTGRES_URL.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import re
import resource
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

PROCESSES = "processes"
DASK = "dask"
_ADDRESS = re.compile(r"(tcp|tls)://\S+")
ATTEMPTS = 2
"""How often a job is given to a worker process, when each is lost with it."""
ROOMY = 1536.0
"""MiB that a worker may have taken before another takes its place: what many jobs leave behind adds up, and a fresh one takes about
1,100 MiB with catalog and MiniLM, ready in some seconds."""
P = ParamSpec("P")
T = TypeVar("T")


class RunnerUnusable(RuntimeError):
    """No such runner, its package is missing, or no scheduler answers."""


class WorkerLost(RuntimeError):
    """Every worker process that had a job ended without a word: killed, or out of memory."""


@dataclass(frozen=True)
class Runner:
    """An executor and how it is stopped: `close` waits for what runs, `end` ends it."""

    executor: Executor
    close: Callable[[], None]
    end: Callable[[], None]


def check_runner(name: str) -> str:
    """`name` when it names a runner: `processes`, `dask` (a local cluster) or a scheduler's address. Raises RunnerUnusable."""
    if name in {PROCESSES, DASK} or _ADDRESS.fullmatch(name):
        return name
    raise RunnerUnusable(
        f"runner {name!r} is unknown, expected {PROCESSES}, {DASK} or the address of a Dask scheduler such as tcp://host:8786; "
        "correct --runner or DSABENCH_RUNNER."
    )


def open_runner(name: str) -> Runner:
    """Start the runner, one worker a core on this machine. Raises RunnerUnusable."""
    if check_runner(name) == PROCESSES:
        workers = Processes(os.cpu_count() or 1)
        return Runner(workers, workers.shutdown, workers.end)
    from tasks_lib.store.dask_workers import DaskWorkers

    elsewhere = DaskWorkers("" if name == DASK else name)
    return Runner(elsewhere, elsewhere.shutdown, elsewhere.end)


class Processes(Executor):
    """Worker processes, started when first needed, each a pool of its own: one that is lost costs nobody but the job it had.

    That job is given to a new worker once more; its second loss is raised as WorkerLost. A worker that has grown beyond ROOMY gives its
    place to a fresh one after its job.
    """

    def __init__(self, size: int) -> None:
        self._threads = ThreadPoolExecutor(size, "dsabench-jobs")  # each waits for the job of one worker
        self._free: queue.LifoQueue[ProcessPoolExecutor | None] = queue.LifoQueue()
        for _ in range(size):
            self._free.put(None)
        self._size = size
        self._ended = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """As executors do."""
        return self._threads.submit(self._attempts, fn, *args, **kwargs)

    def _attempts(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        lost: BrokenProcessPool | None = None
        for _ in range(ATTEMPTS):
            worker = self._free.get()
            try:
                if self._ended:
                    break
                worker = worker or _worker()
                made = worker.submit(fn, *args, **kwargs).result()
                if worker.submit(_taken).result() > ROOMY:
                    worker.shutdown()
                    worker = None
                return made
            except BrokenProcessPool as error:
                assert worker is not None
                worker.shutdown(wait=False)
                worker, lost = None, error
            finally:
                self._free.put(worker)
        raise WorkerLost(
            f"{ATTEMPTS} worker processes ended without a word at this job, expected one that comes to its end; something killed them, "
            "most often for want of memory: free some and run the same command again."
        ) from lost

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:
        """Stop the workers; what runs comes to its end, what waits is cancelled."""
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        for worker in [self._free.get() for _ in range(self._size)] if wait else []:
            if worker is not None:
                worker.shutdown(wait=True)

    def end(self) -> None:
        """Stop the workers, whatever they are at: what they completed is in ledger and store."""
        self._ended = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        while self._free.qsize() < self._size:  # one may be about to start
            for process in multiprocessing.active_children():
                process.kill()
            time.sleep(0.02)
        self.shutdown()


def _worker() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=_prepare_worker)


def _taken() -> float:
    """Most memory that this process has held at a time, in MiB."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux counts in `ru_maxrss` what the parent held when this process was started
        return int(status.read_text("ascii").split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _prepare_worker() -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the main process's to handle
    threading.Thread(target=_follow, daemon=True, name="dsabench-parent").start()


def _follow() -> None:
    """End this worker with its parent, which may be killed without warning: nobody would ever tell the worker."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
