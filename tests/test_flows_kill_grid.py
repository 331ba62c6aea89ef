"""The whole chain killed without warning at 20 random moments, and run again each time: the tables of a run that nothing disturbed.

Takes some minutes: `pytest -s -m nightly tests/test_flows_kill_grid.py` kills one backend over a few tasks of the embedded release.
The full grid: DSABENCH_RELEASE names a release of the `paper` profile (four offline policies, every task). DSABENCH_REFERENCE names
the home of a run of the same command and code that nothing disturbed; without it, one is made first. DSABENCH_KILL_HOME names a
folder to work in that is kept, and gone on in. A line a kill is printed, and the verdict at the end.

Moments are drawn by how far the home is (ledger, artifacts, log), so that every stage is hit, whatever the speed of the machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import random
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import DSABENCH, SMALL_TASKS, TFIDF

KILLS = 20
SEED = int(os.environ.get("DSABENCH_KILL_SEED", "20"))
RELEASE = os.environ.get("DSABENCH_RELEASE", "")
REFERENCE = os.environ.get("DSABENCH_REFERENCE", "")
KEPT = os.environ.get("DSABENCH_KILL_HOME", "")
SECONDS = 4 * 3600
PROJECT = Path(__file__).resolve().parents[1]

Item = tuple[str, str, int, float, str]
"""(state, kind, attempt, time of completion, run that paid) of a ledger item."""


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


# -- what a home holds --


def _rows(database: Path, query: str) -> list[tuple[Any, ...]]:
    """Rows of a database that others write to; none while it or the table is not there."""
    if not database.exists():
        return []
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=60)) as connection:
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
            return []


def items(home: Path) -> dict[str, Item]:
    """Every item of the ledger, begun or done."""
    query = "SELECT key, state, kind, attempt, completed, run FROM items"
    return {key: (state, *rest) for key, state, *rest in _rows(home / "ledger.sqlite", query)}


def items_begun(home: Path) -> int:
    return int(next(iter(_rows(home / "ledger.sqlite", "SELECT count(*) FROM items")), (0,))[0])


def records(home: Path, table: str) -> int:
    """Artifacts of a table, by their records."""
    return len(list((home / "store" / table).glob("*.json")))


def tables_done(home: Path) -> dict[str, tuple[tuple[int, int], tuple[int, int]]]:
    """(inode, time of change) of the Parquet file and of the record of every artifact that has a record."""
    found = {}
    for record in (home / "store").glob("*/*.json"):
        pair = [p.stat() for p in (record.with_suffix(".parquet"), record)]
        found[f"{record.parent.name}/{record.stem}"] = tuple((s.st_ino, s.st_mtime_ns) for s in pair)
    return found  # type: ignore[return-value]


def contents(home: Path) -> dict[str, str]:
    """sha256 of every table and record of the store."""
    paths = [p for p in (home / "store").glob("*/*") if not p.name.startswith(".tmp-")]
    return {f"{p.parent.name}/{p.name}": hashlib.sha256(p.read_bytes()).hexdigest() for p in paths}


def run_record(home: Path) -> dict[str, Any]:
    """The record of the home's one run."""
    (path,) = (home / "runs").glob("run-*/run.json")
    return dict(json.loads(path.read_text()))


VOLATILE = (
    "invocation",
    "seconds",
    "cells_started",
    "model_calls_made",
    "sql_executions_made",
    "report",
    "routing_invocation",
)


def steady(record: dict[str, Any]) -> dict[str, Any]:
    """The record without what tells of one start: its times, its own counters, its home."""
    return {k: v for k, v in record.items() if k not in VOLATILE}


def page(home: Path) -> str:
    """The results page without the same."""
    record = run_record(home)
    text = Path(record["report"]).read_text("utf-8").replace(record["invocation"], "~").replace(str(home), "~")
    return re.sub(r"[\d,.]+ (were made in this run|s\b|seconds\b)", r"~ \1", text)


# -- when to kill --


@dataclass(frozen=True)
class Start:
    """One start of the command: where it works and where it writes."""

    home: Path
    log: Path

    def said(self, text: str) -> bool:
        return text in self.log.read_text("utf-8", "replace")


@dataclass(frozen=True)
class Moment:
    """Kill `wait` seconds after `reached`."""

    name: str
    reached: Callable[[Start], bool]
    wait: float


def spans(reference: Path) -> dict[str, float]:
    """Seconds that the stages without items of their own took in the reference: audit, tables, report."""
    begun = min((reference / "prefect").glob("*.toml"), key=lambda p: p.stat().st_mtime, default=reference / "prefect")
    changed = {
        t: [p.stat().st_mtime for p in (reference / "store" / t).glob("*.json")]
        for t in ("audit", "metrics", "analyses")
    }
    tables = sorted(changed["metrics"])
    page_written = Path(run_record(reference)["report"]).stat().st_mtime
    return {
        "audit": max(changed["audit"]) - begun.stat().st_mtime,
        "tables": max(changed["analyses"]) - tables[-2],  # the last of `metrics` is the table of all cells
        "report": page_written - max(changed["analyses"]),
    }


def moments(reference: Path, drawn: random.Random) -> list[Moment]:
    """20 moments in the order in which a run comes by: in the audit, between items, transcripts, cells, tables, in the report."""
    took = spans(reference)
    every, cells = items_begun(reference), records(reference, "episodes")
    turns = records(reference, "route_turns")
    say(f"reference: {every} items, {cells} cells, {turns} transcripts; seconds by stage {took}")

    def counted(
        what: str, count: Callable[[Path], int], of: int, kills: int, among: tuple[float, float]
    ) -> list[Moment]:
        at = sorted(max(1, int(of * drawn.uniform(*among))) for _ in range(kills))
        return [
            Moment(f"{what} {n} of {of}", lambda s, n=n: count(s.home) >= n, drawn.uniform(0.0, 1.0))  # type: ignore[misc]
            for n in at
        ]

    def after(what: str, mark: str, seconds: float, kills: int) -> list[Moment]:
        waits = sorted(drawn.uniform(0.05, 0.9) * seconds for _ in range(kills))
        return [Moment(f"{what} +{w:.1f} s", lambda s: s.said(mark), w) for w in waits]

    def scored(start: Start) -> bool:
        return start.said("factorial run-") and records(start.home, "episodes") >= cells

    found = after("audit", "retrieval audit", took["audit"], 2)
    found += counted("items", items_begun, every, 9, (0.01, 0.99))
    found += counted("transcripts", lambda home: records(home, "route_turns"), turns, 1, (0.8, 1.0))
    found += counted("cells", lambda home: records(home, "episodes"), cells, 4, (0.01, 0.99))
    found += [
        Moment(f"tables +{w:.1f} s", scored, w)
        for w in sorted(drawn.uniform(0.05, 0.9) * took["tables"] for _ in range(2))
    ]
    found += after("report", "report: verification", took["report"], 2)
    assert len(found) == KILLS
    return found


# -- killing --


def begun(command: list[str], home: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start the command in a home of its own, by the code beside this test, in a process group of its own."""
    environment = {
        k: v for k, v in os.environ.items() if k == "DSABENCH_DATA" or not k.startswith(("DSABENCH_", "PREFECT_"))
    }
    environment |= {"DSABENCH_HOME": str(home), "PYTHONPATH": str(PROJECT), "HF_HUB_OFFLINE": "1"}
    environment["PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"] = (
        "1200"  # for a machine that has other things to do
    )
    with log.open("wb") as output:
        return subprocess.Popen(
            command, env=environment, stdout=output, stderr=output, start_new_session=True, cwd=home
        )


def family_of(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]


def killed_at(moment: Moment, command: list[str], start: Start, code: int) -> bool:
    """Start the command and SIGKILL its whole process group at the moment; False when it had come to its end before, with `code`."""
    process = begun(command, start.home, start.log)
    end = time.monotonic() + SECONDS
    try:
        while not moment.reached(start):
            if process.poll() is not None:
                break
            assert time.monotonic() < end, f"{moment.name} was not reached:\n{start.log.read_text()[-2000:]}"
            time.sleep(0.1)
        with suppress(subprocess.TimeoutExpired):
            process.wait(moment.wait)
        family = family_of(process) if process.poll() is None else []
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)
    if process.returncode != -signal.SIGKILL:
        assert process.returncode == code, (
            f"{moment.name}: ended with {process.returncode}:\n{start.log.read_text()[-3000:]}"
        )
        return False
    _, alive = psutil.wait_procs(family, timeout=60)
    assert not alive, f"{moment.name}: left after the kill: {[p.cmdline() for p in alive]}"
    return True


def finished(command: list[str], home: Path, log: Path, code: int = 0) -> None:
    """Run the command to its end, which must be `code` and leave no process."""
    process = begun(command, home, log)
    assert process.wait(SECONDS) == code, log.read_text()[-3000:]
    left = [
        p.info["cmdline"] for p in psutil.process_iter(["cmdline"]) if str(home) in " ".join(p.info["cmdline"] or ())
    ]
    assert not left, left


# -- the test --


@dataclass(frozen=True)
class Kept:
    """What a home held right after a kill."""

    name: str
    at: str  # UTC, as Prefect's database writes it
    items: dict[str, Item]
    tables: dict[str, Any]
    cells: frozenset[str]  # artifact keys of cells with both of their tables


def kept_after(name: str, home: Path) -> Kept:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time()))
    tables = tables_done(home)
    cells = {k.split("/")[1] for k in tables if k.startswith("episodes/")}
    cells &= {k.split("/")[1] for k in tables if k.startswith("metrics/")}
    return Kept(name, at, items(home), tables, frozenset(cells))


def faults_of(home: Path, reference: Path, kept: list[Kept]) -> Iterator[str]:
    """Everything in which the home differs from the reference, and everything completed that was made again."""
    mine, theirs = contents(home), contents(reference)
    yield from (f"table {name} is only here" for name in sorted(mine.keys() - theirs.keys()))
    yield from (f"table {name} is missing" for name in sorted(theirs.keys() - mine.keys()))
    yield from (f"table {name} differs" for name in sorted(mine.keys() & theirs.keys()) if mine[name] != theirs[name])
    record, other = steady(run_record(home)), steady(run_record(reference))
    yield from (f"record: {k} differs" for k in sorted(record.keys() | other.keys()) if record.get(k) != other.get(k))
    if page(home) != page(reference):
        yield "the results page differs"

    last, expected = items(home), items(reference)
    if {k: (v[0], v[1]) for k, v in last.items()} != {k: (v[0], v[1]) for k, v in expected.items()}:
        yield "the ledger's items are not those of the reference"
    for key, (state, kind, attempt, _, _) in last.items():
        cut = sum(k.items.get(key, ("",))[0] == "leased" for k in kept)
        if state != "done" or attempt > 1 + cut:
            yield f"item {kind} {key} is {state} at attempt {attempt}, in flight at {cut} kills"
    tables = tables_done(home)
    names = {key: f"cell {cell}" for cell, key in run_record(home)["cell_keys"].items()}
    started = _rows(home / "prefect" / "prefect.db", "SELECT name, created FROM flow_run WHERE name LIKE 'cell %'")
    for point in kept:
        again = [k for k, v in point.items.items() if v[0] == "done" and last.get(k) != v]
        yield from (f"item {point.items[k][1]} {k} was done at {point.name} and made again" for k in again)
        yield from (
            f"{k} was done at {point.name} and written again" for k, v in point.tables.items() if tables.get(k) != v
        )
        done = {names[k] for k in point.cells if k in names}
        yield from (
            f"{n} was done at {point.name} and started again"
            for n, at in started
            if n in done and str(at) > point.at + ".99"
        )
    left = _rows(
        home / "prefect" / "prefect.db",
        "SELECT name, state_type FROM flow_run WHERE state_type IN ('RUNNING', 'PENDING')",
    )
    yield from (f"flow run {name!r} is left {state}" for name, state in left)


@pytest.mark.nightly
@pytest.mark.timeout(SECONDS)
def test_killed_at_twenty_moments_of_the_whole_chain(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    folder = Path(KEPT) if KEPT else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    home, reference = folder / "killed", Path(REFERENCE) if REFERENCE else folder / "reference"
    release = RELEASE or str(request.getfixturevalue("embedded"))
    command = [str(DSABENCH), "run", "--release", release, "--json"]
    if not RELEASE:
        command += ["--tasks", str(SMALL_TASKS), "--backend", json.dumps(TFIDF)]
    if not REFERENCE:
        reference.mkdir(exist_ok=True)
        finished(command, reference, folder / "reference.log")
    code = int(
        run_record(reference)["status"] != "completed"
    )  # a run that its checks refuse has the same tables to its end
    home.mkdir(exist_ok=True)

    drawn, notes = random.Random(SEED), folder / "kept.pickle"
    kept: list[Kept] = pickle.loads(notes.read_bytes()) if notes.exists() else []  # in a kept folder the test goes on
    seconds = time.monotonic()
    for n, moment in list(enumerate(moments(reference, drawn), 1))[len(kept) :]:
        start = Start(home, folder / f"start-{n}.log")
        while not killed_at(moment, command, start, code):
            say(f"kill {n}: the run had ended before {moment.name}; half the time")
            moment = Moment(moment.name, moment.reached, moment.wait / 2)
        point = kept_after(moment.name, home)
        kept.append(point)
        notes.write_bytes(pickle.dumps(kept))
        states = [v[0] for v in point.items.values()]
        say(
            f"kill {n} of {KILLS} at {moment.name}: {states.count('done')} items done, {len(states) - states.count('done')} in flight, "
            f"{len(point.tables)} tables, {len(point.cells)} cells"
        )
    finished(command, home, folder / "last.log", code)
    record = run_record(home)
    say(f"run to the end: {record['status']}, {record['cells']} cells, {record['cells_started']} of them started now")
    faults = list(faults_of(home, reference, kept))
    attempts = [v[2] for v in items(home).values()]
    verdict = "identical to the reference, nothing completed was made again" if not faults else f"{len(faults)} FAULTS"
    say(
        f"VERDICT after {KILLS} kills in {time.monotonic() - seconds:.0f} s: {verdict}; {len(contents(home))} files of tables and records, "
        f"{len(attempts)} items, {sum(a > 1 for a in attempts)} of them at a second attempt or later"
    )
    for fault in faults[:50]:
        say(fault)
    assert not faults
    assert record["cells_started"] == record["cells"] - len(kept[-1].cells)
