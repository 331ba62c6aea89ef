"""One unit of layer work: a function named by its place, plain arguments, and the artifact it makes.

Jobs cross process borders, so they carry keys, paths and specs, never payloads (known fault P08). No Prefect here.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.schemas import TABLES


@dataclass(frozen=True)
class Job:
    """`function`: `module:name` of an async function `(context, **arguments) -> rows`. `invocation`: who pays for new items."""

    function: str
    table: str
    key: str
    store_url: str
    ledger_url: str
    invocation: str
    arguments: Mapping[str, Any]
    inputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class JobContext:
    """What a job's function works with."""

    store: ArtifactStore
    ledger: Ledger


async def perform(job: Job) -> bool:
    """Make the artifact unless it is done; True when it was made now."""
    store = ArtifactStore(job.store_url)
    table = TABLES[job.table]
    if store.ok(table, job.key):
        return False
    module, name = job.function.split(":")
    function: Callable[..., Awaitable[Sequence[Mapping[str, Any]]]] = getattr(importlib.import_module(module), name)
    ledger = Ledger(job.ledger_url, run=job.invocation)
    try:
        rows = await function(JobContext(store, ledger), **job.arguments)
        store.write(table, job.key, rows, inputs=job.inputs)
    finally:
        ledger.close()
    return True


def perform_blocking(job: Job) -> bool:
    """`perform` for worker processes."""
    return asyncio.run(perform(job))
