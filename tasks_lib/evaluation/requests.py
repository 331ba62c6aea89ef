"""PRIVATE. What each data agent is asked (PROTOCOL 10): privileged, fused or router-written text for one database.

Only privileged text carries gold wording; fused text carries no routing instruction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tasks_lib.evaluation.gold import GoldUnit
from tasks_lib.protocol.records import Binding, LocalRequest
from tasks_lib.protocol.vocabulary import QueryMode

UNKNOWN_VALUE = "the value of the earlier result"


def fused_text(request: str, exchange: tuple[str, str] | None) -> str:
    """The whole visible request, with the clarification exchange once released."""
    if exchange is None:
        return request
    return f"{request}\nQuestion: {exchange[0]}\nAnswer: {exchange[1]}"


def privileged_text(unit: GoldUnit, bindings: Iterable[Binding], placeholder_of: Mapping[tuple[str, int], str]) -> str:
    """The unit's question; a downstream question carries its placeholder, never the literal.

    `placeholder_of`: placeholder name by (upstream unit, column index); a binding that has none reads as plain words.
    """
    text = unit.question
    for binding in bindings:
        if binding.downstream_unit == unit.unit_id:
            name = placeholder_of.get((binding.upstream_unit, binding.column_index))
            text = binding.downstream_question.replace("{binding}", f":{name}" if name else UNKNOWN_VALUE)
    return text


def local_request(
    mode: QueryMode,
    task_id: str,
    branch_id: str,
    unit: GoldUnit,
    request: str,
    exchange: tuple[str, str] | None,
    nodes: Sequence[Mapping[str, Any]],
    bindings: Iterable[Binding],
    placeholders: Sequence[str],
    placeholder_of: Mapping[tuple[str, int], str],
) -> LocalRequest:
    """The text one data agent receives for the unit's database. `nodes`: the route's nodes."""
    if mode is QueryMode.FUSED:
        text = fused_text(request, exchange)
    elif mode is QueryMode.ROUTER:
        text = next(str(n["information_request"]) for n in nodes if n["database_id"] == unit.database_id)
    else:
        text = privileged_text(unit, bindings, placeholder_of)
    return LocalRequest(task_id, branch_id, unit.database_id, mode, text, tuple(placeholders))
