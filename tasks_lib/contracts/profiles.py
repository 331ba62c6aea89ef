"""PRIVATE. Profiles: how many tasks of which kind a release should have. A profile is data, in `profiles/<name>.yaml`.

Counts are targets. What the data cannot carry is reported as shortfall; no gate is loosened for a count.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from tasks_lib.protocol.vocabulary import Behavior, Corpus

PROFILES = Path(__file__).parent / "profiles"


class Profile(BaseModel):
    """A release profile.

    counts: tasks by corpus and behavior, or instead `totals` by behavior, divided over the corpora given by `shares`.
    allowlist: (least, most) databases of a task's allowlist by corpus. sizes: numbers of required databases drawn for
    parallel and exploratory tasks, by corpus. max_unit_uses: tasks that may share one unit. attempts: candidates examined
    for each wanted task before the rest counts as shortfall.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    counts: dict[Corpus, dict[Behavior, int]] = Field(default_factory=dict)
    totals: dict[Behavior, int] = Field(default_factory=dict)
    shares: dict[Corpus, int] = Field(default_factory=dict)
    allowlist: dict[Corpus, tuple[int, int]]
    sizes: dict[Corpus, tuple[int, ...]]
    max_unit_uses: int = Field(ge=1)
    attempts: int = Field(ge=1)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if bool(self.counts) == bool(self.totals):
            raise ValueError(f"profile {self.name}: expected either counts or totals with shares, found both or none.")
        for corpus, (low, high) in self.allowlist.items():
            if not 2 <= low <= high:
                raise ValueError(
                    f"profile {self.name}: allowlist of {corpus.value} is {low}..{high}, expected 2 <= low <= high."
                )
            if not self.sizes.get(corpus) or not all(2 <= size <= 8 for size in self.sizes[corpus]):
                raise ValueError(
                    f"profile {self.name}: sizes of {corpus.value} must be 2..8, found {self.sizes.get(corpus)}."
                )
        return self

    def wanted(self, corpora: Collection[Corpus]) -> Mapping[Corpus, Mapping[Behavior, int]]:
        """Target counts for the corpora given, in the order of the vocabularies; totals go by largest remainder."""
        given = [corpus for corpus in Corpus if corpus in corpora]
        if self.counts:
            return {c: {b: self.counts.get(c, {}).get(b, 0) for b in Behavior} for c in given}
        whole = sum(self.shares.get(corpus, 0) for corpus in given)
        if not whole:
            raise ValueError(
                f"profile {self.name} has no share for {[c.value for c in given]}; give another corpus or profile."
            )
        found: dict[Corpus, dict[Behavior, int]] = {corpus: {} for corpus in given}
        for behavior in Behavior:
            total = self.totals.get(behavior, 0)
            exact = {corpus: total * self.shares.get(corpus, 0) / whole for corpus in given}
            for corpus in given:
                found[corpus][behavior] = int(exact[corpus])
            rest = total - sum(found[corpus][behavior] for corpus in given)
            for corpus in sorted(given, key=lambda c: int(exact[c]) - exact[c])[:rest]:
                found[corpus][behavior] += 1
        return found


def names() -> list[str]:
    """Names of the profiles that ship."""
    return sorted(path.stem for path in PROFILES.glob("*.yaml"))


def load(name: str) -> Profile:
    """A profile by name. Raises ValueError listing the names when there is none."""
    path = PROFILES / f"{name}.yaml"
    if name not in names():
        raise ValueError(f"profile {name!r} is unknown, expected one of {', '.join(names())}.")
    return Profile.model_validate({"name": name, **yaml.safe_load(path.read_text("utf-8"))})
