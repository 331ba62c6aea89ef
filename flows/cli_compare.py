"""The command that sets one run beside another; what it finds is in `compare`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from flows.cli_support import BadUsage, Json, app, finish, guarded


@app.command("compare-runs")
def compare_runs_command(
    run: Annotated[str, typer.Argument(help="Id of the run that is asked about.")],
    other: Annotated[str, typer.Argument(help="Id of the run it is compared with, of the same release.")],
    pair: Annotated[
        list[str] | None,
        typer.Option(
            "--pair", help="NAME=OTHER: a backend of the first run beside another one of the second; repeatable."
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """Two runs of one release: what differs between them, paired differences with intervals, tasks gained and lost."""

    def work() -> dict[str, Any]:
        from flows.compare import as_json, compare_runs
        from tasks_lib.reporting.comparison import text
        from tasks_lib.scoring.comparison import NotComparable

        try:
            found = compare_runs(run, other, _pairs(pair or []))
        except NotComparable as error:
            raise BadUsage(str(error)) from error
        return {**as_json(found), "text": text(found)}

    found = guarded(json_, work)
    finish(json_, found, found.pop("text"), True)


def _pairs(texts: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, sign, other = text.partition("=")
        if not (name and sign and other) or name in found:
            raise BadUsage(f"--pair {text!r} is no new pair, expected NAME=OTHER, each name once; write it so.")
        found[name] = other
    return found
