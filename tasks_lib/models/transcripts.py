"""What the ledger keeps of a model call, and how it is read back: messages as blobs, the request as their digests.

A message is stored once however often a conversation repeats it, so a 30-turn episode is linear (DESIGN, Ledgers). No call is
made here. The leak scan and reports read calls through `read_call`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

from tasks_lib.models.chat import ChatReply, Message, ToolCall
from tasks_lib.protocol.vocabulary import CallOutcome
from tasks_lib.store.keys import sha256_bytes
from tasks_lib.store.ledgers import Entry, Ledger

KIND = "model_call"
FAILED = "model_failure"
"""Calls that stayed without an answer: what was sent for them, so that requests can be counted. Never replayed."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One generation as it came back, failures included. Tokens and cost None when unknown (never 0). Latency in seconds.

    `cached_tokens`: those of the prompt that the provider read from its cache, None when it did not say.
    """

    outcome: CallOutcome
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = ""
    reasoning: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost: float | None = None
    cost_source: str = "unknown"
    price_table: str = ""
    detail: str = ""
    attempts: int = 1
    latency: float = 0.0


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A call read back. `completion.text` holds also what a failed generation wrote; `parameters`: requested and effective."""

    key: str
    audience: str
    layer: str
    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...]
    parameters: Mapping[str, Any]
    completion: Completion
    templates: tuple[str, ...] = field(default=())


def plain_bytes(value: Any) -> bytes:
    """ASCII JSON with sorted keys: any text a model or database can produce has bytes, half surrogates too."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


@lru_cache(maxsize=1024)
def message_blob(message: Message) -> tuple[str, bytes]:
    """(digest, bytes) of a message; remembered, since every turn of a conversation asks for all messages before it."""
    data = plain_bytes(asdict(message))
    return sha256_bytes(data), data


@dataclass(frozen=True, slots=True)
class ToolsBlob:
    """Tool schemas as stored. `each`: digests one by one; `digest`, `data`: of the list."""

    tools: tuple[Mapping[str, Any], ...]
    each: tuple[str, ...]
    digest: str
    data: bytes


_TOOLS: dict[tuple[int, ...], ToolsBlob] = {}


def tools_blob(tools: tuple[Mapping[str, Any], ...]) -> ToolsBlob:
    """The stored form of `tools`, remembered by identity: schemas are constants and are never changed in place."""
    place = tuple(map(id, tools))
    found = _TOOLS.get(place)
    if found is None:
        data = plain_bytes([dict(tool) for tool in tools])
        each = tuple(sha256_bytes(plain_bytes(dict(tool))) for tool in tools)
        found = ToolsBlob(tools, each, sha256_bytes(data), data)  # holds the tools, so that their ids stay theirs
        if len(_TOOLS) >= 64:
            _TOOLS.clear()
        _TOOLS[place] = found
    return found


def message_of(data: bytes) -> Message:
    """The message of `message_blob` bytes."""
    fields = json.loads(data)
    return Message(**{**fields, "tool_calls": tuple(ToolCall(**call) for call in fields["tool_calls"])})


def completion_fields(completion: Completion) -> dict[str, Any]:
    """Plain data of a completion without attempts and latency, which are not part of the answer."""
    fields = asdict(completion)
    del fields["attempts"], fields["latency"]
    return fields


def completion_of(entry: Entry) -> Completion:
    """The stored generation of a model-call entry."""
    fields = json.loads(entry.payload)["completion"]
    calls = tuple(ToolCall(**call) for call in fields.pop("tool_calls"))
    outcome = CallOutcome(fields.pop("outcome"))
    return Completion(
        outcome, tool_calls=calls, attempts=entry.meta["attempts"], latency=entry.meta["latency"], **fields
    )


def reply_of(entry: Entry) -> ChatReply:
    """What callers see of a stored generation: a failure carries no text and no tool calls."""
    completion = completion_of(entry)
    good = completion.outcome is CallOutcome.OK
    return ChatReply(
        outcome=completion.outcome,
        text=completion.text if good else "",
        tool_calls=completion.tool_calls if good else (),
        finish_reason=completion.finish_reason,
        prompt_tokens=completion.prompt_tokens,
        completion_tokens=completion.completion_tokens,
        cached_tokens=completion.cached_tokens,
        cost=completion.cost,
        cost_source=completion.cost_source,
        call_key=entry.key,
        extra={"detail": completion.detail} if completion.detail else {},
    )


def read_call(ledger: Ledger, key: str) -> StoredCall:
    """Everything one model call showed and got. Raises KeyError when the call is not in the ledger."""
    entry = ledger.get(key)
    if entry is None or entry.kind != KIND:
        raise KeyError(key)
    request = json.loads(entry.payload)["request"]
    return StoredCall(
        key=key,
        audience=entry.meta["audience"],
        layer=entry.meta["layer"],
        messages=tuple(message_of(ledger.blob(name)) for name in request["messages"]),
        tools=tuple(json.loads(ledger.blob(request["tools"]))) if request["tools"] else (),
        parameters=request["parameters"],
        completion=completion_of(entry),
        templates=tuple(request["templates"]),
    )
