"""PRIVATE. Groups of units of different databases under one theme: what parallel and exploratory share.

A theme comes from facts, which question and gold both say: a measure ("average ages of employees") with answers of one shape,
or a subject ("films") of which different things are told. Narrow themes come first; a wider one (ages of all kinds of people,
everything about transport) serves the sizes that no narrow theme can carry. Does not belong here: which themes a behavior uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tasks_lib.contracts.contract import Unit
from tasks_lib.contracts.facts import Measure, Shape, attributes, subjects
from tasks_lib.contracts.pool import Pool
from tasks_lib.contracts.questions import content

FEW = 30
"""In a corpus of fewer databases, too few of which measure one thing or have one kind of record, any shared subject will do."""
TURNS = 30
"""Groups taken from one theme and size, each with other databases or units."""
LONGEST = {2: 30, 3: 26, 4: 22, 5: 20}
"""Words a question may have in a group of that size; longer requests cannot be read."""
LONGEST_OF_MANY = 16
MOST_SENTENCES = 4
LONGEST_SENTENCES = 45
"""Where no clauses can be made of them, up to four questions may stand as sentences of their own."""
MOST_ROWS = 100
"""Rows one contribution to a group may have."""
ALIKE = 0.75
"""Two questions of a group may share at most this part of their words: else they are one question asked twice."""


@dataclass(frozen=True, slots=True)
class Theme:
    """What a group is about. `label`: in words, plural. `level`: 0 narrow, then wider. `kind`: the shape of all the answers, or
    `facts` where they differ."""

    label: str
    level: int
    kind: str


def measured(measure: Measure, subject: str, shape: Shape) -> str:
    """A measure in words, plural: `average ages of employees`, `numbers of customers by category`, `oldest players`."""
    of = f" of {subject}" if subject else ""
    if measure.statistic == "first":
        return f"top {subject}"
    if measure.attribute:
        attribute = attributes()[measure.attribute]
        if shape is Shape.LEADER and subject and attribute.leaders and measure.statistic in ("highest", "lowest"):
            return f"{attribute.leaders[measure.statistic == 'lowest']} {subject}"
        said = f"{measure.statistic} {attribute.plural if of else attribute.alone}{of}"
    else:
        said = f"{measure.statistic}s{of}"
    return f"{said} by category" if shape is Shape.TABLE else said


def grouped(
    pool: Pool,
    label: str,
    size: int,
    themes: Callable[[Unit], Iterable[Theme]],
    varied: Callable[[Sequence[Unit]], bool] = lambda units: True,
) -> Iterator[tuple[Theme, tuple[Unit, ...]]]:
    """(theme, units) with one unit from each of `size` databases, in keyed order: questions that are clauses first, narrow
    themes first, the themes of a level taking turns. `varied`: what else a group must be."""
    longest = LONGEST.get(size, LONGEST_OF_MANY)
    by_theme: dict[bool, dict[Theme, dict[str, list[Unit]]]] = {True: {}, False: {}}
    for unit in pool.ordered(pool.fit, label, lambda u: u.unit_id):
        length = len(unit.question.split())
        if length > LONGEST_SENTENCES or unit.row_count > MOST_ROWS:
            continue
        # A clause may stand among sentences, not the other way round.
        allowed = {False: pool.clause(unit) is not None and length <= longest, True: size <= MOST_SENTENCES}
        for theme in themes(unit):
            for sentences in (kind for kind in (False, True) if allowed[kind]):
                by_theme[sentences].setdefault(theme, {}).setdefault(unit.database, []).append(unit)
    told: set[frozenset[tuple[str, str]]] = set()
    for sentences in (False, True):
        found = by_theme[sentences]
        usable = [theme for theme, units in found.items() if len(units) >= size]
        for level in sorted({theme.level for theme in usable}):
            order = pool.ordered((t for t in usable if t.level == level), f"{label} {size} themes", str)
            for turn in range(TURNS):
                for theme in order:
                    units = _chosen(pool, found[theme], f"{label} {theme.label} {theme.kind} {size} {turn}", size)
                    # Questions of one database with one result are one question in other words.
                    answers = frozenset((unit.database, unit.result_digest) for unit in units)
                    if len(units) == size and answers not in told and varied(units):
                        told.add(answers)
                        yield theme, units


def _chosen(pool: Pool, found: Mapping[str, list[Unit]], label: str, size: int) -> tuple[Unit, ...]:
    """Up to `size` units of different databases, none of them nearly the question of another."""
    chosen: list[Unit] = []
    for name in pool.ordered(found, label, str):
        # A question without a constant compares better than one with a condition of its own.
        for unit in sorted(pool.ordered(found[name], label, lambda u: u.unit_id), key=pool.telltale)[:3]:
            if not any(_alike(unit, other) for other in chosen):
                chosen.append(unit)
                break
        if len(chosen) == size:
            break
    return tuple(chosen)


def _alike(one: Unit, other: Unit) -> bool:
    a, b = set(content(one.question)), set(content(other.question))
    return len(a & b) > ALIKE * max(1, min(len(a), len(b)))


def classes_of(subject: str, among: Mapping[str, str]) -> list[str]:
    """Labels of the families of a subject that are among the given ones."""
    return [among[name] for name in subjects()[subject].families if name in among]
