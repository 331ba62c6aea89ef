"""PRIVATE. Single: one database among distractors.

A good candidate asks something that a person could say and that only one database of the corpus can answer: nobody else is
asked the same, and of all schemas only its own knows the words of the question (`Pool.fit`).
"""

from __future__ import annotations

from collections.abc import Iterator

from tasks_lib.contracts.contract import Candidate
from tasks_lib.contracts.pool import Pool
from tasks_lib.protocol.vocabulary import Behavior


def candidates(pool: Pool) -> Iterator[Candidate]:
    """Candidates in keyed order, the databases taking turns so that a few do not use up the task set."""
    by_database: dict[str, list[Candidate]] = {}
    for unit in pool.ordered(pool.fit, "single", lambda u: u.unit_id):
        candidate = Candidate(pool.corpus, Behavior.SINGLE, (unit,), aggregation="the contribution itself")
        by_database.setdefault(unit.database, []).append(candidate)
    names = pool.ordered(by_database, "single databases", str)
    for turn in range(max(map(len, by_database.values()), default=0)):
        for name in names:
            if turn < len(by_database[name]):
                yield by_database[name][turn]
