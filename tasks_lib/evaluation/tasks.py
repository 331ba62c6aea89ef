"""Evaluation stages as Prefect tasks."""

from __future__ import annotations

from tasks_lib.store.tasks import stage_task

releases = stage_task("releases")
plans = stage_task("plans")
contributions = stage_task("contributions")
audit = stage_task("retrieval audit")
diagnostics = stage_task("diagnostics")
