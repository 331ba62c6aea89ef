"""PRIVATE. What a task's page takes from the ledger: replies of model calls, how executions ended, first rows of results.

One task at a time, so that memory does not grow with tasks. What the ledger does not hold is said so in words, never left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tasks_lib.models.transcripts import completion_of
from tasks_lib.sql.canonical import CanonicalResult, Interval, Json, Opaque, Value
from tasks_lib.sql.execute import LEDGER_KIND
from tasks_lib.store.ledgers import Ledger

ROWS, COLUMNS, VALUE, REPLY, ERROR = 8, 12, 60, 4000, 400
"""Rows, columns and characters that are shown of a result, a value, a reply and an error."""
READ_ROWS = 2000
"""A result with more rows is told by its count and digest alone."""
LOST = "not in the ledger"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model call brought. `text`: with its tool calls, or why there is none."""

    text: str
    outcome: str


@dataclass(frozen=True, slots=True)
class Table:
    """A result as it is shown: the first rows as text, and in words what is not shown (`note`, or "")."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str


@dataclass(frozen=True, slots=True)
class Ran:
    """How an execution ended. `digest`: of its result, "" without one; `table`: None where none can be shown."""

    outcome: str
    error: str
    row_count: int
    digest: str
    table: Table | None


def clipped(text: str, most: int) -> str:
    """The text, or its beginning and how much more there is."""
    return text if len(text) <= most else f"{text[:most]} … ({len(text) - most:,} more characters)"


def printable(text: str) -> str:
    """Text that a UTF-8 file can hold: a stray byte of a database stands as its escape."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def value_text(value: Value) -> str:
    """A result value as people read it; NULL is a word, text is not quoted."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, Json | Opaque):
        return value.text
    if isinstance(value, Interval):
        return f"{value.months} months {value.days} days {value.microseconds} µs"
    if isinstance(value, tuple):
        return "{" + ", ".join(map(value_text, value)) + "}"
    return str(value)


def table_of(data: bytes, count: int) -> Table:
    """The first rows of a stored result that has `count`. Reads no further than it shows."""
    lines = data.split(b"\n", ROWS + 1)[: ROWS + 1]
    result = CanonicalResult.from_bytes(b"\n".join(lines))
    more = []
    if count > len(result.rows):
        more.append(f"{count - len(result.rows):,} more rows")
    if len(result.columns) > COLUMNS:
        more.append(f"{len(result.columns) - COLUMNS:,} more columns")
    rows = tuple(tuple(printable(clipped(value_text(v), VALUE)) for v in row[:COLUMNS]) for row in result.rows)
    return Table(tuple(map(printable, result.columns[:COLUMNS])), rows, ", ".join(more))


class Texts:
    """The stored texts of one task. `results`: (digest, rows) of gold results that are wanted too."""

    def __init__(
        self, ledger: Ledger, calls: Iterable[str], executions: Iterable[str], results: Mapping[str, int]
    ) -> None:
        self._entries = ledger.get_many([*dict.fromkeys(calls), *dict.fromkeys(executions)])
        self._ended = {
            key: json.loads(entry.payload) for key, entry in self._entries.items() if entry.kind == LEDGER_KIND
        }
        wanted = dict(results) | {e["digest"]: e["rows"] for e in self._ended.values() if e["digest"]}
        small = {digest for digest, rows in wanted.items() if digest and rows <= READ_ROWS}
        self._tables = {d: table_of(data, wanted[d]) for d, data in _held(ledger, small).items()}

    def reply(self, call: str) -> Reply:
        """What a model call brought back."""
        entry = self._entries.get(call)
        if entry is None:
            return Reply(LOST, LOST)
        done = completion_of(entry)
        parts = [done.text] if done.text else []
        parts += [f"{call.name}({call.arguments})" for call in done.tool_calls]
        parts += [done.detail] if done.detail else []
        return Reply(printable(clipped("\n".join(parts), REPLY)), str(done.outcome))

    def ran(self, execution: str) -> Ran:
        """How an execution ended."""
        entry = self._entries.get(execution)
        if entry is None:
            return Ran(LOST, "", 0, "", None)
        ended = self._ended[execution]
        error = printable(clipped(ended["error"], ERROR))
        return Ran(entry.outcome, error, ended["rows"], ended["digest"], self._tables.get(ended["digest"]))

    def result(self, digest: str) -> Table | None:
        """The first rows of a result, None where it is too long or not there."""
        return self._tables.get(digest)


def _held(ledger: Ledger, digests: set[str]) -> dict[str, bytes]:
    """Results by digest, without those that the ledger does not hold."""
    wanted = set(digests)
    while True:
        try:
            return ledger.blobs_of(wanted)
        except KeyError as lost:
            wanted.discard(str(lost.args[0]))
