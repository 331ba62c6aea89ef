"""The Prefect cache key of a stage: its task and the key computed beforehand (known fault P01)."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest


def test_p01_two_tasks_never_share_an_entry_and_a_key_is_demanded() -> None:
    from tasks_lib.store.keys import KeyUnavailable
    from tasks_lib.store.tasks import STORE_KEY

    def key(task: str, **inputs: Any) -> str | None:
        context: Any = SimpleNamespace(task=SimpleNamespace(name=task))
        return STORE_KEY.compute_key(context, inputs, {})

    assert key("a", key="k") == key("a", key="k", job=threading.Lock())
    assert key("a", key="k") != key("b", key="k")
    for missing in ({}, {"key": ""}, {"key": 3}):
        with pytest.raises(KeyUnavailable, match="cache_key_unavailable"):
            key("a", **missing)
