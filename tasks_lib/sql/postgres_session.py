"""One read-only statement on one PostgreSQL database.

Belongs here: connecting as the reader, streaming, and turning what the server sends into canonical values. Does not
belong here: the server and its databases (`postgres`), the guard, processes. Imports psycopg only: worker processes
load it, and only when they first need it.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import closing
from itertools import chain
from typing import Any, cast

import psycopg
from psycopg import errors, postgres
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader, PyFormat
from psycopg.types.numeric import IntDumper
from psycopg.types.string import StrDumper

from tasks_lib.protocol.records import BindingValue
from tasks_lib.sql.canonical import Interval, Json, Opaque, Value, row_bytes
from tasks_lib.sql.faults import ServerUnavailable
from tasks_lib.sql.fetching import Deadline, Outcome, collect, failed
from tasks_lib.sql.limits import Limits


def _text(data: Buffer) -> str:
    return bytes(data).decode("utf-8")


class _JsonLoader(Loader):
    def load(self, data: Buffer) -> Json:
        return Json(_text(data))


_INTERVAL = re.compile(
    r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?)(\d+)(?:\.(\d+))?S)?)?$"
)


class _IntervalLoader(Loader):
    """Reads IntervalStyle iso_8601; psycopg's own loader turns months into 30 days."""

    def load(self, data: Buffer) -> Interval | Opaque:
        text = _text(data)
        match = _INTERVAL.match(text)
        if match is None:  # infinity
            return Opaque("interval", text)
        years, months, days, hours, minutes = (int(part or 0) for part in match.groups()[:5])
        sign, seconds, fraction = match.groups()[5:]
        micros = int(seconds or 0) * 1_000_000 + int((fraction or "").ljust(6, "0"))
        clock = (hours * 60 + minutes) * 60_000_000 + (-micros if sign else micros)
        return Interval(years * 12 + months, days, clock)


def _dated(name: str) -> type[Loader]:
    """A loader of a date or time type that keeps, as text, what Python's own type cannot hold (`infinity`, BC)."""
    found = psycopg.adapters.get_loader(postgres.types[name].oid, psycopg.pq.Format.TEXT)
    assert found is not None
    inner: type[Loader] = found  # type: ignore[assignment]  # a protocol of the same methods

    class Dated(Loader):
        def __init__(self, oid: int, context: psycopg.abc.AdaptContext | None = None) -> None:
            super().__init__(oid, context)
            self._inner = inner(oid, context)

        def load(self, data: Buffer) -> Value:
            try:
                value: Value = self._inner.load(data)
            except psycopg.DataError:
                return Opaque(name, _text(data))
            return value

    return Dated


class _TextLoader(Loader):
    def load(self, data: Buffer) -> str:
        return _text(data)


# Loaded as the Python types of the canonical list; everything not named here (enums, ranges, addresses) is text, as the
# server prints it.
_KEPT = ("bool", "int2", "int4", "int8", "oid", "float4", "float8", "numeric", "bytea", "uuid", "text", "varchar")


class _LiteralInt(IntDumper):
    """Sends a whole number as an integer literal would be read: int4, or int8 when it is larger (never int2)."""

    def upgrade(self, obj: int, format: PyFormat) -> Dumper:
        found = super().upgrade(obj, format)
        return self._int4_dumper if found is self._int2_dumper else found


def _adapt(connection: psycopg.Connection) -> None:
    adapters = connection.adapters
    adapters.register_dumper(int, _LiteralInt)
    for info in postgres.types:
        if info.name not in _KEPT:
            adapters.register_loader(info.oid, _TextLoader)
    for name in ("date", "time", "timetz", "timestamp", "timestamptz"):
        adapters.register_loader(name, _dated(name))
    for name in ("json", "jsonb"):
        adapters.register_loader(name, _JsonLoader)
    adapters.register_loader("interval", _IntervalLoader)
    # psycopg's array loaders find these by the type of the element.


def _frozen(value: object) -> Value:
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return value  # type: ignore[return-value]  # the loaders above give canonical values only


def connect(dsn: str, limits: Limits) -> psycopg.Connection:
    """Connect read-only within `limits`. Raises ServerUnavailable when the server does not answer."""
    settings = {
        "default_transaction_read_only": "on",
        "statement_timeout": str(max(1, int(limits.wall_seconds * 1000))),
        "timezone": "UTC",
        "datestyle": "ISO",
        "intervalstyle": "iso_8601",
        "max_parallel_workers_per_gather": "0",
        "client_connection_check_interval": "500",
        "extra_float_digits": "1",
        "standard_conforming_strings": "on",  # the check reads strings so
        "search_path": "public",
        "jit": "off",
        # Where many read a large table at a time, the server would let them begin in the middle of it.
        "synchronize_seqscans": "off",
        # The server's own defaults, whatever server it is: they decide the plan, and the plan the order of equal rows.
        "work_mem": "4MB",
        "hash_mem_multiplier": "2",
    }
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    try:
        connection = psycopg.connect(dsn, options=options, autocommit=True, client_encoding="UTF8", connect_timeout=30)
    except psycopg.OperationalError as error:
        raise ServerUnavailable(
            f"The PostgreSQL database cannot be reached ({str(error).strip()}); start the server and resume."
        ) from error
    _adapt(connection)
    return connection


def _described(connection: psycopg.Connection, query: bytes, values: Sequence[BindingValue]) -> tuple[str, ...]:
    """Ask the server for the column names of a statement, without running it."""
    types = [_type_of(connection, value) for value in values]
    for answer in (
        connection.pgconn.prepare(b"described", query, types),
        connection.pgconn.describe_prepared(b"described"),
    ):
        if answer.status != psycopg.pq.ExecStatus.COMMAND_OK:
            raise psycopg.ProgrammingError(answer.get_error_message("utf-8"))
    names = (answer.fname(index) for index in range(answer.nfields))
    return tuple((name or b"").decode() for name in names)


def _type_of(connection: psycopg.Connection, value: BindingValue) -> int:
    """The type under which psycopg sends a value (0: left to the server)."""
    match value:
        case str():
            return connection.adapters.get_dumper(str, PyFormat.AUTO).oid
        case bool():
            name = "bool"
        case int():
            name = "int4" if -(2**31) <= value < 2**31 else "int8"
        case float():
            name = "float8"
        case bytes():
            name = "bytea"
        case _:
            return 0
    return postgres.types[name].oid


def run(dsn: str, sql: str, values: Sequence[BindingValue], limits: Limits) -> Outcome:
    """Run `sql` as written and fetch its result row by row.

    Args:
        values: what `$1`, `$2` ... in `sql` stand for (`placeholders.driver_text`). A text value has no type of its own,
            like a quoted literal, so that it also fits dates and enums.

    Statements travel by the extended protocol, in which the server itself refuses a second statement.

    Raises:
        ServerUnavailable: the server does not answer, or ends while the statement runs.
    """
    deadline = Deadline(limits.wall_seconds)
    connection = connect(dsn, limits)
    try:
        connection.read_only = True
        try:
            return _streamed(connection, sql.encode(), values, limits, deadline)
        except errors.IndeterminateDatatype:
            # Where nothing else tells the type of a quoted literal (`concat(:a, '%')`), the server reads it as text.
            connection.adapters.register_dumper(str, StrDumper)
            return _streamed(connection, sql.encode(), values, limits, deadline)
    except errors.QueryCanceled:
        return deadline.outcome()
    except psycopg.Error as error:
        if connection.broken or isinstance(
            error, errors.AdminShutdown | errors.CrashShutdown | errors.CannotConnectNow
        ):
            raise ServerUnavailable(
                f"The PostgreSQL server ended while a statement ran ({str(error).strip()}); start it and resume."
            ) from error
        return failed("execution_error", str(error).strip())
    except (MemoryError, UnicodeEncodeError) as error:
        return failed("execution_error", f"{type(error).__name__}: {error}")
    finally:
        connection.close()


def _streamed(
    connection: psycopg.Connection, query: bytes, values: Sequence[BindingValue], limits: Limits, deadline: Deadline
) -> Outcome:
    cursor = psycopg.RawCursor(connection)
    # A generator by psycopg's own code, an iterator by its annotation; closing it cancels the statement.
    rows = cast("Generator[tuple[Any, ...]]", cursor.stream(query, values or None))
    with closing(rows):
        first = next(rows, None)
        if first is None:  # a stream without rows does not tell its columns
            return collect(_described(connection, query, values), (), limits, deadline, row_bytes)
        columns = tuple(column.name for column in cursor.description or ())
        frozen = (tuple(_frozen(value) for value in row) for row in chain((first,), rows))
        return collect(columns, frozen, limits, deadline, row_bytes)
