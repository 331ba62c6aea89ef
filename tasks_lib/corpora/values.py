"""PRIVATE. What a reader tells about the values of a column: examples, range, number of distinct values.

Belongs here: the rule that picks them, the same for every engine. Does not belong here: fetching values. Replicas never
come here: their values are made from gold queries and must not be seen anywhere.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

SAMPLE_ROWS = 5000
"""Rows of a table that are looked at, from its beginning."""
MAX_EXAMPLES = 5
MAX_EXAMPLE_CHARACTERS = 80
"""A longer value is no example: a cut one would not be a value of the column."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?([+-]\d{2}(:?\d{2})?|Z)?)?")


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """See ColumnInfo for the meaning of each."""

    examples: tuple[str, ...] = ()
    value_range: str = ""
    distinct: int = 0


def column_values(values: Iterable[object]) -> ColumnValues:
    """Describe the values of one column (numbers, texts, bytes, None). Bytes count as distinct but are no examples.

    A text with a replacement character was not UTF-8 in the database and is no example.
    """
    counts: Counter[object] = Counter(value for value in values if value is not None)
    texts: Counter[str] = Counter()
    for value, count in counts.items():
        text = value if isinstance(value, str) else "" if isinstance(value, bytes) else str(value)
        if text.strip() and len(text) <= MAX_EXAMPLE_CHARACTERS and "\ufffd" not in text and text.isprintable():
            texts[text] += count
    examples = sorted(texts, key=lambda text: (-texts[text], text))[:MAX_EXAMPLES]
    return ColumnValues(tuple(examples), _range(counts), len(counts))


def _range(values: Iterable[object]) -> str:
    values = list(values)
    if values and all(isinstance(value, int | float | Decimal) and not isinstance(value, bool) for value in values):
        numbers = [value for value in values if isinstance(value, int | float | Decimal) and math.isfinite(value)]
        return f"{min(numbers)}..{max(numbers)}" if numbers else ""
    dates = [value for value in values if isinstance(value, str) and _DATE.fullmatch(value)]
    return f"{min(dates)}..{max(dates)}" if dates and len(dates) == len(values) else ""
