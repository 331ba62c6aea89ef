"""PRIVATE. Source units: every question of a corpus with its gold SQL, run read-only and described (PROTOCOL 1, 4).

Belongs here: the audit that makes rows of the table `units`, what results show, and the typed form of a first row. Does
not belong here: the list of flags (`flags`), what a gold text tells (`telling`), the statements that try a gold out
(`probes`), choosing units for tasks (contracts do). A faulty gold is flagged, never repaired.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Protocol

from tasks_lib.corpora.cards import handle
from tasks_lib.corpora.flags import DISQUALIFYING, FLAGS, text_flags
from tasks_lib.corpora.model import CorpusDatabase, CorpusSource, Question
from tasks_lib.corpora.probes import backward_flags, half_cents, tie_flags, tie_probes
from tasks_lib.corpora.telling import Told, schema_only, tell, tell_all
from tasks_lib.protocol.records import DatabaseHandle
from tasks_lib.protocol.vocabulary import Corpus, VerdictKind
from tasks_lib.sql.canonical import Value, decoded, encoded
from tasks_lib.sql.execute import Execution
from tasks_lib.sql.lexer import trimmed

__all__ = ["DISQUALIFYING", "FLAGS", "Runner", "audit", "decode_row", "encode_row", "text_flags"]

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

    def run(self, handle: DatabaseHandle, sql: str | None, /) -> Awaitable[Execution]:
        """Run one statement, or return its stored execution."""
        ...


@dataclass(frozen=True, slots=True)
class _Gold:
    """What is told of one gold text on one database: of its words, and of its result, which stays in the ledger."""

    told: Told
    flags: frozenset[str]
    digest: str = ""
    rows: int = 0
    columns: int = 0
    first_row: str = ""


async def audit(
    source: CorpusSource,
    runner: Runner,
    progress: Callable[[int, int], None] | None = None,
    executor: Executor | None = None,
) -> list[dict[str, Any]]:
    """Run the gold SQL of every question and return the rows of `store.schemas.UNITS`, in the order of the source.

    Questions with the same SQL share one execution. Executions, those of probes too, are kept by the digest of their
    database: an audit runs nothing on unchanged databases, also when others of the corpus changed.

    Args:
        progress: called with (golds done, golds wanted).
        executor: where gold texts are read, one call a database; without one they are read here.

    Raises:
        tasks_lib.sql.faults.DatabaseFault: a database or server cannot be used; what ran so far stays in the ledger.
    """
    databases = {database.name: database for database in source.databases}
    keys = [(asked.database, trimmed(databases[asked.database].engine, asked.sql)) for asked in source.questions]
    wanted = dict.fromkeys(keys)
    telling = _Telling(databases, wanted, executor)
    golds: dict[tuple[str, str], _Gold] = {}
    queue = iter(wanted)

    async def work() -> None:
        for name, sql in queue:
            golds[name, sql] = await _gold(databases[name], sql, runner, telling)
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


class _Telling:
    """Reads the texts of golds, here or in an executor, each once."""

    def __init__(
        self,
        databases: dict[str, CorpusDatabase],
        wanted: Iterable[tuple[str, str]],
        executor: Executor | None,
    ) -> None:
        self._databases = databases
        self._calls: dict[str, tuple[dict[str, int], asyncio.Future[list[Told]]]] = {}
        if executor is not None:
            texts: dict[str, list[str]] = {}
            for name, sql in wanted:
                texts.setdefault(name, []).append(sql)
            loop = asyncio.get_running_loop()
            for name, golds in texts.items():
                call = loop.run_in_executor(executor, tell_all, schema_only(databases[name]), golds)
                self._calls[name] = ({sql: at for at, sql in enumerate(golds)}, call)

    async def of(self, name: str, sql: str) -> Told:
        if name not in self._calls:
            return tell(self._databases[name], sql)
        places, call = self._calls[name]
        return (await asyncio.shield(call))[places[sql]]


async def _gold(database: CorpusDatabase, sql: str, runner: Runner, telling: _Telling) -> _Gold:
    at = handle(database, database.name)
    execution = await runner.run(at, sql)
    told = await telling.of(database.name, sql)
    if execution.kind is not None:
        return _Gold(told, told.flags | {_KINDS[execution.kind]})
    lines = execution.data.split(b"\n")
    columns = len(json.loads(lines[0])["columns"])
    flags, first = set(told.flags), ""
    if not execution.rows:
        flags.add("empty_gold")
    elif not any(line.translate(None, b"[]nul,") for line in lines[1:]):
        flags.add("all_null")
    elif execution.rows == 1:
        row = _table(execution)[0]
        first = encode_row(row)
        if all(_nothing(value) for value in row):
            flags.add("trivial")
    if not flags & DISQUALIFYING:
        flags |= await _undecided(database, at, sql, runner, told, execution, columns)
    return _Gold(told, frozenset(flags), execution.digest, execution.rows, columns, first)


async def _undecided(
    database: CorpusDatabase,
    at: DatabaseHandle,
    sql: str,
    runner: Runner,
    told: Told,
    gold: Execution,
    columns: int,
) -> set[str]:
    """Flags of a gold whose answer is not decided, as its probes show (see `probes`)."""
    ties = [await runner.run(at, text) for text in tie_probes(database.corpus, sql, told.sites, gold.rows, columns)]
    found = tie_flags(database.corpus, told.sites, gold.data, [probe.data for probe in ties if probe.kind is None])
    if not found and told.backward:
        probe = await runner.run(at, told.backward)
        if probe.kind is None:
            found |= backward_flags(gold.data, probe.data)
    if database.corpus is Corpus.LIVESQLBENCH and half_cents(_table(gold)):
        found.add("rounding_unstable")
    return found


def _table(execution: Execution) -> tuple[tuple[Value, ...], ...]:
    assert execution.result is not None
    return execution.result.rows


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
        "tables": list(gold.told.refers.tables),
        "columns": list(gold.told.refers.columns),
        "literals": list(gold.told.refers.literals),
        "ordered": gold.told.ordered,
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
