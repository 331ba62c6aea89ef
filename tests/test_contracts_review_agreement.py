"""Coverage and agreement of reviews are what a hand count gives, people and scripts apart."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tasks_lib.contracts.review.agreement import agreement, coverage, disagreements, kappa
from tasks_lib.contracts.review.summary import NOBODY, statement
from tasks_lib.store.schemas import REVIEWS


def reviews(*rows: tuple[str, str, str, str], number: int = 1, by: str = "person") -> pl.DataFrame:
    """Rows of (reviewer, task, question, answer)."""
    frame: list[dict[str, Any]] = [
        {
            "release": "r", "reviewer": reviewer, "pass": number, "item": f"{reviewer} {task}", "question": question,
            "task_id": task, "answer": answer, "by": by, "request_digest": "d",
        }
        for reviewer, task, question, answer in rows
    ]  # fmt: skip
    return pl.DataFrame(frame, schema=REVIEWS.schema.names, orient="row")


def test_kappa_is_the_hand_computed_one() -> None:
    # 50 items: both yes 20, yes/no 5, no/yes 10, both no 15; observed 0.7, by chance 0.5*0.6 + 0.5*0.4 = 0.5
    first = ["yes"] * 25 + ["no"] * 25
    second = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    assert kappa(first, second) == pytest.approx((0.7 - 0.5) / (1 - 0.5), abs=1e-12)
    # three labels, 4 items: observed 3/4; by chance (2*1 + 1*2 + 1*1) / 16 = 5/16
    assert kappa(["a", "a", "b", "c"], ["a", "b", "b", "c"]) == pytest.approx((12 - 5) / (16 - 5), abs=1e-12)
    assert kappa(["a", "b"], ["a", "b"]) == 1.0
    assert kappa(["a", "a"], ["b", "b"]) == 0.0
    assert kappa([], []) is None
    assert kappa(["a", "a"], ["a", "a"]) is None  # neither 0 nor 1


def test_agreement_is_told_by_question_and_pair() -> None:
    found = agreement(
        reviews(
            ("r1", "t1", "naturalness", "natural"), ("r2", "t1", "naturalness", "natural"),
            ("r1", "t2", "naturalness", "awkward"), ("r3", "t2", "naturalness", "natural"),
            ("r1", "t3", "naturalness", "natural"), ("r1", "t1", "notes", "a"), ("r2", "t1", "notes", "b"),
        )
    )  # fmt: skip
    rows = {(row["question"], row["pair"]): row for row in found}
    assert set(rows) == {("naturalness", "all"), ("naturalness", "r1 and r2"), ("naturalness", "r1 and r3")}
    both = rows["naturalness", "all"]
    assert (both["judged"], both["equal"], both["agreement"]) == (2, 1, 0.5)
    assert both["kappa"] == 0.0  # by chance (1*2 + 1*0) / 4 = 0.5
    assert rows["naturalness", "r1 and r2"]["kappa"] is None
    assert "undefined" in rows["naturalness", "r1 and r2"]["note"]


def test_units_are_compared_one_by_one() -> None:
    frame = reviews(("r1", "t1", "preserved", "yes no yes"), ("r2", "t1", "preserved", "yes yes yes"), number=2)
    row = agreement(frame)[0]
    assert (row["pass"], row["judged"], row["equal"]) == (2, 3, 2)


def test_people_and_scripts_are_never_mixed() -> None:
    frame = pl.concat(
        [
            reviews(("r1", "t1", "uniqueness", "unique")),
            reviews(("r2", "t1", "uniqueness", "unique"), ("r2", "t2", "uniqueness", "unique"), by="scripted"),
        ]
    )
    assert agreement(frame) == []
    seen = coverage(frame, 5)
    assert seen["person"]["pass_1"] == {
        "reviews": 1, "reviewers": {"r1": 1}, "tasks": 5, "tasks_reviewed": 1, "tasks_reviewed_twice": 0
    }  # fmt: skip
    assert seen["scripted"]["pass_1"]["tasks_reviewed"] == 2
    assert statement(frame, 5).startswith("People reviewed, of 5 tasks: pass 1 of 1 (0 of them twice)")
    assert "2 tasks were answered by a script" in statement(frame, 5)
    assert statement(frame.clear(), 5) == NOBODY
    only = frame.filter(pl.col("by") == "scripted")
    assert statement(only, 5).startswith(NOBODY)
    assert "that is no review" in statement(only, 5)


def test_an_adjudicator_is_shown_what_differs_and_what_is_not_valid() -> None:
    frame = pl.concat(
        [
            reviews(("r1", "t1", "uniqueness", "unique"), ("r2", "t1", "uniqueness", "several")),
            reviews(("r1", "t2", "overall", "valid"), ("r2", "t3", "overall", "invalid"), number=2),
            reviews(("r3", "t2", "overall", "invalid"), number=2, by="scripted"),
        ]
    )
    assert disagreements(frame) == {
        "t1": ["person: pass 1 uniqueness differs"],
        "t2": ["scripted: found invalid"],
        "t3": ["person: found invalid"],
    }
