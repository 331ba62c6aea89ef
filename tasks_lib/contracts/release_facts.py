"""PRIVATE. What the documents of a release are written from: its own tables, nothing of how it was made.

Belongs here: the one record that datasheet, annex and task cards read. Does not belong here: their words or counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tasks_lib.contracts.release import Release
from tasks_lib.protocol.records import Contract, PublicTask
from tasks_lib.store.artifacts import read_file
from tasks_lib.store.schemas import DATABASES, GATES, UNITS, WORDINGS, Table

DOCUMENTS = "tasks_lib/contracts/documents"
"""Folder of the documents' templates."""


@dataclass(frozen=True)
class Facts:
    """What the documents read, all of it in the release's tables.

    units, databases, gates, unstated, wordings: rows of the tables of these names. cues: `CueAudit.as_json()`. statement: who
    reviewed the release. shortfall: corpus -> behavior -> tasks missing.
    """

    profile: str
    seed: int
    version: str
    contracts: Sequence[Contract]
    tasks: Mapping[str, PublicTask]
    units: Sequence[Mapping[str, Any]]
    databases: Sequence[Mapping[str, Any]]
    gates: Sequence[Mapping[str, Any]]
    unstated: Sequence[Mapping[str, Any]]
    wordings: Sequence[Mapping[str, Any]]
    cues: Mapping[str, Any]
    statement: str
    parents: Mapping[str, str]
    shortfall: Mapping[str, Mapping[str, int]]


def facts_of(
    release: Release,
    contracts: Sequence[Contract],
    requests: Mapping[str, str],
    unstated: Sequence[Mapping[str, Any]],
    cues: Mapping[str, Any],
    statement: str,
) -> Facts:
    """The facts of `release` as they are once only `contracts` are left and their requests read as in `requests` (task id ->
    text). `unstated`, `cues`, `statement`: of that state."""

    def rows(table: Table) -> list[dict[str, Any]]:
        return read_file(table, release.folder / f"private/{table.name}.parquet").to_dicts()

    kept = {contract.task_id for contract in contracts}
    tasks = {
        t.task_id: replace(t, request=requests.get(t.task_id, t.request)) for t in release.tasks if t.task_id in kept
    }
    manifest = release.manifest
    return Facts(
        profile=manifest["profile"],
        seed=manifest["seed"],
        version=manifest["version"],
        contracts=contracts,
        tasks=tasks,
        units=rows(UNITS),
        databases=rows(DATABASES),
        gates=rows(GATES),
        unstated=unstated,
        wordings=[row for row in rows(WORDINGS) if row["task_id"] in kept],
        cues=cues,
        statement=statement,
        parents=manifest["parents"],
        shortfall=manifest["shortfall"],
    )
