"""PRIVATE. Source units: every question of a corpus with its gold SQL, run read-only and described (PROTOCOL 1, 4).

Belongs here: the audit that makes rows of the table `units`, its closed list of flags, and the typed form of a first
row. Does not belong here: choosing units for tasks (contracts do). A faulty gold is flagged, never repaired.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import sqlglot
from sqlglot import exp

from tasks_lib.corpora.cards import handle
from tasks_lib.corpora.model import CorpusDatabase, CorpusSource, Question
from tasks_lib.corpora.references import References, references
from tasks_lib.protocol.records import DatabaseHandle
from tasks_lib.protocol.vocabulary import Engine, VerdictKind
from tasks_lib.sql.canonical import Value, decoded, encoded
from tasks_lib.sql.execute import Execution
from tasks_lib.sql.guard import check_sql, is_ordered
from tasks_lib.sql.lexer import TokenKind, tokens, trimmed

FLAGS: dict[str, str] = {
    "gold_error": "the engine refuses the gold SQL, or it ended the worker",
    "gold_timeout": "the gold SQL ran out of time",
    "result_too_large": "the gold result is larger than a result may be",
    "refused": "the gold text is not one readable, read-only query",
    "empty_gold": "the gold result has no row",
    "all_null": "every value of the gold result is null",
    "trivial": "the gold reads no table, or its one row holds only zeros, empty texts and nulls",
    "clock": "the gold result depends on the time of day",
    "random": "the gold result depends on chance",
    "duplicate": "an earlier unit asks the same of the same database",
    "dqs_literal": "a double-quoted name is a string, for want of such a column (SQLite)",
    "dqs_shadowed": "a double-quoted name that is compared with a column is itself a column (SQLite)",
    "missing_table": "the gold names a table that the database does not have",
    "missing_column": "the gold names a column that the database does not have",
    "limit_without_order": "a LIMIT keeps some rows of a query that promises no order",
}
"""Closed list of what may be said about a unit."""

DISQUALIFYING = frozenset(FLAGS) - {"dqs_literal", "dqs_shadowed"}
"""Flags that keep a unit out of every task; the other two are warnings about how the gold is written."""

_KINDS = {
    VerdictKind.TIMEOUT: "gold_timeout",
    VerdictKind.RESULT_TOO_LARGE: "result_too_large",
    VerdictKind.EXECUTION_ERROR: "gold_error",
    VerdictKind.WORKER_DIED: "gold_error",
    VerdictKind.MISSING_SQL: "refused",
    VerdictKind.PARSE_ERROR: "refused",
    VerdictKind.REFUSED_SQL: "refused",
}
_CONCURRENCY = 8


class Runner(Protocol):
    """What is needed of `tasks_lib.sql.execute.SqlRunner`."""

    async def run(self, handle: DatabaseHandle, sql: str | None, /) -> Execution:
        """Run one statement, or return its stored execution."""
        ...


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What is kept of one gold execution: the result itself is in the ledger."""

    flags: tuple[str, ...]
    digest: str = ""
    rows: int = 0
    columns: int = 0
    first_row: str = ""


async def audit(
    source: CorpusSource, runner: Runner, progress: Callable[[int, int], None] | None = None
) -> list[dict[str, Any]]:
    """Run the gold SQL of every question and return the rows of `store.schemas.UNITS`, in the order of the source.

    Questions with the same SQL share one execution; what the runner's ledger holds is not run again, so that an audit of
    unchanged databases runs nothing.

    Args:
        progress: called with (executions done, executions wanted).

    Raises:
        tasks_lib.sql.faults.DatabaseFault: a database or server cannot be used; what ran so far stays in the ledger.
    """
    databases = {database.name: database for database in source.databases}
    handles = {name: handle(database, name) for name, database in databases.items()}
    wanted = dict.fromkeys((question.database, _text(databases, question)) for question in source.questions)
    outcomes: dict[tuple[str, str], _Outcome] = {}
    queue = iter(wanted)

    async def work() -> None:
        for name, sql in queue:
            outcomes[name, sql] = _outcome(await runner.run(handles[name], sql))
            if progress is not None:
                progress(len(outcomes), len(wanted))

    workers = [asyncio.create_task(work()) for _ in range(_CONCURRENCY)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    repeated = _repeated(source.questions)
    return [
        _row(question, databases[question.database], outcomes[question.database, _text(databases, question)], repeated)
        for question in source.questions
    ]


def _text(databases: dict[str, CorpusDatabase], question: Question) -> str:
    return trimmed(databases[question.database].engine, question.sql)


def _outcome(execution: Execution) -> _Outcome:
    result = execution.result
    if result is None:
        assert execution.kind is not None
        return _Outcome((_KINDS[execution.kind],))
    flags = []
    if not result.rows:
        flags.append("empty_gold")
    elif all(value is None for row in result.rows for value in row):
        flags.append("all_null")
    elif len(result.rows) == 1 and all(_nothing(value) for value in result.rows[0]):
        flags.append("trivial")
    first = encode_row(result.rows[0]) if len(result.rows) == 1 else ""
    return _Outcome(tuple(flags), execution.digest, len(result.rows), len(result.columns), first)


def _nothing(value: Value) -> bool:
    return value is None or value == 0 or (isinstance(value, str | bytes) and not value.strip())


def _row(question: Question, database: CorpusDatabase, outcome: _Outcome, repeated: set[str]) -> dict[str, Any]:
    found = set(outcome.flags)
    refers, ordered = References(), False
    if check_sql(database.engine, question.sql).allowed:
        ordered = is_ordered(database.engine, question.sql)
        found |= text_flags(database.engine, question.sql)
        try:
            refers = references(question.sql, database)
        except ValueError:
            found.add("refused")
        else:
            if not refers.tables and not refers.missing_tables:
                found.add("trivial")
    named = {
        "dqs_literal": refers.dqs_literals,
        "dqs_shadowed": refers.dqs_shadowed,
        "missing_table": refers.missing_tables,
        "missing_column": refers.missing_columns,
    }
    found |= {flag for flag, names in named.items() if names}
    if question.unit_id in repeated:
        found.add("duplicate")
    return {
        "unit_id": question.unit_id,
        "corpus": str(question.corpus),
        "database": question.database,
        "database_digest": database.digest,
        "question": question.question,
        "sql": question.sql,
        "evidence": question.evidence,
        "split": question.split,
        "tables": list(refers.tables),
        "columns": list(refers.columns),
        "literals": list(refers.literals),
        "ordered": ordered,
        "result_digest": outcome.digest,
        "row_count": outcome.rows,
        "column_count": outcome.columns,
        "first_row_json": outcome.first_row,
        "flags": [flag for flag in FLAGS if flag in found],
        "difficulty": question.difficulty,
    }


def _repeated(questions: Iterable[Question]) -> set[str]:
    """Ids of questions that ask a database, in the same words, what an earlier one of the source asks it."""
    seen: Counter[tuple[str, str]] = Counter()
    found = set()
    for question in questions:
        key = (question.database, " ".join(question.question.casefold().split()))
        if seen[key]:
            found.add(question.unit_id)
        seen[key] += 1
    return found


_CLOCK_WORDS = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})
_CLOCK_CALLS = frozenset(
    {"now", "clock_timestamp", "statement_timestamp", "transaction_timestamp", "timeofday", "getdate", "sysdate"}
)
_SQLITE_DATE_CALLS = frozenset({"date", "time", "datetime", "julianday", "strftime", "unixepoch"})
_RANDOM_CALLS = frozenset({"random", "randomblob", "gen_random_uuid", "uuid_generate_v4", "random_normal"})


def text_flags(engine: Engine, sql: str) -> set[str]:
    """Return which of `clock`, `random` and `limit_without_order` hold for a readable query."""
    spans = [t for t in tokens(engine, sql) if t.kind not in (TokenKind.SPACE, TokenKind.COMMENT)]
    parts = [(token.kind, sql[token.start : token.end].lower()) for token in spans]
    called = {
        text
        for (kind, text), (_, following) in itertools.pairwise(parts)
        if kind is TokenKind.WORD and following == "("
    }
    said = {text for kind, text in parts if kind is TokenKind.WORD}
    # SQLite's date functions and PostgreSQL's date casts take the text 'now'; SQLite's also take no argument at all.
    now = any(kind in (TokenKind.STRING, TokenKind.NAME) and text[1:-1].strip() == "now" for kind, text in parts)
    bare = engine is Engine.SQLITE and any(
        text in _SQLITE_DATE_CALLS and parts[at + 1 : at + 3] == [(TokenKind.OTHER, "("), (TokenKind.OTHER, ")")]
        for at, (_, text) in enumerate(parts)
    )
    flags = set()
    if said & _CLOCK_WORDS or called & _CLOCK_CALLS or now or bare:
        flags.add("clock")
    if called & _RANDOM_CALLS:
        flags.add("random")
    if any(
        _keeps_some(node) for node in sqlglot.parse_one(trimmed(engine, sql), read=engine.value).find_all(exp.Query)
    ):
        flags.add("limit_without_order")
    return flags


def _keeps_some(query: exp.Expr) -> bool:
    """Whether a LIMIT or OFFSET picks among rows in no promised order. One aggregate row, or EXISTS, loses nothing."""
    limited = query.args.get("limit") or query.args.get("offset")
    if not limited or query.args.get("order") or isinstance(query.parent, exp.Exists):
        return False
    if isinstance(query, exp.Select) and not query.args.get("group"):
        return not all(projection.find(exp.AggFunc) for projection in query.selects)
    return True


_PLAIN_TYPES = {type(None): "null", bool: "bool", int: "int", float: "float", str: "text"}


def encode_row(row: Sequence[Value]) -> str:
    """Return a row as a JSON list of [type, value] pairs: `[["text", "Badlands"], ["int", 3]]`.

    Types: null, bool, int, float, text, and the tags of `sql.canonical` (decimal, bytes, date, json, array ...).
    """
    pairs: list[list[object]] = []
    for value in row:
        body = encoded(value)
        if isinstance(body, dict):
            ((tag, inner),) = body.items()
            pairs.append([tag, inner])
        else:
            pairs.append([_PLAIN_TYPES[type(body)], body])
    return json.dumps(pairs, ensure_ascii=True, allow_nan=False)


def decode_row(text: str) -> tuple[Value, ...]:
    """Return the row that `encode_row` was given."""
    return tuple(
        value
        if tag in _PLAIN_TYPES.values() and not (tag == "float" and isinstance(value, str))
        else decoded({tag: value})
        for tag, value in json.loads(text)
    )
