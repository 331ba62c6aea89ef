"""Faults planted in the stored artifacts of a finished run: each is found, the run is marked failed with the reason, commands exit 1,
and the last good page stays as it is."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
import pyarrow.parquet as pq
import pytest
from conftest import SMALL_TASKS, TFIDF, Said, SmallRun
from test_flows_chain import ledger_file
from test_flows_chain import planted as shown

from flows import passed, results, runs, verification
from flows.explain import recorded
from flows.wanted import chain_keys, recorded_chains
from tasks_lib.evaluation.inputs import load
from tasks_lib.evaluation.leaks import Scanner
from tasks_lib.protocol.vocabulary import Router
from tasks_lib.reporting import page as page_module
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.schemas import AUDIT, EPISODES, METRICS, ROUTES, Table
from tasks_lib.store.settings import settings

pytestmark = pytest.mark.timeout(600)
Command = Callable[..., Said]
Change: TypeAlias = Callable[[pl.DataFrame], pl.DataFrame]


def store() -> ArtifactStore:
    return ArtifactStore(settings().resolved_store_url)


def planted(table: Table, key: str, change: Change) -> None:
    """Write an artifact anew with a matching record, past the rules of writing: only the gate can tell."""
    frame = change(store().read(table, key))
    buffer = io.BytesIO()
    pq.write_table(frame.to_arrow().cast(table.schema), buffer)
    Path(store().path(table, key)).write_bytes(buffer.getvalue())
    record = Path(store().record_path(table, key))
    found = json.loads(record.read_text("utf-8"))
    found |= {"rows": frame.height, "sha256": hashlib.sha256(buffer.getvalue()).hexdigest()}
    record.write_text(json.dumps(found), "utf-8")


@pytest.fixture
def kept(small_run: SmallRun, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The run's record; its tables and record are put back. A draft of the page is named, not drawn: no test here is about it."""
    record = runs.load(small_run.id)[1]
    folder = runs.run_folder(small_run.id)
    tables = [(EPISODES, k) for k in chosen(record)] + [(METRICS, record["metrics_key"])]
    files = [Path(p) for t, k in tables for p in (store().path(t, k), store().record_path(t, k))]
    contents = {p: p.read_bytes() for p in (*files, *folder.glob("*.json"), folder.parent / "last.json")}
    monkeypatch.setattr(results, "write_page", lambda _tables, page: page)
    monkeypatch.setattr(passed, "keep", lambda *_: None)  # what a test leaves out has not passed
    yield record
    for path, content in contents.items():
        path.write_bytes(content)


@pytest.fixture
def no_gold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out gold and diagnostics where a fault is elsewhere."""

    async def good(*_: Any) -> dict[str, Any]:
        return {"ok": True, "units": {}}

    monkeypatch.setattr(verification, "_gold", good)


@pytest.fixture
def no_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the leak scan where a fault is elsewhere."""
    monkeypatch.setattr(verification, "call_keys", lambda *_: set())


def chosen(record: dict[str, Any]) -> list[str]:
    """Keys of the partitions that faults are planted in: one of each interaction, of the same point."""
    return [record["cell_keys"][c] for c in cells()]


def cells() -> tuple[str, str]:
    return ("offline-tfidf.react.adapter.llm.once.router", "offline-tfidf.react.adapter.llm.never.router")


def refused(dsabench: Command, run: SmallRun, said: str) -> None:
    """`verify` finds the fault, exits 1, marks the run and leaves its page alone."""
    page = runs.run_folder(run.id) / "report.html"
    before = page.read_bytes()
    found = dsabench("verify", "--run", run.id, "--json")
    assert (found.code, found.json["ok"]) == (1, False), found
    problems = found.json["problems"]
    assert any(said in p for p in problems), problems
    record = runs.load(run.id)[1]
    assert record["status"] == "failed"
    assert problems[0] in record["reason"]
    assert page.read_bytes() == before


FIRST = pl.int_range(pl.len()) == 0
ORDINARY = pl.col("behavior") != "interactive"
LONE = ~ORDINARY & (pl.col("branch_id") == pl.col("branch_id").max().over("task_id"))
EA = pl.col("metric") == "EA-Micro"
END = (pl.col("metric") == "R+E-Graph") & (pl.col("slice") == "all") & (pl.col("cell_id") == cells()[0])


def put(where: pl.Expr, name: str, value: Any) -> Change:
    return lambda frame: frame.with_columns(pl.when(where).then(value).otherwise(pl.col(name)).alias(name))


def raised(frame: pl.DataFrame) -> pl.DataFrame:
    """g·t·h above g in one cell, with the value that its parts give."""
    top = pl.when(END).then(pl.col("denominator")).otherwise(pl.col("numerator"))
    ratio = pl.when(pl.col("denominator") == 0).then(0.0).otherwise(top / pl.col("denominator"))
    return frame.with_columns(numerator=top, value=ratio)


@pytest.mark.parametrize(
    ("table", "fault", "said"),
    [
        pytest.param(
            EPISODES, lambda e: e.filter(~(ORDINARY & (ORDINARY.cum_sum() == 1))), "1 cells do not add up", id="row"
        ),
        pytest.param(
            EPISODES,
            lambda e: e.filter(~(LONE & (LONE.cum_sum() == 1))),
            "1 interactive tasks lack a branch",
            id="branch",
        ),
        pytest.param(EPISODES, lambda e: pl.concat([e, e.head(1)]), "episode rows share a key", id="doubled"),
        pytest.param(EPISODES, put(FIRST, "weight", 0.75), "1 episode rows are not of the release", id="weight"),
        pytest.param(
            EPISODES,
            lambda e: e.with_columns(task_id="x" + pl.col("task_id")),
            "rows are not of the release",
            id="release",
        ),
        pytest.param(
            EPISODES, put(pl.lit(True), "cell_id", pl.lit(cells()[1])), "stand in the partition of another", id="cell"
        ),
        pytest.param(EPISODES, put(LONE, "asked", ~pl.col("asked")), "tasks hold two ask decisions", id="asks"),
        pytest.param(EPISODES, put(FIRST, "f1", float("nan")), "1 episode rows are out of range", id="not a number"),
        pytest.param(METRICS, put(EA, "value", 0.123), "the metrics or the episodes were altered", id="metric"),
        pytest.param(METRICS, put(END, "value", float("inf")), "1 metric values are out of range", id="infinite"),
        pytest.param(METRICS, raised, "R+E-Graph is above RA-Graph in 1 values", id="gth above g"),
        pytest.param(METRICS, lambda m: m.filter(~END), "1 metric rows are missing", id="missing metric"),
    ],
)
def test_a_fault_in_a_stored_table_fails_the_run(
    table: Table,
    fault: Change,
    said: str,
    small_run: SmallRun,
    dsabench: Command,
    kept: Any,
    no_gold: None,
    no_calls: None,
) -> None:
    planted(table, kept["metrics_key"] if table is METRICS else chosen(kept)[0], fault)
    refused(dsabench, small_run, said)


def test_a_gold_that_fails_fails_the_run(small_run: SmallRun, dsabench: Command, kept: Any, no_calls: None) -> None:
    inputs = load(str(small_run.release))
    unit = inputs.usable_units[0]

    async def execution() -> str:
        ledger = Ledger()
        try:
            async with SqlRunner(ledger) as runner:
                return (await runner.run(inputs.handles[unit.database_id], unit.sql)).key
        finally:
            ledger.close()

    key = asyncio.run(execution())
    with closing(sqlite3.connect(ledger_file())) as ledger:
        try:
            with ledger:
                assert ledger.execute("UPDATE items SET outcome = 'timeout' WHERE key = ?", (key,)).rowcount == 1
            refused(dsabench, small_run, f"gold of {unit.unit_id} ended in timeout")
        finally:
            with ledger:
                ledger.execute("UPDATE items SET outcome = 'ok' WHERE key = ?", (key,))


def test_gold_in_a_stored_call_fails_the_run(small_run: SmallRun, dsabench: Command, kept: Any, no_gold: None) -> None:
    sql = max((u.sql for u in load(str(small_run.release)).usable_units), key=len)
    call, payload = shown(small_run, f"A hint: {sql}")
    try:
        refused(dsabench, small_run, "leak: gold_sql")
    finally:
        with closing(sqlite3.connect(ledger_file())) as ledger, ledger:
            ledger.execute("UPDATE items SET payload = ? WHERE key = ?", (payload, call))


def test_a_call_that_is_not_in_the_ledger_fails_the_run(
    small_run: SmallRun, dsabench: Command, kept: Any, no_gold: None
) -> None:
    spec, _ = runs.load(small_run.id)
    call = store().read(ROUTES, chain_keys(spec, spec.backends[0], Router.DIRECT).routes)["calls"][0][0]
    with closing(sqlite3.connect(ledger_file())) as ledger:
        try:
            with ledger:
                ledger.execute("UPDATE items SET state = 'lost' WHERE key = ?", (call,))
            refused(dsabench, small_run, "1 model calls that the run rests on are not in the ledger")
        finally:
            with ledger:
                ledger.execute("UPDATE items SET state = 'done' WHERE key = ?", (call,))


def test_report_and_run_fail_too_and_a_mended_run_is_completed_again(
    small_run: SmallRun, dsabench: Command, kept: Any, no_gold: None, no_calls: None
) -> None:
    page = runs.run_folder(small_run.id) / "report.html"
    before, key = page.read_bytes(), chosen(kept)[0]
    files = [Path(p) for p in (store().path(EPISODES, key), store().record_path(EPISODES, key))]
    good = {p: p.read_bytes() for p in files}
    planted(EPISODES, key, put(FIRST, "weight", 0.75))
    same = ("--release", str(small_run.release), "--tasks", str(SMALL_TASKS), "--backend", json.dumps(TFIDF))
    for command in (("report", "--run", small_run.id), ("run", *same)):
        said = dsabench(*command, "--json")
        status, reason = (runs.load(small_run.id)[1][n] for n in ("status", "reason"))
        assert (said.code, status) == (1, "failed"), said
        assert "not of the release" in reason
    assert page.read_bytes() == before
    for path, content in good.items():
        path.write_bytes(content)
    said = dsabench("verify", "--run", small_run.id)
    assert (said.code, said.out) == (0, "ok\n")
    assert [runs.load(small_run.id)[1][n] for n in ("status", "reason")] == ["completed", ""]


def test_an_incomplete_run_is_told_as_one(
    small_run: SmallRun, dsabench: Command, kept: Any, no_gold: None, no_calls: None
) -> None:
    runs.save(small_run.id, {**kept, "status": "incomplete", "reason": "a backend was away; resume the run."})
    said = dsabench("verify", "--run", small_run.id)
    assert (said.code, said.out) == (1, f"run {small_run.id} is incomplete: a backend was away; resume the run.\n")
    said = dsabench("report", "--run", small_run.id, "--json")
    assert (said.code, said.json["status"], said.json["verification"]["ok"]) == (1, "incomplete", True)
    assert runs.load(small_run.id)[1]["status"] == "incomplete"


def test_a_table_that_cannot_be_read_is_told(
    small_run: SmallRun, dsabench: Command, kept: Any, no_gold: None, no_calls: None
) -> None:
    Path(store().path(METRICS, kept["metrics_key"])).write_bytes(b"no table")
    refused(dsabench, small_run, "1 tables of the run are missing, damaged or of another version (first metrics)")


def test_a_run_looks_at_gold_and_calls_once_and_verify_always(
    small_run: SmallRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    scan = Scanner.scan_calls

    async def gold(*_: Any) -> dict[str, Any]:
        looked.append("gold")
        return {"ok": True, "units": {"embedded": 1}}

    def calls(self: Scanner, ledger: Ledger, keys: Any) -> Any:
        looked.append("calls")
        return scan(self, ledger, keys)

    monkeypatch.setattr(verification, "_gold", gold)
    monkeypatch.setattr(Scanner, "scan_calls", calls)
    monkeypatch.setattr(passed, "_place", lambda key: tmp_path / f"{key}.json")
    run, record = runs.load(small_run.id)

    def verified(fresh: bool, **changed: Any) -> tuple[list[str], dict[str, Any]]:
        looked.clear()
        return looked, asyncio.run(verification.verify_run(run, {**record, **changed}, fresh))

    assert verified(False)[0] == ["gold", "calls"]
    seen, made = verified(False)
    assert (seen, made["gold_certificate"], made["leak_findings"]) == ([], {"ok": True, "units": {"embedded": 1}}, 0)
    assert verified(True)[0] == ["gold", "calls"]
    fewer = dict(list(record["routing_routes"].items())[1:])
    assert verified(False, routing_routes=fewer)[0] == ["calls"]
    for file in tmp_path.iterdir():
        file.write_text("no JSON", "utf-8")
    assert verified(False)[0] == ["gold", "calls"]


def test_a_page_is_written_again_when_what_it_shows_has_changed(
    small_run: SmallRun,
    dsabench: Command,
    no_gold: None,
    no_calls: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passed, "_place", lambda key: tmp_path / f"{key}.json")
    record, folder = runs.load(small_run.id)[1], runs.run_folder(small_run.id)
    page, audit = folder / "report.html", (AUDIT, record["audit_key"])
    tables = [Path(p) for p in (store().path(*audit), store().record_path(*audit))]
    before = {p: p.read_bytes() for p in (*folder.glob("*.*"), *tables)}

    def reported(**changed: Any) -> bytes:
        runs.save(small_run.id, {**record, **changed})
        assert dsabench("report", "--run", small_run.id).code == 0
        return page.read_bytes()

    try:
        good, written = reported(), page.stat().st_ino
        of_one_start = {
            "seconds": 1.5,
            "invocation": "another",
            "model_calls_made": 0,
            "sql_executions_made": 0,
            "release": "-",
        }
        assert (reported(**of_one_start), page.stat().st_ino) == (good, written)
        assert b"7.2500 USD known" in reported(cost={**record["cost"], "known_usd": 7.25})
        assert reported() == good
        page.write_bytes(b"damaged")
        assert reported() == good
        page.unlink()
        assert reported() == good
        # A style is no code, and a table made anew has the key it had.
        templates = tmp_path / "templates"
        shutil.copytree(passed.TEMPLATES, templates)
        (templates / "page.css").write_text("body { margin: 77px }", "utf-8")
        with monkeypatch.context() as changed:
            changed.setattr(passed, "TEMPLATES", templates)
            changed.setattr(page_module, "TEMPLATES", templates)
            assert b"margin: 77px" in reported()
        assert reported() == good
        planted(*audit, lambda frame: frame.filter(pl.int_range(pl.len()) > 0))
        written = page.stat().st_ino
        reported()
        assert page.stat().st_ino != written
        page.unlink()
        page.mkdir()
        said = dsabench("report", "--run", small_run.id)
        assert (said.code, "Traceback" in said.err, "is a folder, expected a file name" in said.err) == (1, False, True)
    finally:
        if page.is_dir():
            page.rmdir()
        for path, content in before.items():
            path.write_bytes(content)


def test_calls_of_layers_made_anew_are_looked_at_again(small_run: SmallRun) -> None:
    run, record = runs.load(small_run.id)
    chains = recorded_chains(record)
    before, key = passed.scan_key(run, record, chains), chains[("offline-tfidf", Router.REACT)].routes
    files = {Path(p): Path(p).read_bytes() for p in (store().path(ROUTES, key), store().record_path(ROUTES, key))}
    try:
        planted(ROUTES, key, lambda routes: routes.with_columns(pl.col("confidence") / 2))
        assert passed.scan_key(run, record, chains) != before
    finally:
        for path, content in files.items():
            path.write_bytes(content)


def test_what_is_kept_is_believed_as_it_was_written_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    passed.write_kept(file, "of this", {"ok": True, "share": 0.5})
    assert passed.read_kept(file, "of this") == {"ok": True, "share": 0.5}
    assert passed.read_kept(file, "of that") is None
    written = file.read_text("utf-8")
    for damaged in (
        "",
        written[:-9],
        "[]",
        "3",
        "{}",
        '{"page": 3}',
        '{"kept": [], "sha256": ""}',
        written.replace("0.5", "0.7"),
    ):
        file.write_text(damaged, "utf-8")
        assert passed.read_kept(file, "of this") is None, damaged


def test_a_record_of_another_form_is_told_in_a_sentence(
    small_run: SmallRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = runs.load(small_run.id)[1]
    wrong: list[dict[str, Any]] = [{"cell_keys": []}, {"chains": []}, {"chains": {"x": 3}}, {"usage": 3}, {"cost": []}]
    altered = [{**record, **one} for one in wrong]
    monkeypatch.setattr(runs, "runs_folder", lambda: tmp_path)
    (tmp_path / "run-1").mkdir()
    for text in ("", "[]", "{}", "3", '{"spec": 3}', *map(json.dumps, altered)):
        (tmp_path / "run-1/run.json").write_text(text, "utf-8")
        with pytest.raises(
            runs.RunUnknown, match=r"^the record .* cannot be read \(.*\); delete it and run again, results are kept\.$"
        ):
            runs.load("run-1")
    for text in ("", "[]", "{}", "3", '{"cells": {}, "keys": [], "code": {}}', '{"cells": {}, "keys": {}, "code": 3}'):
        (tmp_path / "run-1/keys.json").write_text(text, "utf-8")
        with pytest.raises(runs.RunUnknown, match="cannot be read"):
            recorded("run-1")
