"""`ledger export|import`: stored model calls as a file, so that published outputs can be scored again without a key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli_support import BadUsage, Json, app, finish, guarded

ledger = typer.Typer(add_completion=False, no_args_is_help=True, help="The ledger of model calls: export, import.")
app.add_typer(ledger, name="ledger")


@ledger.command("export")
def export_command(
    out: Annotated[Path, typer.Option(help="Parquet file to write.")],
    run: Annotated[str, typer.Option(help="Only what this run paid for; default: every call.")] = "",
    json_: Json = False,
) -> None:
    """Write stored model calls with their messages. The file holds prompts as they were, privileged ones included."""

    def work() -> dict[str, Any]:
        from tasks_lib.models.litellm_client import PARAMETERS_KIND
        from tasks_lib.models.transcripts import KIND
        from tasks_lib.store.ledger_files import export_ledger
        from tasks_lib.store.ledgers import Ledger

        if not out.resolve().parent.is_dir():
            raise BadUsage(f"--out {out} lies in no folder, expected one that exists; make it first.")
        store = Ledger()
        try:
            return {"out": str(out), **export_ledger(store, out, (KIND, PARAMETERS_KIND), run or None)}
        finally:
            store.close()

    done = guarded(json_, work)
    finish(json_, done, f"{done['items']} items and {done['blobs']} messages written to {done['out']}", True)


@ledger.command("import")
def import_command(
    file: Annotated[Path, typer.Argument(help="A file of `dsabench ledger export`.")], json_: Json = False
) -> None:
    """Add the calls of a file to the ledger: runs that want them make no call. Nothing is overwritten."""

    def work() -> dict[str, Any]:
        from tasks_lib.store.ledger_files import LedgerFileRefused, import_ledger
        from tasks_lib.store.ledgers import Ledger

        store = Ledger()
        try:
            return {"file": str(file), **import_ledger(store, file)}
        except LedgerFileRefused as error:
            raise BadUsage(str(error)) from error
        finally:
            store.close()

    done = guarded(json_, work)
    text = f"{done['items']} items added, {done['already_there']} were there, {done['blobs']} messages added"
    finish(json_, done, text, True)
