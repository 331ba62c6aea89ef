"""`backends probe`: one tiny request to every backend, before a run is paid for."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import typer

from flows.cli_support import BackendOption, BackendsOption, BadUsage, Json, app, backends_of, finish, guarded

backends = typer.Typer(add_completion=False, no_args_is_help=True, help="Backends: probe.")
app.add_typer(backends, name="backends")


@backends.command("probe")
def probe_command(backend: BackendOption = None, backends_file: BackendsOption = None, json_: Json = False) -> None:
    """Is each backend there, and what does it make of our parameters? Sends one tiny request to each."""

    def work() -> dict[str, Any]:
        specs = backends_of(backend, backends_file)
        if not specs:
            raise BadUsage("no backend was given, expected --backend or --backends FILE; name at least one.")
        from tasks_lib.models.probe import probe

        async def every() -> list[dict[str, Any]]:
            return list(await asyncio.gather(*(probe(spec) for spec in specs)))

        reports = asyncio.run(every())
        good = all(report["reachable"] for report in reports)
        return {"status": "completed" if good else "failed", "backends": reports}

    report = guarded(json_, work)
    finish(json_, report, "\n".join(map(_line, report["backends"])), report["status"] == "completed")


def _line(report: dict[str, Any]) -> str:
    if not report["reachable"]:
        return f"{report['backend']}: not reachable: {report['detail']}"
    asked, taken = report["temperature"], report["effective_temperature"]
    temperature = "provider's default" if taken is None else f"{taken:g}"
    if asked is not None and asked != taken:
        temperature += f" (asked for {asked:g})"
    dropped = f"; dropped {json.dumps(report['dropped'])}" if report["dropped"] else ""
    usage = "known" if report["usage_known"] else "unknown"
    return (
        f"{report['backend']}: reachable at {report['endpoint']}, answered {report['outcome']}; temperature {temperature}{dropped}; "
        f"tool calling {report['tool_calling']}; usage {usage}; cost {report['cost_source']}"
    )
