"""One cell of a run as if nobody shared: its layers alone, made from an empty store and an empty ledger. No expectations here.

The run's own code makes them, told to ask, plan, write and run only what the cell joins: its data agent, planner and query mode; no
question under Never; under Once the clarified row, not the initial one, where an answer was released.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from flows import layers
from flows.counts import lineages
from flows.layers import ensure_chain
from flows.wanted import RunSpec, recorded_chains
from tasks_lib.evaluation import drive
from tasks_lib.evaluation import layer as evaluation_layer
from tasks_lib.evaluation.inputs import load
from tasks_lib.execution.planner import PlanOutcome
from tasks_lib.models.transcripts import KIND as MODEL_CALL
from tasks_lib.protocol.records import Cell, PlanResult
from tasks_lib.protocol.vocabulary import Interaction, Planner
from tasks_lib.scoring.layers import cell_keys
from tasks_lib.sql.execute import LEDGER_KIND as SQL_EXECUTION
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.jobs import Job, perform
from tasks_lib.store.ledgers import Ledger, items


@dataclass(frozen=True)
class Apart:
    """Ledger keys of a cell: `calls` and `executions` by its lineage in the run; `made` those that it made from nothing, by kind.

    `gold`: executions of gold queries, which verdicts need and which are no cell's own.
    """

    calls: set[str]
    executions: set[str]
    made: Mapping[str, set[str]]
    gold: set[str]


def apart(run: RunSpec, record: Mapping[str, Any], cell: Cell, folder: Path) -> Apart:
    """Make one cell's layers in an empty folder. The settings must point at the home of the run that `record` is of."""
    ((_, found),) = lineages([cell], recorded_chains(record))
    calls, executions = cell_keys(found, cell)
    ledger_url = f"sqlite:///{folder / 'ledger.sqlite'}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSABENCH_STORE_URL", str(folder / "store"))
        patch.setenv("DSABENCH_LEDGER_URL", ledger_url)
        _only(patch, cell)
        asyncio.run(ensure_chain(run, run.backend(cell.backend), cell.router, "apart"))
    ledger = Ledger(ledger_url)
    try:
        made = {kind: _keys(ledger, kind) for kind in (MODEL_CALL, SQL_EXECUTION)}
        gold = asyncio.run(_gold(run, ledger))
    finally:
        ledger.close()
    return Apart(calls, executions, made, gold)


def _only(patch: pytest.MonkeyPatch, cell: Cell) -> None:
    """Have the code of the layers do what the cell joins, in this process."""
    once = cell.interaction is Interaction.ONCE
    whole = drive.attempts_of

    async def ensure(stage: object, job: Job, label: str, here: bool) -> str:
        if job.table == "asks" and not once:
            job = replace(job, arguments={**job.arguments, "task_ids": []})
        await perform(job)
        return job.key

    def attempts(*rows: Iterable[Any]) -> list[drive.Attempt]:
        found = whole(*rows)
        answered = {(a.contract.task_id, a.branch_id) for a in found if a.state == "clarified"}
        return [a for a in found if a.state == "clarified" or (a.contract.task_id, a.branch_id) not in answered]

    async def unplanned(*arguments: object) -> PlanOutcome:
        return PlanOutcome(PlanResult((), (), False, 0), ())

    patch.setattr(layers, "ensure", ensure)
    patch.setattr(layers, "DataAgent", (cell.data_agent,))
    patch.setattr(drive, "QueryMode", (cell.query_mode,))
    patch.setattr(drive, "Planner", (cell.planner,))
    patch.setattr(evaluation_layer, "attempts_of", attempts)
    if cell.planner is Planner.ORACLE:
        patch.setattr(evaluation_layer, "llm_planner", SimpleNamespace(plan=unplanned))


def _keys(ledger: Ledger, kind: str) -> set[str]:
    with ledger.engine.connect() as connection:
        return set(connection.execute(sa.select(items.c.key).where(items.c.kind == kind)).scalars())


async def _gold(run: RunSpec, ledger: Ledger) -> set[str]:
    """Keys of the executions of gold queries: those that were made are answered from the ledger."""
    inputs = load(run.release)
    async with SqlRunner(ledger) as runner:
        return {(await runner.run(inputs.handles[u.database_id], u.sql, {})).key for u in inputs.gold_units}
