"""PRIVATE. Who reviews what: the plan of a review, kept in the private folder and never in a packet.

Belongs here: dividing tasks over reviewers, anonymous ids, reading and writing the plan. Does not belong here: what a
packet shows (`packets`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tasks_lib.contracts.contract import executable_hash
from tasks_lib.contracts.release import Release
from tasks_lib.contracts.review.questions import ReviewRefused
from tasks_lib.store.keys import digest, keyed_digest

PLAN = "private/plan.json"


class Assignment(BaseModel):
    """One review of one task. `item`: what the reviewer sees instead of the task's id, another one for every reviewer."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    reviewer: str
    task_id: str
    item: str


class Plan(BaseModel):
    """A whole review. `release`: sha256 of the reviewed release's manifest. `key`: hex; it makes the anonymous ids."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    format: Literal["review_plan@1"] = "review_plan@1"
    release: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    key: str
    seed: int
    reviewers: list[str]
    double_share: float
    assignments: list[Assignment]

    def of(self, reviewer: str) -> list[Assignment]:
        """A reviewer's assignments in the order of their anonymous ids, which tells nothing."""
        return sorted((a for a in self.assignments if a.reviewer == reviewer), key=lambda a: a.item)

    def packet(self, reviewer: str, number: int) -> str:
        """Id of a packet: (reviewer, pass) under the plan's key."""
        return f"packet_{keyed_digest(bytes.fromhex(self.key), f'packet {reviewer} {number} {self.release}')[:16]}"


def plan(release: Release, reviewers: int, double_share: float, seed: int, key: bytes | None = None) -> Plan:
    """The plan of a review: every task once, a share of them twice by two different people, loads that differ by at most one.

    The tasks reviewed twice are spread evenly over the behaviors. key: secret bytes of the anonymous ids; without one they
    follow from the private contracts and the seed. Equal inputs give an equal plan.

    Raises:
        ReviewRefused: no reviewer, a share outside 0..1, or two reviews wanted of one reviewer.
    """
    if reviewers < 1:
        raise ReviewRefused(f"--reviewers is {reviewers}, expected at least 1.")
    if not 0 <= double_share <= 1:
        raise ReviewRefused(f"--double-share is {double_share}, expected a share from 0 to 1.")
    if reviewers == 1 and double_share > 0:
        raise ReviewRefused(
            "--double-share above 0 needs two reviewers, found 1; set --reviewers 2 or --double-share 0."
        )
    contracts = release.contracts
    if key is None:
        key = bytes.fromhex(digest([seed, sorted(executable_hash(c) + task_id for task_id, c in contracts.items())]))
    order_key = keyed_digest(key, f"order {seed}").encode()
    order = sorted(contracts, key=lambda task_id: (contracts[task_id].behavior, keyed_digest(order_key, task_id)))
    names = [f"reviewer-{number}" for number in range(1, reviewers + 1)]
    load = dict.fromkeys(names, 0)
    twice = round(double_share * len(order))
    found = []
    for at, task_id in enumerate(order):
        times = 2 if (at + 1) * twice // len(order) > at * twice // len(order) else 1
        free = sorted(names, key=lambda name: (load[name], keyed_digest(order_key, f"{task_id} {name}")))
        for name in free[:times]:
            load[name] += 1
            item = f"item_{keyed_digest(key, f'item {name} {task_id}')[:12]}"
            found.append(Assignment(reviewer=name, task_id=task_id, item=item))
    found.sort(key=lambda a: (a.reviewer, a.item))
    return Plan(
        release=release.digest,
        key=key.hex(),
        seed=seed,
        reviewers=names,
        double_share=double_share,
        assignments=found,
    )


def save(made: Plan, folder: Path) -> None:
    """Write the plan into the private part of a review folder."""
    path = folder / PLAN
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(made.model_dump(mode="json"), indent=1, sort_keys=True) + "\n", "utf-8")


def load(folder: Path, release: Release | None = None) -> Plan:
    """The plan of a review folder. Raises ReviewRefused when there is none, or when it is of another release."""
    path = folder / PLAN
    try:
        found = Plan.model_validate_json(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ReviewRefused(
            f"{path} is missing, expected a review folder; make one with `dsabench review export`."
        ) from None
    except (ValidationError, OSError, UnicodeDecodeError) as error:
        first = str(error).splitlines()[0]
        raise ReviewRefused(
            f"{path} cannot be read ({first}), expected a review plan; export the review again."
        ) from error
    if release is not None and found.release != release.digest:
        raise ReviewRefused(
            f"the review in {folder} is of release {found.release[:16]}, found {release.digest[:16]} in {release.folder}; "
            "name the release that was reviewed."
        )
    return found
