"""PRIVATE. What a finished release says about itself, proven from its own tables: database files, audit, wordings, documents.

Belongs here: comparing what was written with what the same code makes of the tables again. Does not belong here: the gates and
the manifest's counts (`certificate`), promises of single tables (`suites`).

Not provable from a release alone, and so not looked at: the order of an allowlist (its key may be secret), external knowledge,
splits and questions of units (only the corpus has them).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any

from tasks_lib.contracts.certificate import COUNTS, Certificate, Violation, certify
from tasks_lib.contracts.datasheet import cues_of, documents
from tasks_lib.contracts.registry import databases_of
from tasks_lib.contracts.release import Release, counts
from tasks_lib.contracts.release_facts import facts_of
from tasks_lib.contracts.review.restating import unstated_rows
from tasks_lib.contracts.review.summary import release_statement, saved
from tasks_lib.contracts.review.trail import decisions
from tasks_lib.corpora.telling import tell
from tasks_lib.corpora.units import encode_row
from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.sql.lexer import trimmed
from tasks_lib.store.artifacts import read_file
from tasks_lib.store.keys import sha256_file
from tasks_lib.store.schemas import GATES, REJECTED, UNSTATED, WORDINGS

FILES, AUDIT, WORDED, DOCUMENTS = "files", "audit", "wordings", "documents"
"""Names of the checks of this module, beside COUNTS."""


async def certify_all(release: Release, runner: SqlRunner) -> Certificate:
    """`certificate.certify`, and everything that the release says about itself.

    Raises what the runner raises for a database that is missing or damaged.
    """
    started = monotonic()
    found = await certify(release, runner)
    said = [*_files(release), *[v async for v in _audit(release, runner)], *_worded(release), *_documents(release)]
    said += _totals(release)
    proven = dict(found.proven)
    for check in (FILES, AUDIT, WORDED, DOCUMENTS):
        wrong = [v for v in said if v.check == check]
        lost = len(release.contracts) if any(not v.task_id for v in wrong) else len({v.task_id for v in wrong})
        proven[check] = len(release.contracts) - lost
    if any(v.check == COUNTS for v in said):
        proven[COUNTS] = 0
    return replace(found, proven=proven, violations=(*found.violations, *said), seconds=round(monotonic() - started, 3))


def _files(release: Release) -> Iterator[Violation]:
    """Database files and dumps are those on which gold was audited. The ledger goes by digest and would not notice."""
    tasks: dict[str, str] = {}
    for contract in release.contracts.values():
        for database_id in contract.databases:
            tasks.setdefault(database_id, contract.task_id)
    for database_id, handle in release.handles.items():
        path = handle.location
        try:
            found = sha256_file(path)
        except FileNotFoundError:
            # Of a database without a dump only the catalog knows; no task may need it.
            if database_id in tasks:
                yield Violation(FILES, tasks[database_id], f"{path} is missing, {database_id} is required.")
            continue
        if found != handle.digest:
            yield Violation(
                FILES, tasks.get(database_id, ""), f"{path} has sha256 {found[:12]}, not that of the audit."
            )


async def _audit(release: Release, runner: SqlRunner) -> AsyncIterator[Violation]:
    """Of every required unit, what its row tells is what text and result of its gold tell."""
    rows = {row["unit_id"]: row for row in release.unit_rows.iter_rows(named=True)}
    public = {(r["corpus"], r["database"]): r["database_id"] for r in release.databases.iter_rows(named=True)}
    for corpus in Corpus:
        databases = {database.name: database for database in databases_of(release, corpus)}
        needed = {
            unit_id: contract.task_id
            for contract in release.contracts.values()
            if contract.corpus is corpus
            for unit_id in contract.unit_ids
        }
        for unit_id, task_id in sorted(needed.items()):
            row = rows.get(unit_id)
            if row is None or row["database"] not in databases:
                continue  # the gates say so
            database = databases[row["database"]]
            told = tell(database, trimmed(database.engine, row["sql"]))
            run = await runner.run(release.handles[public[corpus.value, row["database"]]], row["sql"])
            again = {
                "tables": list(told.refers.tables),
                "columns": list(told.refers.columns),
                "literals": list(told.refers.literals),
                "ordered": told.ordered,
            }
            if run.result is not None:
                result = run.result.rows
                again |= {
                    "row_count": len(result),
                    "column_count": len(run.result.columns),
                    "first_row_json": encode_row(result[0]) if len(result) == 1 else "",
                }
            odd = [name for name, value in again.items() if row[name] != value]
            odd += [f"flag {flag}" for flag in sorted(told.flags - set(row["flags"]))]
            if odd:
                yield Violation(AUDIT, task_id, f"{odd[0]} of {unit_id} is not what its gold tells.")


def _worded(release: Release) -> Iterator[Violation]:
    """Each request holds the words that are said to stand for its units, under the template that its contract names."""
    wordings = {
        row["task_id"]: row
        for row in read_file(WORDINGS, release.folder / "private/wordings.parquet").iter_rows(named=True)
    }
    requests = {task.task_id: task.request for task in release.tasks}
    for task_id in sorted(set(wordings) ^ set(requests)):
        yield Violation(WORDED, task_id, "the task has no wording on record, or the wording no task.")
    for task_id in sorted(set(wordings) & set(requests) & set(release.contracts)):
        row, contract, say = wordings[task_id], release.contracts[task_id], partial(Violation, WORDED, task_id)
        if row["template"] != contract.extra.get("template"):
            yield say("contract and wording name two templates.")
        if row["renderer"] == "template" and not row["template"].startswith(f"{contract.behavior.value}/"):
            yield say(f"template {row['template']} is of another behavior than {contract.behavior.value}.")
        if row["renderer"] != "revision":
            parts = {part["unit_id"]: part["words"] for part in row["contributions"]}
            if set(parts) != set(contract.unit_ids):
                yield say("the wording does not say for each unit which words stand for it.")
            for unit_id, words in parts.items():
                if words not in requests[task_id]:
                    yield say(f"the request lacks {words[:60]!r}, the words for {unit_id}.")
        for link in contract.bindings:
            asked = link.downstream_question
            if "{binding}" not in asked or str(link.value).casefold() in asked.casefold():
                yield say(
                    f"the local question of {link.downstream_unit} shows the upstream value or has no place for it."
                )


def _documents(release: Release) -> Iterator[Violation]:
    """Unstated constraints, cue audit and documents are what the tables give when they are made again."""
    requests = {task.task_id: task.request for task in release.tasks}
    if set(requests) != set(release.contracts):
        return  # counts say so
    contracts = list(release.contracts.values())

    def ordered(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(rows, key=lambda row: (row["task_id"], row["unit_id"], row["position"]))

    known = set(release.unit_rows["unit_id"])
    if all(known.issuperset(contract.unit_ids) for contract in contracts):
        told = read_file(UNSTATED, release.folder / "private/unstated.parquet").to_dicts()
        if ordered(told) != ordered(unstated_rows(release, contracts, requests)):
            yield Violation(DOCUMENTS, "", "the table of unstated constraints is not what gold and requests give.")
        statement = release_statement(requests, saved(release.folder), decisions(release))
        facts = facts_of(release, contracts, requests, told, {}, statement)
        facts = replace(facts, cues=cues_of(contracts, facts.tasks))
        if release.manifest.get("cues") != {name: facts.cues[name] for name in release.manifest.get("cues", {})}:
            yield Violation(DOCUMENTS, "", "the manifest's cues are not those of the requests.")
        for name, text in documents(facts).items():
            path = release.folder / name
            if name not in release.manifest["files"] or path.read_text("utf-8") != text:
                yield Violation(DOCUMENTS, "", f"{name} is not what the release's tables say; build or revise again.")


def _totals(release: Release) -> Iterator[Violation]:
    """Origins of the registry and refusals by gate are those on record."""
    origins = {
        corpus: counts(row["origin"] for row in release.databases.iter_rows(named=True) if row["corpus"] == corpus)
        for corpus in sorted(set(release.databases["corpus"]))
    }
    if release.manifest.get("origins") != origins:
        yield Violation(
            COUNTS, "", f"the manifest says origins {release.manifest.get('origins')!r}, the registry {origins!r}."
        )
    rejected = read_file(REJECTED, release.folder / "private/rejected.parquet")
    refused = Counter(rejected.select("corpus", "behavior", "gate").iter_rows())
    for row in read_file(GATES, release.folder / "private/gates.parquet").iter_rows(named=True):
        key = (row["corpus"], row["behavior"], row["gate"])
        if row["refused"] != refused.pop(key, 0):
            yield Violation(COUNTS, "", f"gate {row['gate']} refused another number of candidates than are on record.")
    if refused:
        yield Violation(COUNTS, "", f"candidates are on record for {min(refused)[2]}, which the gates table lacks.")
