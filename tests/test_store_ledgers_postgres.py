"""A ledger on PostgreSQL, on a real server: two processes share the work, nothing is made twice (known fault P05)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from conftest import HOME
from psycopg import conninfo

from tasks_lib.sql.postgres import shared_server
from tasks_lib.store.ledger_files import export_ledger, import_ledger
from tasks_lib.store.ledgers import Entry, Lease, Ledger, LedgerUnusable, Produced, StaleLease, blob_of

WORKER = """
import asyncio, sys, time
from pathlib import Path
from tasks_lib.store.ledgers import Ledger, Produced, blob_of

url, folder, name, count, stop_at = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5])

async def main():
    ledger = Ledger(url, run=name, lease_seconds=3600)
    async def one(n):
        async def produce():
            with open(folder / f"{name}.log", "a") as log:
                log.write(f"{n}\\n")
            if n == stop_at:
                (folder / "arrived").touch()
                time.sleep(300)
            await asyncio.sleep(0)
            return Produced("ok", f"{name} {n}".encode(), {"n": n}, dict([blob_of(b"shared message")]))
        return await ledger.once(f"{n:064}", "model_call", produce)
    for start in range(0, count, 5):
        await asyncio.gather(*(one(n) for n in range(start, start + 5)))

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def admin() -> str:
    return shared_server("", HOME / "postgres")._dsn("postgres")


@pytest.fixture
def url(admin: str) -> Iterator[str]:
    """The URL of a new database, as a user writes it."""
    name = f"ledger_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    place = conninfo.conninfo_to_dict(admin)
    yield f"postgresql://{place['user']}@/{name}?host={place['host']}"
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def start(url: str, folder: Path, name: str, count: int, stop_at: int = -1) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", WORKER, url, str(folder), name, str(count), str(stop_at)]
    return subprocess.Popen(words, stderr=subprocess.PIPE)


def made_by(folder: Path, name: str) -> list[int]:
    path = folder / f"{name}.log"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def until(true: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < deadline, "the other process did not get there"
        time.sleep(0.01)


def test_two_processes_make_one_empty_ledger_and_nothing_twice(url: str, tmp_path: Path) -> None:
    workers = [start(url, tmp_path, name, 150) for name in ("one", "two")]
    for worker in workers:
        _, errors = worker.communicate(timeout=120)
        assert worker.returncode == 0, errors.decode()
    made = made_by(tmp_path, "one") + made_by(tmp_path, "two")
    assert sorted(made) == list(range(150))
    ledger = Ledger(url)
    assert ledger.count("model_call") == 150
    assert sum(meta["n"] for meta in ledger.metas("model_call")) == sum(range(150))
    assert ledger.blob(blob_of(b"shared message")[0]) == b"shared message"
    ledger.close()


async def test_work_of_a_killed_process_goes_on_at_once(url: str, tmp_path: Path) -> None:
    """Its leases run for an hour, but it died on this machine."""
    process = start(url, tmp_path, "first", 20, stop_at=7)
    try:
        until((tmp_path / "arrived").exists, process)
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    done = 5  # the first five were stored together; of the second five only two were begun
    ledger = Ledger(url, run="second")
    made: list[int] = []

    async def one(n: int) -> Entry:
        async def produce() -> Produced:
            made.append(n)
            return Produced("ok", b"second")

        return await ledger.once(f"{n:064}", "model_call", produce)

    entries = await asyncio.wait_for(asyncio.gather(*(one(n) for n in range(20))), 60)
    stored = [entry.payload.split()[0] == b"first" for entry in entries]
    assert stored[:done] == [True] * done
    assert made == [n for n, by_first in enumerate(stored) if not by_first]
    assert 7 in made
    assert ledger.reconcile() == 0
    ledger.close()


def test_an_expired_lease_is_taken_and_its_late_writer_refused(url: str) -> None:
    short, long = Ledger(url, lease_seconds=0.0), Ledger(url)
    lease = short.acquire("k", "model_call")
    assert isinstance(lease, Lease)
    taken = long.acquire("k", "model_call")
    assert isinstance(taken, Lease)
    assert taken.attempt == 2
    assert short.acquire("k", "model_call") is None
    with pytest.raises(StaleLease):
        short.complete(lease, Produced("ok", b"late"))
    long.complete(taken, Produced("ok", b"\x00right"))
    done = short.acquire("k", "model_call")
    assert isinstance(done, Entry)
    assert done.payload == b"\x00right"
    short.close()
    long.close()


def test_a_file_carries_calls_between_the_two_kinds(url: str, tmp_path: Path) -> None:
    first, second = Ledger(url), Ledger(f"sqlite:///{tmp_path / 'l.sqlite'}")
    name, data = blob_of(bytes(range(256)))
    lease = first.acquire("a" * 64, "model_call")
    assert isinstance(lease, Lease)
    first.complete(lease, Produced("ok", f'{{"messages": ["{name}"]}}'.encode(), {"cost": None}, {name: data}))
    export_ledger(first, tmp_path / "calls.parquet", ("model_call",))
    assert import_ledger(second, tmp_path / "calls.parquet") == {"items": 1, "already_there": 0, "blobs": 1}
    assert second.get("a" * 64) == first.get("a" * 64)
    assert second.blob(name) == data
    with first.engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM items"))
    assert import_ledger(first, tmp_path / "calls.parquet")["items"] == 1
    assert first.get("a" * 64) == second.get("a" * 64)
    first.close()
    second.close()


@pytest.mark.parametrize("bad", ["nonsense", "mysql://me:SECRET@h/d", "postgresql://me:SECRET@127.0.0.1:1/d"])
def test_a_url_that_is_no_ledger_is_one_sentence_without_the_password(bad: str) -> None:
    with pytest.raises(LedgerUnusable) as raised:
        Ledger(bad)
    assert "expected" in str(raised.value)
    assert "SECRET" not in str(raised.value)


def test_new_items_are_leased_and_stored_together(url: str) -> None:
    ledger = Ledger(url, run="here")
    leases = ledger.lease_new(["b" * 64, "a" * 64], "sql")
    assert [lease.key[0] for lease in leases] == ["a", "b"]
    assert ledger.lease_new(["c" * 64, "b" * 64], "sql") == []
    name, data = blob_of(b"shared")
    first, second = ledger.complete_many([(lease, Produced("ok", b"x", {}, {name: data})) for lease in leases])
    assert ledger.get_many(["a" * 64, "b" * 64, "c" * 64]) == {"a" * 64: first, "b" * 64: second}
    assert ledger.blob(name) == data
    third = ledger.acquire("c" * 64, "sql")
    assert isinstance(third, Lease), "none was taken"
    stale, stored = ledger.complete_many([(leases[0], Produced("ok", b"y")), (third, Produced("ok", b"z"))])
    assert isinstance(stale, StaleLease)
    assert isinstance(stored, Entry)
    ledger.close()
