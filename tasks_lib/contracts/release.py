"""PRIVATE. Release folders: publishing one whole, and loading one with its hashes verified.

    public/tasks.parquet  public/catalog/cat_<table>.parquet  public/datasheet.md
    private/{contracts,units,texts,databases,rejected,wordings,gates,unstated}.parquet
    private/{datasheet_tasks,task_cards}.md  private/locations.json  manifest.json

`manifest.json` holds the sha256 of every other file but `locations.json`, which names this machine's folders. Does not belong
here: making what a release holds (`building`, `datasheet`).
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from tasks_lib.contracts.contract import from_row
from tasks_lib.corpora.model import SourceText
from tasks_lib.protocol.records import Contract, DatabaseHandle, PublicTask, SourceUnit
from tasks_lib.protocol.vocabulary import Behavior, Corpus, Engine
from tasks_lib.store.artifacts import read_file, write_file
from tasks_lib.store.keys import sha256_file
from tasks_lib.store.schemas import CONTRACTS, DATABASES, TASKS, TEXTS, UNITS, Table

VERSION = "release@1"


LOCATIONS = "private/locations.json"
"""The one file that names this machine's folders; no part of the manifest."""


class ReleaseRefused(ValueError):
    """A place or an input from which no release can be made."""


class ReleaseDamaged(ValueError):
    """A release folder that may not be used: a file is missing, altered or unexpected."""


def counts(values: Any) -> dict[str, int]:
    """Value -> how often it occurs, in value order."""
    return dict(sorted(Counter(values).items()))


def figures(contracts: Sequence[Contract]) -> dict[str, Any]:
    """Denominators of every score: counts by kind, and required contributions unweighted and branch-weighted."""

    def required(chosen: Sequence[Contract]) -> dict[str, float]:
        return {
            "unweighted": sum(len(c.unit_ids) for c in chosen),
            "weighted": sum(len(c.unit_ids) * (0.5 if c.behavior is Behavior.INTERACTIVE else 1.0) for c in chosen),
        }

    interactive = sum(c.behavior is Behavior.INTERACTIVE for c in contracts)
    corpora = sorted({c.corpus.value for c in contracts})
    return {
        "tasks": len(contracts),
        "ordinary": len(contracts) - interactive,
        "interactive": interactive,
        "episodes": len(contracts) + interactive,
        "by_corpus": counts(c.corpus.value for c in contracts),
        "by_behavior": counts(c.behavior.value for c in contracts),
        "by_difficulty": counts(c.difficulty.value for c in contracts),
        "required_contributions": {
            "total": required(contracts),
            "by_corpus": {name: required([c for c in contracts if c.corpus.value == name]) for name in corpora},
        },
    }


def as_text(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def check_out(out: Path) -> None:
    """Refuse a place where no release may be written. Raises ReleaseRefused naming what is there."""
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / "manifest.json").exists())):
        raise ReleaseRefused(f"{out} exists and is no release folder; name an empty or new folder.")


def publish(
    out: Path,
    tables: Mapping[str, tuple[Table, Any]],
    texts: Mapping[str, str],
    manifest: dict[str, Any],
    locations: Mapping[str, Any],
) -> None:
    """Write everything beside `out`, then rename; a crash leaves the older release or none.

    `tables`, `texts`: path in the release -> content; the manifest gets the sha256 of each.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    work = out.parent / f".{out.name}.{uuid.uuid4().hex}"
    try:
        files = {path: write_file(table, work / path, rows) for path, (table, rows) in sorted(tables.items())}
        for path, text in sorted(texts.items()):
            (work / path).write_text(text, "utf-8")
            files[path] = sha256_file(work / path)
        manifest["files"] = dict(sorted(files.items()))
        (work / LOCATIONS).write_text(as_text(locations), "utf-8")
        (work / "manifest.json").write_text(as_text(manifest), "utf-8")
        _replace(out, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def copy(made: Path, out: Path, locations: Mapping[str, Any]) -> None:
    """Put a copy of the release at `made` at `out`, whole or not at all, with `locations` as its folders."""
    out.parent.mkdir(parents=True, exist_ok=True)
    work = out.parent / f".{out.name}.{uuid.uuid4().hex}"
    try:
        shutil.copytree(made, work)
        (work / LOCATIONS).write_text(as_text(locations), "utf-8")
        _replace(out, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _replace(out: Path, work: Path) -> None:
    if not out.exists():
        os.replace(work, out)
        return
    old = out.parent / f".{out.name}.{uuid.uuid4().hex}.old"
    os.replace(out, old)
    os.replace(work, out)
    shutil.rmtree(old)


class Release:
    """A loaded release. Everything but `tasks` is private. Use `Release.load`."""

    def __init__(self, folder: Path, manifest: Mapping[str, Any], roots: Mapping[str, str]) -> None:
        self.folder = folder
        self.manifest = manifest
        self._roots = roots

    @classmethod
    def load(cls, folder: Path) -> Release:
        """Open a release folder and verify the sha256 of every file.

        Raises:
            ReleaseDamaged: no manifest, another version, or a file that is missing, altered or not in the manifest.
        """
        folder = folder.resolve()
        try:
            manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
            roots = {
                name: item["root"]
                for name, item in json.loads((folder / "private/locations.json").read_text("utf-8")).items()
            }
        except FileNotFoundError as error:
            raise ReleaseDamaged(
                f"{error.filename} is missing, expected a release folder; build the release."
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ReleaseDamaged(
                f"the JSON files of {folder} cannot be read ({error}); build the release again."
            ) from error
        if manifest.get("version") != VERSION:
            raise ReleaseDamaged(
                f"{folder} is of version {manifest.get('version')}, expected {VERSION}; build it again."
            )
        files: dict[str, str] = manifest["files"]
        for name, wanted in files.items():
            path = folder / name
            if not path.is_file():
                raise ReleaseDamaged(f"{path} is missing, the manifest lists it; build the release again.")
            found = sha256_file(path)
            if found != wanted:
                raise ReleaseDamaged(
                    f"{path} has sha256 {found[:12]}…, the manifest says {wanted[:12]}…; build the release again."
                )
        extra = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.parquet"))
        unknown = [name for name in extra if name not in files]
        if unknown:
            raise ReleaseDamaged(f"{folder / unknown[0]} is not in the manifest; remove it or build the release again.")
        return cls(folder, manifest, roots)

    @cached_property
    def digest(self) -> str:
        """sha256 hex of the manifest: the release's identity in artifact keys."""
        return sha256_file(self.folder / "manifest.json")

    @property
    def public(self) -> Path:
        """The folder that public floors may read."""
        return self.folder / "public"

    @cached_property
    def tasks(self) -> tuple[PublicTask, ...]:
        """Public tasks in task-id order."""
        rows = read_file(TASKS, self.public / "tasks.parquet").iter_rows(named=True)
        return tuple(PublicTask(r["task_id"], Corpus(r["corpus"]), r["request"], tuple(r["allowlist"])) for r in rows)

    @cached_property
    def contracts(self) -> dict[str, Contract]:
        """Contracts by task id."""
        rows = read_file(CONTRACTS, self.folder / "private/contracts.parquet").iter_rows(named=True)
        return {row["task_id"]: from_row(row) for row in rows}

    @cached_property
    def unit_rows(self) -> pl.DataFrame:
        """All audited units, as the `units` table."""
        return read_file(UNITS, self.folder / "private/units.parquet")

    @cached_property
    def units(self) -> dict[str, SourceUnit]:
        """All audited units by id, disqualified ones included (their flags say so)."""
        return {row["unit_id"]: source_unit(row) for row in self.unit_rows.iter_rows(named=True)}

    @cached_property
    def texts(self) -> tuple[SourceText, ...]:
        """Questions without usable gold, in id order; none in a release from before they were kept."""
        if "private/texts.parquet" not in self.manifest["files"]:
            return ()
        rows = read_file(TEXTS, self.folder / "private/texts.parquet").sort("text_id").iter_rows(named=True)
        return tuple(SourceText(r["text_id"], Corpus(r["corpus"]), r["database"], r["question"]) for r in rows)

    @cached_property
    def databases(self) -> pl.DataFrame:
        """The identity map: rows of the `databases` table."""
        return read_file(DATABASES, self.folder / "private/databases.parquet")

    @cached_property
    def handles(self) -> dict[str, DatabaseHandle]:
        """How to reach each database, by public id."""
        return {
            row["database_id"]: DatabaseHandle(
                database_id=row["database_id"],
                corpus=Corpus(row["corpus"]),
                engine=Engine(row["engine"]),
                location=str(Path(self._roots[row["corpus"]]) / row["relative_path"]),
                digest=row["digest"],
                schema_text=row["schema_text"],
                knowledge=row["knowledge"],
                samples=row["origin"] != "replica",
            )
            for row in self.databases.iter_rows(named=True)
        }


def source_unit(row: Mapping[str, Any]) -> SourceUnit:
    """The seam record of a row of `units`."""
    return SourceUnit(
        unit_id=row["unit_id"],
        corpus=Corpus(row["corpus"]),
        database=row["database"],
        question=row["question"],
        sql=row["sql"],
        evidence=row["evidence"],
        split=row["split"],
        tables=tuple(row["tables"]),
        columns=tuple(row["columns"]),
        literals=tuple(row["literals"]),
        ordered=row["ordered"],
        result_digest=row["result_digest"],
        row_count=row["row_count"],
        column_count=row["column_count"],
        flags=tuple(row["flags"]),
        difficulty=row["difficulty"],
    )
