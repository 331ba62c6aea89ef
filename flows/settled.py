"""A run with nothing left to do: told by its record, without Prefect, then checked and shown like any other.

Keys follow from a run's spec and from code, so that the record of a run that ended well names what the same code wants again. Only where
every one of those artifacts is still there is a run settled; in any doubt it goes through its flows, which find out what is missing.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from flows import counts, passed, runs
from flows.results import write_report
from flows.runtime import say
from flows.wanted import RunSpec, recorded_chains
from tasks_lib.contracts.release import ReleaseDamaged
from tasks_lib.evaluation.inputs import load
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.keys import artifact_key, code_digest, digest, sha256_file
from tasks_lib.store.schemas import EPISODES, METRICS, ROUTE_TURNS, Table
from tasks_lib.store.settings import settings

Reporting = Callable[[], Awaitable[dict[str, Any]]]


async def concluded(run: RunSpec, key: str, record: dict[str, Any], started: float, reporting: Reporting) -> None:
    """The end of a run whose tables are there: verification and page by `reporting`, and the record that tells of both.

    `key`: `settled_key` of the run, taken before anything was made. `started`: when the run began, as `time.monotonic` tells it.
    """
    record["seconds"] = round(time.monotonic() - started, 1)
    runs.save(run.run_id, record)
    say("report: verification and results page")
    with runs.marked(record):
        made = await reporting()
    if not made["verification"]["ok"]:
        problems = " ".join(made["verification"]["problems"][:5])
        record |= {"status": "incomplete" if record["status"] == "incomplete" else "failed"}
        record["reason"] = " ".join(x for x in (record["reason"], problems) if x)
    record["disagreement_key"] = made["disagreement_key"]
    record |= {"report": made["report"], "seconds": round(time.monotonic() - started, 1), "release": run.release}
    runs.save(run.run_id, record)
    if record["status"] == "completed":
        passed.keep(key, _told(run.run_id, runs.load(run.run_id)[1]))


def settled(run: RunSpec) -> dict[str, Any] | None:
    """The record of a run that ended well with this code and of which nothing was lost since; None for any other."""
    try:
        spec, record = runs.load(run.run_id)
        load(run.release)
    except (runs.RunUnknown, ReleaseDamaged):
        return None
    if spec != run or record.get("status") != "completed":
        return None
    if passed.passed(settled_key(run)) != _told(run.run_id, record):
        return None
    store = ArtifactStore(settings().resolved_store_url)
    there = all(store.ok(table, key) for table, key in _artifacts(record))
    return record if there and counts.whole(run.run_id, record) else None


def conclude(run: RunSpec) -> dict[str, Any] | None:
    """Verify a settled run and write its page where that has changed; its record, or None where the run is not settled.

    Raises RunBusy, and what a report raises.
    """
    started = time.monotonic()
    with runs.alone(run.run_id):
        record = settled(run)
        if record is None:
            return None
        named = passed.layers(recorded_chains(record), record["routing_routes"])
        layers = {key for _, key in named.values()}  # the study's routes are those of the chains too
        say(f"plan of {run.run_id}: nothing to run, {len(layers)} layers and {record['cells']} cells are done")
        record |= {"invocation": f"{run.run_id}:{uuid.uuid4().hex[:8]}", "cells_started": 0}
        record |= {"model_calls_made": 0, "sql_executions_made": 0}

        async def reporting() -> dict[str, Any]:
            return await write_report(*runs.load(run.run_id))

        asyncio.run(concluded(run, settled_key(run), record, started, reporting))
    return record


def settled_key(run: RunSpec) -> str:
    """Of a run that has nothing left to do with the code of today."""
    # The place of the store and of the ledger decides no number, but what a record names lies there.
    where = {"store": settings().resolved_store_url, "ledger": settings().resolved_ledger_url}
    return artifact_key(
        "settled@1",
        {"release": run.manifest},
        {"run": run.model_dump(mode="json"), **where, "code": code_digest(*passed.CODE)},
    )


def _told(run_id: str, record: Mapping[str, Any]) -> dict[str, str]:
    """Digests of all that a record says of its tables, and of the fields of its keys."""
    keys = runs.run_folder(run_id) / "keys.json"
    tables = {name: value for name, value in record.items() if name not in passed.OF_ONE_START}
    return {"record": digest(tables), "keys": sha256_file(keys) if keys.is_file() else ""}


def _artifacts(record: Mapping[str, Any]) -> list[tuple[Table, str]]:
    """Every artifact that the flows of a run look for."""
    turns = [key for pair in record["turns"].values() for key in pair.values()] + [*record["routing_turns"].values()]
    cells = [(table, key) for key in record["cell_keys"].values() for table in (EPISODES, METRICS)]
    layers = passed.layers(recorded_chains(record), record["routing_routes"])
    return [*passed.tables(record).values(), *layers.values(), *((ROUTE_TURNS, key) for key in turns), *cells]
