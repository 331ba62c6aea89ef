"""The audit of the real corpora, cold, with an empty home, and again with everything done.

Run by name, with DSABENCH_DATA set: `pytest -m bench tests/bench/test_bench_audit.py -s`. On a machine that does other
work the processor seconds say more than the clock.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from corpora_support import real

UNITS = 20_766
COLD_SECONDS, DONE_SECONDS = 240, 30


@pytest.mark.bench
@pytest.mark.real
@pytest.mark.timeout(1200)
def test_audit_of_all_corpora() -> None:
    folders = [text for corpus in ("spider", "bird", "livesqlbench") for text in (f"--{corpus}", str(real(corpus)))]
    with tempfile.TemporaryDirectory(prefix="dsa-audit-", dir="/tmp") as home:
        Path(home).chmod(0o755)  # the embedded server runs as another user
        cold, cold_processor, counts = _run(home, folders)
        done, done_processor, again = _run(home, folders)
    print(
        f"\n{counts['units']} units, {counts['usable']} usable: cold {cold:.0f} s ({cold_processor:.0f} s of processors), "
        f"done {done:.0f} s ({done_processor:.0f} s)"
    )
    assert again == counts
    assert counts["units"] == UNITS
    assert cold < COLD_SECONDS
    assert done < DONE_SECONDS


def _run(home: str, folders: list[str]) -> tuple[float, float, dict[str, object]]:
    command = [str(Path(sys.executable).with_name("dsabench")), "units", *folders, "--json"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DSABENCH", "PREFECT"))}
    before, started = _children(), time.perf_counter()
    done = subprocess.run(
        command, capture_output=True, text=True, env={**environment, "DSABENCH_HOME": home}, check=False
    )
    assert done.returncode == 0, done.stderr
    return time.perf_counter() - started, _children() - before, json.loads(done.stdout.splitlines()[-1])


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
