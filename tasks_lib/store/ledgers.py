"""Ledgers: paid or slow items (model calls, SQL executions), each written the moment it completes (DESIGN, the one idea).

One item per key. An item is leased while in flight; a lease carries owner, attempt and expiry; completion is a
compare-and-set on (key, attempt), so a late writer is refused (known fault P05). A lease of a dead process of this machine
counts as expired at once. Large content is stored once as blobs, named by digest.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tasks_lib.store.keys import sha256_bytes
from tasks_lib.store.ledger_faults import CONNECT_SECONDS, LedgerUnreachable, patiently, tell_of_faults
from tasks_lib.store.ledger_faults import LedgerUnusable as LedgerUnusable
from tasks_lib.store.settings import settings

metadata = sa.MetaData()
items = sa.Table(
    "items",
    metadata,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("kind", sa.String(32), nullable=False, index=True),
    sa.Column("state", sa.String(8), nullable=False),
    sa.Column("owner", sa.String(200), nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("expires", sa.Float, nullable=False),
    sa.Column("run", sa.String(80), nullable=False, index=True),
    sa.Column("outcome", sa.String(40), nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
    sa.Column("meta", sa.Text, nullable=False),
    sa.Column("completed", sa.Float, nullable=False),
)
blobs = sa.Table(
    "blobs",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("data", sa.LargeBinary, nullable=False),
)


# The statements of every item, as text both dialects know: composing them anew costs more than SQLite takes to run them.
_FIND = sa.text(
    "SELECT key, kind, state, owner, attempt, expires, run, outcome, payload, meta FROM items WHERE key = :key"
)
_READ_BLOB = sa.text("SELECT data FROM blobs WHERE digest = :digest")
# These go to the driver as they are, with all rows of a batch: what SQLAlchemy does to each row costs as much as SQLite.
_LEASE = (
    "INSERT INTO items (key, kind, state, owner, attempt, expires, run, outcome, payload, meta, completed) "
    "VALUES (:key, :kind, 'leased', :owner, 1, :expires, :run, '', :payload, '{}', 0.0) ON CONFLICT (key) DO NOTHING"
)
_COMPLETE = (
    "UPDATE items SET state = 'done', outcome = :outcome, payload = :payload, meta = :meta, completed = :completed, "
    "run = :run WHERE key = :key AND attempt = :attempt AND state = 'leased'"
)
_BLOB = "INSERT INTO blobs (digest, data) VALUES (:digest, :data) ON CONFLICT (digest) DO NOTHING"


_META = json.JSONEncoder(sort_keys=True)


class Transient(RuntimeError):
    """A fault of the moment: nothing is stored, the item stays not done, and a later attempt may succeed."""


class StaleLease(RuntimeError):
    """stale_lease: this writer's lease was taken over; its result is not stored."""


@dataclass(frozen=True)
class Entry:
    """A completed item. `payload`: bytes whose meaning belongs to the kind. `run`: the run that paid for it."""

    key: str
    kind: str
    outcome: str
    payload: bytes
    meta: dict[str, Any]
    attempt: int
    run: str


@dataclass(frozen=True)
class Lease:
    """The right to complete one item."""

    key: str
    kind: str
    owner: str
    attempt: int


@dataclass(frozen=True)
class Produced:
    """What a producer hands back. `blobs`: contents by digest, stored once, before the item."""

    outcome: str
    payload: bytes
    meta: Mapping[str, Any] = field(default_factory=dict)
    blobs: Mapping[str, bytes] = field(default_factory=dict)


def this_owner() -> str:
    known = _process("self")
    return f"{socket.gethostname()}|{os.getpid()}|{known[1] if known else ''}"


def _process(pid: str) -> tuple[str, str] | None:
    """(state letter, start time) of a process by /proc, None when there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return fields[0], fields[19]


def owner_is_dead(owner: str) -> bool:
    """True only when the owner is a process of this machine that is certainly gone; one not yet reaped (zombie) is gone."""
    host, pid, started = owner.split("|")
    if host != socket.gethostname() or not started:
        return False
    known = _process(pid)
    return known is None or known[0] in "ZX" or known[1] != started


class Ledger:
    """One ledger by SQLAlchemy URL (default: SQLite below the home folder). Safe for several processes.

    `postgresql://…` shares it between machines, whose clocks must agree far better than `lease_seconds`: a lease of another machine
    is over only when it expires.
    """

    def __init__(self, url: str | None = None, run: str = "", lease_seconds: float = 120.0) -> None:
        self.url = url or settings().resolved_ledger_url
        self.run = run
        self.lease_seconds = lease_seconds
        self.owner = this_owner()
        made = _address(self.url)
        self._sqlite = sqlite = made.get_backend_name() == "sqlite"
        if sqlite and made.database:
            Path(made.database).parent.mkdir(parents=True, exist_ok=True)
        options: dict[str, Any] = {"connect_args": {"timeout": 60}}
        if not sqlite:
            options = {"connect_args": {"connect_timeout": CONNECT_SECONDS}, "pool_pre_ping": True}
        self.engine = sa.create_engine(made, **options)
        if sqlite:

            @sa.event.listens_for(self.engine, "connect")
            def _pragmas(connection: Any, _record: Any) -> None:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=NORMAL")

        try:
            with self.engine.begin() as connection:
                if not sqlite:  # two processes that make the tables at the same time would collide
                    connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtextextended('dsabench ledger', 0))"))
                metadata.create_all(connection)
        except sa.exc.DatabaseError as error:
            raise LedgerUnusable(
                f"the ledger {self.engine.url!r} cannot be opened ({error.orig}), expected a ledger database; restore it, or move "
                "it away to begin a new one (calls stored in it are then paid for again)."
            ) from error
        tell_of_faults(self.engine)
        self._flying: dict[str, asyncio.Future[Entry]] = {}

    def close(self) -> None:
        self.engine.dispose()

    # -- reading --

    def get(self, key: str) -> Entry | None:
        """The completed item, or None (also while it is leased)."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Iterable[str]) -> dict[str, Entry]:
        """Completed items among `keys`."""
        wanted = list(dict.fromkeys(keys))
        found: dict[str, Entry] = {}
        with self.engine.connect() as connection:
            for start in range(0, len(wanted), 500):
                query = sa.select(items).where(items.c.key.in_(wanted[start : start + 500]), items.c.state == "done")
                for row in connection.execute(query):
                    found[row.key] = _entry(row)
        return found

    def blob(self, digest: str) -> bytes:
        """Content of a blob. Raises KeyError when there is none."""
        with self.engine.connect() as connection:
            data = connection.execute(_READ_BLOB, {"digest": digest}).scalar()
        if data is None:
            raise KeyError(digest)
        return bytes(data)

    def blobs_of(self, digests: Iterable[str]) -> dict[str, bytes]:
        """Contents of many blobs by digest. Raises KeyError naming one that is not there."""
        wanted = sorted(set(digests))
        found: dict[str, bytes] = {}
        with self.engine.connect() as connection:
            for start in range(0, len(wanted), 500):
                query = sa.select(blobs).where(blobs.c.digest.in_(wanted[start : start + 500]))
                found |= {row.digest: bytes(row.data) for row in connection.execute(query)}
        for name in wanted:
            if name not in found:
                raise KeyError(name)
        return found

    def lacking(self, keys: Iterable[str]) -> set[str]:
        """Those of `keys` of which no completed item is here."""
        wanted = sorted(set(keys))
        held: set[str] = set()
        with self.engine.connect() as connection:
            for start in range(0, len(wanted), 500):
                part = wanted[start : start + 500]
                query = sa.select(items.c.key).where(items.c.key.in_(part), items.c.state == "done")
                held.update(connection.execute(query).scalars())
        return set(wanted) - held

    def meta_of(self, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Metadata of the completed items among `keys`, without their payloads."""
        wanted = sorted(set(keys))
        found: dict[str, dict[str, Any]] = {}
        with self.engine.connect() as connection:
            for start in range(0, len(wanted), 500):
                query = sa.select(items.c.key, items.c.meta).where(
                    items.c.key.in_(wanted[start : start + 500]), items.c.state == "done"
                )
                found |= {row.key: json.loads(row.meta) for row in connection.execute(query)}
        return found

    def count(self, kind: str, run: str | None = None) -> int:
        """Completed items of a kind, of one run when given."""
        query = sa.select(sa.func.count()).select_from(items).where(items.c.kind == kind, items.c.state == "done")
        if run is not None:
            query = query.where(items.c.run == run)
        with self.engine.connect() as connection:
            return int(connection.execute(query).scalar_one())

    # -- leasing --

    def acquire(self, key: str, kind: str) -> Lease | Entry | None:
        """A lease when the item is ours to do, the entry when it is done, None while another live owner works on it."""
        now = time.time()
        with self.engine.begin() as connection:
            row = connection.execute(_FIND, {"key": key}).first()
            if row is None:
                values = {
                    "key": key,
                    "kind": kind,
                    "owner": self.owner,
                    "expires": now + self.lease_seconds,
                    "run": self.run,
                }
                made = self._write(connection, _LEASE, [{**values, "payload": b""}])
                return Lease(key, kind, self.owner, 1) if made == 1 else None
            if row.state == "done":
                return _entry(row)
            if row.state == "leased" and row.expires > now and not owner_is_dead(row.owner):
                return None
            attempt = row.attempt + 1
            taken = connection.execute(
                items.update()
                .where(items.c.key == key, items.c.attempt == row.attempt, items.c.state != "done")
                .values(
                    state="leased", owner=self.owner, attempt=attempt, expires=now + self.lease_seconds, run=self.run
                )
            )
            return Lease(key, kind, self.owner, attempt) if taken.rowcount == 1 else None

    def lease_new(self, keys: Iterable[str], kind: str) -> list[Lease]:
        """Leases of items that nobody ever began, all in one transaction; none at all when one of them was begun.

        Whoever gets none asks for each with `acquire` or `once`.
        """
        wanted = sorted(keys)  # in one order for everybody: two processes never wait for each other
        expires = time.time() + self.lease_seconds
        rows = [
            {"key": key, "kind": kind, "owner": self.owner, "expires": expires, "run": self.run, "payload": b""}
            for key in wanted
        ]
        with self.engine.connect() as connection:
            if self._write(connection, _LEASE, rows) != len(wanted):
                connection.rollback()
                return []
            connection.commit()
        return [Lease(key, kind, self.owner, 1) for key in wanted]

    def heartbeat(self, lease: Lease) -> None:
        """Extend a lease. Raises StaleLease when it was taken over."""
        with self.engine.begin() as connection:
            done = connection.execute(
                items.update()
                .where(items.c.key == lease.key, items.c.attempt == lease.attempt, items.c.state == "leased")
                .values(expires=time.time() + self.lease_seconds)
            )
        if done.rowcount != 1:
            raise StaleLease(
                f"stale_lease: {lease.kind} {lease.key} attempt {lease.attempt} was taken over by another owner."
            )

    def complete(self, lease: Lease, produced: Produced) -> Entry:
        """Store the result if the lease still holds. Raises StaleLease otherwise; nothing is overwritten."""
        if not self._completed([(lease, produced)]):
            raise StaleLease(
                f"stale_lease: {lease.kind} {lease.key} attempt {lease.attempt} was taken over by another owner."
            )
        return self._entry(lease, produced)

    def complete_many(self, results: Sequence[tuple[Lease, Produced]]) -> list[Entry | StaleLease]:
        """Store results in one transaction, handing back in its place what `complete` raises for one of them."""
        if self._completed(results):
            return [self._entry(lease, produced) for lease, produced in results]
        found: list[Entry | StaleLease] = []
        for lease, produced in results:
            try:
                found.append(self.complete(lease, produced))
            except StaleLease as error:
                found.append(error)
        return found

    def _completed(self, results: Sequence[tuple[Lease, Produced]]) -> bool:
        """Store all results, or none of them when a lease does not hold any more."""
        contents = {name: data for _, produced in results for name, data in produced.blobs.items()}
        now = time.time()
        rows = [
            {
                "key": lease.key,
                "attempt": lease.attempt,
                "outcome": produced.outcome,
                "payload": produced.payload,
                "meta": _META.encode(dict(produced.meta)),
                "completed": now,
                "run": self.run,
            }
            for lease, produced in results
        ]
        with self.engine.connect() as connection:
            if contents:  # in one order for everybody, as in `lease_new`
                named = [{"digest": name, "data": contents[name]} for name in sorted(contents)]
                self._write(connection, _BLOB, named)
            if self._write(connection, _COMPLETE, rows) != len(rows):
                connection.rollback()
                return False
            connection.commit()
        return True

    def _write(self, connection: sa.Connection, statement: str, rows: list[dict[str, Any]]) -> int:
        """Run a statement with named values for every row of `rows`; returns how many rows it changed or made."""
        if not self._sqlite:
            statement = re.sub(r":(\w+)", r"%(\1)s", statement)
        return connection.exec_driver_sql(statement, rows).rowcount

    def _entry(self, lease: Lease, produced: Produced) -> Entry:
        return Entry(
            lease.key, lease.kind, produced.outcome, produced.payload, dict(produced.meta), lease.attempt, self.run
        )

    def record(self, kind: str, produced: Produced) -> Entry:
        """Store a happening that nobody will ask for by key, such as a failed call; its key is drawn at random."""
        lease = self.acquire(uuid.uuid4().hex * 2, kind)
        assert isinstance(lease, Lease), "a key drawn at random is new"
        return self.complete(lease, produced)

    def metas(self, kind: str, run: str | None = None) -> list[dict[str, Any]]:
        """Metadata of all completed items of a kind, of one run when given, in key order."""
        query = sa.select(items.c.meta).where(items.c.kind == kind, items.c.state == "done").order_by(items.c.key)
        if run is not None:
            query = query.where(items.c.run == run)
        with self.engine.connect() as connection:
            return [json.loads(row.meta) for row in connection.execute(query)]

    def abandon(self, lease: Lease) -> None:
        """Give a lease back without a result (transient failure): the item is free at once, its attempt number kept."""
        with self.engine.begin() as connection:
            connection.execute(
                items.update()
                .where(items.c.key == lease.key, items.c.attempt == lease.attempt, items.c.state == "leased")
                .values(state="free", expires=0.0)
            )

    def reconcile(self) -> int:
        """Free leases that are expired or whose owner is dead; returns how many. Run at the start of a run."""
        freed = 0
        with self.engine.begin() as connection:
            for row in connection.execute(
                sa.select(items.c.key, items.c.owner, items.c.attempt, items.c.expires).where(items.c.state == "leased")
            ).all():
                if row.expires <= time.time() or owner_is_dead(row.owner):
                    freed += connection.execute(
                        items.update()
                        .where(items.c.key == row.key, items.c.attempt == row.attempt, items.c.state == "leased")
                        .values(state="free", expires=0.0)
                    ).rowcount
        return freed

    async def once(self, key: str, kind: str, produce: Callable[[], Awaitable[Produced]]) -> Entry:
        """The item's entry: the stored one, or the one `produce` makes now; equal keys in flight share one producer.

        A producer that raises leaves the item not done (its lease is given back) and the error propagates.
        """
        while (flying := self._flying.get(key)) is not None:
            try:
                return await asyncio.shield(flying)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not flying.cancelled() or (task is not None and task.cancelling()):
                    raise  # this waiter is cancelled; else only the producer's caller was, and the item is ours to try
        future: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()
        self._flying[key] = future
        try:
            entry = await self._once(key, kind, produce)
            future.set_result(entry)
            return entry
        except BaseException as error:
            if isinstance(error, Exception):
                future.set_exception(error)
                future.exception()  # mark as seen: waiters re-raise it themselves
            else:
                future.cancel()
            raise
        finally:
            del self._flying[key]

    async def _once(self, key: str, kind: str, produce: Callable[[], Awaitable[Produced]]) -> Entry:
        pause = 0.01
        while True:
            got = await patiently(partial(self.acquire, key, kind))
            if isinstance(got, Entry):
                return got
            if isinstance(got, Lease):
                return await self._produce(got, produce)
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.5)

    async def _produce(self, lease: Lease, produce: Callable[[], Awaitable[Produced]]) -> Entry:
        work = asyncio.ensure_future(produce())
        try:
            while True:
                done, _ = await asyncio.wait({work}, timeout=self.lease_seconds / 3)
                if done:
                    return await patiently(partial(self._kept, lease, work.result()))
                with contextlib.suppress(LedgerUnreachable):  # whether the lease held is told when the result is stored
                    self.heartbeat(lease)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _succeeded(work):
                with contextlib.suppress(LedgerUnreachable):
                    self._kept(lease, work.result())  # it is paid for: whoever asks again finds it
            else:
                work.cancel()
                with contextlib.suppress(LedgerUnreachable):  # the lease then ends with this process
                    self.abandon(lease)
            raise

    def _kept(self, lease: Lease, produced: Produced) -> Entry:
        """`complete`, or what an earlier try of it stored before its connection broke."""
        try:
            return self.complete(lease, produced)
        except StaleLease:
            stored = self.get(lease.key)
            if stored is None or (stored.attempt, stored.payload) != (lease.attempt, produced.payload):
                raise
            return stored


def _succeeded(work: asyncio.Future[Produced]) -> bool:
    return work.done() and not work.cancelled() and work.exception() is None


def _address(url: str) -> sa.URL:
    """The URL as SQLAlchemy reads it. Raises LedgerUnusable, without the password, for what is no ledger's."""
    try:
        made = sa.make_url(url)
    except sa.exc.ArgumentError:
        made = None
    if made is None or made.get_backend_name() not in {"sqlite", "postgresql"}:
        found = "no URL" if made is None else repr(made)
        raise LedgerUnusable(
            f"DSABENCH_LEDGER_URL is {found}, expected sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE; correct it, or "
            "unset it for the file in the home folder."
        )
    return made


def blob_of(data: bytes) -> tuple[str, bytes]:
    """(digest, data) of a blob."""
    return sha256_bytes(data), data


def _entry(row: Any) -> Entry:
    return Entry(row.key, row.kind, row.outcome, bytes(row.payload), json.loads(row.meta), row.attempt, row.run)
