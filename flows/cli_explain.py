"""The command that tells what a cell rests on and what would change it; what it says is in `explain`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from flows.cli_support import CELL_ID, Json, app, finish, guarded


@app.command("explain")
def explain_command(
    cell: Annotated[str, typer.Option(help=CELL_ID)],
    run: Annotated[str, typer.Option(help="Run id; default: the last run.")] = "",
    json_: Json = False,
) -> None:
    """The layers a cell rests on, where each stands, and what the code of today would make anew."""

    def work() -> dict[str, Any]:
        from flows.explain import explained

        return explained(run, cell)

    found = guarded(json_, work)
    finish(json_, found, found.pop("text"), True)
