"""Two processes at the same run: the second is told in one sentence, and touches nothing; the hold ends with whoever has it."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import DSABENCH, SMALL_TASKS, TFIDF, Said, SmallRun

from flows import runs
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.schemas import TABLES


def words(run: SmallRun) -> list[str]:
    """Options of the small run."""
    return ["--release", str(run.release), "--tasks", str(SMALL_TASKS), "--backend", json.dumps(TFIDF), "--json"]


def test_the_second_process_is_told_and_touches_nothing(small_run: SmallRun, dsabench: Callable[..., Said]) -> None:
    record = (runs.run_folder(small_run.id) / "run.json").read_bytes()
    with (runs.runs_folder() / f".{small_run.id}.at-work").open("w") as other:  # as if another process had it
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write("4711\n")
        other.flush()
        said = dsabench("factorial", *words(small_run))
    assert said.code == 1
    assert said.json["error"].startswith(f"{small_run.id} is at work in process 4711 already, expected nobody at it")
    assert "Traceback" not in said.err
    assert (runs.run_folder(small_run.id) / "run.json").read_bytes() == record
    with runs.alone(small_run.id), runs.alone(small_run.id):  # free again; a subflow comes in too
        pass


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_the_same_command_twice_at_the_same_moment_makes_everything_once(small_run: SmallRun, tmp_path: Path) -> None:
    """Takes a minute: `pytest -m nightly tests/test_flows_alone.py`."""
    home = tmp_path / "home"
    home.mkdir()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")} | {"DSABENCH_HOME": str(home)}
    command = [str(DSABENCH), "run", *words(small_run)]
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    ended = [(json.loads(p.communicate()[0].splitlines()[-1]), p.returncode) for p in both]
    said = sorted(ended, key=lambda end: end[1])
    assert [code for _, code in said] == [0, 1]
    assert "is at work in process" in said[1][0]["error"]
    mine, expected = ArtifactStore(str(home / "store")), ArtifactStore()
    for table in TABLES.values():
        for key in mine.committed(table):
            assert mine.record(table, key) == expected.record(table, key), (table.name, key)
    assert mine.committed(TABLES["episodes"])
