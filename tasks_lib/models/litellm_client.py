"""Calls to real endpoints through litellm: one owner of retries, one deadline a call, limits per backend, honest accounting.

Known faults M01, M02, M04. litellm is imported only when a call, or its effective parameters, are not in the ledger yet.
Nothing here decides what a reply means (see replies) or whether a call is needed (see client).
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import logging
import os
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, NoReturn

from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.chat import BackendMisconfigured, ChatRequest, Message, ProviderUnavailable, ToolCall
from tasks_lib.models.limits import Gate, gate_of
from tasks_lib.models.transcripts import Completion, plain_bytes
from tasks_lib.models.wire import Sent, counting, session
from tasks_lib.protocol.vocabulary import CallOutcome
from tasks_lib.store.keys import digest
from tasks_lib.store.ledgers import Ledger, Produced

ATTEMPTS = 3
BACKOFF_SECONDS = 0.5
MARKED = frozenset(["anthropic", "bedrock", "vertex_ai"])
"""Providers whose prompt cache wants marks in the messages; the others cache equal beginnings by themselves."""
PARAMETERS_KIND = "model_parameters"
_PROBE_TOOL = {
    "type": "function",
    "function": {"name": "probe", "description": "", "parameters": {"type": "object", "properties": {}}},
}


@cache
def _litellm() -> Any:
    """litellm, quiet and offline at import (about 4 s)."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    logging.getLogger("LiteLLM").setLevel(logging.ERROR)
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.drop_params = False
    return litellm


def litellm_version() -> str:
    """Version of the installed litellm; it is also the version of its price table."""
    return importlib.metadata.version("litellm")


def _clean(text: str) -> str:
    """`text` with half surrogate pairs replaced: they can neither be sent back nor encoded."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _flat_keys(value: Any) -> set[str]:
    if not isinstance(value, Mapping):
        return set()
    return set(value) | {name for inner in value.values() for name in _flat_keys(inner)}


def _wire(message: Message) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        wire["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        wire["tool_call_id"] = message.tool_call_id
    return wire


def _mark(messages: list[dict[str, Any]]) -> None:
    """Cache marks on the first and the last message: the next turn repeats both and reads what lies between from the cache."""
    for place in {0, len(messages) - 1}:
        text = messages[place]["content"]
        if text:
            part = {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}
            messages[place] = {**messages[place], "content": [part]}


class LiteLLMEndpoint:
    """One backend reached through litellm. `ledger` keeps effective parameters, so that a finished run imports nothing."""

    def __init__(self, spec: BackendSpec, ledger: Ledger | None, api_key: str | None = None) -> None:
        if (spec.input_price is None) != (spec.output_price is None):
            raise BackendMisconfigured(
                f"Backend {spec.name}: expected both input_price and output_price or neither, found one; add the other."
            )
        self.spec = spec
        self.ledger = ledger
        self.api_key = api_key
        self._parameters: dict[str, Mapping[str, Any]] = {}

    # -- effective parameters (M04) --

    def requested(self, request: ChatRequest) -> dict[str, Any]:
        """Request fields beside messages and tools, as asked for. Absent means absent."""
        fields: dict[str, Any] = {**self.spec.extra, "max_tokens": request.max_tokens or self.spec.max_tokens}
        if self.spec.temperature is not None:
            fields["temperature"] = self.spec.temperature
        if request.tool_choice is not None:
            fields["tool_choice"] = request.tool_choice
        return fields

    async def parameters(self, request: ChatRequest) -> Mapping[str, Any]:
        """{requested, effective, dropped, provider, endpoint} of a request, computed once per kind of request.

        Raises BackendMisconfigured when litellm knows that the model refuses a field (such as temperature 0).
        """
        requested = self.requested(request)
        bases = {k: v for k, v in os.environ.items() if k.endswith(("_API_BASE", "_BASE_URL"))}
        key = digest(
            {
                "kind": PARAMETERS_KIND,
                "litellm": litellm_version(),
                "model": self.spec.model,
                "api_base": self.spec.api_base,
                "bases": bases,
                "tools": bool(request.tools),
                "requested": requested,
            }
        )
        if key not in self._parameters:
            if self.ledger is None:
                self._parameters[key] = self._effective(requested, bool(request.tools))
            else:

                async def produce() -> Produced:
                    return Produced("ok", plain_bytes(self._effective(requested, bool(request.tools))))

                entry = await self.ledger.once(key, PARAMETERS_KIND, produce)
                self._parameters[key] = json.loads(entry.payload)
        return self._parameters[key]

    def _effective(self, requested: Mapping[str, Any], tools: bool) -> dict[str, Any]:
        litellm = _litellm()
        try:
            model, provider, _, base = litellm.get_llm_provider(self.spec.model, api_base=self.spec.api_base)
            asked = {**requested, **({"tools": [_PROBE_TOOL]} if tools else {})}
            effective = litellm.utils.get_optional_params(model=model, custom_llm_provider=provider, **asked)
        except litellm.UnsupportedParamsError as error:
            raise BackendMisconfigured(
                f"Backend {self.spec.name}: model {self.spec.model} refuses a parameter ({_short(error)}), expected it to take "
                f"{dict(requested)}; change the spec (temperature null sends none)."
            ) from error
        except litellm.BadRequestError as error:
            raise BackendMisconfigured(
                f"Backend {self.spec.name}: {self.spec.model!r} is no model id that litellm knows, expected `provider/model` "
                "such as `hosted_vllm/name` for a local server; correct the model."
            ) from error
        if tools and "tools" not in effective:
            raise BackendMisconfigured(
                f"Backend {self.spec.name}: {self.spec.model} takes no tools, expected native tool calls; use protocol text."
            )
        effective = {name: value for name, value in effective.items() if name != "tools" and value != {}}
        renamed = {"max_tokens", "tool_choice", "reasoning_effort", "extra_body", "thinking"}
        dropped = sorted(requested.keys() - renamed - _flat_keys(effective))
        variables = [os.environ.get(f"{provider.upper()}{end}") for end in ("_API_BASE", "_BASE_URL")]
        endpoint = self.spec.api_base or next((v for v in variables if v), None) or base or f"default of {provider}"
        return {
            "requested": dict(requested),
            "effective": effective,
            "dropped": dropped,
            "provider": provider,
            "endpoint": endpoint,
        }

    # -- calling (M01) --

    async def complete(self, request: ChatRequest) -> Completion:
        """One generation. Raises ProviderUnavailable after transient failures and BackendMisconfigured; stores nothing."""
        parameters = await self.parameters(request)
        litellm = _litellm()
        # An empty key is none, but litellm would send it and report an unreachable provider.
        for name in [n for n, value in os.environ.items() if n.endswith("_API_KEY") and not value.strip()]:
            del os.environ[name]
        needed = litellm.validate_environment(model=self.spec.model, api_key=self.api_key)["missing_keys"]
        missing = [name for name in needed if name.endswith("_KEY")]
        if missing:
            raise BackendMisconfigured(
                f"Backend {self.spec.name}: expected a key in {' or '.join(missing)}, found none; set it (any text for a server "
                "without keys), or use `hosted_vllm/…` for a local OpenAI-compatible server."
            )
        gate = gate_of(self.spec)
        characters = sum(len(message.content) for message in request.messages)
        guess = characters // 4 + (request.max_tokens or self.spec.max_tokens)
        async with gate.places:
            await asyncio.sleep(gate.wait(guess))
            with counting() as sent:
                done = await self._attempts(request, parameters, gate, sent)
        if done.prompt_tokens is not None and done.completion_tokens is not None:
            gate.correct(done.prompt_tokens + done.completion_tokens - guess)
        return done

    async def _attempts(
        self, request: ChatRequest, parameters: Mapping[str, Any], gate: Gate, sent: Sent
    ) -> Completion:
        import openai  # litellm's errors are subclasses of this client's

        litellm = _litellm()
        shared = await session()
        # Where litellm brings a connection of its own, a request counts when litellm is asked for it.
        seen = parameters["provider"] in {"openai", *litellm.openai_compatible_providers}
        started = time.monotonic()
        fields = self.requested(request)
        if request.tools:
            fields["tools"] = [dict(tool) for tool in request.tools]
        messages = [_wire(message) for message in request.messages]
        if (
            request.conversation
            and parameters["provider"] in MARKED
            and litellm.supports_prompt_caching(self.spec.model)
        ):
            _mark(messages)
        for attempt in range(1, ATTEMPTS + 1):
            left = self.spec.deadline_seconds - (time.monotonic() - started)
            sent.requests += not seen
            try:
                async with asyncio.timeout(left):
                    response = await litellm.acompletion(
                        model=self.spec.model,
                        messages=messages,
                        api_base=self.spec.api_base,
                        api_key=self.api_key,
                        timeout=left,
                        max_retries=0,
                        num_retries=0,
                        shared_session=shared,
                        **fields,
                    )
                return self._read(response, sent.requests, time.monotonic() - started)
            except (TimeoutError, litellm.Timeout) as error:
                self._give_up(CallOutcome.TIMEOUT, parameters, attempt, sent, error)
            except openai.APIError as error:
                failure = error
            decided = self._decided(failure, parameters)
            if decided is not None:
                latency = time.monotonic() - started
                return Completion(decided, detail=_short(failure), attempts=sent.requests, latency=latency)
            limited = _status(failure) == 429
            outcome = CallOutcome.RATE_LIMITED if limited else CallOutcome.PROVIDER_UNAVAILABLE
            pause = max(_retry_after(failure), BACKOFF_SECONDS * 2 ** (attempt - 1))
            left = self.spec.deadline_seconds - (time.monotonic() - started)
            # A start is booked only for a request that may be sent; one that could not be waited for is not sent, nor counted.
            if attempt == ATTEMPTS or pause >= left or (pause := max(pause, gate.wait())) >= left:
                self._give_up(outcome, parameters, attempt, sent, failure)
            await asyncio.sleep(pause)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _decided(self, error: Exception, parameters: Mapping[str, Any]) -> CallOutcome | None:
        """The stored failure an error stands for, None for a transient one. Raises BackendMisconfigured."""
        litellm = _litellm()
        text = str(error)
        status = _status(error)
        if isinstance(error, litellm.ContextWindowExceededError) or "context_length_exceeded" in text:
            return CallOutcome.CONTEXT_OVERFLOW
        if isinstance(error, litellm.ContentPolicyViolationError) or (status == 400 and "content_filter" in text):
            return CallOutcome.MODEL_REFUSED
        if status in {408, 409, 425, 429} or status >= 500:
            return None
        named = re.search(r"['\"]param['\"]: ?['\"](\w+)['\"]", text)
        known = set(parameters["requested"]) | _flat_keys(parameters["effective"]) | {"model", "tools"}
        if status not in {400, 413, 422} or (named is not None and named.group(1) in known):
            raise BackendMisconfigured(
                f"Backend {self.spec.name}: {parameters['endpoint']} answered {status} ({_short(error)}), expected it to accept "
                f"model {self.spec.model} with {parameters['effective']}; correct the model, the key or the parameters."
            ) from error
        return CallOutcome.BAD_REQUEST

    def _give_up(
        self, outcome: CallOutcome, parameters: Mapping[str, Any], attempts: int, sent: Sent, error: BaseException
    ) -> NoReturn:
        raise ProviderUnavailable(
            f"{outcome}: backend {self.spec.name} at {parameters['endpoint']} gave no reply in {attempts} attempt(s) within "
            f"{self.spec.deadline_seconds:g} s ({_short(error)}), expected a chat completion of {self.spec.model}; check that "
            "the server runs and api_base is right, then run again: nothing was stored.",
            sent.requests,
            outcome.value,
        ) from error

    # -- reading (M02) --

    def _read(self, response: Any, attempts: int, latency: float) -> Completion:
        choice = response.choices[0] if response.choices else None
        message = choice.message if choice else None
        text = _clean((message.content if message else None) or "")
        calls = tuple(
            ToolCall(_clean(call.id or ""), _clean(call.function.name or ""), _clean(call.function.arguments or ""))
            for call in (getattr(message, "tool_calls", None) or ())
        )
        finish = (choice.finish_reason if choice else None) or ""
        refusal = getattr(message, "refusal", None)
        if finish == "length":
            outcome = CallOutcome.TRUNCATED
        elif finish in {"content_filter", "refusal"} or (refusal and not text and not calls):
            outcome = CallOutcome.MODEL_REFUSED
        elif not text.strip() and not calls:
            outcome = CallOutcome.EMPTY
        else:
            outcome = CallOutcome.OK
        tokens_in, tokens_out = _tokens(response)
        cost, source = self._cost(response, tokens_in, tokens_out)
        return Completion(
            outcome=outcome,
            text=text,
            tool_calls=calls,
            finish_reason=finish,
            reasoning=_clean(getattr(message, "reasoning_content", None) or ""),
            prompt_tokens=tokens_in,
            completion_tokens=tokens_out,
            cached_tokens=_cached(response),
            cost=cost,
            cost_source=source,
            price_table=f"litellm {litellm_version()}" if source == "price_table" else "",
            detail=_clean(str(refusal)) if refusal else "",
            attempts=attempts,
            latency=latency,
        )

    def price(self) -> tuple[float, float] | None:
        """US dollars per million tokens in and out: the spec's, else litellm's table, None when neither knows."""
        spec = self.spec
        if spec.input_price is not None and spec.output_price is not None:
            return spec.input_price, spec.output_price
        known = _litellm().model_cost.get(spec.model, {})
        prices = known.get("input_cost_per_token"), known.get("output_cost_per_token")
        return (prices[0] * 1e6, prices[1] * 1e6) if prices[0] and prices[1] else None

    def _cost(self, response: Any, tokens_in: int | None, tokens_out: int | None) -> tuple[float | None, str]:
        """(US dollars or None, source). A free answer that used tokens is unknown, except by the user's own prices."""
        spec = self.spec
        if spec.input_price is not None and spec.output_price is not None and tokens_in is not None:
            return (tokens_in * spec.input_price + (tokens_out or 0) * spec.output_price) / 1e6, "override"
        said = getattr(getattr(response, "usage", None), "cost", None)
        if isinstance(said, int | float) and said > 0:
            return float(said), "provider"
        if tokens_in is None or tokens_out is None or spec.model not in _litellm().model_cost:
            return None, "unknown"
        known = sum(_litellm().cost_per_token(model=spec.model, prompt_tokens=tokens_in, completion_tokens=tokens_out))
        return (known, "price_table") if known > 0 else (None, "unknown")


def _tokens(response: Any) -> tuple[int | None, int | None]:
    """Prompt and completion tokens; litellm fills a missing usage with zeros, so a prompt of zero tokens is unknown."""
    usage = getattr(response, "usage", None)
    tokens = getattr(usage, "prompt_tokens", None)
    return (int(tokens), int(usage.completion_tokens)) if usage is not None and tokens else (None, None)


def _cached(response: Any) -> int | None:
    """Prompt tokens read from the provider's cache, None when it did not say."""
    details = getattr(getattr(response, "usage", None), "prompt_tokens_details", None)
    tokens = getattr(details, "cached_tokens", None)
    return None if tokens is None else int(tokens)


def _status(error: Exception) -> int:
    return int(getattr(error, "status_code", None) or 500)


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 240 else text[:239] + "…"


def _retry_after(error: Exception) -> float:
    """Seconds the endpoint asked to wait, 0 when it did not say."""
    headers: Mapping[str, str] = getattr(error, "litellm_response_headers", None) or {}
    if not headers and getattr(error, "response", None) is not None:
        headers = error.response.headers  # type: ignore[attr-defined]
    value = str(headers.get("retry-after", "") or "")
    if re.fullmatch(r"\d+(\.\d+)?", value):
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return 0.0
