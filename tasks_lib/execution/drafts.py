"""The two records that data agents take and hand back. No logic belongs here."""

from __future__ import annotations

from dataclasses import dataclass

from tasks_lib.protocol.vocabulary import VerdictKind


@dataclass(frozen=True, slots=True)
class Example:
    """A few-shot example: a question of another database and its SQL. Which ones may be shown is the caller's decision.

    `unit_id` breaks ties between equally similar examples and is never shown.
    """

    question: str
    sql: str
    database_id: str
    unit_id: str


@dataclass(frozen=True, slots=True)
class SqlDraft:
    """What a data agent wrote for one local request.

    `sql`: the text to run, exactly as written, or None with the `kind` the contribution ends in and a `reason` in words.
    `calls`: ledger keys of its model calls in order. `executions`: ledger keys of the trial runs it made on the way.
    """

    sql: str | None
    kind: VerdictKind | None
    reason: str
    calls: tuple[str, ...] = ()
    executions: tuple[str, ...] = ()
