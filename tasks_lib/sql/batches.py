"""Executions that wait at the same time are leased, run and stored together.

Belongs here: which go together, to whom a free worker goes, and who is answered. Does not belong here: what may run, under
which key, and what a stored result is to whom asked (`execute`), limits and killing (`workers`, each statement has its own). Going together saves round
trips and transactions only: an item is on disk before anybody has its result, under a lease of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeAlias, TypeVar

from tasks_lib.sql.faults import DatabaseFault
from tasks_lib.sql.fetching import Outcome
from tasks_lib.sql.lines import writer
from tasks_lib.sql.workers import Request, WorkerPool
from tasks_lib.store.keys import sha256_bytes
from tasks_lib.store.ledgers import Entry, Lease, Ledger, Produced, StaleLease

TOGETHER = 128
"""So many statements go to a worker together at most."""
TOGETHER_SECONDS = 0.2
"""And so much work at most, by what their databases took lately: a slow statement keeps no quick one from a free worker."""
_LOOKED_UP = 100  # stored results that are read at a time

Stored: TypeAlias = tuple[Entry, bytes]
"""A ledger entry and the canonical bytes of its result, empty when it has none."""


Answer = TypeVar("Answer")


@dataclass(eq=False, slots=True)
class _Item(Generic[Answer]):
    """An execution that somebody waits for: one future a caller."""

    key: str
    database: str
    request: Callable[[], Request]
    settle: Callable[[Stored | BaseException], Answer]
    answers: list[asyncio.Future[Answer]] = field(default_factory=list)
    looked_up: bool = False

    @property
    def wanted(self) -> bool:
        """Whether a caller is left who was not cancelled."""
        return not all(answer.done() for answer in self.answers)


_payload_text = writer(spaced=True, ascii_only=True)


def produced_of(outcome: Outcome) -> Produced:
    """What the ledger keeps of an outcome."""
    found = sha256_bytes(outcome.data) if not outcome.kind else ""
    payload = {"digest": found, "rows": outcome.rows, "error": outcome.error}
    return Produced(
        outcome.kind or "ok",
        _payload_text(payload).encode("ascii"),
        {"seconds": outcome.seconds},
        {found: outcome.data} if found else {},
    )


class Batches(Generic[Answer]):
    """Asks for executions in batches. For one event loop; `close` before `pool` and `threads` are.

    Args:
        alone: asks the ledger for one execution. Used for an item that somebody else works on or began, and when a worker
            ended under several statements.
    """

    def __init__(
        self,
        ledger: Ledger,
        kind: str,
        pool: WorkerPool,
        threads: Executor,
        alone: Callable[[str, Callable[[], Request]], Awaitable[Stored]],
    ) -> None:
        self._alone = alone
        self._lonely: set[asyncio.Future[Stored]] = set()
        self._ledger = ledger
        self._kind = kind
        self._pool = pool
        self._threads = threads
        self._waiting: deque[_Item[Answer]] = deque()
        self._asked: dict[str, _Item[Answer]] = {}  # by key: waiting or running
        self._running: list[list[Lease]] = []  # what each running batch holds
        self._usual: dict[str, float] = {}  # seconds of a statement on a database lately
        self._dispatching = self._closed = False
        self._beat: asyncio.TimerHandle | None = None

    def ask(
        self,
        key: str,
        database: str,
        request: Callable[[], Request],
        settle: Callable[[Stored | BaseException], Answer],
    ) -> asyncio.Future[Answer]:
        """The execution of `key`, run with all others that are asked for in this turn of the event loop.

        Args:
            database: what statements on the same database share. request: called in a thread, when nothing is stored.
            settle: makes the answer of what is stored, once for all who wait for the key, or raises what stopped it.
        """
        if self._closed:
            raise RuntimeError("The SQL runner is closed.")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        item = self._asked.get(key)
        if item is None:
            item = self._asked[key] = _Item(key, database, request, settle)
            self._waiting.append(item)
            if not self._dispatching:
                self._dispatching = True
                loop.call_soon(self._dispatch)
        item.answers.append(answer)
        return answer

    def close(self) -> None:
        """Start nothing any more; what did not start is not done."""
        self._closed = True
        while self._waiting:
            self._finish(self._waiting.popleft(), RuntimeError("The SQL runner was closed before the statement ran."))

    def _finish(self, item: _Item[Answer], found: Stored | BaseException) -> None:
        self._asked.pop(item.key, None)
        try:
            made = item.settle(found)
        except BaseException as error:  # not swallowed: those who wait for it get it
            for answer in item.answers:
                if not answer.done():
                    answer.set_exception(error)
        else:
            for answer in item.answers:
                if not answer.done():
                    answer.set_result(made)

    def _ask_alone(self, item: _Item[Answer]) -> None:
        """Ask for one execution by itself, for as long as somebody wants it."""
        self._asked.pop(item.key, None)
        work = asyncio.ensure_future(self._alone(item.key, item.request))
        self._lonely.add(work)  # the loop itself keeps no task

        def ended(work: asyncio.Future[Stored]) -> None:
            self._lonely.discard(work)
            if work.cancelled():
                for answer in item.answers:
                    answer.cancel()
            else:
                self._finish(item, work.exception() or work.result())

        work.add_done_callback(ended)
        for answer in item.answers:
            answer.add_done_callback(lambda _: None if item.wanted else work.cancel())

    # -- in the event loop --

    def _dispatch(self) -> None:
        """Answer what is stored and give the free workers the rest, in the order it was asked for."""
        self._dispatching = False
        new = [item for item in self._waiting if not item.looked_up]
        for start in range(0, len(new), _LOOKED_UP):
            self._look_up(new[start : start + _LOOKED_UP])
        while not self._closed and len(self._running) < self._pool.size and (batch := self._batch()):
            leases: list[Lease] = []
            self._running.append(leases)
            loop = asyncio.get_running_loop()
            if self._beat is None:
                self._beat = loop.call_later(self._ledger.lease_seconds / 3, self._heartbeat)
            work = loop.run_in_executor(self._threads, self._run, batch, leases)
            work.add_done_callback(partial(self._ended, batch, leases))

    def _look_up(self, items: Sequence[_Item[Answer]]) -> None:
        try:
            entries = self._ledger.get_many(item.key for item in items)
            names = {key: json.loads(entry.payload)["digest"] for key, entry in entries.items()}
            contents = self._ledger.blobs_of(name for name in names.values() if name)
        except Exception as error:  # not swallowed: those who wait for it get it
            for item in items:
                self._waiting.remove(item)
                self._finish(item, error)
            return
        for item in items:
            item.looked_up = True
            if item.key in entries:
                self._finish(item, (entries[item.key], contents[names[item.key]] if names[item.key] else b""))
        if entries:
            self._waiting = deque(item for item in self._waiting if item.key not in entries)

    def _batch(self) -> list[_Item[Answer]]:
        """The next items that go together: an equal share of what waits for each free worker, within the limits above."""
        free = self._pool.size - len(self._running)
        most = min(TOGETHER, -(-len(self._waiting) // free))
        batch: list[_Item[Answer]] = []
        expected = 0.0
        while self._waiting and len(batch) < most:
            item = self._waiting[0]
            # A database that nobody has seen may be slow: its first statement goes alone.
            expected += self._usual.get(item.database, TOGETHER_SECONDS)
            if batch and expected > TOGETHER_SECONDS:
                break
            self._waiting.popleft()
            if item.wanted:
                batch.append(item)
            else:
                self._asked.pop(item.key, None)
        return batch

    def _heartbeat(self) -> None:
        self._beat = asyncio.get_running_loop().call_later(self._ledger.lease_seconds / 3, self._heartbeat)
        for lease in [lease for leases in self._running for lease in list(leases)]:
            try:
                self._ledger.heartbeat(lease)
            except StaleLease:
                continue  # done just now, or taken over: then storing its result is refused

    def _ended(
        self,
        batch: Sequence[_Item[Answer]],
        leases: list[Lease],
        work: asyncio.Future[Mapping[str, Stored | Exception]],
    ) -> None:
        self._running = [held for held in self._running if held is not leases]
        if not self._running and self._beat is not None:
            self._beat.cancel()
            self._beat = None
        error = work.exception()
        done = {} if error is not None else work.result()
        for item in batch:
            found = error if error is not None else done.get(item.key)
            if found is None:
                self._ask_alone(item)
                continue
            if isinstance(found, tuple):
                took = float(found[0].meta["seconds"])
                self._usual[item.database] = max(took, (self._usual.get(item.database, took) + took) / 2)
            self._finish(item, found)
        self._dispatch()

    # -- in a thread --

    def _run(self, batch: Sequence[_Item[Answer]], held: list[Lease]) -> dict[str, Stored | Exception]:
        """What became of the items by key; those that must be asked for alone are missing."""
        held += self._ledger.lease_new((item.key for item in batch), self._kind)
        if not held:
            return {}
        leases = {lease.key: lease for lease in held}
        done: dict[str, Stored | Exception] = {}
        try:
            outcomes = self._outcomes(batch, done)
            made = [(leases[key], produced_of(outcome)) for key, outcome in outcomes.items()]
            stored = self._ledger.complete_many(made) if made else []
            for (lease, _), entry in zip(made, stored, strict=True):
                done[lease.key] = (entry, outcomes[lease.key].data) if isinstance(entry, Entry) else entry
        finally:
            for key, lease in leases.items():
                if not isinstance(done.get(key), tuple):
                    self._ledger.abandon(lease)
        return done

    def _outcomes(self, batch: Sequence[_Item[Answer]], faults: dict[str, Stored | Exception]) -> dict[str, Outcome]:
        """Outcomes of what ran, by key; what stopped the others goes to `faults`."""
        requests: dict[str, Request] = {}
        for item in batch:
            try:
                requests[item.key] = item.request()
            except DatabaseFault as fault:
                faults[item.key] = fault
        outcomes: dict[str, Outcome] = {}
        if requests:
            for key, outcome in zip(requests, self._pool.run_many(list(requests.values())), strict=True):
                if isinstance(outcome, DatabaseFault):
                    faults[key] = outcome
                elif outcome is not None:
                    outcomes[key] = outcome
        return outcomes
