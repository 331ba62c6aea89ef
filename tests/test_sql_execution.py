"""SQL runs in limited, replaceable processes, each distinct statement once (known faults C05, C06, C13, E01, E03, E05, E07,
V02, V10), on real SQLite files."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import psutil
import pytest

from tasks_lib.protocol.records import DatabaseHandle
from tasks_lib.protocol.vocabulary import Corpus, Engine, VerdictKind
from tasks_lib.sql.comparators import compare
from tasks_lib.sql.execute import LEDGER_KIND, Execution, SqlRunner
from tasks_lib.sql.faults import DatabaseDamaged, DatabaseMissing
from tasks_lib.sql.limits import MEBIBYTE, Limits
from tasks_lib.sql.once import check_once, compare_once
from tasks_lib.sql.workers import Request, WorkerPool
from tasks_lib.store.keys import sha256_file
from tasks_lib.store.ledgers import Ledger

COUNTING = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r) SELECT count(*) FROM r"
LAZY = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r) SELECT n FROM r WHERE n < 3"
DEAF = "SELECT instr(hex(zeroblob(15000000)), hex(zeroblob(7000000)) || '1')"
"""One call of one function: no step of the engine's program ends, so no progress handler is asked."""
SETUP = """
CREATE TABLE shop(name TEXT, city TEXT); INSERT INTO shop VALUES ('Finch', 'Oslo');
CREATE TABLE box(id INT, Value INT); INSERT INTO box VALUES (1, 200), (2, 100);
CREATE TABLE zip(code TEXT); INSERT INTO zip VALUES ('02134');
CREATE TABLE people(id INT, nick TEXT, raw BLOB);
INSERT INTO people VALUES
    (1, CAST(x'4D75F16F7A' AS TEXT), x'616263'), (2, CAST(x'4D75FF6F7A' AS TEXT), NULL), (3, 'abc', NULL);
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "50% of #1?.sqlite"  # every character that a careless URI trips over
    with sqlite3.connect(path) as connection:
        connection.executescript(SETUP)
    connection.close()
    return path


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}", run="test")
    yield made
    made.close()


@pytest.fixture
async def runner(ledger: Ledger) -> AsyncIterator[SqlRunner]:
    async with SqlRunner(ledger, Limits(wall_seconds=10), workers=2) as made:
        yield made


def handle(path: Path, digest: str | None = None) -> DatabaseHandle:
    return DatabaseHandle("db_1", Corpus.SPIDER, Engine.SQLITE, str(path), digest or sha256_file(path), "")


def rows(execution: Execution) -> tuple[tuple[object, ...], ...]:
    assert execution.kind is None, execution.error
    assert execution.result is not None
    return execution.result.rows


def running_workers() -> int:
    return len(psutil.Process().children(recursive=True))


# ---- results and their absence ----


async def test_no_result_is_never_an_empty_result(runner: SqlRunner, database: Path) -> None:
    """C05."""
    gold = await runner.run(handle(database), "SELECT name FROM shop WHERE 1=0")
    empty = await runner.run(handle(database), "SELECT city FROM shop WHERE city = 'zz'")
    assert gold.result is not None
    assert empty.result is not None
    assert compare(Corpus.SPIDER, gold.result, empty.result, ordered=False).equal
    kinds = []
    for sql in ("", "   ", "-- no sql found", None, "SELECT nope FROM shop"):
        failed = await runner.run(handle(database), sql)
        assert failed.result is None
        kinds.append(failed.kind)
    assert kinds == [VerdictKind.MISSING_SQL] * 4 + [VerdictKind.EXECUTION_ERROR]


async def test_text_that_is_not_utf8_keeps_its_bytes(runner: SqlRunner, database: Path) -> None:
    """C06: through a worker, the ledger and back."""
    texts = [await runner.run(handle(database), f"SELECT nick FROM people WHERE id={i}") for i in (1, 2, 3, 1)]
    blob = await runner.run(handle(database), "SELECT raw FROM people WHERE id=1")
    results = [execution.result for execution in (*texts, blob)]
    assert all(result is not None for result in results)
    first, second, third, again, raw = results

    def equal(left: object, right: object) -> bool:
        return compare(Corpus.SPIDER, left, right, ordered=False).equal  # type: ignore[arg-type]

    assert equal(first, again)
    assert not equal(first, second)
    assert not equal(third, raw)
    texts[0].data.decode("utf-8")
    assert rows(texts[0]) == (("Mu\udcf1oz",),)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM box WHERE Value > 150",
        "-- pick one\nSELECT DISTINCT id FROM box WHERE Value > 150",
        "SELECT id -- the key\nFROM box WHERE Value > 150",
    ],
)
def test_gold_as_prediction_is_correct(database: Path, sql: str) -> None:
    """C13."""
    for corpus in (Corpus.SPIDER, Corpus.BIRD):
        compared = compare_once(corpus, str(database), sql, sql)
        assert (compared["verdict"], compared["gold_rows"]) == ("correct", 1)


async def test_the_text_runs_as_written(runner: SqlRunner, database: Path) -> None:
    """V02: a parser that writes the statement anew changes all four."""
    results = [
        rows(await runner.run(handle(database), sql))
        for sql in (
            "SELECT CAST('2020-05-01' AS DATE)",
            "SELECT typeof(CAST(1 AS NUMERIC))",
            "SELECT CAST('2020-01-02' AS DATETIME)",
            "SELECT typeof(CAST('5' AS STRING))",
        )
    ]
    assert results == [((2020,),), (("integer",),), ((2020,),), (("integer",),)]


async def test_a_double_quoted_name_without_a_column_is_a_string(runner: SqlRunner, database: Path) -> None:
    """V01, run: SQLite reads it so, and gold queries rest on it; a build without this rule would fail here."""
    for sql, ids in (
        ('SELECT id FROM people WHERE nick = "abc"', ((3,),)),
        ('SELECT name FROM shop WHERE name = "city"', ()),
        ('SELECT id FROM people WHERE nick LIKE "%b%"', ((3,),)),
    ):
        assert rows(await runner.run(handle(database), sql)) == ids


async def test_bindings_keep_their_type(runner: SqlRunner, database: Path, ledger: Ledger) -> None:
    """V10: '02134' and 2134 are two executions with two results."""
    sql = "SELECT count(*) FROM zip WHERE code = :c"
    text = await runner.run(handle(database), sql, {"c": "02134", "unused": 1})
    number = await runner.run(handle(database), sql, {"c": 2134})
    assert (rows(text), rows(number)) == (((1,),), ((0,),))
    assert ledger.count(LEDGER_KIND) == 2
    missing = await runner.run(handle(database), sql)
    assert missing.kind is VerdictKind.EXECUTION_ERROR
    assert ":c" in missing.error


# ---- sharing ----


async def test_each_distinct_execution_runs_once(runner: SqlRunner, database: Path, ledger: Ledger) -> None:
    sql = "SELECT hex(randomblob(8))"
    many = await asyncio.gather(*(runner.run(handle(database), sql + tail) for tail in ("", ";", " -- same", "") * 5))
    assert len({execution.digest for execution in many}) == 1
    assert ledger.count(LEDGER_KIND) == 1
    async with SqlRunner(ledger, Limits(wall_seconds=10)) as later:
        assert (await later.run(handle(database), sql)).digest == many[0].digest
    async with SqlRunner(ledger, Limits(version="other", wall_seconds=10)) as other:
        assert (await other.run(handle(database), sql)).digest != many[0].digest


async def test_failures_of_the_statement_are_stored(runner: SqlRunner, database: Path, ledger: Ledger) -> None:
    first = await runner.run(handle(database), "SELECT nope FROM shop")
    assert "nope" in first.error
    assert ledger.count(LEDGER_KIND) == 1
    assert await runner.run(handle(database), "SELECT nope FROM shop") == first


async def test_refused_sql_never_reaches_the_engine(runner: SqlRunner, tmp_path: Path, ledger: Ledger) -> None:
    absent = handle(tmp_path / "absent.sqlite", "0" * 64)
    refused = await runner.run(absent, "DROP TABLE shop")
    assert (refused.kind, refused.key) == (VerdictKind.REFUSED_SQL, "")
    assert ledger.count(LEDGER_KIND) == 0


# ---- infrastructure ----


async def test_a_missing_database_is_no_verdict(runner: SqlRunner, tmp_path: Path, ledger: Ledger) -> None:
    """E05."""
    path = tmp_path / "no_such_db" / "no_such_db.sqlite"
    with pytest.raises(DatabaseMissing, match="no_such_db") as raised:
        await runner.run(handle(path, "0" * 64), "SELECT 1")
    assert raised.value.kind == "db_missing"
    assert not path.parent.exists()
    assert ledger.count(LEDGER_KIND) == 0


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"version https://git-lfs",
        lambda data: data[:-4096],
        lambda data: b"x" + data[1:],
    ],
    ids=["empty", "pointer", "cut", "header"],
)
async def test_a_damaged_database_is_named_then_usable_after_repair(
    runner: SqlRunner, database: Path, damage: Callable[[bytes], bytes]
) -> None:
    whole, digest = database.read_bytes(), sha256_file(database)
    database.write_bytes(damage(whole))
    with pytest.raises(DatabaseDamaged, match="50% of #1") as raised:
        await runner.run(handle(database, digest), "SELECT name FROM shop")
    assert raised.value.kind == "db_damaged"
    database.write_bytes(whole)
    assert rows(await runner.run(handle(database, digest), "SELECT name FROM shop")) == (("Finch",),)


async def test_pages_that_turn_out_broken_are_damage(runner: SqlRunner, database: Path) -> None:
    data = bytearray(database.read_bytes())
    data[4096:] = b"\xaa" * (len(data) - 4096)  # the header stays whole
    database.write_bytes(bytes(data))
    with pytest.raises(DatabaseDamaged):
        await runner.run(handle(database), "SELECT count(*) FROM people")


async def test_a_wal_database_in_a_read_only_folder_opens(runner: SqlRunner, tmp_path: Path) -> None:
    folder = tmp_path / "wal"
    folder.mkdir()
    path = folder / "w.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA journal_mode = WAL; CREATE TABLE t(a); INSERT INTO t VALUES (7);")
    connection.close()
    before = sorted(entry.name for entry in folder.iterdir())
    assert rows(await runner.run(handle(path), "SELECT a FROM t")) == ((7,),)
    assert sorted(entry.name for entry in folder.iterdir()) == before == ["w.sqlite"]


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
async def test_a_database_with_unfinished_changes_is_no_answer(runner: SqlRunner, database: Path, suffix: str) -> None:
    """Its digest says nothing about what the journal beside it would change."""
    journal = Path(f"{database}{suffix}")
    journal.write_bytes(b"\x37\x7f\x06\x82 changes")
    with pytest.raises(DatabaseDamaged, match=r"was not closed"):
        await runner.run(handle(database), "SELECT name FROM shop")
    journal.write_bytes(b"")
    assert rows(await runner.run(handle(database), "SELECT name FROM shop")) == (("Finch",),)


async def test_a_file_put_in_place_of_the_checked_one_is_no_answer(
    runner: SqlRunner, database: Path, ledger: Ledger
) -> None:
    """Its bytes are checked once, its inode, size and time with every statement."""
    audited = handle(database)
    assert rows(await runner.run(audited, "SELECT name FROM shop")) == (("Finch",),)
    other = database.with_name("other.sqlite")
    with sqlite3.connect(other) as connection:
        connection.executescript(SETUP.replace("Finch", "Robin"))
    connection.close()
    kept = database.with_name("kept.sqlite")
    database.rename(kept)
    other.rename(database)
    for _ in range(2):
        with pytest.raises(DatabaseDamaged):
            await runner.run(audited, "SELECT name, city FROM shop")
    assert ledger.count(LEDGER_KIND) == 1
    kept.replace(database)
    assert rows(await runner.run(audited, "SELECT name, city FROM shop")) == (("Finch", "Oslo"),)


def test_a_kept_connection_sees_the_file_of_its_own_statement(database: Path, tmp_path: Path) -> None:
    """A worker keeps connections to the files it read last; each statement reads the file that is there now."""
    with WorkerPool(1, Limits(wall_seconds=10)) as pool:
        for name in ("Finch", "Robin", "Wren"):
            with sqlite3.connect(database) as connection:
                connection.execute("UPDATE shop SET name = ?", (name,))
            connection.close()
            outcome = pool.run(Request(Engine.SQLITE, str(database), "SELECT name FROM shop"))
            assert outcome.data.endswith(f'["{name}"]\n'.encode())
        for number in range(12):  # more files than a worker keeps
            path = tmp_path / f"{number}.sqlite"
            with sqlite3.connect(path) as connection:
                connection.executescript(f"CREATE TABLE t (a); INSERT INTO t VALUES ({number})")
            connection.close()
            outcome = pool.run(Request(Engine.SQLITE, str(path), "SELECT a FROM t"))
            assert outcome.data.endswith(f"[{number}]\n".encode())


def test_statements_leave_nothing_on_a_kept_connection(database: Path) -> None:
    with WorkerPool(1, Limits(wall_seconds=0.5, max_rows=10)) as pool:
        for sql, kind in (
            ("SELECT a.id FROM people a, people b, people c", "result_too_large"),
            (COUNTING, "timeout"),
            ("SELECT nope", "execution_error"),
            ("PRAGMA case_sensitive_like = ON", "execution_error"),
            ("CREATE TEMP VIEW shop AS SELECT 1", "execution_error"),
            ("SELECT count(*) FROM shop WHERE name LIKE 'finch'", ""),
        ):
            assert pool.run(Request(Engine.SQLITE, str(database), sql)).kind == kind, sql
        assert pool.run(Request(Engine.SQLITE, str(database), "SELECT changes(), total_changes()")).data.endswith(
            b"[0,0]\n"
        )


def test_a_worker_can_write_no_file(database: Path) -> None:
    with WorkerPool(1, Limits(wall_seconds=10)) as pool:
        pool.run(Request(Engine.SQLITE, str(database), "SELECT 1"))
        (worker,) = (worker for worker in list(pool._free.queue) if worker is not None)
        limits = Path(f"/proc/{worker.pid}/limits").read_text()
    (line,) = (line for line in limits.splitlines() if line.startswith("Max file size"))
    assert line.split()[3:5] == ["0", "0"]


async def test_what_was_asked_lately_is_kept_by_type_and_within_bounds(
    runner: SqlRunner, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "SELECT typeof(:a)"
    kinds = [rows(await runner.run(handle(database), sql, {"a": value})) for value in (1, 1.0, True, "1", b"1", 1)]
    assert kinds == [(("integer",),), (("real",),), (("integer",),), (("text",),), (("blob",),), (("integer",),)]
    monkeypatch.setattr("tasks_lib.sql.execute.REMEMBERED_BYTES", 20_000)
    for number in range(50):
        await runner.run(handle(database), f"SELECT {number}, hex(zeroblob(200))")
    assert runner._recent_bytes <= 20_000
    assert 0 < len(runner._recent) < 50
    again = await runner.run(handle(database), "SELECT 49, hex(zeroblob(200))")
    assert again is await runner.run(handle(database), "SELECT 49, hex(zeroblob(200))")


# ---- the engine's own wall ----


def test_the_authorizer_refuses_what_a_guard_might_miss(database: Path, tmp_path: Path) -> None:
    """E07: straight to the worker, past the guard."""
    before, files = database.read_bytes(), sorted(tmp_path.rglob("*"))
    evil = tmp_path / "evil.sqlite"
    with WorkerPool(1, Limits(wall_seconds=5)) as pool:
        for sql in (
            f"ATTACH DATABASE '{evil}' AS e",
            f"VACUUM INTO '{evil}'",
            "PRAGMA query_only=OFF",
            "CREATE TEMP TABLE z(a)",
            f"SELECT 1;ATTACH DATABASE '{evil}' AS f",
            "DELETE FROM people",
            "SELECT * FROM pragma_table_info('people')",
            "SELECT load_extension('x')",
            "BEGIN IMMEDIATE",
        ):
            outcome = pool.run(Request(Engine.SQLITE, str(database), sql))
            assert outcome.kind == "execution_error", sql
        for sql in (
            "SELECT count(*) FROM people",
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r WHERE n<3) SELECT n FROM r",
        ):
            assert pool.run(Request(Engine.SQLITE, str(database), sql)).kind == "", sql
    assert database.read_bytes() == before
    assert sorted(tmp_path.rglob("*")) == files


# ---- limits ----


def test_a_runaway_statement_ends_and_leaves_nothing(database: Path) -> None:
    """E01: in executing and in fetching."""
    before = running_workers()
    with WorkerPool(1, Limits(wall_seconds=1)) as pool:
        for sql in (COUNTING, LAZY):
            started = time.monotonic()
            outcome = pool.run(Request(Engine.SQLITE, str(database), sql))
            assert outcome.kind == "timeout"
            assert time.monotonic() - started < 2
            assert pool.pids() == ()
            worker = psutil.Process().children()[-1]
            used = worker.cpu_times()
            started = time.monotonic()
            assert pool.run(Request(Engine.SQLITE, str(database), "SELECT 1")).kind == ""
            assert time.monotonic() - started < 0.5
            later = worker.cpu_times()
            assert later.user - used.user < 0.2
    assert running_workers() == before


def test_fifty_runaways_leave_no_growth(database: Path) -> None:
    """E01. Most end by themselves; every tenth sits in one long function, where only killing helps."""
    processes, threads = running_workers(), threading.active_count()
    with WorkerPool(2, Limits(wall_seconds=0.3)) as pool:
        descriptors = 0
        for turn in range(50):
            outcome = pool.run(Request(Engine.SQLITE, str(database), DEAF if turn % 10 == 5 else COUNTING))
            assert outcome.kind == "timeout"
            if turn == 9:
                descriptors = len(os.listdir("/proc/self/fd"))
            assert running_workers() - processes <= 2
        assert len(os.listdir("/proc/self/fd")) <= descriptors + 1
    assert running_workers() == processes
    assert threading.active_count() == threads


def test_a_statement_that_does_not_listen_is_killed(database: Path) -> None:
    with WorkerPool(1, Limits(wall_seconds=0.3)) as pool:
        started = time.monotonic()
        outcome = pool.run(Request(Engine.SQLITE, str(database), DEAF))
        assert time.monotonic() - started < 2
        assert (outcome.kind, "killed" in outcome.error) == ("timeout", True)
        assert pool.run(Request(Engine.SQLITE, str(database), "SELECT 1")).kind == ""


def test_processor_time_is_limited(database: Path) -> None:
    with WorkerPool(1, Limits(wall_seconds=30, cpu_seconds=0.5)) as pool:
        outcome = pool.run(Request(Engine.SQLITE, str(database), COUNTING))
        assert outcome.kind == "timeout"
        assert "processor" in outcome.error


def test_large_results_are_cut_off(database: Path) -> None:
    """E03."""
    sql = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r LIMIT 3000000) SELECT n, hex(randomblob(50)) FROM r"
    resident = psutil.Process().memory_info().rss
    with WorkerPool(1, Limits(wall_seconds=20, max_rows=100_000)) as pool:
        assert pool.run(Request(Engine.SQLITE, str(database), sql)).kind == "result_too_large"
        assert pool.run(Request(Engine.SQLITE, str(database), "SELECT 1")).data.endswith(b"[1]\n")
    with WorkerPool(1, Limits(wall_seconds=20, max_bytes=MEBIBYTE)) as pool:
        assert pool.run(Request(Engine.SQLITE, str(database), sql)).kind == "result_too_large"
    assert psutil.Process().memory_info().rss - resident < 200 * MEBIBYTE


def test_memory_is_limited(database: Path) -> None:
    hungry = (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r LIMIT 4000000) "
        "SELECT max(t) FROM (SELECT hex(randomblob(100)) AS t FROM r ORDER BY t LIMIT 3999999)"
    )
    with WorkerPool(1, Limits(wall_seconds=30, memory_bytes=32 * MEBIBYTE)) as pool:
        outcome = pool.run(Request(Engine.SQLITE, str(database), hungry))
        assert (outcome.kind, "memory" in outcome.error) == ("execution_error", True)
        assert pool.run(Request(Engine.SQLITE, str(database), "SELECT 1")).kind == ""


async def test_a_killed_worker_costs_one_item(ledger: Ledger, database: Path) -> None:
    """E03."""
    async with SqlRunner(ledger, Limits(wall_seconds=20), workers=1) as runner:
        running = asyncio.ensure_future(runner.run(handle(database), COUNTING))
        while not runner._pool.pids():
            await asyncio.sleep(0.01)
        os.kill(runner._pool.pids()[0], signal.SIGKILL)
        assert (await running).kind is VerdictKind.WORKER_DIED
        assert rows(await runner.run(handle(database), "SELECT 1")) == ((1,),)


def test_closing_ends_every_idle_worker(database: Path) -> None:
    before = running_workers()
    pool = WorkerPool(3, Limits(wall_seconds=10))
    with ThreadPoolExecutor(3) as threads:
        # Each takes a while, so that three workers are needed at the same time.
        sql = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r LIMIT 3000000) SELECT max(n) FROM r"
        list(threads.map(pool.run, [Request(Engine.SQLITE, str(database), sql)] * 3))
    workers = [worker for worker in list(pool._free.queue) if worker is not None]
    assert len(workers) == 3
    pool.close()
    assert [worker.alive for worker in workers] == [False] * 3
    assert running_workers() == before


async def test_closing_ends_running_statements_and_stores_nothing(ledger: Ledger, database: Path) -> None:
    before = running_workers()
    async with SqlRunner(ledger, Limits(wall_seconds=60), workers=1) as runner:
        running = asyncio.ensure_future(runner.run(handle(database), COUNTING))
        while not runner._pool.pids():
            await asyncio.sleep(0.01)
    with pytest.raises(RuntimeError, match="closed"):
        await running
    assert running_workers() == before
    assert ledger.count(LEDGER_KIND) == 0


def _in_child(path: str) -> bytes:
    with WorkerPool(1, Limits(wall_seconds=10)) as pool:
        return pool.run(Request(Engine.SQLITE, path, "SELECT name FROM shop")).data


def test_workers_start_from_a_process_pool_child(database: Path) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(_in_child, str(database)).result().endswith(b'["Finch"]\n')


# ---- the command line's functions ----


def test_compare_once_and_check_once(database: Path) -> None:
    compared = compare_once(
        Corpus.SPIDER, str(database), "SELECT id FROM box ORDER BY id", "SELECT id FROM box ORDER BY id DESC"
    )
    assert {name: compared[name] for name in ("verdict", "rule", "comparator_version", "ordered")} == {
        "verdict": "mismatch",
        "rule": "spider/ordered",
        "comparator_version": "spider@1",
        "ordered": True,
    }
    assert compare_once(Corpus.BIRD, str(database), "SELECT id FROM box", "-- none")["verdict"] == "missing_sql"
    with pytest.raises(ValueError, match="gold SQL"):
        compare_once(Corpus.BIRD, str(database), "SELECT nope FROM box", "SELECT 1")
    assert check_once(Corpus.SPIDER, "SELECT 1")["allowed"] is True
    assert "DROP" in check_once(Corpus.SPIDER, "DROP TABLE box")["reason"]
    assert check_once(Corpus.SPIDER, "SELECT nope FROM box", str(database))["kind"] == "execution_error"
    with pytest.raises(DatabaseMissing):
        check_once(Corpus.SPIDER, "SELECT 1", "/nonexistent/x.sqlite")


async def test_a_file_that_is_not_the_audited_one_is_no_answer(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "shop.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE item (name TEXT); INSERT INTO item VALUES ('lamp');")
    audited = handle(path)
    connection.executescript("INSERT INTO item VALUES ('desk');")
    connection.close()
    async with SqlRunner(ledger, Limits(wall_seconds=10), workers=1) as runner:
        with pytest.raises(DatabaseDamaged, match=r"has sha256 \w+, expected"):
            await runner.run(audited, "SELECT count(*) FROM item")
        assert (await runner.run(handle(path), "SELECT count(*) FROM item")).rows == 1
