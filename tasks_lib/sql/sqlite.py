"""One read-only statement on one SQLite file.

Belongs here: opening a file so that nothing can be written or created, the authorizer, engine limits, fetching. Does not
belong here: the guard, processes and killing (`workers`). Standard library only: worker processes load it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from tasks_lib.sql.canonical import Value
from tasks_lib.sql.faults import DatabaseDamaged, DatabaseMissing
from tasks_lib.sql.fetching import Deadline, Outcome, collect, failed
from tasks_lib.sql.limits import Limits

MAGIC = b"SQLite format 3\x00"

_ALLOWED = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE},
)
_REFUSED_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "writefile", "readfile", "edit", "eval"})
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN})


def check_file(path: Path) -> None:
    """Check, without opening it as a database, that `path` is a whole SQLite file.

    Raises:
        DatabaseMissing: there is no such file. DatabaseDamaged: it is no SQLite file, or shorter than its header says.
    """
    try:
        with path.open("rb") as stream:
            header = stream.read(100)
        size = path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        raise DatabaseMissing(f"db_missing: no SQLite file at {path}; put the database there and resume.") from None
    except OSError as error:
        raise DatabaseDamaged(f"db_damaged: {path} cannot be read ({error}); restore it and resume.") from error
    if len(header) < 100 or not header.startswith(MAGIC):
        raise DatabaseDamaged(f"db_damaged: {path} has {size} bytes and no SQLite header; restore it and resume.")
    page = int.from_bytes(header[16:18], "big")
    page = 65536 if page == 1 else page
    # The page count is valid only when both change counters agree (file format, 1.3.7).
    wanted = page * int.from_bytes(header[28:32], "big") if header[24:28] == header[92:96] else page
    if size < wanted:
        raise DatabaseDamaged(f"db_damaged: {path} has {size} bytes, its header says {wanted}; restore it and resume.")


def uri(path: Path) -> str:
    """Return the URI that opens `path` read-only.

    A database in WAL mode cannot be opened read-only from a folder that is not writable. Where no journal stands beside
    the file nobody is writing it, and then it is opened as immutable.
    """
    with path.open("rb") as stream:
        wal_mode = stream.read(20)[18:20] == b"\x02\x02"
    journals = any(Path(f"{path}{suffix}").exists() for suffix in ("-wal", "-journal"))
    return f"file:{quote(str(path))}?mode=ro" + ("&immutable=1" if wal_mode and not journals else "")


def _authorize(action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
    del first, database, trigger
    if action not in _ALLOWED:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _REFUSED_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def connect(path: Path, limits: Limits) -> sqlite3.Connection:
    """Open `path` so that only reading is possible, within `limits`. Raises DatabaseMissing or DatabaseDamaged."""
    check_file(path)
    connection = sqlite3.connect(uri(path), uri=True, isolation_level=None, cached_statements=0)
    connection.text_factory = _text
    # Sorting stays in the worker's memory, where the memory limit holds it, and never fills the disk.
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(f"PRAGMA hard_heap_limit = {limits.memory_bytes}")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(limits.max_bytes, 1_000_000_000))
    connection.setlimit(sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0)
    connection.set_authorizer(_authorize)
    return connection


def run(path: Path, sql: str, bindings: Mapping[str, Value] | None, limits: Limits) -> Outcome:
    """Run `sql` as written on the file and fetch its result.

    Raises:
        DatabaseMissing, DatabaseDamaged: the file is not there, or SQLite finds it broken while reading.
    """
    deadline = Deadline(limits.wall_seconds)
    try:
        connection = connect(path, limits)
    except sqlite3.Error as error:
        raise DatabaseDamaged(f"db_damaged: {path} does not open ({error}); restore it and resume.") from error
    try:
        connection.set_progress_handler(deadline.passed, 2000)
        cursor = connection.execute(sql, dict(bindings or {}))
        columns = tuple(name for name, *_ in cursor.description or ())
        return collect(columns, cursor, limits, deadline)
    except sqlite3.Error as error:
        # Errors of the Python module itself, such as a missing binding, carry no code.
        code = getattr(error, "sqlite_errorcode", None)
        if code == sqlite3.SQLITE_INTERRUPT:
            return deadline.outcome()
        if code == sqlite3.SQLITE_IOERR_NOMEM:
            return _out_of_memory(limits)
        if code is not None and code & 0xFF in _DAMAGE:
            raise DatabaseDamaged(f"db_damaged: reading {path} fails ({error}); restore it and resume.") from error
        return failed("result_too_large" if code == sqlite3.SQLITE_TOOBIG else "execution_error", str(error))
    except MemoryError:
        return _out_of_memory(limits)
    except (OverflowError, UnicodeEncodeError, ValueError) as error:
        return failed("execution_error", f"A value of the statement cannot be given to SQLite: {error}")
    finally:
        connection.close()


def _out_of_memory(limits: Limits) -> Outcome:
    return failed("execution_error", f"The statement needed more than {limits.memory_bytes} bytes of memory.")
