"""What the calls still to make should take: tokens and US dollars by backend, from measured prompts. Sends nothing, stores nothing.

A prompt is measured where it can be: the backend's own stored calls of the layer first; else, for routing, the prompts that an
offline policy meets on a few tasks of the release; else stored calls of the layer by any backend. Nothing measured is unknown, not 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from flows.wanted import TRIAL
from tasks_lib.models import offline
from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.chat import ChatReply, ChatRequest
from tasks_lib.models.transcripts import KIND, read_call
from tasks_lib.protocol.records import CallContext
from tasks_lib.protocol.vocabulary import Router
from tasks_lib.routeenv.search import Catalog
from tasks_lib.routing.layer import public_tasks
from tasks_lib.routing.routers import route
from tasks_lib.store.ledgers import Ledger, items

SAMPLE_TASKS = 4
SAMPLE_CALLS = 50
CHARACTERS_A_TOKEN = 4
"""About what tokenizers pack into one token of English, SQL and JSON."""
POLICY = "offline/tfidf"


@dataclass(frozen=True)
class Size:
    """Mean of one call of a layer. `calls`: how many an item takes (an episode of a router; else 1). `basis`: what was measured."""

    calls: float
    prompt_tokens: float
    completion_tokens: float
    basis: str


class _Measuring:
    """An offline policy that answers and remembers how long what it read and wrote was."""

    def __init__(self, spec: BackendSpec) -> None:
        self.spec = spec.model_copy(update={"model": POLICY})
        self.read: list[int] = []
        self.wrote: list[int] = []

    async def chat(self, request: ChatRequest, context: CallContext) -> ChatReply:
        reply = offline.reply(POLICY, request)
        tools = len(json.dumps([dict(tool) for tool in request.tools])) if request.tools else 0
        self.read.append(tools + sum(len(message.content) for message in request.messages))
        self.wrote.append(len(reply.text) + sum(len(call.arguments) for call in reply.tool_calls))
        return reply


async def router_sizes(
    public: str, spec: BackendSpec, routers: Sequence[Router], task_ids: Sequence[str]
) -> dict[Router, Size]:
    """Sizes of the routers' calls in the protocol of `spec`, by driving an offline policy over a few of the tasks."""
    catalog, tasks = Catalog.load(Path(public) / "catalog"), public_tasks(public)
    sample = list(task_ids[:SAMPLE_TASKS])
    found: dict[Router, Size] = {}
    for router in routers:
        if router is Router.RANDOM or not sample:
            continue
        model = _Measuring(spec)
        for task_id in sample:
            await route(router, tasks[task_id], catalog, model, TRIAL)
        calls = max(len(model.read), 1)
        found[router] = Size(
            len(model.read) / len(sample),
            sum(model.read) / calls / CHARACTERS_A_TOKEN,
            sum(model.wrote) / calls / CHARACTERS_A_TOKEN,
            f"an offline policy over {len(sample)} tasks",
        )
    return found


def layer_size(ledger: Ledger, layer: str, backend: str) -> Size | None:
    """Mean size of a call of a layer by what is stored of it: by this backend's own token counts, else by the length of anyone's text."""
    query = (
        sa.select(items.c.key, items.c.meta).where(items.c.kind == KIND, items.c.state == "done").order_by(items.c.key)
    )
    anyone: list[str] = []
    own: list[tuple[int, int]] = []
    with ledger.engine.connect() as connection:
        for row in connection.execute(query):
            meta = json.loads(row.meta)
            if meta["layer"] != layer:
                continue
            anyone.append(row.key)
            known = meta["prompt_tokens"] is not None and meta["completion_tokens"] is not None
            if meta.get("backend") == backend and known:
                own.append((meta["prompt_tokens"], meta["completion_tokens"]))
    if own:
        means = [sum(column) / len(own) for column in zip(*own, strict=True)]
        return Size(1.0, means[0], means[1], f"{len(own)} stored calls of {backend}")
    if not anyone:
        return None
    stored = [read_call(ledger, key) for key in anyone[:SAMPLE_CALLS]]
    read = sum(len(message.content) for call in stored for message in call.messages)
    wrote = sum(len(call.completion.text) for call in stored)
    each = len(stored) * CHARACTERS_A_TOKEN
    return Size(1.0, read / each, wrote / each, f"{len(stored)} stored calls of other backends")


def expected(wanted: Mapping[str, tuple[float, Size | None]], price: tuple[float, float] | None) -> dict[str, Any]:
    """{calls, prompt_tokens, completion_tokens, cost_usd, unmeasured, basis} of the calls to make.

    `wanted`: items by layer, each with its size or None. `price`: US dollars per million tokens in and out, None when unknown, and then
    `cost_usd` is None. Tokens and cost are of the measured layers only, so a floor where `unmeasured` names others.
    """
    calls = tokens_in = tokens_out = 0.0
    unmeasured: list[str] = []
    basis: dict[str, list[str]] = {}
    for layer, (number, size) in wanted.items():
        if not number:
            continue
        if size is None:
            calls += number
            unmeasured.append(layer)
            continue
        calls += number * size.calls
        tokens_in += number * size.calls * size.prompt_tokens
        tokens_out += number * size.calls * size.completion_tokens
        basis.setdefault(size.basis, []).append(layer)
    return {
        "calls": round(calls),
        "prompt_tokens": round(tokens_in),
        "completion_tokens": round(tokens_out),
        "cost_usd": None if price is None else round((tokens_in * price[0] + tokens_out * price[1]) / 1e6, 4),
        "unmeasured": unmeasured,
        "basis": basis,
    }


def price_of(spec: BackendSpec) -> tuple[float, float] | None:
    """US dollars per million tokens in and out, by the spec or litellm's table; None when unknown."""
    if spec.offline:
        return 0.0, 0.0
    from tasks_lib.models.litellm_client import LiteLLMEndpoint

    return LiteLLMEndpoint(spec, None).price()
