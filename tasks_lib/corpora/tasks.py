"""Corpora stages as Prefect tasks."""

from __future__ import annotations

from tasks_lib.store.tasks import stage_task

units = stage_task("units")
