"""What an engine module hands back from one statement, and the caps under which rows are collected.

Belongs here: the engine-independent half of fetching. Does not belong here: drivers. Standard library only, because
worker processes load it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from tasks_lib.sql.canonical import Value, header_bytes, row_bytes
from tasks_lib.sql.limits import Limits


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one statement ended: `kind` is "" for a result, else the word of a verdict; `error` is the raw message.

    `data`: canonical byte form of the result (empty unless kind is ""). `rows`: number of rows in it. `seconds`: what the
    worker took for it; no part of what makes two outcomes equal.
    """

    kind: str
    data: bytes = b""
    error: str = ""
    rows: int = 0
    seconds: float = field(default=0.0, compare=False)


def failed(kind: str, error: str) -> Outcome:
    """An outcome without a result."""
    return Outcome(kind, error=error)


class Deadline:
    """Wall clock of one statement, started when made."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def passed(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() >= self._end

    def outcome(self) -> Outcome:
        """The outcome of a statement that ran into this deadline."""
        return failed("timeout", f"The statement ran longer than {self.seconds:g} s.")


def collect(columns: tuple[str, ...], rows: Iterable[tuple[Value, ...]], limits: Limits, deadline: Deadline) -> Outcome:
    """Fetch `rows` one by one into the canonical byte form until a limit is met."""
    parts = [header_bytes(columns)]
    size, count = len(parts[0]), 0
    for row in rows:
        count += 1
        if count > limits.max_rows:
            return failed("result_too_large", f"The result has more than {limits.max_rows} rows.")
        line = row_bytes(row)
        size += len(line)
        if size > limits.max_bytes:
            return failed("result_too_large", f"The result takes more than {limits.max_bytes} bytes.")
        parts.append(line)
        if not count % 256 and deadline.passed():
            return deadline.outcome()
    return Outcome("", b"".join(parts), rows=count)
