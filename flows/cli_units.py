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
    certify: Annotated[
        bool, typer.Option("--certify", help="Run every usable gold twice more and judge it against itself.")
    ] = False,
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

        return run_flow(lambda: audit_units(given[0], given[1], given[2], str(out or ""), certify))

    report = guarded(json_, work)
    from tasks_lib.reporting.units_page import text

    proof = report.get("certificate")
    lines = [text(report), *(_certificate_lines(proof) if proof else ()), f"page: {report['page']}"]
    finish(json_, report, "\n".join(lines), proof is None or bool(proof["ok"]))


def _certificate_lines(proof: dict[str, Any]) -> list[str]:
    lines = []
    for name, found in proof["by_corpus"].items():
        lines.append(
            f"{name}: {found['certified']} of {found['usable']} usable golds correct against themselves in {found['rounds']} "
            f"rounds of {found['executions_a_round']} executions"
        )
        lines += [f"  {fault}" for fault in found["faults"]]
    return lines
