"""Limits of one backend in one process: places in flight and requests a minute. Nothing is retried here."""

from __future__ import annotations

import asyncio
import time
import weakref

from tasks_lib.models.backends import BackendSpec


class Gate:
    """`places`: a semaphore of the backend's concurrency. `wait()` books the next start under requests_per_minute."""

    def __init__(self, concurrency: int, requests_per_minute: int) -> None:
        self.places = asyncio.Semaphore(concurrency)
        self.spacing = 60.0 / requests_per_minute if requests_per_minute else 0.0
        self.next_start = 0.0

    def wait(self) -> float:
        """Seconds to sleep before the next request; starts are spaced evenly."""
        now = time.monotonic()
        start = max(now, self.next_start)
        self.next_start = start + self.spacing
        return start - now


_gates: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, int, int], Gate]] = (
    weakref.WeakKeyDictionary()
)


def gate_of(spec: BackendSpec) -> Gate:
    """The gate that every user of this backend shares in the running event loop."""
    gates = _gates.setdefault(asyncio.get_running_loop(), {})
    name = (spec.name, spec.concurrency, spec.requests_per_minute)
    if name not in gates:
        gates[name] = Gate(spec.concurrency, spec.requests_per_minute)
    return gates[name]
