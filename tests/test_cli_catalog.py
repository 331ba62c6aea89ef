"""`dsabench catalog search|inspect|compat`: a newcomer asks the public catalog by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from catalog_support import ferries, publish
from conftest import Said
from rich.table import Table

from flows.cli_catalog import _compat_view

Command = Callable[..., Said]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release's public folder alone: three databases, the first two with values in common."""
    path = tmp_path_factory.mktemp("release")
    ports = ("Brindal", "Brindal", "[red]Oslam")
    databases = [ferries(path, f"ferry_lines_{i}", port=port) for i, port in enumerate(ports)]
    publish(databases, path / "public" / "catalog")
    return path


def ids(dsabench: Command, release: Path, query: str = "harbours of Brindal") -> list[str]:
    said = dsabench("catalog", "search", query, "--release", str(release), "--json")
    assert said.code == 0, said
    return [row["database_id"] for row in said.json["databases"]]


def test_search_says_what_was_found_and_why(dsabench: Command, release: Path) -> None:
    said = dsabench("catalog", "search", "harbours by region Oslam coast", "--release", str(release))
    assert said.code == 0
    first = ids(dsabench, release, "harbours by region Oslam coast")[0]
    lines = said.out.splitlines()
    assert lines[0].startswith("3 databases of")
    assert lines[2].startswith(first)
    assert "[red]Oslam" in said.out
    assert "ferry_lines" not in said.out


def test_search_as_json_holds_ids_scores_and_matches(dsabench: Command, release: Path) -> None:
    said = dsabench("catalog", "search", "Brindal coast", "--release", str(release), "--top-k", "2", "--json")
    found = said.json
    assert (found["query"], len(found["databases"])) == ("Brindal coast", 2)
    assert found["databases"][0]["score"] >= found["databases"][1]["score"]
    assert {"value": "Brindal coast", "column": "region"} in found["databases"][0]["values"]
    assert found["databases"][0]["table_count"] == 2


def test_search_keeps_one_corpus(dsabench: Command, release: Path) -> None:
    said = dsabench("catalog", "search", "harbours", "--release", str(release), "--corpus", "bird")
    assert (said.code, said.out) == (0, "no database\n")


def test_inspect_goes_from_a_database_to_its_tables_and_columns(dsabench: Command, release: Path) -> None:
    database = ids(dsabench, release)[0]
    shown = dsabench("catalog", "inspect", database, "--release", str(release), "--json").json
    assert shown["database"]["database_id"] == database
    table = next(t for t in shown["tables"] if t["name"] == "harbour")
    said = dsabench("catalog", "inspect", table["table_id"], "--release", str(release))
    assert all(name in said.out for name in ("harbour_id", "port_name", "official name of the port", "0.0..19.5"))
    assert "…" not in said.out
    columns = dsabench("catalog", "inspect", table["table_id"], "--release", str(release), "--json").json["columns"]
    column = dsabench("catalog", "inspect", columns[0]["column_id"], "--release", str(release), "--json").json
    assert column["column"]["name"] == "harbour_id"
    assert any(r["kind"] == "foreign_key" for r in column["relations"])


def test_compat_reads_the_evidence_between_two_databases(dsabench: Command, release: Path) -> None:
    first, second, third = ids(dsabench, release, "Brindal north harbour port")
    said = dsabench("catalog", "compat", first, second, "--release", str(release))
    assert said.code == 0
    assert "pairs of columns that could be matched" in said.out
    assert "values in common" in " ".join(said.out.split())
    data = dsabench("catalog", "compat", first, second, "--release", str(release), "--json").json
    assert {r["kind"] for r in data["relations"]} == {"compatible"}
    owners = {r[f"{end}_column_id"]: r[f"{end}_database_id"] for r in data["relations"] for end in ("source", "target")}
    back = dsabench("catalog", "compat", second, first, "--release", str(release), "--json").json
    for report, order in ((data, (first, second)), (back, (second, first))):
        (table,) = _compat_view(report)
        assert isinstance(table, Table)
        for column, id_ in zip(table.columns[1:3], order, strict=True):
            assert column.header == f"column of {id_}"
            assert {owners[str(cell)] for cell in column.cells} == {id_}
    far = dsabench("catalog", "compat", first, third, "--release", str(release), "--json").json
    assert len(far["relations"]) <= len(data["relations"])


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("search", "  "), ("blank", "expected")),
        (("inspect", "db_000000000000"), ("'db_000000000000' is no database", "catalog search")),
        (("inspect", "tb_000000000000"), ("is no table",)),
        (("inspect", "col_0"), ("is no column",)),
        (("inspect", "ferry_lines_1"), ("no id to inspect", "db_, tb_, col_")),
        (("compat", "db_000000000000", "db_000000000000"), ("twice", "expected")),
        (("compat", "db_000000000000", "db_000000000001"), ("'db_000000000000' is no database",)),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(
    dsabench: Command, release: Path, arguments: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    said = dsabench("catalog", *arguments, "--release", str(release), "--json")
    assert said.code == 2
    assert said.json["status"] == "failed"
    assert "Traceback" not in said.err
    assert all(part in said.json["error"] for part in parts)


def test_a_folder_that_is_no_release(dsabench: Command, tmp_path: Path) -> None:
    said = dsabench("catalog", "search", "x", "--release", str(tmp_path), "--json")
    assert said.code == 2
    assert "no folder public/catalog" in said.json["error"]
    said = dsabench("catalog", "search", "x", "--release", str(tmp_path / "none"), "--json")
    assert (said.code, "not a folder" in said.json["error"]) == (2, True)


def test_a_damaged_catalog_names_its_file(dsabench: Command, release: Path, tmp_path: Path) -> None:
    public = tmp_path / "public" / "catalog"
    public.mkdir(parents=True)
    for file in (release / "public" / "catalog").glob("*.parquet"):
        (public / file.name).write_bytes(file.read_bytes()[:-10] if "columns" in file.name else file.read_bytes())
    said = dsabench("catalog", "search", "x", "--release", str(tmp_path), "--json")
    assert said.code == 1
    assert "cat_columns.parquet" in said.json["error"]


def test_without_a_release_the_embedded_one_is_asked(dsabench: Command, embedded: Path) -> None:
    said = dsabench("catalog", "search", "films and directors", "--top-k", "3", "--json")
    assert json.loads(said.out.splitlines()[-1])["release"] == str(embedded)
    assert len(said.json["databases"]) == 3
