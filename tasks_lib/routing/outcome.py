"""What a routing policy hands back, and the clarification it may be given. Types only."""

from __future__ import annotations

from dataclasses import dataclass

from tasks_lib.protocol.records import RoutePlan


@dataclass(frozen=True, slots=True)
class Clarification:
    """A question that was asked and the natural-language answer that was released; shown below the request."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class RouteOutcome:
    """How one routing attempt ended (PROTOCOL 7).

    `plan` is None unless the validator accepted one (`valid`); `reason` says why not, with public ids only. `observed`:
    databases that appeared in an observation, in order of appearance. `turns`: model turns used; `malformed_turns`: those of
    them lost to replies that broke the turn protocol. `failure`: the first call failure (a `CallOutcome` value), or "".
    `calls`: ledger keys of the model calls, in order.
    """

    plan: RoutePlan | None
    valid: bool
    reason: str
    observed: tuple[str, ...]
    turns: int
    malformed_turns: int
    failure: str
    calls: tuple[str, ...]
