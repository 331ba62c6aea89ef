"""Limits of one backend in one process: places in flight, requests and tokens a minute. Nothing is retried here."""

from __future__ import annotations

import asyncio
import time
import weakref

from tasks_lib.models.backends import BackendSpec


class Gate:
    """`places`: a semaphore of the backend's concurrency. `wait()` books the next start under both rates, 0 for no limit."""

    def __init__(self, concurrency: int, requests_per_minute: int, tokens_per_minute: int = 0) -> None:
        self.places = asyncio.Semaphore(concurrency)
        self.spacing = 60.0 / requests_per_minute if requests_per_minute else 0.0
        self.seconds_a_token = 60.0 / tokens_per_minute if tokens_per_minute else 0.0
        self.next_start = 0.0
        self.tokens_paid = 0.0

    def wait(self, tokens: int = 0) -> float:
        """Seconds to sleep before the next request of about so many tokens; starts are spaced evenly."""
        now = time.monotonic()
        start = max(now, self.next_start, self.tokens_paid)
        self.next_start = start + self.spacing
        self.tokens_paid = start + tokens * self.seconds_a_token
        return start - now

    def correct(self, tokens: int) -> None:
        """A request took so many tokens more (or, negative, less) than `wait` was told."""
        self.tokens_paid += tokens * self.seconds_a_token


_gates: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, int, int, int], Gate]] = (
    weakref.WeakKeyDictionary()
)


def gate_of(spec: BackendSpec) -> Gate:
    """The gate that every user of this backend shares in the running event loop."""
    gates = _gates.setdefault(asyncio.get_running_loop(), {})
    name = (spec.name, spec.concurrency, spec.requests_per_minute, spec.tokens_per_minute)
    if name not in gates:
        gates[name] = Gate(spec.concurrency, spec.requests_per_minute, spec.tokens_per_minute)
    return gates[name]
