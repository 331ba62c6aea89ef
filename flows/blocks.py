"""A backend as a Prefect block: a form with a masked key in the dashboard, picked by name where a flow wants backends.

A run started with a block keeps the block's id as its parameter. The flow takes the spec out of it, which goes into records and keys
of results, and holds the key in this process; from here on no parameter carries it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from prefect.blocks.core import Block
from pydantic import Field, InstanceOf, SecretStr, ValidationError

from tasks_lib.models.backends import KEY_IN_CLEAR, BackendSpec
from tasks_lib.models.chat import BackendMisconfigured
from tasks_lib.models.keys import held


class Backend(Block):
    """A model backend of DSABench. The block's name is the backend's name in tables."""

    _block_type_name = "DSABench backend"
    _block_type_slug = "dsabench-backend"

    model: str = Field(description="litellm model id, such as openai/NAME, or an offline policy.")
    api_key: SecretStr | None = Field(default=None, description="Leave empty to take it from the environment.")
    api_base: str | None = None
    temperature: float | None = Field(default=0.0, description="Empty sends none.")
    context: int = 131_072
    max_tokens: int = 4096
    protocol: Literal["text", "native"] = "text"
    concurrency: int = 4
    requests_per_minute: int = Field(default=0, description="0 for no limit.")
    tokens_per_minute: int = Field(default=0, description="0 for no limit.")
    input_price: float | None = Field(default=None, description="US dollars per million tokens.")
    output_price: float | None = Field(default=None, description="US dollars per million tokens.")
    deadline_seconds: float = 120.0
    extra: dict[str, Any] = Field(default_factory=dict, description="Other request fields, such as reasoning_effort.")

    def spec(self) -> BackendSpec:
        """The backend without its key. Raises BackendMisconfigured for an unsaved block or a value out of range."""
        name = self._block_document_name
        if not name:
            raise BackendMisconfigured(
                f"The block of model {self.model} has no name, expected a saved one; save it under a name first."
            )
        fields = {field: getattr(self, field) for field in BackendSpec.model_fields if field != "name"}
        try:
            return BackendSpec(name=name, **fields)
        except ValidationError as error:
            first = error.errors()[0]
            if first["type"] == KEY_IN_CLEAR:
                raise BackendMisconfigured(f"Block {name}: {first['msg']}.") from None
            raise BackendMisconfigured(
                f"Block {name}: {'.'.join(map(str, first['loc']))} is {first['input']!r}, which is refused ({first['msg']}); correct the "
                "block."
            ) from None


AnyBackend = BackendSpec | InstanceOf[Backend]
"""What flows take: a spec written out, or a saved block."""


@contextmanager
def specs_of(*given: BackendSpec | Backend | None) -> Iterator[list[BackendSpec]]:
    """The specs of backends, in order and without None; keys of blocks are held inside. Raises BackendMisconfigured."""
    specs, keys = [], {}
    for one in given:
        if isinstance(one, Backend):
            specs.append(one.spec())
            if one.api_key is not None:
                keys[specs[-1].name] = one.api_key
        elif one is not None:
            specs.append(one)
    with held(keys):
        yield specs


@contextmanager
def opened(
    backends: Sequence[BackendSpec | Backend] | None, judge: BackendSpec | Backend | None = None
) -> Iterator[tuple[list[BackendSpec], BackendSpec | None]]:
    """(specs of backends, spec of the judge or None), with the keys of blocks held inside."""
    with specs_of(*(backends or ())) as specs, specs_of(judge) as judges:
        yield specs, (judges[0] if judges else None)
