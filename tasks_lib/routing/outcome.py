"""What a routing policy hands back, and the clarification it may be given. Types only."""

from __future__ import annotations

from dataclasses import dataclass

from tasks_lib.protocol.records import RoutePlan
from tasks_lib.protocol.vocabulary import CallOutcome
from tasks_lib.routing.turns import Turn


@dataclass(frozen=True, slots=True)
class Clarification:
    """A question that was asked and the natural-language answer that was released; shown below the request."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class RouteOutcome:
    """How one routing attempt ended (PROTOCOL 7).

    `plan` is None unless the validator accepted one (`valid`); `reason` says why not, with public ids only. `observed`:
    databases that appeared in an observation, in order of appearance. `transcript`: its turns, in order; empty where an outcome
    is read back from `routes`, which keeps the counts and the keys of the calls.
    """

    plan: RoutePlan | None
    valid: bool
    reason: str
    observed: tuple[str, ...]
    turns: int
    malformed_turns: int
    failure: str
    calls: tuple[str, ...]
    transcript: tuple[Turn, ...] = ()


def ended(plan: RoutePlan | None, reason: str, observed: tuple[str, ...], transcript: tuple[Turn, ...]) -> RouteOutcome:
    """The outcome of an attempt that made calls: its failure is the first call failure, a `CallOutcome` value or ""."""
    failures = [turn.reply.outcome.value for turn in transcript if turn.reply.outcome is not CallOutcome.OK]
    return RouteOutcome(
        plan=plan,
        valid=plan is not None,
        reason="" if plan else reason,
        observed=observed,
        turns=len(transcript),
        malformed_turns=sum(bool(turn.malformed_reason) for turn in transcript),
        failure=failures[0] if failures else "",
        calls=tuple(turn.reply.call_key for turn in transcript),
        transcript=transcript,
    )
