"""One tiny request before a run: is the backend there, and what does it make of our parameters (known fault M04)?"""

from __future__ import annotations

from typing import Any

from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.chat import BackendMisconfigured, ChatRequest, Message, ProviderUnavailable

PROBE_SECONDS = 30.0
TOOL = {
    "type": "function",
    "function": {
        "name": "ready",
        "description": "Say that you are ready.",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
    },
}


async def probe(spec: BackendSpec, api_key: str | None = None) -> dict[str, Any]:
    """{backend, endpoint, reachable, outcome, temperature, effective_temperature, dropped, tool_calling, usage_known, cost_source,
    detail}.

    Never raises for a backend that is down or misconfigured: `reachable` is False and `detail` says why. Nothing is stored.
    `effective_temperature` None means the provider's default. `tool_calling`: `native` (it answered by a tool call), `none seen`
    (protocol native, but it answered in words: use text), `text` (not asked for), or empty when nothing came back. `cost_source`:
    where the price of this call came from, `unknown` when nobody knows.
    """
    report: dict[str, Any] = {
        "backend": spec.name,
        "endpoint": "in process",
        "reachable": True,
        "outcome": "ok",
        "temperature": spec.temperature,
        "effective_temperature": None,
        "dropped": [],
        "tool_calling": "text",
        "usage_known": False,
        "cost_source": "offline",
        "detail": "",
    }
    if spec.offline:
        return report
    from tasks_lib.models.litellm_client import LiteLLMEndpoint

    report |= {
        "endpoint": spec.api_base or "",
        "reachable": False,
        "outcome": "",
        "tool_calling": "",
        "cost_source": "unknown",
    }
    short = spec.model_copy(update={"deadline_seconds": min(spec.deadline_seconds, PROBE_SECONDS)})
    native = spec.protocol == "native"
    text = "Call the tool once." if native else "Answer with the word ready."
    request = ChatRequest((Message("user", text),), (TOOL,) if native else (), max_tokens=min(spec.max_tokens, 64))
    try:
        endpoint = LiteLLMEndpoint(short, None, api_key)
        parameters = await endpoint.parameters(request)
        report |= {
            "endpoint": parameters["endpoint"],
            "effective_temperature": parameters["effective"].get("temperature"),
            "dropped": parameters["dropped"],
        }
        completion = await endpoint.complete(request)
    except (ProviderUnavailable, BackendMisconfigured) as error:
        return report | {"detail": str(error)}
    return report | {
        "reachable": True,
        "outcome": str(completion.outcome),
        "tool_calling": ("native" if completion.tool_calls else "none seen") if native else "text",
        "usage_known": completion.prompt_tokens is not None,
        "cost_source": completion.cost_source,
        "detail": completion.detail,
    }
