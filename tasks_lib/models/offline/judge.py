"""The alignment judge without a model: does an asked question ask for the canonical slot? (PROTOCOL 8)

Reads the judge prompt's sections `## Canonical question`, `## Canonical values`, `## Asked question` (which ends before the
prompt's last paragraph, the one that begins with `Reply with`); answers JSON {"aligned": bool, "reason": str} by lexical
overlap. Fails closed: content-free questions, other slots, and explicit alternatives that leave out a canonical value are not aligned.
The first and the last of these rules hold for every judge: `evaluation.alignment` asks none about such a question.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from tasks_lib.models.chat import ChatReply, ChatRequest
from tasks_lib.models.offline.words import stems
from tasks_lib.protocol.vocabulary import CallOutcome

SECTIONS = ("Canonical question", "Canonical values", "Asked question")
OVERLAP = 0.5
_ALTERNATIVES = re.compile(r"\b(?:or|either|versus|vs)\b|\w/\w", re.IGNORECASE)
_REPLY = re.compile(r"(?m)^Reply with\b")
_EMPTY_WORDS = stems(
    "a an the this that these those it its i you your me my we us our of for to in on at by with from about as is are was were "
    "be been do does did can could would should will shall may might must have has had which what who whom whose when where "
    "how why and or either if not no please clarify clarification clearer specify specific specifically mean meant meaning "
    "tell give more detail details information info question request ask asking want need looking referring refer interested "
    "provide explain help any some something prefer preference anything other else one ones exactly kind sort know let use using"
)
_SOURCE_WORDS = frozenset(
    stems("records collection collections database databases data dataset source catalog archive")
)
"""Words for "where the records are": a canonical question made of them only is met by any other of them."""


class JudgePromptError(ValueError):
    """A judge prompt without its three sections."""


def _sections(text: str) -> dict[str, str]:
    """Content of the three sections; each starts at the first heading of its name after the previous one."""
    found: dict[str, str] = {}
    position = 0
    for name in SECTIONS:
        heading = re.compile(rf"(?m)^## {name}[ \t]*$").search(text, position)
        if heading is None:
            raise JudgePromptError(f"Judge prompt has no section `## {name}`, expected {SECTIONS} in this order.")
        following = re.compile(r"(?m)^## ").search(text, heading.end())
        position = following.start() if following else len(text)
        found[name] = text[heading.end() : position].strip()
    closing = list(_REPLY.finditer(found[SECTIONS[-1]]))
    if closing:
        found[SECTIONS[-1]] = found[SECTIONS[-1]][: closing[-1].start()].strip()
    return found


def _content(text: str) -> frozenset[str]:
    return frozenset(stems(text)) - frozenset(_EMPTY_WORDS)


def _all_named(values: Sequence[str], asked: frozenset[str]) -> bool:
    """The question holds every value's main words: those before its first comma, or half of all.

    Words that all values share ("season" of winter season and summer season) tell none of them.
    """
    shared = frozenset[str]() if len(values) < 2 else frozenset.intersection(*(_content(value) for value in values))
    return all(_names(asked, value, shared) for value in values)


def _names(asked: frozenset[str], value: str, shared: frozenset[str]) -> bool:
    head, every = _content(value.split(",")[0]) - shared, _content(value) - shared
    return bool(every) and ((bool(head) and head <= asked) or len(every & asked) >= OVERLAP * len(every))


def content_free(asked: str) -> bool:
    """Whether a question names nothing at all: "Which one do you mean?"."""
    return not _content(asked)


def leaves_out(values: Sequence[str], asked: str) -> bool:
    """Whether a question offers explicit alternatives and does not name every canonical value among them."""
    words = _content(asked)
    return _ALTERNATIVES.search(asked) is not None and not _all_named(values, words)


def aligned(canonical: str, values: list[str], asked: str) -> tuple[bool, str]:
    """(decision, reason) for one asked question. `values`: the canonical values in words."""
    if stems(canonical) == stems(asked) and stems(asked):
        return True, "the canonical question itself"
    words = _content(asked)
    if content_free(asked):
        return False, "the question names nothing"
    if _all_named(values, words):
        return True, "the question offers the canonical values"
    if leaves_out(values, asked):
        return False, "the question offers alternatives that leave out a canonical value"
    slot = _content(canonical)
    if slot and slot <= _SOURCE_WORDS and words & _SOURCE_WORDS:
        return True, "the question asks which records are meant"
    shared = len(words & slot) / len(slot) if slot else 0.0
    if shared >= OVERLAP:
        return True, f"the question shares {shared:.2f} of the canonical question's words"
    return False, f"the question shares only {shared:.2f} of the canonical question's words"


def reply(policy: str, request: ChatRequest) -> ChatReply:
    """The decision as a JSON object; every offline policy judges alike. Raises JudgePromptError."""
    text = next((m.content for m in reversed(request.messages) if f"## {SECTIONS[0]}" in m.content), "")
    parts = _sections(text)
    values = [line.strip().lstrip("-*").strip() for line in parts[SECTIONS[1]].splitlines() if line.strip()]
    decision, reason = aligned(parts[SECTIONS[0]], values, parts[SECTIONS[2]])
    answer = json.dumps({"aligned": decision, "reason": reason})
    return ChatReply(CallOutcome.OK, answer, finish_reason="stop", cost=0.0, cost_source="offline")
