"""The command that writes the private task browser; the work is in `browse`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli_support import BadUsage, Json, app, finish, guarded


@app.command("browse")
def browse_command(
    out: Annotated[Path, typer.Option(help="Folder of the browser; an older browser there is replaced.")],
    run: Annotated[str, typer.Option(help="Run id; default: the last run.")] = "",
    task: Annotated[str, typer.Option(help="Write the page of this task alone.")] = "",
    json_: Json = False,
) -> None:
    """PRIVATE pages of a run's tasks: gold beside routes, transcripts, SQL, verdicts and results; never published."""

    def work() -> dict[str, Any]:
        from flows.browse import BrowseRefused, browse
        from tasks_lib.reporting.browser_layers import LayerLost

        try:
            return browse(run, out.resolve(), task)
        except (BrowseRefused, LayerLost) as error:
            raise BadUsage(str(error)) from error

    found = guarded(json_, work)
    finish(
        json_,
        found,
        f"{found['page']}: {found['tasks']} task{'' if found['tasks'] == 1 else 's'} of {found['run']}; private, not for publication",
        True,
    )
