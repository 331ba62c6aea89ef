"""PRIVATE. Building a release from corpora and a profile: synthesis, catalog, audits of the wording, documents, one publish.

Two builds from equal inputs and seed are equal byte for byte. Does not belong here: what makes a task (`synthesis`), the content
of the catalog, folders and hashes (`release`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

import polars as pl

from tasks_lib.catalog import routedb
from tasks_lib.catalog.enrichment import enrich
from tasks_lib.catalog.identities import Identities
from tasks_lib.contracts import gates
from tasks_lib.contracts.contract import Unit, to_row
from tasks_lib.contracts.datasheet import band, cues_of, documents
from tasks_lib.contracts.distractors import Neighbourhood
from tasks_lib.contracts.pool import Pool
from tasks_lib.contracts.profiles import Profile
from tasks_lib.contracts.proposals import Bench
from tasks_lib.contracts.release import VERSION, check_out, counts, figures, publish
from tasks_lib.contracts.release_facts import Facts
from tasks_lib.contracts.review.summary import NOBODY
from tasks_lib.contracts.suites import CHECKED, check_tables
from tasks_lib.contracts.synthesis import Yield, synthesize
from tasks_lib.contracts.unstated import task_rows
from tasks_lib.contracts.wording import Wording
from tasks_lib.corpora.cards import schema_text
from tasks_lib.corpora.model import CorpusDatabase, CorpusSource
from tasks_lib.models.chat import ChatModel
from tasks_lib.models.embeddings import truncated_tokens
from tasks_lib.protocol.records import DatabaseHandle, PublicTask
from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.keys import digest, sha256_file
from tasks_lib.store.schemas import (
    CAT_CARDS,
    CAT_RERANKER,
    CONTRACTS,
    DATABASES,
    GATES,
    REJECTED,
    RERANKER_UNITS,
    TABLES,
    TASKS,
    TEXTS,
    UNITS,
    UNSTATED,
    WORDINGS,
    Table,
)

Fit = Callable[
    [dict[str, Any], Sequence[Mapping[str, Any]], Mapping[tuple[str, str], str], Collection[str]], tuple[Any, Any]
]
"""(catalog rows by table, rows of `units`, public ids, units of the tasks) -> rows of `cat_reranker` and `reranker_units`."""
UnitRows = pl.DataFrame | Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class BuildReport:
    """What a build gave. `rejected`: gate -> candidates. `shortfall`: corpus -> behavior -> tasks missing from the target.

    by_corpus, by_behavior, by_difficulty, by_required (databases in the target list, in the bands of PROTOCOL 2): counts of
    tasks. allowlist: least, most and mean size in databases. truncated_tokens: tokens of the catalog's cards that MiniLM would not
    read (a build fails unless it is 0). `release`: the folder. `manifest_sha256`: its identity. `seconds`:
    wall time.
    """

    release: str
    tasks: int
    by_corpus: dict[str, int]
    by_behavior: dict[str, int]
    by_difficulty: dict[str, int]
    by_required: dict[str, int]
    required_mean: float
    allowlist: dict[str, float]
    candidates: int
    rejected: dict[str, int]
    shortfall: dict[str, dict[str, int]]
    truncated_tokens: int
    seconds: float
    manifest_sha256: str
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
    renderer: ChatModel | None = None,
    docs: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
    fit: Fit | None = None,
    enricher: ChatModel | None = None,
) -> BuildReport:
    """Build a release into `out`, which appears whole or not at all; an older release there is replaced.

    units_by_corpus: rows of `units`, all audited units of each source. salt: key of the public ids; without one the key is
    derived from sources, profile and seed (ids are then opaque but not secret). Tasks do not depend on the salt. renderer: a
    language model that words the contracts; without one, templates do. fit: fits the weights of the catalog's search; without it,
    the catalog is searched with the fixed ones. docs: folder for the data docs of the table suites,
    which hold gold. enricher: a language model that adds a paragraph to the catalog's card of each database; without one, none
    is added. say: told what is being done, a line a phase.

    Raises:
        QualityFailed: a table breaks its suite; nothing is published.
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
    pools: dict[Corpus, Pool] = {}
    for source in ordered:
        corpus = source.corpus
        pool = pools[corpus] = Pool(source.databases, map(Unit.from_row, unit_rows[corpus]), order_key)
        public_ids = {database.name: identities.database(corpus, database.name) for database in source.databases}
        handles = {d.name: _gate_handle(d, public_ids[d.name]) for d in source.databases}
        bench = Bench(pool, Neighbourhood(pool), runner, handles)
        say(f"synthesis of {corpus.value}: {len(pool.units)} usable units, {sum(wanted[corpus].values())} tasks wanted")
        yields[corpus] = await synthesize(bench, profile, wanted[corpus], public_ids, id_key, renderer)
    databases = [database for source in ordered for database in source.databases]
    say(f"catalog of {len(databases)} databases")
    tables: dict[str, tuple[Table, Any]] = {
        "public/tasks.parquet": (TASKS, [_task_row(task) for found in yields.values() for task in found.tasks]),
        "private/contracts.parquet": (CONTRACTS, [to_row(c) for found in yields.values() for c in found.contracts]),
        "private/units.parquet": (UNITS, [row for rows in unit_rows.values() for row in rows]),
        "private/databases.parquet": (DATABASES, [_database_row(d, identities) for d in databases]),
        "private/texts.parquet": (TEXTS, [asdict(text) for source in ordered for text in source.texts]),
        "private/rejected.parquet": (REJECTED, [row for found in yields.values() for row in found.rejected]),
        "private/wordings.parquet": (
            WORDINGS,
            [_wording_row(t, w) for y in yields.values() for t, w in y.wordings.items()],
        ),
        "private/gates.parquet": (GATES, [row for corpus, y in yields.items() for row in _gate_rows(corpus, y)]),
    }
    contracts = [contract for found in yields.values() for contract in found.contracts]
    catalog = routedb.build(
        databases, identities, lambda database: runner.connection_of(database.path, database.digest)
    )
    if enricher is not None:
        left = await enrich(catalog, enricher, [database.name for database in databases])
        say(
            f"{enricher.spec.name} wrote of {len(databases) - len(left)} databases; {len(left)} have no accepted paragraph"
        )
    truncated = truncated_tokens([card["text"] for card in catalog[CAT_CARDS.name]])
    if truncated:
        raise ValueError(
            f"the catalog's cards hold {truncated} tokens that MiniLM would not read, expected 0; cut them with embeddings.chunks."
        )
    if fit is not None:
        used = {unit for contract in contracts for unit in contract.unit_ids}
        known = {(d.corpus.value, d.name): identities.database(d.corpus, d.name) for d in databases}
        weights, record = fit(catalog, tables["private/units.parquet"][1], known, used)
        catalog[CAT_RERANKER.name] = weights
        tables["private/reranker_units.parquet"] = (RERANKER_UNITS, record)
    for name, rows in catalog.items():
        tables[f"public/catalog/{name}.parquet"] = (TABLES[name], rows)
    tasks = {task.task_id: task for found in yields.values() for task in found.tasks}
    shortfall = {c.value: {b.value: n for b, n in y.shortfall.items()} for c, y in yields.items() if y.shortfall}
    unstated = [row for corpus, pool in pools.items() for row in _unstated_rows(yields[corpus], pool)]
    tables["private/unstated.parquet"] = (UNSTATED, unstated)
    facts = Facts(
        profile=profile.name,
        seed=seed,
        version=VERSION,
        contracts=contracts,
        tasks=tasks,
        units=tables["private/units.parquet"][1],
        databases=tables["private/databases.parquet"][1],
        gates=tables["private/gates.parquet"][1],
        unstated=unstated,
        wordings=tables["private/wordings.parquet"][1],
        cues=cues_of(contracts, tasks),
        statement=NOBODY,
        parents=parents,
        shortfall=shortfall,
    )
    manifest: dict[str, Any] = {
        "version": VERSION,
        "profile": profile.name,
        "seed": seed,
        "salted": salt is not None,
        "parents": parents,
        "origins": {s.corpus.value: counts(d.origin for d in s.databases) for s in ordered},
        "shortfall": shortfall,
        "truncated_tokens": truncated,
        "cues": {name: facts.cues[name] for name in ("balanced_accuracy", "chance", "cue_share")},
        **figures(contracts),
    }
    say("audits of the wording, suites over the tables, documents")
    checked = {table.name: rows for table, rows in tables.values() if table in CHECKED}
    wanted_rows = {name: len(rows) for name, rows in checked.items()}
    wanted_rows |= dict.fromkeys((CONTRACTS.name, TASKS.name), manifest["tasks"])
    check_tables(checked, wanted_rows | {DATABASES.name: len(databases)}, docs)
    publish(out, tables, documents(facts), manifest, locations(ordered))
    sizes = [len(task.allowlist) for task in tasks.values()]
    return BuildReport(
        release=str(out),
        tasks=len(contracts),
        by_corpus=counts(c.corpus.value for c in contracts),
        by_behavior=counts(c.behavior.value for c in contracts),
        by_difficulty=counts(c.difficulty.value for c in contracts),
        by_required=counts(band(len(c.databases)) for c in contracts),
        required_mean=round(mean(len(c.databases) for c in contracts), 4) if contracts else 0.0,
        allowlist={"min": min(sizes), "max": max(sizes), "mean": round(mean(sizes), 4)} if sizes else {},
        candidates=sum(found.candidates for found in yields.values()),
        rejected=counts(row["gate"] for found in yields.values() for row in found.rejected),
        shortfall=shortfall,
        truncated_tokens=truncated,
        seconds=round(time.monotonic() - started, 3),
        manifest_sha256=sha256_file(out / "manifest.json"),
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
    check_out(out)


def _rows(units: UnitRows) -> list[dict[str, Any]]:
    found = units.to_dicts() if isinstance(units, pl.DataFrame) else [dict(row) for row in units]
    return sorted(found, key=lambda row: str(row["unit_id"]))


def _gate_handle(database: CorpusDatabase, public_id: str) -> DatabaseHandle:
    return DatabaseHandle(
        public_id, database.corpus, database.engine, str(database.path), database.digest, schema_text=""
    )


def _wording_row(task_id: str, wording: Wording) -> dict[str, Any]:
    return {
        "task_id": task_id,
        "renderer": wording.renderer,
        "template": wording.template,
        "contributions": [{"unit_id": unit_id, "words": words} for unit_id, words in wording.contributions],
    }


def _gate_rows(corpus: Corpus, found: Yield) -> list[dict[str, Any]]:
    order = ["wording", *gates.NAMES]
    return [
        {
            "corpus": corpus.value,
            "behavior": behavior.value,
            "gate": gate,
            "position": order.index(gate),
            "passed": passed,
            "refused": refused,
        }
        for (behavior, gate), (passed, refused) in found.gates.items()
    ]


def _unstated_rows(found: Yield, pool: Pool) -> list[dict[str, Any]]:
    units = {unit.unit_id: unit for unit in pool.all_units}
    rows = []
    for contract, task in zip(found.contracts, found.tasks, strict=True):
        position: Counter[str] = Counter()
        for row in task_rows(contract, task.request, units, pool.databases):
            rows.append({**row, "position": position[row["unit_id"]]})
            position[row["unit_id"]] += 1
    return rows


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


def locations(sources: Sequence[CorpusSource]) -> dict[str, Any]:
    """Where the files of each corpus lie on this machine: the content of `private/locations.json`."""
    return {
        source.corpus.value: {
            "root": str(source.root.resolve()),
            "engine": source.databases[0].engine.value,
            "databases": len(source.databases),
        }
        for source in sources
    }
