"""What judging costs: two results of 10,000 rows and 8 columns, compared by each rule, and read from their bytes.

Run by name: `pytest -m bench tests/bench/test_bench_comparators.py -s`. Processor time, the best of several: on a machine that
does other work the clock says little.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.sql.canonical import CanonicalResult, Value
from tasks_lib.sql.comparators import compare, rule_name

ROWS, TIMES = 10_000, 7
MULTISET_MS = 15.0


def _row(draw: random.Random) -> tuple[Value, ...]:
    return (
        draw.randrange(1_000_000),
        f"item {draw.randrange(100_000)}",
        draw.random() * 100,
        None if draw.random() < 0.2 else draw.randrange(50),
        f"city {draw.randrange(500)}",
        round(draw.random() * 1000, 2),
        draw.randrange(10),
        "x",
    )


def _best(work: Callable[[], object]) -> float:
    """Least processor milliseconds of one call."""
    found = []
    for _ in range(TIMES):
        started = time.process_time()
        work()
        found.append(1000 * (time.process_time() - started))
    return min(found)


@pytest.mark.bench
def test_comparing_two_large_results() -> None:
    draw = random.Random(3)
    rows = [_row(draw) for _ in range(ROWS)]
    shuffled = rows.copy()
    draw.shuffle(shuffled)
    wrong = [*shuffled[:-1], (*shuffled[-1][:-1], "y")]
    columns = tuple(f"c{i}" for i in range(8))
    # Read from bytes as in a run: no value is the same object in both.
    gold, right, other = (
        CanonicalResult.from_bytes(CanonicalResult(columns, tuple(part)).to_bytes()) for part in (rows, shuffled, wrong)
    )
    took = {}
    for corpus, ordered in (
        (Corpus.SPIDER, False),
        (Corpus.SPIDER, True),
        (Corpus.BIRD, False),
        (Corpus.LIVESQLBENCH, False),
    ):
        name = rule_name(corpus, ordered)
        assert compare(corpus, gold, right, ordered).equal is not ordered
        assert not compare(corpus, gold, other, ordered).equal
        took[name] = (
            _best(lambda c=corpus, o=ordered: compare(c, gold, right, o)),  # type: ignore[misc]
            _best(lambda c=corpus, o=ordered: compare(c, gold, other, o)),  # type: ignore[misc]
        )
    data = gold.to_bytes()
    reading = _best(lambda: CanonicalResult.from_bytes(data).rows)
    print(
        f"\n{ROWS} x 8, processor ms: " + ", ".join(f"{n} {a:.1f} equal, {b:.1f} unequal" for n, (a, b) in took.items())
    )
    print(f"reading one result of {len(data)} bytes: {reading:.1f} ms")
    assert max(took["spider/multiset"]) <= MULTISET_MS
