"""Prefect's side of the store: a cache policy over keys computed beforehand (DESIGN, Prefect caching).

The key is an argument of the task, built in plain code before the call, since Prefect swallows an exception in
`compute_key` and runs uncached. `refresh` is passed from `store.ok`, so that a deleted artifact is never served from cache.
"""

from __future__ import annotations

from typing import Any

from prefect.cache_policies import CachePolicy
from prefect.context import TaskRunContext

from tasks_lib.store.keys import KeyUnavailable


class StoreKey(CachePolicy):
    """Cache key = task name + the `key` argument, so that two tasks never share an entry (known fault P01)."""

    def compute_key(
        self, task_ctx: TaskRunContext, inputs: dict[str, Any], flow_parameters: dict[str, Any], **kwargs: Any
    ) -> str | None:
        key = inputs.get("key")
        if not isinstance(key, str) or not key:
            raise KeyUnavailable(f"cache_key_unavailable: task {task_ctx.task.name} was called without a text `key`.")
        return f"{task_ctx.task.name}:{key}"


STORE_KEY = StoreKey()
