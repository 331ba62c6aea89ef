"""What may run: exactly one read-only statement, text untouched (known faults V05, V07, E07, C01, V02)."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from pathlib import Path

import pytest

from tasks_lib.protocol.vocabulary import Engine, VerdictKind
from tasks_lib.sql.guard import check_sql, is_ordered
from tasks_lib.sql.lexer import TokenKind, tokens, trimmed, without_comments

SQLITE, POSTGRES = Engine.SQLITE, Engine.POSTGRES


@pytest.mark.parametrize(
    ("engine", "sql", "ordered"),
    [
        (SQLITE, "SELECT a FROM t ORDER BY a", True),
        (SQLITE, "SELECT a FROM t ORDER\n\t BY a DESC;", True),
        (SQLITE, "select a from t order   by a", True),
        (SQLITE, "SELECT a FROM t UNION SELECT b FROM u ORDER BY 1", True),
        (SQLITE, "WITH c AS (SELECT a FROM t) SELECT a FROM c ORDER BY a", True),
        (SQLITE, "(SELECT a FROM t ORDER BY a)", True),
        (POSTGRES, "((SELECT a FROM t) ORDER BY a)", True),
        (SQLITE, "SELECT a FROM (SELECT a FROM t ORDER BY a LIMIT 3)", False),
        (SQLITE, "WITH c AS (SELECT a FROM t ORDER BY a LIMIT 3) SELECT a FROM c", False),
        (SQLITE, "SELECT a, ROW_NUMBER() OVER (ORDER BY b) FROM t", False),
        (SQLITE, "SELECT a FROM t WHERE note = 'order by hand'", False),
        (SQLITE, "SELECT a FROM t -- order by a", False),
        (SQLITE, 'SELECT "order by" FROM t', False),
        (SQLITE, "SELECT a FROM t WHERE b = (SELECT b FROM u ORDER BY c DESC LIMIT 1)", False),
        (POSTGRES, "SELECT array_agg(a ORDER BY b) FROM t", False),
        (POSTGRES, "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM t", False),
        (POSTGRES, "(SELECT a FROM t ORDER BY a LIMIT 1) UNION ALL (SELECT b FROM u ORDER BY b LIMIT 1)", False),
    ],
)
def test_only_the_outermost_order_by_orders(engine: Engine, sql: str, ordered: bool) -> None:
    assert is_ordered(engine, sql) is ordered


def test_order_of_unreadable_sql_is_an_error() -> None:
    with pytest.raises(ValueError, match="not one readable query"):
        is_ordered(SQLITE, "SELECT FROM WHERE")


@pytest.mark.parametrize(
    "sql",
    [
        "WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d",
        "WITH x AS (MERGE INTO t USING u ON t.a=u.a WHEN MATCHED THEN DELETE RETURNING 1) SELECT 1",
        "WITH x AS (UPDATE t SET a = 1 RETURNING a) SELECT * FROM x",
        "SELECT * INTO t2 FROM t",
        "EXPLAIN ANALYZE DELETE FROM t",
        "SELECT 1; DROP TABLE t",
        "SELECT 1;DROP TABLE t",
        "SELECT 1 -- don't\n; DROP TABLE t --'",
        "SELECT * FROM t FOR UPDATE",
        "SELECT * FROM (SELECT * FROM t FOR SHARE) s",
        "WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a",
        "COPY t TO '/srv/x'",
        "DO $$ begin end $$",
        "SELECT 1; SELECT 2",
        "SAVEPOINT x",
        "LISTEN x",
        "REINDEX x",
        "SET statement_timeout = 0",
        "SELECT pg_sleep(1)",
        'SELECT "pg_sleep"(1)',
        "SELECT pg_catalog.pg_read_file('x')",
        "SELECT * FROM pg_ls_dir('.')",
        "SELECT * FROM ROWS FROM (pg_ls_dir('.'))",
        "SELECT set_config('statement_timeout', '0', false)",
        "SELECT query_to_xml('select 1', true, true, '')",
        "SELECT nextval('s'), setval('s', 1)",
        "SELECT lo_import('/etc/passwd')",
        "SELECT * FROM dblink('x', 'select 1') AS t(a int)",
        "SELECT pg_terminate_backend(1)",
        "SELECT a FROM t WHERE pg_advisory_lock(1) IS NULL",
        "SELECT query FROM pg_stat_activity",
        "SELECT * FROM pg_catalog.pg_authid",
    ],
)
def test_postgres_refuses(sql: str) -> None:
    report = check_sql(POSTGRES, sql)
    assert (report.allowed, report.kind) == (False, VerdictKind.REFUSED_SQL)
    assert report.reason.endswith(".")


@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH DATABASE 'evil.sqlite' AS e",
        "VACUUM INTO 'copy.sqlite'",
        "PRAGMA query_only=OFF",
        "CREATE TEMP TABLE z(a)",
        "SELECT 1;ATTACH DATABASE 'e2.sqlite' AS f",
        "SELECT * FROM pragma_database_list",
        "SELECT * FROM pragma_table_info('t')",
        "SELECT load_extension('x')",
        "SELECT \"load_extension\"('x')",
        "SELECT writefile('x', 'y')",
        "SELECT fts3_tokenizer('x')",
        "REPLACE INTO t VALUES (1)",
        "SELECT 1\x00; DROP TABLE t",
        "SELECT " + "(" * 60 + "1" + ")" * 60,
        "SELECT " + "NOT " * 20_000 + "1",
    ],
)
def test_sqlite_refuses(sql: str) -> None:
    report = check_sql(SQLITE, sql)
    assert (report.allowed, report.kind) == (False, VerdictKind.REFUSED_SQL)


@pytest.mark.parametrize(
    ("engine", "sql"),
    [
        (POSTGRES, "SELECT " + "ARRAY[" * 20 + "1" + "]" * 20),
        (POSTGRES, "SELECT a" + "[a" * 30 + "]" * 30),
        (POSTGRES, "SELECT " + "1 ? " * 9_000),
        (SQLITE, "SELECT " + "CASE " * 9_000),
        (SQLITE, "SELECT " + "- " * 20_000 + "1"),
        (SQLITE, "SELECT '" + "'" * 5_000_000),
        (POSTGRES, "/*" * 4_000_000),
    ],
    ids=lambda value: str(value)[:24],
)
def test_the_check_ends_soon_for_texts_made_to_keep_it_busy(engine: Engine, sql: str) -> None:
    """It runs in the caller's own process: sqlglot alone needs minutes for the first, and raises TypeError for the third."""
    started = time.thread_time()
    assert check_sql(engine, sql).kind in (VerdictKind.REFUSED_SQL, VerdictKind.PARSE_ERROR)
    assert time.thread_time() - started < 5


@pytest.mark.parametrize("engine", list(Engine))
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM t GROUP /* by */ BY a ORDER -- by\n BY a LIMIT /**/ 1",
        "SELECT a FROM t LEFT /* x */ JOIN u ON t.a IS /* y */ NOT /* z */ NULL",
        "SELECT '-- /* ' || a /* ' */ FROM t -- '",
    ],
)
def test_comments_between_words_block_nothing(engine: Engine, sql: str) -> None:
    assert check_sql(engine, sql).allowed
    assert "by" not in without_comments(engine, "SELECT 1 /* by */ -- by\n")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 -- \r, pg_sleep(1)",  # PostgreSQL's comment ends at a carriage return too
        "SELECT 1 -- \r, pg_sleep(1)\n FROM t",
        "SELECT E'a'\n'\\'--', pg_sleep(5)",  # an E'' string goes on, with its backslashes, on the next line
        "SELECT '\\', pg_sleep(1) --'",
        "SELECT 1 /* /* */ */, pg_sleep(1)",
        "SELECT $a$ $b$ $a$, pg_sleep(1) --$b$",
    ],
)
def test_code_that_looks_like_a_string_or_comment_is_seen(sql: str) -> None:
    assert check_sql(POSTGRES, sql).kind is VerdictKind.REFUSED_SQL


@pytest.mark.parametrize("engine", list(Engine))
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT REPLACE(n,'a','b') FROM t",
        "SELECT 'DROP TABLE t; --' AS s",
        "SELECT 1;",
        "SELECT 1; -- bye",
        "/* lead */ SELECT 1",
        "-- why\nSELECT 1 /* tail */ ;",
        "(SELECT 1) UNION (SELECT 2)",
        'SELECT "update", created FROM t',
        "WITH x AS (VALUES (1)) SELECT * FROM x",
        "SELECT 1;;",
        "VALUES (1), (2)",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r WHERE n<3) SELECT n FROM r",
    ],
)
def test_one_query_with_trailing_empties_is_allowed(engine: Engine, sql: str) -> None:
    assert check_sql(engine, sql).allowed


def test_trimmed_texts_run_on_a_real_engine() -> None:
    """V07: Python's sqlite3 refuses `SELECT 1;;`, so the empty end must go; a bracketed union is PostgreSQL only."""
    connection = sqlite3.connect(":memory:")
    for sql in ("SELECT 1;", "SELECT 1; -- bye", "/* lead */ SELECT 1", "-- why\nSELECT 1 /* tail */ ;", "SELECT 1;;"):
        assert connection.execute(trimmed(SQLITE, sql)).fetchall() == [(1,)]


@pytest.mark.parametrize("sql", [None, "", "   ", "\n;\n", "-- no sql found", "/* a */ ; -- b"])
def test_no_statement_is_missing_sql(sql: str | None) -> None:
    """C05: SQLite runs these without error and returns no rows; they must never count as an empty result."""
    for engine in Engine:
        assert check_sql(engine, sql).kind is VerdictKind.MISSING_SQL


@pytest.mark.parametrize("sql", ["SELECT FROM WHERE", "I cannot answer that.", "SELECT 'open", "SELECT \ud800"])
def test_unreadable_text_is_a_parse_error(sql: str) -> None:
    for engine in Engine:
        assert check_sql(engine, sql).kind is VerdictKind.PARSE_ERROR


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT CAST('2020-05-01' AS DATE)",
        "SELECT typeof(CAST(1 AS NUMERIC))",
        "SELECT id -- the key\nFROM box WHERE Value > 150",
        "SELECT ';' || ':a' || '--' FROM [a;b]",
    ],
)
def test_trimming_changes_nothing_but_the_end(sql: str) -> None:
    assert trimmed(SQLITE, sql) == sql
    assert trimmed(SQLITE, sql + " ;; -- end") == sql


def test_tokens_cover_the_text_and_know_each_dialect() -> None:
    sql = """SELECT E'a\\'b', $q$it's; $q$, "x""y", 1e5, a::int -- c"""
    found = list(tokens(POSTGRES, sql))
    assert "".join(sql[token.start : token.end] for token in found) == sql
    assert [sql[t.start : t.end] for t in found if t.kind is TokenKind.STRING] == ["E'a\\'b'", "$q$it's; $q$"]
    nested = "SELECT 1 /* a /* b */ ; */"
    assert trimmed(POSTGRES, nested) == "SELECT 1"
    assert trimmed(SQLITE, nested) == "SELECT 1 /* a /* b */ ; */"  # SQLite's comment ends at the first */


@pytest.mark.real
@pytest.mark.skipif(not os.environ.get("DSABENCH_DATA"), reason="DSABENCH_DATA is not set")
def test_no_real_gold_query_is_refused() -> None:
    root = Path(os.environ["DSABENCH_DATA"])
    spider = [item["query"] for item in json.loads((root / "spider" / "dev.json").read_text("utf-8"))]
    bird = [item["SQL"] for item in json.loads((root / "bird" / "dev" / "dev.json").read_text("utf-8"))]
    assert len(spider) > 1000
    assert len(bird) > 1000
    assert [sql for sql in spider + bird if not check_sql(SQLITE, sql).allowed] == []
