"""PRIVATE. The audit trail of a release: the `decisions` table, kept from version to version.

Belongs here: its rows, and reading them. Does not belong here: taking or applying decisions (`decisions`, `revising`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from tasks_lib.contracts.contract import executable_hash
from tasks_lib.contracts.release import Release
from tasks_lib.store.artifacts import read_file
from tasks_lib.store.schemas import DECISIONS

TRAIL = "private/decisions.parquet"


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


def decisions(release: Release) -> pl.DataFrame:
    """The audit trail of a release, empty for one as it was built."""
    path = release.folder / TRAIL
    if path.exists():
        return read_file(DECISIONS, path)
    frame = pl.from_arrow(DECISIONS.schema.empty_table())
    assert isinstance(frame, pl.DataFrame)
    return frame


def extended(release: Release, rulings: Iterable[Ruling], number: int, kind: Occasion) -> pl.DataFrame:
    """The trail of the next version: that of `release` and the rulings that make the next one."""
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
    before = decisions(release)
    return pl.concat([before, pl.DataFrame(rows, schema=before.schema)])


def escalated(trail: pl.DataFrame) -> set[str]:
    """Tasks whose last adjudication is to escalate."""
    rows = trail.filter(pl.col("kind") == Occasion.ADJUDICATION.value).sort("revision").iter_rows(named=True)
    last = {row["task_id"]: row["decision"] for row in rows}
    return {task_id for task_id, decision in last.items() if decision == Decision.ESCALATE}
