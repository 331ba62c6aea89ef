"""The whole chain on the real engine: what a run counts, that a rerun does nothing, that damage is repaired and only that,
that a tampered value and a planted leak are found, and what Prefect is asked to hold."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import SMALL_TASKS, TFIDF, Said, SmallRun

from flows import runs
from flows.wanted import SCORE_CODE, cell_key, chain_keys
from tasks_lib.evaluation.inputs import load
from tasks_lib.protocol.vocabulary import Behavior, DataAgent, Router
from tasks_lib.scoring.cells import FACTORIAL_ROUTERS, grid
from tasks_lib.store import keys
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.schemas import CONTRIBUTIONS, EPISODES, INTERVALS, METRICS, PLANS, ROUTES, Table
from tasks_lib.store.settings import PROJECT_ROOT, settings

pytestmark = pytest.mark.timeout(600)
Command = Callable[..., Said]
Files = dict[Path, bytes]


def store() -> ArtifactStore:
    return ArtifactStore(settings().resolved_store_url)


def store_files() -> Files:
    """Every Parquet file of the store with its content."""
    return {p: p.read_bytes() for p in sorted(Path(store().root).rglob("*.parquet"))}


def times() -> dict[Path, int]:
    return {p: p.stat().st_mtime_ns for p in Path(store().root).rglob("*.parquet")}


def path(table: Table, key: str) -> Path:
    return Path(store().path(table, key))


def again(dsabench: Command, run: SmallRun) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run the same nightly chain again: what the command said, and the run's record."""
    said = dsabench(
        "run",
        "--release",
        str(run.release),
        "--tasks",
        str(SMALL_TASKS),
        "--backend",
        json.dumps(TFIDF),
        "--json",
    )
    assert said.code == 0, said
    return said.json, runs.load(run.id)[1]


@contextmanager
def kept(*files: Path) -> Iterator[None]:
    """Put the files back as they were, whatever happens."""
    contents = {f: f.read_bytes() for f in files}
    try:
        yield
    finally:
        for file, content in contents.items():
            file.write_bytes(content)


def test_a_run_counts_what_it_should(small_run: SmallRun) -> None:
    record = small_run.record
    contracts = load(str(small_run.release)).contracts
    tasks = [contracts[t] for t in sorted(contracts)[:SMALL_TASKS]]
    interactive = sum(c.behavior is Behavior.INTERACTIVE for c in tasks)
    assert (record["status"], record["cells"], record["cells_started"]) == ("completed", 72, 72)
    assert record["episodes"] == 72 * (SMALL_TASKS - interactive + 2 * interactive)
    assert record["base_rows"] == 72 * SMALL_TASKS
    assert 0 < record["model_calls"] < record["model_calls_unshared"] / 5
    assert 0 < record["sql_executions"] < record["sql_executions_unshared"]
    page = Path(record["report"]).read_text("utf-8")
    assert "offline-tfidf" in page
    episodes = pl.concat([store().read(EPISODES, k) for k in record["cell_keys"].values()])
    assert episodes.height == record["episodes"]
    assert episodes["cell_id"].n_unique() == 72
    assert set(record["cell_keys"]) == {c.cell_id for c in grid(["offline-tfidf"])}


def test_a_second_run_does_nothing(small_run: SmallRun, dsabench: Command) -> None:
    before, written = store_files(), times()
    said, record = again(dsabench, small_run)
    assert said["run"] == small_run.id
    assert said["status"] == "completed"
    assert (said["cells"], said["episodes"]) == (72, small_run.record["episodes"])
    assert (said["model_calls_made"], said["sql_executions_made"], record["cells_started"]) == (0, 0, 0)
    assert said["model_calls"] == small_run.record["model_calls"]
    assert record["metrics_key"] == small_run.record["metrics_key"]
    assert times() == written
    assert store_files() == before


def test_damage_is_repaired_and_only_that(small_run: SmallRun, dsabench: Command) -> None:
    """Known fault P03: one artifact deleted, one truncated, one unreadable; everything else stays as it is."""
    spec, record = runs.load(small_run.id)
    chains = {r: chain_keys(spec, spec.backends[0], r) for r in FACTORIAL_ROUTERS}
    cell_id, partition = sorted(record["cell_keys"].items())[7]
    deleted = path(EPISODES, partition)
    truncated = path(CONTRIBUTIONS, chains[Router.DIRECT].contributions[DataAgent.ADAPTER])
    unreadable = path(PLANS, chains[Router.HERMES].plans)
    before, written = store_files(), times()

    deleted.unlink()
    truncated.write_bytes(truncated.read_bytes()[:-100])
    unreadable.write_bytes(b"\0" * unreadable.stat().st_size)  # so that it is unreadable for root too
    unreadable.chmod(0)
    said, record = again(dsabench, small_run)

    # A cell writes its metrics with its episodes.
    expected = {deleted, path(METRICS, partition), truncated, unreadable}
    assert {p for p, t in times().items() if written.get(p) != t} == expected, cell_id
    assert record["cells_started"] == 1
    assert (said["model_calls_made"], said["sql_executions_made"]) == (0, 0)
    assert said["status"] == "completed"
    assert store_files() == before


def test_a_cell_alone_gives_the_same_rows(small_run: SmallRun, dsabench: Command) -> None:
    cell_id, key = sorted(small_run.record["cell_keys"].items())[40]
    files = [path(EPISODES, key), path(METRICS, key)]
    before = [f.read_bytes() for f in files]
    for file in files:
        file.unlink()
    said = dsabench("cell", "--run", small_run.id, "--cell", cell_id, "--json")
    assert (said.code, said.json["cell"], said.json["key"]) == (0, cell_id, key), said
    assert said.json["episodes"] == small_run.record["episodes"] // 72
    assert [f.read_bytes() for f in files] == before
    unknown = dsabench("cell", "--run", small_run.id, "--cell", "offline-tfidf.rerank.adapter.llm.never.full", "--json")
    assert unknown.code == 2
    assert "rerank" in unknown.json["error"]


def test_a_cell_alone_completes_its_layers_first(small_run: SmallRun, dsabench: Command) -> None:
    spec, record = runs.load(small_run.id)
    chain = chain_keys(spec, spec.backends[0], Router.REACT)
    cell_id = next(c for c in sorted(record["cell_keys"]) if ".react." in c)
    before = store_files()
    for file in (path(ROUTES, chain.routes), path(PLANS, chain.plans), path(EPISODES, record["cell_keys"][cell_id])):
        file.unlink()
    said = dsabench("cell", "--run", small_run.id, "--cell", cell_id, "--json")
    assert said.code == 0, said
    assert store_files() == before


# ---- keys ----


def chain_of(run: SmallRun) -> dict[str, str]:
    """Every key of the run's Hermes chain, and of one of its cells, by layer."""
    keys.code_digest.cache_clear()
    spec, _ = runs.load(run.id)
    chain = chain_keys(spec, spec.backends[0], Router.HERMES)
    cell = next(c for c in grid(["offline-tfidf"]) if c.router is Router.HERMES)
    return {
        **chain.inputs(),
        **{f"contributions {a}": k for a, k in chain.contributions.items()},
        "cell": cell_key(spec, cell, chain),
    }


@pytest.fixture(scope="module")
def original(small_run: SmallRun) -> dict[str, str]:
    return chain_of(small_run)


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the code that keys are computed over while the test runs."""
    shutil.copytree(PROJECT_ROOT / "tasks_lib", tmp_path / "tasks_lib", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(keys, "PROJECT_ROOT", tmp_path)
    yield tmp_path
    keys.code_digest.cache_clear()


ALL = {
    "routes",
    "asks",
    "releases",
    "clarified",
    "plans",
    "contributions text_to_sql",
    "contributions adapter",
    "cell",
}
LATE = ALL - {"routes", "asks"}


@pytest.mark.parametrize(
    ("file", "changed"),
    [
        ("tasks_lib/routing/views.py", ALL),
        ("tasks_lib/routeenv/tokens.py", ALL),
        ("tasks_lib/models/replies.py", ALL),
        ("tasks_lib/protocol/records.py", ALL),
        ("tasks_lib/evaluation/alignment.py", LATE),
        ("tasks_lib/evaluation/layer.py", LATE),
        ("tasks_lib/evaluation/requests.py", LATE - {"releases", "clarified"}),
        ("tasks_lib/execution/planner.py", LATE - {"releases", "clarified"}),
        ("tasks_lib/sql/comparators.py", LATE - {"releases", "clarified", "plans"}),
        ("tasks_lib/evaluation/bindings.py", LATE - {"releases", "clarified", "plans"}),
        ("tasks_lib/scoring/episodes.py", {"cell"}),
        ("tasks_lib/scoring/analyses.py", set()),
    ],
)
def test_a_changed_helper_changes_the_keys_that_rest_on_it(
    small_run: SmallRun, original: dict[str, str], copied: Path, file: str, changed: set[str]
) -> None:
    """Known fault P01: code reached through helpers is part of the key."""
    source = copied / file
    source.write_text(source.read_text("utf-8") + "\n\ndef _helper() -> int:\n    return 7\n", "utf-8")
    found = chain_of(small_run)
    assert {name for name in original if original[name] != found[name]} == changed


def test_the_key_of_a_cell_covers_all_code_that_scores_it() -> None:
    """Every module of the floor that `scoring.tables` reaches by imports."""
    reached, todo = set(), ["tables"]
    while todo:
        name = todo.pop()
        reached.add(name)
        text = (PROJECT_ROOT / f"tasks_lib/scoring/{name}.py").read_text("utf-8")
        todo += set(re.findall(r"from tasks_lib\.scoring\.(\w+) import", text)) - reached
    assert {f"tasks_lib/scoring/{name}.py" for name in reached} == {c for c in SCORE_CODE if "scoring" in c}


def test_a_changed_prompt_changes_the_keys(small_run: SmallRun, original: dict[str, str], copied: Path) -> None:
    for prompt in (copied / "tasks_lib/execution/prompts").iterdir():
        prompt.write_text(prompt.read_text("utf-8") + "Be brief.\n", "utf-8")
    found = chain_of(small_run)
    assert {n for n in original if original[n] != found[n]} == LATE - {"releases", "clarified"}


def test_a_comment_changes_no_key(small_run: SmallRun, original: dict[str, str], copied: Path) -> None:
    for source in (copied / "tasks_lib").rglob("*.py"):
        source.write_text("# a comment\n" + source.read_text("utf-8"), "utf-8")
    assert chain_of(small_run) == original


# ---- verification ----


def test_verify(small_run: SmallRun, dsabench: Command) -> None:
    said = dsabench("verify", "--run", small_run.id, "--json")
    assert said.code == 0, said
    report = said.json
    assert report["ok"] is True
    assert report["problems"] == []
    assert report["recomputed_values"] == 72 * 8
    assert report["max_discrepancy"] <= 1e-15
    assert report["leak_findings"] == 0
    assert report["gold_certificate"]["ok"] is True
    assert sum(report["gold_certificate"]["units"].values()) >= 220


def failed_verification(dsabench: Command, run: SmallRun) -> dict[str, Any]:
    """What `verify` says; the run, which others share, is left neither marked as failed nor with what was found."""
    with kept(*(runs.run_folder(run.id) / name for name in ("run.json", "verification.json"))):
        said = dsabench("verify", "--run", run.id, "--json")
    assert said.code == 1, said
    assert said.json["ok"] is False
    return said.json


def test_a_tampered_metric_is_found(small_run: SmallRun, dsabench: Command) -> None:
    """The table is written anew with a matching record, so that only the recomputation can tell."""
    key = small_run.record["metrics_key"]
    with kept(path(METRICS, key), Path(store().record_path(METRICS, key))):
        table = store().read(METRICS, key)
        chosen = (pl.col("slice") == "all") & (pl.col("metric") == "EA-Micro")
        row = table.filter(chosen).row(0, named=True)
        mine = chosen & (pl.col("cell_id") == row["cell_id"])
        other = 1.0 if row["value"] < 0.5 else 0.0
        store().write(METRICS, key, table.with_columns(value=pl.when(mine).then(other).otherwise("value")))
        report = failed_verification(dsabench, small_run)
    assert report["max_discrepancy"] >= 0.5
    # The recomputation tells it, and so does the gate: a value is the ratio of its parts.
    assert len(report["problems"]) == 2
    assert all(row["cell_id"] in p and "EA-Micro" in p for p in report["problems"])


def test_tampered_episodes_are_found(small_run: SmallRun, dsabench: Command) -> None:
    cell_id, key = sorted(small_run.record["cell_keys"].items())[3]
    with kept(path(EPISODES, key), Path(store().record_path(EPISODES, key))):
        table = store().read(EPISODES, key)
        store().write(EPISODES, key, table.with_columns(~pl.col("s")))  # the gate of RA-Set
        report = failed_verification(dsabench, small_run)
    assert any(cell_id in p for p in report["problems"])


def test_a_missing_partition_is_found(small_run: SmallRun, dsabench: Command) -> None:
    cell_id, key = sorted(small_run.record["cell_keys"].items())[3]
    with kept(path(EPISODES, key)):
        path(EPISODES, key).unlink()
        report = failed_verification(dsabench, small_run)
    assert "1 episode partitions" in report["problems"][0]
    assert cell_id in report["problems"][0]


def ledger_file() -> Path:
    return Path(settings().resolved_ledger_url.removeprefix("sqlite:///"))


def planted(run: SmallRun, text: str) -> tuple[str, bytes]:
    """Show `text` in a router's call that the run's tables rest on; (call, its payload before)."""
    from tasks_lib.models.chat import Message
    from tasks_lib.models.transcripts import message_blob, plain_bytes

    spec, _ = runs.load(run.id)
    routes = store().read(ROUTES, chain_keys(spec, spec.backends[0], Router.DIRECT).routes)
    call = routes["calls"][0][0]
    name, data = message_blob(Message(role="user", content=text))
    with closing(sqlite3.connect(ledger_file())) as connection, connection:
        (payload,) = connection.execute("SELECT payload FROM items WHERE key = ?", (call,)).fetchone()
        entry = json.loads(payload)
        entry["request"]["messages"].append(name)
        connection.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (name, data))
        connection.execute("UPDATE items SET payload = ? WHERE key = ?", (plain_bytes(entry), call))
    return call, payload


@pytest.mark.parametrize("kind", ["gold_sql", "physical_name", "unit_id", "path"])
def test_a_planted_leak_is_found(small_run: SmallRun, dsabench: Command, kind: str) -> None:
    inputs = load(str(small_run.release))
    names = sorted(d for d in inputs.release.databases["database"] if "_" in d)
    secret = {
        "gold_sql": max((u.sql for u in inputs.usable_units), key=len).upper().replace(" ", "\n "),
        "physical_name": names[0],
        "unit_id": next(iter(sorted(inputs.release.units))),
        "path": "…/database/somewhere",
    }[kind]
    call, payload = planted(small_run, f"A hint for you: {secret} and so on.")
    try:
        report = failed_verification(dsabench, small_run)
    finally:
        with closing(sqlite3.connect(ledger_file())) as connection, connection:
            connection.execute("UPDATE items SET payload = ? WHERE key = ?", (payload, call))
    assert report["leak_findings"] >= 1
    assert any(f"leak: {kind}" in p and "router" in p for p in report["problems"]), report["problems"]


# ---- what Prefect holds ----


async def flow_tree() -> tuple[list[Any], int]:
    """(flow runs of the first nightly and all below it, number of their task runs)."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import (
        FlowFilter,
        FlowFilterName,
        FlowRunFilter,
        FlowRunFilterParentFlowRunId,
        TaskRunFilter,
        TaskRunFilterFlowRunId,
    )
    from prefect.client.schemas.sorting import FlowRunSort

    async with get_client() as client:
        nightly = FlowFilter(name=FlowFilterName(any_=["nightly"]))
        found = await client.read_flow_runs(flow_filter=nightly, sort=FlowRunSort.START_TIME_ASC, limit=1)
        level = found
        while level:
            below = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[r.id for r in level]))
            level = await client.read_flow_runs(flow_run_filter=below, limit=200)
            found = found + level
        mine = TaskRunFilter(flow_run_id=TaskRunFilterFlowRunId(any_=[r.id for r in found]))
        tasks = 0
        while page := await client.read_task_runs(task_run_filter=mine, limit=200, offset=tasks):
            tasks += len(page)
        return found, tasks


def test_prefect_holds_stages_and_cells_not_records(small_run: SmallRun) -> None:
    """Known fault P08: a few hundred runs at most, however many records; parameters are keys and paths."""
    found, tasks = asyncio.run(flow_tree())
    names = [r.name.split(" ")[0] for r in found]
    assert names.count("cell") == 72
    assert len(found) == 72 + 5  # nightly, catalog, routing study, factorial, report
    assert tasks <= 300
    for run in found:
        assert len(json.dumps(run.parameters)) < 10_000, run.name


def test_intervals_are_published(small_run: SmallRun) -> None:
    assert store().read(INTERVALS, small_run.record["intervals_key"]).height > 0
    assert os.environ["DSABENCH_HOME"] in store().root
