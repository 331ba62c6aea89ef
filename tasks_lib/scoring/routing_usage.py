"""What routes took and what happened in them: turns, tool calls, tokens, broken turns, refused plans, by (backend, router).

Counted from routes and their transcripts of one trial. A value that nobody told (tokens of a reply without usage) is counted
apart and never 0 (known fault M02). No model call is read here: transcripts hold what is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tasks_lib.protocol.vocabulary import CallOutcome
from tasks_lib.routing.turns import TurnKind
from tasks_lib.scoring.routing_probes import by_task, opened, submissions

Row = Mapping[str, Any]

TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens")
QUANTITIES = ("turns", "tool_calls", *TOKENS, "databases_opened", "submissions", "switches")
"""`tool_calls`: turns that ran an action. `databases_opened`: before the first submission. `switches`: submissions that select
another set than the one before them."""
EVENTS = (
    "action",
    "malformed_turn",
    "failed_turn",
    "recovery",
    "ask_turn",
    "refused_submission",
    "invalid_plan",
    "empty_prediction",
)
PLACE = re.compile(r"\[\d+\]|(?<=\.)\d+(?=[.:])")
ID = re.compile(r"\bdb_\w+")


def rule_of(reason: str) -> str:
    """The rule that a refused plan broke: the reason without places in the plan, ids, and the advice behind the semicolon."""
    return ID.sub("a database", PLACE.sub("[]", reason)).split(";")[0].rstrip(".")


def _quantity(turns: Sequence[Row], name: str) -> list[int | None]:
    """Values that add up to the quantity of one route, None for those nobody told: one a turn for tokens, else the one sum."""
    if name in TOKENS:
        return [turn[name] for turn in turns]
    if name == "turns":
        return [len(turns)]
    if name == "tool_calls":
        return [sum(turn["kind"] == TurnKind.ACTION for turn in turns)]
    if name == "databases_opened":
        return [len(opened(turns))]
    handed = submissions(turns)
    if name == "submissions":
        return [len(handed)]
    return [sum(a != b for a, b in pairwise(handed))]


def usage_rows(backend: str, router: str, task_ids: Sequence[str], turns: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows of `routing_usage` of one pair, one a quantity. A task without turns (Random) has 0 of everything."""
    transcripts = by_task(turns)
    routes = [transcripts.get(task_id, []) for task_id in task_ids]
    count = sum(map(len, routes))
    rows = []
    for name in QUANTITIES:
        values = [_quantity(route, name) for route in routes]
        unknown = sum(v is None for route in values for v in route)
        whole = [sum(v for v in route if v is not None) for route in values if None not in route]
        many = np.array(whole, dtype=np.float64)
        rows.append(
            {
                "backend": backend,
                "router": router,
                "quantity": name,
                "routes": len(routes),
                "total": sum(v for route in values for v in route if v is not None),
                "known_turns": count - unknown,
                "unknown_turns": unknown,
                "known_routes": len(whole),
                "mean": float(many.mean()) if whole else None,
                "median": float(np.median(many)) if whole else None,
                "p90": float(np.quantile(many, 0.9)) if whole else None,
                "most": float(many.max()) if whole else None,
            }
        )
    return rows


def event_rows(backend: str, router: str, routes: Iterable[Row], turns: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows of `routing_events` of one pair: what happened at least once. `routes`, `turns`: initial ones, one trial."""
    found: Counter[tuple[str, str]] = Counter()
    turns_seen = routes_seen = 0
    for turn in turns:
        turns_seen += 1
        if turn["kind"] == TurnKind.ACTION:
            found["action", turn["action"]] += 1
        if turn["malformed_reason"]:
            found["malformed_turn", turn["malformed_reason"]] += 1
        if turn["outcome"] != CallOutcome.OK:
            found["failed_turn", turn["outcome"]] += 1
        if turn["recovery"]:
            found["recovery", turn["recovery"]] += 1
        if turn["kind"] == TurnKind.ASK:
            found["ask_turn", ""] += 1
        handed_in = turn["kind"] in (TurnKind.FINAL, TurnKind.DECISION) and turn["arguments"]
        if handed_in and not turn["accepted"]:
            found["refused_submission", ""] += 1
    for route in routes:
        routes_seen += 1
        if not route["valid"]:
            found["invalid_plan", rule_of(route["reason"])] += 1
        if not route["selected"]:
            found["empty_prediction", ""] += 1
    return [
        {
            "backend": backend,
            "router": router,
            "event": event,
            "kind": kind,
            "n": n,
            "of": routes_seen if event in ("invalid_plan", "empty_prediction") else turns_seen,
        }
        for (event, kind), n in sorted(found.items())
    ]
