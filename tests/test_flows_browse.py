"""`dsabench browse`: private pages of a real small run; nothing of it on the public page, nothing overwritten that is not its own."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import SMALL_TASKS, Said, SmallRun

from flows.browse import chain_files
from flows.runs import load as load_run
from flows.wanted import wanted_tasks
from tasks_lib.evaluation.inputs import load
from tasks_lib.reporting.browser import MARKER
from tasks_lib.reporting.browser_layers import LayerLost, batches
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.settings import settings

pytestmark = pytest.mark.timeout(600)
Command = Callable[..., Said]


@pytest.fixture(scope="module")
def written(small_run: SmallRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The browser of the shared run."""
    from flows.browse import browse

    out = tmp_path_factory.mktemp("browse") / "b"
    told = browse(small_run.id, out)
    assert (told["status"], told["tasks"], told["page"]) == ("written", SMALL_TASKS, str(out / "index.html"))
    return out


def test_every_task_has_a_private_page_with_its_gold(small_run: SmallRun, written: Path) -> None:
    assert stat.S_IMODE(written.stat().st_mode) == 0o700
    inputs = load(str(small_run.release))
    spec, _ = load_run(small_run.id)
    pages = {p.stem: p.read_text("utf-8") for p in (written / "tasks").iterdir()}
    assert sorted(pages) == wanted_tasks(spec)
    index = (written / "index.html").read_text("utf-8")
    for task_id, html in pages.items():
        assert "<strong>PRIVATE.</strong>" in html
        assert f'href="tasks/{task_id}.html"' in index
        for unit_id in inputs.contracts[task_id].unit_ids:
            assert unit_id in html
        assert html.count('<details class="chain"') == 3
        assert "not in the ledger" not in html


def test_what_pages_say_is_what_the_run_holds(small_run: SmallRun, written: Path) -> None:
    """Every transcript turn, and every distinct SQL text of a unit, is on its task's page."""
    store = ArtifactStore(settings().resolved_store_url)
    spec, record = load_run(small_run.id)
    chains = chain_files(spec, record)
    ids = wanted_tasks(spec)
    read = [(task, rows) for batch in batches(store, chains, ids, 3) for task, rows in batch]
    assert [task for task, _ in read] == ids
    for task, rows in read:
        html = (written / "tasks" / f"{task}.html").read_text("utf-8")
        turns = sum(len(t) for chain in rows for t in chain.turns.values())
        assert html.count("<li value=") == turns
        answers = {
            (c["unit_id"], c["sql"], c["bindings_json"], c["execution"], c["kind"])
            for chain in rows
            for c in chain.contributions
            if c["sql"]
        }
        assert html.count("<article ") == len(answers)
        assert sum(len(chain.episodes) for chain in rows) == sum(int(cell) for cell in _counts(html))


def _counts(html: str) -> list[str]:
    """Cells of every row of the tables of cells."""
    import re

    return re.findall(r"plan (?:yes|no)</td><td class=\"n\">(\d+)</td>", html)


def test_the_public_page_neither_links_to_it_nor_holds_gold(small_run: SmallRun) -> None:
    html = Path(small_run.record["report"]).read_text("utf-8")
    assert "PRIVATE" not in html
    assert "browse" not in html
    release = load(str(small_run.release)).release
    for unit in release.units.values():
        assert unit.sql not in html
        assert unit.question not in html
        assert unit.unit_id not in html


def test_one_task_alone(small_run: SmallRun, tmp_path: Path, dsabench: Command) -> None:
    task = wanted_tasks(load_run(small_run.id)[0])[0]
    said = dsabench("browse", "--run", small_run.id, "--out", str(tmp_path / "one"), "--task", task, "--json")
    assert (said.code, said.json["tasks"]) == (0, 1)
    assert sorted(p.name for p in (tmp_path / "one").rglob("*.*")) == [MARKER, f"{task}.html"]
    assert "All tasks" not in (tmp_path / "one/tasks" / f"{task}.html").read_text("utf-8")


def test_a_place_that_holds_something_else_is_left_alone(
    small_run: SmallRun, tmp_path: Path, dsabench: Command
) -> None:
    (tmp_path / "mine.txt").write_text("kept")
    said = dsabench("browse", "--run", small_run.id, "--out", str(tmp_path))
    assert said.code == 2
    assert "is no task browser" in said.err
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]
    said = dsabench("browse", "--run", small_run.id, "--out", str(tmp_path / "new"), "--task", "task_x")
    assert (said.code, "'task_x' is not in run" in said.err) == (2, True)
    assert not (tmp_path / "new").exists()


def test_a_lost_layer_is_named(small_run: SmallRun) -> None:
    chains = chain_files(*load_run(small_run.id))
    assert [c.router for c in chains] == ["direct", "react", "hermes"]
    gone = {**chains[0].keys, "plans": ["0" * 64]}
    lost = type(chains[0])(chains[0].backend, chains[0].router, gone)
    with pytest.raises(LayerLost, match=f"plans of offline-tfidf {chains[0].router}"):
        next(batches(ArtifactStore(settings().resolved_store_url), [lost], ["t"]))
