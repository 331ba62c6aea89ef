"""What every cell is scored against: the episodes of a release, from its frozen contracts (PROTOCOL 1, 12).

Denominators come from here, never from result rows (known faults A02, A03).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tasks_lib.protocol.records import Contract
from tasks_lib.protocol.vocabulary import Behavior, Corpus, Difficulty


@dataclass(frozen=True, slots=True)
class Target:
    """One episode to be scored. `databases` aligned with `units`; `list_size` counts the task's whole target list."""

    task_id: str
    branch_id: str
    corpus: Corpus
    behavior: Behavior
    difficulty: Difficulty
    weight: float
    databases: tuple[str, ...]
    units: tuple[str, ...]
    edges: frozenset[tuple[str, str]]
    list_size: int


def episodes_of(contracts: Iterable[Contract]) -> tuple[Target, ...]:
    """One target per ordinary task, two of weight 0.5 per interactive task, in task order."""
    found: list[Target] = []
    for c in sorted(contracts, key=lambda c: c.task_id):
        if c.behavior is not Behavior.INTERACTIVE:
            found.append(
                Target(
                    c.task_id,
                    "",
                    c.corpus,
                    c.behavior,
                    c.difficulty,
                    1.0,
                    c.databases,
                    c.unit_ids,
                    frozenset(c.edges),
                    len(c.databases),
                )
            )
            continue
        if len(c.branches) != 2:
            raise ValueError(
                f"task {c.task_id} is interactive with {len(c.branches)} branches, expected 2; rebuild the release."
            )
        owner = dict(zip(c.unit_ids, c.databases, strict=True))
        for branch in c.branches:
            found.append(
                Target(
                    c.task_id,
                    branch.branch_id,
                    c.corpus,
                    c.behavior,
                    c.difficulty,
                    0.5,
                    (owner[branch.unit_id],),
                    (branch.unit_id,),
                    frozenset(),
                    len(c.databases),
                )
            )
    return tuple(found)


def base_tasks(targets: Iterable[Target]) -> int:
    """N: the number of base tasks; equals the total weight exactly (known fault A04)."""
    targets = tuple(targets)
    tasks = {t.task_id for t in targets}
    weight = sum(t.weight for t in targets)
    if weight != len(tasks):
        raise ValueError(f"episode weights add up to {weight}, expected {len(tasks)} base tasks; a branch is missing.")
    return len(tasks)
