"""The commands for publication packages: writing one from a run, checking one anywhere; the work is in `publish`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli_support import BadUsage, Json, app, finish, guarded, run_flow


@app.command("publish")
def publish_command(
    out: Annotated[Path, typer.Option(help="Folder of the package; an older package there is replaced.")],
    run: Annotated[str, typer.Option(help="Run id; default: the last run.")] = "",
    json_: Json = False,
) -> None:
    """A run as a package for publication: outcomes, tables, prompts, the release's public part, and a script that checks them."""

    def work() -> dict[str, Any]:
        from flows.publish import publish_run

        return run_flow(lambda: publish_run(run, out.resolve()))

    found = guarded(json_, work)
    text = f"{found['package']}: run {found['run']}, {found['bytes'] / 1e6:.1f} MB; compared {_compared(found['compared'])}"
    finish(json_, found, text, True)


@app.command("check")
def check_command(
    package: Annotated[Path, typer.Argument(help="Folder that `dsabench publish` wrote.")], json_: Json = False
) -> None:
    """Check a package: every file against its manifest, metrics and intervals against the task-level outcomes."""

    def work() -> dict[str, Any]:
        from flows.publish import checked

        if not package.is_dir():
            raise BadUsage(f"{package} is not a folder, expected one that `dsabench publish` wrote; name that.")
        return {"package": str(package), "status": "good", "compared": checked(package)}

    found = guarded(json_, work)
    finish(json_, found, f"{package} is good: compared {_compared(found['compared'])}", True)


def _compared(done: dict[str, Any]) -> str:
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in done.items())
