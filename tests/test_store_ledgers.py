"""Ledgers (known fault P05) with real processes: leases, stale writers, shared work, one production per key."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tasks_lib.store.ledgers import Entry, Lease, Ledger, Produced, StaleLease, blob_of, items

WORKER = """
import asyncio, os, sys, time
from pathlib import Path
from tasks_lib.store.ledgers import Ledger, Produced

url, folder, name, lease, count, stop_at = sys.argv[1], Path(sys.argv[2]), sys.argv[3], float(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6])

async def main():
    ledger = Ledger(url, run=name, lease_seconds=lease)
    for n in range(count):
        async def produce():
            with open(folder / f"{name}.log", "a") as log:
                log.write(f"{n}\\n")
            if n == stop_at:
                (folder / "arrived").touch()
                while not (folder / "go").exists():
                    time.sleep(0.01)
            return Produced("ok", f"{name} {n}".encode())
        await ledger.once(f"{n:064}", "sql", produce)

asyncio.run(main())
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.sqlite'}"


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    made = Ledger(url, run="here")
    yield made
    made.close()


def _start(url: str, folder: Path, name: str, lease: float, count: int, stop_at: int = -1) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", WORKER, url, str(folder), name, str(lease), str(count), str(stop_at)]
    return subprocess.Popen(words, stderr=subprocess.PIPE)


def _until(true: Callable[[], bool], process: subprocess.Popen[bytes], seconds: float = 60) -> None:
    """Waits for something another process does."""
    deadline = time.monotonic() + seconds
    while not true():
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < deadline, "the other process did not get there"
        time.sleep(0.01)


def _log(folder: Path, name: str) -> list[int]:
    path = folder / f"{name}.log"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


async def _work(ledger: Ledger, count: int, made: list[int]) -> list[Entry]:
    async def one(n: int) -> Entry:
        async def produce() -> Produced:
            made.append(n)
            return Produced("ok", f"here {n}".encode())

        return await ledger.once(f"{n:064}", "sql", produce)

    return [await one(n) for n in range(count)]


async def test_work_of_a_killed_process_goes_on_where_it_stopped(url: str, ledger: Ledger, tmp_path: Path) -> None:
    process = _start(url, tmp_path, "first", 3600, 20, stop_at=7)
    try:
        _until((tmp_path / "arrived").exists, process)
        os.kill(process.pid, signal.SIGKILL)
        _until(lambda: _state(process.pid) in {"Z", ""}, process) if process.poll() is None else None
        made: list[int] = []
        entries = await asyncio.wait_for(_work(ledger, 20, made), 60)
    finally:
        process.kill()
        process.wait()
    assert made == list(range(7, 20))
    assert [entry.payload.decode().split()[0] for entry in entries] == ["first"] * 7 + ["here"] * 13
    assert ledger.reconcile() == 0
    assert (ledger.count("sql"), ledger.count("sql", "first"), ledger.count("sql", "here")) == (20, 7, 13)
    assert entries[7].attempt == 2


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return ""


async def test_a_stopped_process_that_wakes_is_refused(url: str, ledger: Ledger, tmp_path: Path) -> None:
    process = _start(url, tmp_path, "sleeper", 0.5, 20, stop_at=7)
    try:
        _until((tmp_path / "arrived").exists, process)
        os.kill(process.pid, signal.SIGSTOP)
        made: list[int] = []
        entries = await asyncio.wait_for(_work(ledger, 20, made), 60)
        (tmp_path / "go").touch()
        os.kill(process.pid, signal.SIGCONT)
        assert process.wait(60) != 0
        assert process.stderr is not None
        assert b"stale_lease" in process.stderr.read()
    finally:
        process.kill()
        process.wait()
    assert made == list(range(7, 20))
    assert entries[7].payload == b"here 7"
    stored = ledger.get(f"{7:064}")
    assert stored is not None
    assert stored.payload == b"here 7"


def test_two_processes_share_the_work_and_do_nothing_twice(url: str, ledger: Ledger, tmp_path: Path) -> None:
    workers = [_start(url, tmp_path, name, 60, 150) for name in ("one", "two")]
    for worker in workers:
        _, errors = worker.communicate(timeout=120)
        assert worker.returncode == 0, errors.decode()
    made = [_log(tmp_path, name) for name in ("one", "two")]
    assert sorted(made[0] + made[1]) == list(range(150))
    assert ledger.count("sql") == 150


async def test_equal_keys_in_flight_are_produced_once(url: str, ledger: Ledger) -> None:
    other = Ledger(url, run="other")
    made: list[int] = []

    async def produce() -> Produced:
        made.append(1)
        await asyncio.sleep(0)
        return Produced("ok", b"x")

    entries = await asyncio.gather(*(led.once("k" * 64, "sql", produce) for led in (ledger, other) for _ in range(10)))
    other.close()
    assert len(made) == 1
    assert {entry.payload for entry in entries} == {b"x"}


async def test_a_producer_that_raises_leaves_the_item_free_at_once(ledger: Ledger) -> None:
    async def fail() -> Produced:
        raise ConnectionError("down")

    async def work() -> Produced:
        return Produced("ok", b"up")

    outcomes = await asyncio.gather(*(ledger.once("k", "sql", fail) for _ in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ConnectionError] * 3
    assert ledger.get("k") is None
    assert (await asyncio.wait_for(ledger.once("k", "sql", work), 5)).payload == b"up"


async def test_cancelling_the_producers_caller_does_not_cancel_those_who_wait(ledger: Ledger) -> None:
    started = asyncio.Event()

    async def forever() -> Produced:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def work() -> Produced:
        return Produced("ok", b"mine")

    first = asyncio.create_task(ledger.once("k", "sql", forever))
    await started.wait()
    second = asyncio.create_task(ledger.once("k", "sql", work))
    await asyncio.sleep(0)
    first.cancel()
    assert (await asyncio.wait_for(second, 5)).payload == b"mine"
    assert first.cancelled()


async def test_cancelling_everyone_cancels_everyone(ledger: Ledger) -> None:
    started = asyncio.Event()

    async def forever() -> Produced:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    tasks = [asyncio.create_task(ledger.once("k", "sql", forever)) for _ in range(3)]
    await started.wait()
    for task in tasks:
        task.cancel()
    outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
    assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError] * 3
    assert isinstance(ledger.acquire("k", "sql"), Lease)


def test_a_live_lease_is_respected_and_an_expired_one_is_taken(url: str, ledger: Ledger) -> None:
    short = Ledger(url, run="short", lease_seconds=0.0)
    lease = short.acquire("k", "sql")
    assert isinstance(lease, Lease)
    taken = ledger.acquire("k", "sql")
    assert isinstance(taken, Lease)
    assert taken.attempt == 2
    assert short.acquire("k", "sql") is None
    with pytest.raises(StaleLease):
        short.heartbeat(lease)
    with pytest.raises(StaleLease, match="stale_lease"):
        short.complete(lease, Produced("ok", b"late"))
    short.abandon(lease)
    ledger.complete(taken, Produced("ok", b"right"))
    done = short.acquire("k", "sql")
    assert isinstance(done, Entry)
    assert done.payload == b"right"
    with pytest.raises(StaleLease):
        ledger.complete(taken, Produced("ok", b"twice"))
    short.close()


async def test_a_long_call_keeps_its_lease(url: str) -> None:
    keeper, taker = Ledger(url, lease_seconds=0.6), Ledger(url)
    ended = asyncio.Event()

    async def slow() -> Produced:
        await ended.wait()
        return Produced("ok", b"slow")

    call = asyncio.create_task(keeper.once("k", "sql", slow))
    began = time.monotonic()
    await asyncio.sleep(0.05)
    while time.monotonic() - began < 1.5:  # beyond two leases
        assert taker.acquire("k", "sql") is None
        await asyncio.sleep(0.05)
    ended.set()
    assert (await call).payload == b"slow"
    keeper.close()
    taker.close()


def test_reconcile_frees_what_no_one_holds(url: str, ledger: Ledger) -> None:
    expired = Ledger(url, lease_seconds=0.0)
    assert isinstance(expired.acquire("expired", "sql"), Lease)
    assert isinstance(ledger.acquire("held", "sql"), Lease)
    assert ledger.reconcile() == 1
    assert ledger.acquire("held", "sql") is None
    expired.close()


def test_large_content_is_stored_once(ledger: Ledger) -> None:
    name, data = blob_of(b"x" * 1000)
    for key in ("a", "b"):
        lease = ledger.acquire(key, "sql")
        assert isinstance(lease, Lease)
        ledger.complete(lease, Produced("ok", b"", {"n": 1}, {name: data}))
    assert ledger.blob(name) == data
    with pytest.raises(KeyError):
        ledger.blob("none")
    found = ledger.get_many(["a", "b", "c"])
    assert sorted(found) == ["a", "b"]
    assert found["a"].meta == {"n": 1}
    with ledger.engine.connect() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM blobs")).scalar() == 1
        assert connection.execute(sa.select(sa.func.count()).select_from(items)).scalar() == 2
