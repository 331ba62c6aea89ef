"""The published execution rules of Spider and BIRD written out plainly, for the test that holds ours against them.

Nothing of the project is used: a database is opened with sqlite3 alone, and rows are what its driver gives. Told from the rules
as their evaluators publish them, without what those do to the texts beforehand (dropping DISTINCT).
"""

from __future__ import annotations

import itertools
import sqlite3
from pathlib import Path
from typing import Any

Row = tuple[Any, ...]
STEPS = 30_000
"""Calls of the progress handler, one each 10,000 instructions of SQLite's machine, until a statement counts as too slow."""


class Failed(Exception):
    """The statement gave no rows."""


def fetch(path: Path, sql: str, *, drop_stray_bytes: bool) -> list[Row]:
    """All rows. Spider's evaluator drops bytes that are not UTF-8, BIRD's lets the driver fail on them."""
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    left = iter(range(STEPS))
    connection.set_progress_handler(lambda: next(left, None) is None, 10_000)
    if drop_stray_bytes:
        connection.text_factory = lambda raw: raw.decode("utf-8", "ignore")
    try:
        return connection.execute(sql).fetchall()
    except sqlite3.Error as error:
        raise Failed(str(error)) from error
    finally:
        connection.close()


def spider(path: Path, gold_sql: str, predicted_sql: str) -> bool:
    """Some order of the columns makes the rows the same, counted; in order when ORDER BY stands anywhere in the gold text."""
    gold = fetch(path, gold_sql, drop_stray_bytes=True)
    try:
        predicted = fetch(path, predicted_sql, drop_stray_bytes=True)
    except Failed:
        return False
    return spider_rows(gold, predicted, in_order="order by" in gold_sql.lower())


def spider_rows(gold: list[Row], predicted: list[Row], in_order: bool) -> bool:
    if not gold and not predicted:
        return True
    if len(gold) != len(predicted) or len(gold[0]) != len(predicted[0]):
        return False

    def without_columns(row: Row) -> Row:
        return tuple(sorted(row, key=lambda value: str(value) + str(type(value))))

    left, right = [without_columns(row) for row in gold], [without_columns(row) for row in predicted]
    if (left != right) if in_order else (set(left) != set(right)):
        return False
    width = len(gold[0])
    # A column can only stand where every value of it occurs in the gold's column.
    values = [{row[at] for row in gold} for at in range(width)]
    fits = [[c for c in range(width) if all(row[c] in values[at] for row in predicted)] for at in range(width)]
    for order in itertools.product(*fits):
        if len(set(order)) != width:
            continue
        arranged = [tuple(row[c] for c in order) for row in predicted]
        if arranged == gold if in_order else _same_bag(gold, arranged):
            return True
    return False


def _same_bag(one: list[Row], other: list[Row]) -> bool:
    counts: dict[Row, int] = {}
    for row in one:
        counts[row] = counts.get(row, 0) + 1
    for row in other:
        counts[row] = counts.get(row, 0) - 1
    return not any(counts.values())


def bird(path: Path, gold_sql: str, predicted_sql: str) -> bool:
    """The rows are the same set, as Python compares values; whatever fails is wrong."""
    try:
        return set(fetch(path, predicted_sql, drop_stray_bytes=False)) == set(
            fetch(path, gold_sql, drop_stray_bytes=False)
        )
    except Failed:
        return False
