"""The results page of a run: one self-contained HTML file. A run that fails its checks leaves the last good page in place.

Loads no Prefect: the flow around it is in `report`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from flows import passed, runs
from flows.compare import beside
from flows.verification import verify_run
from flows.wanted import RunSpec, recorded_chains, wanted_tasks
from tasks_lib.evaluation.inputs import load
from tasks_lib.protocol.vocabulary import DataAgent
from tasks_lib.reporting.page import RunTables, write_page
from tasks_lib.reporting.run_tables import EPISODE_COLUMNS, counted
from tasks_lib.scoring.cells import FACTORIAL_ROUTERS
from tasks_lib.scoring.comparison import Comparison
from tasks_lib.scoring.disagreement import disagreement
from tasks_lib.scoring.targets import episodes_of
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.keys import sha256_file
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.schemas import (
    ANALYSES,
    AUDIT,
    CONTRIBUTIONS,
    DISAGREEMENT,
    EPISODES,
    INTERVALS,
    METRICS,
    ROUTING_EVENTS,
    ROUTING_METRICS,
    ROUTING_TABLE,
    ROUTING_TRIALS,
    ROUTING_USAGE,
    Table,
)
from tasks_lib.store.settings import settings

STUDY = (ROUTING_TABLE, ROUTING_USAGE, ROUTING_EVENTS, ROUTING_TRIALS)
"""Tables of the routing study that the page shows where a run has them."""


def failures(record: dict[str, Any], store: ArtifactStore) -> pl.DataFrame:
    """Required contributions by backend, data agent and verdict, over every planner, mode and state."""
    frames = []
    for (backend, _), chain in recorded_chains(record).items():
        for agent, key in chain.contributions.items():
            frame = store.read(CONTRIBUTIONS, key, ("kind",))
            frames.append(frame.with_columns(backend=pl.lit(backend), data_agent=pl.lit(str(agent))))
    together = pl.concat(frames).group_by("backend", "data_agent", "kind").agg(pl.len().alias("n"))
    return together.sort("backend", "data_agent", "kind")


def _read(store: ArtifactStore, table: Table, key: str | None) -> pl.DataFrame:
    """The table, or an empty one of its schema when the run has none."""
    if key is not None:
        return store.read(table, key)
    empty = pl.from_arrow(table.schema.empty_table())
    assert isinstance(empty, pl.DataFrame)
    return empty


def ensure_disagreement(run: RunSpec, record: dict[str, Any]) -> str:
    """Key of the run's verdicts under other rules, of backends whose every router is done; "" when there is no such backend."""
    store = ArtifactStore(settings().resolved_store_url)
    layers: dict[str, list[str]] = {}
    for (backend, _), chain in recorded_chains(record).items():
        layers.setdefault(backend, []).extend(chain.contributions.values())
    whole = {b: keys for b, keys in layers.items() if len(keys) == len(FACTORIAL_ROUTERS) * len(DataAgent)}
    if not whole:
        return ""
    inputs = load(run.release)
    ledger = Ledger(settings().resolved_ledger_url)
    try:
        targets = episodes_of(inputs.contracts[t] for t in wanted_tasks(run))
        return disagreement(store, ledger, whole, targets, inputs.gold_units)
    finally:
        ledger.close()


def tables_of(
    run: RunSpec, record: dict[str, Any], verification: dict[str, Any] | None, comparison: Comparison | None = None
) -> RunTables:
    """What the page is made from."""
    store = ArtifactStore(settings().resolved_store_url)
    manifest = dict(load(run.release).release.manifest)
    manifest.pop("files", None)
    facts = {
        **{k: v for k, v in record.items() if k not in ("cell_keys", "chains", "spec")},
        "release": Path(run.release).name,
        "manifest": manifest,
        "backends": [b.model_dump(mode="json") for b in run.backends],
        "conditions": {
            "judge": run.judge.name,
            "evidence": run.evidence,
            "ask scope": run.ask_scope,
            "planner language": run.planner_language,
        },
    }
    stages, tasks = counted(store.read(EPISODES, key, EPISODE_COLUMNS) for key in record["cell_keys"].values())
    return RunTables(
        record=facts,
        metrics=store.read(METRICS, record["metrics_key"]),
        intervals=store.read(INTERVALS, record["intervals_key"]),
        routing_metrics=_read(store, ROUTING_METRICS, record.get("routing_metrics_key")),
        routing_intervals=_read(store, INTERVALS, record.get("routing_intervals_key")),
        stages=stages,
        tasks=tasks,
        contributions=failures(record, store),
        analyses=_read(store, ANALYSES, record.get("analyses_key")),
        audit=store.read(AUDIT, record["audit_key"]) if "audit_key" in record else None,
        disagreement=store.read(DISAGREEMENT, record["disagreement_key"]) if record.get("disagreement_key") else None,
        verification=verification,
        study={t.name: store.read(t, record[f"{t.name}_key"]) for t in STUDY if f"{t.name}_key" in record},
        baselines=frozenset(b.name for b in run.backends if b.offline),
        comparison=comparison,
    )


async def write_report(run: RunSpec, record: dict[str, Any], against: str = "") -> dict[str, Any]:
    """Verify, judge under other rules, then write the page; returns {report, verification, disagreement_key}.

    `report` is empty when the run may not be published. Gold and leaks are looked at once (`flows.passed`); `dsabench verify` and
    `publish` look again. `against`: run it is set beside; empty means the previous completed one of its
    release, if there is one. Raises RunUnknown or NotComparable for a named one.
    """
    comparison = beside(run, record, against)
    verification = await verify_run(run, record, fresh=False)
    page = runs.run_folder(run.run_id) / "report.html"
    key = ensure_disagreement(run, record) if verification["ok"] else ""
    record = {**record, "disagreement_key": key}
    report = _page(run, record, verification, page, comparison)
    return {"report": report, "verification": verification, "disagreement_key": key}


def _page(
    run: RunSpec, record: dict[str, Any], verification: dict[str, Any], page: Path, comparison: Comparison | None
) -> str:
    """The page as a file: the good one, a draft beside it, or "" where there is nothing to show.

    A good one that shows these very tables stays: what it says was made, and how long that took, is of the run that made them.
    """
    if verification["ok"] and record.get("status") == "completed":
        key = passed.page_key(run, record, verification, comparison)
        kept = passed.passed(key)
        if kept is None or not page.is_file() or kept.get("page") != sha256_file(page):
            write_page(tables_of(run, record, verification, comparison), page)
            passed.keep(key, {"page": sha256_file(page)})
        return str(page)
    if "metrics_key" not in record or not verification["readable"]:
        return ""
    draft = tables_of(run, record, verification, comparison)
    return str(write_page(draft, page.with_name("report-incomplete.html")))
