"""Keys of backends that came from elsewhere than the environment, held in this process only. They are never written anywhere.

Calls to endpoints are made in the main process only (`store.jobs`), so nothing has to carry a key to another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pydantic import SecretStr

_keys: dict[str, SecretStr] = {}


@contextmanager
def held(keys: Mapping[str, SecretStr]) -> Iterator[None]:
    """Keys by backend name, for everything inside."""
    before = dict(_keys)
    _keys.update(keys)
    try:
        yield
    finally:
        _keys.clear()
        _keys.update(before)


def key_of(backend: str) -> str | None:
    """The key held for a backend, None when the environment has it or none is needed."""
    found = _keys.get(backend)
    return found.get_secret_value() if found is not None else None
