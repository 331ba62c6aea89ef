"""Commands that make releases: `build`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from flows.cli_support import (
    BadUsage,
    Bird,
    Json,
    LiveSQLBench,
    Spider,
    app,
    backends_of,
    corpora_of,
    finish,
    guarded,
    run_flow,
)
from tasks_lib.contracts import profiles


@app.command()
def build(
    out: Annotated[Path, typer.Option(help="Folder of the release to write.")],
    spider: Spider = None,
    bird: Bird = None,
    livesqlbench: LiveSQLBench = None,
    profile: Annotated[
        str, typer.Option(help="Which tasks and how many: small, paper, extended, or a YAML file of your own.")
    ] = "small",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the synthesis.")] = 1,
    salt_file: Annotated[Path | None, typer.Option(help="File whose bytes key the public ids.")] = None,
    renderer: Annotated[
        str | None, typer.Option(help="Backend as JSON that words the contracts; default: templates, no model.")
    ] = None,
    enrich: Annotated[
        str | None,
        typer.Option(help="Backend as JSON that adds a paragraph to each database's card; default: none, no model."),
    ] = None,
    json_: Json = False,
) -> None:
    """Build a release from real corpora."""

    def work() -> dict[str, Any]:
        given = corpora_of(spider, bird, livesqlbench)
        if salt_file is not None and not salt_file.is_file():
            raise BadUsage(f"--salt-file {salt_file} is not a file, expected one with at least 16 random bytes.")
        models = backends_of([renderer] if renderer else [], option="--renderer")
        writers = backends_of([enrich] if enrich else [], option="--enrich")
        named = profile in profiles.names()
        if not named:
            profiles.load(profile)
        from flows.benchmark import benchmark
        from tasks_lib.contracts.release import check_out

        check_out(out)
        return run_flow(
            lambda: benchmark(
                spider=given[0],
                bird=given[1],
                livesqlbench=given[2],
                profile=cast(Literal["small", "paper", "extended"], profile if named else "small"),
                seed=seed,
                out=str(out),
                salt_file=str(salt_file or ""),
                profile_file="" if named else profile,
                renderer=models[0] if models else None,
                enrich=writers[0] if writers else None,
            )
        )

    report = guarded(json_, work)
    text = f"release {report['release']}: {report['tasks']} tasks {report['by_behavior']}"
    if report.get("shortfall"):
        text += f"\nshort of the profile's targets: {report['shortfall']}"
    finish(json_, report, text, report["tasks"] > 0)
