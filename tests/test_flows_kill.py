"""A factorial told to stop, killed without warning twice, and run again: the same tables, and nothing completed is made twice.

The whole chain, at 20 moments: `test_flows_kill_grid`.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from conftest import DSABENCH, SMALL_TASKS, TFIDF, SmallRun, dsabench_process

from flows import runs
from flows.stopping import SENTENCE
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.schemas import EPISODES, INTERVALS, METRICS
from tasks_lib.store.settings import settings

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def own(tmp_path: Path, small_run: SmallRun) -> Iterator[dict[str, str]]:
    """Environment of a run of the same release into a store, ledger and Prefect home of its own."""
    folder = runs.run_folder(small_run.id)
    kept = {p: p.read_bytes() for p in (folder / "run.json", folder.parent / "last.json")}
    yield {
        **os.environ,
        "DSABENCH_STORE_URL": str(tmp_path / "store"),
        "DSABENCH_LEDGER_URL": f"sqlite:///{tmp_path / 'ledger.sqlite'}",
        "PREFECT_HOME": str(tmp_path / "prefect"),
    }
    for path, content in kept.items():
        path.write_bytes(content)


def done_items(ledger: Path) -> dict[str, tuple[str, int, float, str]]:
    """(kind, attempt, time of completion, run that paid) of every completed item."""
    if not ledger.exists():
        return {}
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True, timeout=30)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'items'").fetchone():
            return {}
        rows = connection.execute("SELECT key, kind, attempt, completed, run FROM items WHERE state = 'done'")
        return {key: (kind, attempt, completed, run) for key, kind, attempt, completed, run in rows}


def signalled_when(
    reached: Callable[[], bool], number: signal.Signals, command: list[str], own: dict[str, str], log: Path
) -> int:
    """Start the command and signal it as soon as `reached`: SIGKILL its whole process group, anything else itself alone.

    Its exit code; nothing of it is left.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(command, env=own, stdout=output, stderr=output, start_new_session=True)
    end = time.monotonic() + 240
    try:
        while not reached():
            assert process.poll() is None, f"ended before the signal:\n{log.read_text()[-2000:]}"
            assert time.monotonic() < end, f"the point was not reached:\n{log.read_text()[-2000:]}"
            time.sleep(0.05)
        family = psutil.Process(process.pid).children(recursive=True)
        if number != signal.SIGKILL:
            process.send_signal(number)
            process.wait(60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive, [p.cmdline() for p in alive]
    return process.returncode


def under_way(prefect: Path) -> list[tuple[str, str]]:
    """Name and state of flow runs that Prefect takes to be at work."""
    with closing(sqlite3.connect(prefect / "prefect.db")) as connection:
        query = "SELECT name, state_type FROM flow_run WHERE state_type IN ('RUNNING', 'PENDING')"
        return [(str(name), str(state)) for name, state in connection.execute(query)]


def test_stopped_once_killed_twice_and_run_to_the_end(small_run: SmallRun, own: dict[str, str], tmp_path: Path) -> None:
    ledger, log = tmp_path / "ledger.sqlite", tmp_path / "log"
    arguments = ["factorial", "--release", str(small_run.release), "--tasks", str(SMALL_TASKS), "--json"]
    arguments += ["--backend", json.dumps(TFIDF)]
    command = [str(DSABENCH), *arguments]
    mine, shared = ArtifactStore(own["DSABENCH_STORE_URL"]), ArtifactStore(settings().resolved_store_url)
    episodes = Path(mine.root) / "episodes"

    assert (
        signalled_when(lambda: len(done_items(ledger)) >= 10, signal.SIGTERM, command, own, log) == 128 + signal.SIGTERM
    )
    assert json.loads(log.read_text().splitlines()[-1]) == {"status": "failed", "error": SENTENCE}
    assert "Traceback" not in log.read_text()
    assert under_way(tmp_path / "prefect") == []
    record = runs.load(small_run.id)[1]
    assert (record["status"], record["reason"]) == ("incomplete", "stopped; resume the run.")
    stopped = done_items(ledger)

    def reached() -> bool:
        return len(done_items(ledger)) >= max(40, len(stopped) + 10)

    assert signalled_when(reached, signal.SIGKILL, command, own, log) == -signal.SIGKILL
    in_layers = done_items(ledger)
    assert {k: v for k, v in in_layers.items() if k in stopped} == stopped
    assert not episodes.exists()

    def scoring() -> bool:
        return len(list(episodes.glob("*.parquet"))) >= 20

    assert signalled_when(scoring, signal.SIGKILL, command, own, log) == -signal.SIGKILL
    in_cells = done_items(ledger)
    # A cell is done with both of its tables: the kill may fall between them, and that cell starts again.
    cells = len(set(mine.committed(EPISODES)) & set(mine.committed(METRICS)))
    assert 0 < cells < 72
    assert {k: v for k, v in in_cells.items() if k in in_layers} == in_layers

    said = dsabench_process(*arguments, seconds=300, **own)
    assert said.code == 0, said
    record = runs.load(small_run.id)[1]
    assert (said.json["status"], said.json["cells"]) == ("completed", 72)
    assert record["cells_started"] == 72 - cells
    finished = done_items(ledger)
    # What was completed before a kill keeps its time, its attempt and who paid for it: it was not made again.
    assert {k: v for k, v in finished.items() if k in in_cells} == in_cells
    assert max(attempt for _, attempt, _, _ in finished.values()) <= 4
    for kind in ("model_call", "sql_execution"):
        made = sum(v[0] == kind for v in finished.values()) - sum(v[0] == kind for v in in_cells.values())
        assert said.json[f"{kind}s_made"] == made
    # The nightly record counts the routing study's calls too.
    factorial_calls = small_run.record["model_calls"] - small_run.record["model_calls_study_only"]
    assert said.json["model_calls"] == factorial_calls
    assert said.json["sql_executions"] == small_run.record["sql_executions"]

    assert said.json["run"] == small_run.id
    assert record["cell_keys"] == small_run.record["cell_keys"]
    for table, key in [
        (METRICS, record["metrics_key"]),
        (INTERVALS, record["intervals_key"]),
        *((EPISODES, k) for k in record["cell_keys"].values()),
    ]:
        assert Path(mine.path(table, key)).read_bytes() == Path(shared.path(table, key)).read_bytes(), (table.name, key)
