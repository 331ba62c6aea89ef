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
class _Gold:
    """What is told of one gold text on one database: of its words, and of its result, which stays in the ledger."""

    refers: References
    ordered: bool
    flags: frozenset[str]
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
    keys = [(asked.database, trimmed(databases[asked.database].engine, asked.sql)) for asked in source.questions]
    wanted = dict.fromkeys(keys)
    golds: dict[tuple[str, str], _Gold] = {}
    queue = iter(wanted)

    async def work() -> None:
        for name, sql in queue:
            golds[name, sql] = _gold(databases[name], sql, await runner.run(handles[name], sql))
            if progress is not None:
                progress(len(golds), len(wanted))

    workers = [asyncio.create_task(work()) for _ in range(_CONCURRENCY)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    repeated = _repeated(source.questions)
    return [
        _row(question, databases[question.database].digest, golds[key], question.unit_id in repeated)
        for question, key in zip(source.questions, keys, strict=True)
    ]


def _gold(database: CorpusDatabase, sql: str, execution: Execution) -> _Gold:
    refers, ordered, flags = _text(database, sql)
    result = execution.result
    if result is None:
        assert execution.kind is not None
        return _Gold(refers, ordered, frozenset(flags | {_KINDS[execution.kind]}))
    if not result.rows:
        flags.add("empty_gold")
    elif all(value is None for row in result.rows for value in row):
        flags.add("all_null")
    elif len(result.rows) == 1 and all(_nothing(value) for value in result.rows[0]):
        flags.add("trivial")
    first = encode_row(result.rows[0]) if len(result.rows) == 1 else ""
    return _Gold(refers, ordered, frozenset(flags), execution.digest, len(result.rows), len(result.columns), first)


def _text(database: CorpusDatabase, sql: str) -> tuple[References, bool, set[str]]:
    """References, whether the gold is ordered, and the flags that its text alone earns it."""
    if not check_sql(database.engine, sql).allowed:
        return References(), False, set()  # the runner refuses it as well and says why
    flags = text_flags(database.engine, sql)
    ordered = is_ordered(database.engine, sql)
    try:
        refers = references(sql, database)
    except ValueError:
        return References(), ordered, flags | {"refused"}
    if not refers.tables and not refers.missing_tables:
        flags.add("trivial")
    named = {
        "dqs_literal": refers.dqs_literals,
        "dqs_shadowed": refers.dqs_shadowed,
        "missing_table": refers.missing_tables,
        "missing_column": refers.missing_columns,
    }
    return refers, ordered, flags | {flag for flag, names in named.items() if names}


def _nothing(value: Value) -> bool:
    return value is None or value == 0 or (isinstance(value, str | bytes) and not value.strip())


def _row(question: Question, database_digest: str, gold: _Gold, repeated: bool) -> dict[str, Any]:
    found = gold.flags | {"duplicate"} if repeated else gold.flags
    return {
        "unit_id": question.unit_id,
        "corpus": str(question.corpus),
        "database": question.database,
        "database_digest": database_digest,
        "question": question.question,
        "sql": question.sql,
        "evidence": question.evidence,
        "split": question.split,
        "tables": list(gold.refers.tables),
        "columns": list(gold.refers.columns),
        "literals": list(gold.refers.literals),
        "ordered": gold.ordered,
        "result_digest": gold.digest,
        "row_count": gold.rows,
        "column_count": gold.columns,
        "first_row_json": gold.first_row,
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
