"""The routing study's calls killed without warning, again and again: no stored answer is asked for twice, the tables are the same.

Takes some minutes: `pytest -s -m nightly tests/test_flows_kill_study.py`. What is killed are processes that perform the jobs of the
study's stages; the tables are made by the study itself, which finds every route done.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from misbehaving import LASTING, TRANSIENT, Misbehaving, misbehaving_server
from servers import ModelServer
from test_flows_misbehaving import digest_of, entries

from flows import runs
from flows.routing_study import routing_study
from flows.wanted import RunSpec, routes_key, wanted_tasks
from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.transcripts import FAILED, KIND
from tasks_lib.scoring.cells import ROUTING_STUDY_ROUTERS
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.jobs import Job
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.schemas import INTERVALS, TABLES

KILLS, TASKS = 20, 40
CONCURRENCY = 4
ATTEMPTS = 3
FAULTS = (*TRANSIENT, *LASTING)
"""Faults that one call gets through."""

NURSERY = """
import asyncio, os, pickle, sys
import litellm, sentence_transformers  # once for all: a process takes seconds to import them
from pathlib import Path
from tasks_lib.routing import layer
from tasks_lib.store.jobs import perform

async def work(jobs):
    await asyncio.gather(*(perform(job) for job in jobs))

for line in sys.stdin:
    pid = os.fork()
    if not pid:
        asyncio.run(work(pickle.loads(Path(line.strip()).read_bytes())))
        os._exit(0)
    print(pid, flush=True)
    print(os.waitpid(pid, 0)[1], flush=True)
"""


@contextmanager
def nursery() -> Iterator[subprocess.Popen[str]]:
    """A process that starts workers: a line with a file of jobs in, the worker's pid out, then how it ended."""
    command = [sys.executable, "-c", NURSERY]
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def worker(process: subprocess.Popen[str], jobs: list[Job], folder: Path) -> int:
    """Start a worker on the jobs; its pid."""
    assert process.stdin is not None
    assert process.stdout is not None
    (folder / "jobs").write_bytes(pickle.dumps(jobs))
    process.stdin.write(f"{folder / 'jobs'}\n")
    process.stdin.flush()
    return int(process.stdout.readline())


def ended(process: subprocess.Popen[str]) -> int:
    """How the last worker ended: 0, or the number of the signal."""
    assert process.stdout is not None
    return int(process.stdout.readline())


def jobs_of(run: RunSpec, spec: BackendSpec, folder: Path) -> list[Job]:
    """The jobs of the study's routes."""
    common = {
        "public": f"{run.release}/public",
        "backend": spec.model_dump(),
        "task_ids": wanted_tasks(run),
        "trial": 0,
    }
    function, inputs = "tasks_lib.routing.layer:initial_routes", {"release": run.manifest}
    store, ledger = str(folder / "store"), f"sqlite:///{folder / 'ledger.sqlite'}"
    return [
        Job(function, "routes", routes_key(run, spec, r), store, ledger, "", {**common, "router": str(r)}, inputs)
        for r in ROUTING_STUDY_ROUTERS
    ]


def stored(folder: Path) -> set[str]:
    """Digests of the requests whose answers are in the ledger, as the server takes them."""
    ledger = Ledger(f"sqlite:///{folder / 'ledger.sqlite'}")
    found = {digest_of(ledger, entry) for entry in entries(ledger, KIND)}
    ledger.close()
    return found


def sent(folder: Path) -> int:
    """Requests that the ledger tells of."""
    ledger = Ledger(f"sqlite:///{folder / 'ledger.sqlite'}")
    found = sum(meta["attempts"] for kind in (KIND, FAILED) for meta in ledger.metas(kind))
    ledger.close()
    return int(found)


def leased(folder: Path) -> int:
    """Items in progress."""
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as connection:
        return int(connection.execute("SELECT count(*) FROM items WHERE state = 'leased'").fetchone()[0])


def kill_after(requests: int, pid: int, behave: Misbehaving) -> None:
    """SIGKILL the worker when so many more requests have arrived."""
    wanted = len(behave.log) + requests
    assert behave.wait_for(wanted, 300), f"the worker asked {len(behave.log)} times, expected {wanted}"
    os.kill(pid, signal.SIGKILL)


def tables(folder: Path, record: dict[str, Any]) -> dict[str, bytes]:
    """Every table of a study, as written."""
    store = ArtifactStore(str(folder / "store"))
    keys = {(name.removesuffix("_key"), key) for name, key in record.items() if name.endswith("_key")}
    keys |= {("routes", key) for key in record["routing_routes"].values()}
    keys |= {("route_turns", key) for key in record["routing_turns"].values()}
    known = {**TABLES, "routing_intervals": INTERVALS}
    return {f"{name} {key}": Path(store.path(known[name], key)).read_bytes() for name, key in keys}


@pytest.mark.nightly
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("protocol", ["text", "native"])
def test_no_stored_answer_is_asked_for_again(
    embedded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    whole.mkdir()
    cut.mkdir()
    server: ModelServer
    with misbehaving_server(faults=FAULTS, calm=True) as (server, behave), nursery() as process:
        fields: dict[str, Any] = {"protocol": protocol, "concurrency": CONCURRENCY}
        spec = BackendSpec(name=protocol, model=f"hosted_vllm/{protocol}", api_base=server.url, **fields)
        run = runs.spec_of(embedded, [spec], tasks=TASKS)
        worker(process, jobs_of(run, spec, whole), whole)
        assert ended(process) == 0
        requests = len(behave.log)
        assert requests == sent(whole)

        behave.forget()
        behave.calm = False
        drawn = random.Random(KILLS)
        jobs = jobs_of(run, spec, cut)
        known: list[tuple[int, set[str]]] = []
        for _ in range(KILLS):
            share = max(1, int(requests / (KILLS + 1) * drawn.uniform(0.2, 1.0)))
            kill_after(share, worker(process, jobs, cut), behave)
            assert ended(process) == signal.SIGKILL, "the worker came to its end before it could be killed"
            known.append((len(behave.log), stored(cut)))
        worker(process, jobs, cut)
        assert ended(process) == 0
        asked = [seen.digest for seen in behave.log]

        records = []
        for folder in (whole, cut):
            monkeypatch.setenv("DSABENCH_STORE_URL", str(folder / "store"))
            monkeypatch.setenv("DSABENCH_LEDGER_URL", f"sqlite:///{folder / 'ledger.sqlite'}")
            records.append(dict(asyncio.run(routing_study(str(embedded), [spec], tasks=TASKS))))
        assert len(behave.log) == len(asked), "the study found a route that was not done"

    for place, answers in known:
        assert not answers & set(asked[place:]), "an answer that was stored was asked for again"
    assert known[-1][1], "nothing was stored before the last kill"
    assert leased(cut) == 0
    # What the ledger does not tell of was in flight at a kill: at most the attempts of one call in every place.
    assert 0 <= len(asked) - sent(cut) <= KILLS * CONCURRENCY * ATTEMPTS
    assert stored(cut) == stored(whole)
    print(
        f"{protocol}: {KILLS} kills; {len(asked)} requests seen, {sent(cut)} of them in the ledger, {requests} in an "
        f"uninterrupted run; answers stored before the kills: {[len(answers) for _, answers in known]}"
    )
    one, two = (tables(folder, record) for folder, record in zip((whole, cut), records, strict=True))
    assert one == two
