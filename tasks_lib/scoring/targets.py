"""What every cell is scored against: the episodes of a release, from its frozen contracts (PROTOCOL 1, 12).

Denominators come from here, never from result rows (known faults A02, A03).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl

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

    def named(self) -> dict[str, Any]:
        """The columns that say which target a row is of."""
        return {
            "task_id": self.task_id,
            "branch_id": self.branch_id,
            "corpus": str(self.corpus),
            "behavior": str(self.behavior),
            "difficulty": str(self.difficulty),
            "weight": self.weight,
            "list_size": self.list_size,
        }


CUTS = ("all", "corpus", "behavior", "difficulty", "size")
"""What values are published by (PROTOCOL 12)."""
SIZES = {1: "1", 2: "2-3", 3: "2-3", 4: "4-5", 5: "4-5"}
LARGEST = "6-8"
"""Cuts by how many databases the target list holds; LARGEST for all above."""


class Targets(tuple[Target, ...]):
    """The targets of a release in task order, and what scoring asks of them again and again, worked out once."""

    @classmethod
    def of(cls, targets: Iterable[Target]) -> Self:
        """The same object where it is one already."""
        return targets if isinstance(targets, cls) else cls(targets)

    @cached_property
    def tasks(self) -> frozenset[str]:
        return frozenset(t.task_id for t in self)

    @cached_property
    def base(self) -> int:
        """Number of base tasks; equals the total weight exactly (known fault A04)."""
        weight = sum(t.weight for t in self)
        if weight != len(self.tasks):
            raise ValueError(
                f"episode weights add up to {weight}, expected {len(self.tasks)} base tasks; a branch is missing."
            )
        return len(self.tasks)

    @cached_property
    def required(self) -> npt.NDArray[np.int64]:
        """Required contributions of each target."""
        return np.array([len(t.units) for t in self], dtype=np.int64)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """Columns of `episodes` that come from the release, one row a target."""
        return pl.DataFrame(
            {
                "task_id": [t.task_id for t in self],
                "branch_id": [t.branch_id for t in self],
                "corpus": [str(t.corpus) for t in self],
                "behavior": [str(t.behavior) for t in self],
                "difficulty": [str(t.difficulty) for t in self],
                "weight": [t.weight for t in self],
                "target_size": [len(t.databases) for t in self],
                "list_size": [t.list_size for t in self],
                "required": self.required,
            },
            schema_overrides={"weight": pl.Float64},
        )

    @cached_property
    def units(self) -> pl.DataFrame:
        """task_id, branch_id, unit_id and `place` (of the target) of every required contribution."""
        rows = [(t.task_id, t.branch_id, u, place) for place, t in enumerate(self) for u in t.units]
        return pl.DataFrame(
            rows,
            schema={"task_id": pl.String, "branch_id": pl.String, "unit_id": pl.String, "place": pl.Int64},
            orient="row",
        )

    @cached_property
    def places(self) -> dict[tuple[str, str], npt.NDArray[np.int64]]:
        """By cut and value, in the order of CUTS and of values: the places of its base tasks, which are in order of appearance."""
        return {
            (cut, value): np.flatnonzero((self.slices[cut] == value).to_numpy())
            for cut in CUTS
            for value in sorted(self.slices[cut].unique())
        }

    @cached_property
    def slices(self) -> pl.DataFrame:
        """task_id and what every base task counts under in each of CUTS, in order of appearance."""
        seen = {t.task_id: t for t in self}
        return pl.DataFrame(
            {
                "task_id": list(seen),
                "all": ["all"] * len(seen),
                "corpus": [str(t.corpus) for t in seen.values()],
                "behavior": [str(t.behavior) for t in seen.values()],
                "difficulty": [str(t.difficulty) for t in seen.values()],
                "size": [SIZES.get(t.list_size, LARGEST) for t in seen.values()],
            }
        )


def episodes_of(contracts: Iterable[Contract]) -> Targets:
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
    return Targets(found)


def base_tasks(targets: Iterable[Target]) -> int:
    """N: the number of base tasks. Raises ValueError when a branch is missing."""
    return Targets.of(targets).base
