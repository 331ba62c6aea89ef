"""When a predicted result counts as the gold result: one versioned rule per corpus (PROTOCOL 11, paper D.6).

Belongs here: pure functions over canonical results, linear in their size. Does not belong here: running SQL, deciding
whether a gold query is ordered (`guard.is_ordered`), or verdicts about SQL that gave no result.

Common to all rules: column counts must match, column order counts, column names do not; text never equals a number.
Numbers are compared by value, exactly (1 = 1.0; no tolerance), as SQLite and PostgreSQL do.
- spider: equal lists of rows when the gold query is ordered (`spider/ordered`), else equal bags (`spider/multiset`).
- bird: equal sets of rows (`bird/set`), as BIRD's own scorer decides.
- livesqlbench: numbers are rounded to two decimals, halves away from zero, then equal sets (`livesqlbench/round2_set`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import ROUND_HALF_UP, Context, Decimal
from itertools import chain
from operator import ne
from uuid import UUID

from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.sql.canonical import CanonicalResult, Interval, Json, Opaque, Value

COMPARATOR_VERSION: dict[Corpus, str] = {
    Corpus.SPIDER: "spider@1",
    Corpus.BIRD: "bird@1",
    Corpus.LIVESQLBENCH: "livesqlbench@1",
}
"""Part of every verdict; raised when a rule changes what it calls equal."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparator decided: `rule` such as `bird/set`, `version` from COMPARATOR_VERSION."""

    equal: bool
    rule: str
    version: str


def compare(corpus: Corpus, gold: CanonicalResult, predicted: CanonicalResult, ordered: bool) -> Comparison:
    """Compare two results by the rule of `corpus`. `ordered` (is the gold query ordered?) matters for spider only.

    Both must come from statements that really ran: a missing or failed statement has no result and is never compared.
    """
    rule = rule_name(corpus, ordered)
    equal = len(gold.columns) == len(predicted.columns) and (
        _identical(gold, predicted) or _EQUAL[rule](gold, predicted)
    )
    return Comparison(equal, rule, COMPARATOR_VERSION[corpus])


def _identical(gold: CanonicalResult, predicted: CanonicalResult) -> bool:
    """Whether both hold the same values in the same order for certain: under every rule they are equal then."""
    lines = gold.row_lines
    return lines is not None and lines == predicted.row_lines


def rule_name(corpus: Corpus, ordered: bool) -> str:
    """Return the name of the rule that `compare` applies."""
    match corpus:
        case Corpus.SPIDER:
            return "spider/ordered" if ordered else "spider/multiset"
        case Corpus.BIRD:
            return "bird/set"
        case Corpus.LIVESQLBENCH:
            return "livesqlbench/round2_set"


Rows = Sequence[tuple[Value, ...]]
Table = Callable[[Iterable[tuple[Hashable, ...]]], object]


def _exactly(gold: CanonicalResult, other: CanonicalResult, table: Table) -> bool:
    """Whether `table` (the rows in order, counted, or as a set) of both is equal, values being compared exactly."""
    plain = gold.value_types <= _AS_PYTHON and other.value_types <= _AS_PYTHON
    if plain:
        # Python's own comparison is then ours, but for NaN, which it calls unequal to itself.
        if table(gold.rows) == table(other.rows):
            return True
        if not any(_holds_nan(side) for side in (gold, other)):
            return False
    return table(row_keys(gold.rows, exact)) == table(row_keys(other.rows, exact))


def _counted(rows: Iterable[tuple[Hashable, ...]]) -> dict[tuple[Hashable, ...], int]:
    return dict(Counter(rows))  # Counter's own equality is a loop in Python


_AS_PYTHON = frozenset({type(None), int, float, str, bytes})
"""Types whose values are equal here when Python says so. Not bool: Python's True is 1, a database's is not."""


def _holds_nan(side: CanonicalResult) -> bool:
    return float in side.value_types and any(map(ne, chain.from_iterable(side.rows), chain.from_iterable(side.rows)))


_EQUAL: dict[str, Callable[[CanonicalResult, CanonicalResult], bool]] = {
    "spider/ordered": lambda gold, other: len(gold.rows) == len(other.rows) and _exactly(gold, other, tuple),
    "spider/multiset": lambda gold, other: len(gold.rows) == len(other.rows) and _exactly(gold, other, _counted),
    "bird/set": lambda gold, other: _exactly(gold, other, frozenset),
    "livesqlbench/round2_set": lambda gold, other: (
        frozenset(row_keys(gold.rows, rounded)) == frozenset(row_keys(other.rows, rounded))
    ),
}


def row_keys(rows: Rows, number: Callable[[int | float | Decimal], Hashable]) -> list[tuple[Hashable, ...]]:
    """Return a hashable row for every row: equal where the values are, numbers by what `number` makes of them."""
    return [tuple([value if type(value) in _ITSELF else _key(value, number) for value in row]) for row in rows]


_ITSELF = frozenset({type(None), int, str, bytes})
"""Types whose values are their own key. An int equals the float and the Decimal of its value, also where those are rounded."""


def _key(value: Value, number: Callable[[int | float | Decimal], Hashable]) -> Hashable:
    """Return a hashable that is equal for equal values and unequal across types."""
    match value:
        case None | str() | bytes():
            return value
        case bool():  # before int: Python's True is 1, a database's is not
            return ("bool", value)
        case int() | float() | Decimal():
            return number(value)
        case Interval():
            # PostgreSQL compares intervals with months of 30 days and days of 24 hours.
            return ("interval", (value.months * 30 + value.days) * 86_400_000_000 + value.microseconds)
        case Json():
            return ("json", _json_key(value.text))
        case tuple():
            return ("array", tuple(_key(item, number) for item in value))
        case datetime():  # aware ones compare as instants, and never equal a naive one
            return ("timestamp", value)
        case date() | time() | UUID() | Opaque():
            return (type(value).__name__, value)


def exact(value: int | float | Decimal) -> Hashable:
    """Python's int, float and Decimal hash and compare exactly by value; NaN alone needs a name (NaN = NaN in SQL)."""
    return ("nan",) if _is_nan(value) else value


def _is_nan(value: int | float | Decimal) -> bool:
    return value.is_nan() if isinstance(value, Decimal) else value != value


_WIDE = Context(prec=200_000, rounding=ROUND_HALF_UP)  # PostgreSQL's numeric: up to 131,072 + 16,383 digits
_CENT = Decimal("0.01")


def rounded(value: int | float | Decimal) -> Hashable:
    """Round to two decimals, halves away from zero. A float goes through its shortest text: 2.675 rounds to 2.68."""
    if _is_nan(value):
        return ("nan",)
    whole = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if whole.is_infinite():  # not math.isinf: it goes through float, where 10**309 is infinite
        return whole
    return whole.quantize(_CENT, context=_WIDE)


def _json_key(text: str) -> Hashable:
    """Return a key of a JSON value: members in any order, numbers by value (as jsonb compares)."""

    def frozen(node: object) -> Hashable:
        if isinstance(node, dict):
            return ("object", frozenset((name, frozen(member)) for name, member in node.items()))
        if isinstance(node, list):
            return ("list", tuple(frozen(item) for item in node))
        if isinstance(node, bool) or node is None:
            return ("constant", node)
        return node if isinstance(node, str | Decimal) else Decimal(str(node))

    return frozen(json.loads(text, parse_float=Decimal, parse_int=Decimal))
