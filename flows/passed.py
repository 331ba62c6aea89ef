"""Checks that a home has already passed and pages it has written, by everything that decides them, so that the same is not done every
night.

Only what passed is kept, as one JSON file a check below the home folder; a lost or damaged file means the check is made again. An
artifact counts by its bytes and not by its key alone: made anew when its calls are lost, it may say other things under the same key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flows import BEGUN
from flows.runtime import write_json
from flows.wanted import ChainKeys, RunSpec, recorded_chains
from tasks_lib.protocol.vocabulary import Router
from tasks_lib.scoring.comparison import Comparison
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.keys import artifact_key, code_changed, code_digest, sha256_file, sha256_text
from tasks_lib.store.schemas import ASKS, CONTRIBUTIONS, EPISODES, INTERVALS, PLANS, RELEASES, ROUTES, TABLES, Table
from tasks_lib.store.settings import PROJECT_ROOT, settings

Chains = Mapping[tuple[str, Router], ChainKeys]
LAYERS = {"routes": ROUTES, "clarified": ROUTES, "asks": ASKS, "releases": RELEASES, "plans": PLANS}
"""Tables of a chain's layers by name, without its contributions."""

CODE = ("flows", "tasks_lib")
"""All there is."""
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

PAGE_CODE = ("flows/passed.py", "flows/results.py", "flows/compare.py", "tasks_lib/reporting", "tasks_lib/scoring")
TEMPLATES = PROJECT_ROOT / "tasks_lib/reporting/templates"
OF_ONE_START = (
    "seconds",
    "invocation",
    "cells_started",
    "model_calls_made",
    "sql_executions_made",
    "report",
    "release",
)
"""Fields of a record that tell of its last start alone, or come last into it: the tables of a run are the same whatever they say. The
release is in its spec too."""


def gold_key(run: RunSpec) -> str:
    """Of the gold certificate and the diagnostics: they look at the release and the code alone."""
    chosen = {"code": code_digest(*GOLD_CODE), "tasks": run.tasks, "ask_scope": run.ask_scope}
    return artifact_key("gold_check@1", {"release": run.manifest}, chosen)


def contents(named: Mapping[str, tuple[Table, str]]) -> dict[str, str]:
    """sha256 of artifacts' files by name, as recorded; "" for one that is not there."""
    store = ArtifactStore(settings().resolved_store_url)
    records = {name: store.record(table, key) for name, (table, key) in named.items()}
    return {name: record.sha256 if record else "" for name, record in records.items()}


def tables(record: Mapping[str, Any]) -> dict[str, tuple[Table, str]]:
    """Tables that the record of a run names, by the field that names them."""
    fields = {f"{name}_key": table for name, table in (*TABLES.items(), ("routing_intervals", INTERVALS))}
    return {field: (table, record[field]) for field, table in fields.items() if record.get(field)}


def layers(chains: Chains, study: Mapping[str, str] | None = None) -> dict[str, tuple[Table, str]]:
    """Every layer of the chains and the routes of a routing study (`routing_routes` of a record), by a name of its own."""
    return {name: (table, key) for name, table, key in _layers(chains, study or {})}


def _layers(chains: Chains, study: Mapping[str, str]) -> Iterator[tuple[str, Table, str]]:
    yield from ((f"study {name}", ROUTES, key) for name, key in study.items())
    for (backend, router), chain in chains.items():
        yield from ((f"{backend} {router} {name}", LAYERS[name], key) for name, key in chain.inputs().items())
        yield from ((f"{backend} {router} {agent}", CONTRIBUTIONS, key) for agent, key in chain.contributions.items())


def scan_key(run: RunSpec, record: Mapping[str, Any], chains: Chains) -> str:
    """Of the leak scan: it looks at the calls of the run's layers and of its routing study."""
    of = contents(layers(chains, record.get("routing_routes")))
    return artifact_key("leak_scan@1", {"release": run.manifest, **of}, {"code": code_digest(*SCAN_CODE, *PROMPTS)})


def page_key(
    run: RunSpec, record: Mapping[str, Any], verification: Mapping[str, Any], comparison: Comparison | None
) -> str:
    """Of the results page: it shows what the record names and tells, its verification, and the run beside it, in its templates."""
    named = tables(record)
    named |= {name: (EPISODES, key) for name, key in record.get("cell_keys", {}).items()}
    named |= layers(recorded_chains(record))
    # Styles and scripts are no code that `code_digest` reads.
    templates = {path.name: sha256_file(path) for path in sorted(TEMPLATES.iterdir()) if path.is_file()}
    shown = {name: value for name, value in record.items() if name not in OF_ONE_START}
    parts = {"record": shown, "verification": dict(verification), "comparison": comparison, "templates": templates}
    return artifact_key(
        "page@2", {"release": run.manifest, **contents(named)}, {**parts, "code": code_digest(*PAGE_CODE)}
    )


def _place(key: str) -> Path:
    return settings().home / "checks" / f"{key}.json"


def passed(key: str) -> dict[str, Any] | None:
    """What was kept of a check that passed, or None."""
    return read_kept(_place(key), key)


def keep(key: str, report: Mapping[str, Any]) -> None:
    """Note that a check passed."""
    write_kept(_place(key), key, report)


def read_kept(path: Path, key: str) -> dict[str, Any] | None:
    """What a file keeps under a key; None where it keeps another one, or is lost, damaged or altered."""
    try:
        held = json.loads(path.read_text("utf-8"))
        whole = held["sha256"] == _sealed(key, held["kept"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return dict(held["kept"]) if whole else None


def write_kept(path: Path, key: str, value: Mapping[str, Any]) -> None:
    """Keep a value, plain JSON, under a key; nothing where code was written since this process began, which the key may name."""
    if code_changed(BEGUN, *CODE):
        return
    write_json(path, {"key": key, "kept": value, "sha256": _sealed(key, value)})


def _sealed(key: str, value: object) -> str:
    return sha256_text(json.dumps([key, value], sort_keys=True))
