"""Running SQL for everybody else: guard, then ledger, then a worker; each distinct execution once.

Belongs here: `SqlRunner` and the `Execution` it returns. Does not belong here: comparing, verdicts, what a statement is
for. A failure that the statement caused is a stored result like any other; a fault of the infrastructure is raised and
leaves the item not done. A timeout is stored too, also one that a busy machine caused: run again under another
`Limits.version` to measure anew.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType

from tasks_lib.protocol.records import BindingValue, DatabaseHandle, ExecutionKey
from tasks_lib.protocol.vocabulary import Engine, VerdictKind
from tasks_lib.sql.batches import Batches, Stored, produced_of
from tasks_lib.sql.canonical import CanonicalResult
from tasks_lib.sql.faults import DatabaseDamaged, DatabaseFault
from tasks_lib.sql.guard import check_sql
from tasks_lib.sql.lexer import trimmed
from tasks_lib.sql.limits import DEFAULT_LIMITS, MEBIBYTE, Limits
from tasks_lib.sql.lines import writer
from tasks_lib.sql.placeholders import BoundStatement, bound, driver_text, placeholders_in
from tasks_lib.sql.postgres import shared_server
from tasks_lib.sql.sqlite import Identity, check_file, identity
from tasks_lib.sql.workers import Request, WorkerPool
from tasks_lib.store.keys import digest, sha256_file, sha256_text
from tasks_lib.store.ledgers import Entry, Ledger, Produced
from tasks_lib.store.settings import settings

LEDGER_KIND = "sql_execution"
ENGINE_VERSION = "execution@1"
"""Part of every key: raise it when the same SQL under the same limits may give another result or other bytes."""
REMEMBERED_BYTES = 8 * MEBIBYTE
"""Results that a runner keeps in memory, by the size of their canonical bytes; decoded they take some ten times that."""
_ENTRY_BYTES = 512  # what an entry takes beside its result, roughly


@dataclass(frozen=True)
class Execution:
    """How one statement ended.

    key: digest of its ExecutionKey, "" when the guard did not let it through.
    kind: None when there is a result, else why there is none (`missing_sql`, `parse_error`, `refused_sql`,
        `execution_error`, `timeout`, `result_too_large`, `worker_died`).
    data: canonical bytes of the result. digest: their sha256 hex ("" without a result). rows: how many it has.
    error: the raw message; it may name files and databases, so `faults.scrub` it before a model sees it.
    seconds: what the engine took when the statement really ran, however often the result was used since.
    """

    key: str
    kind: VerdictKind | None
    data: bytes = b""
    digest: str = ""
    rows: int = 0
    error: str = ""
    seconds: float = 0.0

    @cached_property
    def result(self) -> CanonicalResult | None:
        """The result table, or None when there is none (never an empty table in its place)."""
        return CanonicalResult.from_bytes(self.data) if self.kind is None else None


def execution_digest(key: ExecutionKey) -> str:
    """Return the ledger key of an execution: values keep their types, so '02134' and 2134 are two executions."""
    if key.bindings:
        return digest({"version": ENGINE_VERSION, **asdict(key)})
    # The same text without the search for typed values, which takes longer than all the rest.
    fields = {
        "bindings": {"__tuple__": []},
        "database_digest": key.database_digest,
        "limits_version": key.limits_version,
        "sql": key.sql,
        "version": ENGINE_VERSION,
    }
    return sha256_text(_key_text(fields))


_key_text = writer(spaced=False, ascii_only=False)


class SqlRunner:
    """Runs statements on databases, sharing what ran before. An async context manager.

    Args:
        ledger: where executions are kept. limits: of every statement. workers: statements at a time.
        postgres_folder: data folder of the embedded server (default: `postgres` in the home folder), used when a
            PostgreSQL database is first asked for and DSABENCH_POSTGRES_URL names no server.
    """

    def __init__(
        self,
        ledger: Ledger,
        limits: Limits = DEFAULT_LIMITS,
        workers: int = 2,
        postgres_folder: Path | None = None,
    ) -> None:
        self._ledger = ledger
        self._limits = limits
        self._pool = WorkerPool(workers, limits)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="sql")
        self._postgres_folder = postgres_folder
        self._batches: Batches[Execution] = Batches(ledger, LEDGER_KIND, self._pool, self._threads, self._alone)
        self._loading = threading.Lock()
        self._locations: dict[tuple[str, str], tuple[str, Identity | None]] = {}
        self._recent: OrderedDict[object, Execution] = OrderedDict()
        self._recent_bytes = 0

    async def __aenter__(self) -> SqlRunner:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._batches.close()
        # Not awaited in the loop: a busy worker is killed here, and its thread must get to see that.
        await asyncio.to_thread(self._pool.close)
        self._threads.shutdown(wait=True)

    def run(
        self, handle: DatabaseHandle, sql: str | None, bindings: Mapping[str, BindingValue] | None = None
    ) -> asyncio.Future[Execution]:
        """Run `sql` on the database of `handle` unless the same execution is already in the ledger. Await what it returns.

        What runs is the text as written, without the blanks, comments and semicolons at its end. Bindings the text does
        not use are left out of the execution; a binding without a value is an `execution_error`.

        Raises (when awaited):
            DatabaseMissing, DatabaseDamaged, ServerUnavailable: nothing is stored and the item is not done.
        """
        # What is kept was let through, under its own text; a text that is there without values uses none.
        plain = handle.engine, handle.digest, sql, ()
        if (known := self._recent.get(plain)) is not None:
            self._recent.move_to_end(plain)
            return _given(known)
        report = check_sql(handle.engine, sql)
        if not report.allowed or sql is None:
            return _given(Execution("", report.kind, error=report.reason))
        text = trimmed(handle.engine, sql)
        try:
            statement = bound(handle.engine, text, bindings or {})
        except KeyError as error:
            return _given(Execution("", VerdictKind.EXECUTION_ERROR, error=str(error.args[0])))
        # Python calls 1, 1.0 and True equal: the type belongs to a value here.
        asked = handle.engine, handle.digest, text, tuple([(n, type(v), repr(v)) for n, v in statement.bindings])
        if (known := self._recent.get(asked)) is not None:
            self._recent.move_to_end(asked)
            return _given(known)
        key = execution_digest(ExecutionKey(handle.digest, text, statement.bindings, self._limits.version))
        request, settle = partial(self._request, handle, statement), partial(self._settled, handle, asked)
        return self._batches.ask(key, handle.digest, request, settle)

    def _settled(self, handle: DatabaseHandle, asked: object, found: Stored | BaseException) -> Execution:
        if isinstance(found, DatabaseFault):
            self._locations.pop((handle.digest, handle.location), None)  # checked anew once it is repaired
        if isinstance(found, BaseException):
            raise found
        return self._remember(asked, _execution(*found))

    def _request(self, handle: DatabaseHandle, statement: BoundStatement) -> Request:
        """What a worker gets. Takes long when the database is first asked for: called in a thread."""
        location, identity = self._location(handle)
        values = dict(statement.bindings)
        names = placeholders_in(handle.engine, statement.sql)
        text = driver_text(handle.engine, statement.sql)
        return Request(handle.engine, location, text, [(name, values[name]) for name in names], identity)

    async def _alone(self, key: str, request: Callable[[], Request]) -> Stored:
        """Run one statement, or wait for whoever works on it."""

        async def produce() -> Produced:
            return await asyncio.get_running_loop().run_in_executor(self._threads, made)

        def made() -> Produced:
            return produced_of(self._pool.run(request()))

        entry = await self._ledger.once(key, LEDGER_KIND, produce)
        found = json.loads(entry.payload)["digest"]
        return entry, self._ledger.blob(found) if found else b""

    def _remember(self, asked: object, execution: Execution) -> Execution:
        """Keep what was asked for last within REMEMBERED_BYTES: the ledger has it too, but must be read and decoded."""
        if asked not in self._recent and len(execution.data) <= REMEMBERED_BYTES // 16:
            self._recent[asked] = execution
            self._recent_bytes += len(execution.data) + _ENTRY_BYTES
            while self._recent_bytes > REMEMBERED_BYTES:
                _, oldest = self._recent.popitem(last=False)
                self._recent_bytes -= len(oldest.data) + _ENTRY_BYTES
        return execution

    def _location(self, handle: DatabaseHandle) -> tuple[str, Identity | None]:
        """The SQLite path and what the file was when it was checked, or the connection string of the loaded dump.

        Executions are kept by digest, so what runs must be the bytes of that digest: a file is read once a runner to see.
        """
        key = (handle.digest, handle.location)
        if (known := self._locations.get(key)) is not None:
            return known
        with self._loading:
            found = self._locations.get(key)
            if found is None:
                found = _checked(handle) if handle.engine is Engine.SQLITE else self._load(handle)
                self._locations[key] = found
            return found

    def _load(self, handle: DatabaseHandle) -> tuple[str, None]:
        return self.connection_of(Path(handle.location), handle.digest), None

    def connection_of(self, dump: Path, digest: str) -> str:
        """The reader's connection string of the PostgreSQL database with the content of `dump`, loaded if need be.

        Raises DatabaseMissing, DatabaseDamaged, ServerUnavailable.
        """
        folder = self._postgres_folder or settings().home / "postgres"
        return shared_server(settings().postgres_url, folder).ensure_database(dump, digest)


def _given(execution: Execution) -> asyncio.Future[Execution]:
    """What is there at once, in the form of what must be waited for."""
    answer: asyncio.Future[Execution] = asyncio.get_running_loop().create_future()
    answer.set_result(execution)
    return answer


_read_json = json.JSONDecoder().decode


def _execution(entry: Entry, data: bytes) -> Execution:
    payload = _read_json(entry.payload.decode("ascii"))
    kind = None if entry.outcome == "ok" else VerdictKind(entry.outcome)
    return Execution(
        entry.key, kind, data, payload["digest"], payload["rows"], payload["error"], float(entry.meta["seconds"])
    )


def _checked(handle: DatabaseHandle) -> tuple[str, Identity]:
    """Path and identity of a SQLite file whose bytes are those of the handle's digest.

    Raises DatabaseMissing, or DatabaseDamaged when they are not.
    """
    path = Path(handle.location)
    check_file(path)
    before = identity(path)
    if (found := sha256_file(path)) != handle.digest or identity(path) != before:
        raise DatabaseDamaged(
            f"db_damaged: {path} has sha256 {found}, expected {handle.digest}; restore it, or build the release anew."
        )
    return handle.location, before
