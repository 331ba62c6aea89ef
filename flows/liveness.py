"""Which process a flow run lives in, and what became of runs whose process was killed.

A killed flow run stays Running, or Pending, in Prefect's database. Every parent flow tags itself and its subflows with its process, and
at its start marks the runs of dead processes of this machine as Crashed; expired leases of the ledger are freed too (known fault P05).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prefect import get_client, tags
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType
from prefect.client.schemas.objects import StateType
from prefect.context import FlowRunContext
from prefect.states import Crashed

from tasks_lib.store.ledgers import Ledger, owner_is_dead, this_owner
from tasks_lib.store.settings import settings

PREFIX = "process:"
PAGE = 200
UNDER_WAY = [StateType.PENDING, StateType.RUNNING]


async def reconcile() -> int:
    """Mark flow runs of dead processes that are under way as Crashed and free dead leases; returns the number of runs marked."""
    ledger = Ledger(settings().resolved_ledger_url)
    try:
        ledger.reconcile()
    finally:
        ledger.close()
    under_way = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=UNDER_WAY)))
    marked = offset = 0
    async with get_client() as client:
        while True:
            page = await client.read_flow_runs(flow_run_filter=under_way, limit=PAGE, offset=offset)
            for run in page:
                owners = [t.removeprefix(PREFIX) for t in run.tags if t.startswith(PREFIX)]
                if owners and owner_is_dead(owners[0]):
                    await client.set_flow_run_state(run.id, Crashed(message="its process is gone"), force=True)
                    marked += 1
                else:
                    offset += 1
            if len(page) < PAGE:
                return marked


@asynccontextmanager
async def alive() -> AsyncIterator[None]:
    """Tag the current flow run and everything started inside with this process, and reconcile before it starts."""
    tag = PREFIX + this_owner()
    context = FlowRunContext.get()
    if context is not None and context.flow_run is not None:
        async with get_client() as client:
            await client.update_flow_run(context.flow_run.id, tags=sorted({*context.flow_run.tags, tag}))
    await reconcile()
    with tags(tag):
        yield
