"""PRIVATE. From usable units to accepted tasks of one corpus: candidates, allowlists, wording, gates.

Belongs here: the loop and its bookkeeping. Does not belong here: what makes a candidate good, what a gate checks, files.
"""

from __future__ import annotations

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
from tasks_lib.contracts.wording import Wording, word
from tasks_lib.protocol.records import Contract, PublicTask
from tasks_lib.protocol.vocabulary import Behavior
from tasks_lib.store.keys import keyed_digest

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
    bench: Bench, profile: Profile, wanted: Mapping[Behavior, int], public_ids: Mapping[str, str], id_key: bytes
) -> Yield:
    """Accepted tasks of one corpus, at most `wanted` of each behavior. Infrastructure faults of the runner propagate."""
    maker = _Maker(bench, profile, public_ids, id_key)
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

    def __init__(self, bench: Bench, profile: Profile, public_ids: Mapping[str, str], id_key: bytes) -> None:
        self.bench, self.profile, self.public_ids, self.id_key = bench, profile, public_ids, id_key
        self.found = Yield()
        self.unit_uses: Counter[str] = Counter()
        self.theme_uses: Counter[tuple[Behavior, str]] = Counter()
        self.examined: set[str] = set()

    async def take(self, behavior: Behavior, target: int, size: int = 0) -> int:
        """Accept up to `target` candidates; how many are missing in the end."""
        accepted, tried = 0, 0
        for candidate in candidates(self.bench.pool, behavior, size) if target else ():
            if accepted == target or tried >= target * self.profile.attempts:
                break
            if candidate.candidate_id in self.examined or self._worn(candidate):
                continue
            self.examined.add(candidate.candidate_id)
            tried += 1
            accepted += await self._accept(candidate)
        return target - accepted

    def _worn(self, candidate: Candidate) -> bool:
        """Whether enough tasks use one of its units, or its theme."""
        theme = candidate.theme and self.theme_uses[candidate.behavior, candidate.theme] >= self.profile.max_theme_uses
        return bool(theme) or any(self.unit_uses[u] >= self.profile.max_unit_uses for u in candidate.unit_ids)

    async def _accept(self, candidate: Candidate) -> bool:
        found = self.found
        found.candidates += 1
        outcome = await self._examine(candidate)
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
        if all(word(candidate, bench.pool, attempt, profile.wording) is None for attempt in range(WORDINGS)):
            return Refusal("wording", "no template can word these questions; the candidate is left out.")
        task_id = f"task_{keyed_digest(self.id_key, candidate.candidate_id)[:16]}"
        contract = freeze(candidate, task_id, self.public_ids.__getitem__)
        size = profile.allowlist[candidate.corpus].draw(bench.pool.share(f"allowlist size {candidate.candidate_id}"))
        allowlist = bench.neighbourhood.allowlist(candidate, size, profile.distractors == "random")
        public = public_order(self.id_key, [self.public_ids[name] for name in allowlist])
        task = PublicTask(task_id, candidate.corpus, "", public)
        proposal = Proposal(candidate, allowlist, contract, task, self.public_ids)
        if (refusal := await gates.judge(bench, proposal)) is not None:
            return refusal
        for attempt in range(WORDINGS):
            wording = word(candidate, bench.pool, attempt, profile.wording)
            if wording is None:
                continue
            worded = replace(
                proposal,
                task=replace(task, request=wording.request),
                contract=replace(contract, extra={"template": wording.template}),
            )
            found = gates.first_refusal(gates.WORDING, bench, worded)
            if found is None:
                return worded, wording
            refusal = found
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
