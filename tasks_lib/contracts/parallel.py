"""PRIVATE. Parallel: two to eight databases, independent units, one comparison.

A good candidate measures one thing everywhere, in question and gold alike: the same statistic (average, number, highest ...) of
the same attribute or of the same kind of thing, answered in one shape (a figure, who comes first, or a figure for each of
several things). So the answers can be set side by side, and which of them is the largest is a thing to ask.
"""

from __future__ import annotations

from collections.abc import Iterator

from tasks_lib.contracts.contract import Candidate, Unit
from tasks_lib.contracts.facts import Shape, attributes, families
from tasks_lib.contracts.groups import FEW, Theme, classes_of, grouped, measured
from tasks_lib.contracts.pool import Pool
from tasks_lib.protocol.vocabulary import Behavior

DERIVED = {
    "number": "which of the figures is the largest",
    "leader": "what comes first in each, side by side",
    "table": "one table of all the figures",
    "facts": "one overview, side by side",
}


def candidates(pool: Pool, size: int) -> Iterator[Candidate]:
    """Groups of `size` databases, those that share attribute and subject first."""

    def themes(unit: Unit) -> Iterator[Theme]:
        fact = pool.fact(unit)
        for measure in fact.measures:
            wide = bool(measure.attribute) and attributes()[measure.attribute].wide
            if measure.subject:
                yield Theme(measured(measure, measure.subject, fact.shape), 0, fact.shape.value)
                for label in classes_of(measure.subject, families("class")):
                    yield Theme(measured(measure, label, fact.shape), 1, fact.shape.value)
            if wide or not (measure.subject or measure.attribute):
                yield Theme(measured(measure, "", fact.shape), 1, fact.shape.value)

    def either(unit: Unit) -> Iterator[Theme]:
        if pool.fact(unit).shape is not Shape.LISTING:
            yield from themes(unit)
        if len(pool.databases) < FEW:
            for subject in pool.fact(unit).subjects:
                for label in (subject, *classes_of(subject, families("field"))):
                    yield Theme(label, 2, "facts")

    for theme, units in grouped(pool, "parallel", size, either):
        yield Candidate(
            pool.corpus,
            Behavior.PARALLEL,
            units,
            aggregation=f"all contributions compared on {theme.label}: {DERIVED[theme.kind]}",
            theme=theme.label,
        )
