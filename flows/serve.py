"""Serves the flows: a Prefect server on this machine (unless PREFECT_API_URL names one) and the deployments of
`deployments/deployments.yaml`."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tasks_lib.store.settings import PROJECT_ROOT

DEPLOYMENTS = PROJECT_ROOT / "deployments" / "deployments.yaml"


class ServeError(RuntimeError):
    """The server or a deployment cannot be started."""


def declared(path: Path = DEPLOYMENTS) -> dict[str, dict[str, Any]]:
    """Deployments by name, as data."""
    return dict(yaml.safe_load(path.read_text("utf-8")))


def deployments(entries: Mapping[str, Mapping[str, Any]] | None = None) -> list[Any]:
    """Prefect deployments of the declared entries; a default that its own type refuses is an error here, not at run time."""
    from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
    from prefect.schedules import Cron

    made = []
    for name, entry in (declared() if entries is None else entries).items():
        module, attribute = entry["flow"].split(":")
        flow = getattr(importlib.import_module(module), attribute)
        check_defaults(flow)
        check_parameters(name, flow, entry.get("parameters", {}))
        limit = entry.get("concurrency")
        made.append(
            flow.to_deployment(
                name=name,
                schedule=Cron(entry["cron"], timezone=entry["timezone"], active=entry["active"])
                if "cron" in entry
                else None,
                parameters=entry.get("parameters", {}),
                tags=entry.get("tags", []),
                concurrency_limit=ConcurrencyLimitConfig(
                    limit=limit["limit"], collision_strategy=ConcurrencyLimitStrategy(limit["strategy"])
                )
                if limit
                else None,
            )
        )
    return made


def check_defaults(flow: Any) -> None:
    """Refuse a flow one of whose defaults its own annotation would not accept (known fault P07)."""
    import inspect
    import typing

    from pydantic import TypeAdapter, ValidationError

    hints = typing.get_type_hints(flow.fn, include_extras=True)
    for name, parameter in inspect.signature(flow.fn).parameters.items():
        if parameter.default is inspect.Parameter.empty:
            continue
        try:
            TypeAdapter(hints[name]).validate_python(parameter.default, strict=True)
        except ValidationError as error:
            raise ServeError(
                f"flow {flow.name}: default {parameter.default!r} of parameter {name} does not fit its type "
                f"({error.errors()[0]['msg']}); correct the default or the annotation."
            ) from error


def check_parameters(name: str, flow: Any, given: Mapping[str, Any]) -> None:
    """Refuse a deployment whose own parameters its flow would refuse at run time (known fault P07).

    Parameters the deployment leaves to whoever starts a run are not asked for here.
    """
    import inspect
    import typing

    from pydantic import TypeAdapter, ValidationError

    known = inspect.signature(flow.fn).parameters
    hints = typing.get_type_hints(flow.fn, include_extras=True)
    for parameter, value in given.items():
        if parameter not in known:
            raise ServeError(
                f"deployment {name}: flow {flow.name} has no parameter {parameter}, expected some of {list(known)}."
            )
        try:
            TypeAdapter(hints[parameter]).validate_python(value, strict=True)
        except ValidationError as error:
            raise ServeError(
                f"deployment {name}: parameter {parameter} is {value!r}, which does not fit flow {flow.name} "
                f"({error.errors()[0]['msg']}); correct deployments.yaml."
            ) from error


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def serve(port: int) -> None:
    """Serve until interrupted. The server listens on 127.0.0.1 only."""
    server = None
    url = os.environ.get("PREFECT_API_URL", "")
    if not url:
        url = f"http://127.0.0.1:{port}/api"
        if _answers(url):
            raise ServeError(
                f"something answers on port {port} already, expected a free port; pass --port or set PREFECT_API_URL."
            )
        # Prefect reads this when it is first imported, which making the deployments does.
        os.environ["PREFECT_API_URL"] = url
        made = deployments()  # a wrong entry is told before anything starts
        server = subprocess.Popen(
            [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
        )
    else:
        made = deployments()
    try:
        deadline = time.monotonic() + 120
        while not _answers(url):
            if time.monotonic() > deadline or (server is not None and server.poll() is not None):
                raise ServeError(
                    f"the Prefect server does not answer at {url}; free the port or set PREFECT_API_URL to a running one."
                )
            time.sleep(0.5)
        from prefect import serve as serve_deployments

        from flows.blocks import Backend

        Backend.register_type_and_schema()  # so that the dashboard offers the form before any was saved

        print(f"dashboard: {url.removesuffix('/api')}", file=sys.stderr)
        serve_deployments(*made)
    finally:
        if server is not None:
            server.terminate()
            server.wait(timeout=30)
