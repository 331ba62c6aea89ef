"""What a ledger's database says when it fails, as one sentence; and which of it may pass by itself.

Does not belong here: what a ledger holds and how (`ledgers`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import sqlalchemy as sa

PATIENCE_SECONDS = 60.0
"""How long an item waits for a server that does not answer: long enough for one that restarts."""
CONNECT_SECONDS = 10
_PAUSE = 0.5
T = TypeVar("T")


class LedgerUnusable(RuntimeError):
    """The ledger's database is damaged, missing rights, or no ledger."""


class LedgerUnreachable(LedgerUnusable):
    """The server of a shared ledger does not answer; it may come back."""


def tell_of_faults(engine: sa.Engine) -> None:
    """Have failures of the database (not of a statement) raised by `engine` from now on as LedgerUnusable, without a password."""
    shared = engine.dialect.name != "sqlite"

    @sa.event.listens_for(engine, "handle_error")
    def _say(context: sa.ExceptionContext) -> None:
        error = context.sqlalchemy_exception
        operational = isinstance(error, (sa.exc.OperationalError, sa.exc.InterfaceError))
        if context.is_pre_ping or not (operational or type(error) is sa.exc.DatabaseError):
            return
        said = " ".join(str(context.original_exception).split())
        if shared and operational:
            raise LedgerUnreachable(
                f"the ledger {engine.url!r} does not answer ({said}), expected its server; start it and run the same command again."
            ) from context.original_exception
        raise LedgerUnusable(
            f"the ledger {engine.url!r} cannot be used ({said}), expected a database that can be read and written; mend that and run "
            "the same command again."
        ) from context.original_exception


async def patiently(step: Callable[[], T]) -> T:
    """What `step` gives, tried again for a minute while the server of a shared ledger does not answer. Raises what it raises last."""
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE_SECONDS
    while True:
        try:
            return step()
        except LedgerUnreachable:
            if loop.time() >= end:
                raise
        await asyncio.sleep(_PAUSE)
