"""PRIVATE. What a release says about its own requests, said again after some of them changed: wordings, unstated
constraints, surface cues, datasheet, annex and task cards.

Belongs here: making these from the release folder. Does not belong here: what they hold (`unstated`, `cues`, `datasheet`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from tasks_lib.contracts.contract import Unit
from tasks_lib.contracts.datasheet import cues_of, documents
from tasks_lib.contracts.registry import databases_of
from tasks_lib.contracts.release import Release
from tasks_lib.contracts.release_facts import facts_of
from tasks_lib.contracts.unstated import task_rows
from tasks_lib.corpora.model import CorpusDatabase
from tasks_lib.protocol.records import Contract
from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.store.artifacts import read_file
from tasks_lib.store.schemas import UNSTATED, WORDINGS


def unstated_rows(release: Release, contracts: Iterable[Contract], requests: Mapping[str, str]) -> list[dict[str, Any]]:
    """Rows of `unstated` of these contracts under these requests (task id -> text)."""
    rows: list[dict[str, Any]] = []
    known: dict[Corpus, tuple[dict[str, Unit], dict[str, CorpusDatabase]]] = {}
    for contract in contracts:
        corpus = contract.corpus
        if corpus not in known:
            units = map(Unit.from_row, release.unit_rows.filter(pl.col("corpus") == corpus.value).iter_rows(named=True))
            known[corpus] = (
                {unit.unit_id: unit for unit in units},
                {database.name: database for database in databases_of(release, corpus)},
            )
        position: Counter[str] = Counter()
        for row in task_rows(contract, requests[contract.task_id], *known[corpus]):
            rows.append({**row, "position": position[row["unit_id"]]})
            position[row["unit_id"]] += 1
    return rows


def restate(
    release: Release,
    contracts: Sequence[Contract],
    requests: Mapping[str, str],
    repaired: Collection[str],
    statement: str,
    parents: Mapping[str, str],
    template: str,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, str], dict[str, Any]]:
    """Rows of `wordings` and `unstated`, texts of the documents by path, and the manifest's `cues`, of the next version.

    contracts: those that stay. requests: task id -> text from now on. repaired: tasks whose text changed. template: what the
    wordings of these call it. statement, parents: of the next version.
    """
    staying = {contract.task_id for contract in contracts}
    private = release.folder / "private"
    unstated = [
        row
        for row in read_file(UNSTATED, private / "unstated.parquet").iter_rows(named=True)
        if row["task_id"] in staying and row["task_id"] not in repaired
    ]
    unstated += unstated_rows(release, [c for c in contracts if c.task_id in repaired], requests)
    unstated.sort(key=lambda row: (row["task_id"], row["unit_id"], row["position"]))
    again = {"renderer": "revision", "template": template, "contributions": []}
    wordings = [
        {**row, **again} if row["task_id"] in repaired else row
        for row in read_file(WORDINGS, private / "wordings.parquet").iter_rows(named=True)
        if row["task_id"] in staying
    ]
    facts = facts_of(release, contracts, requests, unstated, {}, statement)
    cues = cues_of(contracts, facts.tasks)
    facts = replace(facts, wordings=wordings, cues=cues, parents=parents)
    told = {name: cues[name] for name in ("balanced_accuracy", "chance", "cue_share")}
    return wordings, unstated, documents(facts), told
