"""Publishing a run as a package, and checking one: whether it may leave is decided here, what it holds in `reporting.package`.

A package is written beside its place, scanned, checked and only then moved there; nothing of a refused one stays.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from flows import runs
from flows.folders import drafted
from flows.runtime import say
from flows.verification import verify_run
from flows.wanted import RunSpec
from tasks_lib.evaluation.inputs import load
from tasks_lib.reporting import package_check
from tasks_lib.reporting.package import Publication, write_package
from tasks_lib.reporting.package_intervals import check_intervals
from tasks_lib.reporting.package_scan import leaks_in, secrets_of
from tasks_lib.reporting.package_tables import check_tables
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.schemas import EPISODES, INTERVALS, METRICS, ROUTING_EPISODES, ROUTING_METRICS, TABLES, Table
from tasks_lib.store.settings import PROJECT_ROOT, settings

SETTINGS = ("evidence", "ask_scope", "planner_language", "tasks", "draws", "seed")

EXTRA = (
    "analyses",
    "audit",
    "disagreement",
    "routing_table",
    "routing_probes",
    "routing_usage",
    "routing_events",
    "routing_trials",
)
"""Further tables of a run that are published as they are, where the run has them."""


class PublishRefused(RuntimeError):
    """A run or a place from which no package may be made."""


class CheckFailed(RuntimeError):
    """A package that does not hold what it says."""


def publication(run: RunSpec, record: Mapping[str, Any], verification: Mapping[str, Any]) -> Publication:
    """What the package of a run is written from."""
    store = ArtifactStore(settings().resolved_store_url)

    def held(table: Table, name: str) -> pl.DataFrame | None:
        return store.read(table, record[name]) if name in record else None

    return Publication(
        run=run.run_id,
        manifest=run.manifest,
        ask_scope=str(run.ask_scope),
        settings={k: v for k, v in run.model_dump(mode="json").items() if k in SETTINGS},
        backends=run.backends,
        record=record,
        verification=verification,
        episodes=(store.read(EPISODES, key) for key in record["cell_keys"].values()),
        metrics=store.read(METRICS, record["metrics_key"]),
        intervals=store.read(INTERVALS, record["intervals_key"]),
        routing_episodes=held(ROUTING_EPISODES, "routing_episodes_key"),
        routing_metrics=held(ROUTING_METRICS, "routing_metrics_key"),
        routing_intervals=held(INTERVALS, "routing_intervals_key"),
        extra={name: store.read(TABLES[name], record[f"{name}_key"]) for name in EXTRA if record.get(f"{name}_key")},
    )


async def publish_run(run_id: str, out: Path) -> dict[str, Any]:
    """Write the package of a run at `out`; the fields of `dsabench publish --json`.

    Raises RunUnknown, and PublishRefused for a run that is not complete or fails its checks, a leak, or a place that is taken.
    """
    run, record = runs.load(run_id)
    _check_place(out)
    if record.get("status") == "running":
        raise PublishRefused(
            f"run {run.run_id} is not over, expected a completed run; wait for the command that is at it, or give it again if it was killed."
        )
    if record.get("status") != "completed":
        raise PublishRefused(
            f"run {run.run_id} is {record.get('status')} ({record.get('reason') or 'no reason given'}), expected a completed run; "
            "resume it, or mend what it names."
        )
    say(f"publish {run.run_id}: verifying it")
    verification = await verify_run(run, dict(record))
    if not verification["ok"]:
        raise PublishRefused(f"run {run.run_id} fails its checks: {' '.join(verification['problems'][:3])}")
    inputs = load(run.release)
    with drafted(out) as work:
        say(f"publish {run.run_id}: writing its package")
        manifest = write_package(work, inputs.release, publication(run, record, verification))
        say(f"publish {run.run_id}: scanning {len(manifest['files'])} files")
        places = {str(settings().home.resolve()), str(PROJECT_ROOT), run.release}
        leaks = leaks_in(work, inputs.scanner, secrets_of(os.environ), sorted(places))
        if leaks:
            shown = "; ".join(map(str, leaks[:5]))
            raise PublishRefused(
                f"the package of {run.run_id} would tell what it may not: {shown} ({len(leaks)} in all); nothing was written."
            )
        done = checked(work)
    size = sum(p.stat().st_size for p in out.rglob("*") if p.is_file())
    return {"run": run.run_id, "status": "published", "package": str(out), "bytes": size, "compared": done}


def _check_place(out: Path) -> None:
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / package_check.MANIFEST).exists())):
        raise PublishRefused(f"{out} exists and is no package, expected an empty or new folder; name another.")


def checked(folder: Path) -> dict[str, Any]:
    """Check a package; how many things of which kind were compared. Raises CheckFailed naming the first problems.

    Needs no key, no database, no store and no ledger.
    """
    try:
        done, problems = package_check.check(folder)
    except package_check.Damaged as error:
        raise CheckFailed(str(error)) from error
    for further in (check_intervals, check_tables):
        if not problems:
            again, problems = further(folder)
            done |= again
    if problems:
        raise CheckFailed(
            f"{folder}: {' '.join(problems[:3])}" + (f" ({len(problems)} in all)" if len(problems) > 3 else "")
        )
    return done
