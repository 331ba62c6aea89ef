"""The catalog of a release: its RouteDB tables are checked, and what retrieval finds in it is measured (report only)."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from prefect import flow
from prefect.artifacts import create_table_artifact
from pydantic import Field

from flows.releases import release_folder
from tasks_lib.evaluation import tasks as evaluation_tasks
from tasks_lib.evaluation.inputs import load
from tasks_lib.reporting.retrieval_page import write_retrieval_page
from tasks_lib.store.artifacts import ArtifactStore, write_file
from tasks_lib.store.jobs import Job
from tasks_lib.store.keys import artifact_key, code_digest
from tasks_lib.store.schemas import AUDIT
from tasks_lib.store.settings import settings
from tasks_lib.store.tasks import ensure

CATALOG_CODE = (
    "tasks_lib/routeenv",
    "tasks_lib/models/embeddings.py",
    "tasks_lib/evaluation/retrieval_audit.py",
    "tasks_lib/evaluation/retrieval_baselines.py",
    "tasks_lib/evaluation/layer.py",
)


async def run_catalog(folder: Path) -> dict[str, Any]:
    """Retrieval audit of a release; the fields of `dsabench audit --json` and the key of its table."""
    where = settings()
    manifest = load(str(folder)).release.digest
    key = artifact_key(AUDIT.stage, {"release": manifest}, {"code": code_digest(*CATALOG_CODE)})
    job = Job(
        "tasks_lib.evaluation.layer:audit_rows",
        AUDIT.name,
        key,
        where.resolved_store_url,
        where.resolved_ledger_url,
        f"catalog:{uuid.uuid4().hex[:8]}",
        {"folder": str(folder)},
        {"release": manifest},
    )
    await ensure(evaluation_tasks.audit, job, "retrieval audit", here=False)
    table = ArtifactStore(where.resolved_store_url).read(AUDIT, key)
    facts = {
        "Release": str(manifest),
        "Databases": str(len(load(str(folder)).handles)),
        "Card tokens that MiniLM does not read": str(summary(table)["truncated_tokens"]),
    }
    out = where.home.resolve() / "audits" / key[:12]
    page = write_retrieval_page(table, facts, out / "retrieval.html")
    write_file(AUDIT, out / "audit.parquet", table)
    return {
        "release": str(folder),
        "manifest": str(manifest),
        "audit_key": key,
        "page": str(page),
        **summary(table),
    }


def summary(table: pl.DataFrame) -> dict[str, Any]:
    """What `dsabench audit --json` prints of an audit table.

    `units`: {scope: {recall_at_50, recall_at_10, mrr, n}}, the pool's recall and the reranked list's, over every question searched
    for; `by_source`: the same over source units, and over texts without usable gold; `dev`: over dev units; `truncated_tokens`: of
    the cards, 0 in every release;
    `tasks`: {target_recall, all_target_coverage: {stage: {k: fraction}}, n}; the same by corpus, and tasks by behavior, by number
    of required databases and by number of candidates.
    """
    stages = {"recall_at_50": "candidate", "recall_at_10": "reranked", "mrr": "reranked"}

    def units(scope: str, cut: str) -> dict[str, dict[str, Any]]:
        part = table.filter((pl.col("scope") == scope) & (pl.col("slice") == cut)).sort("value_of", "metric")
        found: dict[str, dict[str, Any]] = {}
        for row in part.iter_rows(named=True):
            if stages.get(row["metric"]) == row["stage"]:
                found.setdefault(row["value_of"], {})[row["metric"]] = row["value"]
                found[row["value_of"]]["n"] = row["n"]
        return found

    def tasks(cut: str) -> dict[str, dict[str, Any]]:
        part = table.filter((pl.col("scope") == "task") & (pl.col("slice") == cut))
        found: dict[str, dict[str, Any]] = {}
        for row in part.sort("value_of", "stage", "metric").iter_rows(named=True):
            metric, k = row["metric"].rsplit("_at_", 1)
            group = found.setdefault(row["value_of"], {})
            group.setdefault(metric, {}).setdefault(row["stage"], {})[k] = row["value"]
            group["n"] = row["n"]
        return found

    scopes = ("own_corpus", "whole_registry")
    truncated = table.filter(pl.col("metric") == "truncated_tokens")["value"].to_list()
    return {
        "units": {scope: units(scope, "all").get("all", {}) for scope in scopes},
        "tasks": tasks("all").get("all", {}),
        "by_source": {scope: units(scope, "source") for scope in scopes},
        "by_corpus": {"units": {scope: units(scope, "corpus") for scope in scopes}, "tasks": tasks("corpus")},
        "dev": {scope: units(scope, "split").get("dev", {}) for scope in scopes},
        "by_behavior": tasks("behavior"),
        "by_required": tasks("size"),
        "by_candidates": tasks("candidates"),
        "truncated_tokens": int(truncated[0]) if truncated else None,
    }


@flow(name="catalog", flow_run_name="catalog")
async def catalog(release: Annotated[str, Field(strict=True)] = "") -> dict[str, Any]:
    """Audit retrieval over a release's catalog.

    Args:
        release: Folder of a release; empty means the embedded one.
    """
    folder = await release_folder(release)
    report = await run_catalog(folder)
    rows = [
        {"metric": metric, "stage": stage, "k": k, "percent": f"{100 * value:.2f}"}
        for metric in ("target_recall", "all_target_coverage")
        for stage, at in report["tasks"].get(metric, {}).items()
        for k, value in at.items()
    ]
    await create_table_artifact(rows, key="retrieval-audit", description="Retrieval over the formal tasks")  # type: ignore[misc]
    return report
