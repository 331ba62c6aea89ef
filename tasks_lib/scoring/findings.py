"""What a check of tables found, counted: parts that are looked at one after the other tell together what the whole would.

Sentences and their counts only; what counts as a fault is in gate and verify.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True, slots=True)
class Found:
    """One kind of fault. `sentence` holds {count} and {first}: how many rows have it, and which is the first of them."""

    sentence: str
    count: int
    first: str


def found(sentence: str, rows: pl.DataFrame, first: object = None) -> list[Found]:
    """The fault that `rows` have, none where there are none. `first`: default the first row."""
    if not rows.height:
        return []
    return [Found(sentence, rows.height, str(rows.row(0) if first is None else first))]


def told(faults: Iterable[Found]) -> list[str]:
    """One sentence for every kind, in order of appearance, with the counts of all parts and the first of the first part."""
    kinds: dict[str, Found] = {}
    for fault in faults:
        before = kinds.get(fault.sentence)
        count = fault.count + (before.count if before else 0)
        kinds[fault.sentence] = Found(fault.sentence, count, (before or fault).first)
    return [f.sentence.replace("{count}", str(f.count)).replace("{first}", f.first) for f in kinds.values()]
