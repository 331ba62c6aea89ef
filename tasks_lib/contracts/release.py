"""PRIVATE. Release folders: building one from corpora and a profile, and loading one with its hashes verified.

    public/tasks.parquet  public/catalog/cat_<table>.parquet
    private/{contracts,units,databases,rejected}.parquet  private/locations.json  manifest.json

`manifest.json` holds the sha256 of every other file but `locations.json`, which names this machine's folders. Two builds from
equal inputs and seed are equal byte for byte. Does not belong here: synthesis, the content of the catalog.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from tasks_lib.catalog import routedb
from tasks_lib.catalog.identities import Identities
from tasks_lib.contracts.contract import Unit, from_row, to_row
from tasks_lib.contracts.distractors import Neighbourhood
from tasks_lib.contracts.pool import Pool
from tasks_lib.contracts.profiles import Profile
from tasks_lib.contracts.proposals import Bench
from tasks_lib.contracts.synthesis import Yield, synthesize
from tasks_lib.corpora.cards import schema_text
from tasks_lib.corpora.model import CorpusDatabase, CorpusSource
from tasks_lib.protocol.records import Contract, DatabaseHandle, PublicTask, SourceUnit
from tasks_lib.protocol.vocabulary import Behavior, Corpus, Engine
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.artifacts import read_file, write_file
from tasks_lib.store.keys import digest, sha256_file
from tasks_lib.store.schemas import CONTRACTS, DATABASES, REJECTED, TABLES, TASKS, UNITS, Table

VERSION = "release@1"
UnitRows = pl.DataFrame | Sequence[Mapping[str, Any]]


class ReleaseDamaged(ValueError):
    """A release folder that may not be used: a file is missing, altered or unexpected."""


@dataclass(frozen=True)
class BuildReport:
    """What a build gave. `rejected`: gate -> candidates. `shortfall`: corpus -> behavior -> tasks missing from the target.

    by_corpus, by_behavior, by_difficulty: counts of tasks. `release`: the folder. `seconds`: wall time.
    """

    release: str
    tasks: int
    by_corpus: dict[str, int]
    by_behavior: dict[str, int]
    by_difficulty: dict[str, int]
    candidates: int
    rejected: dict[str, int]
    shortfall: dict[str, dict[str, int]]
    seconds: float
    manifest: dict[str, Any] = field(default_factory=dict, repr=False)

    def as_json(self) -> dict[str, Any]:
        """The fields of `dsabench build --json`."""
        return {name: value for name, value in asdict(self).items() if name != "manifest"}


async def build(
    sources: Sequence[CorpusSource],
    units_by_corpus: Mapping[Corpus, UnitRows],
    profile: Profile,
    seed: int,
    out: Path,
    runner: SqlRunner,
    salt: bytes | None = None,
) -> BuildReport:
    """Build a release into `out`, which appears whole or not at all; an older release there is replaced.

    units_by_corpus: rows of `units`, all audited units of each source. salt: key of the public ids; without one the key is
    derived from sources, profile and seed (ids are then opaque but not secret). Tasks do not depend on the salt.

    Raises:
        ValueError: no source, two sources of one corpus, units missing, or `out` holds something else.
    """
    started = time.monotonic()
    ordered = sorted(sources, key=lambda source: list(Corpus).index(source.corpus))
    _check_inputs(ordered, units_by_corpus, out)
    parents = {source.corpus.value: source.digest for source in ordered}
    order_key = bytes.fromhex(digest({"parents": parents, "profile": profile.model_dump(mode="json"), "seed": seed}))
    id_key = salt or order_key
    identities = Identities(id_key)
    unit_rows = {corpus: _rows(units_by_corpus[corpus]) for corpus in (source.corpus for source in ordered)}
    wanted = profile.wanted([source.corpus for source in ordered])
    yields: dict[Corpus, Yield] = {}
    for source in ordered:
        corpus = source.corpus
        pool = Pool(source.databases, map(Unit.from_row, unit_rows[corpus]), order_key)
        public_ids = {database.name: identities.database(corpus, database.name) for database in source.databases}
        handles = {d.name: _gate_handle(d, public_ids[d.name]) for d in source.databases}
        bench = Bench(pool, Neighbourhood(pool), runner, handles)
        yields[corpus] = await synthesize(bench, profile, wanted[corpus], public_ids, id_key)
    databases = [database for source in ordered for database in source.databases]
    tables: dict[str, tuple[Table, Any]] = {
        "public/tasks.parquet": (TASKS, [_task_row(task) for found in yields.values() for task in found.tasks]),
        "private/contracts.parquet": (CONTRACTS, [to_row(c) for found in yields.values() for c in found.contracts]),
        "private/units.parquet": (UNITS, [row for rows in unit_rows.values() for row in rows]),
        "private/databases.parquet": (DATABASES, [_database_row(d, identities) for d in databases]),
        "private/rejected.parquet": (REJECTED, [row for found in yields.values() for row in found.rejected]),
    }
    for name, rows in routedb.build(databases, identities).items():
        tables[f"public/catalog/{name}.parquet"] = (TABLES[name], rows)
    contracts = [contract for found in yields.values() for contract in found.contracts]
    manifest: dict[str, Any] = {
        "version": VERSION,
        "profile": profile.name,
        "seed": seed,
        "salted": salt is not None,
        "parents": parents,
        "origins": {s.corpus.value: _counts(d.origin for d in s.databases) for s in ordered},
        **_figures(contracts),
    }
    _publish(out, tables, manifest, _locations(ordered))
    return BuildReport(
        release=str(out),
        tasks=len(contracts),
        by_corpus=_counts(c.corpus.value for c in contracts),
        by_behavior=_counts(c.behavior.value for c in contracts),
        by_difficulty=_counts(c.difficulty.value for c in contracts),
        candidates=sum(found.candidates for found in yields.values()),
        rejected=_counts(row["gate"] for found in yields.values() for row in found.rejected),
        shortfall={c.value: {b.value: n for b, n in y.shortfall.items()} for c, y in yields.items() if y.shortfall},
        seconds=round(time.monotonic() - started, 3),
        manifest=manifest,
    )


def _check_inputs(sources: Sequence[CorpusSource], units: Mapping[Corpus, UnitRows], out: Path) -> None:
    corpora = [source.corpus for source in sources]
    if not corpora or len(set(corpora)) != len(corpora):
        raise ValueError(
            f"a release needs each corpus at most once and at least one; found {[c.value for c in corpora]}."
        )
    missing = [corpus.value for corpus in corpora if corpus not in units]
    if missing:
        raise ValueError(f"no audited units of {missing[0]} were given; audit the corpus first.")
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / "manifest.json").exists())):
        raise ValueError(f"{out} exists and is no release folder; name an empty or new folder.")


def _rows(units: UnitRows) -> list[dict[str, Any]]:
    found = units.to_dicts() if isinstance(units, pl.DataFrame) else [dict(row) for row in units]
    return sorted(found, key=lambda row: str(row["unit_id"]))


def _counts(values: Any) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


def _gate_handle(database: CorpusDatabase, public_id: str) -> DatabaseHandle:
    return DatabaseHandle(
        public_id, database.corpus, database.engine, str(database.path), database.digest, schema_text=""
    )


def _task_row(task: PublicTask) -> dict[str, Any]:
    return {
        "task_id": task.task_id,
        "corpus": task.corpus.value,
        "request": task.request,
        "allowlist": list(task.allowlist),
    }


def _database_row(database: CorpusDatabase, identities: Identities) -> dict[str, Any]:
    return {
        "database_id": identities.database(database.corpus, database.name),
        "corpus": database.corpus.value,
        "database": database.name,
        "engine": database.engine.value,
        "relative_path": database.relative_path,
        "digest": database.digest,
        "origin": database.origin,
        "title": database.title,
        "schema_text": schema_text(database),
        "knowledge": database.knowledge,
    }


def _figures(contracts: Sequence[Contract]) -> dict[str, Any]:
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
        "by_corpus": _counts(c.corpus.value for c in contracts),
        "by_behavior": _counts(c.behavior.value for c in contracts),
        "by_difficulty": _counts(c.difficulty.value for c in contracts),
        "required_contributions": {
            "total": required(contracts),
            "by_corpus": {name: required([c for c in contracts if c.corpus.value == name]) for name in corpora},
        },
    }


def _locations(sources: Sequence[CorpusSource]) -> dict[str, Any]:
    return {
        source.corpus.value: {
            "root": str(source.root.resolve()),
            "engine": source.databases[0].engine.value,
            "databases": len(source.databases),
        }
        for source in sources
    }


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _publish(
    out: Path, tables: Mapping[str, tuple[Table, Any]], manifest: dict[str, Any], locations: Mapping[str, Any]
) -> None:
    """Write everything beside `out`, then rename; a crash leaves the older release or none."""
    out.parent.mkdir(parents=True, exist_ok=True)
    work = out.parent / f".{out.name}.{uuid.uuid4().hex}"
    try:
        files = {path: write_file(table, work / path, rows) for path, (table, rows) in sorted(tables.items())}
        manifest["files"] = files
        (work / "private" / "locations.json").write_text(_json(locations), "utf-8")
        (work / "manifest.json").write_text(_json(manifest), "utf-8")
        if out.exists():
            old = out.parent / f".{out.name}.{uuid.uuid4().hex}.old"
            os.replace(out, old)
            os.replace(work, out)
            shutil.rmtree(old)
        else:
            os.replace(work, out)
    finally:
        shutil.rmtree(work, ignore_errors=True)


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
