"""Backend specs: what a user passes to name a model endpoint (DESIGN, Backends). No calls are made here.

Keys never appear in a spec: they come from the environment (litellm's own variables) or a Prefect block.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tasks_lib.store.keys import digest

OFFLINE_POLICIES = ("offline/tfidf", "offline/bm25", "offline/minilm", "offline/hybrid")
RANDOM = "offline/random"
"""The same policy with scores drawn at random, seeded by the texts: what is left of a score without evidence. No default backend."""
NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$"
"""What may name a backend, or another agent, in tables."""


class BackendSpec(BaseModel):
    """One backend. `model` is a litellm model id, or one of the offline policies.

    `temperature` None sends no temperature. `protocol`: native tool calls or the text protocol. `requests_per_minute` and
    `tokens_per_minute` 0 mean unlimited. Prices are per million tokens and override litellm's table.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

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
