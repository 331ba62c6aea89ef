"""How a command is told to stop: Ctrl-C and SIGTERM end it within seconds, in one sentence, and leave no process behind.

What stops it, in this order: Prefect and asyncio, which unwind the flows and mark their runs as Crashed; interrupts of ours, where
busy code kept those two from it; and at last the end of this process and its children without further ado. Runs that could not be
marked are marked by the next start (`liveness`). Does not belong here: what a served flow run does when it is cancelled.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

SIGNALS = (signal.SIGINT, signal.SIGTERM)
INTERRUPTS = (2.0, 3.0)
"""Seconds after the signal at which a main thread that has not come to its end is interrupted."""
END = 5.0
"""Seconds after the signal at which the process ends."""
SENTENCE = "stopped: everything completed is kept, and the same command goes on from there."


class Stopped(BaseException):
    """The command was told to stop, and did. `code`: its exit code, by the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(SENTENCE)
        self.code = 128 + number


class Watch:
    """Hears the signals of a command, whoever handles them, and sees to its end from a thread of its own.

    Python writes the number of every signal to a socket as it comes, even while the main thread is in C code.
    """

    def __init__(self, last: Callable[[], None]) -> None:
        self._heard = 0
        self._last = last
        self._lock, self._unwound = threading.Lock(), threading.Event()
        self._receiver, self._sender = socket.socketpair()
        self._receiver.setblocking(False)
        self._sender.setblocking(False)
        self._before = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._run, daemon=True, name="dsabench-stop").start()

    def heard(self) -> int:
        """The first signal that came, or 0; one whose handler runs is always heard."""
        with self._lock, suppress(BlockingIOError):
            while not self._heard and (told := self._receiver.recv(1)):
                self._heard = told[0] if told[0] in SIGNALS else 0
        return self._heard

    def close(self) -> None:
        """The flows are over: without a signal so is the watch; with one, it sees to the end of the process."""
        signal.set_wakeup_fd(self._before)
        self._unwound.set()
        self._sender.close()

    def _run(self) -> None:
        while not self.heard():
            if self._unwound.is_set():
                self._receiver.close()
                return
            select.select([self._receiver], [], [])
        begun = time.monotonic()
        for at in INTERRUPTS:
            if not self._unwound.wait(max(0.0, begun + at - time.monotonic())):
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        time.sleep(max(0.0, begun + END - time.monotonic()))
        self._last()
        os._exit(128 + self._heard)


@contextmanager
def stoppable(last: Callable[[], None]) -> Iterator[Watch]:
    """Inside, a signal ends what runs, which is then raised as Stopped. For the main thread, outside of any event loop.

    `last` is called, from another thread, when the process does not come to its end by itself.
    """
    watch = Watch(last)
    handler = signal.signal(signal.SIGTERM, signal.default_int_handler)  # where Prefect does not take it, it is Ctrl-C
    try:
        yield watch
    except BaseException as error:
        if number := watch.heard():
            raise Stopped(number) from error
        raise
    finally:
        signal.signal(signal.SIGTERM, handler)
        watch.close()


@contextmanager
def deaf() -> Iterator[None]:
    """Processes started inside never hear Ctrl-C, which a terminal sends to all of them: it is the main process's to handle."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
