"""The command `audit`: retrieval over a release's catalog, as tables beside the published figures, or as one JSON object."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli_support import Json, app, finish, folder_of, guarded, run_flow

if TYPE_CHECKING:
    from tasks_lib.reporting.views import Entry, View


@app.command()
def audit(
    release: Annotated[Path | None, typer.Option(help="Release folder; default: the embedded release.")] = None,
    json_: Json = False,
) -> None:
    """Retrieval audit of a release's catalog."""

    def work() -> dict[str, Any]:
        folder = folder_of(release, "--release")
        from flows.catalog import catalog

        return run_flow(lambda: catalog(folder))

    report = guarded(json_, work)
    finish(json_, report, "" if json_ else _text(report), True)


def _text(report: dict[str, Any]) -> str:
    from tasks_lib.reporting.retrieval_page import views
    from tasks_lib.store.artifacts import ArtifactStore
    from tasks_lib.store.schemas import AUDIT
    from tasks_lib.store.settings import settings

    table = ArtifactStore(settings().resolved_store_url).read(AUDIT, report["audit_key"])
    parts = [f"release {report['release']}, manifest {report['manifest']}"]
    parts += ["\n".join(_lines(view)) for view in views(table)]
    parts.append(f"tokens of the cards that MiniLM does not read: {report['truncated_tokens']}")
    parts.append(f"page: {report['page']}\ntable: {Path(report['page']).with_name('audit.parquet')}")
    return "\n\n".join(parts)


def _lines(view: View) -> Iterator[str]:
    """A view in plain text: names to the left, numbers to the right, an interval behind its number."""
    heads = [column.label for column in view.columns]
    cells = [[_cell(entry) for entry in row] for row in view.rows]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    yield view.caption
    for row in (heads, *cells):
        aligned = [
            text.rjust(width) if column.number else text.ljust(width)
            for text, width, column in zip(row, widths, view.columns, strict=True)
        ]
        yield "  ".join(aligned).rstrip()
    if view.note:
        yield view.note


def _cell(entry: Entry) -> str:
    return f"{entry.text} {entry.detail}".strip()
