"""Strict reading of what models write: reasoning removal, text-protocol blocks, tool calls, JSON (PROTOCOL 7, DESIGN models).

Known faults L01, T01, T02, T04. Nothing is repaired: a reply that breaks a rule is `Malformed` with a reason, and the caller
spends a turn on it. The one leniency, a JSON string that holds an object, is reported as `double_encoded` for the caller to
record. Tool calls that a provider left in the text belong to `markup`, finding SQL in a reply to execution.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tasks_lib.models.chat import ToolCall

PREVIEW = 120
_REASONING = r"(?:think|thinking|reasoning|thought)"
_OPENS = re.compile(rf"\s*<({_REASONING})>", re.IGNORECASE)
_ANY_REASONING = re.compile(rf"<(/?)({_REASONING})>", re.IGNORECASE)
_INNER_REASONING = re.compile(rf"(?is)<({_REASONING})>.*?(</\1>|\Z)")
_FENCE_OPEN = re.compile(r"(?m)^[ \t]*(`{3,}|~{3,})([^\n`]*)$")
_INLINE_FENCE = re.compile(r"(`{3,})(?!`)[^\n]*?(?<!`)\1(?!`)")


class BadJson(ValueError):
    """Text that is not one strict JSON object. `reason`: not_json | not_object | number | duplicate_key | text."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Malformed:
    """A reply that breaks the protocol. `detail`: one sentence that may be shown to the model (bounded preview)."""

    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Block:
    """The one block of a text-protocol turn. `body`: text between the tags, stripped."""

    name: str
    body: str


@dataclass(frozen=True, slots=True)
class Fence:
    """A code block. `start`, `end`: offsets of the whole block in the text; `closed`: it has a closing fence."""

    language: str
    body: str
    start: int
    end: int
    closed: bool


@dataclass(frozen=True, slots=True)
class Decoded:
    """A strict JSON object and whether it came wrapped in a JSON string."""

    value: dict[str, Any]
    double_encoded: bool


def preview(text: str) -> str:
    """At most 120 characters of `text` on one line, for error messages."""
    flat = " ".join(text.split())
    return flat if len(flat) <= PREVIEW else flat[: PREVIEW - 1] + "…"


def fences(text: str) -> list[Fence]:
    """Code blocks of `text` in order: a fence line, the body, and a closing line of the same mark (or the end of the text)."""
    text = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
    found: list[Fence] = []
    position = 0
    while (opening := _FENCE_OPEN.search(text, position)) is not None:
        mark = opening.group(1)
        closing = re.compile(rf"(?m)^[ \t]*{re.escape(mark[0])}{{{len(mark)},}}[ \t]*$").search(text, opening.end())
        end = closing.end() if closing else len(text)
        body = text[opening.end() + 1 : closing.start() if closing else end]
        found.append(Fence(opening.group(2).strip().lower(), body.strip("\n"), opening.start(), end, bool(closing)))
        position = end
    return found


def _masked(text: str) -> str:
    """`text` with everything inside code fences blanked, offsets kept."""
    for fence in fences(text):
        text = text[: fence.start] + " " * (fence.end - fence.start) + text[fence.end :]
    return _INLINE_FENCE.sub(lambda found: " " * len(found.group()), text)


def spoken(text: str) -> str:
    """`text` with everything inside code fences and reasoning tags blanked, offsets kept."""
    return _INNER_REASONING.sub(lambda found: " " * len(found.group()), _masked(text))


def strip_reasoning(text: str) -> str:
    """`text` without the model's reasoning (known fault L01); line ends become LF.

    Starts with a reasoning tag: cut through its closing tag, and nothing is left when there is none (no answer was given).
    A closing tag outside code blocks that no opening one precedes: cut through it. Otherwise the text stays as it is.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    while True:
        opening = _OPENS.match(text)
        if opening is not None:
            closing = re.compile(rf"</{opening.group(1)}>", re.IGNORECASE).search(text, opening.end())
            if closing is None:
                return ""
            text = text[closing.end() :]
            continue
        orphan = _orphan_end(text)
        if orphan is None:
            return text.strip()
        text = text[orphan:]


def _orphan_end(text: str) -> int | None:
    depth = 0
    for tag in _ANY_REASONING.finditer(_masked(text)):
        if not tag.group(1):
            depth += 1
        elif depth == 0:
            return tag.end()
        else:
            depth -= 1
    return None


def parse_blocks(text: str, names: Sequence[str] = ("ACTION", "ASK_USER", "FINAL")) -> Block | Malformed:
    """The single block of a turn, outside code fences and reasoning, tags balanced (known fault T04).

    Reasons: none | multiple | nested | unbalanced | unclosed | empty.
    """
    text = strip_reasoning(text)
    mask = spoken(text)
    found: list[Block] = []
    open_tag: re.Match[str] | None = None
    for tag in re.finditer(rf"<(/?)({'|'.join(map(re.escape, names))})>", mask):
        closing, name = bool(tag.group(1)), tag.group(2)
        if not closing and open_tag is not None:
            return Malformed("nested", f"<{name}> stands inside <{open_tag.group(2)}>; write exactly one block.")
        if not closing:
            open_tag = tag
        elif open_tag is None or open_tag.group(2) != name:
            return Malformed("unbalanced", f"</{name}> closes nothing; write exactly one block with balanced tags.")
        else:
            found.append(Block(name, text[open_tag.end() : tag.start()].strip()))
            open_tag = None
    wanted = " / ".join(names)
    if open_tag is not None:
        return Malformed("unclosed", f"<{open_tag.group(2)}> is never closed; write exactly one complete block.")
    if not found:
        return Malformed("none", f"Expected exactly one block of {wanted}, found none in: {preview(text)}")
    if len(found) > 1:
        return Malformed("multiple", f"Expected exactly one block of {wanted}, found {len(found)}; none was run.")
    if not found[0].body:
        return Malformed("empty", f"<{found[0].name}> is empty; write its content.")
    return found[0]


def parse_tool_calls(calls: Sequence[ToolCall]) -> ToolCall | Malformed:
    """The single native call of a turn (known fault T01); reasons: none | multiple_calls."""
    if not calls:
        return Malformed("none", "Expected exactly one tool call, found none; call one of the tools.")
    if len(calls) > 1:
        return Malformed("multiple_calls", f"Expected exactly one tool call a turn, found {len(calls)}; none was run.")
    return calls[0]


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise BadJson("number", f"the number {preview(text)} is out of range")
    return value


def _refuse_constant(text: str) -> float:
    raise BadJson("number", f"{text} is not a JSON number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise BadJson("duplicate_key", f"the key {preview(twice)!r} appears twice")
    return value


def _loads(text: str) -> Any:
    try:
        value = json.loads(text, parse_float=_finite, parse_constant=_refuse_constant, object_pairs_hook=_unique)
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except BadJson:
        raise
    except UnicodeEncodeError as error:
        raise BadJson("text", "the text holds half of a surrogate pair") from error
    except RecursionError as error:
        raise BadJson("not_json", "the text is nested too deeply") from error
    except ValueError as error:
        raise BadJson("not_json", f"not valid JSON ({preview(str(error))})") from error
    return value


def decode_object(text: str) -> Decoded:
    """One strict JSON object (known fault T02). Raises BadJson whose message carries a bounded preview.

    Refused: NaN, infinities, numbers beyond range, duplicate keys, trailing text or commas, anything but an object.
    """
    try:
        value = _loads(text)
        double = isinstance(value, str)
        if double:
            value = _loads(value)
        if not isinstance(value, dict):
            raise BadJson("not_object", f"expected a JSON object, found {type(value).__name__}")
    except BadJson as error:
        raise BadJson(error.reason, f"Expected one JSON object: {error}; the text was: {preview(text)}") from error
    return Decoded(value, double)


def strict_json_object(text: str) -> dict[str, Any]:
    """`decode_object(text).value`."""
    return decode_object(text).value


def read_json_reply(text: str) -> Decoded | Malformed:
    """The JSON object of a decision reply: the whole reply, or its only code block (bare, json). Reasoning never counts.

    Reasons: empty | multiple | unclosed | those of BadJson.
    """
    text = strip_reasoning(text)
    if not text:
        return Malformed("empty", "Expected one JSON object, found an empty reply; answer with the object alone.")
    blocks = [fence for fence in fences(text) if fence.language in {"", "json"}]
    if len(blocks) > 1:
        return Malformed("multiple", f"Expected one JSON object, found {len(blocks)} code blocks; write one.")
    if blocks and not blocks[0].closed:
        return Malformed("unclosed", "The code block is never closed; write one complete JSON object.")
    try:
        return decode_object(blocks[0].body if blocks else text)
    except BadJson as error:
        return Malformed(error.reason, str(error))


def json_reply(text: str) -> dict[str, Any] | Malformed:
    """The value of `read_json_reply`."""
    read = read_json_reply(text)
    return read if isinstance(read, Malformed) else read.value
