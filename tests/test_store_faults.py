"""The places of a store and a ledger that go away in the middle: an outage is told, is never "not done", and costs no paid reply."""

from __future__ import annotations

import asyncio
import sqlite3
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from conftest import HOME
from psycopg import conninfo

from tasks_lib.sql.postgres import shared_server
from tasks_lib.store import ledger_faults
from tasks_lib.store.artifacts import ArtifactStore, StoreUnavailable
from tasks_lib.store.ledgers import Ledger, LedgerUnusable, Produced
from tasks_lib.store.schemas import REAL, STR, Table

SCORES = Table("scores", 1, "Scores.", [("cell", STR, "cell"), ("score", REAL, "score")], ("cell",))


@dataclass
class Away:
    """A PostgreSQL database that can be cut off from whoever uses `url` and come back, as when its server restarts."""

    admin: str
    name: str
    door: Path
    url: str

    def go(self) -> None:
        self.door.rename(self.door.with_suffix(".away"))
        with psycopg.connect(self.admin, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (self.name,)
            )

    def come_back(self) -> None:
        self.door.with_suffix(".away").rename(self.door)


@pytest.fixture
def away(tmp_path: Path) -> Iterator[Away]:
    admin = shared_server("", HOME / "postgres")._dsn("postgres")
    name, place = f"ledger_{uuid.uuid4().hex[:12]}", conninfo.conninfo_to_dict(admin)
    door = Path(f"/tmp/dsabench-door-{uuid.uuid4().hex[:8]}")  # a socket's path must be short
    door.symlink_to(str(place["host"]))
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield Away(admin, name, door, f"postgresql://{place['user']}:hush@/{name}?host={door}")
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
            door.unlink(missing_ok=True)
            door.with_suffix(".away").unlink(missing_ok=True)


def test_a_reply_is_kept_over_a_restart_of_the_ledgers_server(away: Away, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_faults, "_PAUSE", 0.05)
    ledger, asked = Ledger(away.url, run="r"), []

    async def produce() -> Produced:
        asked.append("paid")
        away.go()
        asyncio.get_running_loop().call_later(0.3, away.come_back)
        return Produced("ok", b"reply", {})

    async def main() -> None:
        entry = await ledger.once("k" * 64, "model_call", produce)
        again = await ledger.once("k" * 64, "model_call", produce)
        assert (entry.payload, again.payload, entry.attempt) == (b"reply", b"reply", 1)

    try:
        asyncio.run(main())
    finally:
        ledger.close()
    assert asked == ["paid"]


def test_a_ledgers_server_that_stays_away_is_one_sentence(away: Away, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_faults, "PATIENCE_SECONDS", 0.0)
    ledger = Ledger(away.url)
    away.go()
    try:
        with pytest.raises(
            LedgerUnusable, match=r"does not answer .* start it and run the same command again\.$"
        ) as raised:
            asyncio.run(ledger.once("k" * 64, "model_call", lambda: pytest.fail("nothing may be asked")))
        assert "\n" not in str(raised.value)
        assert "hush" not in str(raised.value)
    finally:
        away.come_back()
        ledger.close()


def test_a_ledger_that_cannot_be_written_any_more_is_one_sentence(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    ledger.record("model_call", Produced("ok", b"reply", {}))
    with sqlite3.connect(tmp_path / "ledger.sqlite") as other:
        other.execute("ALTER TABLE items RENAME TO other")
        other.execute("CREATE VIEW items AS SELECT * FROM other")
    try:
        with pytest.raises(LedgerUnusable, match=r"ledger\.sqlite cannot be used \(.*view.*\), expected a database"):
            ledger.record("model_call", Produced("ok", b"reply", {}))
    finally:
        ledger.close()


def test_a_store_that_does_not_answer_says_nothing_of_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
    }.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3").create_bucket(Bucket="away")
    store, rows = ArtifactStore("s3://away/store"), [{"cell": "c", "score": 0.5}]
    store.write(SCORES, "k", rows)
    with pytest.raises(StoreUnavailable, match="s3://nowhere/store does not answer or refuses"):
        ArtifactStore("s3://nowhere/store").write(SCORES, "k", rows)
    server.stop()
    for ask in (
        lambda: store.ok(SCORES, "k"),
        lambda: store.committed(SCORES),
        lambda: store.write(SCORES, "k2", rows),
    ):
        with pytest.raises(StoreUnavailable, match="s3://away/store does not answer or refuses") as raised:
            ask()
        assert "\n" not in str(raised.value)
