"""Checks that a home has already passed and pages it has written, by everything that decides them, so that the same is not done every
night.

Only what passed is kept, as one JSON file a check below the home folder; a lost or damaged file means the check is made again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows.runtime import write_json
from flows.wanted import ChainKeys, RunSpec
from tasks_lib.protocol.vocabulary import Router
from tasks_lib.scoring.comparison import Comparison
from tasks_lib.store.keys import artifact_key, code_digest
from tasks_lib.store.settings import settings

GOLD_CODE = (
    "flows/verification.py",
    "tasks_lib/evaluation",
    "tasks_lib/execution",
    "tasks_lib/scoring",
    "tasks_lib/sql",
)
SCAN_CODE = ("flows/verification.py", "flows/counts.py", "tasks_lib/evaluation", "tasks_lib/scoring/layers.py")
# The scan knows the words of our own prompts.
PROMPTS = ("tasks_lib/contracts", "tasks_lib/execution", "tasks_lib/routing", "tasks_lib/catalog", "tasks_lib/models")

PAGE_CODE = ("flows/passed.py", "flows/report.py", "flows/compare.py", "tasks_lib/reporting", "tasks_lib/scoring")
OF_ONE_START = ("seconds", "invocation", "cells_started", "model_calls_made", "sql_executions_made", "report")
"""Fields of a record that tell of its last start alone: the tables of a run are the same whatever they say."""


def gold_key(run: RunSpec) -> str:
    """Of the gold certificate and the diagnostics: they look at the release and the code alone."""
    chosen = {"code": code_digest(*GOLD_CODE), "tasks": run.tasks, "ask_scope": run.ask_scope}
    return artifact_key("gold_check@1", {"release": run.manifest}, chosen)


def scan_key(run: RunSpec, record: Mapping[str, Any], chains: Mapping[tuple[str, Router], ChainKeys]) -> str:
    """Of the leak scan: it looks at the calls of the run's layers and of its routing study."""
    layers = {f"study {name}": key for name, key in record.get("routing_routes", {}).items()}
    for (backend, router), chain in chains.items():
        layers |= {f"{backend} {router} {name}": key for name, key in chain.inputs().items()}
        layers |= {f"{backend} {router} {agent}": key for agent, key in chain.contributions.items()}
    return artifact_key("leak_scan@1", {"release": run.manifest, **layers}, {"code": code_digest(*SCAN_CODE, *PROMPTS)})


def page_key(
    run: RunSpec, record: Mapping[str, Any], verification: Mapping[str, Any], comparison: Comparison | None
) -> str:
    """Of the results page: it shows what the record names and tells, its verification, and the run beside it."""
    shown = {name: value for name, value in record.items() if name not in OF_ONE_START}
    parts = {"record": shown, "verification": dict(verification), "comparison": comparison}
    return artifact_key("page@1", {"release": run.manifest}, {**parts, "code": code_digest(*PAGE_CODE)})


def _place(key: str) -> Path:
    return settings().home / "checks" / f"{key}.json"


def passed(key: str) -> dict[str, Any] | None:
    """What was kept of a check that passed, or None."""
    try:
        found = json.loads(_place(key).read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def keep(key: str, report: Mapping[str, Any]) -> None:
    """Note that a check passed."""
    write_json(_place(key), report)
