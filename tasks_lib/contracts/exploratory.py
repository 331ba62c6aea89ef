"""PRIVATE. Exploratory: the sources are to be discovered from what they can answer.

A good candidate is a goal about one kind of thing ("members", "films") to which several databases contribute different
facts: the questions measure different things, so no single measure names the sources.
"""

from __future__ import annotations

from collections.abc import Iterator

from tasks_lib.contracts.contract import Candidate
from tasks_lib.contracts.groups import themed
from tasks_lib.contracts.pool import Pool
from tasks_lib.protocol.vocabulary import Behavior


def candidates(pool: Pool, size: int) -> Iterator[Candidate]:
    """Groups of `size` databases, under a shared kind of thing first, then under a shared measure."""
    for measured in (False, True):
        label = "exploratory measures" if measured else "exploratory things"
        for theme, units in themed(pool, label, measured, size):
            yield Candidate(
                pool.corpus,
                Behavior.EXPLORATORY,
                units,
                aggregation=f"a picture of {theme.label} from all contributions",
                theme=theme.label,
            )
