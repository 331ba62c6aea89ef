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
from tasks_lib.store.settings import settings

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
        if kept.stem == settled._key(spec):
            kept.unlink()  # not known to be settled: the flows find out
    by_flows = dsabench(*command(small_run))
    assert (by_flows.code, by_flows.json["status"]) == (0, "completed"), by_flows
    record = runs.load(small_run.id)[1]
    page = Path(record["report"])
    before = page.stat().st_mtime_ns
    without_server(monkeypatch)
    said = dsabench(*command(small_run))
    assert (said.code, told(said.json)) == (0, told(by_flows.json)), said
    assert "nothing to run, 27 layers and 72 cells are done" in said.err
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
    kept = settings().home / "checks" / f"{settled._key(spec)}.json"
    seal = kept.read_bytes()
    try:
        passed.keep(settled._key(spec), {"record": "0" * 64})
        assert settled.settled(spec) is None
    finally:
        kept.write_bytes(seal)
    assert settled.settled(spec) is not None
    monkeypatch.setattr(settled, "CODE", ("flows",))
    assert settled.settled(spec) is None


def test_who_names_a_prefect_server_sees_every_run_there(
    small_run: SmallRun, dsabench: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    said = dsabench(*command(small_run))
    assert (said.code, "no Prefect server answers" in said.json["error"]) == (2, True), said
