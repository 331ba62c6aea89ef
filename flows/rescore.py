"""Rescore: the verdicts, episodes and tables of a recorded run anew from its stored outputs, under the comparators of today.

The ledger is sealed meanwhile: what is not stored is refused, so that a rescore that ends well has made no model call and no SQL
execution. The run's record then names the new tables; a rescore that is refused leaves the record as it was.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Annotated, Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from pydantic import Field

from flows import runs
from flows.cell import cell_done, score_cell
from flows.explain import Known, known_of, only_judged, recorded, save_keys
from flows.factorial import published
from flows.results import ensure_disagreement
from flows.runtime import say
from flows.wanted import ChainKeys, RunSpec, cell_key, chain_keys, recorded_chains, wanted_tasks
from tasks_lib.evaluation.rejudging import Rejudged, Rejudging, judge_again
from tasks_lib.models.transcripts import KIND as MODEL_CALL
from tasks_lib.protocol.vocabulary import DataAgent, Router
from tasks_lib.scoring.cells import parse
from tasks_lib.sql.comparators import COMPARATOR_VERSION
from tasks_lib.sql.execute import LEDGER_KIND as SQL_EXECUTION
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.keys import KeyFields, artifact_key, code_digest, noted_keys
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.sealed import NotStored
from tasks_lib.store.settings import settings
from tasks_lib.store.tasks import worker_pool

JUDGE_CODE = ("tasks_lib/evaluation", "tasks_lib/sql", "tasks_lib/protocol")
Chains = dict[tuple[str, Router], ChainKeys]


class RescoreRefused(RuntimeError):
    """The stored outputs of a run do not suffice for its verdicts of today."""


def rescored_key(run: RunSpec, backend: str, router: Router, agent: DataAgent, chain: ChainKeys, known: Known) -> str:
    """Key of the contributions judged anew.

    It is the key that a run of today would look for when that differs in comparators alone, the old key when it does not differ at
    all, and one of its own when other code or a layer changed: a run then has to make that table itself.
    """
    before = chain.contributions[agent]
    with noted_keys() as noted:
        now = chain_keys(run, run.backend(backend), router)
    after = now.contributions[agent]
    if after == before or only_judged(before, after, known, known_of(noted)):
        return after
    versions = {str(corpus): version for corpus, version in COMPARATOR_VERSION.items()}
    params = {"comparators": versions, "agent": agent, "code": code_digest(*JUDGE_CODE)}
    return artifact_key(
        "rescored_contributions@1", {**chain.inputs(), "stored": before, "release": run.manifest}, params
    )


async def judged(
    run: RunSpec, chains: Chains, keys: Mapping[tuple[str, Router, DataAgent], str], invocation: str
) -> list[Rejudged]:
    """Every table of contributions judged anew, in worker processes. Raises RescoreRefused naming what is not stored."""
    loop, where, tasks = asyncio.get_running_loop(), settings(), tuple(wanted_tasks(run))
    work = [
        loop.run_in_executor(
            worker_pool(),
            judge_again,
            Rejudging(
                run.release,
                backend,
                str(router),
                str(agent),
                tasks,
                chains[(backend, router)].inputs(),
                chains[(backend, router)].contributions[agent],
                key,
                where.resolved_store_url,
                where.resolved_ledger_url,
                invocation,
            ),
        )
        for (backend, router, agent), key in keys.items()
    ]
    found = await asyncio.gather(*work, return_exceptions=True)
    refused = [e for e in found if isinstance(e, NotStored | FileNotFoundError)]
    other = [e for e in found if isinstance(e, BaseException) and not isinstance(e, NotStored | FileNotFoundError)]
    if other:
        raise other[0]
    if refused:
        kinds = Counter(e.kind if isinstance(e, NotStored) else "layer" for e in refused)
        counts = ", ".join(
            f"{kinds[k]} {k.replace('_', ' ')}s" for k in (MODEL_CALL, SQL_EXECUTION, "layer") if kinds[k]
        )
        raise RescoreRefused(
            f"run {run.run_id} cannot be rescored from what is stored: {len(refused)} of {len(found)} contribution tables stop at "
            f"missing items (at least {counts}; first: {refused[0]}); nothing was made and nothing changed, `dsabench run` makes them."
        )
    return [e for e in found if isinstance(e, Rejudged)]


async def run_rescore(run_id: str = "") -> dict[str, Any]:
    """Rescore a recorded run and write its record; the fields of `dsabench rescore --json`.

    Raises RunUnknown, RunBusy, and RescoreRefused, also when a model call or an execution was booked meanwhile.
    """
    run, record = runs.load(run_id)
    with runs.alone(run.run_id):
        return await _rescored(run, record)


async def _rescored(run: RunSpec, record: dict[str, Any]) -> dict[str, Any]:
    chains = recorded_chains(record)
    if not chains or not record.get("cell_keys"):
        raise runs.RunUnknown(
            f"run {run.run_id} has no scored cells, expected a run with some; resume it with `dsabench run`."
        )
    invocation = f"rescore:{uuid.uuid4().hex[:8]}"
    known, _ = recorded(run.run_id)
    noted: dict[str, KeyFields]
    with noted_keys() as noted:
        keys = {
            (b, r, a): rescored_key(run, b, r, a, chain, known) for (b, r), chain in chains.items() for a in DataAgent
        }
    say(f"rescore {run.run_id}: {len(keys)} tables of contributions")
    outcomes = await judged(run, chains, keys, invocation)
    made: Chains = {
        (b, r): replace(chain, contributions={a: keys[(b, r, a)] for a in chain.contributions})
        for (b, r), chain in chains.items()
    }
    cells = [parse(c) for c in record["cell_keys"]]
    store = ArtifactStore(settings().resolved_store_url)
    with noted_keys() as scored:
        cell_keys = {c.cell_id: cell_key(run, c, made[(c.backend, c.router)]) for c in cells}
    todo = [c for c in cells if not cell_done(store, cell_keys[c.cell_id])]
    say(f"rescore {run.run_id}: {len(todo)} of {len(cells)} cells to score")
    for cell in todo:
        score_cell(run, cell, made[(cell.backend, cell.router)])
    changed = {
        "cell_keys": cell_keys,
        "chains": {f"{b} {r}": asdict(chain) for (b, r), chain in made.items()},
        **published(run, cells, cell_keys),
    }
    if record.get("disagreement_key"):  # it rests on the verdicts
        changed["disagreement_key"] = ensure_disagreement(run, {**record, **changed})
    counters = _counted(run, invocation)
    moved = sum((Counter(dict(o.changed)) for o in outcomes), Counter[tuple[str, str]]())
    summary = {
        "verdicts": sum(o.verdicts for o in outcomes),
        "verdicts_changed": moved.total(),
        "changes": {f"{a} → {b}": n for (a, b), n in sorted(moved.items())},
        "cells_scored": len(todo),
        "model_calls_made": counters[MODEL_CALL],
        "sql_executions_made": counters[SQL_EXECUTION],
    }
    record |= {**changed, "rescored": {**summary, "from": record.get("metrics_key", "")}}
    save_keys(run.run_id, cell_keys, {**noted, **scored}, known)
    runs.save(run.run_id, record)
    return {"run": run.run_id, "status": "completed", "cells": len(cells), **summary}


def _counted(run: RunSpec, invocation: str) -> dict[str, int]:
    """What the ledger booked under this rescore, which must be nothing. Raises RescoreRefused."""
    ledger = Ledger(settings().resolved_ledger_url)
    try:
        counters = {kind: ledger.count(kind, invocation) for kind in (MODEL_CALL, SQL_EXECUTION)}
    finally:
        ledger.close()
    if any(counters.values()):
        raise RescoreRefused(
            f"rescoring {run.run_id} booked {counters[MODEL_CALL]} model calls and {counters[SQL_EXECUTION]} SQL executions, expected "
            "none: its tables would not rest on stored outputs alone; its record stays as it was."
        )
    return counters


@flow(name="rescore", flow_run_name="rescore {run}")
async def rescore(run: Annotated[str, Field(strict=True)] = "") -> dict[str, Any]:
    """Recompute the verdicts, episodes and tables of a run from stored outputs, without any model call or SQL execution.

    Args:
        run: Id of the run; empty means the last one.
    """
    found = await run_rescore(run)
    lines = "\n".join(f"- {name}: {value}" for name, value in found.items())
    await create_markdown_artifact(lines, key="rescore")  # type: ignore[misc]
    return found
