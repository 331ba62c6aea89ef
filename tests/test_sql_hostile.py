"""Hostile SQL against both engines: nothing is written, made, changed, left running or taken beyond the limits (known fault
E07, V05), and what only looks hostile runs (V07).

2,000 statements by default; 20,000 with `pytest -m nightly tests/test_sql_hostile.py -s`, which prints the outcomes.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import sqlite3
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
import pytest
from hostile import LOOT, harmless, hostile

from tasks_lib.protocol.records import DatabaseHandle
from tasks_lib.protocol.vocabulary import Corpus, Engine, VerdictKind
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.sql.guard import check_sql
from tasks_lib.sql.lexer import trimmed
from tasks_lib.sql.limits import MEBIBYTE, Limits
from tasks_lib.sql.postgres import READER, PostgresServer, shared_server
from tasks_lib.sql.workers import GRACE_SECONDS, Request, WorkerPool
from tasks_lib.store.keys import sha256_file
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.settings import settings

LIMITS = Limits(
    version="hostile@1",
    wall_seconds=0.6,
    cpu_seconds=5,
    memory_bytes=128 * MEBIBYTE,
    max_rows=1000,
    max_bytes=4 * MEBIBYTE,
)
CALLER_GROWTH = 256 * MEBIBYTE
SLACK_SECONDS = 20.0
"""For a machine under load, on which starting a worker alone takes seconds; without a limit the slow ones never end."""

SQLITE_SETUP = """
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL);
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 40)
INSERT INTO item SELECT n, 'item ' || n, n / 4.0 FROM r;
CREATE VIRTUAL TABLE words USING fts5(w);
INSERT INTO words VALUES ('a b'), ('c');
"""
POSTGRES_SETUP = """
CREATE TABLE public.item (id integer, name text, price numeric);
INSERT INTO public.item SELECT g, 'item ' || g, g / 4.0 FROM generate_series(1, 40) g;
CREATE SEQUENCE public.counter;
CREATE FUNCTION public.owner_power() RETURNS integer LANGUAGE sql SECURITY DEFINER
    AS 'DELETE FROM public.item; SELECT 1';
"""


@dataclass
class World:
    """The databases under attack, and every place in which a trace could be left."""

    folder: Path
    loot: Path
    server: PostgresServer
    handles: Mapping[Engine, DatabaseHandle]
    name: str

    def state(self) -> dict[str, object]:
        """Everything that must stay the same."""
        return {
            "files": _files(self.folder),
            "loot": sorted(os.listdir(self.loot)),
            "here": sorted(os.listdir()),
            "temporary": [name for name in os.listdir(tempfile.gettempdir()) if LOOT in name],
            **self._server_state(),
        }

    def _server_state(self) -> dict[str, object]:
        queries = {
            "databases": "SELECT datname, datacl::text FROM pg_database ORDER BY 1",
            "roles": "SELECT rolname, rolsuper, rolcreatedb, rolcanlogin, rolconfig::text FROM pg_roles ORDER BY 1",
            "settings": "SELECT setdatabase, setrole, setconfig::text FROM pg_db_role_setting ORDER BY 1, 2",
            "parameters": "SELECT name, setting FROM pg_file_settings ORDER BY 1, 2",
            "relations": "SELECT oid, relname, relkind, relacl::text FROM pg_class WHERE relnamespace::regnamespace::text"
            " !~ '^pg_toast' ORDER BY 1",
            "functions": "SELECT count(*), md5(string_agg(oid::text || coalesce(proacl::text, ''), ' ' ORDER BY oid))"
            " FROM pg_proc",
            "large objects": "SELECT count(*) FROM pg_largeobject_metadata",
            "sequence": "SELECT last_value, is_called FROM counter",
            "rows": "SELECT count(*), md5(string_agg(item::text, '|' ORDER BY id)) FROM item",
            "locks": "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'",
            "prepared": "SELECT count(*) FROM pg_prepared_xacts",
            "slots": "SELECT count(*) FROM pg_replication_slots",
        }
        with psycopg.connect(self.server._dsn(self.name), autocommit=True) as admin:
            found: dict[str, object] = {name: admin.execute(query).fetchall() for name, query in queries.items()}
            (data,) = admin.execute("SHOW data_directory").fetchone() or ("",)
        files = [entry for entry in Path(data).rglob("*") if LOOT in entry.name]
        return {**found, "data folder": sorted(os.listdir(data)), "data files": files}

    def sessions(self) -> int:
        """Sessions of the reader that still run a statement."""
        with self.server._connect("postgres") as admin:
            query = "SELECT count(*) FROM pg_stat_activity WHERE usename = %s AND state <> 'idle'"
            (count,) = admin.execute(query, (READER,)).fetchone() or (0,)
        return int(count)


def _files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="hostile-") as made:
        folder = Path(made) / "databases"
        loot = Path(made) / "loot"
        folder.mkdir()
        loot.mkdir()
        for place in (made, loot):
            Path(place).chmod(0o777)  # whoever could write, may: the server runs as another user
        path = folder / "shop.sqlite"
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(SQLITE_SETUP)
        dump = folder / "shop.sql"
        dump.write_text(POSTGRES_SETUP, "utf-8")
        server = shared_server(settings().postgres_url, settings().home / "postgres")
        digest = sha256_file(dump)
        server.ensure_database(dump, digest)
        handles = {
            Engine.SQLITE: DatabaseHandle("db_1", Corpus.SPIDER, Engine.SQLITE, str(path), sha256_file(path), ""),
            Engine.POSTGRES: DatabaseHandle("db_2", Corpus.LIVESQLBENCH, Engine.POSTGRES, str(dump), digest, ""),
        }
        yield World(folder, loot, server, handles, f"dsa_{digest[:40]}")


def _direct(world: World, statements: Mapping[Engine, Sequence[str]]) -> Counter[str]:
    """Past the check, straight to the engines: their own walls must hold."""
    locations = {
        Engine.SQLITE: world.handles[Engine.SQLITE].location,
        Engine.POSTGRES: world.server.ensure_database(
            Path(world.handles[Engine.POSTGRES].location), world.handles[Engine.POSTGRES].digest
        ),
    }
    found: Counter[str] = Counter()
    with WorkerPool(1, LIMITS) as pool:
        for engine, texts in statements.items():
            for sql in texts:
                outcome = pool.run(Request(engine, locations[engine], trimmed(engine, sql)))
                found[f"{engine} past the check: {outcome.kind or 'result'}"] += 1
    return found


async def _checked(world: World, ledger: Ledger, statements: Mapping[Engine, Sequence[str]]) -> Counter[str]:
    """Through the one door."""
    found: Counter[str] = Counter()
    async with SqlRunner(ledger, LIMITS, workers=2) as runner:
        for engine, texts in statements.items():
            for start in range(0, len(texts), 100):
                batch = [runner.run(world.handles[engine], sql) for sql in texts[start : start + 100]]
                for execution in await asyncio.gather(*batch):
                    found[f"{engine}: {execution.kind or 'result'}"] += 1
                    assert execution.rows <= LIMITS.max_rows
                    assert len(execution.data) <= LIMITS.max_bytes
    return found


def _attack(world: World, tmp_path: Path, seed: int, count: int, direct: int, slow_share: float) -> Counter[str]:
    """Run `count` statements through the door and `direct` of those it refuses past it; state and processes must not change."""
    statements = {engine: list(hostile(engine, seed, count // 2, str(world.loot), slow_share)) for engine in Engine}
    longest = 0.0
    for engine, texts in statements.items():
        for sql in texts:
            started = time.thread_time()
            check_sql(engine, sql)
            longest = max(longest, time.thread_time() - started)
    assert longest < 5, "the check itself must end soon"
    draw = random.Random(seed)
    refused = {
        engine: [sql for sql in texts if check_sql(engine, sql).kind is VerdictKind.REFUSED_SQL and _sendable(sql)]
        for engine, texts in statements.items()
    }
    past = {engine: draw.sample(texts, min(len(texts), direct // 2)) for engine, texts in refused.items()}
    slow = (count + direct) * slow_share + 20

    before = world.state()
    processes, threads = _workers(), threading.active_count()
    resident = psutil.Process().memory_info().rss
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}", run="hostile")
    started = time.monotonic()
    found = asyncio.run(_checked(world, ledger, statements))
    found += _direct(world, past)
    took = time.monotonic() - started
    ledger.close()

    assert world.state() == before
    assert _workers() == processes
    assert threading.active_count() <= threads
    assert psutil.Process().memory_info().rss - resident < CALLER_GROWTH
    assert took < (count + direct) * 0.1 + slow * (LIMITS.wall_seconds + GRACE_SECONDS + 1) + SLACK_SECONDS
    end = time.monotonic() + 5
    while world.sessions() and time.monotonic() < end:
        pass  # the server notices within half a second that its client is gone
    assert world.sessions() == 0
    assert sum(found.values()) == 2 * (count // 2) + sum(map(len, past.values()))
    print(f"\nseed {seed}, {count} statements and {sum(map(len, past.values()))} past the check, {took:.0f} s")
    for name, number in sorted(found.items()):
        print(f"  {name:48} {number:6}")
    return found


def _sendable(sql: str) -> bool:
    """Whether the text can go to an engine at all."""
    return not any("\ud800" <= c <= "\udfff" for c in sql)


def _workers() -> int:
    return sum("worker_main" in " ".join(child.cmdline()) for child in psutil.Process().children(recursive=True))


def test_hostile_statements_leave_no_trace(world: World, tmp_path: Path) -> None:
    found = _attack(world, tmp_path, seed=1, count=2_000, direct=100, slow_share=0.003)
    for engine in Engine:
        assert found[f"{engine}: refused_sql"] > 300
        assert found[f"{engine}: result"] > 20
        assert found[f"{engine} past the check: execution_error"] > 30


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_hostile_statements_leave_no_trace(world: World, tmp_path: Path, seed: int) -> None:
    """5,000 statements a seed, 20,000 in all; DSABENCH_HOSTILE_SEED moves all seeds for another night's statements."""
    seed += 4 * int(os.environ.get("DSABENCH_HOSTILE_SEED", "0"))
    found = _attack(world, tmp_path, seed=seed, count=5_000, direct=1_000, slow_share=0.006)
    assert sum(number for name, number in found.items() if name.endswith("timeout")) > 10


async def test_statements_that_only_look_hostile_run(world: World, tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    async with SqlRunner(ledger, Limits(wall_seconds=20), workers=2) as runner:
        for engine in Engine:
            texts = list(harmless(engine, seed=1, count=1_000))
            assert [sql for sql in texts if not check_sql(engine, sql).allowed] == []
            ran = texts[:60]
            done = await asyncio.gather(*(runner.run(world.handles[engine], sql) for sql in ran))
            assert [(sql, d.error) for sql, d in zip(ran, done, strict=True) if d.kind is not None] == []
    ledger.close()
