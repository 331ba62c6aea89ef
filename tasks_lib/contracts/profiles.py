"""PRIVATE. Profiles: how many tasks of which kind a release should have. A profile is data, in `profiles/<name>.yaml`.

Counts are targets. What the data cannot carry is reported as shortfall; no gate is loosened for a count.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tasks_lib.protocol.vocabulary import Behavior, Corpus

PROFILES = Path(__file__).parent / "profiles"
MOST = 100_000
"""Larger counts, allowlists or attempts are slips: no corpus has as many units or databases."""


class Allowlist(BaseModel):
    """Sizes of a corpus's allowlists in databases: between `low` and `high`, `mean` on the whole."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    low: int = Field(ge=2)
    high: int = Field(le=MOST)
    mean: float

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low < self.mean < self.high:
            raise ValueError(
                f"an allowlist of {self.low}..{self.high} with mean {self.mean} is none, expected low < mean < high."
            )
        return self

    def draw(self, share: float) -> int:
        """The size at `share` (0..1, uniform over tasks) of the distribution low + (high - low)·share^p, whose mean is `mean`."""
        power = (self.high - self.low) / (self.mean - self.low) - 1
        return self.low + round((self.high - self.low) * float(share**power))


class Profile(BaseModel):
    """A release profile.

    counts: tasks by corpus and behavior. allowlist: sizes of the allowlists by corpus. sizes: by corpus, number of required
    databases (2..8) -> weight; parallel and exploratory tasks are divided over them by largest remainder, and what a size
    cannot carry goes to the next smaller one. distractors: `near` the targets and a spread of the rest, or `random`
    (ablation). wording: `plain` templates, or `neutral` ones that tell little of the behavior. max_unit_uses: tasks that may
    share one unit. max_theme_uses: tasks of one behavior and corpus that may share one theme. attempts: candidates examined
    for each wanted task before the rest counts as shortfall.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    counts: dict[Corpus, dict[Behavior, Annotated[int, Field(ge=0, le=MOST)]]]
    allowlist: dict[Corpus, Allowlist]
    sizes: dict[Corpus, dict[int, int]]
    distractors: Literal["near", "random"] = "near"
    wording: Literal["plain", "neutral"] = "plain"
    max_unit_uses: int = Field(ge=1)
    max_theme_uses: int = Field(ge=1)
    attempts: int = Field(ge=1, le=MOST)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for corpus, counts in self.counts.items():
            if corpus not in self.allowlist:
                raise ValueError(f"profile {self.name}: {corpus.value} has counts but no allowlist sizes.")
            sizes = self.sizes.get(corpus, {})
            grouped = counts.get(Behavior.PARALLEL, 0) + counts.get(Behavior.EXPLORATORY, 0)
            if (grouped and not sizes) or not all(2 <= size <= 8 and weight > 0 for size, weight in sizes.items()):
                raise ValueError(
                    f"profile {self.name}: sizes of {corpus.value} must be 2..8 with weights above 0, found {sizes}."
                )
        return self

    def wanted(self, corpora: Collection[Corpus]) -> Mapping[Corpus, Mapping[Behavior, int]]:
        """Target counts for the corpora given, in the order of the vocabularies."""
        return {c: {b: self.counts.get(c, {}).get(b, 0) for b in Behavior} for c in Corpus if c in corpora}

    def size_quota(self, corpus: Corpus, total: int) -> dict[int, int]:
        """Number of required databases -> tasks of that size, `total` in all, largest size first."""
        return apportion(total, dict(sorted(self.sizes[corpus].items(), reverse=True)))


def apportion(total: int, weights: Mapping[int, int]) -> dict[int, int]:
    """`total` divided over `weights` by largest remainder, ties to the earlier one."""
    whole = sum(weights.values())
    found = {item: total * weight // whole for item, weight in weights.items()}
    rest = sorted(weights, key=lambda item: -(total * weights[item] % whole))
    for item in rest[: total - sum(found.values())]:
        found[item] += 1
    return found


def names() -> list[str]:
    """Names of the profiles that ship."""
    return sorted(path.stem for path in PROFILES.glob("*.yaml"))


class ProfileRefused(ValueError):
    """A profile that cannot be used: unknown name, unreadable file, or counts that do not fit together."""


def load(name: str) -> Profile:
    """A shipped profile by name, or one of the user's own by the path of its YAML file. Raises ProfileRefused."""
    path = PROFILES / f"{name}.yaml"
    if name not in names():
        path = Path(name)
        if path.suffix not in {".yaml", ".yml"} or not path.is_file():
            raise ProfileRefused(
                f"profile {name!r} is unknown, expected one of {', '.join(names())}, or an existing YAML file."
            )
    try:
        return Profile.model_validate({"name": path.stem, **yaml.safe_load(path.read_text("utf-8"))})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise ProfileRefused(f"profile {path}: {where}: {first['msg']}; correct the file.") from error
    except (yaml.YAMLError, TypeError, UnicodeDecodeError) as error:
        raise ProfileRefused(
            f"profile {path} cannot be read as a YAML mapping ({str(error).splitlines()[0]})."
        ) from error
