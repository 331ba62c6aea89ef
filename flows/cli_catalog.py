"""Commands that ask the catalog by hand: `catalog search|inspect|compat`. They read a release's public folder and nothing else.

`inspect` and `compat` are RouteEnv's own actions over the whole registry, so a person sees what an agent sees, uncut.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from flows.cli_support import BadUsage, Json, app, finish, folder_of, guarded

if TYPE_CHECKING:
    from tasks_lib.routeenv.search import Catalog

catalog = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Ask a release's public catalog: search, inspect, compat."
)
app.add_typer(catalog, name="catalog")

ReleaseOption = Annotated[Path | None, typer.Option(help="Release folder; default: the embedded release.")]
PIPE_WIDTH = 160
"""Columns of the text where no terminal says how wide it is."""
KINDS: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "db_": ("inspect_database", "database", {"table_limit": 50}),
    "tb_": ("inspect_table", "table", {"column_limit": 200}),
    "col_": ("inspect_column", "column", {}),
}
"""By prefix of an id: RouteEnv's action, what the id names, and how much to show."""


@catalog.command("search")
def search_command(
    query: Annotated[str, typer.Argument(help="What is looked for, in words.")],
    release: ReleaseOption = None,
    top_k: Annotated[int, typer.Option(min=1, max=300, help="At most so many databases.")] = 10,
    corpus: Annotated[Literal["spider", "bird", "livesqlbench"] | None, typer.Option(help="One corpus only.")] = None,
    json_: Json = False,
) -> None:
    """Databases that fit a text, best first, each with what of it matches."""

    def work() -> dict[str, Any]:
        if not query.strip():
            raise BadUsage("the search text is blank, expected some words to look for.")
        folder, rows = _opened(release)
        found = rows.search(query, rows.databases.keys(), top_k, corpus)
        names = [name for name, _ in found]
        capabilities = _first_of_each(rows.lookup.capabilities(query, names, 1000), 2)
        values = _first_of_each(rows.lookup.entities(query, names, 1000), 2)
        shown = ("database_id", "corpus", "summary", "table_count", "row_count")
        databases = [
            {
                **{key: rows.databases[name][key] for key in shown},
                "score": score,
                "capabilities": [row["text"] for row in capabilities.get(name, ())],
                "values": [
                    {"value": row["value"], "column": rows.columns[row["column_id"]]["name"]}
                    for row in values.get(name, ())
                ],
            }
            for name, score in found
        ]
        return {"release": folder, "query": query, "databases": databases}

    report = guarded(json_, work)
    finish(json_, report, _text(*_search_view(report)), True)


@catalog.command("inspect")
def inspect_command(
    id_: Annotated[str, typer.Argument(metavar="ID", help="Public id of a database, table or column.")],
    release: ReleaseOption = None,
    json_: Json = False,
) -> None:
    """One database (db_…), table (tb_…) or column (col_…) as an agent may see it."""

    def work() -> dict[str, Any]:
        prefix = next((p for p in KINDS if id_.startswith(p)), None)
        if prefix is None:
            raise BadUsage(f"{id_!r} is no id to inspect, expected one that begins with {', '.join(KINDS)}.")
        action, what, more = KINDS[prefix]
        folder, rows = _opened(release)
        known = {"database": rows.databases, "table": rows.tables, "column": rows.columns}[what]
        _expect(known, id_, what, folder)
        return _asked(folder, rows, action, {f"{what}_id": id_, **more})

    report = guarded(json_, work)
    finish(json_, report, _text(*_object_view(report)), True)


@catalog.command("compat")
def compat_command(
    source: Annotated[str, typer.Argument(help="Public id db_… of one database.")],
    target: Annotated[str, typer.Argument(help="Public id db_… of another.")],
    release: ReleaseOption = None,
    json_: Json = False,
) -> None:
    """Evidence that columns of two databases could be matched."""

    def work() -> dict[str, Any]:
        if source == target:
            raise BadUsage(f"{source!r} was given twice, expected the ids of two databases.")
        folder, rows = _opened(release)
        for id_ in (source, target):
            _expect(rows.databases, id_, "database", folder)
        ids = {"source_database_id": source, "target_database_id": target}
        return _asked(folder, rows, "check_compatibility", {**ids, "limit": 50})

    report = guarded(json_, work)
    finish(json_, report, _text(*_compat_view(report)), True)


# ---- reading ----


def _opened(release: Path | None) -> tuple[str, Catalog]:
    """The release's folder and its public catalog. Raises BadUsage when there is none."""
    from flows.releases import release_folder
    from tasks_lib.routeenv.search import Catalog

    folder = asyncio.run(release_folder(folder_of(release, "--release")))
    public = folder / "public" / "catalog"
    if not public.is_dir():
        raise BadUsage(
            f"--release {folder} has no folder public/catalog, expected a release; make one with `dsabench build`."
        )
    return str(folder), Catalog.load(public)


def _expect(known: Container[str], id_: str, what: str, folder: str) -> None:
    if id_ not in known:
        raise BadUsage(
            f"{id_!r} is no {what} of {folder}, expected an id that `dsabench catalog search` or `inspect` shows."
        )


def _asked(folder: str, rows: Catalog, action: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """RouteEnv's answer over every database of the release, with the release's folder."""
    from tasks_lib.protocol.records import PublicTask
    from tasks_lib.protocol.vocabulary import Corpus
    from tasks_lib.routeenv.environment import RouteEnv

    env = RouteEnv(rows, PublicTask("by hand", Corpus.SPIDER, "", tuple(rows.databases)), cap=10_000_000)
    seen = env.call(action, arguments)
    if seen.error:
        raise BadUsage(seen.error)
    return {"release": folder, **seen.data}


def _first_of_each(found: Iterable[Mapping[str, Any]], most: int) -> dict[str, list[Mapping[str, Any]]]:
    kept: dict[str, list[Mapping[str, Any]]] = {}
    for row in found:
        mine = kept.setdefault(row["database_id"], [])
        if len(mine) < most:
            mine.append(row)
    return kept


# ---- showing ----


def _text(*parts: RenderableType) -> str:
    """The parts as they look on this terminal; plain and PIPE_WIDTH wide in a file or pipe."""
    console = Console(markup=False, emoji=False, highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)
    with console.capture() as captured:
        console.print(Group(*parts))
    return "\n".join(line.rstrip() for line in captured.get().rstrip().split("\n"))


def _table(title: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table whose first column, the ids, is never broken."""
    table = Table(title=Text(title), title_justify="left", box=None, pad_edge=False)
    for place, name in enumerate(names):
        table.add_column(name, no_wrap=place == 0, overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if value is None else str(value)) for value in row))
    return table


def _search_view(report: Mapping[str, Any]) -> list[RenderableType]:
    if not report["databases"]:
        return [Text("no database")]
    rows = [
        (
            d["database_id"],
            d["corpus"],
            f"{d['score']:.4f}",
            d["table_count"],
            d["summary"],
            "; ".join([*d["capabilities"], *(f"{v['value']} ({v['column']})" for v in d["values"])]),
        )
        for d in report["databases"]
    ]
    names = ("database", "corpus", "score", "tables", "summary", "best matches")
    return [_table(f"{len(rows)} databases of {report['release']}", names, rows)]


def _object_view(report: Mapping[str, Any]) -> list[RenderableType]:
    """The object field by field, then its lists as tables, then what was left out."""
    parts: list[RenderableType] = []
    for name, value in report.items():
        if isinstance(value, Mapping) and name != "omitted":
            width = max(map(len, value)) + 2
            for field, content in value.items():
                parts.append(Text(f"{field:<{width}}{_plain(content)}"))
        elif isinstance(value, list) and value:
            names = list(dict.fromkeys(key for row in value for key in row))
            names = [key for key in names if key != "evidence_id"]
            parts += [Text(), _table(name, names, [[_plain(row.get(key, "")) for key in names] for row in value])]
    return [*parts, *_left_out(report)]


def _compat_view(report: Mapping[str, Any]) -> list[RenderableType]:
    if not report["relations"]:
        return [Text("no evidence that columns of these two databases could be matched")]
    first, second = (report[f"{end}_database_id"] for end in ("source", "target"))
    rows = []
    for r in report["relations"]:
        # A relation has its own direction; the table has that of the question.
        columns = {r[f"{end}_database_id"]: r[f"{end}_column_id"] for end in ("source", "target")}
        rows.append((r["relation_id"], columns[first], columns[second], r["text"]))
    names = ("relation", f"column of {first}", f"column of {second}", "evidence")
    title = f"{len(rows)} pairs of columns that could be matched"
    return [_table(title, names, rows), *_left_out(report)]


def _left_out(report: Mapping[str, Any]) -> list[RenderableType]:
    return [Text(f"… and {n} more {name}") for name, n in report.get("omitted", {}).items()]


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
