"""Commands about source units: `units`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli_support import BadUsage, Json, app, finish, folder_of, guarded, run_flow


@app.command()
def units(
    spider: Annotated[Path | None, typer.Option(help="Spider, official layout.")] = None,
    bird: Annotated[Path | None, typer.Option(help="BIRD, official layout.")] = None,
    livesqlbench: Annotated[Path | None, typer.Option(help="LiveSQLBench.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="HTML file to write; default: reports/units.html in the home folder.")
    ] = None,
    json_: Json = False,
) -> None:
    """Audit every question of real corpora and write the page of counts."""

    def work() -> dict[str, Any]:
        given = [folder_of(p, o) for p, o in ((spider, "--spider"), (bird, "--bird"), (livesqlbench, "--livesqlbench"))]
        if not any(given):
            raise BadUsage(
                "no corpus was given, expected at least one of --spider, --bird, --livesqlbench with its folder."
            )
        if out is not None and out.is_dir():
            raise BadUsage(
                f"--out {out} is a folder, expected a file name such as {out / 'units.html'}; name the file."
            )
        from flows.units import units as audit_units

        return run_flow(lambda: audit_units(given[0], given[1], given[2], str(out or "")))

    report = guarded(json_, work)
    from tasks_lib.reporting.units_page import text

    finish(json_, report, f"{text(report)}\npage: {report['page']}", True)
