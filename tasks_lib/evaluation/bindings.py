"""PRIVATE. Public placeholders of upstream results and what may be bound to them (PROTOCOL 10, known fault V10)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tasks_lib.protocol.records import BindingValue
from tasks_lib.sql.canonical import CanonicalResult
from tasks_lib.sql.placeholders import bindable


def placeholder_names(number: int, columns: Sequence[str]) -> tuple[str, ...]:
    """One name per output column of the `number`-th upstream query (1-based): `up1_title`; clashes get a suffix."""
    names: list[str] = []
    for i, column in enumerate(columns, start=1):
        slug = re.sub(r"[^a-z0-9]+", "_", column.lower()).strip("_")[:40] or f"column_{i}"
        name = f"up{number}_{slug}"
        while name in names:
            name += f"_{i}"
        names.append(name)
    return tuple(names)


def bound_values(names: Sequence[str], result: CanonicalResult, correct: bool) -> dict[str, BindingValue] | None:
    """Typed values by placeholder from a correct upstream result with exactly one row and no null; else None."""
    if not correct or len(result.rows) != 1 or any(v is None for v in result.rows[0]):
        return None
    try:
        return {name: bindable(value) for name, value in zip(names, result.rows[0], strict=True)}
    except ValueError:
        return None
