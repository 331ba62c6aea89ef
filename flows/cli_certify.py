"""Commands that prove a finished release again: `certify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli_support import Json, app, finish, folder_of, guarded, run_flow


@app.command()
def certify(
    release: Annotated[Path | None, typer.Option(help="Release folder; default: the embedded release.")] = None,
    docs: Annotated[
        Path | None, typer.Option(help="Folder for the data-docs pages of the suites; they show gold.")
    ] = None,
    json_: Json = False,
) -> None:
    """Prove a release from its files: suites over its tables, every gate of every task, counts, and all it says of itself."""

    def work() -> dict[str, Any]:
        folder = folder_of(release, "--release")
        return run_flow(lambda: _certify(folder, docs))

    report = guarded(json_, work)
    lines = [f"{v['check']}: {v['task_id']} {v['reason']}" for v in report["violations"]] + report["broken_suites"]
    text = "\n".join([f"{report['release']}: {report['tasks']} tasks, {len(lines)} violations", *lines])
    finish(json_, report, text, report["ok"])


async def _certify(folder: str, docs: Path | None) -> dict[str, Any]:
    from flows.releases import release_folder
    from tasks_lib.contracts.certificate_records import certify_all
    from tasks_lib.contracts.release import Release
    from tasks_lib.contracts.suites import release_suites
    from tasks_lib.sql.execute import SqlRunner
    from tasks_lib.store.ledgers import Ledger
    from tasks_lib.store.quality import inspect

    found = Release.load(await release_folder(folder))
    broken = [f"{r.table}: {line}" for r in inspect(release_suites(found), docs) for line in r.failures]
    ledger = Ledger(run="certify")
    try:
        async with SqlRunner(ledger) as runner:
            certificate = await certify_all(found, runner)
    finally:
        ledger.close()
    fields = certificate.as_json()
    return {**fields, "ok": fields["ok"] and not broken, "broken_suites": broken, "docs": str(docs) if docs else ""}
