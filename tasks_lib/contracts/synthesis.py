"""PRIVATE. From usable units to accepted tasks of one corpus: candidates, allowlists, wording, gates.

Belongs here: the loop and its bookkeeping. Does not belong here: what makes a candidate good, what a gate checks, files.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tasks_lib.contracts import exploratory, gates, interactive, parallel, sequential, single
from tasks_lib.contracts.contract import Candidate, freeze
from tasks_lib.contracts.distractors import public_order
from tasks_lib.contracts.pool import Pool
from tasks_lib.contracts.profiles import Profile
from tasks_lib.contracts.proposals import Bench, Proposal, Refusal
from tasks_lib.contracts.renderer import render
from tasks_lib.contracts.wording import Wording, word
from tasks_lib.models.chat import ChatModel
from tasks_lib.protocol.records import Contract, PublicTask
from tasks_lib.protocol.vocabulary import Behavior
from tasks_lib.store.keys import keyed_digest

TOGETHER = 8
"""Candidates examined at a time: their SQL and the calls of a renderer run side by side."""
WORDINGS = 4
"""Templates tried before a candidate counts as not wordable."""
ORDER = (Behavior.SEQUENTIAL, Behavior.INTERACTIVE, Behavior.PARALLEL, Behavior.EXPLORATORY, Behavior.SINGLE)
"""Scarce behaviors choose their units first."""


@dataclass
class Yield:
    """What synthesis of one corpus gave. `wordings`: task id -> its wording. `rejected`: rows of the `rejected` table.
    `gates`: (behavior, gate) -> [passed, refused]. `shortfall`: behavior -> tasks missing."""

    contracts: list[Contract] = field(default_factory=list)
    tasks: list[PublicTask] = field(default_factory=list)
    wordings: dict[str, Wording] = field(default_factory=dict)
    rejected: list[dict[str, Any]] = field(default_factory=list)
    gates: dict[tuple[Behavior, str], list[int]] = field(default_factory=dict)
    candidates: int = 0
    shortfall: dict[Behavior, int] = field(default_factory=dict)


def candidates(pool: Pool, behavior: Behavior, size: int = 0) -> Iterator[Candidate]:
    """Candidates of a behavior, best first, in keyed order. `size`: required databases of parallel and exploratory ones."""
    if behavior is Behavior.PARALLEL:
        return parallel.candidates(pool, size)
    if behavior is Behavior.EXPLORATORY:
        return exploratory.candidates(pool, size)
    if behavior is Behavior.SEQUENTIAL:
        return sequential.candidates(pool)
    if behavior is Behavior.INTERACTIVE:
        return interactive.candidates(pool)
    return single.candidates(pool)


async def synthesize(
    bench: Bench,
    profile: Profile,
    wanted: Mapping[Behavior, int],
    public_ids: Mapping[str, str],
    id_key: bytes,
    renderer: ChatModel | None = None,
) -> Yield:
    """Accepted tasks of one corpus, at most `wanted` of each behavior, worded by templates or by `renderer`.

    Infrastructure faults of the runner and of the renderer's endpoint propagate.
    """
    maker = _Maker(bench, profile, public_ids, id_key, renderer)
    for behavior in ORDER:
        target = wanted.get(behavior, 0)
        if not target:
            continue
        missing = 0
        if behavior in (Behavior.PARALLEL, Behavior.EXPLORATORY):
            # What a size cannot carry is asked of the next smaller one.
            for size, share in profile.size_quota(bench.pool.corpus, target).items():
                missing = await maker.take(behavior, share + missing, size)
        else:
            missing = await maker.take(behavior, target)
        if missing:
            maker.found.shortfall[behavior] = missing
    return maker.found


class _Maker:
    """Takes candidates one by one through allowlist, gates and wording, and keeps the books."""

    def __init__(
        self,
        bench: Bench,
        profile: Profile,
        public_ids: Mapping[str, str],
        id_key: bytes,
        renderer: ChatModel | None,
    ) -> None:
        self.bench, self.profile, self.public_ids, self.id_key = bench, profile, public_ids, id_key
        self.renderer = renderer
        self.found = Yield()
        self.unit_uses: Counter[str] = Counter()
        self.theme_uses: Counter[tuple[Behavior, str]] = Counter()
        self.examined: set[str] = set()

    async def take(self, behavior: Behavior, target: int, size: int = 0) -> int:
        """Accept up to `target` candidates; how many are missing in the end.

        Candidates are examined several at a time and booked one by one in their order: what is accepted does not depend on
        how many are examined together.
        """
        accepted, tried, limit = 0, 0, target * self.profile.attempts
        stream = candidates(self.bench.pool, behavior, size) if target else iter(())
        while accepted < target and (batch := self._next(stream, min(TOGETHER, limit - tried))):
            outcomes = await asyncio.gather(*map(self._examine, batch))
            for candidate, outcome in zip(batch, outcomes, strict=True):
                if accepted < target and not self._worn(candidate):
                    self.examined.add(candidate.candidate_id)
                    tried += 1
                    accepted += self._book(candidate, outcome)
        return target - accepted

    def _next(self, stream: Iterator[Candidate], most: int) -> list[Candidate]:
        """Up to `most` candidates that were not examined and whose units and theme are not used up."""
        found: dict[str, Candidate] = {}
        while len(found) < most and (candidate := next(stream, None)) is not None:
            if candidate.candidate_id not in self.examined and not self._worn(candidate):
                found.setdefault(candidate.candidate_id, candidate)
        return list(found.values())

    def _worn(self, candidate: Candidate) -> bool:
        """Whether enough tasks use one of its units, or its theme."""
        theme = candidate.theme and self.theme_uses[candidate.behavior, candidate.theme] >= self.profile.max_theme_uses
        return bool(theme) or any(self.unit_uses[u] >= self.profile.max_unit_uses for u in candidate.unit_ids)

    def _book(self, candidate: Candidate, outcome: tuple[Proposal, Wording] | Refusal) -> bool:
        found = self.found
        found.candidates += 1
        if frozenset(candidate.unit_ids) in self.bench.seen and not isinstance(outcome, Refusal):
            outcome = Refusal("duplicate", "another task has the same set of units.")
        refusing = outcome.gate if isinstance(outcome, Refusal) else ""
        for name in ("wording", *gates.NAMES):
            counts = found.gates.setdefault((candidate.behavior, name), [0, 0])
            if name == refusing:
                counts[1] += 1
                break
            counts[0] += 1
        if isinstance(outcome, Refusal):
            found.rejected.append(_rejected(candidate, outcome))
            return False
        proposal, wording = outcome
        found.contracts.append(proposal.contract)
        found.tasks.append(proposal.task)
        found.wordings[proposal.task.task_id] = wording
        self.bench.seen.add(frozenset(candidate.unit_ids))
        self.unit_uses.update(candidate.unit_ids)
        self.theme_uses[candidate.behavior, candidate.theme] += 1
        return True

    async def _examine(self, candidate: Candidate) -> tuple[Proposal, Wording] | Refusal:
        bench, profile = self.bench, self.profile
        templates = [word(candidate, bench.pool, attempt, profile.wording) for attempt in range(WORDINGS)]
        if self.renderer is None and not any(templates):
            return Refusal("wording", "no template can word these questions; the candidate is left out.")
        task_id = f"task_{keyed_digest(self.id_key, candidate.candidate_id)[:16]}"
        contract = freeze(candidate, task_id, self.public_ids.__getitem__)
        size = profile.allowlist[candidate.corpus].draw(bench.pool.share(f"allowlist size {candidate.candidate_id}"))
        allowlist = bench.neighbourhood.allowlist(candidate, size, profile.distractors == "random")
        public = public_order(self.id_key, [self.public_ids[name] for name in allowlist])
        task = PublicTask(task_id, candidate.corpus, "", public)
        proposal = Proposal(candidate, allowlist, contract, task, self.public_ids)

        def worded(wording: Wording) -> Proposal:
            frozen = replace(contract, extra={"template": wording.template})
            return replace(proposal, task=replace(task, request=wording.request), contract=frozen)

        def check(wording: Wording) -> Refusal | None:
            return gates.first_refusal(gates.WORDING, bench, worded(wording))

        if (refusal := await gates.judge(bench, proposal)) is not None:
            return refusal
        if self.renderer is not None:
            rendered = await render(candidate, bench.pool, self.renderer, check)
            return rendered if isinstance(rendered, Refusal) else (worded(rendered), rendered)
        for wording in filter(None, templates):
            if (refusal := check(wording)) is None:
                return worded(wording), wording
        assert refusal is not None
        return refusal


def _rejected(candidate: Candidate, refusal: Refusal) -> dict[str, Any]:
    return {
        "candidate_id": candidate.candidate_id,
        "corpus": candidate.corpus.value,
        "behavior": candidate.behavior.value,
        "unit_ids": list(candidate.unit_ids),
        "gate": refusal.gate,
        "reason": refusal.reason,
    }
