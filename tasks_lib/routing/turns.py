"""Transcripts of routes: what one turn was, its row in `route_turns`, and the suite of that table.

Types and plain conversion only: turns are made where replies are read (`episode`, `fixed`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import polars as pl

from tasks_lib.models.chat import ChatReply
from tasks_lib.protocol.vocabulary import CallOutcome, Router
from tasks_lib.store.quality import Suite, suite_of
from tasks_lib.store.schemas import ROUTE_TURNS

DOUBLE_ENCODED = "double_encoded"
"""The recovery of a JSON string that holds the object."""


class TurnKind(StrEnum):
    """What a turn came to. `final`: a route handed in, accepted or not; `failed`: the call gave no reply to read; `decision`:
    the one call of a router with a fixed schedule, whatever it brought."""

    ACTION = "action"
    FINAL = "final"
    ASK = "ask"
    MALFORMED = "malformed"
    FAILED = "failed"
    DECISION = "decision"


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a route, as it was read. `reply`: the call behind it. `observed`, `selected`: public database ids.

    `malformed_reason`: the rule a reply broke, or "". `recovery`: the adapter that read it although its form was not the
    agreed one, or "".
    """

    kind: TurnKind
    reply: ChatReply
    action: str = ""
    arguments: Mapping[str, Any] | None = None
    malformed_reason: str = ""
    recovery: str = ""
    observed: tuple[str, ...] = ()
    selected: tuple[str, ...] = ()
    accepted: bool = False


def selected_of(plan: object, allowlist: Iterable[str]) -> tuple[str, ...]:
    """Candidates that a handed-in route selects, in its order and without repeats; text that is no candidate is left out."""
    listed = plan.get("selected_databases") if isinstance(plan, Mapping) else None
    if not isinstance(listed, list):
        return ()
    allowed = frozenset(allowlist)
    return tuple(dict.fromkeys(item for item in listed if isinstance(item, str) and item in allowed))


def turn_rows(
    backend: str, router: str, task_id: str, branch_id: str, trial: int, turns: Iterable[Turn]
) -> list[dict[str, Any]]:
    """Rows of `route_turns` of one route, in order."""
    return [
        {
            "backend": backend,
            "router": router,
            "task_id": task_id,
            "branch_id": branch_id,
            "trial": trial,
            "turn": number,
            "call_key": turn.reply.call_key,
            "outcome": turn.reply.outcome.value,
            "kind": turn.kind.value,
            "action": turn.action,
            "arguments": "" if turn.arguments is None else json.dumps(dict(turn.arguments), ensure_ascii=False),
            "malformed_reason": turn.malformed_reason,
            "recovery": turn.recovery,
            "observed": list(turn.observed),
            "selected": list(turn.selected),
            "accepted": turn.accepted,
            "prompt_tokens": turn.reply.prompt_tokens,
            "completion_tokens": turn.reply.completion_tokens,
            "cached_tokens": turn.reply.cached_tokens,
        }
        for number, turn in enumerate(turns, 1)
    ]


def turns_suite(frame: pl.DataFrame, expected_rows: int) -> Suite:
    """What is expected of a `route_turns` table; `expected_rows`: turns of the routes it tells of."""
    return suite_of(
        ROUTE_TURNS,
        frame,
        expected_rows,
        {
            "router": {r.value for r in Router},
            "outcome": {o.value for o in CallOutcome},
            "kind": {k.value for k in TurnKind},
        },
        {"turn": (1, 30), "prompt_tokens": (0, None), "completion_tokens": (0, None), "cached_tokens": (0, None)},
    )
