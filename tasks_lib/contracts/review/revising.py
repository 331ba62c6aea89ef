"""PRIVATE. One mechanism for every change of a finished release: other request texts, tasks taken out, nothing else.

Belongs here: applying decisions to a release and writing the next version of it with its audit trail. Does not belong here:
reading decision files (`decisions`), judging a text (`wordable`). Everything executable keeps its hash, and the files it
stands in are copied byte for byte unless a task leaves them.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import polars as pl

from tasks_lib.contracts.contract import executable_hash, to_row
from tasks_lib.contracts.release import Release, as_text, figures
from tasks_lib.contracts.review.questions import ReviewRefused
from tasks_lib.contracts.review.wordable import Wordable
from tasks_lib.protocol.records import Contract
from tasks_lib.store.artifacts import read_file, write_file
from tasks_lib.store.schemas import CONTRACTS, DECISIONS, REVIEWS, TABLES, TASKS, WORDINGS, Table

TRAIL = "private/decisions.parquet"
REVIEWED = "private/reviews.parquet"


class Decision(StrEnum):
    """What is decided about a task. Only `repair` and `delete` change the release."""

    KEEP = "keep"
    REPAIR = "repair"
    DELETE = "delete"
    ESCALATE = "escalate"


class Occasion(StrEnum):
    """What led to a new version."""

    ADJUDICATION = "adjudication"
    REVISION = "revision"


@dataclass(frozen=True, slots=True)
class Ruling:
    """A decision about one task. `request`: the new text of a repair. `by`: person, scripted or unreviewed."""

    task_id: str
    decision: Decision
    rationale: str
    by: str
    severity: str = ""
    request: str = ""


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
    requests = {ruling.task_id: ruling.request for ruling in rulings if ruling.decision is Decision.REPAIR}
    deleted = {ruling.task_id for ruling in rulings if ruling.decision is Decision.DELETE}
    number = int(release.manifest.get("revision", {}).get("number", 0)) + 1
    contracts = [
        replace(contract, extra={"template": f"revised/{number}"}) if task_id in requests else contract
        for task_id, contract in release.contracts.items()
        if task_id not in deleted
    ]
    if not contracts:
        raise ReviewRefused("the decisions delete every task, expected at least one to stay.")
    rows = [
        {
            "task_id": task.task_id,
            "corpus": task.corpus.value,
            "request": requests.get(task.task_id, task.request),
            "allowlist": list(task.allowlist),
        }
        for task in release.tasks
        if task.task_id not in deleted
    ]
    trail = pl.concat([decisions(release), _trail(release, rulings, number, kind)])
    tables: dict[str, tuple[Table, Any]] = {
        **_derived(release, deleted, set(requests), number),
        "public/tasks.parquet": (TASKS, rows),
        "private/contracts.parquet": (CONTRACTS, [to_row(contract) for contract in contracts]),
        TRAIL: (DECISIONS, trail),
    }
    if reviews is not None and reviews.height:
        own = release.folder / REVIEWED
        old = [read_file(REVIEWS, own)] if own.exists() else []
        tables[REVIEWED] = (REVIEWS, pl.concat([*old, reviews]).unique(maintain_order=True))
    staying = {contract.task_id for contract in contracts}
    report = RevisionReport(
        release=str(out),
        parent=release.digest,
        number=number,
        kind=kind.value,
        tasks=len(contracts),
        rerun=tuple(sorted(requests)),
        deleted=tuple(sorted(deleted)),
        escalated=tuple(sorted(_open_cases(trail) & staying)),
    )
    manifest = {
        **{name: value for name, value in release.manifest.items() if name != "files"},
        **figures(contracts),
        "parents": {**release.manifest["parents"], "release": release.digest},
        "revision": {name: value for name, value in report.as_json().items() if name not in {"release", "tasks"}},
    }
    _write(release, out, tables, manifest, contracts)
    return report


def _derived(release: Release, deleted: set[str], repaired: set[str], number: int) -> dict[str, tuple[Table, Any]]:
    """The other tables of a release that speak of tasks, as far as they change: rows of deleted tasks go, and who worded a
    repaired request is said anew."""
    found: dict[str, tuple[Table, Any]] = {}
    for name in release.manifest["files"]:
        table = TABLES.get(Path(name).stem) if name.endswith(".parquet") else None
        if table is None or "task_id" not in table.schema.names or table in (TASKS, CONTRACTS, DECISIONS, REVIEWS):
            continue
        rows = read_file(table, release.folder / name).to_dicts()
        changed = [row for row in rows if row["task_id"] not in deleted]
        if table is WORDINGS:
            said = {"renderer": "revision", "template": f"revised/{number}", "contributions": []}
            changed = [{**row, **said} if row["task_id"] in repaired else row for row in changed]
        if changed != rows:
            found[name] = (table, changed)
    return found


def decisions(release: Release) -> pl.DataFrame:
    """The audit trail of a release, empty for one as it was built."""
    path = release.folder / TRAIL
    if path.exists():
        return read_file(DECISIONS, path)
    frame = pl.from_arrow(DECISIONS.schema.empty_table())
    assert isinstance(frame, pl.DataFrame)
    return frame


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


def _trail(release: Release, rulings: Iterable[Ruling], number: int, kind: Occasion) -> pl.DataFrame:
    requests = {task.task_id: task.request for task in release.tasks}

    def after(ruling: Ruling) -> str:
        if ruling.decision is Decision.DELETE:
            return ""
        return ruling.request if ruling.decision is Decision.REPAIR else requests[ruling.task_id]

    rows = [
        {
            "revision": number,
            "kind": kind.value,
            "parent": release.digest,
            "task_id": ruling.task_id,
            "decision": ruling.decision.value,
            "severity": ruling.severity,
            "rationale": ruling.rationale,
            "by": ruling.by,
            "request_before": requests[ruling.task_id],
            "request_after": after(ruling),
            "executable_hash": executable_hash(release.contracts[ruling.task_id]),
        }
        for ruling in rulings
    ]
    return pl.DataFrame(rows, schema=decisions(release).schema)


def _open_cases(trail: pl.DataFrame) -> set[str]:
    """Tasks whose last adjudication is to escalate."""
    rows = trail.filter(pl.col("kind") == Occasion.ADJUDICATION.value).sort("revision").iter_rows(named=True)
    last = {row["task_id"]: row["decision"] for row in rows}
    return {task_id for task_id, decision in last.items() if decision == Decision.ESCALATE}


def _write(
    release: Release,
    out: Path,
    tables: Mapping[str, tuple[Table, Any]],
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
