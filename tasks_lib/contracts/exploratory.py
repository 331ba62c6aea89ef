"""PRIVATE. Exploratory: the sources are to be discovered from what they can answer.

A good candidate is a goal about one subject ("films", "patients and their treatment") to which several databases contribute
different facts. Its questions name no constant and no word that only one schema knows, so nothing but what a source can answer
tells which sources to use; where too few are so plain, questions with such words follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tasks_lib.contracts.contract import Candidate, Unit
from tasks_lib.contracts.facts import families, subjects
from tasks_lib.contracts.groups import FEW, Theme, classes_of, grouped
from tasks_lib.contracts.pool import Pool
from tasks_lib.protocol.vocabulary import Behavior


def candidates(pool: Pool, size: int) -> Iterator[Candidate]:
    """Groups of `size` databases, plain questions first, then one kind of thing before a whole field."""

    def themes(unit: Unit) -> Iterator[Theme]:
        telltale = 2 * pool.telltale(unit)
        fact = pool.fact(unit)
        for subject in (key for key in fact.subjects[:1] if key in fact.tabled and subjects()[key].topic):
            yield Theme(subject, telltale, "facts")
            for label in classes_of(subject, families("field")):
                yield Theme(label, 1 + telltale, "facts")
        for subject in fact.subjects if len(pool.databases) < FEW else ():
            for label in (subject, *classes_of(subject, families("field"))):
                yield Theme(label, 4, "facts")

    def varied(units: Sequence[Unit]) -> bool:
        told = [_told(pool, unit) for unit in units]
        return max(map(told.count, told)) <= (len(told) + 1) // 2

    for theme, units in grouped(pool, "exploratory", size, themes, varied):
        yield Candidate(
            pool.corpus,
            Behavior.EXPLORATORY,
            units,
            aggregation=f"a picture of {theme.label} from all contributions",
            theme=theme.label,
        )


def _told(pool: Pool, unit: Unit) -> tuple[str, str]:
    """What a unit tells: the statistic and attribute of its measure, or the columns of its listing."""
    fact = pool.fact(unit)
    if fact.measures:
        return fact.measures[0].statistic, fact.measures[0].attribute
    return fact.shape.value, " ".join(sorted({c.split(".")[-1] for c in unit.columns}))
