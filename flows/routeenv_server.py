"""Puts RouteEnv's server together: a release's public folder, and the rules a route must keep (PROTOCOL 7)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from flows.releases import release_folder
from tasks_lib.protocol.records import PublicTask
from tasks_lib.routeenv.search import Catalog
from tasks_lib.routeenv.server import Host, RouteEnvServer
from tasks_lib.routing.layer import public_tasks
from tasks_lib.routing.plan import PLAN_SCHEMA, Invalid, validate


def judge(plan: object, task: PublicTask, evidence: Mapping[str, str]) -> str:
    """Why a plan is not accepted, or ""."""
    found = validate(plan, task.allowlist, evidence)
    return found.reason if isinstance(found, Invalid) else ""


def open_server(release: str, out: Path, port: int) -> RouteEnvServer:
    """A server that listens already. `release`: folder, "" for the embedded one. Raises ValueError or OSError."""
    public = asyncio.run(release_folder(release)) / "public"
    catalog = Catalog.load(public / "catalog")
    return RouteEnvServer(Host(catalog, public_tasks(str(public)), judge, out, PLAN_SCHEMA), port)
