"""What a release says about itself is proven from its tables: every hand-made damage with right hashes is told by its check."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tasks_lib.contracts.certificate import COUNTS, Violation
from tasks_lib.contracts.certificate_records import AUDIT, DOCUMENTS, FILES, WORDED, certify_all
from tasks_lib.contracts.release import Release, as_text
from tasks_lib.protocol.vocabulary import Behavior
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.artifacts import read_file, write_file
from tasks_lib.store.keys import sha256_file
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.schemas import CONTRACTS, GATES, UNITS, UNSTATED, WORDINGS, Table

Rows = list[dict[str, Any]]
Damage = Callable[[Release], Any]


@pytest.fixture
async def runner() -> AsyncIterator[SqlRunner]:
    ledger = Ledger(run="tests")  # the ledger of the build: no SQL runs again
    async with SqlRunner(ledger) as made:
        yield made
    ledger.close()


@pytest.fixture
def copy(embedded: Path, tmp_path: Path) -> Release:
    return Release.load(shutil.copytree(embedded, tmp_path / "release"))


def sealed(release: Release, **manifest: Any) -> Release:
    """The release with the hashes of what its folder holds now."""
    file = release.folder / "manifest.json"
    told = json.loads(file.read_text("utf-8")) | manifest
    told["files"] = {name: sha256_file(release.folder / name) for name in told["files"]}
    file.write_text(as_text(told), "utf-8")
    return Release.load(release.folder)


def edited(release: Release, table: Table, change: Callable[[Rows], Any]) -> Release:
    path = release.folder / f"private/{table.name}.parquet"
    rows = read_file(table, path).to_dicts()
    change(rows)
    path.unlink()
    write_file(table, path, rows)
    return sealed(release)


def first(release: Release, behavior: Behavior) -> Any:
    return next(contract for contract in release.contracts.values() if contract.behavior is behavior)


async def found(release: Release, runner: SqlRunner) -> set[tuple[str, str]]:
    violations: tuple[Violation, ...] = (await certify_all(release, runner)).violations
    return {(violation.check, violation.reason) for violation in violations}


async def test_units_wordings_and_documents_that_do_not_fit_are_told(copy: Release, runner: SqlRunner) -> None:
    assert not await found(copy, runner)
    single, linked = first(copy, Behavior.SINGLE), first(copy, Behavior.SEQUENTIAL)

    def more_rows(rows: Rows) -> None:
        next(row for row in rows if row["unit_id"] == single.unit_ids[0]).update(row_count=77)

    def shows_the_value(rows: Rows) -> None:
        link = next(row for row in rows if row["task_id"] == linked.task_id)["bindings"][0]
        value = str(json.loads(link["value_json"]))
        link["downstream_question"] = link["downstream_question"].replace("{binding}", value)

    def other_words(rows: Rows) -> None:
        row = next(row for row in rows if row["task_id"] == single.task_id)
        row.update(
            template="parallel/plain/sentences/0#0", contributions=[{"unit_id": single.unit_ids[0], "words": "Zz"}]
        )

    release = edited(copy, UNITS, more_rows)
    release = edited(release, CONTRACTS, shows_the_value)
    release = edited(release, WORDINGS, other_words)
    release = edited(release, UNSTATED, lambda rows: rows.pop())
    release = edited(release, GATES, lambda rows: rows[0].update(refused=rows[0]["refused"] + 1))
    (release.public / "datasheet.md").write_text("People reviewed every task.\n", "utf-8")
    release = sealed(release, origins={}, cues={**release.manifest["cues"], "balanced_accuracy": 0.2})
    told = await found(release, runner)
    down = linked.bindings[0].downstream_unit
    assert {
        (AUDIT, f"row_count of {single.unit_ids[0]} is not what its gold tells."),
        (WORDED, f"the local question of {down} shows the upstream value or has no place for it."),
        (WORDED, "contract and wording name two templates."),
        (WORDED, "template parallel/plain/sentences/0#0 is of another behavior than single."),
        (WORDED, f"the request lacks 'Zz', the words for {single.unit_ids[0]}."),
        (DOCUMENTS, "the table of unstated constraints is not what gold and requests give."),
        (DOCUMENTS, "the manifest's cues are not those of the requests."),
        (DOCUMENTS, "public/datasheet.md is not what the release's tables say; build or revise again."),
    } <= told
    assert {reason.split(" ")[0] for check, reason in told if check == COUNTS} == {"the", "gate"}


async def test_a_database_file_that_is_not_the_audited_one_is_told(copy: Release, runner: SqlRunner) -> None:
    roots = json.loads((copy.folder / "private/locations.json").read_text("utf-8"))
    moved = shutil.copytree(roots["spider"]["root"], copy.folder.parent / "corpus")
    roots["spider"]["root"] = str(moved)
    (copy.folder / "private/locations.json").write_text(as_text(roots), "utf-8")
    contract = next(c for c in copy.contracts.values() if c.corpus.value == "spider")
    path = Path(Release.load(copy.folder).handles[contract.databases[0]].location)
    path.write_bytes(path.read_bytes() + b"\0" * 512)
    told = await found(Release.load(copy.folder), runner)
    assert [check for check, reason in told if str(path) in reason] == [FILES]
