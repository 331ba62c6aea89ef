"""PRIVATE. What a reviewer is asked in each pass and which answers there are (PROTOCOL 5).

Belongs here: the closed vocabularies of review and the check of one answer. Does not belong here: what a packet shows
(`packets`), whole files of answers (`imports`). An answer is always text, so that forms, CSV and tables hold the same:
several values of one answer stand in order, separated by spaces.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from tasks_lib.protocol.vocabulary import Behavior


class ReviewRefused(ValueError):
    """A plan, an answer file or a decision that cannot be used; nothing of it was taken over."""


class By(StrEnum):
    """Who gave an answer. Only a file that says `person` counts as a person's."""

    PERSON = "person"
    SCRIPTED = "scripted"


class Severity(StrEnum):
    """How bad a defect is."""

    NONE = "none"
    MINOR = "minor"
    MAJOR = "major"
    CRITICAL = "critical"


class Kind(StrEnum):
    """How a question is answered: one option; one option for each unit; a set of candidates; free text."""

    ONE = "one"
    UNITS = "units"
    SOURCES = "sources"
    TEXT = "text"


NO_SOURCES = "none"
"""The answer to `minimum_sources` of a reviewer who finds no set of candidates that suffices."""
OPEN = "-"
"""Stands for a unit without an answer where another unit of the item has one."""


@dataclass(frozen=True, slots=True)
class Question:
    """One judgment. `hint`: what the options mean, where a reviewer could not know. `agreement`: two answers to it can be
    compared (free text and a reviewer's own confidence cannot)."""

    name: str
    prompt: str
    kind: Kind
    options: tuple[str, ...] = ()
    hint: str = ""
    agreement: bool = True


def _one(name: str, prompt: str, *options: str, hint: str = "") -> Question:
    return Question(name, prompt, Kind.ONE, options, hint)


BEHAVIORS = (
    "single: one source answers it; parallel: several sources, each on its own; sequential: what one source says is needed to ask "
    "another; exploratory: the sources have to be discovered from what they can do; interactive: it can be meant in two ways, so one "
    "has to ask back first."
)
SMALLEST = "Mark every source that it needs; where it can be meant in several ways, every source that it could mean."


NOTES = Question("notes", "Notes (may stay empty)", Kind.TEXT, agreement=False)
PASS_ONE: tuple[Question, ...] = (
    _one("naturalness", "Would a person write this request?", "natural", "awkward", "unnatural"),
    _one("completeness", "Does it say all that is needed to answer it?", "complete", "incomplete", "unclear"),
    Question("minimum_sources", "Which smallest set of candidates answers it?", Kind.SOURCES, (), SMALLEST),
    _one("uniqueness", "Is that the only smallest set?", "unique", "several", "unclear"),
    _one(
        "behavior",
        "What does the request ask for?",
        *(behavior.value for behavior in Behavior),
        "unclear",
        hint=BEHAVIORS,
    ),
    Question("confidence", "How sure are you?", Kind.ONE, ("low", "medium", "high"), agreement=False),
    NOTES,
)
PASS_TWO: tuple[Question, ...] = (
    _one("gold_set", "Do the required sources answer the request?", "valid", "invalid", "unclear"),
    _one("gold_unique", "Are they the only set that does?", "unique", "several", "unclear"),
    _one("behavior", "Are behavior, dependencies and branches right?", "right", "wrong", "unclear"),
    Question("preserved", "Does the request keep the unit's question?", Kind.UNITS, ("yes", "no", "unclear")),
    Question("mapping", "Do SQL and database fit the unit's question?", Kind.UNITS, ("right", "wrong", "unclear")),
    _one("overall", "The task as a whole", "valid", "repairable", "invalid"),
    _one("severity", "How bad is its worst defect?", *(severity.value for severity in Severity)),
    NOTES,
)
PASSES: dict[int, tuple[Question, ...]] = {1: PASS_ONE, 2: PASS_TWO}


def fault(question: Question, answer: str, units: int, candidates: Collection[str]) -> str | None:
    """Why an answer cannot be used, or None. `units`: how many the task has; `candidates`: its public ids.

    The text reads on from "item x: ".
    """
    words = answer.split()
    if question.kind is Kind.TEXT:
        return None
    if not words:
        return f"{question.name} has no answer, expected one"
    if question.kind is Kind.SOURCES:
        if words == [NO_SOURCES]:
            return None
        odd = [word for word in words if word not in candidates]
        if odd:
            return f"{question.name} names {odd[0]!r}, expected candidates of the item or {NO_SOURCES!r}"
        return f"{question.name} names {words[0]!r} twice" if len(set(words)) < len(words) else None
    wanted = units if question.kind is Kind.UNITS else 1
    if OPEN in words:
        return f"{question.name} has no answer for unit {words.index(OPEN) + 1}, expected one"
    if len(words) != wanted:
        return f"{question.name} has {len(words)} answers, expected {wanted}"
    odd = [word for word in words if word not in question.options]
    return f"{question.name} is {odd[0]!r}, expected one of {', '.join(question.options)}" if odd else None


def normal(question: Question, answer: str) -> str:
    """An answer as it is stored: single spaces, sets of sources in order; free text without its outer blanks."""
    if question.kind is Kind.TEXT:
        return answer.strip()
    words = answer.split()
    return " ".join(sorted(words) if question.kind is Kind.SOURCES else words)
