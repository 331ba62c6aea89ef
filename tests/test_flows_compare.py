"""`dsabench compare-runs`: what differs is said first, moved tasks are named, and what cannot be compared is one sentence."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import Said, SmallRun

from flows import runs
from flows.compare import beside, compare_runs, previous
from flows.runtime import write_json
from flows.wanted import RunSpec
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.schemas import EPISODES
from tasks_lib.store.settings import settings

pytestmark = pytest.mark.timeout(600)
Command = Callable[..., Said]
CELL = "offline-tfidf.hermes.adapter.llm.never.router"


@pytest.fixture
def another(small_run: SmallRun) -> Iterator[Callable[..., str]]:
    """Record the shared run once more under another spec; returns its id. Its folder goes when the test ends."""
    made: list[Path] = []

    def record_as(cells: dict[str, str] | None = None, **fields: Any) -> str:
        spec = RunSpec.model_validate_json(json.dumps({**small_run.record["spec"], **fields}))
        record = {**small_run.record, "run": spec.run_id, "spec": spec.model_dump(mode="json")}
        record["cell_keys"] = {**record["cell_keys"], **(cells or {})}
        folder = runs.run_folder(spec.run_id)
        made.append(folder)
        write_json(folder / "run.json", record)
        shutil.copyfile(runs.run_folder(small_run.id) / "keys.json", folder / "keys.json")
        return spec.run_id

    yield record_as
    for folder in made:
        shutil.rmtree(folder)


@pytest.fixture
def flipped(small_run: SmallRun) -> Iterator[tuple[str, str]]:
    """(key of the reference cell's episodes with the first ordinary task's set gate turned, its task id)."""
    store, key = ArtifactStore(settings().resolved_store_url), "f" * 64
    frame = store.read(EPISODES, small_run.record["cell_keys"][CELL])
    task = frame.filter(pl.col("behavior") != "interactive")["task_id"].sort()[0]
    turned = pl.when(pl.col("task_id") == task).then(~pl.col("s")).otherwise(pl.col("s"))
    store.write(EPISODES, key, frame.with_columns(s=turned))
    yield key, task
    for path in (store.path(EPISODES, key), store.record_path(EPISODES, key)):
        store.fs.rm_file(path)


def test_a_moved_task_is_named_and_conditions_come_first(
    small_run: SmallRun, another: Callable[..., str], flipped: tuple[str, str], dsabench: Command
) -> None:
    key, task = flipped
    other = another({CELL: key}, seed=7, planner_language="zh")
    said = dsabench("compare-runs", small_run.id, other, "--json")
    assert said.code == 0, said
    found = said.json
    assert {c["name"]: (c["now"], c["before"]) for c in found["conditions"]} == {
        "planner language": ("en", "zh"),
        "seed": ("20260", "7"),
    }
    (one,) = found["compared"]
    by_metric = {o["metric"]: o for o in one["outcomes"]}
    moved = by_metric["RA-Set"]["gained"] + by_metric["RA-Set"]["lost"]
    assert (one["tasks"], moved) == (10, [task])
    assert (by_metric["RA-Graph"]["gained"], by_metric["RA-Graph"]["test"]["p"]) == ([], 1.0)
    assert abs(next(d for d in one["differences"] if d["metric"] == "RA-Set")["difference"]["value"]) == pytest.approx(
        0.1
    )
    text = dsabench("compare-runs", small_run.id, other).out.splitlines()
    assert text[1:3] == ["  planner language: zh → en", "  seed: 7 → 20260"]


def test_what_cannot_be_compared_is_one_sentence(
    small_run: SmallRun, another: Callable[..., str], dsabench: Command
) -> None:
    released = another(manifest="0" * 64)
    named = another(backends=[{"name": "mine", "model": "offline/tfidf", "temperature": None}])
    short = another({CELL: "0" * 64}, seed=8)
    for other, words, more in (
        (released, "expected one release", ()),
        (small_run.id, "was named twice", ()),
        (named, "pair two with `dsabench compare-runs --pair", ()),
        (named, "has no backend 'x'", ("--pair", "offline-tfidf=x")),
        (short, "lacks 1 of its 24 cells", ()),
        ("run-none", "has no record", ()),
    ):
        said = dsabench("compare-runs", small_run.id, other, *more)
        assert (said.code, said.err.count("\n")) == (2, 1), said
        assert words in said.err


def test_changed_prompts_and_comparators_are_told(small_run: SmallRun, another: Callable[..., str]) -> None:
    other = another(seed=9)
    path = runs.run_folder(other) / "keys.json"
    held = json.loads(path.read_text("utf-8"))
    for fields in held["keys"].values():
        if "comparators" in fields["params"]:
            fields["params"]["comparators"]["bird"] = "older"
    prompt = next(f for files in held["code"].values() for f in sorted(files) if "/prompts/" in f)
    for files in held["code"].values():
        files.update({f: "0" * 64 for f in (prompt, "tasks_lib/routing/plan.py") if f in files})
    path.write_text(json.dumps(held), "utf-8")
    told = {c.name: c.before for c in compare_runs(small_run.id, other).conditions}
    assert (told["comparator, bird"], told[f"prompt {prompt}"], told["code tasks_lib/routing/plan.py"]) == (
        "older",
        "0" * 12,
        "0" * 12,
    )
    path.unlink()
    assert compare_runs(small_run.id, other).conditions[-1].name == "code, prompts, comparators"


def test_the_page_takes_the_previous_completed_run(small_run: SmallRun, another: Callable[..., str]) -> None:
    here = runs.run_folder(small_run.id) / "run.json"
    other = another(seed=11)
    before = here.stat()
    late = before.st_mtime_ns + 10**15
    try:
        os.utime(here, ns=(late, late))
        os.utime(runs.run_folder(other) / "run.json", ns=(late - 1, late - 1))
        spec, record = runs.load(small_run.id)
        assert previous(spec) == other
        found = beside(spec, record)
        assert found is not None
        assert beside(spec, record, other) == found
        assert (found.run, found.other, {o.test.p for c in found.compared for o in c.outcomes}) == (
            small_run.id,
            other,
            {1.0},
        )
        assert beside(spec, {**record, "status": "incomplete"}) is None
        assert previous(runs.load(other)[0]) != small_run.id
    finally:
        os.utime(here, ns=(before.st_atime_ns, before.st_mtime_ns))
