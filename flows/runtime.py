"""What every entry point sets up before Prefect is imported: environment, folders, the embedded server's settings.

Nothing here decides a number.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks_lib.store.settings import settings

# Measured on 2 cores with SQLite behind the embedded server: without these, 288 subflows take 150 s instead of 47 s.
SERVER = {
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE": "500",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "200",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "600",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
}


def prepare(served: bool = False) -> None:
    """Set the environment of this process and its children; values the user has set stay.

    Automations (triggers) are switched off for one-shot runs only: a served instance keeps them.
    """
    defaults = {
        **SERVER,
        "PREFECT_HOME": str(settings().home.resolve() / "prefect"),
        "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
        "PREFECT_CLI_PROMPT": "false",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "TOKENIZERS_PARALLELISM": "false",
    }
    if "XDG_RUNTIME_DIR" not in os.environ and hasattr(os, "getuid"):
        # The place that platformdirs would take anyway, but it warns of it in every process.
        runtime = Path(tempfile.gettempdir()) / f"runtime-{os.getuid()}"
        runtime.mkdir(mode=0o700, exist_ok=True)
        defaults["XDG_RUNTIME_DIR"] = str(runtime)
    if not served:
        defaults["PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED"] = "false"
        # 288 subflows sending their log lines to the one server that records them: a fifth of their time.
        defaults["PREFECT_LOGGING_TO_API_ENABLED"] = "false"
        # A server that is stopped in the middle of a write says so with a traceback; what fails for a run is told by the run.
        defaults["PREFECT_SERVER_LOGGING_LEVEL"] = "CRITICAL"
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
    Path(os.environ["PREFECT_HOME"]).mkdir(parents=True, exist_ok=True)


def say(text: str) -> None:
    """One line of progress on stderr, with the time of day."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Atomic: a reader sees the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".tmp-{uuid.uuid4().hex}")
    temporary.write_text(json.dumps(value, indent=1, sort_keys=True), "utf-8")
    os.replace(temporary, path)
