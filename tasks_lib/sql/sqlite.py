"""One read-only statement at a time on SQLite files.

Belongs here: opening a file so that nothing can be written or created, the authorizer, engine limits, fetching. Does not
belong here: the guard, processes and killing (`workers`). Worker processes start with it, so it imports next to nothing.
"""

from __future__ import annotations

import os
import sqlite3
from collections import OrderedDict

from tasks_lib.sql.faults import DatabaseDamaged, DatabaseMissing
from tasks_lib.sql.fetching import Deadline, Outcome, collect_together, failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tasks_lib.protocol.records import BindingValue
    from tasks_lib.sql.limits import Limits

MAGIC = b"SQLite format 3\x00"

_ALLOWED = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE},
)
_REFUSED_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "writefile", "readfile", "edit", "eval"})
# Also what says that somebody else writes the file, or left it half written: no fault of the statement.
_DAMAGE = frozenset(
    {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PROTOCOL,
    }
)


def check_file(path: str | os.PathLike[str]) -> None:
    """Check, without opening it as a database, that `path` is a whole SQLite file.

    Raises:
        DatabaseMissing: there is no such file. DatabaseDamaged: it is no SQLite file, or shorter than its header says.
    """
    try:
        with open(path, "rb") as stream:
            header = stream.read(100)
        size = os.stat(path).st_size
    except (FileNotFoundError, NotADirectoryError):
        raise DatabaseMissing(f"db_missing: no SQLite file at {path}; put the database there and resume.") from None
    except OSError as error:
        raise DatabaseDamaged(f"db_damaged: {path} cannot be read ({error}); restore it and resume.") from error
    if len(header) < 100 or not header.startswith(MAGIC):
        raise DatabaseDamaged(f"db_damaged: {path} has {size} bytes and no SQLite header; restore it and resume.")
    page = int.from_bytes(header[16:18], "big")
    page = 65536 if page == 1 else page
    _check_journals(path)
    # The page count is valid only when both change counters agree (file format, 1.3.7).
    wanted = page * int.from_bytes(header[28:32], "big") if header[24:28] == header[92:96] else page
    if size < wanted:
        raise DatabaseDamaged(f"db_damaged: {path} has {size} bytes, its header says {wanted}; restore it and resume.")


def _check_journals(path: str | os.PathLike[str]) -> None:
    """Journals hold what is not in the file yet, or what must be undone in it: then the file alone is not the database."""
    for suffix in ("-wal", "-journal"):
        try:
            with open(f"{path}{suffix}", "rb") as stream:
                begun = stream.read(1)
        except OSError:
            continue
        if begun not in (b"", b"\0"):  # SQLite blanks the first bytes of a journal it keeps and no longer needs
            raise DatabaseDamaged(
                f"db_damaged: {path} was not closed, {os.path.basename(path)}{suffix} beside it holds changes; open it once with the "
                "sqlite3 program, close it, and resume."
            )


def uri(path: str | os.PathLike[str]) -> str:
    """Return the URI that opens `path` read-only and takes the file for one that nobody changes.

    So nothing is locked, no journal is looked for, and none is made: a database in WAL mode opens from a folder that is
    not writable. Whoever opens it sees to it that the file does stay the same (`identity`).
    """
    quoted = "".join([chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in os.fsencode(path)])
    return f"file:{quoted}?mode=ro&immutable=1"


_PLAIN = b"/-._~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""What stands for itself in a URI, as in `urllib.parse.quote`, which imports too much for a worker."""

Identity = tuple[int, int, int, int]
"""What tells a file from another in its place, and from itself after a change: device, inode, bytes, nanoseconds of its
last change."""


def identity(path: str | os.PathLike[str]) -> Identity:
    """The identity of the file at `path`. Raises DatabaseMissing."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise DatabaseMissing(f"db_missing: no SQLite file at {path}; put the database there and resume.") from None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _authorize(action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
    del first, database, trigger
    if action not in _ALLOWED:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _REFUSED_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _escaped(stored: bytes) -> str:
    """Text that may be no UTF-8. Several times slower than the driver's own reading, which fails there."""
    return stored.decode("utf-8", "surrogateescape")


def connect(path: str | os.PathLike[str], limits: Limits) -> sqlite3.Connection:
    """Open `path` so that only reading is possible, within `limits`. Raises DatabaseMissing or DatabaseDamaged."""
    check_file(path)
    connection = sqlite3.connect(uri(path), uri=True, isolation_level=None, cached_statements=0)
    ((_, _, opened),) = connection.execute("PRAGMA database_list").fetchall()
    if identity(opened) != identity(path):
        connection.close()
        raise DatabaseDamaged(
            f"db_damaged: SQLite opened {opened} for {path}; give the database a plain path and resume."
        )
    # Sorting stays in the worker's memory, where the memory limit holds it, and never fills the disk.
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(f"PRAGMA hard_heap_limit = {limits.memory_bytes}")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(limits.max_bytes, 1_000_000_000))
    connection.setlimit(sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0)
    connection.set_authorizer(_authorize)
    return connection


class Connections:
    """Connections that a worker keeps between statements, to the files it read last.

    A statement leaves nothing behind on a connection: it can set nothing, attach nothing and make nothing. A connection
    whose file has changed or is damaged is closed, and all are when memory runs out.
    """

    def __init__(self, limits: Limits, kept: int = 8) -> None:
        self._limits = limits
        self._most = kept
        self._kept: OrderedDict[str, tuple[sqlite3.Connection, Identity]] = OrderedDict()

    def close(self) -> None:
        """Close all."""
        for path in list(self._kept):
            self._drop(path)

    def _drop(self, path: str) -> None:
        connection, _ = self._kept.pop(path)
        connection.close()

    def _to(self, path: str, expected: Identity | None) -> tuple[sqlite3.Connection, Identity]:
        kept = self._kept.get(path)
        if kept is not None and kept[1] == expected:
            self._kept.move_to_end(path)
            return kept  # whether the file is still that one is seen after the statement
        now = identity(path)
        if kept is not None and kept[1] != now:
            self._drop(path)
        if path not in self._kept:
            if len(self._kept) >= self._most:
                self._drop(next(iter(self._kept)))
            self._kept[path] = connect(path, self._limits), now
        self._kept.move_to_end(path)
        return self._kept[path]

    def run(
        self, path: str, sql: str, bindings: Mapping[str, BindingValue] | None = None, expected: Identity | None = None
    ) -> Outcome:
        """Run `sql` as written on the file and fetch its result.

        Args:
            expected: identity of the file that is meant; None takes the file that is there.

        Raises:
            DatabaseMissing, DatabaseDamaged: the file is not there, is another one, changed meanwhile, or SQLite finds it
            broken while reading.
        """
        deadline = Deadline(self._limits.wall_seconds)
        try:
            connection, opened = self._to(path, expected)
        except sqlite3.Error as error:
            raise DatabaseDamaged(f"db_damaged: {path} does not open ({error}); restore it and resume.") from error
        if expected is not None and opened != expected:
            raise _changed(path)
        try:
            outcome = _fetched(connection, sql, bindings or {}, self._limits, deadline, path)
        except MemoryError:
            self.close()
            outcome = failed(
                "execution_error", f"The statement needed more than {self._limits.memory_bytes} bytes of memory."
            )
        except DatabaseDamaged:
            self._drop(path)
            raise
        if identity(path) != opened:
            raise _changed(path)
        return outcome


def _changed(path: str) -> DatabaseDamaged:
    return DatabaseDamaged(f"db_damaged: {path} is not the file that was checked any more; restore it and resume.")


def _fetched(
    connection: sqlite3.Connection,
    sql: str,
    bindings: Mapping[str, BindingValue],
    limits: Limits,
    deadline: Deadline,
    path: str,
) -> Outcome:
    try:
        connection.set_progress_handler(deadline.passed, 2000)
        cursor = connection.execute(sql, bindings)
        try:
            columns = [column[0] for column in cursor.description or ()]
            return collect_together(columns, cursor, limits, deadline)
        finally:
            cursor.close()
    except sqlite3.Error as error:
        # Errors of the Python module itself, such as a missing binding, carry no code.
        code = getattr(error, "sqlite_errorcode", None)
        if code is None and connection.text_factory is str and str(error).startswith("Could not decode to UTF-8"):
            connection.text_factory = _escaped  # for good: one such text seldom comes alone
            return _fetched(connection, sql, bindings, limits, deadline, path)
        if code == sqlite3.SQLITE_INTERRUPT:
            return deadline.outcome()
        if code == sqlite3.SQLITE_IOERR_NOMEM:
            raise MemoryError from error
        if code is not None and code & 0xFF in _DAMAGE:
            raise DatabaseDamaged(f"db_damaged: reading {path} fails ({error}); restore it and resume.") from error
        return failed("result_too_large" if code == sqlite3.SQLITE_TOOBIG else "execution_error", str(error))
    except (OverflowError, UnicodeEncodeError, ValueError) as error:
        return failed("execution_error", f"A value of the statement cannot be given to SQLite: {error}")
