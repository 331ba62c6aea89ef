"""The command that judges a run anew from its stored outputs; the work is in `rescore`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from flows.cli_support import Json, app, finish, guarded, run_flow


@app.command("rescore")
def rescore_command(
    run: Annotated[str, typer.Option(help="Run id; default: the last run.")] = "", json_: Json = False
) -> None:
    """Verdicts, episodes and tables of a run anew from stored outputs; fails where a call or an execution would be needed."""

    def work() -> dict[str, Any]:
        from flows.rescore import rescore

        return run_flow(lambda: rescore(run))

    found = guarded(json_, work)
    text = (
        f"run {found['run']}: {found['verdicts_changed']} of {found['verdicts']} verdicts changed, {found['cells_scored']} of "
        f"{found['cells']} cells scored again; {found['model_calls_made']} model calls, {found['sql_executions_made']} SQL executions; "
        "`dsabench report` writes the page anew"
    )
    finish(json_, found, text, found["status"] == "completed")
