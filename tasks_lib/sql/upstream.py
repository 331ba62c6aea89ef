"""Every rule by which a result may be called right: ours, those of the other corpora, and those the corpora's own evaluators publish.

Belongs here: the switches in which rules differ, the rules as settings of them, judging a pair of canonical results by a rule,
and naming the switches that made two rules disagree. Pure functions, versioned; nothing is run. Does not belong here: the
rule that decides verdicts (`comparators`), which is told here again in switches and must give the same answer.

The published rules, in our words:
- Spider (execution match of its test suites): rows are counted, or kept in order when the words ORDER BY stand anywhere in the
  gold text; columns may be in any order; rows whose values, sorted by their text and type, differ are rejected before; stray
  bytes of texts are dropped; two empty results are equal.
- BIRD: equal sets of rows as Python compares values; a text that is not UTF-8 is a failure; two empty results are equal.
- LiveSQLBench: decimals are rounded half up and floats by Python's `round`, both to two places, dates and timestamps cut to
  days, JSON and arrays compared as text; sets of rows, or lists when the task asks for order; nothing equals an empty result.
What those evaluators do to SQL texts before running them (Spider and LiveSQLBench drop DISTINCT, LiveSQLBench also ROUND) is not
told here: it changes what runs, not how results are compared.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from enum import StrEnum
from typing import Any

from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.sql.canonical import CanonicalResult, Json, Value
from tasks_lib.sql.comparators import Rows, exact, rounded, row_keys


class Switch(StrEnum):
    """What two rules can differ in; the closed list of reasons for a disagreement."""

    ROW_ORDER = "row_order"
    DUPLICATE_ROWS = "duplicate_rows"
    COLUMN_PERMUTATION = "column_permutation"
    NUMBER_ROUNDING = "number_rounding"
    VALUE_TYPE = "value_type"
    SORTED_ROWS = "sorted_rows"
    TEXT_DECODING = "text_decoding"
    EMPTY_RESULT = "empty_result"


class Order(StrEnum):
    """When rows must be in the gold's order."""

    NEVER = "never"
    OUTERMOST = "outermost"
    MENTIONED = "mentioned"


class Numbers(StrEnum):
    """How numbers are compared: exactly, rounded half up to two places by their shortest text, or as LiveSQLBench rounds."""

    EXACT = "exact"
    HALF_UP = "half_up"
    PYTHON = "python"


class Stray(StrEnum):
    """What becomes of bytes that are not UTF-8."""

    KEPT = "kept"
    DROPPED = "dropped"
    FAIL = "fail"


class Empty(StrEnum):
    """When two empty results are equal."""

    SAME_WIDTH = "same_width"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Setting:
    """A rule as switches, each named as in `Switch`. value_type: whether types are kept apart that Python compares (true is 1, a
    timestamp is its day). sorted_rows: whether rows sorted by text and type must be equal first."""

    row_order: Order
    duplicate_rows: bool
    column_permutation: bool = False
    number_rounding: Numbers = Numbers.EXACT
    value_type: bool = True
    sorted_rows: bool = False
    text_decoding: Stray = Stray.KEPT
    empty_result: Empty = Empty.SAME_WIDTH


class Rule(StrEnum):
    """A rule to read verdicts under."""

    SPIDER = "spider"
    BIRD = "bird"
    LIVESQLBENCH = "livesqlbench"
    SPIDER_PUBLISHED = "spider_published"
    BIRD_PUBLISHED = "bird_published"
    LIVESQLBENCH_PUBLISHED = "livesqlbench_published"


SETTINGS: dict[Rule, Setting] = {
    Rule.SPIDER: Setting(Order.OUTERMOST, duplicate_rows=True),
    Rule.BIRD: Setting(Order.NEVER, duplicate_rows=False),
    Rule.LIVESQLBENCH: Setting(Order.NEVER, duplicate_rows=False, number_rounding=Numbers.HALF_UP),
    Rule.SPIDER_PUBLISHED: Setting(
        Order.MENTIONED,
        duplicate_rows=True,
        column_permutation=True,
        value_type=False,
        sorted_rows=True,
        text_decoding=Stray.DROPPED,
        empty_result=Empty.ALWAYS,
    ),
    Rule.BIRD_PUBLISHED: Setting(
        Order.NEVER,
        duplicate_rows=False,
        value_type=False,
        text_decoding=Stray.FAIL,
        empty_result=Empty.ALWAYS,
    ),
    Rule.LIVESQLBENCH_PUBLISHED: Setting(
        Order.OUTERMOST,
        duplicate_rows=False,
        number_rounding=Numbers.PYTHON,
        value_type=False,
        empty_result=Empty.NEVER,
    ),
}
RULES_VERSION = "rules@1"
"""Raised when a setting or what it means changes."""


def own_rule(corpus: Corpus) -> Rule:
    """The rule that decides the verdicts of a corpus."""
    return Rule(corpus.value)


def other_rules(corpus: Corpus) -> tuple[Rule, ...]:
    """The rules a corpus's verdicts are read under besides: of the other corpora, and what its own evaluator publishes."""
    others = tuple(own_rule(other) for other in Corpus if other is not corpus)
    return (*others, Rule(f"{corpus.value}_published"))


@dataclass(frozen=True, slots=True)
class Pair:
    """Two results to judge. `ordered`: the outermost gold query has an ORDER BY. `gold_sql`: its text."""

    gold: CanonicalResult
    predicted: CanonicalResult
    ordered: bool
    gold_sql: str


def judge(rule: Rule, pair: Pair) -> bool:
    """Whether the prediction is right by `rule`. Both statements really ran: one without a result is never judged."""
    return _equal(SETTINGS[rule], pair)


def reasons(own: Rule, other: Rule, pair: Pair) -> tuple[Switch, ...]:
    """The fewest switches of `other` that turn the answer of `own` into that of `other`; () when both answer alike.

    Among as few, the first in the order of `Switch` is named, so that a disagreement always has the same name.
    """
    base, wanted = SETTINGS[own], judge(other, pair)
    if judge(own, pair) == wanted:
        return ()
    target = SETTINGS[other]
    differing = [s for s in Switch if getattr(base, s) != getattr(target, s)]
    for count in range(1, len(differing)):
        for chosen in itertools.combinations(differing, count):
            changed = replace(base, **{s.value: getattr(target, s) for s in chosen})
            if _equal(changed, pair) == wanted:
                return chosen
    return tuple(differing)


Keys = list[tuple[Hashable, ...]]


def _equal(setting: Setting, pair: Pair) -> bool:
    sides: list[Rows] = [pair.gold.rows, pair.predicted.rows]
    if setting.text_decoding is not Stray.KEPT and any(_has_stray(rows) for rows in sides):
        if setting.text_decoding is Stray.FAIL:
            return False
        sides = [[tuple(map(_dropped, row)) for row in rows] for rows in sides]
    same_width = len(pair.gold.columns) == len(pair.predicted.columns)
    if not sides[0] and not sides[1]:
        return setting.empty_result is Empty.ALWAYS or (setting.empty_result is Empty.SAME_WIDTH and same_width)
    if not sides[0] or not sides[1] or not same_width:
        return False
    ordered = setting.row_order is not Order.NEVER and (
        pair.ordered or (setting.row_order is Order.MENTIONED and "order by" in pair.gold_sql.lower())
    )
    counted = ordered or setting.duplicate_rows
    if counted and len(sides[0]) != len(sides[1]):
        return False
    if setting.sorted_rows and not _sorted_alike(sides[0], sides[1], ordered):
        return False
    gold, other = (_keys(setting, rows) for rows in sides)
    if setting.column_permutation:
        return _permuted_alike(gold, other, _kept(ordered, counted))
    return _kept(ordered, counted)(gold) == _kept(ordered, counted)(other)


def _kept(ordered: bool, counted: bool) -> Callable[[Sequence[Hashable]], object]:
    """What of a sequence of rows is compared."""
    if ordered:
        return list
    return (lambda rows: dict(Counter(rows))) if counted else frozenset


def _keys(setting: Setting, rows: Rows) -> Keys:
    if setting.value_type:
        return row_keys(rows, rounded if setting.number_rounding is Numbers.HALF_UP else exact)
    if setting.number_rounding is Numbers.EXACT:
        return [tuple(row) for row in rows]
    number = rounded if setting.number_rounding is Numbers.HALF_UP else _python_rounded
    return [tuple(_loosely(value, number) for value in row) for row in rows]


def _loosely(value: Value, number: Callable[[int | float | Decimal], Hashable]) -> Hashable:
    """A value as LiveSQLBench's evaluator compares it."""
    match value:
        case bool() | int():
            return value
        case float() | Decimal():
            return number(value)
        case datetime() | date():
            return value.strftime("%Y-%m-%d")
        case Json():
            return json.dumps(_jsonable(json.loads(value.text)), sort_keys=True)
        case tuple():
            return json.dumps(_jsonable(value), sort_keys=True, default=str)
        case _:
            return value


def _jsonable(node: Any) -> Any:
    if isinstance(node, dict):
        return {name: _jsonable(member) for name, member in node.items()}
    if isinstance(node, list | tuple):
        return [_jsonable(item) for item in node]
    return _python_rounded(node) if isinstance(node, float | Decimal) else node


_CENT = Decimal("0.01")
_WIDE = Context(prec=200_000, rounding=ROUND_HALF_UP)


def _python_rounded(value: int | float | Decimal) -> Hashable:
    if isinstance(value, Decimal):
        return value.quantize(_CENT, context=_WIDE) if value.is_finite() else value
    return round(value, 2) if isinstance(value, float) else value


def _has_stray(rows: Rows) -> bool:
    return any(isinstance(value, str) and not _is_utf8(value) for row in rows for value in row)


def _is_utf8(text: str) -> bool:
    return text.isascii() or not any("\udc80" <= character <= "\udcff" for character in text)


def _dropped(value: Value) -> Value:
    if isinstance(value, str) and not _is_utf8(value):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "ignore")
    return value


def _sorted_alike(gold: Rows, other: Rows, ordered: bool) -> bool:
    """Whether rows are equal once the values of each are sorted by their text and the name of their type."""
    left, right = (
        [tuple(sorted(row, key=lambda value: str(value) + str(type(value)))) for row in rows] for rows in (gold, other)
    )
    return left == right if ordered else set(left) == set(right)


def _permuted_alike(gold: Keys, other: Keys, kept: Callable[[Sequence[Hashable]], object]) -> bool:
    """Whether some order of the columns of `other` makes the rows those of `gold`.

    Columns are placed one after the other; a start that already differs from the gold's is given up at once, and of columns with
    the same values one is tried.
    """
    left, right = list(zip(*gold, strict=True)), list(zip(*other, strict=True))

    def place(at: int, free: tuple[int, ...], starts: list[list[Hashable]]) -> bool:
        if at == len(left):
            return True
        tried = set()
        for column in free:
            if right[column] in tried:
                continue
            tried.add(right[column])
            longer = [list(zip(starts[0], left[at], strict=True)), list(zip(starts[1], right[column], strict=True))]
            if kept(longer[0]) != kept(longer[1]):
                continue
            # Numbers in place of what is already placed: rows that are equal so far have the same one.
            numbers: dict[Hashable, int] = {}
            named = [[numbers.setdefault(start, len(numbers)) for start in side] for side in longer]
            if place(at + 1, tuple(c for c in free if c != column), [list(side) for side in named]):
                return True
        return False

    return place(0, tuple(range(len(right))), [[0] * len(gold), [0] * len(other)])
