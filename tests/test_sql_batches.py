"""Statements that wait at the same time run and are stored together, and each is still an item of its own (known faults
E01, E03, P05), on real SQLite files and worker processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest
from test_sql_execution import COUNTING, DEAF, handle, rows

from tasks_lib.protocol.records import ExecutionKey
from tasks_lib.protocol.vocabulary import Engine, VerdictKind
from tasks_lib.sql.execute import ENGINE_VERSION, LEDGER_KIND, Execution, SqlRunner, execution_digest
from tasks_lib.sql.faults import DatabaseDamaged
from tasks_lib.sql.limits import DEFAULT_LIMITS, Limits
from tasks_lib.sql.workers import Request, Worker, WorkerPool
from tasks_lib.store.keys import digest
from tasks_lib.store.ledgers import Entry, Lease, Ledger, Produced, StaleLease


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE shop(name TEXT); INSERT INTO shop VALUES ('Finch');")
    return path


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}", run="test")
    yield made
    made.close()


async def _all(runner: SqlRunner, database: Path, texts: list[str]) -> list[Execution]:
    return list(await asyncio.gather(*(runner.run(handle(database), text) for text in texts)))


def _key(database: Path, sql: str) -> str:
    return execution_digest(ExecutionKey(handle(database).digest, sql, (), DEFAULT_LIMITS.version))


async def test_what_waits_together_gets_what_each_would_get_alone(tmp_path: Path, database: Path) -> None:
    texts = [f"SELECT name, {n} FROM shop" for n in range(30)] + ["SELECT nope", "SELECT 1/0.0, x'00'", "SELECT name"]
    found = []
    for name, together in ("together", True), ("alone", False):
        ledger = Ledger(f"sqlite:///{tmp_path / name}.sqlite")
        async with SqlRunner(ledger, workers=2) as runner:
            if together:
                done = await _all(runner, database, texts)
            else:
                done = [await runner.run(handle(database), text) for text in texts]
        found.append([(one.key, one.kind, one.data, one.digest, one.rows, one.error) for one in done])
        async with SqlRunner(ledger, workers=2) as later:
            assert await _all(later, database, texts) == done  # what is on disk is what was handed out
        assert ledger.count(LEDGER_KIND) == len(texts)
        ledger.close()
    assert found[0] == found[1]


async def test_a_statement_that_must_be_killed_costs_its_neighbours_nothing(ledger: Ledger, database: Path) -> None:
    async with SqlRunner(ledger, Limits(wall_seconds=0.5), workers=1) as runner:
        await _all(runner, database, [f"SELECT {n}" for n in range(4)])  # so that the next go together
        found = await _all(runner, database, ["SELECT 10", "SELECT 11", DEAF, "SELECT 12", COUNTING, "SELECT 13"])
    assert [one.kind for one in found] == [None, None, VerdictKind.TIMEOUT, None, VerdictKind.TIMEOUT, None]
    assert [rows(found[n]) for n in (0, 1, 3, 5)] == [((10,),), ((11,),), ((12,),), ((13,),)]
    assert found[2].seconds >= 0.5


def test_statements_without_an_answer_did_not_run_when_their_worker_ends(database: Path) -> None:
    worker = Worker(Limits(wall_seconds=0.5))
    asked = [Request(Engine.SQLITE, str(database), sql) for sql in ("SELECT 1", DEAF, "SELECT 2")]
    first, second, third = worker.run_many(asked)
    assert not worker.alive
    assert (second, third) == (None, None)
    assert first is None or getattr(first, "data", b"").endswith(b"[1]\n")


async def test_a_worker_that_dies_under_several_statements_costs_none(ledger: Ledger, database: Path) -> None:
    async with SqlRunner(ledger, Limits(wall_seconds=20), workers=1) as runner:
        await runner.run(handle(database), "SELECT 0")
        slow = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r LIMIT 2000000) SELECT max(n) FROM r"
        running = asyncio.ensure_future(_all(runner, database, [slow, "SELECT 1", "SELECT 2"]))
        while not runner._pool.pids():
            await asyncio.sleep(0)
        os.kill(runner._pool.pids()[0], signal.SIGKILL)
        found = await running
    assert [rows(one) for one in found] == [((2000000,),), ((1,),), ((2,),)]


async def test_items_that_were_begun_before_are_finished(ledger: Ledger, database: Path) -> None:
    begun = ledger.acquire(_key(database, "SELECT 1"), LEDGER_KIND)
    assert isinstance(begun, Lease)
    ledger.abandon(begun)
    async with SqlRunner(ledger, workers=1) as runner:
        assert [rows(one) for one in await _all(runner, database, ["SELECT 1", "SELECT 2"])] == [((1,),), ((2,),)]
    stored = ledger.get(begun.key)
    assert stored is not None
    assert stored.attempt == 2


async def test_two_runners_on_one_ledger_run_each_statement_once(ledger: Ledger, database: Path) -> None:
    texts = [f"SELECT {n}, hex(randomblob(8))" for n in range(8)]
    async with SqlRunner(ledger, workers=1) as one, SqlRunner(ledger, workers=1) as two:
        first, second = await asyncio.gather(_all(one, database, texts), _all(two, database, texts[::-1]))
    assert [one.digest for one in first] == [one.digest for one in second[::-1]]
    assert ledger.count(LEDGER_KIND) == len(texts)


async def test_a_cancelled_caller_takes_nothing_from_the_others(ledger: Ledger, database: Path) -> None:
    async with SqlRunner(ledger, workers=1) as runner:
        first, second, only = (
            asyncio.ensure_future(runner.run(handle(database), sql)) for sql in ("SELECT 1", "SELECT 1", "SELECT 2")
        )
        first.cancel()
        only.cancel()
        assert rows(await second) == ((1,),)
    assert ledger.count(LEDGER_KIND) == 1  # nobody was left who wanted the other


async def test_closing_answers_who_waits_and_frees_the_items(ledger: Ledger, database: Path) -> None:
    async with SqlRunner(ledger, Limits(wall_seconds=60), workers=1) as runner:
        waiting = [asyncio.ensure_future(runner.run(handle(database), sql)) for sql in (COUNTING, "SELECT 1")]
        while not runner._pool.pids():
            await asyncio.sleep(0.01)
    for error in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(error, RuntimeError)
        assert "closed" in str(error)
    with pytest.raises(RuntimeError, match="closed"):
        await runner.run(handle(database), "SELECT 2")
    async with SqlRunner(ledger, workers=1) as later:
        assert rows(await later.run(handle(database), "SELECT 1")) == ((1,),)


async def test_a_damaged_database_stops_its_own_statements_only(ledger: Ledger, database: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    other.write_bytes(database.read_bytes())
    damaged, sound = handle(other, "0" * 64), handle(database)
    async with SqlRunner(ledger, workers=1) as runner:
        await runner.run(sound, "SELECT 0")
        runner._batches._usual[damaged.digest] = 0.0
        results = await asyncio.gather(
            runner.run(sound, "SELECT 1"),
            runner.run(damaged, "SELECT 1"),
            runner.run(sound, "SELECT 2"),
            return_exceptions=True,
        )
    assert isinstance(results[1], DatabaseDamaged)
    assert [rows(one) for one in results if isinstance(one, Execution)] == [((1,),), ((2,),)]
    assert ledger.count(LEDGER_KIND) == 2 + 1


async def test_a_long_statement_keeps_its_lease(tmp_path: Path, database: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    keeper, taker = Ledger(url, lease_seconds=0.3), Ledger(url)
    async with SqlRunner(keeper, Limits(wall_seconds=1.0), workers=1) as runner:
        await runner.run(handle(database), "SELECT 0")
        running = asyncio.ensure_future(runner.run(handle(database), COUNTING))
        while not runner._pool.pids():
            await asyncio.sleep(0.01)
        began = time.monotonic()
        while time.monotonic() - began < 0.8:  # beyond two leases
            assert taker.acquire(_key(database, COUNTING), LEDGER_KIND) is None
            await asyncio.sleep(0.05)
        assert (await running).kind is VerdictKind.TIMEOUT
    keeper.close()
    taker.close()


def test_new_items_are_leased_all_or_none_and_stored_each_for_itself(ledger: Ledger) -> None:
    leases = ledger.lease_new(["b", "a"], "sql")
    assert [lease.key for lease in leases] == ["a", "b"]
    assert ledger.lease_new(["b", "c"], "sql") == []
    assert ledger.get_many(["a", "b"]) == {}
    assert isinstance(ledger.acquire("c", "sql"), Lease), "none was taken"
    ledger.abandon(leases[0])
    taken = ledger.acquire("a", "sql")
    assert isinstance(taken, Lease)
    late, stored = ledger.complete_many(
        [(leases[0], Produced("ok", b"late")), (leases[1], Produced("ok", b"right", {}, {"d": b"data"}))]
    )
    assert isinstance(late, StaleLease)
    assert isinstance(stored, Entry)
    assert ledger.get("a") is None
    assert ledger.get("b") == stored
    assert ledger.blob("d") == b"data"


@pytest.mark.parametrize("bindings", [(), (("a", "02134"),), (("a", 2134), ("b", 1.0))])
def test_an_execution_keeps_its_key(bindings: tuple[tuple[str, str | int | float], ...]) -> None:
    key = ExecutionKey("ab" * 32, "SELECT \"é\", '\u2028\udc80\n'", bindings, "limits@1")
    assert execution_digest(key) == digest({"version": ENGINE_VERSION, **asdict(key)})


def test_a_pool_answers_in_order(database: Path) -> None:
    with WorkerPool(1) as pool:
        texts = [f"SELECT {n}" for n in range(50)]
        found = pool.run_many([Request(Engine.SQLITE, str(database), text) for text in texts])
    assert [getattr(one, "data", b"").splitlines()[1] for one in found] == [b"[%d]" % n for n in range(50)]
