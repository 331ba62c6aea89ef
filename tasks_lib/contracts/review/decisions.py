"""PRIVATE. Files that say what becomes of tasks: an adjudicator's decisions, and the changes of a wording-only revision.

Belongs here: reading CSV or JSON strictly and turning it into rulings. Does not belong here: applying them (`revising`). A
field that names anything executable is refused: a task whose meaning must change is deleted, never turned into another one.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from tasks_lib.contracts.contract import executable_hash
from tasks_lib.contracts.release import Release
from tasks_lib.contracts.review.questions import By, ReviewRefused, Severity
from tasks_lib.contracts.review.revising import RevisionReport, revise
from tasks_lib.contracts.review.trail import Decision, Occasion, Ruling

UNREVIEWED = "unreviewed"
NOT_EXECUTABLE = "only the request may change; a task whose executable part is wrong is deleted"


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


Text = Annotated[str, Field(min_length=1)]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


class DecisionRow(_Row):
    """One adjudication. `executable_hash`: optional; when given it must be the task's. `found`: what reviewers found, as the
    adjudicator's form says it; it decides nothing."""

    task_id: Text
    decision: Annotated[Decision, BeforeValidator(_lower)]
    severity: Annotated[Severity, BeforeValidator(_lower)]
    rationale: Text
    by: Annotated[By, BeforeValidator(_lower)]
    request: str = ""
    executable_hash: str = ""
    found: str = ""

    @model_validator(mode="after")
    def _a_repair_has_a_text(self) -> DecisionRow:
        if self.decision is Decision.REPAIR and not self.request:
            raise ValueError("a repair needs the new request")
        return self


class ChangeRow(_Row):
    """One wording-only repair."""

    task_id: Text
    request: Text
    rationale: Text
    executable_hash: str = ""


R = TypeVar("R", DecisionRow, ChangeRow)


def adjudicate(release: Release, file: Path, out: Path, reviews: Any = None) -> RevisionReport:
    """Apply an adjudicator's decisions: see `revising.revise`. Raises ReviewRefused; nothing is written then."""
    rows = read(file, DecisionRow)
    _check_hashes(release, file, rows)
    requests = {task.task_id: task.request for task in release.tasks}
    rulings = []
    for row in rows:
        repair = row.decision is Decision.REPAIR
        if not repair and row.request not in {"", requests.get(row.task_id, "")}:
            raise ReviewRefused(
                f"{file}: {row.decision.value} of {row.task_id} comes with another request, expected none; decide repair instead."
            )
        text = row.request if repair else ""
        rulings.append(Ruling(row.task_id, row.decision, row.rationale, row.by.value, row.severity.value, text))
    return revise(release, rulings, out, Occasion.ADJUDICATION, reviews)


def reword(release: Release, file: Path, out: Path) -> RevisionReport:
    """Apply wording-only repairs that nobody reviewed: see `revising.revise`. Raises ReviewRefused; nothing is written then."""
    rows = read(file, ChangeRow)
    _check_hashes(release, file, rows)
    rulings = [Ruling(row.task_id, Decision.REPAIR, row.rationale, UNREVIEWED, "", row.request) for row in rows]
    return revise(release, rulings, out, Occasion.REVISION)


def _check_hashes(release: Release, file: Path, rows: Sequence[DecisionRow | ChangeRow]) -> None:
    for row in rows:
        contract = release.contracts.get(row.task_id)
        if row.executable_hash and contract is not None and row.executable_hash != executable_hash(contract):
            raise ReviewRefused(
                f"{file}: executable_hash of {row.task_id} is {row.executable_hash[:12]}, expected "
                f"{executable_hash(contract)[:12]}; {NOT_EXECUTABLE}."
            )


def read(file: Path, model: type[R]) -> list[R]:
    """The rows of a CSV (with a header) or of a JSON list, strictly. Raises ReviewRefused naming the row and the field."""
    found = []
    for number, row in enumerate(_rows(file), 1):
        try:
            found.append(model.model_validate(row))
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"]))
            if first["type"] == "extra_forbidden":
                raise ReviewRefused(
                    f"{file} row {number} holds {name!r}, expected {', '.join(model.model_fields)}; {NOT_EXECUTABLE}."
                ) from error
            what = str(first["msg"]).removeprefix("Value error, ")
            raise ReviewRefused(
                f"{file} row {number}: {name + ': ' if name else ''}{what[0].lower()}{what[1:]}."
            ) from error
    if not found:
        raise ReviewRefused(f"{file} holds no rows, expected at least one of {', '.join(model.model_fields)}.")
    return found


def _rows(file: Path) -> list[dict[str, Any]]:
    try:
        text = file.read_text("utf-8-sig")
        if file.suffix.lower() == ".json":
            rows = json.loads(text, object_pairs_hook=_once)
        else:
            lines = csv.DictReader(io.StringIO(text, newline=""), strict=True)
            _once([(name, None) for name in lines.fieldnames or ()])
            rows = list(lines)
            odd = next((n for n, row in enumerate(rows, 2) if None in row or None in row.values()), None)
            if odd is not None:
                raise ValueError(f"line {odd} has another number of values than the header")
    except OSError as error:
        raise ReviewRefused(
            f"{file} cannot be read ({error.strerror}), expected a CSV or JSON file of decisions."
        ) from error
    except (ValueError, RecursionError, csv.Error) as error:
        raise ReviewRefused(f"{file} cannot be read ({error}), expected CSV with a header or a JSON list.") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ReviewRefused(f"{file} is no list of objects, expected one object a task.")
    return rows


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of `pairs`. Raises ValueError for a name that stands twice: which of its values is meant?"""
    names = [name for name, _ in pairs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{twice!r} stands twice in one row")
    return dict(pairs)
