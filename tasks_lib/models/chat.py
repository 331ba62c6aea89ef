"""What every model looks like to the floors above: messages in, one reply out.

Only seam types live here. `client` makes `ChatModel`s from backend specs; offline policies sit behind the same protocol and
read exactly what a model would read: the messages and the tool schemas of the request, nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tasks_lib.models.backends import BackendSpec
from tasks_lib.protocol.records import CallContext
from tasks_lib.protocol.vocabulary import CallOutcome
from tasks_lib.store.ledgers import Transient


class ProviderUnavailable(Transient):
    """provider_unavailable: a transient failure outlived its retries. The item stays not done; a later run tries again.

    `attempts`: requests that were sent for it; `outcome`: what the last one failed with (a `CallOutcome` value), or "".
    """

    def __init__(self, message: str, attempts: int = 0, outcome: str = "") -> None:
        super().__init__(message)
        self.attempts = attempts
        self.outcome = outcome


class BackendMisconfigured(ValueError):
    """The backend cannot be called as it is described (unknown model, key, parameter). Nothing is stored; fix the spec."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One native tool call. `arguments`: the JSON text exactly as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. `role`: system | user | assistant | tool."""

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One model call. `tools`: OpenAI-style function schemas. `templates`: digests of the prompt templates used.

    `max_tokens` None leaves the backend's `max_tokens`. `tools` go to native backends only: the text protocol prints them.
    `conversation`: the next turn repeats these messages, so a provider that wants marks for its prompt cache gets them; no part
    of the call's key, for it changes no answer.
    """

    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: str | None = None
    max_tokens: int | None = None
    templates: tuple[str, ...] = ()
    conversation: bool = False


@dataclass(frozen=True, slots=True)
class ChatReply:
    """One stored reply. `outcome` other than ok is a failure of this generation and is replayed as that failure.

    A failed reply has no text and no tool calls here (they stay in the ledger), so it can never pass for an answer.

    `call_key`: ledger key. Tokens and cost are None when unknown (never 0); `cost_source`: provider | price_table |
    override | unknown | offline.
    """

    outcome: CallOutcome
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost: float | None = None
    cost_source: str = "unknown"
    call_key: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


class ChatModel(Protocol):
    """A backend ready to be called. Every call goes through the ledger: equal requests are made once per trial."""

    @property
    def spec(self) -> BackendSpec: ...

    async def chat(self, request: ChatRequest, context: CallContext) -> ChatReply:
        """One reply. Raises ProviderUnavailable on transient failure (nothing is stored)."""
        ...
