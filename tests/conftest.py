"""What tests share: one home folder for the session, the embedded release, one small finished run, the command line, a browser.

The environment is set before any test module imports Prefect, which reads it once. No expectations here.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import pytest

# Not below pytest's own folders, which are closed to the user the embedded PostgreSQL server runs as.
HOME = Path(tempfile.mkdtemp(prefix="dsabench-tests-"))
HOME.chmod(0o755)
os.environ["DSABENCH_HOME"] = str(HOME)
os.environ["PREFECT_HOME"] = str(HOME / "prefect")
os.environ["PREFECT_LOGGING_LEVEL"] = "CRITICAL"

from flows.runtime import prepare  # noqa: E402

prepare()
# Last of all, after the servers that live in the home have stopped by their own finalizers (PostgreSQL's is one of these).
Finalize(None, shutil.rmtree, (HOME, True), exitpriority=-100)

TFIDF = {"name": "offline-tfidf", "model": "offline/tfidf", "temperature": None}
SMALL_TASKS = 10
DSABENCH = Path(sys.executable).with_name("dsabench")


@dataclass(frozen=True)
class Said:
    """What a command left: exit code, stdout, stderr."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The last line of stdout, which must be one JSON object."""
        found = json.loads(self.out.splitlines()[-1])
        assert isinstance(found, dict)
        return found


@pytest.fixture
def dsabench(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Said]:
    """The command line in this process: `dsabench("run", "--json")`."""

    def call(*arguments: str) -> Said:
        from flows.cli import app

        capfd.readouterr()
        monkeypatch.setattr(sys, "argv", ["dsabench", *arguments])
        with pytest.raises(SystemExit) as ended:
            app()
        said = capfd.readouterr()
        return Said(int(ended.value.code or 0), said.out, said.err)

    return call


def dsabench_process(*arguments: str, seconds: float = 240, **environment: str) -> Said:
    """The command line as a user runs it, to its end."""
    done = subprocess.run(
        [str(DSABENCH), *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, **environment},
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)


CHROMIUM = Path("/usr/bin/chromium")
ARGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The system's Chromium, headless and without network of its own."""
    from playwright.sync_api import sync_playwright

    if not CHROMIUM.exists():
        pytest.fail(
            f"{CHROMIUM} is missing, expected the system's Chromium; install it with `apt-get install -y chromium`."
        )
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGS)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def embedded() -> Path:
    """Folder of the embedded release, built once a session."""
    from flows.benchmark import embedded_release

    return asyncio.run(embedded_release())


@dataclass(frozen=True)
class SmallRun:
    """A finished nightly run of one offline backend over a few tasks of the embedded release."""

    release: Path
    record: dict[str, Any]

    @property
    def id(self) -> str:
        return str(self.record["run"])


@pytest.fixture(scope="session")
def small_run(embedded: Path) -> Iterator[SmallRun]:
    """The shared small run; a test that alters its store puts everything back."""
    from flows.nightly import nightly
    from tasks_lib.models.backends import BackendSpec
    from tasks_lib.store.tasks import close_pool

    record = asyncio.run(nightly(str(embedded), [BackendSpec.model_validate(TFIDF)], tasks=SMALL_TASKS))
    yield SmallRun(embedded, dict(record))
    close_pool()
