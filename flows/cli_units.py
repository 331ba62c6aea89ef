"""Commands about source units: `units`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli_support import BadUsage, Bird, Json, LiveSQLBench, Spider, app, corpora_of, finish, guarded, run_flow


@app.command()
def units(
    spider: Spider = None,
    bird: Bird = None,
    livesqlbench: LiveSQLBench = None,
    out: Annotated[
        Path | None, typer.Option(help="HTML file to write; default: reports/units.html in the home folder.")
    ] = None,
    json_: Json = False,
) -> None:
    """Audit every question of real corpora and write the page of counts."""

    def work() -> dict[str, Any]:
        given = corpora_of(spider, bird, livesqlbench)
        if out is not None and out.is_dir():
            raise BadUsage(
                f"--out {out} is a folder, expected a file name such as {out / 'units.html'}; name the file."
            )
        from flows.units import units as audit_units

        return run_flow(lambda: audit_units(given[0], given[1], given[2], str(out or "")))

    report = guarded(json_, work)
    from tasks_lib.reporting.units_page import text

    finish(json_, report, f"{text(report)}\npage: {report['page']}", True)
