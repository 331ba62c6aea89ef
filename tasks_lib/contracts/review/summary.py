"""PRIVATE. What may be said of a release's review: figures for a datasheet or a terminal, people and scripts apart.

Does not belong here: computing agreement (`agreement`), taking decisions (`revising`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from tasks_lib.contracts.contract import executable_hash
from tasks_lib.contracts.release import Release
from tasks_lib.contracts.review import agreement, assignments, packets
from tasks_lib.contracts.review.imports import SAVED, saved
from tasks_lib.contracts.review.questions import By
from tasks_lib.contracts.review.trail import decisions
from tasks_lib.store.keys import sha256_text

NOBODY = "No person has reviewed this release."


def summary(folder: Path) -> dict[str, Any]:
    """Coverage, agreement and decisions of a release folder or of a review folder, as plain data.

    `statement`: one or two sentences that say who reviewed what. `coverage`: see `agreement.coverage`. `agreement`: see
    `agreement.agreement`. `planned` (review folder): what the plan wants. `outdated` (release): reviewed tasks whose request
    was changed after their review; their reviews count neither for coverage nor for agreement. `decisions` (release): counts
    of the audit trail by who decided.
    """
    if (folder / "manifest.json").is_file():
        return _of_release(folder)
    made = assignments.load(folder)
    tasks = {a.task_id for a in made.assignments}
    reviews = saved(folder)
    return {
        "statement": statement(reviews, len(tasks)),
        "planned": {
            "tasks": len(tasks),
            "reviews": len(made.assignments),
            "reviewed_twice": len(made.assignments) - len(tasks),
            "reviewers": dict(Counter(a.reviewer for a in made.assignments)),
        },
        "coverage": agreement.coverage(reviews, len(tasks)),
        "agreement": agreement.agreement(reviews),
    }


def _of_release(folder: Path) -> dict[str, Any]:
    release = Release.load(folder)
    requests = {task.task_id: task.request for task in release.tasks}
    reviews, trail = saved(folder), decisions(release)
    current = _current(requests, reviews)
    counts = _who_decided(trail)
    known = set(reviews["task_id"]) & set(requests)
    return {
        "statement": release_statement(requests, reviews, trail),
        "coverage": agreement.coverage(current, len(requests)),
        "agreement": agreement.agreement(current),
        "outdated": sorted(known - set(current["task_id"])),
        "decisions": {by: {d: n for (who, d), n in sorted(counts.items()) if who == by} for by, _ in sorted(counts)},
        "escalated": list(release.manifest.get("revision", {}).get("escalated", [])),
    }


def release_statement(requests: Mapping[str, str], reviews: pl.DataFrame, trail: pl.DataFrame) -> str:
    """Who reviewed and who decided, for a release of these requests (task id -> text) with these reviews and decisions."""
    return statement(_current(requests, reviews), len(requests)) + _decided(_who_decided(trail))


def _current(requests: Mapping[str, str], reviews: pl.DataFrame) -> pl.DataFrame:
    """Reviews of the texts that the tasks have now."""
    texts = {task_id: sha256_text(request) for task_id, request in requests.items()}
    now = [texts.get(row["task_id"]) == row["request_digest"] for row in reviews.iter_rows(named=True)]
    return reviews.filter(pl.Series(now, dtype=pl.Boolean))


def _who_decided(trail: pl.DataFrame) -> Counter[tuple[str, str]]:
    return Counter((row["by"], row["decision"]) for row in trail.iter_rows(named=True))


def statement(reviews: pl.DataFrame, tasks: int) -> str:
    """Who reviewed what, in words that cannot be misread."""
    found = agreement.coverage(reviews, tasks)
    person, script = found[By.PERSON.value], found[By.SCRIPTED.value]
    parts = []
    if person["pass_1"]["reviews"]:
        for number in (1, 2):
            seen = person[f"pass_{number}"]
            parts.append(f"pass {number} of {seen['tasks_reviewed']} ({seen['tasks_reviewed_twice']} of them twice)")
        words = f"People reviewed, of {tasks} tasks: {' and '.join(parts)}."
    else:
        words = NOBODY
    if script["pass_1"]["reviews"]:
        words += f" {script['pass_1']['tasks_reviewed']} tasks were answered by a script to test the procedure; that is no review."
    return words


def _decided(counts: Counter[tuple[str, str]]) -> str:
    """Who adjudicated, as a sentence to append; nothing when nobody did."""
    person, script = (sum(n for (by, _), n in counts.items() if by == who) for who in (By.PERSON, By.SCRIPTED))
    words = f" {person} decisions were taken by a person." if person else ""
    return words + (f" {script} decisions were made by a script to test the procedure." if script else "")


def decision_form(release: Release, folder: Path) -> str:
    """CSV for an adjudicator: tasks on which reviewers differ or that were found not valid, decisions left blank."""
    requests = {task.task_id: task.request for task in release.tasks}
    rows = [
        {
            "task_id": task_id,
            "decision": "",
            "severity": "",
            "rationale": "",
            "by": "",
            "request": requests[task_id],
            "executable_hash": executable_hash(release.contracts[task_id]),
            "found": "; ".join(reasons),
        }
        for task_id, reasons in agreement.disagreements(saved(folder)).items()
    ]
    columns = ("task_id", "decision", "severity", "rationale", "by", "request", "executable_hash", "found")
    return packets.csv_text(columns, rows)


__all__ = ["NOBODY", "SAVED", "decision_form", "release_statement", "saved", "statement", "summary"]
