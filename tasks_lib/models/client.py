"""Models behind the ledger: equal requests are made once per trial, failures of a generation are replayed as failures.

The key is the digest of the full effective request (known fault M05); what talks to endpoints is `litellm_client`, what
answers without a model is `offline`. Transient failures raise and store nothing (known fault P02).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Protocol

from tasks_lib.models import offline
from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.budget import current
from tasks_lib.models.chat import BackendMisconfigured, ChatModel, ChatReply, ChatRequest, ProviderUnavailable
from tasks_lib.models.keys import key_of
from tasks_lib.models.transcripts import (
    FAILED,
    KIND,
    Completion,
    completion_fields,
    message_blob,
    plain_bytes,
    reply_of,
    tools_blob,
)
from tasks_lib.models.wire import counting
from tasks_lib.protocol.records import CallContext
from tasks_lib.protocol.vocabulary import CallOutcome
from tasks_lib.store.keys import digest
from tasks_lib.store.ledgers import Ledger, Produced

CALL_VERSION = "model_call@1"
CHARACTERS_A_TOKEN = 8
"""More characters than tokenizers pack into one token of real prompts on average: beyond it overflow is certain."""


class Endpoint(Protocol):
    """What makes one generation. `parameters`: the effective request fields, all of which go into the key."""

    async def parameters(self, request: ChatRequest) -> Mapping[str, Any]: ...

    async def complete(self, request: ChatRequest) -> Completion: ...

    def price(self) -> tuple[float, float] | None:
        """US dollars per million tokens in and out, None when nobody knows."""
        ...


def call_key(spec: BackendSpec, request: ChatRequest, parameters: Mapping[str, Any], trial: int) -> str:
    """sha256 hex of the full effective request. Absent fields differ from explicit defaults."""
    return digest(
        {
            "version": CALL_VERSION,
            "backend": spec.fingerprint(),
            "messages": [message_blob(message)[0] for message in request.messages],
            "tools": list(tools_blob(request.tools).each),
            "tool_choice": request.tool_choice,
            "max_tokens": request.max_tokens,
            "parameters": dict(parameters),
            "templates": list(request.templates),
            "trial": trial,
        }
    )


def surely_overflows(spec: BackendSpec, request: ChatRequest) -> bool:
    """True when the messages cannot fit the stated context by any tokenizer; some servers would cut them silently."""
    characters = sum(len(message.content) for message in request.messages)
    return characters / CHARACTERS_A_TOKEN + (request.max_tokens or spec.max_tokens) > spec.context


class LedgeredModel:
    """A `ChatModel` whose every call goes through the ledger."""

    def __init__(self, spec: BackendSpec, ledger: Ledger, endpoint: Endpoint) -> None:
        self._spec = spec
        self.ledger = ledger
        self.endpoint = endpoint

    @property
    def spec(self) -> BackendSpec:
        return self._spec

    async def chat(self, request: ChatRequest, context: CallContext) -> ChatReply:
        """The stored reply, or the one made now. Raises ProviderUnavailable (nothing stored) and BackendMisconfigured."""
        if request.tools and self.spec.protocol != "native":
            raise ValueError(
                f"Backend {self.spec.name} speaks the text protocol, expected a request without tools, found "
                f"{len(request.tools)}; print the tools in the prompt or use protocol native."
            )
        parameters = await self.endpoint.parameters(request)
        key = call_key(self.spec, request, parameters, context.trial)

        async def produce() -> Produced:
            if not self.spec.offline and surely_overflows(self.spec, request):
                completion = Completion(
                    CallOutcome.CONTEXT_OVERFLOW, detail="longer than the backend's stated context", attempts=0
                )
            elif self.spec.offline:
                completion = await self.endpoint.complete(request)
            else:
                completion = await self._paid(request, key, context)
            return _stored(self.spec.name, request, parameters, completion, context)

        return reply_of(await self.ledger.once(key, KIND, produce))

    async def _paid(self, request: ChatRequest, key: str, context: CallContext) -> Completion:
        """One call to an endpoint inside the budget. Raises BudgetSpent before a call that would exceed it."""
        budget = current()
        booked = budget.book(self.spec, request, self.endpoint.price())
        cost = None
        with counting() as sent:
            try:
                completion = await self.endpoint.complete(request)
                cost = completion.cost
            except (ProviderUnavailable, BackendMisconfigured, asyncio.CancelledError) as error:
                meta = {"call": key, "layer": context.layer, "trial": context.trial, "attempts": sent.requests}
                detail = str(error) or "cancelled before a reply came"
                self.ledger.record(FAILED, Produced(_failure(error), plain_bytes({"detail": detail}), meta))
                raise
            finally:
                budget.settle(booked, cost)
        return completion


def _failure(error: BaseException) -> str:
    """The outcome of a call without a reply: what the client says, `bad_request` for one that is described wrongly."""
    if isinstance(error, ProviderUnavailable):
        return error.outcome
    return str(CallOutcome.BAD_REQUEST if isinstance(error, BackendMisconfigured) else CallOutcome.PROVIDER_UNAVAILABLE)


def _stored(
    backend: str, request: ChatRequest, parameters: Mapping[str, Any], completion: Completion, context: CallContext
) -> Produced:
    messages = [message_blob(message) for message in request.messages]
    blobs = dict(messages)
    tools = ""
    if request.tools:
        stored = tools_blob(request.tools)
        tools = stored.digest
        blobs[tools] = stored.data
    payload = {
        "request": {
            "messages": [name for name, _ in messages],
            "tools": tools,
            "tool_choice": request.tool_choice,
            "templates": list(request.templates),
            "parameters": dict(parameters),
        },
        "completion": completion_fields(completion),
    }
    meta = {
        "backend": backend,
        "audience": str(context.audience),
        "layer": context.layer,
        "trial": context.trial,
        "attempts": completion.attempts,
        "latency": round(completion.latency, 6),
        "prompt_tokens": completion.prompt_tokens,
        "completion_tokens": completion.completion_tokens,
        "cached_tokens": completion.cached_tokens,
        "cost": completion.cost,
        "cost_source": completion.cost_source,
    }
    return Produced(str(completion.outcome), plain_bytes(payload), meta, blobs)


class OfflineEndpoint:
    """An offline policy. Its code is part of the key, so a changed policy answers anew."""

    def __init__(self, spec: BackendSpec) -> None:
        self.policy = spec.model

    async def parameters(self, request: ChatRequest) -> Mapping[str, Any]:
        return {"policy": self.policy, "code": offline.policy_digest()}

    def price(self) -> tuple[float, float] | None:
        return 0.0, 0.0

    async def complete(self, request: ChatRequest) -> Completion:
        started = time.perf_counter()
        reply = offline.reply(self.policy, request)
        return Completion(
            outcome=reply.outcome,
            text=reply.text,
            tool_calls=reply.tool_calls,
            finish_reason=reply.finish_reason or "stop",
            cost=0.0,
            cost_source="offline",
            latency=time.perf_counter() - started,
        )


def open_model(spec: BackendSpec, ledger: Ledger, api_key: str | None = None) -> ChatModel:
    """The backend ready to be called. `api_key` None leaves the key held for it, or litellm's environment variables; it is never stored.

    Raises BackendMisconfigured when only one price is given.
    """
    if spec.offline:
        return LedgeredModel(spec, ledger, OfflineEndpoint(spec))
    from tasks_lib.models.litellm_client import LiteLLMEndpoint

    key = api_key if api_key is not None else key_of(spec.name)
    return LedgeredModel(spec, ledger, LiteLLMEndpoint(spec, ledger, key))


__all__ = ["BackendMisconfigured", "LedgeredModel", "OfflineEndpoint", "call_key", "open_model", "surely_overflows"]
