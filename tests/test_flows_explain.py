"""`dsabench explain`: a cell's lineage and where it stands, and which field of which key the code of today would change."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Said, SmallRun

from flows import runs
from flows.explain import tables_of
from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.sql.comparators import COMPARATOR_VERSION
from tasks_lib.store import keys
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.schemas import EPISODES
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
