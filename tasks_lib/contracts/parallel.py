"""PRIVATE. Parallel: two to eight databases, independent units, one comparison.

A good candidate measures comparable things: every question names the same measure ("average prices", "numbers of members"),
so that setting the answers side by side is a thing to want.
"""

from __future__ import annotations

from collections.abc import Iterator

from tasks_lib.contracts.contract import Candidate
from tasks_lib.contracts.groups import themed
from tasks_lib.contracts.pool import Pool
from tasks_lib.protocol.vocabulary import Behavior


def candidates(pool: Pool, size: int) -> Iterator[Candidate]:
    """Groups of `size` databases, under a shared measure first, then under a shared kind of thing."""
    for measured in (True, False):
        label = "parallel measures" if measured else "parallel things"
        for theme, units in themed(pool, label, measured, size):
            yield Candidate(
                pool.corpus,
                Behavior.PARALLEL,
                units,
                aggregation=f"all contributions, compared on {theme.key}",
                theme=theme.label,
            )
