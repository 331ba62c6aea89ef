"""A statement that never ends is stopped while it fetches too, and nothing burns afterwards (known fault E01)."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import psutil
from test_sql_execution import COUNTING, running_workers

from tasks_lib.protocol.vocabulary import Engine
from tasks_lib.sql.limits import Limits
from tasks_lib.sql.workers import Request, WorkerPool


def test_e01_endless_fetching_times_out_and_nothing_burns_afterwards(tmp_path: Path) -> None:
    database = tmp_path / "empty.sqlite"
    sqlite3.connect(database).executescript("CREATE TABLE t(a)")
    endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r) SELECT n FROM r"
    before = running_workers()
    with WorkerPool(1, Limits(wall_seconds=1, max_rows=10**9, max_bytes=10**12)) as pool:
        for sql in (COUNTING, endless):
            started = time.monotonic()
            assert pool.run(Request(Engine.SQLITE, str(database), sql)).kind == "timeout"
            assert time.monotonic() - started < 5  # the limit, its grace, and the start of a worker on a busy machine
            family = [psutil.Process(), *psutil.Process().children(recursive=True)]
            used = sum(sum(p.cpu_times()[:2]) for p in family)
            time.sleep(1)
            assert sum(sum(p.cpu_times()[:2]) for p in family) - used < 0.2
    assert running_workers() == before
