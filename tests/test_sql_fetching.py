"""Rows that are fetched and encoded together end as rows taken one by one do, and a worker starts with little."""

from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tasks_lib.sql import fetching
from tasks_lib.sql.canonical import Value, row_bytes
from tasks_lib.sql.fetching import Deadline, Outcome, collect, collect_together
from tasks_lib.sql.limits import Limits
from tasks_lib.sql.sqlite import Connections
from tasks_lib.store.settings import PROJECT_ROOT

Row = tuple[Value, ...]
VALUES = st.one_of(
    st.none(), st.integers(-9, 9), st.sampled_from(["", "x" * 30, "],[", "é", "\udcff", b"ab", math.inf, 0.5])
)


class _Broken(Exception):
    """What an engine raises between two rows."""


def _coming(rows: list[Row], broken: bool) -> Iterator[Row]:
    yield from rows
    if broken:
        raise _Broken


@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(VALUES, VALUES), max_size=12),
    repeated=st.sampled_from([1, 1, 50]),
    most=st.integers(1, 700),
    size=st.integers(40, 4_000),
    broken=st.booleans(),
    over=st.booleans(),
)
def test_rows_taken_together_end_as_rows_taken_one_by_one(
    rows: list[Row], repeated: int, most: int, size: int, broken: bool, over: bool
) -> None:
    limits = Limits(max_rows=most, max_bytes=size)
    deadline = Deadline(-1 if over else 1000)
    ends: list[Outcome | type[_Broken]] = []
    for how in (
        lambda r: collect(("a", "b"), r, limits, deadline, row_bytes),
        lambda r: collect_together(("a", "b"), r, limits, deadline),
    ):
        try:
            ends.append(how(_coming(rows * repeated, broken)))
        except _Broken:
            ends.append(_Broken)
    assert ends[0] == ends[1]


def test_what_fills_the_memory_is_too_large_before_it_is_encoded() -> None:
    """Rows are held before they are counted: they may take all memory, and still the limit that they broke first is told."""

    def rows() -> Iterator[Row]:
        yield from [("x" * 60,), ("y" * 60,)]
        raise MemoryError

    outcome = collect_together(["a"], rows(), Limits(max_bytes=150), Deadline(1000))
    assert (outcome.kind, "150 bytes" in outcome.error) == ("result_too_large", True)
    assert fetching._CLOCK_ROWS > 2


def test_text_that_is_no_utf8_is_met_late(tmp_path: Path) -> None:
    """C06: the driver reads text itself until it fails; the statement then runs again, and nothing of its rows is lost."""
    path = tmp_path / "late.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE t (a)")
        connection.executemany("INSERT INTO t VALUES (CAST(? AS TEXT))", [(b"a%d" % n,) for n in range(600)])
        connection.execute("INSERT INTO t VALUES (CAST(x'61FF' AS TEXT))")
        connection.commit()
    files = Connections(Limits())
    outcome = files.run(str(path), "SELECT a FROM t")
    assert outcome.data.split(b"\n")[1:] == [b'["a%d"]' % n for n in range(600)] + [b'["a\\udcff"]', b""]
    files.close()


def test_a_worker_starts_with_little() -> None:
    """A start costs what a dozen statements cost; each of these would add as much again."""
    heavy = {
        "json",
        "re",
        "enum",
        "typing",
        "dataclasses",
        "inspect",
        "pathlib",
        "decimal",
        "uuid",
        "hashlib",
        "urllib.parse",
    }
    program = "import sys; import tasks_lib.sql.worker_main; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", program],
        env={"PYTHONPATH": str(PROJECT_ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert heavy & set(done.stdout.split()) == set()
