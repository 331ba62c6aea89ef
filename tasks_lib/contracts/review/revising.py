"""PRIVATE. One mechanism for every change of a finished release: other request texts, tasks taken out, nothing else.

Belongs here: applying decisions to a release and writing the next version of it with its audit trail. Does not belong here:
reading decision files (`decisions`), judging a text (`wordable`), what is said of the requests (`restating`). Everything executable keeps its hash, and the files it
stands in are copied byte for byte unless a task leaves them.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from tasks_lib.contracts.contract import executable_hash, to_row
from tasks_lib.contracts.release import Release, as_text, figures
from tasks_lib.contracts.review.questions import ReviewRefused
from tasks_lib.contracts.review.restating import restate
from tasks_lib.contracts.review.summary import SAVED, release_statement, saved
from tasks_lib.contracts.review.trail import TRAIL, Decision, Occasion, Ruling, escalated, extended
from tasks_lib.contracts.review.wordable import Wordable
from tasks_lib.protocol.records import Contract
from tasks_lib.store.artifacts import write_file
from tasks_lib.store.keys import sha256_file
from tasks_lib.store.schemas import CONTRACTS, DECISIONS, REVIEWS, TASKS, UNSTATED, WORDINGS, Table


@dataclass(frozen=True, slots=True)
class RevisionReport:
    """What a revision made. `parent`: sha256 of the parent's manifest. `rerun`: tasks whose scores must be computed again
    because their request changed; scores of `deleted` tasks are void, all others stand. `escalated`: tasks left open."""

    release: str
    parent: str
    number: int
    kind: str
    tasks: int
    rerun: tuple[str, ...]
    deleted: tuple[str, ...]
    escalated: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def revise(
    release: Release, rulings: Sequence[Ruling], out: Path, kind: Occasion, reviews: pl.DataFrame | None = None
) -> RevisionReport:
    """Write the next version of `release` into `out` under `rulings`, whole or not at all; equal inputs give equal bytes.

    Task ids stay. The manifest's `revision` names number, kind, parent, `rerun`, `deleted` and `escalated`; its `parents`
    gains `release`. reviews: rows of `reviews` that the new version carries with it, beside those of its parent.

    Raises:
        ReviewRefused: `out` is in use, an unknown or repeated task, a repair that changes nothing or that a wording gate
            refuses, or no task left.
    """
    _check_out(release, out)
    _check_rulings(release, rulings)
    repairs = {ruling.task_id: ruling.request for ruling in rulings if ruling.decision is Decision.REPAIR}
    deleted = {ruling.task_id for ruling in rulings if ruling.decision is Decision.DELETE}
    number = int(release.manifest.get("revision", {}).get("number", 0)) + 1
    template = f"revised/{number}"
    contracts = [
        replace(contract, extra={"template": template}) if task_id in repairs else contract
        for task_id, contract in release.contracts.items()
        if task_id not in deleted
    ]
    if not contracts:
        raise ReviewRefused("the decisions delete every task, expected at least one to stay.")
    staying = {contract.task_id for contract in contracts}
    requests = {t.task_id: repairs.get(t.task_id, t.request) for t in release.tasks if t.task_id in staying}
    trail = extended(release, rulings, number, kind)
    carried = saved(release.folder)
    if reviews is not None:
        carried = pl.concat([carried, reviews]).unique(maintain_order=True)
    parents = {**release.manifest["parents"], "release": release.digest}
    wordings, unstated, texts, cues = restate(
        release, contracts, requests, set(repairs), release_statement(requests, carried, trail), parents, template
    )
    rows = [
        {"task_id": t.task_id, "corpus": t.corpus.value, "request": requests[t.task_id], "allowlist": list(t.allowlist)}
        for t in release.tasks
        if t.task_id in staying
    ]
    tables: dict[str, tuple[Table, Any]] = {
        "public/tasks.parquet": (TASKS, rows),
        "private/contracts.parquet": (CONTRACTS, [to_row(contract) for contract in contracts]),
        "private/wordings.parquet": (WORDINGS, wordings),
        "private/unstated.parquet": (UNSTATED, unstated),
        TRAIL: (DECISIONS, trail),
    }
    if carried.height:
        tables[SAVED] = (REVIEWS, carried)
    report = RevisionReport(
        release=str(out),
        parent=release.digest,
        number=number,
        kind=kind.value,
        tasks=len(contracts),
        rerun=tuple(sorted(repairs)),
        deleted=tuple(sorted(deleted)),
        escalated=tuple(sorted(escalated(trail) & staying)),
    )
    manifest = {
        **{name: value for name, value in release.manifest.items() if name != "files"},
        **figures(contracts),
        "cues": cues,
        "parents": parents,
        "revision": {name: value for name, value in report.as_json().items() if name not in {"release", "tasks"}},
    }
    _write(release, out, tables, texts, manifest, contracts)
    return report


def _check_out(release: Release, out: Path) -> None:
    place = out.resolve()
    if place.is_relative_to(release.folder):
        raise ReviewRefused(f"{out} is inside the release {release.folder}, expected a folder of its own.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ReviewRefused(f"{out} exists, expected a new or empty folder for the new version.")


def _check_rulings(release: Release, rulings: Sequence[Ruling]) -> None:
    wordable = Wordable(release)
    seen: set[str] = set()
    for ruling in rulings:
        name = ruling.task_id
        if name not in wordable.tasks:
            raise ReviewRefused(
                f"task {name!r} is not in {release.folder}, expected one of its {len(wordable.tasks)} tasks."
            )
        if name in seen:
            raise ReviewRefused(f"task {name} is decided twice, expected one decision a task.")
        seen.add(name)
        if ruling.decision is Decision.REPAIR:
            if ruling.request == wordable.tasks[name].request:
                raise ReviewRefused(f"the new request of {name} is the one it has, expected another text.")
            if (refusal := wordable.refusal(name, ruling.request)) is not None:
                raise ReviewRefused(f"the new request of {name} is refused by the wording gate {refusal}")


def _write(
    release: Release,
    out: Path,
    tables: Mapping[str, tuple[Table, Any]],
    texts: Mapping[str, str],
    manifest: dict[str, Any],
    contracts: Sequence[Contract],
) -> None:
    """Write beside `out`, check what was written, then rename. Tables that do not change are copied as they are."""
    out.parent.mkdir(parents=True, exist_ok=True)
    work = out.parent / f".{out.name}.{uuid.uuid4().hex}"
    try:
        files: dict[str, str] = {}
        for name, sha in release.manifest["files"].items():
            if (
                name.endswith(".parquet") and name not in tables
            ):  # other files are made from the tables: make them again
                (work / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(release.folder / name, work / name)
                files[name] = sha
        files |= {name: write_file(table, work / name, rows) for name, (table, rows) in tables.items()}
        for name, text in texts.items():
            (work / name).write_text(text, "utf-8")
            files[name] = sha256_file(work / name)
        shutil.copyfile(release.folder / "private/locations.json", work / "private/locations.json")
        (work / "manifest.json").write_text(as_text({**manifest, "files": files}), "utf-8")
        written = Release.load(work)
        for contract in contracts:
            before, after = release.contracts[contract.task_id], written.contracts[contract.task_id]
            if executable_hash(before) != executable_hash(after):
                raise ReviewRefused(f"the executable part of {contract.task_id} would change; this is a fault of ours.")
        os.replace(work, out)
    finally:
        shutil.rmtree(work, ignore_errors=True)
