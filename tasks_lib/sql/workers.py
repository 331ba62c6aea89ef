"""Worker processes that run statements one by one, are killed when they must be, and replaced.

Belongs here: the caller's side of a worker and a pool of them. Does not belong here: which statement may run (`guard`),
which ran before (`execute`). A pool is plain thread-safe code: call `run` from threads; an event loop goes through an
executor.
"""

from __future__ import annotations

import json
import marshal
import os
import queue
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from types import TracebackType

from tasks_lib.protocol.records import BindingValue
from tasks_lib.protocol.vocabulary import Engine
from tasks_lib.sql.faults import FAULTS, DatabaseFault
from tasks_lib.sql.fetching import Outcome, failed
from tasks_lib.sql.limits import DEFAULT_LIMITS, Limits
from tasks_lib.sql.sqlite import Identity
from tasks_lib.sql.worker_main import LOAD_DRIVER, START, frame
from tasks_lib.store.settings import PROJECT_ROOT

GRACE_SECONDS = 0.5
"""Time beyond the wall limit in which a worker may end the statement itself; then it is killed."""
BOOT_SECONDS = 60.0
"""A worker starts in 0.1 s on an idle machine; this bounds a machine under heavy load."""

# Statements may be hostile: a worker gets no keys from the environment.
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", "SYSTEMROOT", "VIRTUAL_ENV")


class WorkerStartError(RuntimeError):
    """A worker process does not start."""


@dataclass(frozen=True, slots=True)
class Request:
    """One statement for one database.

    `location`: SQLite file, or PostgreSQL connection string. `sql`: the driver's text. `values`: bindings in the order
    of `placeholders_in`. `identity`: of the SQLite file that is meant (`sqlite.identity`); None takes what is there.
    """

    engine: Engine
    location: str
    sql: str
    values: Sequence[tuple[str, BindingValue]] = ()
    identity: Identity | None = None

    def plain(self) -> tuple[object, ...]:
        """Return what the wire form holds. Raises TypeError for a value that cannot be bound."""
        for name, value in self.values:
            if type(value) not in _BOUND:
                raise TypeError(f"The binding :{name} has type {type(value).__name__}, which cannot be bound.")
        return self.engine.value, self.location, self.sql, list(self.values), self.identity


_BOUND = frozenset({type(None), bool, int, float, str, bytes})


class _Died(Exception):
    """The worker's end of the pipe closed; `code` is its exit code."""

    def __init__(self, code: int) -> None:
        self.code = code


class Worker:
    """One worker process. Not for several threads at a time."""

    def __init__(self, limits: Limits) -> None:
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        environment["PYTHONPATH"] = str(PROJECT_ROOT)
        self.limits = limits
        self._driver_loaded = False
        self._received = bytearray()
        # -S: what is installed is looked for only when a driver is wanted, which halves what a start costs.
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-P", "-c", START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C is the caller's to handle
        )
        assert self._process.stdout is not None
        self._readable = select.poll()
        self._readable.register(self._process.stdout.fileno(), select.POLLIN)
        try:
            self._send(marshal.dumps(asdict(limits)))
            ready = self._read(BOOT_SECONDS)
        except _Died as death:
            raise WorkerStartError(
                f"A SQL worker ended with code {death.code} while starting; see its error output."
            ) from None
        if ready is None:
            self.kill()
            raise WorkerStartError(f"A SQL worker was not ready after {BOOT_SECONDS:g} s; the machine is overloaded.")

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def run(self, request: Request) -> Outcome:
        """Run one statement. After `timeout` by killing and after `worker_died` the worker is not `alive`.

        Raises:
            DatabaseMissing, DatabaseDamaged, ServerUnavailable: as the engines raise them.
        """
        (outcome,) = self.run_many([request])
        if isinstance(outcome, DatabaseFault):
            raise outcome
        assert outcome is not None, "a single statement is always answered"
        return outcome

    def run_many(self, requests: Sequence[Request]) -> list[Outcome | DatabaseFault | None]:
        """Run statements one after the other, each within all limits; faults are handed back in their places.

        Which of several statements ended a worker cannot be told for sure: then all without an answer are None, did not
        count as run, and are to be run alone.
        """
        done: list[Outcome | DatabaseFault | None] = []
        begun = time.monotonic()
        try:
            if not self._driver_loaded and any(request.engine is Engine.POSTGRES for request in requests):
                # Loading the driver is no part of a statement's time.
                self._send(LOAD_DRIVER)
                self._driver_loaded = self._read(BOOT_SECONDS) is not None
            begun = time.monotonic()
            self._send(marshal.dumps([request.plain() for request in requests]))
            while len(done) < len(requests):
                reply = self._read(self.limits.wall_seconds + GRACE_SECONDS)
                if reply is None:
                    self.kill()
                    over = f"The statement ran longer than {self.limits.wall_seconds:g} s and was killed."
                    return self._ended(done, len(requests), failed("timeout", over), begun)
                done.append(_answer(reply))
        except _Died as death:
            self.kill()
            if death.code == -signal.SIGXCPU:
                end = failed(
                    "timeout", f"The statement used more than {self.limits.cpu_seconds:g} s of processor time."
                )
            else:
                end = failed("worker_died", f"The worker process ended with code {death.code} while the statement ran.")
            return self._ended(done, len(requests), end, begun)
        return done

    @staticmethod
    def _ended(
        done: list[Outcome | DatabaseFault | None], asked: int, end: Outcome, begun: float
    ) -> list[Outcome | DatabaseFault | None]:
        if asked == 1:
            return [failed(end.kind, end.error, round(time.monotonic() - begun, 6))]
        return [*done, *[None] * (asked - len(done))]

    def _send(self, body: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(frame(body))
            self._process.stdin.flush()
        except BrokenPipeError:
            raise _Died(self._process.wait()) from None

    def _read(self, seconds: float) -> bytes | None:
        """Return the next reply, or None when it is not complete in time."""
        assert self._process.stdout is not None
        end = time.monotonic() + seconds
        descriptor = self._process.stdout.fileno()
        received = self._received
        while len(received) < 8 or len(received) < 8 + int.from_bytes(received[:8], "big"):
            if not self._readable.poll(max(0.0, end - time.monotonic()) * 1000):
                return None
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                raise _Died(self._process.wait())
            received += chunk
        length = 8 + int.from_bytes(received[:8], "big")
        reply = bytes(received[8:length])
        del received[:length]
        return reply

    def kill(self) -> None:
        """End the process now and take its last traces away (zombie, pipes)."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):  # a request that was never read is still in the buffer
                    stream.close()


_read_json = json.JSONDecoder().decode


def _answer(reply: bytes) -> Outcome | DatabaseFault:
    head, _, data = reply.partition(b"\n")
    kind, error, rows, fault, seconds = _read_json(head.decode("ascii"))
    return FAULTS[fault](error) if fault else Outcome(kind, data, error, rows, seconds)


class WorkerPool:
    """Up to `size` workers, started when first needed, kept, and replaced when they end."""

    def __init__(self, size: int = 2, limits: Limits = DEFAULT_LIMITS) -> None:
        if size < 1:
            raise ValueError(f"A worker pool has {size} workers, expected at least 1.")
        self.size = size
        self.limits = limits
        self._free: queue.LifoQueue[Worker | None] = queue.LifoQueue()
        self._busy: set[Worker] = set()
        self._closed = False
        self._pid = os.getpid()
        for _ in range(size):
            self._free.put(None)

    def run(self, request: Request) -> Outcome:
        """Run one statement on a free worker, waiting for one if need be. Safe from several threads.

        A worker that dies costs this one statement. Raises what `Worker.run` raises, and RuntimeError after `close`.
        """
        (outcome,) = self.run_many([request])
        if isinstance(outcome, DatabaseFault):
            raise outcome
        assert outcome is not None, "a single statement is always answered"
        return outcome

    def run_many(self, requests: Sequence[Request]) -> list[Outcome | DatabaseFault | None]:
        """Run statements on one free worker as `Worker.run_many` does: None are those to be run again, each alone.

        Raises RuntimeError after `close`, WorkerStartError.
        """
        if os.getpid() != self._pid:
            raise RuntimeError("A worker pool was carried into a forked process; make a pool of its own there.")
        worker: Worker | None = self._free.get()
        try:
            if self._closed:
                raise RuntimeError("The worker pool is closed.")
            if worker is None or not worker.alive:
                worker = Worker(self.limits)
            self._busy.add(worker)
            outcomes = worker.run_many(requests)
            if self._closed and not worker.alive:  # our own doing, and no result of a statement
                raise RuntimeError("The worker pool was closed while the statement ran.")
            return outcomes
        finally:
            if worker is not None:
                self._busy.discard(worker)
                if self._closed and worker.alive:
                    worker.kill()
            self._free.put(worker if worker is not None and worker.alive else None)

    def pids(self) -> tuple[int, ...]:
        """Process ids of the workers that run a statement right now."""
        return tuple(sorted(worker.pid for worker in list(self._busy) if worker.alive))

    def close(self) -> None:
        """End all workers; `run` raises RuntimeError for statements still running."""
        self._closed = True
        for worker in list(self._busy):
            if worker.alive:
                os.kill(worker.pid, signal.SIGKILL)
        # All are taken before any is put back: the queue hands out first what came last.
        idle = [self._free.get() for _ in range(self.size)]
        for worker_or_none in idle:
            if worker_or_none is not None:
                worker_or_none.kill()
            self._free.put(None)

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
