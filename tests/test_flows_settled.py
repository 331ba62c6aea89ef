"""A run with nothing left to do starts no server and no flow; where anything is lost or was changed, the flows look again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import SMALL_TASKS, TFIDF, Said, SmallRun

from flows import passed, runs, settled
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.schemas import (
    AUDIT,
    CONTRIBUTIONS,
    DISAGREEMENT,
    EPISODES,
    METRICS,
    ROUTE_TURNS,
    ROUTES,
    ROUTING_TABLE,
    Table,
)
from tasks_lib.store.settings import PROJECT_ROOT, settings

pytestmark = pytest.mark.timeout(600)
Command = Callable[..., Said]


def command(run: SmallRun) -> tuple[str, ...]:
    chosen = ("--tasks", str(SMALL_TASKS), "--backend", json.dumps(TFIDF))
    return ("run", "--release", str(run.release), *chosen, "--json")


def without_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.cli_support._server", lambda: pytest.fail("a server was started for nothing to do"))


def told(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in ("seconds", "invocation")}


def test_a_run_with_nothing_to_do_starts_no_server_and_says_what_the_flows_say(
    small_run: SmallRun, dsabench: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, _ = runs.load(small_run.id)
    for kept in (settings().home / "checks").glob("*.json"):
        if kept.stem == settled.settled_key(spec):
            kept.unlink()  # not known to be settled: the flows find out
    by_flows = dsabench(*command(small_run))
    assert (by_flows.code, by_flows.json["status"]) == (0, "completed"), by_flows
    record = runs.load(small_run.id)[1]
    page = Path(record["report"])
    before = page.stat().st_mtime_ns
    without_server(monkeypatch)
    said = dsabench(*command(small_run))
    assert (said.code, told(said.json)) == (0, told(by_flows.json)), said
    assert "nothing to run, 24 layers and 72 cells are done" in said.err
    assert told(runs.load(small_run.id)[1]) == told(record)
    assert runs.load(small_run.id)[1]["invocation"] != record["invocation"]
    assert page.stat().st_mtime_ns == before


def test_its_tables_are_still_verified(small_run: SmallRun, dsabench: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that is wrong in a table whose file is whole: the run fails, and the next one goes through the flows."""
    spec, record = runs.load(small_run.id)
    store = ArtifactStore(settings().resolved_store_url)
    files = [Path(store.path(METRICS, record["metrics_key"])), Path(store.record_path(METRICS, record["metrics_key"]))]
    good = [file.read_bytes() for file in files]
    metrics = store.read(METRICS, record["metrics_key"])
    off = metrics.with_columns(value=metrics["value"].scatter(0, metrics["value"][0] + 0.25))
    try:
        store.write(METRICS, record["metrics_key"], off)
        with monkeypatch.context() as patched:
            without_server(patched)
            said = dsabench(*command(small_run))
        assert (said.code, said.json["status"]) == (1, "failed"), said
        assert "recomputed" in said.json["reason"] or "metric" in said.json["reason"]
        assert settled.settled(spec) is None
    finally:
        for file, content in zip(files, good, strict=True):
            file.write_bytes(content)
    assert dsabench(*command(small_run)).json["status"] == "completed"


def artifacts(record: dict[str, Any]) -> dict[str, tuple[Table, str]]:
    """One artifact of every kind that a run rests on, with its table."""
    chain = record["chains"]["offline-tfidf react"]
    return {
        "cell's episodes": (EPISODES, record["cell_keys"]["offline-tfidf.react.adapter.llm.never.router"]),
        "cell's metrics": (METRICS, record["cell_keys"]["offline-tfidf.react.adapter.llm.never.router"]),
        "clarified routes": (ROUTES, chain["clarified"]),
        "contributions": (CONTRIBUTIONS, chain["contributions"]["adapter"]),
        "routes of the study": (ROUTES, record["routing_routes"]["offline-tfidf rerank"]),
        "turns of the study": (ROUTE_TURNS, record["routing_turns"]["offline-tfidf rerank"]),
        "clarified turns": (ROUTE_TURNS, record["turns"]["offline-tfidf react"]["clarified"]),
        "audit": (AUDIT, record["audit_key"]),
        "routing table": (ROUTING_TABLE, record["routing_table_key"]),
        "disagreement": (DISAGREEMENT, record["disagreement_key"]),
    }


def test_nothing_may_be_lost(small_run: SmallRun) -> None:
    spec, record = runs.load(small_run.id)
    assert settled.settled(spec) is not None
    store = ArtifactStore(settings().resolved_store_url)
    for what, (table, key) in artifacts(record).items():
        file = Path(store.path(table, key))
        content = file.read_bytes()
        file.write_bytes(content[:-1])
        assert settled.settled(spec) is None, what
        file.write_bytes(content)
        assert settled.settled(spec) is not None, what


def test_fields_of_keys_and_counts_are_as_they_were(small_run: SmallRun) -> None:
    """Only the flows record these again: keys for `explain`, counts of a ledger that was away."""
    spec, record = runs.load(small_run.id)
    folder = runs.run_folder(small_run.id)
    for name in ("keys.json", "counts/cells.json", "counts/study.json"):
        file = folder / name
        content = file.read_bytes()
        for damaged in (None, content[:-2], content.replace(b"offline", b"0ffline")):
            if damaged is None:
                file.unlink()
            else:
                file.write_bytes(damaged)
            assert (settled.settled(spec) is None) is (damaged != content), (name, damaged)
        file.write_bytes(content)
    assert settled.settled(spec) is not None
    store = ArtifactStore(settings().resolved_store_url)
    routes = store.record_path(ROUTES, record["chains"]["offline-tfidf react"]["routes"])
    held = Path(routes).read_bytes()
    parquet = Path(store.path(ROUTES, record["chains"]["offline-tfidf react"]["routes"]))
    bytes_ = parquet.read_bytes()
    try:  # other bytes under the same key, with a record of them
        store.write(ROUTES, parquet.stem, store.read(ROUTES, parquet.stem).with_columns(calls=[]))
        assert settled.settled(spec) is None
    finally:
        parquet.write_bytes(bytes_)
        Path(routes).write_bytes(held)
    assert settled.settled(spec) is not None


def test_nothing_is_kept_where_code_was_written_meanwhile(small_run: SmallRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this process did was not done by the code that a key names now, or will name when the file is put back."""
    spec, _ = runs.load(small_run.id)
    kept = settings().home / "checks" / f"{settled.settled_key(spec)}.json"
    seal = kept.read_bytes()
    written = [p for name in passed.CODE for p in (PROJECT_ROOT / name).rglob("*")]
    newest = max(p.stat().st_ctime_ns for p in written)
    try:
        kept.unlink()
        monkeypatch.setattr(passed, "BEGUN", (PROJECT_ROOT / "flows" / "runs.py").stat().st_ctime_ns - 1)
        passed.keep(settled.settled_key(spec), {"record": ""})
        assert not kept.exists()
        monkeypatch.setattr(passed, "BEGUN", newest)
        passed.keep(settled.settled_key(spec), {"record": ""})
        assert kept.exists()
    finally:
        kept.write_bytes(seal)


def test_only_what_ended_well_with_this_code_and_spec_is_settled(
    small_run: SmallRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, record = runs.load(small_run.id)
    path = runs.run_folder(small_run.id) / "run.json"
    content = path.read_bytes()
    try:
        for change in ({"status": "incomplete"}, {"model_calls": 1}, {"metrics_key": record["intervals_key"]}):
            path.write_text(json.dumps({**record, **change}))
            assert settled.settled(spec) is None, change
        path.unlink()
        assert settled.settled(spec) is None
    finally:
        path.write_bytes(content)
    assert settled.settled(spec.model_copy(update={"release": spec.release + "/../" + Path(spec.release).name})) is None
    kept = settings().home / "checks" / f"{settled.settled_key(spec)}.json"
    seal = kept.read_bytes()
    try:
        passed.keep(settled.settled_key(spec), {"record": "0" * 64})
        assert settled.settled(spec) is None
    finally:
        kept.write_bytes(seal)
    assert settled.settled(spec) is not None
    monkeypatch.setattr(passed, "CODE", ("flows",))
    assert settled.settled(spec) is None


def test_who_names_a_prefect_server_sees_every_run_there(
    small_run: SmallRun, dsabench: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    said = dsabench(*command(small_run))
    assert (said.code, "no Prefect server answers" in said.json["error"]) == (2, True), said
