"""What an engine module hands back from one statement, and the caps under which rows are collected.

Belongs here: the engine-independent half of fetching. Does not belong here: drivers. Worker processes start with it, so
it imports next to nothing, and `Outcome` is a plain class: the `dataclasses` module costs as much as Python's own start.
"""

from __future__ import annotations

import time
from itertools import islice

from tasks_lib.sql.lines import header_line, row_line, row_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tasks_lib.sql.canonical import Value
    from tasks_lib.sql.limits import Limits

    Row = tuple[Value, ...]

_CLOCK_ROWS = 256
"""After so many rows the clock is read: fetching may go on for ever without the engine ever asking for the time."""


class Outcome:
    """How one statement ended: `kind` is "" for a result, else the word of a verdict; `error` is the raw message.

    `data`: canonical byte form of the result (empty unless kind is ""). `rows`: number of rows in it. `seconds`: what the
    worker took for it; no part of what makes two outcomes equal.
    """

    __slots__ = ("data", "error", "kind", "rows", "seconds")

    def __init__(self, kind: str, data: bytes = b"", error: str = "", rows: int = 0, seconds: float = 0.0) -> None:
        self.kind = kind
        self.data = data
        self.error = error
        self.rows = rows
        self.seconds = seconds

    def _compared(self) -> tuple[str, bytes, str, int]:
        return self.kind, self.data, self.error, self.rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outcome) and self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash(self._compared())

    def __repr__(self) -> str:
        return f"Outcome({self.kind!r}, {self.data!r}, {self.error!r}, {self.rows}, {self.seconds})"


def failed(kind: str, error: str, seconds: float = 0.0) -> Outcome:
    """An outcome without a result."""
    return Outcome(kind, error=error, seconds=seconds)


class Deadline:
    """Wall clock of one statement, started when made."""

    __slots__ = ("_end", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def passed(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() >= self._end

    def outcome(self) -> Outcome:
        """The outcome of a statement that ran into this deadline."""
        return failed("timeout", f"The statement ran longer than {self.seconds:g} s.")


class _Collected:
    """The lines of a result so far, within the limits."""

    def __init__(self, columns: Sequence[str], limits: Limits) -> None:
        self._limits = limits
        self._parts = [header_line(columns)]
        self._size = len(self._parts[0])
        self.count = 0

    def outcome(self) -> Outcome:
        return Outcome("", b"".join(self._parts), rows=self.count)

    def add(self, row: Row, line: Callable[[Row], bytes], least: int = 0) -> Outcome | None:
        """Add one row; the outcome if it is one too many. `least`: bytes that its line has for certain."""
        self.count += 1
        if self.count > self._limits.max_rows:
            return failed("result_too_large", f"The result has more than {self._limits.max_rows} rows.")
        if self._size + least <= self._limits.max_bytes:
            encoded = line(row)
            self._size += len(encoded)
            if self._size <= self._limits.max_bytes:
                self._parts.append(encoded)
                return None
        return failed("result_too_large", f"The result takes more than {self._limits.max_bytes} bytes.")

    def add_all(self, rows: Sequence[Row]) -> Outcome | None:
        """Add rows of SQLite; the outcome if one of them is one too many."""
        if self.count + len(rows) <= self._limits.max_rows:
            try:
                encoded = row_lines(rows)
            except MemoryError:
                encoded = b""  # in smaller pieces there may be enough
            if encoded and self._size + len(encoded) <= self._limits.max_bytes:
                self._parts.append(encoded)
                self._size += len(encoded)
                self.count += len(rows)
                return None
        for row in rows:
            # Nothing is encoded that is too long by its texts alone: what was fetched may have filled the memory.
            texts = sum([len(value) for value in row if isinstance(value, str | bytes)])
            if (over := self.add(row, row_line, texts)) is not None:
                return over
        return None


def collect(
    columns: Sequence[str], rows: Iterable[Row], limits: Limits, deadline: Deadline, line: Callable[[Row], bytes]
) -> Outcome:
    """Fetch `rows` one by one into the canonical byte form, each by `line`, until a limit is met."""
    collected = _Collected(columns, limits)
    for row in rows:
        if (over := collected.add(row, line)) is not None:
            return over
        if not collected.count % _CLOCK_ROWS and deadline.passed():
            return deadline.outcome()
    return collected.outcome()


def collect_together(columns: Sequence[str], rows: Iterator[Row], limits: Limits, deadline: Deadline) -> Outcome:
    """Fetch rows of SQLite into the canonical byte form until a limit is met, with the outcome that `collect` has."""
    collected = _Collected(columns, limits)
    while True:
        held: list[Row] = []
        try:
            held.extend(islice(rows, _CLOCK_ROWS))
        except Exception:
            # What was fetched before it failed comes first: it may be too much by itself, or have filled the memory.
            if (over := collected.add_all(held)) is not None:
                return over
            raise
        if held and (over := collected.add_all(held)) is not None:
            return over
        if len(held) < _CLOCK_ROWS:
            return collected.outcome()
        if deadline.passed():
            return deadline.outcome()
