"""The private task browser of a recorded run: reads what is stored, runs nothing; what its pages say is in `reporting.browser_tasks`.

The folder is written beside its place and moved there when it is whole; one that was not made by this command is never replaced.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows import runs
from flows.folders import drafted
from flows.wanted import RunSpec, recorded_chains, wanted_tasks
from tasks_lib.evaluation.inputs import Inputs, load
from tasks_lib.protocol.vocabulary import Router
from tasks_lib.reporting.browser import MARKER, PRIVATE, Pages, page_path, write_pages
from tasks_lib.reporting.browser_layers import ChainFiles, batches
from tasks_lib.reporting.browser_tasks import calls_of, executions_of, task_view
from tasks_lib.reporting.browser_texts import Texts
from tasks_lib.reporting.browser_views import Gold, TaskRows, TaskView
from tasks_lib.scoring.cells import FACTORIAL_ROUTERS, parse
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.keys import sha256_file
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.settings import settings


class BrowseRefused(ValueError):
    """A run that has nothing to show, or a place that is taken."""


def chain_files(run: RunSpec, record: Mapping[str, Any]) -> list[ChainFiles]:
    """What every (backend, router) of a run rests on, in grid order."""
    cells: dict[tuple[str, str], list[str]] = {}
    for cell_id, key in record.get("cell_keys", {}).items():
        cell = parse(cell_id)
        cells.setdefault((cell.backend, str(cell.router)), []).append(key)
    found = []
    for (backend, router), chain in recorded_chains(record).items():
        turns = record.get("turns", {}).get(f"{backend} {router}", {})
        keys = {
            "routes": [chain.routes, chain.clarified],
            "turns": [key for _, key in sorted(turns.items())],
            "asks": [chain.asks],
            "releases": [chain.releases],
            "plans": [chain.plans],
            "contributions": list(chain.contributions.values()),
            "episodes": cells.get((backend, router), []),
        }
        found.append(ChainFiles(backend, router, keys))
    backends = [b.name for b in run.backends]
    return sorted(found, key=lambda c: (backends.index(c.backend), FACTORIAL_ROUTERS.index(Router(c.router))))


def browse(run_id: str, out: Path, task: str = "") -> dict[str, Any]:
    """Write the browser of a run at `out`, or the page of one task there; the fields of `dsabench browse --json`.

    Raises RunUnknown, LayerLost, ReleaseDamaged; BrowseRefused for a run without cells, another release than the run's, an unknown
    task, or a place that holds something else.
    """
    run, record = runs.load(run_id)
    _check_place(out)
    chains = chain_files(run, record)
    if not chains:
        raise BrowseRefused(
            f"run {run.run_id} has no layers that are done, expected at least one chain; resume the run."
        )
    manifest = Path(run.release) / "manifest.json"
    if manifest.is_file() and sha256_file(manifest) != run.manifest:
        raise BrowseRefused(
            f"{run.release} is another release than the one {run.run_id} was made on ({run.manifest[:12]}); restore it, or run again."
        )
    ids = wanted_tasks(run)
    if task and task not in ids:
        raise BrowseRefused(
            f"task {task!r} is not in run {run.run_id}, expected one of its {len(ids)} (such as {ids[0]})."
        )
    pages = Pages(run.run_id, Path(run.release).name)
    ledger = Ledger(settings().resolved_ledger_url)
    try:
        views = _views(run, chains, [task] if task else ids, ledger)
        if task:
            for view, _ in views:
                _write_one(out, pages, view)
            return {"run": run.run_id, "status": "written", "tasks": 1, "page": str(page_path(out, task))}
        with drafted(out, mode=0o700) as draft:
            backends = [b.name for b in run.backends]
            count = write_pages(draft, pages, views, ids, backends, [str(r) for r in FACTORIAL_ROUTERS])
    finally:
        ledger.close()
    return {"run": run.run_id, "status": "written", "tasks": count, "page": str(out / "index.html")}


def _views(
    run: RunSpec, chains: Sequence[ChainFiles], ids: Sequence[str], ledger: Ledger
) -> Iterator[tuple[TaskView, Sequence[TaskRows]]]:
    """The pages' content, one task after the other."""
    inputs = load(run.release)
    names = dict(inputs.release.databases.select("database_id", "database").iter_rows())
    store = ArtifactStore(settings().resolved_store_url)
    for batch in batches(store, chains, ids):
        for task_id, rows in batch:
            gold = _gold(inputs, names, task_id)
            wanted = {u.result_digest: u.row_count for u in gold.units}
            yield task_view(gold, rows, Texts(ledger, calls_of(rows), executions_of(rows), wanted)), rows


def _gold(inputs: Inputs, names: Mapping[str, str], task_id: str) -> Gold:
    contract = inputs.contracts[task_id]
    units = tuple(inputs.release.units[u] for u in contract.unit_ids)
    return Gold(contract, inputs.tasks[task_id], units, names)


def _write_one(out: Path, pages: Pages, view: TaskView) -> None:
    path = page_path(out, view.gold.contract.task_id)
    if not out.exists():
        out.mkdir(parents=True, mode=0o700)
    path.parent.mkdir(exist_ok=True)
    (out / MARKER).write_text(PRIVATE, "utf-8")
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(pages.task(view, indexed=(out / "index.html").exists()), "utf-8")
    os.replace(draft, path)


def _check_place(out: Path) -> None:
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / MARKER).exists())):
        raise BrowseRefused(f"{out} exists and is no task browser, expected an empty or new folder; name another.")
