"""Prefect's side of the store: a cache policy over keys computed beforehand, and tasks that make one artifact.

The key is an argument of the task, built in plain code before the call, since Prefect swallows an exception in
`compute_key` and runs uncached. `refresh_cache` is set from `store.ok`, so that a deleted artifact is never served from cache.
Jobs of offline policies run in worker processes; jobs that wait for remote endpoints run here, under the client's limits.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from typing import Any

from prefect import Task, task
from prefect.cache_policies import CachePolicy
from prefect.context import TaskRunContext

from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.jobs import Job, perform, perform_blocking
from tasks_lib.store.keys import KeyUnavailable
from tasks_lib.store.runners import Runner, WorkerLost, open_runner
from tasks_lib.store.schemas import TABLES
from tasks_lib.store.settings import settings


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
_RUNNER: Runner | None = None


def worker_pool() -> Executor:
    """Where jobs of this run that wait for no endpoint run, as DSABENCH_RUNNER says; started on first use."""
    global _RUNNER
    if _RUNNER is None:
        _RUNNER = open_runner(settings().runner)
    return _RUNNER.executor


def close_pool(at_once: bool = False) -> None:
    """Stop the workers, after what they are at or at once."""
    global _RUNNER
    if _RUNNER is not None:
        runner, _RUNNER = _RUNNER, None
        (runner.end if at_once else runner.close)()


def stage_task(name: str) -> Task[..., Any]:
    """A Prefect task that makes one artifact of a stage: arguments `key`, `job`, `here` (run in this process).

    Prefect never retries it, whatever its settings say: the model client owns the retries of a call (known fault M01), and a
    stage that ends without its artifact is resumed by the next run.
    """

    @task(name=name, cache_policy=STORE_KEY, persist_result=True, retries=0)
    async def stage(key: str, job: Job, here: bool) -> str:
        if here:
            await perform(job)
            return key
        try:
            await asyncio.get_running_loop().run_in_executor(worker_pool(), perform_blocking, job)
        except WorkerLost as error:
            raise WorkerLost(f"{_label(name)}: {error}") from error
        return key

    return stage


def _label(stage: str) -> str:
    """What the task run is called in the dashboard: the stage, and whose."""
    context = TaskRunContext.get()
    return context.task_run.name if context is not None else stage


async def ensure(stage: Task[..., Any], job: Job, label: str, here: bool) -> str:
    """Run the stage unless its artifact is done; Prefect shows a cached run then. Returns the artifact key."""
    done = ArtifactStore(job.store_url).ok(TABLES[job.table], job.key)
    run = stage.with_options(refresh_cache=not done, task_run_name=label)
    await run(key=job.key, job=job, here=here)
    return job.key
