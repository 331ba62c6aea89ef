"""Other places for the same work, byte for byte: artifacts on s3:// (a server on loopback), a PostgreSQL ledger, Dask workers.

The whole of them together runs with `pytest -m nightly tests/test_flows_scale.py`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from conftest import HOME, SmallRun
from psycopg import conninfo

from flows.wanted import ChainKeys, recorded_chains
from tasks_lib.protocol.vocabulary import Router
from tasks_lib.scoring.cells import parse
from tasks_lib.sql.postgres import shared_server
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.ledgers import Ledger
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
    Table,
)
from tasks_lib.store.settings import settings
from tasks_lib.store.tasks import close_pool

CELL = "offline-tfidf.direct.adapter.oracle.once.router"
SCORES = Table("scores", 1, "Scores.", [("cell", STR, "cell"), ("score", REAL, "score")], ("cell",))


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The URL of an empty bucket of an S3 server on loopback."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "nobody")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        boto3.client("s3").create_bucket(Bucket="bench")
        yield "s3://bench/store"
    server.stop()


@pytest.fixture
def ledger_url() -> Iterator[str]:
    """A new database on the embedded PostgreSQL server."""
    admin = shared_server("", HOME / "postgres")._dsn("postgres")
    name = f"ledger_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        parts = conninfo.conninfo_to_dict(admin)
        yield f"postgresql://{parts['user']}@/{name}?host={parts['host']}"
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def layers(chain: ChainKeys) -> list[tuple[Table, str]]:
    return [
        (ROUTES, chain.routes),
        (ASKS, chain.asks),
        (RELEASES, chain.releases),
        (ROUTES, chain.clarified),
        (PLANS, chain.plans),
        *((CONTRIBUTIONS, key) for key in chain.contributions.values()),
    ]


@pytest.mark.nightly
def test_the_same_bytes_on_s3_with_a_postgresql_ledger_and_dask_workers(
    small_run: SmallRun, bucket: str, ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.cell import cell

    here = ArtifactStore(settings().resolved_store_url)
    close_pool()
    monkeypatch.setenv("DSABENCH_STORE_URL", bucket)
    monkeypatch.setenv("DSABENCH_LEDGER_URL", ledger_url)
    monkeypatch.setenv("DSABENCH_RUNNER", "dask")
    try:
        made = asyncio.run(cell(small_run.id, CELL))
    finally:
        close_pool()
    there = ArtifactStore(bucket)
    chain = recorded_chains(small_run.record)[(parse(CELL).backend, Router.DIRECT)]
    scored = small_run.record["cell_keys"][CELL]
    assert made["key"] == scored
    for table, key in [*layers(chain), (EPISODES, scored), (METRICS, scored)]:
        assert there.ok(table, key)
        assert there.fs.cat_file(there.path(table, key)) == here.fs.cat_file(here.path(table, key)), table.name
        assert there.record(table, key) == here.record(table, key)
    assert there.committed(EPISODES) == [scored]
    ledger = Ledger(ledger_url)
    try:
        assert ledger.count("model_call") > 0
    finally:
        ledger.close()


def test_an_artifact_on_s3_is_done_whole_or_not_at_all(bucket: str, tmp_path: Path) -> None:
    rows = [{"cell": name, "score": 0.5} for name in ("c2", "c1")]
    here, there = ArtifactStore(str(tmp_path)), ArtifactStore(f"{bucket}-small")
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
    monkeypatch.setattr("tasks_lib.store.runners.CONNECT_SECONDS", 1)
    with pytest.raises(RunnerUnusable, match=r"no Dask scheduler answers at tcp://127.0.0.1:1"):
        open_runner("tcp://127.0.0.1:1")
