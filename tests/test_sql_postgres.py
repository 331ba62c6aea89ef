"""Dumps load once, whole or not at all, and are read by a role that can only read (known faults E10, V05, V01), on a real
server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import psutil
import psycopg
import pytest

from tasks_lib.protocol.records import DatabaseHandle
from tasks_lib.protocol.vocabulary import Corpus, Engine, VerdictKind
from tasks_lib.sql.canonical import CanonicalResult, Interval, Json, Opaque
from tasks_lib.sql.execute import LEDGER_KIND, Execution, SqlRunner
from tasks_lib.sql.faults import DatabaseDamaged, DatabaseMissing, ServerUnavailable
from tasks_lib.sql.guard import check_sql
from tasks_lib.sql.limits import Limits
from tasks_lib.sql.once import compare_once
from tasks_lib.sql.postgres import READER, PostgresServer, shared_server
from tasks_lib.sql.workers import Request, WorkerPool
from tasks_lib.store.keys import sha256_file
from tasks_lib.store.ledgers import Ledger

DUMP = """
SET statement_timeout = 0;
SELECT pg_catalog.set_config('search_path', '', false);
ALTER SCHEMA public OWNER TO some_owner;
CREATE TYPE public.mood AS ENUM ('calm', 'wild');
ALTER TYPE public.mood OWNER TO some_owner;
CREATE TABLE public.m (id integer, title text, mood public.mood, price numeric(8,2), seen timestamp with time zone);
ALTER TABLE public.m OWNER TO some_owner;
COPY public.m (id, title, mood, price, seen) FROM stdin;
1\t50% off\tcalm\t1.50\t2020-01-01 12:00:00+02
2\tÁrbol\twild\t\\N\t\\N
\\.
CREATE SEQUENCE public.s;
CREATE FUNCTION public.owner_power() RETURNS integer LANGUAGE sql SECURITY DEFINER AS 'SELECT 1';
GRANT ALL ON SCHEMA public TO PUBLIC;
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    # Not below pytest's own folder: it is closed to the user that the server runs as, and its path is long.
    made = Path(tempfile.mkdtemp(prefix="dsa-pg-", dir="/tmp"))
    yield made / "data"
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[PostgresServer]:
    with PostgresServer.embedded(folder) as made:
        yield made


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dumps") / "a dump's name.sql"
    path.write_text(DUMP, "utf-8")
    return path


@pytest.fixture(scope="module")
def dsn(server: PostgresServer, dump: Path) -> str:
    return server.ensure_database(dump, sha256_file(dump))


@pytest.fixture
async def runner(
    server: PostgresServer, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[SqlRunner]:
    monkeypatch.delenv("DSABENCH_POSTGRES_URL", raising=False)
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    async with SqlRunner(ledger, Limits(wall_seconds=10), postgres_folder=folder) as made:
        yield made
    ledger.close()


def handle(dump: Path) -> DatabaseHandle:
    return DatabaseHandle("db_1", Corpus.LIVESQLBENCH, Engine.POSTGRES, str(dump), sha256_file(dump), "")


def rows(execution: Execution) -> tuple[tuple[object, ...], ...]:
    assert execution.kind is None, execution.error
    assert execution.result is not None
    return execution.result.rows


def databases(server: PostgresServer) -> list[str]:
    with server._connect("postgres") as admin:
        return [name for (name,) in admin.execute("SELECT datname FROM pg_database ORDER BY 1").fetchall()]


# ---- loading ----


def test_a_dump_loads_once_whoever_asks(server: PostgresServer, folder: Path, dump: Path, dsn: str) -> None:
    before = databases(server)
    others = [PostgresServer.embedded(folder) for _ in range(4)]
    copy = dump.with_name("copy.sql")
    copy.write_text(DUMP + "-- another digest\n", "utf-8")
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda one: one.ensure_database(copy, sha256_file(copy)), others))
    assert len(found) == 1
    assert len(databases(server)) == len(before) + 1
    assert dsn == server.ensure_database(dump, sha256_file(dump))


def test_a_dump_that_breaks_halfway_leaves_nothing(server: PostgresServer, tmp_path: Path) -> None:
    before = databases(server)
    broken = tmp_path / "broken.sql"
    broken.write_text(DUMP + "CREATE TABLE public.m (id integer);\n", "utf-8")
    with pytest.raises(DatabaseDamaged, match=r'broken\.sql does not load .*"m" already exists'):
        server.ensure_database(broken, sha256_file(broken))
    assert databases(server) == before
    with pytest.raises(DatabaseDamaged, match="has sha256"):
        server.ensure_database(broken, "1" * 64)
    with pytest.raises(DatabaseMissing, match=r"absent\.sql"):
        server.ensure_database(tmp_path / "absent.sql", "0" * 64)
    assert databases(server) == before


def test_letters_fold_and_text_sorts_by_code_point(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT lower('ÁRBOL'), 'Z' < 'a', 'z' < 'á'").fetchone() == ("árbol", True, True)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO m VALUES (3)",
        "DELETE FROM m",
        "CREATE TABLE x (a int)",
        "CREATE TEMP TABLE x (a int)",
        "SELECT nextval('s')",
        "SELECT owner_power()",
        "SELECT lo_create(0)",
        "SELECT lo_from_bytea(0, 'x')",
        "SELECT pg_advisory_lock(1)",
        "SELECT pg_notify('a', 'b')",
        "SELECT query_to_xml('SELECT 1', true, true, '')",
        "SELECT set_config('statement_timeout', '0', false)",
        "SELECT * FROM ts_stat('SELECT 1')",
        "SELECT pg_logical_emit_message(false, 'a', 'b')",
        "SELECT pg_terminate_backend(1)",
        "SELECT pg_read_file('PG_VERSION')",
        "SELECT * FROM pg_authid",
        "COPY m TO PROGRAM 'true'",
        "ALTER ROLE CURRENT_USER SUPERUSER",
    ],
)
def test_the_reader_can_only_read_even_when_it_lifts_its_own_settings(dsn: str, sql: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        assert connection.execute("SHOW default_transaction_read_only").fetchone() == ("on",)
        assert connection.execute("SHOW timezone").fetchone() == ("UTC",)
        connection.execute("SET default_transaction_read_only = off")
        with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.SyntaxError)):
            connection.execute(sql)
        assert connection.execute("SELECT count(*) FROM m").fetchone() == (2,)


# ---- results ----


async def test_values_come_back_typed(runner: SqlRunner, dump: Path) -> None:
    sql = """SELECT true, 1::int2, 1.50::numeric, 1.5::float4, 'a', '\\x00ff'::bytea, date '2020-01-02',
        timestamp '2020-01-01 10:00', seen, interval '-1 year 2 mons -3 days 04:05:06.7', '{"a": 1.0}'::jsonb,
        array[1, 2, null], array[['a'], ['b']], mood, int4range(1, 3), 'infinity'::date, date '0044-01-01 BC',
        array[interval '-0.5 sec'], null, 'NaN'::numeric::text FROM m WHERE id = 1"""
    assert rows(await runner.run(handle(dump), sql))[0] == (
        True, 1, Decimal("1.50"), 1.5, "a", b"\x00\xff", date(2020, 1, 2), datetime(2020, 1, 1, 10),
        datetime(2020, 1, 1, 10, tzinfo=UTC), Interval(-10, -3, 14_706_700_000), Json('{"a": 1.0}'), (1, 2, None),
        (("a",), ("b",)), "calm", "[1,3)", Opaque("date", "infinity"), Opaque("date", "0044-01-01 BC"),
        (Interval(0, 0, -500_000),), None, "NaN",
    )  # fmt: skip


async def test_percent_and_question_marks_are_ordinary(runner: SqlRunner, dump: Path) -> None:
    """E10."""
    assert rows(await runner.run(handle(dump), "SELECT '100%' LIKE '%0%'")) == ((True,),)
    assert rows(await runner.run(handle(dump), "SELECT '{\"a\":1}'::jsonb ? 'a'")) == ((True,),)
    found = await runner.run(
        handle(dump), "SELECT title FROM m WHERE title LIKE '%' || :title || '%'", {"title": "50% off"}
    )
    assert rows(found) == (("50% off",),)


@pytest.mark.parametrize(
    ("sql", "bindings", "value"),
    [
        ("SELECT :n * :n", {"n": 200}, 40000),
        ("SELECT :n + 1", {"n": 3_000_000_000}, 3_000_000_001),
        ("SELECT concat(:a, '%')", {"a": "x"}, "x%"),
        ("SELECT :a IS NULL", {"a": "x"}, False),
        ("SELECT 'abc' ILIKE concat('%', :a, '%')", {"a": "B"}, True),
        ("SELECT concat(:a, :n)", {"a": "02134", "n": 7}, "021347"),
    ],
)
async def test_a_bound_value_is_read_like_a_literal(
    runner: SqlRunner, dump: Path, sql: str, bindings: dict[str, str | int], value: object
) -> None:
    assert rows(await runner.run(handle(dump), sql, bindings)) == ((value,),)


async def test_bindings_fit_enums_and_keep_types(runner: SqlRunner, dump: Path) -> None:
    sql = "SELECT id, ':mood' FROM m WHERE mood = :mood AND id = :id -- :id"
    assert rows(await runner.run(handle(dump), sql, {"mood": "calm", "id": 1})) == ((1, ":mood"),)
    wrong = await runner.run(handle(dump), "SELECT 1 FROM m WHERE title = :t", {"t": 5})
    assert wrong.kind is VerdictKind.EXECUTION_ERROR  # a number is no text
    hostile = "x'; DROP TABLE m; --"
    assert rows(await runner.run(handle(dump), "SELECT :t", {"t": hostile})) == ((hostile,),)


async def test_an_empty_result_has_its_columns(runner: SqlRunner, dump: Path) -> None:
    execution = await runner.run(
        handle(dump), "SELECT id, title FROM m WHERE id = :n AND title = :t", {"n": 9, "t": "x"}
    )
    assert execution.result == CanonicalResult(("id", "title"), ())


async def test_double_quotes_are_names_here(runner: SqlRunner, dump: Path) -> None:
    """V01, the PostgreSQL half."""
    for unknown in ('title = "x"', 'title LIKE "%x%"'):
        failed = await runner.run(handle(dump), f"SELECT id FROM m WHERE {unknown}")
        assert failed.kind is VerdictKind.EXECUTION_ERROR
    assert rows(await runner.run(handle(dump), 'SELECT id FROM m WHERE title = "title" AND id = 1')) == ((1,),)


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT REPLACE(title, '5', '6') FROM m WHERE id = 1", (("60% off",),)),
        ("SELECT 'DROP TABLE m; --' AS s", (("DROP TABLE m; --",),)),
        ("SELECT 1;", ((1,),)),
        ("SELECT 1; -- bye", ((1,),)),
        ("/* lead */ SELECT 1", ((1,),)),
        ("-- why\nSELECT 1 /* tail */ ;", ((1,),)),
        ("(SELECT 1) UNION (SELECT 1)", ((1,),)),
        ('SELECT "update", created FROM (SELECT 1 AS "update", 2 AS created) t', ((1, 2),)),
        ("WITH x AS (VALUES (1)) SELECT * FROM x", ((1,),)),
        ("SELECT 1;;", ((1,),)),
    ],
)
async def test_what_may_run_does_run(
    runner: SqlRunner, dump: Path, sql: str, wanted: tuple[tuple[object, ...], ...]
) -> None:
    """V07, on the server."""
    assert rows(await runner.run(handle(dump), sql)) == wanted


# ---- limits and faults ----


def test_slow_statements_stop_on_both_sides(dsn: str, server: PostgresServer) -> None:
    with WorkerPool(1, Limits(wall_seconds=0.5)) as pool:
        pool.run(Request(Engine.POSTGRES, dsn, "SELECT 1"))  # the worker starts and loads the driver
        for sql in (
            "SELECT count(*) FROM generate_series(1, 1000000000) a, generate_series(1, 1000000000) b",
            "SELECT a FROM generate_series(1, 1000000000) a WHERE pg_sleep(0.02) IS NOT NULL",
        ):
            started = time.monotonic()
            assert pool.run(Request(Engine.POSTGRES, dsn, sql)).kind == "timeout"
            assert time.monotonic() - started < 1.5
        assert pool.run(Request(Engine.POSTGRES, dsn, "SELECT 1")).data.endswith(b"[1]\n")
    with server._connect("postgres") as admin:
        query = "SELECT count(*) FROM pg_stat_activity WHERE usename = %s AND state = 'active'"
        assert admin.execute(query, (READER,)).fetchone() == (0,)


def test_fifty_runaways_leave_no_growth(dsn: str, server: PostgresServer, folder: Path) -> None:
    """E01, on the server: no session runs on, none burns, and this process has what it had before."""
    endless = "SELECT count(*) FROM generate_series(1, 1000000000) a, generate_series(1, 1000000000) b"
    asleep = "SELECT pg_sleep(100)"
    deaf = "SELECT a FROM generate_series(1, 1000000000) a WHERE a < 0"
    processes, threads = len(psutil.Process().children(recursive=True)), threading.active_count()
    with WorkerPool(3, Limits(wall_seconds=0.15)) as pool, ThreadPoolExecutor(3) as callers:
        requests = [Request(Engine.POSTGRES, dsn, (endless, asleep, deaf)[turn % 3]) for turn in range(50)]
        assert {outcome.kind for outcome in callers.map(pool.run, requests)} == {"timeout"}
    assert len(psutil.Process().children(recursive=True)) == processes
    assert threading.active_count() == threads

    def sessions() -> list[psutil.Process]:
        title = f"postgres: {READER} "
        # One that ends meanwhile has no command line here, and is no error.
        running = psutil.process_iter(["ppid", "cmdline"])
        mine = [p for p in running if p.info["ppid"] == postmaster(folder).pid]
        return [p for p in mine if " ".join(p.info["cmdline"] or ()).startswith(title)]

    end = time.monotonic() + 10  # the server looks twice a second whether its client is still there
    while sessions() and time.monotonic() < end:
        pass
    assert sessions() == []


@pytest.mark.nightly
def test_memory_of_a_session_is_limited(dsn: str) -> None:
    """Fills 1.5 GB; run with `pytest -m nightly tests/test_sql_postgres.py`. The server says no, stays up, and the statement alone has failed."""
    hungry = "SELECT array_length(array_agg(repeat('x', 4000000) || g), 1) FROM generate_series(1, 4000) g"
    with WorkerPool(1, Limits(wall_seconds=60)) as pool:
        outcome = pool.run(Request(Engine.POSTGRES, dsn, hungry))
        assert (outcome.kind, "memory" in outcome.error) == ("execution_error", True)
        assert pool.run(Request(Engine.POSTGRES, dsn, "SELECT 1")).data.endswith(b"[1]\n")


def test_a_session_has_the_same_settings_everywhere(dsn: str) -> None:
    wanted = {
        "TimeZone": "UTC",
        "lc_collate": "C",
        "max_parallel_workers_per_gather": "0",
        "default_transaction_read_only": "on",
        "transaction_read_only": "on",
        "standard_conforming_strings": "on",
        "synchronize_seqscans": "off",
        "search_path": "public",
        "jit": "off",
        "work_mem": "4MB",
        "DateStyle": "ISO, MDY",
        "IntervalStyle": "iso_8601",
        "statement_timeout": "5s",
    }
    with psycopg.connect(dsn) as admin:
        (collation,) = admin.execute(
            "SELECT datcollate FROM pg_database WHERE datname = current_database()"
        ).fetchone() or ("",)
    assert collation == wanted.pop("lc_collate")
    with WorkerPool(1, Limits(wall_seconds=5)) as pool:
        for name, value in wanted.items():
            outcome = pool.run(Request(Engine.POSTGRES, dsn, f"SELECT current_setting('{name}')"))
            assert CanonicalResult.from_bytes(outcome.data).rows == ((value,),), name


def test_no_function_with_an_effect_passes_the_check(server: PostgresServer) -> None:
    """Every function that this server has, against the allow-list: what passes only draws, ranks, or tells time."""
    with server._connect("postgres") as admin:
        functions = admin.execute(
            "SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace "
            "AND (provolatile = 'v' OR proname ~ '^(pg|lo|txid|ts)_') ORDER BY 1"
        ).fetchall()
    assert len(functions) > 500
    calls = ("SELECT {}(1)", "SELECT * FROM {}('a') AS t")
    passing = {name for (name,) in functions if any(check_sql(Engine.POSTGRES, c.format(name)).allowed for c in calls)}
    assert passing <= {
        "array_sample", "array_shuffle", "clock_timestamp", "gen_random_uuid", "random", "random_normal", "timeofday",
        "uuidv4", "uuidv7", "pg_typeof", "ts_headline", "ts_rank", "ts_rank_cd",
    }  # fmt: skip


def test_large_results_are_cut_off(dsn: str) -> None:
    with WorkerPool(1, Limits(wall_seconds=10, max_rows=1000)) as pool:
        started = time.monotonic()
        outcome = pool.run(Request(Engine.POSTGRES, dsn, "SELECT generate_series(1, 100000000)"))
        assert outcome.kind == "result_too_large"
        assert time.monotonic() - started < 3


def test_the_engine_refuses_what_a_guard_might_miss(dsn: str) -> None:
    with WorkerPool(1, Limits(wall_seconds=5)) as pool:
        for sql in ("SELECT 1; SELECT 2", "DELETE FROM m", "SET statement_timeout = 0", "CREATE TEMP TABLE z(a int)"):
            assert pool.run(Request(Engine.POSTGRES, dsn, sql)).kind == "execution_error", sql


async def test_no_server_is_no_verdict(tmp_path: Path, dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSABENCH_POSTGRES_URL", "postgresql://nobody@127.0.0.1:1/postgres")
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    async with SqlRunner(ledger) as runner:
        with pytest.raises(ServerUnavailable, match="DSABENCH_POSTGRES_URL"):
            await runner.run(handle(dump), "SELECT 1")
    assert ledger.count(LEDGER_KIND) == 0
    ledger.close()


def test_a_server_by_url_serves_too(server: PostgresServer, folder: Path, dump: Path, dsn: str) -> None:
    url = f"postgresql://postgres@/postgres?host={folder.with_name('data.socket')}"
    by_url = shared_server(url, folder)
    assert by_url is shared_server(url, folder)
    assert psycopg.conninfo.conninfo_to_dict(by_url.ensure_database(dump, sha256_file(dump)))["user"] == READER
    compared = compare_once(Corpus.LIVESQLBENCH, dsn, "SELECT 1.004", "SELECT 1.0")
    assert (compared["verdict"], compared["rule"]) == ("correct", "livesqlbench/round2_set")


# ---- whose server it is ----

CHILD = textwrap.dedent(
    """
    import os, sys
    from pathlib import Path
    from tasks_lib.sql.postgres import shared_server
    server = shared_server("", Path(sys.argv[1]))
    print(server._connect("postgres").execute("SELECT pg_postmaster_start_time()::text").fetchone()[0], flush=True)
    if sys.argv[2] == "crash":
        os._exit(1)
    if sys.argv[2] == "wait":
        sys.stdin.read()
    """
)


def child(folder: Path, how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, str(folder), how]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def gone(process: psutil.Process) -> bool:
    """Ended; a container without an init process keeps the zombie."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def postmaster(folder: Path) -> psutil.Process:
    return psutil.Process(int((folder / "postmaster.pid").read_text().splitlines()[0]))


def test_the_process_that_started_the_server_stops_it(folder: Path) -> None:
    mine = folder.with_name("owned")
    first = child(mine, "wait")
    assert first.stdout is not None
    started = first.stdout.readline()
    second, _ = child(mine, "end").communicate(timeout=60)
    assert second == started  # shared, and still running after the guest has gone
    process = postmaster(mine)
    first.communicate(timeout=60)
    assert gone(process)


def test_a_server_outlives_the_process_that_started_it_while_another_uses_it(folder: Path) -> None:
    mine = folder.with_name("handed")
    first = child(mine, "wait")
    assert first.stdout is not None
    started = first.stdout.readline()
    second = child(mine, "wait")
    assert second.stdout is not None
    assert second.stdout.readline() == started
    process = postmaster(mine)
    first.communicate(timeout=60)
    assert not gone(process)
    second.communicate(timeout=60)
    assert gone(process)


def test_a_server_left_by_a_crash_is_taken_over(folder: Path) -> None:
    mine = folder.with_name("crashed")
    started, _ = child(mine, "crash").communicate(timeout=60)
    process = postmaster(mine)
    assert not gone(process)
    again, _ = child(mine, "end").communicate(timeout=60)
    assert again == started
    assert gone(process)


# ---- the real dumps ----

DATA = os.environ.get("DSABENCH_DATA", "")


@pytest.mark.real
@pytest.mark.skipif(not DATA, reason="DSABENCH_DATA is not set")
def test_real_dumps_answer_their_units(server: PostgresServer) -> None:
    """All 17 dumps load, and every unit at hand passes the guard and gives the shape it is described with."""
    root = Path(DATA) / "livesqlbench"
    dumps = {path.name.removesuffix("_full.sql"): path for path in sorted((root / "dumps").glob("*.sql"))}
    assert len(dumps) == 17
    units = [json.loads(line) for line in (root / "units.jsonl").read_text("utf-8").splitlines()]
    assert len(units) > 100
    with WorkerPool(2, Limits(wall_seconds=30)) as pool:
        for unit in units:
            path = dumps.get(unit["db_id"]) or dumps[unit["db_id"] + "s"]  # upstream's file name of one has an extra s
            assert check_sql(Engine.POSTGRES, unit["sql"]).allowed, unit["unit_id"]
            dsn = server.ensure_database(path, sha256_file(path))
            outcome = pool.run(Request(Engine.POSTGRES, dsn, unit["sql"]))
            assert outcome.kind == "", (unit["unit_id"], outcome.error)
            result = CanonicalResult.from_bytes(outcome.data)
            assert (len(result.columns), len(result.rows)) == (unit["columns"], unit["rows"]), unit["unit_id"]
