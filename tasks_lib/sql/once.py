"""Comparing and checking a single pair of SQL texts, for the command line.

Belongs here: two plain functions without ledger or tasks. Does not belong here: anything a run uses; runs go through
`execute.SqlRunner` and store what they did.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tasks_lib.protocol.vocabulary import Corpus, Engine, VerdictKind
from tasks_lib.sql.canonical import CanonicalResult
from tasks_lib.sql.comparators import COMPARATOR_VERSION, compare, rule_name
from tasks_lib.sql.fetching import Outcome, failed
from tasks_lib.sql.guard import check_sql, is_ordered
from tasks_lib.sql.lexer import trimmed
from tasks_lib.sql.limits import DEFAULT_LIMITS, Limits
from tasks_lib.sql.workers import Request, WorkerPool


def engine_of(corpus: Corpus) -> Engine:
    """Return what runs the databases of a corpus."""
    return Engine.POSTGRES if corpus is Corpus.LIVESQLBENCH else Engine.SQLITE


def compare_once(
    corpus: Corpus, database: str, gold_sql: str, predicted_sql: str | None, limits: Limits = DEFAULT_LIMITS
) -> dict[str, Any]:
    """Run both texts on `database` and compare their results by the corpus's rule.

    Args:
        database: path of a SQLite file (spider, bird), or URL of a PostgreSQL database (livesqlbench); it is read with
            the rights of the URL's user, in a read-only session.

    Returns:
        verdict (`correct`, `mismatch`, or why the prediction has no result), rule, comparator_version, ordered, seconds
        (of both statements together), gold_rows, predicted_rows, error.

    Raises:
        ValueError: the gold text is refused or has no result. DatabaseFault: the database cannot be used.
    """
    engine = engine_of(corpus)
    started = time.monotonic()
    with WorkerPool(1, limits) as pool:
        gold = _run(pool, engine, database, gold_sql)
        if gold.kind:
            raise ValueError(f"The gold SQL has no result on {database} ({gold.kind}: {gold.error}); repair it first.")
        ordered = is_ordered(engine, gold_sql)
        predicted = _run(pool, engine, database, predicted_sql)
    verdict = predicted.kind
    if not verdict:
        results = CanonicalResult.from_bytes(gold.data), CanonicalResult.from_bytes(predicted.data)
        equal = compare(corpus, *results, ordered).equal
        verdict = (VerdictKind.CORRECT if equal else VerdictKind.MISMATCH).value
    return {
        "verdict": verdict,
        "rule": rule_name(corpus, ordered),
        "comparator_version": COMPARATOR_VERSION[corpus],
        "ordered": ordered,
        "seconds": round(time.monotonic() - started, 3),
        "gold_rows": gold.rows,
        "predicted_rows": predicted.rows,
        "error": predicted.error,
    }


def check_once(
    corpus: Corpus, sql: str | None, database: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> dict[str, Any]:
    """Check that `sql` may run and, with a `database` (as in `compare_once`), that it runs there within the limits.

    Returns:
        allowed, reason ("" when allowed), kind ("" or the verdict it would lead to), ordered (None when not allowed).

    Raises:
        DatabaseFault: the database cannot be used.
    """
    engine = engine_of(corpus)
    report = check_sql(engine, sql)
    if not report.allowed or sql is None:
        return {"allowed": False, "reason": report.reason, "kind": report.kind, "ordered": None}
    outcome = Outcome("")
    if database is not None:
        with WorkerPool(1, limits) as pool:
            outcome = _run(pool, engine, database, sql)
    allowed = not outcome.kind
    return {"allowed": allowed, "reason": outcome.error, "kind": outcome.kind, "ordered": is_ordered(engine, sql)}


def _run(pool: WorkerPool, engine: Engine, database: str, sql: str | None) -> Outcome:
    report = check_sql(engine, sql)
    if not report.allowed or sql is None:
        return failed(str(report.kind), report.reason)
    location = database if engine is Engine.POSTGRES else str(Path(database).resolve())
    return pool.run(Request(engine, location, trimmed(engine, sql)))
