"""PRIVATE. From usable units to accepted tasks of one corpus: candidates, allowlists, wording, gates.

Belongs here: the loop and its bookkeeping. Does not belong here: what makes a candidate good, what a gate checks, files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tasks_lib.contracts import exploratory, gates, interactive, parallel, sequential, single
from tasks_lib.contracts.contract import Candidate, freeze
from tasks_lib.contracts.distractors import public_order
from tasks_lib.contracts.gates import Bench, Proposal, Refusal
from tasks_lib.contracts.pool import Pool
from tasks_lib.contracts.profiles import Profile
from tasks_lib.contracts.wording import word
from tasks_lib.protocol.records import Contract, PublicTask
from tasks_lib.protocol.vocabulary import Behavior
from tasks_lib.store.keys import keyed_digest

WORDINGS = 4
"""Templates tried before a candidate counts as not wordable."""
ORDER = (Behavior.SEQUENTIAL, Behavior.INTERACTIVE, Behavior.PARALLEL, Behavior.EXPLORATORY, Behavior.SINGLE)
"""Scarce behaviors choose their units first."""


@dataclass
class Yield:
    """What synthesis of one corpus gave. `rejected`: rows of the `rejected` table. `shortfall`: behavior -> tasks missing."""

    contracts: list[Contract] = field(default_factory=list)
    tasks: list[PublicTask] = field(default_factory=list)
    rejected: list[dict[str, Any]] = field(default_factory=list)
    candidates: int = 0
    shortfall: dict[Behavior, int] = field(default_factory=dict)


def candidates(pool: Pool, behavior: Behavior, sizes: tuple[int, ...]) -> Iterator[Candidate]:
    """Candidates of a behavior, best first, in keyed order."""
    if behavior is Behavior.PARALLEL:
        return parallel.candidates(pool, sizes)
    if behavior is Behavior.EXPLORATORY:
        return exploratory.candidates(pool, sizes)
    if behavior is Behavior.SEQUENTIAL:
        return sequential.candidates(pool)
    if behavior is Behavior.INTERACTIVE:
        return interactive.candidates(pool)
    return single.candidates(pool)


async def synthesize(
    bench: Bench, profile: Profile, wanted: Mapping[Behavior, int], public_ids: Mapping[str, str], id_key: bytes
) -> Yield:
    """Accepted tasks of one corpus, at most `wanted` of each behavior. Infrastructure faults of the runner propagate."""
    found = Yield()
    uses: dict[str, int] = {}
    sizes = profile.sizes[bench.pool.corpus]
    for behavior in ORDER:
        target = wanted.get(behavior, 0)
        accepted = 0
        examined: set[str] = set()
        for candidate in candidates(bench.pool, behavior, sizes) if target else ():
            if accepted == target or len(examined) >= target * profile.attempts:
                break
            if candidate.candidate_id in examined or any(
                uses.get(unit_id, 0) >= profile.max_unit_uses for unit_id in candidate.unit_ids
            ):
                continue
            examined.add(candidate.candidate_id)
            outcome = await _examine(bench, profile, candidate, public_ids, id_key)
            if isinstance(outcome, Refusal):
                found.rejected.append(_rejected(candidate, outcome))
                continue
            accepted += 1
            found.contracts.append(outcome.contract)
            found.tasks.append(outcome.task)
            bench.seen.add(frozenset(candidate.unit_ids))
            for unit_id in candidate.unit_ids:
                uses[unit_id] = uses.get(unit_id, 0) + 1
        found.candidates += len(examined)
        if accepted < target:
            found.shortfall[behavior] = target - accepted
    return found


async def _examine(
    bench: Bench, profile: Profile, candidate: Candidate, public_ids: Mapping[str, str], id_key: bytes
) -> Proposal | Refusal:
    first = word(candidate, bench.pool)
    if first is None:
        return Refusal("wording", "no template can word these questions; the candidate is left out.")
    task_id = f"task_{keyed_digest(id_key, candidate.candidate_id)[:16]}"
    contract = freeze(candidate, task_id, public_ids.__getitem__)
    low, high = profile.allowlist[candidate.corpus]
    allowlist = bench.neighbourhood.allowlist(candidate, task_id, low, high)
    public = public_order(id_key, [public_ids[name] for name in allowlist])
    task = PublicTask(task_id, candidate.corpus, first.request, public)
    proposal = Proposal(candidate, allowlist, contract, task, public_ids)
    refusal = await gates.judge(bench, proposal)
    if refusal is not None:
        return refusal
    for attempt in range(WORDINGS):
        wording = word(candidate, bench.pool, attempt)
        if wording is None:
            continue
        worded = replace(
            proposal,
            task=replace(task, request=wording.request),
            contract=replace(contract, extra={"template": wording.template}),
        )
        refusal = gates.first_refusal(gates.WORDING, bench, worded)
        if refusal is None:
            return worded
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
