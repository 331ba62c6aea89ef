"""A route once more from its stored calls: how transcripts are derived without paying, asking or deciding anything again.

Needs the ledger that holds the calls (an imported one will do), no endpoint and no key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.chat import ChatReply, ChatRequest
from tasks_lib.models.transcripts import reply_of
from tasks_lib.protocol.records import CallContext, PublicTask
from tasks_lib.protocol.vocabulary import Router
from tasks_lib.routeenv.search import Catalog
from tasks_lib.routing.routers import Clarification, route
from tasks_lib.routing.rows import route_row
from tasks_lib.routing.turns import Turn
from tasks_lib.store.ledgers import Ledger


class ReplayFailed(RuntimeError):
    """The stored calls do not give the stored route: a ledger without them, or code that reads replies otherwise."""


class Replayed:
    """A `ChatModel` that gives the stored replies of `calls`, in order, whatever it is asked."""

    def __init__(self, spec: BackendSpec, ledger: Ledger, calls: Sequence[str]) -> None:
        self._spec = spec
        self._calls = calls
        self._entries = ledger.get_many(calls)
        self._given = 0

    @property
    def spec(self) -> BackendSpec:
        return self._spec

    async def chat(self, request: ChatRequest, context: CallContext) -> ChatReply:
        """The next stored reply. Raises ReplayFailed when there is none."""
        key = self._calls[self._given] if self._given < len(self._calls) else ""
        if key not in self._entries:
            raise ReplayFailed(
                f"replay of {self._spec.name}: call {self._given + 1} of {len(self._calls)} is not in the ledger, expected every "
                "call of the route; import the ledger that made the routes."
            )
        self._given += 1
        return reply_of(self._entries[key])


async def transcript(
    row: Mapping[str, Any],
    spec: BackendSpec,
    task: PublicTask,
    catalog: Catalog,
    ledger: Ledger,
    clarification: Clarification | None = None,
) -> tuple[Turn, ...]:
    """The turns of a row of `routes`. `clarification`: what a clarified one was made with.

    Raises ReplayFailed when replaying gives another route.
    """
    model = Replayed(spec, ledger, row["calls"])
    outcome = await route(Router(row["router"]), task, catalog, model, row["trial"], clarification)
    again = route_row(row["backend"], row["router"], row["task_id"], row["branch_id"], row["trial"], outcome)
    odd = [name for name, value in again.items() if row[name] != value]
    if odd:
        raise ReplayFailed(
            f"replay of {row['backend']} {row['router']} {row['task_id']} {row['branch_id']}: {odd} differ from the stored route, expected the same "
            "route; make the routes again with this code."
        )
    return outcome.transcript
