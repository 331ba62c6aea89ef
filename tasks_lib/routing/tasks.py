"""Routing stages as Prefect tasks."""

from __future__ import annotations

from tasks_lib.store.tasks import stage_task

routes = stage_task("routes")
route_turns = stage_task("route turns")
asks = stage_task("asks")
clarified_routes = stage_task("clarified routes")
