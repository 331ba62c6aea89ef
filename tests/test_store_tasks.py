"""Stages as Prefect tasks: the cache key (known fault P01), and that Prefect is no second owner of retries (M01)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prefect import flow
from servers import in_turn, model_server, refuses, says

from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.budget import BudgetSpent, limited
from tasks_lib.models.chat import ProviderUnavailable
from tasks_lib.models.transcripts import FAILED, KIND
from tasks_lib.routing.layer import public_tasks
from tasks_lib.store.jobs import Job
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.runners import ATTEMPTS, WorkerLost


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


def test_m01_a_stage_is_run_once_whatever_its_calls_fail_with(embedded: Path, tmp_path: Path) -> None:
    """An endpoint that always fails sees the client's attempts and no more; a spent budget is not tried again either."""
    from tasks_lib.routing.tasks import routes
    from tasks_lib.store.tasks import ensure

    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    tasks = sorted(public_tasks(f"{embedded}/public"))[:3]
    runs: list[int] = []

    def job(spec: BackendSpec) -> Job:
        arguments = {"public": f"{embedded}/public", "backend": spec.model_dump(), "router": "direct"}
        arguments |= {"task_ids": tasks, "trial": 0}
        function = "tasks_lib.routing.layer:initial_routes"
        return Job(function, "routes", f"{len(runs):064}", str(tmp_path / "store"), ledger.url, "here", arguments)

    @flow
    async def stage(spec: BackendSpec) -> None:
        runs.append(1)
        await ensure(routes, job(spec), "routes", True)

    def requests_of(behave: Callable[..., None], calls: int, expected: type[Exception]) -> int:
        with model_server(behave) as server:
            spec = BackendSpec(name="stub", model="hosted_vllm/stub", api_base=server.url, concurrency=1)
            with limited(calls, 0.0), pytest.raises(expected):
                asyncio.run(stage(spec))
            return len(server.requests)

    assert requests_of(refuses(503), 0, ProviderUnavailable) == 3
    assert [meta["attempts"] for meta in ledger.metas(FAILED)] == [3]
    assert requests_of(in_turn(says("no route"), says("one too many")), 1, BudgetSpent) == 1
    assert (len(ledger.metas(FAILED)), ledger.count(KIND)) == (1, 1)
    ledger.close()


def test_a_stage_survives_a_lost_worker_and_a_second_loss_names_it(tmp_path: Path) -> None:
    """The job's process kills itself: once, and the artifact is made by the next one; twice, and the sentence says whose it was."""
    from tasks_lib.store.artifacts import ArtifactStore
    from tasks_lib.store.schemas import RELEASES
    from tasks_lib.store.tasks import close_pool, ensure, stage_task

    # A worker that other tests left may have been killed by them, which would count as a loss of this job.
    close_pool(at_once=True)
    store = ArtifactStore(str(tmp_path / "store"))
    stage = stage_task("releases")

    @flow
    async def losing(deaths: int) -> None:
        folder = tmp_path / f"deaths-{deaths}"
        folder.mkdir()
        arguments = {"folder": str(folder), "deaths": deaths}
        ledger = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
        job = Job("test_store_runners:rows_or_death", "releases", f"{deaths:064}", store.url, ledger, "here", arguments)
        await ensure(stage, job, "releases of somebody", here=False)

    asyncio.run(losing(1))
    assert store.ok(RELEASES, f"{1:064}")
    with pytest.raises(WorkerLost, match=f"releases of somebody: {ATTEMPTS} worker processes ended"):
        asyncio.run(losing(ATTEMPTS))
    assert not store.ok(RELEASES, f"{ATTEMPTS:064}")
