"""Where jobs of offline policies run: worker processes of this machine, or Dask workers, here or elsewhere.

Each is an executor that takes a plain function and plain arguments, so nothing else knows which one is at work. It decides no key and
no number. Does not belong here: jobs that wait for endpoints, which stay in the main process under the client's limits (`jobs`).

Dask workers elsewhere need the same installation, the release's folder under the same path, a store and a ledger that they can reach
(`s3://`, `postgresql://`), and for LiveSQLBench DSABENCH_POSTGRES_URL.
"""

from __future__ import annotations

import multiprocessing
import os
import re
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass

PROCESSES = "processes"
DASK = "dask"
_ADDRESS = re.compile(r"(tcp|tls)://\S+")
CONNECT_SECONDS = 30


class RunnerUnusable(RuntimeError):
    """No such runner, its package is missing, or no scheduler answers."""


@dataclass(frozen=True)
class Runner:
    """An executor and how it is stopped, which waits for what runs."""

    executor: Executor
    close: Callable[[], None]


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
        pool = ProcessPoolExecutor(
            os.cpu_count() or 1, mp_context=multiprocessing.get_context("spawn"), initializer=_quiet_worker
        )
        return Runner(pool, lambda: pool.shutdown(wait=True, cancel_futures=True))
    return _dask("" if name == DASK else name)


def _quiet_worker() -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def _dask(address: str) -> Runner:
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise RunnerUnusable(
            f"runner {DASK} needs the package distributed, found none; install it with pip install '.[scale]'."
        ) from error
    cluster = None
    if not address:
        cluster = LocalCluster(
            n_workers=os.cpu_count() or 1, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        )
    try:
        client = Client(cluster or address, timeout=CONNECT_SECONDS, set_as_default=False)
    except OSError as error:
        raise RunnerUnusable(
            f"no Dask scheduler answers at {address} within {CONNECT_SECONDS} s, expected a running one; start it, or leave "
            "--runner out."
        ) from error
    # Not "pure": two jobs of equal arguments are two jobs, and a job that fails is not tried again behind our back.
    executor = client.get_executor(pure=False, retries=0)

    def close() -> None:
        executor.shutdown(wait=True)
        client.close()
        if cluster is not None:
            cluster.close()

    return Runner(executor, close)
