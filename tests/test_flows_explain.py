"""`dsabench explain`: a cell's lineage and where it stands, and which field of which key the code of today would change; the plan
a run tells before it starts; and that what a change touches, and nothing else, is made again."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import SMALL_TASKS, TFIDF, Said, SmallRun

from flows import runs
from flows.dryrun import announce, plan_of, reasons
from flows.explain import tables_of
from flows.layers import ensure_chain
from flows.wanted import RunSpec, chain_keys, wanted_tasks
from tasks_lib.contracts.release import Release
from tasks_lib.contracts.review.revising import revise
from tasks_lib.contracts.review.trail import Decision, Occasion, Ruling
from tasks_lib.evaluation.inputs import load
from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.transcripts import KIND
from tasks_lib.protocol.vocabulary import Behavior, Corpus, Router
from tasks_lib.sql.comparators import COMPARATOR_VERSION
from tasks_lib.store import keys
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.schemas import ASKS, EPISODES, PLANS, ROUTES
from tasks_lib.store.settings import PROJECT_ROOT, settings

pytestmark = pytest.mark.timeout(600)
CELL = "offline-tfidf.hermes.adapter.llm.once.router"
Command = Callable[..., Said]


def explained(dsabench: Command, run: SmallRun) -> dict[str, Any]:
    said = dsabench("explain", "--run", run.id, "--cell", CELL, "--json")
    assert said.code == 0, said
    return said.json


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the code that keys are computed over."""
    out = tmp_path_factory.mktemp("code")
    shutil.copytree(PROJECT_ROOT / "tasks_lib", out / "tasks_lib", ignore=shutil.ignore_patterns("__pycache__"))
    return out


@pytest.fixture
def changed(copy: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Add text to a file of the code that keys are computed over, while the test runs."""
    kept: dict[Path, str] = {}

    def change(name: str, text: str) -> None:
        kept[copy / name] = (copy / name).read_text("utf-8")
        (copy / name).write_text(kept[copy / name] + text, "utf-8")
        keys.code_digest.cache_clear()

    monkeypatch.setattr(keys, "PROJECT_ROOT", copy)
    yield change
    for path, text in kept.items():
        path.write_text(text, "utf-8")
    keys.code_digest.cache_clear()


def test_a_finished_cell_rests_on_layers_that_are_done(small_run: SmallRun, dsabench: Command) -> None:
    found = explained(dsabench, small_run)
    layers = {layer["name"]: layer for layer in found["layers"]}
    assert list(layers)[-1] == "cell"
    assert {layer["state"] for layer in layers.values()} == {"done"}
    assert layers["cell"]["key"] == small_run.record["cell_keys"][CELL]
    assert layers["cell"]["rows"] == small_run.record["episodes"] // 72
    chain = small_run.record["chains"]["offline-tfidf hermes"]
    assert layers["contributions"]["key"] == chain["contributions"]["adapter"]
    assert layers["clarified"]["inputs"] == {"releases": chain["releases"], "asks": chain["asks"]}
    assert (found["again"], found["consequence"]) == ([], "nothing would run again")
    spoken = dsabench("explain", "--run", small_run.id, "--cell", CELL)
    assert f"plans: plans@1 {chain['plans'][:12]}, done" in spoken.out


def test_every_stage_has_its_tables() -> None:
    assert [t.name for t in tables_of("rescored_contributions@1")] == ["contributions"]
    assert [t.name for t in tables_of("clarified_routes@1")] == ["routes"]
    assert [t.name for t in tables_of("cell@1")] == ["episodes", "metrics"]


def test_a_changed_comparator_is_named_and_costs_no_call(
    small_run: SmallRun, dsabench: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COMPARATOR_VERSION, Corpus.BIRD, "bird@next")
    found = explained(dsabench, small_run)
    assert found["again"] == ["contributions", "cell"]
    changes = {layer["name"]: layer["changes"] for layer in found["layers"] if layer["changes"]}
    (change,) = changes.pop("contributions")
    assert (change["field"], change["after"]) == ("comparators.bird", "bird@next")
    assert changes == {}
    assert found["consequence"].startswith(
        "would run again: verdicts, episodes and metrics; no model call; no SQL execution"
    )


def test_a_lost_partition_is_missing_and_would_run_again(small_run: SmallRun, dsabench: Command) -> None:
    path = Path(ArtifactStore(settings().resolved_store_url).path(EPISODES, small_run.record["cell_keys"][CELL]))
    kept = path.read_bytes()
    try:
        path.unlink()
        found = explained(dsabench, small_run)
    finally:
        path.write_bytes(kept)
    assert (found["layers"][-1]["state"], found["again"]) == ("missing", ["cell"])
    assert found["consequence"] == "would run again: episodes and metrics; no model call; no SQL execution"


def test_a_cell_or_run_that_is_not_there_is_one_sentence(small_run: SmallRun, dsabench: Command) -> None:
    other = CELL.replace("offline-tfidf", "nobody")
    said = dsabench("explain", "--run", small_run.id, "--cell", other, "--json")
    assert (said.code, other in said.json["error"]) == (2, True)
    file = runs.run_folder(small_run.id) / "keys.json"
    kept = file.read_bytes()
    try:
        file.unlink()
        said = dsabench("explain", "--run", small_run.id, "--cell", CELL, "--json")
    finally:
        file.write_bytes(kept)
    assert said.code == 2
    assert "keys.json is missing" in said.json["error"]


def test_a_changed_prompt_is_named_with_all_that_rests_on_it(
    small_run: SmallRun, dsabench: Command, changed: Callable[[str, str], None]
) -> None:
    name = "tasks_lib/execution/prompts/execution_order@1.md.j2"
    changed(name, "Be brief.\n")
    changed("tasks_lib/scoring/episodes.py", "\n\ndef _helper() -> int:\n    return 7\n")
    found = explained(dsabench, small_run)
    assert found["again"] == ["plans", "contributions", "cell"]
    fields = {layer["name"]: [c["field"] for c in layer["changes"]] for layer in found["layers"]}
    assert fields["plans"] == fields["contributions"] == [f"code {name}"]
    assert fields["cell"] == ["code tasks_lib/scoring/episodes.py"]
    assert f"changed prompts, whose calls are all new: {name}" in found["consequence"]
    assert "no model call" not in found["consequence"]


# ---- the plan, told before anything starts ----


def to_run(spec: RunSpec, backend: str) -> set[str]:
    return {stage.name for stage in plan_of(spec)[backend].stages if stage.to_run}


def test_a_finished_run_has_nothing_to_run(small_run: SmallRun, capsys: pytest.CaptureFixture[str]) -> None:
    spec, _ = runs.load(small_run.id)
    assert to_run(spec, TFIDF["name"]) == set()
    announce(spec)
    assert "nothing to run, 24 layers and 72 cells are done" in capsys.readouterr().err


def test_a_new_backend_is_all_there_is_to_run(small_run: SmallRun, capsys: pytest.CaptureFixture[str]) -> None:
    spec, _ = runs.load(small_run.id)
    more = spec.model_copy(update={"backends": (*spec.backends, BackendSpec(name="more", model="offline/bm25"))})
    plans = plan_of(more)
    assert (plans[TFIDF["name"]].done, plans["more"].layers_done) == (True, 0)
    assert [s.done for s in plans["more"].stages if s.name != "routes"] == [0] * 6
    announce(more)
    told = capsys.readouterr().err.splitlines()
    (row,) = [line.split() for line in told if " more " in line and " cells " in line]
    assert row[-6:] == ["more", "cells", "72", "0", "72", "0"]


def test_a_changed_comparator_runs_verdicts_and_cells_and_the_plan_says_why(
    small_run: SmallRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, _ = runs.load(small_run.id)
    monkeypatch.setitem(COMPARATOR_VERSION, Corpus.BIRD, "bird@next")
    assert to_run(spec, TFIDF["name"]) == {"contributions", "cells"}
    announce(spec)
    assert "verdicts again: comparators.bird" in capsys.readouterr().err


# ---- what is made again ----


def made_again(spec: RunSpec, router: Router) -> tuple[dict[str, int], str]:
    """({table: artifacts written}, invocation) of completing one chain of a run."""
    root, invocation = Path(ArtifactStore(settings().resolved_store_url).root), f"test:{spec.run_id}"
    before = {p: p.stat().st_mtime_ns for p in root.rglob("*.parquet")}
    asyncio.run(ensure_chain(spec, spec.backends[0], router, invocation))
    written = [p for p in root.rglob("*.parquet") if before.get(p) != p.stat().st_mtime_ns]
    return {name: sum(p.parent.name == name for p in written) for name in {p.parent.name for p in written}}, invocation


def test_a_changed_prompt_remakes_its_layer_and_what_rests_on_it(
    small_run: SmallRun, changed: Callable[[str, str], None]
) -> None:
    spec, _ = runs.load(small_run.id)
    changed("tasks_lib/execution/prompts/execution_order@1.md.j2", "Be brief.\n")
    assert to_run(spec, TFIDF["name"]) == {"plans", "contributions", "cells"}
    written, _ = made_again(spec, Router.DIRECT)
    assert written == {"plans": 1, "contributions": 2}


def test_a_repaired_request_asks_only_about_itself(small_run: SmallRun, tmp_path: Path) -> None:
    spec, _ = runs.load(small_run.id)
    inputs = load(str(small_run.release))
    repaired = next(t for t in wanted_tasks(spec) if inputs.contracts[t].behavior is Behavior.PARALLEL)
    text = f"Please tell me: {inputs.tasks[repaired].request}"
    ruling = Ruling(repaired, Decision.REPAIR, "clearer", "person", "minor", text)
    revise(Release.load(small_run.release), [ruling], tmp_path / "release", Occasion.REVISION)
    new = runs.spec_of(tmp_path / "release", spec.backends, tasks=SMALL_TASKS)
    assert any(f"1 requests are new ({repaired})" in line for line in reasons(new))
    _, invocation = made_again(new, Router.DIRECT)
    store, calls = ArtifactStore(settings().resolved_store_url), []
    for chain in (chain_keys(one, one.backends[0], Router.DIRECT) for one in (spec, new)):
        tables = ((ROUTES, chain.routes), (ROUTES, chain.clarified), (ASKS, chain.asks), (PLANS, chain.plans))
        calls.append(pl.concat([store.read(table, key, ["task_id", "calls"]) for table, key in tables]))
    before, after = (frame.filter(pl.col("task_id") != repaired).sort("task_id", "calls") for frame in calls)
    assert after.equals(before), "calls of every other task are those stored for the parent"
    fresh = calls[1].filter(pl.col("task_id") == repaired)["calls"].explode()
    ledger = Ledger(settings().resolved_ledger_url)
    try:
        metas = ledger.metas(KIND, invocation)
        made = ledger.meta_of(fresh)
    finally:
        ledger.close()
    routed = [meta for meta in metas if meta["layer"] in ("routes", "plans", "asks", "clarified_routes")]
    assert 0 < len(routed) == len(made)
