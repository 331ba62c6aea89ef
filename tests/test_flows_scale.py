"""Other places for the same work, byte for byte: artifacts on s3:// (a server on loopback), a PostgreSQL ledger, Dask workers, a Prefect
server that keeps its records in PostgreSQL; each alone and all together, and what becomes of a run when one of them goes away.

Whole runs: `pytest -m nightly tests/test_flows_scale.py --timeout=0`. Prefect wants the extension pg_trgm, which the embedded server does
not have: its tests take the programs of a PostgreSQL that is installed (`apt-get install postgresql`).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import DSABENCH, HOME, TFIDF, Said, SmallRun, dsabench_process
from psycopg import conninfo

from flows.cell import cell
from flows.wanted import recorded_chains
from tasks_lib.protocol.vocabulary import Router
from tasks_lib.scoring.cells import parse
from tasks_lib.sql.postgres import shared_server
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.jobs import Job, perform_blocking
from tasks_lib.store.ledgers import Ledger, items
from tasks_lib.store.runners import RunnerUnusable, check_runner, open_runner
from tasks_lib.store.schemas import (
    ASKS,
    CONTRIBUTIONS,
    EPISODES,
    METRICS,
    PLANS,
    REAL,
    RELEASES,
    ROUTES,
    STR,
    TABLES,
    Table,
)
from tasks_lib.store.settings import settings

SCORES = Table("scores", 1, "Scores.", [("cell", STR, "cell"), ("score", REAL, "score")], ("cell",))
CELL = "offline-tfidf.direct.adapter.oracle.once.router"
FEW = ("--tasks", "10", "--backend", json.dumps(TFIDF))
ALWAYS_OTHER = ("invocation", "seconds", "report")
"""Fields of a run's record that two runs never share: a random word, a time, a path below the home."""
Where = dict[str, str]


@dataclass
class Bucket:
    """An S3 server on loopback with one bucket, which can be stopped and started again with what it holds."""

    server: Any
    url: str = "s3://bench/store"
    environment: Where = field(default_factory=dict)

    def start(self, port: int = 0) -> None:
        from moto.server import ThreadedMotoServer

        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
        self.server.start()
        host, self.port = self.server.get_host_and_port()
        self.environment = {
            "AWS_ACCESS_KEY_ID": "nobody",
            "AWS_SECRET_ACCESS_KEY": "nothing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://{host}:{self.port}",
        }


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    import boto3

    made = Bucket(None)
    made.start()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment.items():
            patch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket="bench")
        yield made
    made.server.stop()


@pytest.fixture(scope="module")
def admin() -> str:
    return shared_server("", HOME / "postgres")._dsn("postgres")


@pytest.fixture
def ledger_url(admin: str) -> Iterator[str]:
    """A new database on the embedded PostgreSQL server."""
    name, place = f"ledger_{uuid.uuid4().hex[:12]}", conninfo.conninfo_to_dict(admin)
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        yield f"postgresql://{place['user']}@/{name}?host={place['host']}"
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture(scope="module")
def prefect_url() -> Iterator[str]:
    """SQLAlchemy URL of a new database for Prefect, on a server of installed programs that this starts and stops."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    if not found or not (found[-1].parents[1] / "lib/pg_trgm.so").exists():
        pytest.skip("no PostgreSQL with pg_trgm is installed, expected one below /usr/lib/postgresql")
    programs, user = found[-1].parent, "postgres" if os.getuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="dsa-pg-"))
    if user:
        shutil.chown(folder, user)

    def call(program: str, *words: str) -> None:
        command = [str(programs / program), "-D", str(folder / "data"), *words]
        subprocess.run(command, user=user, cwd="/", check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    try:
        call("initdb", "-A", "trust", "-U", "prefect", "-E", "UTF8")
        call("pg_ctl", "-w", "-l", str(folder / "log"), "-o", f"-h '' -k {folder}", "start")
        try:
            yield f"postgresql+asyncpg://prefect@/postgres?host={folder}"
        finally:
            call("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def cluster(shared: Where) -> Iterator[Any]:
    """Dask's scheduler and two worker processes, reached by address."""
    from distributed import LocalCluster

    with pytest.MonkeyPatch.context() as patch:
        for name, value in shared.items():  # workers elsewhere have an environment of their own
            patch.setenv(name, value)
        with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0") as made:
            yield made


@pytest.fixture(scope="module")
def shared(admin: str) -> Where:
    """The one PostgreSQL server that all runs query LiveSQLBench on; each run has a home of its own."""
    place = conninfo.conninfo_to_dict(admin)
    return {"DSABENCH_POSTGRES_URL": f"postgresql://{place['user']}@/postgres?host={place['host']}"}


@dataclass(frozen=True)
class Ran:
    """A finished run: what the command said, its record, its page without the time it took, its store."""

    said: Said
    record: dict[str, Any]
    page: str
    store: ArtifactStore


def own(home: Path, **more: str) -> Where:
    return {"DSABENCH_HOME": str(home), "PREFECT_HOME": str(home / "prefect"), **more}


def run(home: Path, release: Path, *words: str, **environment: str) -> Ran:
    """`dsabench run` in a home of its own, to its good end."""
    where = own(home, **environment)
    said = dsabench_process("run", "--release", str(release), *words, "--json", seconds=3600, **where)
    assert said.code == 0, said.err[-3000:]
    found = json.loads((home / "runs" / said.json["run"] / "run.json").read_text())
    page = re.sub(r"[\d,.]+ seconds", "some seconds", Path(said.json["report"]).read_text())
    return Ran(said, found, page, ArtifactStore(where.get("DSABENCH_STORE_URL") or str(home / "store")))


def assert_same(mine: Ran, other: Ran) -> None:
    """The same artifacts under the same keys, byte for byte, with the same records; the same record of the run; the same page."""
    files = 0
    for table in TABLES.values():
        keys = other.store.committed(table)
        assert mine.store.committed(table) == keys, table.name
        for key in keys:
            assert mine.store.record(table, key) == other.store.record(table, key), (table.name, key)
            there, here = (s.fs.cat_file(s.path(table, key)) for s in (mine.store, other.store))
            assert there == here, (table.name, key)
        files += len(keys)
    assert files > 2 * other.record["cells"]  # episodes and metrics of every cell, and the layers
    for name in sorted({*mine.record, *other.record} - set(ALWAYS_OTHER)):
        assert mine.record.get(name) == other.record.get(name), name
    assert mine.page == other.page


@pytest.fixture(scope="module")
def local(embedded: Path, shared: Where, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The few tasks run on this machine alone: files, SQLite, worker processes."""
    return run(tmp_path_factory.mktemp("local"), embedded, *FEW, **shared)


@pytest.mark.nightly
@pytest.mark.parametrize("place", ["s3", "ledger", "dask", "scheduler", "prefect"])
def test_one_place_elsewhere_gives_the_same_bytes(
    place: str, embedded: Path, shared: Where, local: Ran, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    words, where = list(FEW), dict(shared)
    if place == "s3":
        where["DSABENCH_STORE_URL"] = f"{request.getfixturevalue('bucket').url}-alone"
    elif place == "ledger":
        where["DSABENCH_LEDGER_URL"] = request.getfixturevalue("ledger_url")
    elif place == "prefect":
        where["PREFECT_API_DATABASE_CONNECTION_URL"] = request.getfixturevalue("prefect_url")
        where["DSABENCH_CELLS_AT_ONCE"] = "8"
    else:
        words += [
            "--runner",
            "dask" if place == "dask" else request.getfixturevalue("cluster").scheduler_address,
        ]
    assert_same(run(tmp_path / "home", embedded, *words, **where), local)


@pytest.mark.nightly
def test_a_whole_run_with_everything_elsewhere_gives_the_same_bytes(
    embedded: Path, shared: Where, bucket: Bucket, ledger_url: str, prefect_url: str, cluster: Any, tmp_path: Path
) -> None:
    there = run(
        tmp_path / "there",
        embedded,
        "--runner",
        cluster.scheduler_address,
        **shared,
        DSABENCH_STORE_URL=f"{bucket.url}-whole",
        DSABENCH_LEDGER_URL=ledger_url,
        PREFECT_API_DATABASE_CONNECTION_URL=prefect_url,
        DSABENCH_CELLS_AT_ONCE="8",
    )
    assert (there.record["cells"], there.said.json["status"]) == (288, "completed")
    assert_same(there, run(tmp_path / "here", embedded, **shared))


def done(url: str) -> dict[str, tuple[str, int, float, str]]:
    """(kind, attempt, time of completion, run that paid) of every completed item of a ledger."""
    ledger = Ledger(url)
    try:
        with ledger.engine.connect() as connection:
            columns = (items.c.key, items.c.kind, items.c.attempt, items.c.completed, items.c.run)
            rows = connection.execute(items.select().with_only_columns(*columns).where(items.c.state == "done"))
            return {key: (kind, attempt, completed, run) for key, kind, attempt, completed, run in rows}
    finally:
        ledger.close()


def cut(home: Path, release: Path, url: str, away: Callable[[], object], *words: str, **environment: str) -> Said:
    """`dsabench run` during which `away` is called, once the ledger at `url` holds 40 items; what it said at its end."""
    command = [str(DSABENCH), "run", "--release", str(release), *FEW, *words, "--json"]
    where = {**os.environ, **own(home, **environment)}
    with (home.parent / "out").open("w+") as out, (home.parent / "err").open("w+") as err:
        process = subprocess.Popen(command, env=where, stdout=out, stderr=err)
        end = time.monotonic() + 900
        while len(done(url)) < 40:
            assert process.poll() is None, (home.parent / "err").read_text()[-3000:]
            assert time.monotonic() < end
            time.sleep(0.2)
        away()
        code = process.wait(900)
    return Said(code, (home.parent / "out").read_text(), (home.parent / "err").read_text())


def assert_one_sentence(said: Said, about: str) -> None:
    assert said.code == 1, said
    assert about in (said.json.get("error") or said.json["reason"])
    assert "Traceback" not in said.err, said.err[-3000:]


@pytest.mark.nightly
def test_a_worker_of_dask_that_dies_costs_nothing(
    embedded: Path, shared: Where, local: Ran, cluster: Any, ledger_url: str, tmp_path: Path
) -> None:
    home, where = tmp_path / "home", {**shared, "DSABENCH_LEDGER_URL": ledger_url}

    def kill() -> None:
        for worker in list(cluster.workers.values())[:1]:
            os.kill(worker.pid, signal.SIGKILL)

    said = cut(home, embedded, ledger_url, kill, "--runner", cluster.scheduler_address, **where)
    assert said.code == 0, said.err[-3000:]
    again = run(home, embedded, *FEW, **where)
    assert (again.record["model_calls_made"], again.record["cells_started"]) == (0, 0)
    for table in TABLES.values():
        for key in local.store.committed(table):
            assert again.store.record(table, key) == local.store.record(table, key), (table.name, key)


@pytest.mark.nightly
@pytest.mark.parametrize("lost", ["scheduler", "s3", "ledger"])
def test_a_place_that_goes_away_is_one_sentence_and_the_same_command_goes_on(
    lost: str,
    embedded: Path,
    shared: Where,
    local: Ran,
    bucket: Bucket,
    ledger_url: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    home, where, words = tmp_path / "home", {**shared, "DSABENCH_LEDGER_URL": ledger_url}, []
    door = Path(f"/tmp/dsabench-door-{uuid.uuid4().hex[:8]}")
    if lost == "scheduler":
        cluster = request.getfixturevalue("cluster")
        words = ["--runner", cluster.scheduler_address]
        said = cut(home, embedded, ledger_url, cluster.close, *words, **where)
        assert_one_sentence(said, "Dask lost a job")
    elif lost == "s3":
        where["DSABENCH_STORE_URL"] = f"{bucket.url}-cut"
        said = cut(home, embedded, ledger_url, bucket.server.stop, **where)
        bucket.start(bucket.port)
        assert_one_sentence(said, "the artifact store s3://bench/store-cut does not answer")
    else:
        place = conninfo.conninfo_to_dict(ledger_url)
        door.symlink_to(str(place["host"]))
        where["DSABENCH_LEDGER_URL"] = ledger_url.replace(str(place["host"]), str(door))

        def shut() -> None:
            door.unlink()
            with psycopg.connect(ledger_url, autocommit=True) as connection:
                query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
                connection.execute(query, (place["dbname"],))

        said = cut(home, embedded, ledger_url, shut, **where)
        door.symlink_to(str(place["host"]))
        assert_one_sentence(said, "does not answer")
    paid = done(ledger_url)
    try:
        again = run(home, embedded, *FEW, **where)
    finally:
        door.unlink(missing_ok=True)
    finished = done(ledger_url)
    assert {key: row for key, row in finished.items() if key in paid} == paid
    calls = sum(kind == "model_call" for kind, _, _, _ in finished.values()) - sum(
        k == "model_call" for k, _, _, _ in paid.values()
    )
    assert again.record["model_calls_made"] == calls
    assert again.store.committed(EPISODES) == local.store.committed(EPISODES)
    for table in TABLES.values():
        for key in local.store.committed(table):
            assert again.store.record(table, key) == local.store.record(table, key), (table.name, key)


def test_a_layer_on_s3_with_a_postgresql_ledger_has_the_same_bytes(
    embedded: Path, bucket: Bucket, ledger_url: str, tmp_path: Path
) -> None:
    from tasks_lib.routing.layer import public_tasks

    public = f"{embedded}/public"
    arguments = {
        "public": public,
        "backend": TFIDF,
        "router": "direct",
        "task_ids": sorted(public_tasks(public))[:3],
        "trial": 0,
    }
    here, there = (
        Job("tasks_lib.routing.layer:initial_routes", "routes", "k" * 64, store, ledger, "r", arguments)
        for store, ledger in (
            (str(tmp_path), f"sqlite:///{tmp_path}/ledger.sqlite"),
            (f"{bucket.url}-layer", ledger_url),
        )
    )
    assert (perform_blocking(here), perform_blocking(there), perform_blocking(there)) == (True, True, False)
    one, other = ArtifactStore(here.store_url), ArtifactStore(there.store_url)
    assert other.record(ROUTES, here.key) == one.record(ROUTES, here.key)
    assert other.fs.cat_file(other.path(ROUTES, here.key)) == Path(one.path(ROUTES, here.key)).read_bytes()
    calls = done(there.ledger_url)
    assert sorted(calls) == sorted(done(here.ledger_url))
    assert {kind for kind, *_ in calls.values()} == {"model_call"}


@pytest.mark.nightly
def test_a_chain_and_a_cell_on_s3_with_a_postgresql_ledger_have_the_same_bytes(
    small_run: SmallRun, bucket: Bucket, ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = ArtifactStore(settings().resolved_store_url), ArtifactStore(f"{bucket.url}-cell")
    monkeypatch.setenv("DSABENCH_STORE_URL", there.url)
    monkeypatch.setenv("DSABENCH_LEDGER_URL", ledger_url)
    with ThreadPoolExecutor(1) as pool:  # the workers of the session have their own environment
        monkeypatch.setattr("tasks_lib.store.tasks.worker_pool", lambda: pool)
        made = asyncio.run(cell(small_run.id, CELL))
    assert made["key"] == small_run.record["cell_keys"][CELL]
    chain = recorded_chains(small_run.record)[(parse(CELL).backend, Router.DIRECT)]
    layers = [
        (ROUTES, chain.routes),
        (ROUTES, chain.clarified),
        (ASKS, chain.asks),
        (RELEASES, chain.releases),
        (PLANS, chain.plans),
        *((CONTRIBUTIONS, key) for key in chain.contributions.values()),
    ]
    for table, key in [*layers, (EPISODES, made["key"]), (METRICS, made["key"])]:
        assert there.fs.cat_file(there.path(table, key)) == here.fs.cat_file(here.path(table, key)), table.name
        assert there.record(table, key) == here.record(table, key), table.name
    assert there.committed(EPISODES) == [made["key"]]
    assert {kind for kind, *_ in done(ledger_url).values()} == {"model_call", "sql_execution"}


def test_an_artifact_on_s3_is_done_whole_or_not_at_all(bucket: Bucket, tmp_path: Path) -> None:
    rows = [{"cell": name, "score": 0.5} for name in ("c2", "c1")]
    here, there = ArtifactStore(str(tmp_path)), ArtifactStore(f"{bucket.url}-small")
    assert not there.ok(SCORES, "k")
    assert there.committed(SCORES) == []
    assert there.write(SCORES, "k", rows) == here.write(SCORES, "k", rows)
    assert there.fs.cat_file(there.path(SCORES, "k")) == Path(here.path(SCORES, "k")).read_bytes()
    assert there.read(SCORES, "k").equals(here.read(SCORES, "k"))
    assert ArtifactStore(there.url).committed(SCORES) == ["k"]
    with there.files(SCORES, ["k"]) as (copy,):
        assert Path(copy).read_bytes() == Path(here.path(SCORES, "k")).read_bytes()
    assert not Path(copy).exists()
    there.fs.pipe_file(there.path(SCORES, "k"), b"PAR1")
    assert not there.ok(SCORES, "k")
    there.fs.rm_file(there.record_path(SCORES, "k"))
    assert there.record(SCORES, "k") is None


def test_an_unknown_runner_and_a_scheduler_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for good in ("processes", "dask", "tcp://host:8786"):
        assert check_runner(good) == good
    with pytest.raises(RunnerUnusable, match="expected processes, dask or the address"):
        open_runner("spark")
    monkeypatch.setattr("tasks_lib.store.dask_workers.CONNECT_SECONDS", 1)
    with pytest.raises(RunnerUnusable, match=r"no Dask scheduler answers at tcp://127.0.0.1:1"):
        open_runner("tcp://127.0.0.1:1")
