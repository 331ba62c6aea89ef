"""PRIVATE. A release as the evaluation floor uses it: contracts, public tasks, gold units, handles, few-shot pools."""

from __future__ import annotations

from functools import cached_property, lru_cache
from pathlib import Path

from tasks_lib.contracts.release import Release
from tasks_lib.corpora.units import DISQUALIFYING
from tasks_lib.evaluation.gold import GoldUnit
from tasks_lib.evaluation.leaks import Scanner, Withheld
from tasks_lib.execution.drafts import Example
from tasks_lib.execution.examples import Pool, Shown
from tasks_lib.protocol.records import Contract, DatabaseHandle, PublicTask, SourceUnit
from tasks_lib.protocol.vocabulary import Audience, Corpus, Split
from tasks_lib.store.artifacts import read_file
from tasks_lib.store.keys import sha256_file
from tasks_lib.store.schemas import CAT_COLUMNS, CAT_DATABASES, CAT_TABLES


class Inputs:
    """What scoring needs of one verified release; everything is read once and kept."""

    def __init__(self, release: Release) -> None:
        self.release = release

    @cached_property
    def contracts(self) -> dict[str, Contract]:
        return self.release.contracts

    @cached_property
    def tasks(self) -> dict[str, PublicTask]:
        return {t.task_id: t for t in self.release.tasks}

    @property
    def handles(self) -> dict[str, DatabaseHandle]:
        return self.release.handles

    @cached_property
    def descriptions(self) -> dict[str, str]:
        """Public summary of every database, by public id."""
        frame = read_file(CAT_DATABASES, self.release.public / "catalog" / "cat_databases.parquet")
        return dict(frame.select("database_id", "summary").iter_rows())

    @cached_property
    def public_ids(self) -> dict[tuple[Corpus, str], str]:
        """Public id by (corpus, physical name)."""
        rows = self.release.databases.select("corpus", "database", "database_id").iter_rows()
        return {(Corpus(c), d): i for c, d, i in rows}

    @cached_property
    def gold_units(self) -> tuple[GoldUnit, ...]:
        """Required units of all contracts, each once, in id order."""
        wanted = sorted({u for c in self.contracts.values() for u in c.unit_ids})
        return tuple(self._gold(self.release.units[u]) for u in wanted)

    @cached_property
    def usable_units(self) -> tuple[GoldUnit, ...]:
        """Every unit without a disqualifying flag: what the gold certificate covers."""
        return tuple(self._gold(u) for _, u in sorted(self.release.units.items()) if not set(u.flags) & DISQUALIFYING)

    def _gold(self, unit: SourceUnit) -> GoldUnit:
        return GoldUnit(
            unit.unit_id,
            unit.corpus,
            self.public_ids[(unit.corpus, unit.database)],
            unit.question,
            unit.sql,
            unit.evidence,
            unit.ordered,
            unit.result_digest,
        )

    @cached_property
    def _training(self) -> dict[Corpus, Pool]:
        """Every usable training unit as an example, by corpus."""
        found: dict[Corpus, list[Example]] = {c: [] for c in Corpus}
        for unit in self.usable_units:
            if self.release.units[unit.unit_id].split == Split.TRAIN:
                found[unit.corpus].append(Example(unit.question, unit.sql, unit.database_id, unit.unit_id))
        return {c: Pool(examples) for c, examples in found.items()}

    def examples(self, task_id: str) -> Shown:
        """What a task may be shown: training units of its corpus, none of its own units, none of its databases."""
        contract = self.contracts[task_id]
        return self._training[contract.corpus].without(contract.databases, contract.unit_ids)

    @cached_property
    def scanner(self) -> Scanner:
        """The leak scanner of this release."""
        rows = list(self.release.databases.iter_rows(named=True))
        catalog = self.release.public / "catalog"
        shown = read_file(CAT_TABLES, catalog / "cat_tables.parquet")["name"].to_list()
        shown += read_file(CAT_COLUMNS, catalog / "cat_columns.parquet")["name"].to_list()
        gold = {u.unit_id: (u.sql, f"{u.corpus}:{u.database}") for u in self.release.units.values()}
        schemas = {f"{r['corpus']}:{r['database']}": r["schema_text"] for r in rows}
        return Scanner([r["database"] for r in rows], shown, gold, schemas, self._withheld())

    def _withheld(self) -> list[Withheld]:
        """What each task's first prompt must not say: upstream values of sequential tasks, branch values of interactive ones."""
        chains = [c for c in self.contracts.values() if c.bindings]
        # A unit that is downstream here may be asked in full elsewhere.
        open_units = {u for c in chains for u in c.unit_ids if u not in {b.downstream_unit for b in c.bindings}}
        found = []
        for task_id, contract in sorted(self.contracts.items()):
            request = self.tasks[task_id].request
            texts = [(b, b.value) for b in contract.bindings if isinstance(b.value, str)]
            if texts:
                questions = [
                    b.downstream_question.replace("{binding}", value)
                    for b, value in texts
                    if b.downstream_unit not in open_units
                ]
                found.append(Withheld(request, tuple(dict.fromkeys(v for _, v in texts)), tuple(questions)))
            if contract.branches:
                values = tuple(branch.value for branch in contract.branches)
                found.append(Withheld(request, values, (), (Audience.ROUTER,)))
        return found


@lru_cache(maxsize=4)
def _load(folder: str, _manifest: str) -> Inputs:
    return Inputs(Release.load(Path(folder)))


def load(folder: str) -> Inputs:
    """The release in `folder`, verified once a process and manifest. Raises ReleaseDamaged."""
    manifest = Path(folder) / "manifest.json"
    return _load(folder, sha256_file(manifest) if manifest.is_file() else "")
