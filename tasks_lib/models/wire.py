"""Requests counted as they leave: the HTTP session that calls go through, and the count of what one call has sent.

A call may be given up before anything was sent for it (a busy machine, an endpoint that cannot be reached), and cancelled
after; only the transport knows. Nothing here decides whether a request is sent, or what a reply means.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from aiohttp import ClientSession


@dataclass
class Sent:
    """`requests`: HTTP requests that have left."""

    requests: int = 0


_sent: ContextVar[Sent | None] = ContextVar("sent", default=None)


@contextmanager
def counting() -> Iterator[Sent]:
    """Requests sent inside, those of tasks started inside included; the count around goes on where there is one."""
    around = _sent.get()
    if around is not None:
        yield around
        return
    token = _sent.set(sent := Sent())
    try:
        yield sent
    finally:
        _sent.reset(token)


async def _leaves(_session: Any, request: SimpleNamespace, _chunk: Any) -> None:
    """A body goes out with its headers, possibly in several chunks: the first one counts."""
    sent = _sent.get()
    if sent is not None and not hasattr(request, "left"):
        request.left = True
        sent.requests += 1


async def _open() -> AsyncGenerator[ClientSession]:
    """The one session; closed when the event loop shuts its generators down, which is the last thing `asyncio.run` does."""
    import aiohttp

    trace = aiohttp.TraceConfig()
    trace.on_request_chunk_sent.append(_leaves)
    # Places are the gate's business, cookies nobody's.
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar(), trace_configs=[trace]
    ) as session:
        yield session


_sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[AsyncGenerator[ClientSession], ClientSession]] = (
    WeakKeyDictionary()
)


async def session() -> ClientSession:
    """The session of the running event loop: every request through it is counted by the `counting` around."""
    loop = asyncio.get_running_loop()
    if loop not in _sessions:
        opened = _open()
        _sessions[loop] = (opened, await anext(opened))
        for old in [other for other in _sessions if other.is_closed()]:
            del _sessions[old]
    return _sessions[loop][1]
