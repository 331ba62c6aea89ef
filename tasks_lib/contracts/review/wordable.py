"""PRIVATE. Whether a request text may stand for a released task: the wording gates, asked of a release folder alone.

The release holds all that they look up: registry, schemas, units, contracts. No corpus is read and no SQL runs. Does not
belong here: the gates themselves (`contracts.gates`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import polars as pl

from tasks_lib.contracts import gates
from tasks_lib.contracts.contract import Candidate, Unit
from tasks_lib.contracts.distractors import Neighbourhood
from tasks_lib.contracts.pool import Pool
from tasks_lib.contracts.proposals import Bench, Proposal
from tasks_lib.contracts.questions import stands_in
from tasks_lib.contracts.release import Release
from tasks_lib.corpora.model import ColumnInfo, CorpusDatabase, TableInfo
from tasks_lib.protocol.records import Contract
from tasks_lib.protocol.vocabulary import Behavior, Corpus, Engine
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.artifacts import read_file
from tasks_lib.store.schemas import CAT_COLUMNS, CAT_TABLES


class Wordable:
    """Judges request texts for the tasks of one release."""

    def __init__(self, release: Release) -> None:
        self.release = release
        self.tasks = {task.task_id: task for task in release.tasks}
        self._benches: dict[Corpus, Bench] = {}

    def refusal(self, task_id: str, request: str) -> str | None:
        """The first wording gate that refuses `request` for the task, as "gate: reason", or None."""
        contract = self.release.contracts[task_id]
        task = replace(self.tasks[task_id], request=request)
        if not request.strip() or "\n" in request or request != request.strip():
            return "form: the request is empty, has outer blanks or has more than one line."
        if contract.corpus not in self._benches:
            self._benches[contract.corpus] = self._bench(contract.corpus)
        bench = self._benches[contract.corpus]
        registry = self.release.databases.filter(pl.col("corpus") == contract.corpus.value)
        names = dict(zip(registry["database_id"], registry["database"], strict=True))
        proposal = Proposal(
            candidate=self._candidate(contract, bench),
            allowlist=tuple(sorted(names[public] for public in task.allowlist)),
            contract=contract,
            task=task,
            public_ids={name: public for public, name in names.items()},
        )
        found = gates.first_refusal(gates.WORDING, bench, proposal)
        if found is not None:
            return f"{found.gate}: {found.reason}"
        # The gates of synthesis know requests that templates made; a repaired one could also name its branch.
        shown = [branch.value for branch in contract.branches if stands_in(request, branch.value)]
        if contract.behavior is Behavior.INTERACTIVE and shown:
            return f"branches: the request shows {shown[0]!r} and so gives the branch away."
        return None

    def _candidate(self, contract: Contract, bench: Bench) -> Candidate:
        units = {unit.unit_id: unit for unit in bench.pool.all_units}
        unit_of = dict(zip(contract.databases, contract.unit_ids, strict=True))
        return Candidate(
            corpus=contract.corpus,
            behavior=contract.behavior,
            units=tuple(units[unit_id] for unit_id in contract.unit_ids),
            edges=tuple((unit_of[source], unit_of[target]) for source, target in contract.edges),
            bindings=contract.bindings,
            branches=contract.branches,
            slot_question=contract.slot_question,
            aggregation=contract.aggregation,
            theme=contract.theme,
        )

    def _bench(self, corpus: Corpus) -> Bench:
        units = self.release.unit_rows.filter(pl.col("corpus") == corpus.value)
        pool = Pool(self._databases(corpus), map(Unit.from_row, units.iter_rows(named=True)), b"")
        no_sql = cast(SqlRunner, None)  # wording gates run none
        return Bench(pool, Neighbourhood(pool), no_sql, {})

    def _databases(self, corpus: Corpus) -> list[CorpusDatabase]:
        """The corpus's databases as the release knows them: names, titles, tables and columns."""
        catalog = self.release.public / "catalog"
        columns: dict[str, list[ColumnInfo]] = {}
        frame = read_file(CAT_COLUMNS, catalog / "cat_columns.parquet").sort("table_id", "ordinal")
        for row in frame.iter_rows(named=True):
            columns.setdefault(row["table_id"], []).append(ColumnInfo(row["name"], row["type"], row["meaning"]))
        tables: dict[str, list[TableInfo]] = {}
        frame = read_file(CAT_TABLES, catalog / "cat_tables.parquet").sort("database_id", "ordinal")
        for row in frame.iter_rows(named=True):
            info = TableInfo(row["name"], tuple(columns.get(row["table_id"], ())), row["row_count"])
            tables.setdefault(row["database_id"], []).append(info)
        return [
            CorpusDatabase(
                corpus=corpus,
                name=row["database"],
                engine=Engine(row["engine"]),
                path=Path(row["relative_path"]),
                relative_path=row["relative_path"],
                digest=row["digest"],
                origin=row["origin"],
                title=row["title"],
                tables=tuple(tables.get(row["database_id"], ())),
                ddl=row["schema_text"],
                knowledge=row["knowledge"],
            )
            for row in self.release.databases.filter(pl.col("corpus") == corpus.value).iter_rows(named=True)
        ]
