"""Your own agent: `score` its files, `routeenv serve` RouteEnv to it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli_support import BadUsage, Json, app, backends_of, finish, folder_of, guarded, run_flow

routeenv = typer.Typer(add_completion=False, no_args_is_help=True, help="RouteEnv for an agent of your own.")
app.add_typer(routeenv, name="routeenv")


@app.command()
def score(
    release: Annotated[Path | None, typer.Option(help="Release folder; default: the embedded release.")] = None,
    routes: Annotated[Path | None, typer.Option(help="Routes, JSON Lines or Parquet.")] = None,
    asks: Annotated[Path | None, typer.Option(help="Clarification questions.")] = None,
    sql: Annotated[Path | None, typer.Option(help="SQL, for every database the routes select.")] = None,
    answers: Annotated[Path | None, typer.Option(help="Write released answers here, to route again with.")] = None,
    name: Annotated[str, typer.Option(help="What the agent is called in tables.")] = "mine",
    judge: Annotated[str | None, typer.Option(help="Judge backend as JSON; default offline/hybrid.")] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schemas of the files, and stop.")] = False,
    json_: Json = False,
) -> None:
    """Check and score routes, questions and SQL of an agent that ran elsewhere; no model is needed."""
    if schema:
        from tasks_lib.evaluation.predictions import FORMATS
        from tasks_lib.evaluation.predictions import schema as schema_of

        schemas = {kind: schema_of(kind) for kind in FORMATS}
        finish(json_, schemas, json.dumps(schemas, indent=1), True)

    def work() -> dict[str, Any]:
        from flows.score import read_files
        from flows.score import score as score_flow
        from tasks_lib.evaluation.predictions import PredictionsRefused

        folder = folder_of(release, "--release")
        judges = backends_of([judge] if judge else [], option="--judge")
        if answers is not None and not answers.resolve().parent.is_dir():
            raise BadUsage(f"--answers {answers} lies in no folder, expected one that exists; make it first.")
        try:
            read_files(name, routes, asks, sql, answers)  # what is wrong with them is told before anything is started
            return run_flow(lambda: score_flow(folder, name, routes, asks, sql, answers, judges[0] if judges else None))
        except PredictionsRefused as error:
            raise BadUsage(str(error)) from error

    record = guarded(json_, work)
    from flows.score import table_text

    finish(json_, record, table_text(record), True)


@routeenv.command("serve")
def serve_command(
    out: Annotated[Path, typer.Option(help="JSON Lines file that accepted routes are added to.")],
    release: Annotated[Path | None, typer.Option(help="Release folder; default: the embedded release.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one.")] = 8765,
    json_: Json = False,
) -> None:
    """Serve the tasks, the actions and a place for routes to an agent of your own, on 127.0.0.1, until interrupted."""

    def work() -> dict[str, Any]:
        from flows.routeenv_server import open_server

        folder = folder_of(release, "--release")
        if not out.resolve().parent.is_dir():
            raise BadUsage(f"--out {out} lies in no folder, expected one that exists; make it first.")
        try:
            server = open_server(folder, out, port)
        except OSError as error:
            raise BadUsage(f"port {port} cannot be opened ({error.strerror}); name another with --port.") from error
        except ValueError as error:
            raise BadUsage(str(error)) from error
        print(f"RouteEnv at {server.url}, routes go to {out}; interrupt to stop", file=sys.stderr, flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass
        finally:
            server.server_close()
        return {"status": "completed", "routes": len(server.host.recorded), "out": str(out)}

    done = guarded(json_, work)
    finish(json_, done, f"{done['routes']} routes in {done['out']}", True)
