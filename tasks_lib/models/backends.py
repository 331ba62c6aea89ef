"""Backend specs: what a user passes to name a model endpoint (DESIGN, Backends). No calls are made here.

Keys never appear in a spec: they come from the environment (litellm's own variables) or a Prefect block. A spec is stored in run
records and in Prefect's database, so one that holds a key is refused before anything sees it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from tasks_lib.store.keys import digest

OFFLINE_POLICIES = ("offline/tfidf", "offline/bm25", "offline/minilm", "offline/hybrid")
RANDOM = "offline/random"
"""The same policy with scores drawn at random, seeded by the texts: what is left of a score without evidence. No default backend."""
NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$"
"""What may name a backend, or another agent, in tables."""
KEY_IN_CLEAR = "key_in_clear"
"""Type of the validation error of a spec that holds a key."""
SECRET = re.compile(
    r"^(key|token|sig)$|api[-_]?key|secret|password|authorization|credential|access[-_]?key"
    r"|(access|auth|bearer|session|ad)[-_]?token$",
    re.IGNORECASE,
)
"""Names under which a text is a key, in fields and in the query of an address. `max_tokens` and `prompt_cache_key` are none."""
RESERVED = frozenset(
    [
        "model",
        "messages",
        "tools",
        "tool_choice",
        "temperature",
        "max_tokens",
        "max_completion_tokens",
        "api_base",
        "base_url",
        "stream",
        "timeout",
        "max_retries",
        "num_retries",
        "n",
        "extra_headers",
        "headers",
        "mock_response",
        "cache",
        "drop_params",
    ]
)
"""Request fields that have their own place in a spec, or that the client sets itself."""


def keys_in_clear(given: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """Places in a raw spec that hold a key: dotted names of fields, `api_base` where the address carries one."""
    for name, value in given.items():
        where = f"{place}{name}"
        if isinstance(value, Mapping):
            yield from keys_in_clear(value, f"{where}.")
        elif isinstance(value, str) and value:
            if SECRET.search(name):
                yield where
            elif where == "api_base":
                address = urlsplit(value)
                asked = [part for part, _ in parse_qsl(address.query)]
                if address.password or any(SECRET.search(part) for part in asked):
                    yield where


class BackendSpec(BaseModel):
    """One backend. `model` is a litellm model id, or one of the offline policies.

    `temperature` None sends no temperature. `protocol`: native tool calls or the text protocol. `requests_per_minute` and
    `tokens_per_minute` 0 mean unlimited. Prices are per million tokens and override litellm's table.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)

    name: Annotated[str, Field(pattern=NAME)]
    model: Annotated[str, Field(min_length=1)]
    api_base: str | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.0
    context: Annotated[int, Field(gt=0)] = 131_072
    max_tokens: Annotated[int, Field(gt=0)] = 4096
    protocol: Literal["text", "native"] = "text"
    concurrency: Annotated[int, Field(gt=0, le=256)] = 4
    requests_per_minute: Annotated[int, Field(ge=0)] = 0
    tokens_per_minute: Annotated[int, Field(ge=0)] = 0
    input_price: Annotated[float, Field(ge=0)] | None = None
    output_price: Annotated[float, Field(ge=0)] | None = None
    deadline_seconds: Annotated[float, Field(gt=0)] = 120.0
    extra: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _without_keys(cls, given: Any) -> Any:
        place = next(keys_in_clear(given), None) if isinstance(given, Mapping) else None
        if place is not None:
            advice = "set the environment variable that litellm reads for the provider, or save a Backend block, and leave it out"
            raise PydanticCustomError(
                KEY_IN_CLEAR,
                "{place} holds a key in clear, expected none; {advice}",
                {"place": place, "advice": advice},
            )
        return given

    @field_validator("extra")
    @classmethod
    def _other_fields(cls, extra: dict[str, Any]) -> dict[str, Any]:
        clash = ", ".join(sorted(RESERVED & extra.keys()))
        if clash:
            raise PydanticCustomError("reserved", "holds {clash}, which the spec or the client sets", {"clash": clash})
        return extra

    @property
    def offline(self) -> bool:
        return self.model in (*OFFLINE_POLICIES, RANDOM)

    def fingerprint(self) -> str:
        """sha256 hex of what decides answers: not the name, limits or prices."""
        decisive = self.model_dump(
            include={"model", "api_base", "temperature", "context", "max_tokens", "protocol", "extra"}
        )
        return digest(decisive)


def offline_backends() -> tuple[BackendSpec, ...]:
    """The four offline policies, the embedded default."""
    return tuple(BackendSpec(name=model.replace("/", "-"), model=model, temperature=None) for model in OFFLINE_POLICIES)
