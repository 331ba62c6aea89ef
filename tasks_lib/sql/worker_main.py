"""What runs inside a worker process: read requests, run them one by one, write a reply to each, until the pipe closes.

Belongs here: the loop, the process's own limits, the wire form. Does not belong here: the guard, the ledger, anything
that makes starting slow. It is its own program (`python -m tasks_lib.sql.worker_main <limits as JSON>`), not a
`multiprocessing` target, so that it never imports the caller's main module and works from any thread or process.

Wire form, both ways: 8 bytes of length, then that many bytes. What comes in is a JSON list of requests; each gets a reply
of its own, in order: a JSON line and then the canonical bytes of the result. Each statement has all limits to itself;
replies to quick ones go out together. The first reply, which is empty, says that the worker is ready.
"""

from __future__ import annotations

import json
import math
import os
import resource
import sys
import time
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from tasks_lib.sql.canonical import decoded
from tasks_lib.sql.faults import DatabaseFault
from tasks_lib.sql.fetching import Outcome, failed
from tasks_lib.sql.limits import MEBIBYTE, Limits
from tasks_lib.sql.sqlite import Connections

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


_path = lru_cache(64)(Path)  # a path that was hashed before is found faster


def _run(request: dict[str, Any], limits: Limits, files: Connections) -> Outcome:
    if request["engine"] == "sqlite":
        bindings = {name: decoded(value) for name, value in request["values"]}
        expected = tuple(request["identity"]) if request["identity"] else None
        return files.run(_path(request["location"]), request["sql"], bindings, expected)
    from tasks_lib.sql import postgres_session

    values = [decoded(value) for _, value in request["values"]]
    return postgres_session.run(request["location"], request["sql"], values, limits)  # type: ignore[arg-type]


def _limit_process(limits: Limits) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # not a byte goes into any file; pipes and sockets stay open
    if not os.path.exists("/proc/self/statm"):
        return  # macOS has no limit on address space; SQLite's own heap limit holds there too
    with open("/proc/self/statm") as stream:
        mapped = int(stream.read().split()[0]) * resource.getpagesize()
    # On top of what the statement may take: the result twice (rows and bytes), and libraries loaded later.
    allowed = mapped + limits.memory_bytes + 2 * limits.max_bytes + 256 * MEBIBYTE
    resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))


def _limit_processor(limits: Limits) -> None:
    """Give the next statement its processor time; the kernel ends the process when it is used up."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = math.ceil(used.ru_utime + used.ru_stime + limits.cpu_seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def main() -> None:
    """Serve requests from standard input until it closes."""
    limits = Limits(**json.loads(sys.argv[1]))
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not get between the replies
    _limit_process(limits)
    files = Connections(limits)
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
        for request in json.loads(body):
            begun = time.monotonic()
            if begun - flushed > HELD_SECONDS:
                replies.flush()
                flushed = begun
            replies.write(_reply(request, limits, files))
        replies.flush()


def _reply(request: dict[str, Any], limits: Limits, files: Connections) -> bytes:
    begun = time.monotonic()
    _limit_processor(limits)
    fault = ""
    try:
        outcome = _run(request, limits, files)
    except DatabaseFault as error:
        fault, outcome = error.kind.value, failed("", str(error))
    except MemoryError:
        outcome = failed("execution_error", f"The statement needed more than {limits.memory_bytes} bytes of memory.")
    head = [outcome.kind, outcome.error, outcome.rows, fault, round(time.monotonic() - begun, 6)]
    return frame(json.dumps(head).encode("ascii") + b"\n" + outcome.data)


if __name__ == "__main__":
    main()
