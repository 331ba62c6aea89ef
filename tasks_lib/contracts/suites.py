"""PRIVATE. What a release's tables promise, as suites: exact counts, not-null, closed sets, and what refers to what.

Belongs here: the promises of units, contracts, tasks, candidates and registry, over whole tables. Does not belong here: the
machinery (`store.quality`), and what only running SQL can tell (`certificate`).

A reference is checked on a frame of its own, one row for each thing that refers (`contracts.units`: every required unit of
every task), joined with what it refers to: what is missing there is null, and the expectation names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from tasks_lib.contracts import gates
from tasks_lib.contracts.release import Release
from tasks_lib.corpora.flags import DISQUALIFYING, FLAGS
from tasks_lib.protocol.vocabulary import Behavior, Corpus, Difficulty, Engine, Split
from tasks_lib.store.artifacts import read_file
from tasks_lib.store.keys import digest
from tasks_lib.store.quality import Check, Kind, QualityFailed, QualityReport, Suite, inspect, require, suite_of
from tasks_lib.store.schemas import CONTRACTS, DATABASES, REJECTED, TASKS, UNITS, Table

Rows = pl.DataFrame | Sequence[Mapping[str, Any]]
CHECKED: tuple[Table, ...] = (UNITS, CONTRACTS, TASKS, REJECTED, DATABASES)
"""The tables that `check_tables` needs, by their names."""
ORIGINS = frozenset({"original", "surrogate", "replica", "embedded"})
REFUSING = frozenset({*gates.NAMES, "wording"})
"""Who may refuse a candidate: the gates, and wording when no template fits."""
_CORPORA = frozenset(Corpus)
_DIGEST = r"^[0-9a-f]{64}$"
_SIZES: dict[Behavior, range] = {
    Behavior.SINGLE: range(1, 2),
    Behavior.PARALLEL: range(2, 9),
    Behavior.SEQUENTIAL: range(2, 9),
    Behavior.EXPLORATORY: range(2, 9),
    Behavior.INTERACTIVE: range(2, 3),
}


def check_tables(
    tables: Mapping[str, Rows], wanted_counts: Mapping[str, int], docs: Path | None = None
) -> list[QualityReport]:
    """Run every suite over a release's whole tables, before it is published.

    tables: rows by table name (CHECKED). wanted_counts: exact number of rows by table name. docs: folder for the data-docs site;
    it holds gold, so it belongs beside `private/`, and its pages carry the time of the run, so it is no part of the manifest.

    Raises:
        QualityFailed: naming each table, expectation and offending values; the docs, if wanted, are written nevertheless.
    """
    reports = inspect(suites(tables, wanted_counts), docs)
    require(*reports)
    return reports


def release_suites(release: Release) -> list[Suite]:
    """The suites of a finished release: its tables, and as many rows as its manifest says (of what it does not count, any)."""
    tables = {
        UNITS.name: release.unit_rows,
        CONTRACTS.name: read_file(CONTRACTS, release.folder / "private/contracts.parquet"),
        TASKS.name: read_file(TASKS, release.public / "tasks.parquet"),
        REJECTED.name: read_file(REJECTED, release.folder / "private/rejected.parquet"),
        DATABASES.name: release.databases,
    }
    counts = {name: frame.height for name, frame in tables.items()}
    databases = sum(sum(origins.values()) for origins in release.manifest["origins"].values())
    return suites(
        tables,
        {**counts, **dict.fromkeys((CONTRACTS.name, TASKS.name), release.manifest["tasks"]), DATABASES.name: databases},
    )


def suites(tables: Mapping[str, Rows], wanted_counts: Mapping[str, int]) -> list[Suite]:
    """The suites of a release's tables. Raises QualityFailed for a table or a wanted count that is not given."""
    for given, what in ((tables, "table"), (wanted_counts, "wanted count")):
        missing = [table.name for table in CHECKED if table.name not in given]
        if missing:
            raise QualityFailed(f"no {what} of {missing[0]} was given, expected all of {[t.name for t in CHECKED]}.")
    units, contracts, tasks, rejected, databases = (_frame(table, tables[table.name]) for table in CHECKED)
    return [
        *_registry(databases, wanted_counts),
        *_units(units, databases, wanted_counts),
        *_contracts(contracts, units, tasks, databases, wanted_counts),
        *_tasks(tasks, contracts, databases, wanted_counts),
        *_candidates(rejected, contracts, units, wanted_counts),
    ]


def _frame(table: Table, rows: Rows) -> pl.DataFrame:
    """The rows as a frame that may hold nulls anywhere: finding them is the suite's business."""
    if isinstance(rows, pl.DataFrame):
        return rows
    loose = pa.schema([pa.field(name, kind) for name, kind, _ in table.columns])
    frame = pl.from_arrow(pa.Table.from_pylist([dict(row) for row in rows], loose))
    assert isinstance(frame, pl.DataFrame)
    return frame


def _check(kind: Kind, *columns: str, value: Any = None, about: str = "") -> Check:
    return Check(kind, columns, value, about)


def _true(column: str, about: str) -> Check:
    return Check(Kind.ALLOWED, (column,), frozenset({True}), about)


def _registry(databases: pl.DataFrame, wanted: Mapping[str, int]) -> list[Suite]:
    engine = pl.when(pl.col("corpus") == Corpus.LIVESQLBENCH).then(pl.lit(Engine.POSTGRES.value))
    frame = databases.with_columns(engine.otherwise(pl.lit(Engine.SQLITE.value)).alias("corpus_engine"))
    more = (
        _check(Kind.UNIQUE, "corpus", "database", about="one public id for a database"),
        _check(Kind.EQUAL, "engine", "corpus_engine", about="the engine is the corpus's"),
        _check(Kind.MATCHES, "database_id", value="^db_[0-9a-f]+$", about="public ids are opaque"),
        _check(Kind.MATCHES, "digest", value=_DIGEST),
        _check(Kind.MATCHES, "schema_text", value=r"\S", about="agents are shown a schema"),
    )
    allowed = {"corpus": _CORPORA, "engine": frozenset(Engine), "origin": ORIGINS}
    return [suite_of(DATABASES, frame, wanted[DATABASES.name], allowed, None, more)]


def _units(units: pl.DataFrame, databases: pl.DataFrame, wanted: Mapping[str, int]) -> list[Suite]:
    known = databases.select("corpus", "database", pl.col("digest").alias("registered_digest"))
    frame = units.join(known, on=["corpus", "database"], how="left").with_columns(
        pl.col("flags").list.eval(pl.element().is_in(list(FLAGS))).list.all().alias("flags_known"),
        (_disqualified() | pl.col("result_digest").str.contains(_DIGEST)).alias("usable_has_result"),
        (_disqualified() | (pl.col("row_count") > 0)).alias("usable_has_rows"),
    )
    more = (
        _check(Kind.NOT_NULL, "registered_digest", about="the unit's database is in the registry"),
        _check(Kind.EQUAL, "database_digest", "registered_digest", about="gold ran on the registered file"),
        _true("flags_known", "flags are of the closed list"),
        _true("usable_has_result", "a unit without a disqualifying flag has a result"),
        _true("usable_has_rows", "a unit without a disqualifying flag has rows"),
    )
    allowed = {"corpus": _CORPORA, "split": frozenset(Split)}
    ranges = {"row_count": (0, None), "column_count": (0, None)}
    return [suite_of(UNITS, frame, wanted[UNITS.name], allowed, ranges, more)]


def _disqualified() -> pl.Expr:
    return pl.col("flags").list.eval(pl.element().is_in(sorted(DISQUALIFYING))).list.any()


def _contracts(
    contracts: pl.DataFrame,
    units: pl.DataFrame,
    tasks: pl.DataFrame,
    databases: pl.DataFrame,
    wanted: Mapping[str, int],
) -> list[Suite]:
    def one_of(column: pl.Expr, sizes: Mapping[Behavior, range]) -> pl.Expr:
        good = [(pl.col("behavior") == b.value) & column.is_in(list(sizes[b])) for b in sizes]
        return pl.any_horizontal(good)

    many = pl.col("unit_ids").list.len()
    sequential, interactive = pl.col("behavior") == Behavior.SEQUENTIAL, pl.col("behavior") == Behavior.INTERACTIVE
    links = pl.when(sequential).then(many - 1).otherwise(0)
    frame = contracts.join(
        tasks.select("task_id", pl.col("corpus").alias("task_corpus")), on="task_id", how="left"
    ).with_columns(
        one_of(many, _SIZES).alias("size_fits"),
        (pl.col("databases").list.len() == many).alias("aligned"),
        (pl.col("databases").list.n_unique() == pl.col("databases").list.len()).alias("one_unit_a_database"),
        ((pl.col("edges").list.len() == links) & (pl.col("bindings").list.len() == links)).alias("links_fit"),
        (pl.col("branches").list.len() == pl.when(interactive).then(2).otherwise(0)).alias("branches_fit"),
        (interactive == (pl.col("slot_question") != "")).alias("slot_fits"),
    )
    more = (
        _check(Kind.NOT_NULL, "task_corpus", about="the contract has a task"),
        _check(Kind.EQUAL, "corpus", "task_corpus", about="contract and task are of one corpus"),
        _true("size_fits", "as many units as the behavior has"),
        _true("aligned", "a database for each unit"),
        _true("one_unit_a_database", "one unit per database"),
        _true("links_fit", "edges and bindings are those of a sequential task, and of no other"),
        _true("branches_fit", "two branches in an interactive task, and in no other"),
        _true("slot_fits", "a slot question in an interactive task, and in no other"),
    )
    allowed = {"corpus": _CORPORA, "behavior": frozenset(Behavior), "difficulty": frozenset(Difficulty)}
    required = contracts.select("task_id", "corpus", "unit_ids", "databases").filter(
        pl.col("unit_ids").list.len() == pl.col("databases").list.len()  # `aligned` names the others
    )
    required = required.explode("unit_ids", "databases").rename({"unit_ids": "unit_id", "databases": "database_id"})
    return [
        suite_of(CONTRACTS, frame, wanted[CONTRACTS.name], allowed, None, more),
        _required(required, units, tasks, databases),
        _parts(contracts),
    ]


def _required(required: pl.DataFrame, units: pl.DataFrame, tasks: pl.DataFrame, databases: pl.DataFrame) -> Suite:
    """One row for each required unit of each task."""
    gold = units.select(
        "unit_id",
        pl.col("corpus").alias("unit_corpus"),
        pl.col("database").alias("unit_database"),
        (~_disqualified()).alias("usable"),
    )
    registry = databases.select("database_id", pl.col("database").alias("registered_database"))
    allowed = tasks.select("task_id", pl.col("allowlist").alias("database_id")).explode("database_id")
    allowed = allowed.unique().with_columns(pl.lit(True).alias("allowlisted"))
    frame = (
        required.join(gold, on="unit_id", how="left")
        .join(registry, on="database_id", how="left")
        .join(allowed, on=["task_id", "database_id"], how="left")
    )
    return Suite(
        "contracts.units",
        frame,
        (
            _check(Kind.ROW_COUNT, value=required.height),
            _check(Kind.NOT_NULL, "unit_database", about="the required unit exists"),
            _check(Kind.NOT_NULL, "registered_database", about="its database is in the registry"),
            _check(Kind.NOT_NULL, "allowlisted", about="its database is in the task's allowlist"),
            _check(
                Kind.EQUAL, "unit_database", "registered_database", about="the public id is that of the unit's database"
            ),
            _check(Kind.EQUAL, "corpus", "unit_corpus", about="a task never mixes corpora"),
            _true("usable", "no disqualifying flag"),
        ),
        ("task_id", "unit_id", "database_id"),
    )


def _parts(contracts: pl.DataFrame) -> Suite:
    """One row for each id that an edge, a binding or a branch names: the contract must hold it."""
    parts = []
    for part, column, field, within in (
        ("edge source", "edges", "source", "databases"),
        ("edge target", "edges", "target", "databases"),
        ("binding upstream", "bindings", "upstream_unit", "unit_ids"),
        ("binding downstream", "bindings", "downstream_unit", "unit_ids"),
        ("branch", "branches", "unit_id", "unit_ids"),
    ):
        named = pl.col(column).list.eval(pl.element().struct.field(field)).alias("named")
        parts.append(
            contracts.select("task_id", pl.lit(part).alias("part"), named, pl.col(within).alias("held"))
            .explode("named")
            .filter(pl.col("named").is_not_null())
            .with_columns(pl.col("held").list.contains(pl.col("named")).alias("in_contract"))
            .drop("held")
        )
    frame = pl.concat(parts)
    return Suite(
        "contracts.parts",
        frame,
        (
            _check(Kind.ROW_COUNT, value=frame.height),
            _true("in_contract", "edges join required databases; bindings and branches name required units"),
        ),
        ("task_id", "part", "named"),
    )


def _tasks(
    tasks: pl.DataFrame, contracts: pl.DataFrame, databases: pl.DataFrame, wanted: Mapping[str, int]
) -> list[Suite]:
    held = contracts.select("task_id", pl.col("databases").list.len().alias("required"))
    frame = tasks.join(held, on="task_id", how="left").with_columns(
        (pl.col("allowlist").list.n_unique() == pl.col("allowlist").list.len()).alias("distinct"),
        (pl.col("allowlist").list.len() > pl.col("required")).alias("has_distractor"),
    )
    more = (
        _check(Kind.NOT_NULL, "required", about="the task has a contract"),
        _check(Kind.MATCHES, "request", value=r"\S", about="the request says something"),
        _true("distinct", "no database twice in an allowlist"),
        _true("has_distractor", "at least one database that is not required"),
    )
    registry = databases.select("database_id", pl.col("corpus").alias("registered_corpus"))
    allowlists = tasks.select("task_id", "corpus", pl.col("allowlist").alias("database_id")).explode("database_id")
    return [
        suite_of(TASKS, frame, wanted[TASKS.name], {"corpus": _CORPORA}, None, more),
        Suite(
            "tasks.allowlists",
            allowlists.join(registry, on="database_id", how="left"),
            (
                _check(Kind.ROW_COUNT, value=allowlists.height),
                _check(Kind.NOT_NULL, "registered_corpus", about="every allowlisted id is in the registry"),
                _check(Kind.EQUAL, "corpus", "registered_corpus", about="an allowlist never mixes corpora"),
            ),
            ("task_id", "database_id"),
        ),
    ]


def _candidates(
    rejected: pl.DataFrame, contracts: pl.DataFrame, units: pl.DataFrame, wanted: Mapping[str, int]
) -> list[Suite]:
    """Accepted and rejected candidates together, one row each."""
    rows = [
        {"outcome": outcome, "corpus": r["corpus"], "behavior": r["behavior"], "unit_ids": r["unit_ids"], **extra(r)}
        for outcome, frame, extra in (
            ("accepted", contracts, lambda r: {"candidate_id": _candidate_id(r), "gate": "", "reason": ""}),
            ("rejected", rejected, lambda r: {n: r[n] for n in ("candidate_id", "gate", "reason")}),
        )
        for r in frame.iter_rows(named=True)
    ]
    for row in rows:
        known = row["unit_ids"] is not None and None not in row["unit_ids"]
        row["expected_id"] = _candidate_id(row) if known else None
        row["unit_set"] = "\x1f".join(sorted(row["unit_ids"])) if known else None
    schema = dict.fromkeys(("outcome", "corpus", "behavior", "candidate_id", "gate", "reason", "expected_id", "unit_set"), pl.String)  # fmt: skip
    frame = pl.DataFrame(rows, {**schema, "unit_ids": pl.List(pl.String)}, orient="row")
    accepted = frame.filter(pl.col("outcome") == "accepted")
    named = frame.select("candidate_id", pl.col("unit_ids").alias("unit_id")).explode("unit_id")
    known_units = units.select("unit_id", pl.col("corpus").alias("unit_corpus"))
    refused = frame.filter(pl.col("outcome") == "rejected").with_columns(
        (~pl.col("candidate_id").is_in(accepted["candidate_id"].to_list())).alias("not_accepted")
    )
    return [
        Suite(
            "candidates",
            frame,
            (
                _check(Kind.ROW_COUNT, value=wanted[CONTRACTS.name] + wanted[REJECTED.name]),
                *(_check(Kind.NOT_NULL, name) for name in frame.columns),
                _check(Kind.UNIQUE, "candidate_id", "gate", about="no candidate is told twice"),
                _check(Kind.ALLOWED, "corpus", value=_CORPORA),
                _check(Kind.ALLOWED, "behavior", value=frozenset(Behavior)),
                _check(Kind.EQUAL, "candidate_id", "expected_id", about="the id is the digest of behavior and units"),
            ),
            ("candidate_id", "outcome"),
        ),
        Suite(
            "candidates.accepted",
            accepted,
            (
                _check(Kind.ROW_COUNT, value=wanted[CONTRACTS.name]),
                _check(Kind.UNIQUE, "unit_set", about="no two tasks have the same units"),
            ),
            ("candidate_id",),
        ),
        Suite(
            REJECTED.stage,
            refused,
            (
                _check(Kind.ROW_COUNT, REJECTED.name, value=wanted[REJECTED.name]),
                _check(Kind.ALLOWED, "gate", value=REFUSING, about="a named gate refused it"),
                _check(Kind.MATCHES, "reason", value=r"\S", about="with its reason"),
                _true("not_accepted", "a refused candidate is no task"),
            ),
            ("candidate_id", "gate"),
        ),
        Suite(
            "candidates.units",
            named.join(known_units, on="unit_id", how="left"),
            (
                _check(Kind.ROW_COUNT, value=named.height),
                _check(Kind.NOT_NULL, "unit_corpus", about="every unit of a candidate exists"),
            ),
            ("candidate_id", "unit_id"),
        ),
    ]


def _candidate_id(row: Mapping[str, Any]) -> str:
    """As `contract.Candidate.candidate_id` has it."""
    return digest([row["behavior"], sorted(row["unit_ids"])])
