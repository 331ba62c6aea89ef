"""A flow run whose process was killed is marked at the next start; one whose process lives is left alone (known fault P05)."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from prefect import flow, get_client
from prefect.client.schemas.objects import StateType
from prefect.states import Running

from flows.liveness import PREFIX, reconcile
from tasks_lib.store.ledgers import this_owner


@flow(name="left-running")
async def left_running() -> None:
    """Never called: only its runs are made."""


def test_a_run_of_a_dead_process_is_crashed_at_the_next_start() -> None:
    code = "from tasks_lib.store.ledgers import this_owner; print(this_owner())"
    dead = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()

    async def states() -> list[StateType | None]:
        async with get_client() as client:
            made = [
                await client.create_flow_run(left_running, tags=[PREFIX + owner], state=Running())
                for owner in (dead, this_owner())
            ]
            assert await reconcile() == 1
            return [(await client.read_flow_run(run.id)).state_type for run in made]

    assert asyncio.run(states()) == [StateType.CRASHED, StateType.RUNNING]
