"""A command told to stop: waiting or busy, it ends in time, by the code of its signal; what does not end is ended. No Prefect here."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from flows.stopping import SENTENCE
from tasks_lib.store.settings import PROJECT_ROOT

COMMAND = """
import asyncio, sys, threading
from flows import stopping
from flows.stopping import Stopped, stoppable
stopping.INTERRUPTS, stopping.END = (0.2, 0.4), 1.0

def last():
    print("last resort", flush=True)

async def work():
    print("at work", flush=True)
    {work}

try:
    with stoppable(last):
        asyncio.run(work())
except Stopped as stopped:
    print(stopped, flush=True)
    {after}
    sys.exit(stopped.code)
print("done")
"""
WAITS = "await asyncio.Event().wait()"
BUSY = "while True: pass"
HANGS = "threading.Event().wait()"  # after the flow: something that nobody thought of keeps the process


@pytest.mark.parametrize(
    ("number", "work", "after", "expected"),
    [
        (signal.SIGTERM, WAITS, "", SENTENCE),
        (signal.SIGINT, WAITS, "", SENTENCE),
        (signal.SIGINT, BUSY, "", SENTENCE),
        (signal.SIGTERM, WAITS, HANGS, f"{SENTENCE}\nlast resort"),
    ],
)
def test_it_ends_in_time_by_the_code_of_the_signal(
    number: signal.Signals, work: str, after: str, expected: str
) -> None:
    command = [sys.executable, "-c", COMMAND.format(work=work, after=after)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT_ROOT)
    assert process.stdout is not None
    assert process.stdout.readline() == "at work\n"
    process.send_signal(number)
    said, _ = process.communicate(timeout=60)  # nothing else would end the last two
    assert (process.returncode, said.strip()) == (128 + number, expected)


def test_without_a_signal_nothing_changes() -> None:
    command = [sys.executable, "-c", COMMAND.format(work="pass", after="")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT_ROOT, timeout=60, check=True)
    assert done.stdout == "at work\ndone\n"
