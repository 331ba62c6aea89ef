"""Answers are taken in whole or not at all, pass 2 opens only after pass 1, and a script never counts as a person."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from review_support import Command, contents, export, read_csv, script, take, whole_review, write_csv

from tasks_lib.contracts.release import Release
from tasks_lib.contracts.review import imports
from tasks_lib.contracts.review.summary import NOBODY, summary

Rows = list[dict[str, str]]


@pytest.fixture
def review(dsabench: Command, embedded: Path, tmp_path: Path) -> Path:
    """A review folder with pass 1 sent out."""
    export(dsabench, embedded, tmp_path / "review", "--double-share", "1", "--reviewers", "2")
    return tmp_path / "review"


def test_both_passes_from_end_to_end(dsabench: Command, embedded: Path, tmp_path: Path) -> None:
    report = whole_review(dsabench, embedded, tmp_path / "review")
    release = Release.load(embedded)
    tasks = len(release.tasks)
    assert report["statement"].startswith(f"{NOBODY} {tasks} tasks were answered by a script")
    for number in ("pass_1", "pass_2"):
        person, scripted = report["coverage"]["person"][number], report["coverage"]["scripted"][number]
        assert (person["reviews"], person["tasks_reviewed"]) == (0, 0)
        assert (scripted["tasks_reviewed"], scripted["tasks_reviewed_twice"]) == (tasks, round(0.55 * tasks))
    assert {row["by"] for row in report["agreement"]} == {"scripted"}
    reviews = imports.saved(tmp_path / "review")
    assert set(reviews["by"]) == {"scripted"}
    assert set(reviews["release"]) == {release.digest}
    units = sum(
        len(release.contracts[t].unit_ids) for t in reviews.filter(pl.col("question") == "preserved")["task_id"]
    )
    preserved = reviews.filter(pl.col("question") == "preserved")["answer"]
    assert sum(len(answer.split()) for answer in preserved) == units
    assert report == {**report, **summary(tmp_path / "review")}
    form = read_csv(tmp_path / "review/private/decisions.csv")
    assert form
    assert not any(row["decision"] or row["by"] or row["rationale"] for row in form)


def test_pass_two_shows_the_contract_and_only_after_pass_one(dsabench: Command, embedded: Path, review: Path) -> None:
    first = script(dsabench, review / "reviewer-1/pass1.csv")
    said = take(dsabench, embedded, review, first)
    assert [Path(path).name for path in said.json["opened"]] == ["pass2.html", "pass2.csv"]
    assert not (review / "reviewer-2/pass2.html").exists()
    release = Release.load(embedded)
    rows = read_csv(review / "reviewer-1/pass2.csv")
    assert {row["required_behavior"] for row in rows} == {c.behavior.value for c in release.contracts.values()}
    text = "\n".join(row["units"] + row["dependencies"] + row["branches"] for row in rows)
    for contract in release.contracts.values():
        for unit_id in contract.unit_ids:
            assert release.units[unit_id].sql in text
            assert release.units[unit_id].question in text
        assert all(link.downstream_sql in text for link in contract.bindings)
        assert all(branch.answer in text for branch in contract.branches)


def test_a_saved_pass_is_locked(dsabench: Command, embedded: Path, review: Path) -> None:
    first = script(dsabench, review / "reviewer-1/pass1.csv")
    assert take(dsabench, embedded, review, first).code == 0
    before = contents(review)
    said = take(dsabench, embedded, review, script(dsabench, review / "reviewer-1/pass1.csv", seed=2))
    assert said.code == 2
    assert "saved and locked" in said.json["error"]
    assert contents(review) == before


def test_pass_two_needs_pass_one(dsabench: Command, embedded: Path, review: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    export(dsabench, embedded, other, "--double-share", "1", "--reviewers", "2")
    assert take(dsabench, embedded, other, script(dsabench, other / "reviewer-1/pass1.csv")).code == 0
    second = script(dsabench, other / "reviewer-1/pass2.csv")
    said = take(dsabench, embedded, review, second)
    assert said.code == 2
    assert "pass 1 is not saved" in said.json["error"]
    # both in one go would let a reviewer see the gold before the first pass is locked
    said = take(dsabench, embedded, review, script(dsabench, review / "reviewer-1/pass1.csv"), second)
    assert said.code == 2
    assert not (review / imports.SAVED).exists()


def test_a_stopped_import_still_opens_pass_two(dsabench: Command, embedded: Path, review: Path) -> None:
    first = script(dsabench, review / "reviewer-1/pass1.csv")
    assert take(dsabench, embedded, review, first).code == 0
    before = contents(review)
    for name in ("pass2.html", "pass2.csv"):
        (review / "reviewer-1" / name).unlink()
    assert "locked" in take(dsabench, embedded, review, first).json["error"]
    assert contents(review) == before


def change(row: int, **fields: str) -> Callable[[Rows], Rows]:
    return lambda rows: [{**r, **(fields if at == row else {})} for at, r in enumerate(rows)]


def everywhere(**fields: str) -> Callable[[Rows], Rows]:
    return lambda rows: [{**row, **fields} for row in rows]


FAULTS: list[tuple[str, Callable[[Rows], Rows], str]] = [
    ("unknown item", change(0, item="item_000000000000"), "names item 'item_000000000000', which reviewer-1 was not sent"),
    ("unknown reviewer", everywhere(reviewer="reviewer-9"), "names reviewer 'reviewer-9', expected one of reviewer-1"),
    ("another packet", everywhere(packet="packet_0"), "is of packet 'packet_0', which this review has not sent"),
    ("packet of a colleague", everywhere(reviewer="reviewer-2"), "which this review has not sent to reviewer-2"),
    ("another release", everywhere(release="0" * 16), "is of release 0000000000000000, expected"),
    ("two releases", change(0, release="0" * 16), "holds 2 values of 'release'"),
    ("no pass", everywhere(**{"pass": "3"}), "is of pass '3', expected 1 or 2"),
    ("nobody", everywhere(by=""), "expected person or scripted in `by`"),
    ("a machine", everywhere(by="model"), "expected person or scripted in `by`"),
    ("missing answer", change(1, naturalness=""), "naturalness has no answer, expected one"),
    ("no word of it", change(1, uniqueness="perhaps"), "uniqueness is 'perhaps', expected one of unique, several, unclear"),
    ("two options", change(1, confidence="low high"), "confidence has 2 answers, expected 1"),
    ("no candidate", change(1, minimum_sources="db_0"), "minimum_sources names 'db_0', expected candidates"),
    ("edited request", change(2, request="What else?"), "read-only field 'request'"),
    ("edited candidates", change(2, candidates="db_1"), "read-only field 'candidates'"),
    ("duplicate row", lambda rows: [*rows, rows[0]], "twice, expected each item once"),
    ("a row less", lambda rows: rows[1:], "has no answers, expected all"),
    ("a new column", everywhere(sql="SELECT 1"), "column 'sql' is unknown"),
    ("a column less", lambda rows: [{k: v for k, v in r.items() if k != "notes"} for r in rows], "'notes' is missing"),
]  # fmt: skip


@pytest.mark.parametrize(("alter", "message"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_a_faulty_file_is_one_sentence_and_nothing_is_taken(
    dsabench: Command, embedded: Path, review: Path, tmp_path: Path, alter: Callable[[Rows], Rows], message: str
) -> None:
    good = script(dsabench, review / "reviewer-2/pass1.csv")
    bad = write_csv(tmp_path / "bad.csv", alter(read_csv(script(dsabench, review / "reviewer-1/pass1.csv"))))
    before = contents(review)
    said = take(dsabench, embedded, review, good, bad)
    assert said.code == 2, said
    assert message in said.json["error"]
    assert said.json["error"].endswith(".")
    assert "\n" not in said.json["error"]
    assert contents(review) == before


def test_executable_fields_of_pass_two_may_not_change(dsabench: Command, embedded: Path, review: Path) -> None:
    assert take(dsabench, embedded, review, script(dsabench, review / "reviewer-1/pass1.csv")).code == 0
    answered = script(dsabench, review / "reviewer-1/pass2.csv")
    rows = read_csv(answered)
    for name in ("required_behavior", "units", "dependencies", "branches"):
        at = next(i for i, row in enumerate(rows) if row[name])
        write_csv(answered, [{**row, name: row[name] + "x"} if i == at else row for i, row in enumerate(rows)])
        said = take(dsabench, embedded, review, answered)
        assert said.code == 2
        assert f"read-only field '{name}'" in said.json["error"]
    many = next(i for i, row in enumerate(rows) if len(row["mapping"].split()) > 1)
    for text, message in (
        ("right", "mapping has 1 answers, expected"),
        ("- right", "mapping has no answer for unit 1"),
    ):
        write_csv(answered, [{**row, "mapping": text} if i == many else row for i, row in enumerate(rows)])
        assert message in take(dsabench, embedded, review, answered).json["error"]
    # what a spreadsheet does to line ends and blanks is no change
    write_csv(answered, [{**row, "units": row["units"].replace("\n", "\r\n") + "\n"} for row in rows])
    assert take(dsabench, embedded, review, answered).code == 0


def test_one_reviewer_does_both_passes(dsabench: Command, embedded: Path, review: Path) -> None:
    assert take(dsabench, embedded, review, script(dsabench, review / "reviewer-1/pass1.csv")).code == 0
    answered = script(dsabench, review / "reviewer-1/pass2.csv")
    write_csv(answered, [{**row, "by": "person"} for row in read_csv(answered)])
    said = take(dsabench, embedded, review, answered)
    assert said.code == 2
    assert "answered by 'person', but pass 1 of reviewer-1 by 'scripted'" in said.json["error"]


def test_items_left_open_are_closed_only_on_request(dsabench: Command, embedded: Path, review: Path) -> None:
    answered = script(dsabench, review / "reviewer-1/pass1.csv")
    rows = read_csv(answered)
    blank = ("naturalness", "completeness", "minimum_sources", "uniqueness", "behavior", "confidence", "notes")
    write_csv(answered, [{**row, **(dict.fromkeys(blank, "") if at < 3 else {})} for at, row in enumerate(rows)])
    assert "--close" in take(dsabench, embedded, review, answered).json["error"]
    said = take(dsabench, embedded, review, answered, close=True)
    assert said.json["left_open"] == 3
    assert said.json["coverage"]["scripted"]["pass_1"]["tasks_reviewed"] == len(rows) - 3
    assert [row["item"] for row in read_csv(review / "reviewer-1/pass2.csv")] == [row["item"] for row in rows[3:]]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "{", "is no JSON"),
        ("a.json", json.dumps({"format": "other", "rows": []}), "is no answered packet"),
        ("a.csv", "", "has no rows"),
        ("a.csv", "item,by\nx\n", "row 2: expected 2 values"),
        ("none.csv", None, "cannot be read"),
    ],
)
def test_files_that_are_no_answers(
    dsabench: Command, embedded: Path, review: Path, tmp_path: Path, name: str, text: str | None, message: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, "utf-8")
    said = take(dsabench, embedded, review, tmp_path / name)
    assert said.code == 2
    assert message in said.json["error"]
