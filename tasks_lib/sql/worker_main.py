"""What runs inside a worker process: read requests, run them one by one, write a reply to each, until the pipe closes.

Belongs here: the loop, the process's own limits, the wire form. Does not belong here: the guard, the ledger, anything
that makes starting slow: a start costs as much as a dozen statements, and most of it would be imports. It is its own
program (START), not a `multiprocessing` target, so that it never imports the caller's main module
and works from any thread or process.

Wire form, both ways: 8 bytes of length, then that many bytes. What comes in is marshalled by the same Python: first the
fields of `Limits`, answered by an empty reply when the worker is ready; then lists of requests, each of which gets a reply of
its own, in order: a JSON line and the canonical bytes of the result. Unmarshalling trusts who wrote, so nothing goes back
that way. Each statement has all limits to itself; replies to quick ones go out together.
"""

from __future__ import annotations

import marshal
import os
import resource
import sys
import time
from types import SimpleNamespace

from tasks_lib.sql.faults import DatabaseFault
from tasks_lib.sql.fetching import Outcome, failed
from tasks_lib.sql.lines import json_line
from tasks_lib.sql.sqlite import Connections

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

    from tasks_lib.protocol.records import BindingValue
    from tasks_lib.sql.limits import Limits
    from tasks_lib.sql.sqlite import Identity

    Wire = tuple[str, str, str, list[tuple[str, BindingValue]], Identity | None]

START = "from tasks_lib.sql.worker_main import main; main()"
"""What `python -c` is given: `-m` would load the machinery of running modules first."""
LOAD_DRIVER = b""
"""The request that has PostgreSQL's driver loaded, answered by an empty reply; SQLite needs none, and nothing installed."""
HELD_SECONDS = 0.01
"""A reply waits at most so long, and what the next statement takes, for others to go out with."""


def read_frame(stream: BinaryIO) -> bytes | None:
    """Return the next frame, or None when the other end has closed."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    return stream.read(int.from_bytes(head, "big"))


def frame(body: bytes) -> bytes:
    """Return `body` as it goes over the pipe."""
    return len(body).to_bytes(8, "big") + body


def _run(request: Wire, limits: Limits, files: Connections) -> Outcome:
    engine, location, sql, values, expected = request
    if engine == "sqlite":
        return files.run(location, sql, dict(values), expected)
    from tasks_lib.sql import postgres_session

    return postgres_session.run(location, sql, [value for _, value in values], limits)


def _limit_process(limits: Limits) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # not a byte goes into any file; pipes and sockets stay open
    if not os.path.exists("/proc/self/statm"):
        return  # macOS has no limit on address space; SQLite's own heap limit holds there too
    with open("/proc/self/statm") as stream:
        mapped = int(stream.read().split()[0]) * resource.getpagesize()
    # On top of what the statement may take: the result twice (rows and bytes), and libraries loaded later.
    allowed = mapped + limits.memory_bytes + 2 * limits.max_bytes + (256 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))


class _Processor:
    """Gives every statement its processor time; the kernel ends the process when it is used up.

    The kernel counts whole seconds: a limit holds for the statements of one second, so that each has what it should and
    none has two seconds more.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._set = -1.0

    def renew(self) -> None:
        """Call before a statement."""
        used = time.process_time()
        if 0 <= used - self._set < 1:
            return
        self._set = used
        soft = -int(-(used + self._seconds) // 1) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def main() -> None:
    """Serve requests from standard input until it closes."""
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not get between the replies
    limits: Limits = SimpleNamespace(**marshal.loads(read_frame(requests) or b""))  # type: ignore[assignment]
    _limit_process(limits)
    files, processor = Connections(limits), _Processor(limits.cpu_seconds)
    replies.write(frame(b""))
    replies.flush()
    while (body := read_frame(requests)) is not None:
        if body == LOAD_DRIVER:
            import site

            site.main()  # left out when the program started
            import tasks_lib.sql.postgres_session  # noqa: F401

            replies.write(frame(b""))
            replies.flush()
            continue
        flushed = time.monotonic()
        for request in marshal.loads(body):
            begun = time.monotonic()
            if begun - flushed > HELD_SECONDS:
                replies.flush()
                flushed = begun
            processor.renew()
            replies.write(_reply(request, begun, limits, files))
        replies.flush()


def _reply(request: Wire, begun: float, limits: Limits, files: Connections) -> bytes:
    fault = ""
    try:
        outcome = _run(request, limits, files)
    except DatabaseFault as error:
        fault, outcome = error.word, failed("", str(error))
    except MemoryError:
        outcome = failed("execution_error", f"The statement needed more than {limits.memory_bytes} bytes of memory.")
    head = [outcome.kind, outcome.error, outcome.rows, fault, round(time.monotonic() - begun, 6)]
    return frame(json_line(head) + outcome.data)
