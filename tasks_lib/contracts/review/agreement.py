"""PRIVATE. What reviews say together: coverage as observed, raw agreement, Cohen's kappa (PROTOCOL 5).

Persons and scripts are never counted together: every figure belongs to one of the two. Does not belong here: reading answers
(`imports`), the datasheet's words (`summary`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import polars as pl

from tasks_lib.contracts.review.questions import PASSES, By, Kind

UNDEFINED = "undefined: both sides gave one and the same answer throughout, so chance alone explains all agreement"


def coverage(reviews: pl.DataFrame, tasks: int) -> dict[str, Any]:
    """By kind of reviewer and pass: reviews, and tasks reviewed once or more and twice or more, out of `tasks`."""
    found: dict[str, Any] = {}
    for by in By:
        found[by.value] = {}
        for number in PASSES:
            chosen = reviews.filter((pl.col("by") == by.value) & (pl.col("pass") == number))
            pairs = chosen.select("task_id", "reviewer").unique()
            times = Counter(pairs["task_id"].to_list())
            found[by.value][f"pass_{number}"] = {
                "reviews": pairs.height,
                "reviewers": dict(sorted(Counter(pairs["reviewer"].to_list()).items())),
                "tasks": tasks,
                "tasks_reviewed": len(times),
                "tasks_reviewed_twice": sum(n >= 2 for n in times.values()),
            }
    return found


def kappa(first: Sequence[str], second: Sequence[str]) -> float | None:
    """Cohen's kappa of two raters' labels of the same items; None where it is undefined (no items, or agreement by chance is
    certain because both gave one label throughout)."""
    if not first or (len(set(first)) == 1 and set(first) == set(second)):
        return None
    from sklearn.metrics import cohen_kappa_score

    return round(float(cohen_kappa_score(list(first), list(second))), 12)


def agreement(reviews: pl.DataFrame) -> list[dict[str, Any]]:
    """One entry a (kind of reviewer, pass, question, pair of reviewers) with items in common, and one for all pairs together.

    `judged`: compared answers (each unit counts where a question is asked of units). In `all` the first rater of each pair is
    the one whose name sorts first. `kappa` is None where it is undefined, and `note` says why.
    """
    compared: dict[tuple[str, int, str, str], tuple[list[str], list[str]]] = {}
    for by in By:
        for number, questions in PASSES.items():
            for question in questions:
                if not question.agreement:
                    continue
                chosen = reviews.filter(
                    (pl.col("by") == by.value) & (pl.col("pass") == number) & (pl.col("question") == question.name)
                ).sort("task_id", "reviewer")
                for _, group in chosen.group_by("task_id", maintain_order=True):
                    given = list(zip(group["reviewer"], group["answer"], strict=True))
                    for (name, one), (other, two) in combinations(given, 2):
                        units = question.kind is Kind.UNITS
                        for pair in ("all", f"{name} and {other}"):
                            first, second = compared.setdefault((by.value, number, question.name, pair), ([], []))
                            first += one.split() if units else [one]
                            second += two.split() if units else [two]
    found = []
    for (who, number, name, pair), (first, second) in compared.items():
        same = sum(a == b for a, b in zip(first, second, strict=True))
        value = kappa(first, second)
        found.append(
            {
                "by": who,
                "pass": number,
                "question": name,
                "pair": pair,
                "judged": len(first),
                "equal": same,
                "agreement": round(same / len(first), 12),
                "kappa": value,
                "note": "" if value is not None else UNDEFINED,
            }
        )
    return found


def disagreements(reviews: pl.DataFrame) -> dict[str, list[str]]:
    """Task -> why an adjudicator should look at it: questions on which two reviewers of one kind differ, and tasks found not
    valid; each reason says who found it."""
    found: dict[str, list[str]] = {}
    for by in By:
        for number, questions in PASSES.items():
            for name in (question.name for question in questions if question.agreement):
                chosen = reviews.filter(
                    (pl.col("by") == by.value) & (pl.col("pass") == number) & (pl.col("question") == name)
                ).sort("task_id", "reviewer")
                for (task_id,), group in chosen.group_by("task_id", maintain_order=True):
                    answers = list(dict.fromkeys(group["answer"].to_list()))
                    if len(answers) > 1:
                        found.setdefault(str(task_id), []).append(f"{by.value}: pass {number} {name} differs")
                    elif name == "overall" and answers != ["valid"]:
                        found.setdefault(str(task_id), []).append(f"{by.value}: found {answers[0]}")
    return dict(sorted(found.items()))
