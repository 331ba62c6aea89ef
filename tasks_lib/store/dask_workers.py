"""Dask workers as an executor: a local cluster of this machine, or whatever a scheduler elsewhere has.

A job whose worker dies is given to another one by the scheduler (three times, Dask's default); ledger and store make that harmless.
Does not belong here: which runner is wanted, and worker processes without Dask (`runners`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from typing import Any, ParamSpec, TypeVar

from tasks_lib.store.runners import RunnerUnusable, WorkerLost

CONNECT_SECONDS = 30
P = ParamSpec("P")
T = TypeVar("T")


class DaskWorkers(Executor):
    """Jobs go to the scheduler at `address`, or to a cluster started here when it is empty. Raises RunnerUnusable."""

    def __init__(self, address: str = "") -> None:
        try:
            from distributed import Client, LocalCluster
        except ImportError as error:
            raise RunnerUnusable(
                "runner dask needs the package distributed, found none; install it with pip install '.[scale]'."
            ) from error
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters of it is raised, in one sentence
        self._jobs: dict[str, Any] = {}  # a job that nobody holds would be forgotten by the scheduler
        self._idle = threading.Condition()
        self._cluster: Any = None
        if not address:
            self._cluster = LocalCluster(
                n_workers=os.cpu_count() or 1, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
            )
        try:
            self._client: Any = Client(self._cluster or address, timeout=CONNECT_SECONDS, set_as_default=False)
        except OSError as error:
            raise RunnerUnusable(
                f"no Dask scheduler answers at {address} within {CONNECT_SECONDS} s, expected a running one; start it, or leave "
                "--runner out."
            ) from error
        try:
            self._client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError as error:
            self.end()
            raise RunnerUnusable(
                f"the Dask scheduler at {address} has no worker after {CONNECT_SECONDS} s, expected one or more; start "
                f"`dask worker {address}`, or leave --runner out."
            ) from error

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """As executors do. Raises WorkerLost, by the future, when the job is lost."""
        made: Future[T] = Future()
        made.set_running_or_notify_cancel()
        # Not pure: two jobs of equal arguments are two jobs. A job that fails is not tried again behind our back.
        try:
            job = self._client.submit(fn, *args, pure=False, retries=0, **kwargs)
        except Exception as error:  # whatever the client raises once its scheduler is gone
            made.set_exception(_lost(error))
            return made
        with self._idle:
            self._jobs[job.key] = job
        job.add_done_callback(lambda done: self._pass_on(done, made))
        return made

    def _pass_on(self, job: Any, made: Future[Any]) -> None:
        """Called in a thread of Dask when the job is over, whatever became of it."""
        from distributed.scheduler import KilledWorker

        try:
            value = job.result()
        except (CancelledError, KilledWorker) as error:
            made.set_exception(_lost(error))
        except BaseException as error:
            made.set_exception(error)
        else:
            made.set_result(value)
        finally:
            with self._idle:
                self._jobs.pop(job.key, None)
                self._idle.notify_all()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:
        """Stop what was started here; what runs comes to its end first."""
        del cancel_futures
        with self._idle:
            while wait and self._jobs:
                self._idle.wait()
        self.end()

    def end(self) -> None:
        """Stop what was started here, whatever the workers are at."""
        with contextlib.suppress(OSError, TimeoutError):
            self._client.close(timeout=5)
        if self._cluster is not None:
            self._cluster.close(timeout=10)


def _lost(error: BaseException) -> WorkerLost:
    return WorkerLost(
        f"Dask lost a job ({type(error).__name__}: {' '.join(str(error).split())}), expected a scheduler and workers that stay; see to "
        "them and run the same command again."
    )
