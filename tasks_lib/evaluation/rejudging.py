"""PRIVATE. Verdicts anew from stored outputs: the SQL as it was written, the executions as they ended, the comparators of today.

The driver is the one that ran them, so that a verdict which changes what may be bound downstream is followed up like any other;
what it then wants and is not stored is refused, never made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from tasks_lib.evaluation.drive import Attempt, Driver, attempts_of
from tasks_lib.evaluation.gold import Gold, GoldUnit
from tasks_lib.evaluation.inputs import load
from tasks_lib.execution.drafts import SqlDraft
from tasks_lib.models.transcripts import KIND as MODEL_CALL
from tasks_lib.protocol.records import DatabaseHandle, LocalRequest
from tasks_lib.protocol.vocabulary import Behavior, DataAgent, Planner, VerdictKind
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.artifacts import ArtifactStore, conform
from tasks_lib.store.schemas import ASKS, CONTRIBUTIONS, PLANS, RELEASES, ROUTES
from tasks_lib.store.sealed import NotStored, SealedLedger

Row = Mapping[str, Any]


class VerdictsDiffer(RuntimeError):
    """Stored outputs under the same comparators give other verdicts than the recorded ones."""


class StoredWriter:
    """Gives back the SQL that stored contributions of one planner and one state hold."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = {
            (r["query_mode"], r["task_id"], r["branch_id"], r["unit_id"]): r for r in rows if r["request_text"]
        }

    async def __call__(self, request: LocalRequest, handle: DatabaseHandle, unit: GoldUnit) -> SqlDraft:
        """The stored draft. Raises NotStored when nothing was written, or for another text."""
        row = self._rows.get((str(request.mode), request.task_id, request.branch_id, unit.unit_id))
        if row is None or row["request_text"] != request.text:
            found = "none was written" if row is None else "it was written for another text"
            raise NotStored(
                f"the SQL of {unit.unit_id} in task {request.task_id} ({request.mode}) is wanted, but {found}",
                MODEL_CALL,
            )
        trials = row["executions"][:-1] if row["execution"] else row["executions"]
        sql, kind = (row["sql"], None) if row["sql"] else (None, VerdictKind(row["kind"]))
        return SqlDraft(sql, kind, "", tuple(row["calls"]), tuple(trials))


@dataclass(frozen=True)
class Rejudging:
    """One table of contributions to judge anew. `stored`: its key; `key`: of the new one; `keys`: of the layers it rests on.
    `invocation`: under which a ledger would book what is made.

    Crosses process borders: keys, paths and plain values only.
    """

    folder: str
    backend: str
    router: str
    data_agent: str
    task_ids: tuple[str, ...]
    keys: Mapping[str, str]
    stored: str
    key: str
    store_url: str
    ledger_url: str
    invocation: str


@dataclass(frozen=True)
class Rejudged:
    """`verdicts`: rows judged; `changed`: rows of another kind than before, as {(before, after): rows}."""

    verdicts: int
    changed: Mapping[tuple[str, str], int]


def judge_again(wanted: Rejudging) -> Rejudged:
    """Judge a table anew and write it under its new key; under the old one it must come out equal. For worker processes.

    Raises NotStored, FileNotFoundError (a layer is not done), VerdictsDiffer.
    """
    store = ArtifactStore(wanted.store_url)
    before = store.read(CONTRIBUTIONS, wanted.stored)
    after = pl.from_arrow(conform(CONTRIBUTIONS, asyncio.run(_rows(store, wanted, before.to_dicts()))))
    assert isinstance(after, pl.DataFrame)
    key = list(CONTRIBUTIONS.key)
    both = before.select(*key, "kind").join(
        after.select(*key, "kind"), on=key, how="full", suffix="_after", coalesce=True
    )
    moved = both.filter(pl.col("kind").ne_missing(pl.col("kind_after"))).group_by("kind", "kind_after").len()
    changed = {(str(a), str(b)): n for a, b, n in moved.sort("kind", "kind_after").iter_rows()}
    if wanted.key == wanted.stored:
        if not after.sort(key).equals(before.sort(key)):
            raise VerdictsDiffer(
                f"contributions of {wanted.backend} {wanted.router} {wanted.data_agent} come out otherwise ({changed or 'same kinds'}) "
                "though no comparator changed; the ledger or the release was altered, run `dsabench verify`."
            )
    else:
        store.write(CONTRIBUTIONS, wanted.key, after, inputs={**wanted.keys, "stored": wanted.stored})
    return Rejudged(before.height, changed)


async def _rows(store: ArtifactStore, wanted: Rejudging, stored: Sequence[Row]) -> list[dict[str, Any]]:
    inputs = load(wanted.folder)
    read, keys = store.read, wanted.keys
    attempts = attempts_of(
        [inputs.contracts[t] for t in wanted.task_ids],
        {t: task.request for t, task in inputs.tasks.items()},
        [r for name in ("routes", "clarified") for r in read(ROUTES, keys[name]).iter_rows(named=True)],
        list(read(ASKS, keys["asks"]).iter_rows(named=True)),
        list(read(RELEASES, keys["releases"]).iter_rows(named=True)),
        list(read(PLANS, keys["plans"]).iter_rows(named=True)),
    )
    sealed = SealedLedger(wanted.ledger_url, run=wanted.invocation)
    found: list[dict[str, Any]] = []
    try:
        async with SqlRunner(sealed) as runner:
            gold = Gold(inputs.gold_units, inputs.handles, runner)
            for state, planner, part in _parts(attempts):
                shown = [r for r in stored if r["state"] == state and r["planner"] == (planner or Planner.ORACLE)]
                driver = Driver(gold, runner, StoredWriter(shown))
                rows = await driver.contributions(wanted.backend, wanted.router, DataAgent(wanted.data_agent), part)
                found += [r for r in rows if planner is None or r["planner"] == planner]
    finally:
        sealed.close()
    return found


def _parts(attempts: Sequence[Attempt]) -> list[tuple[str, Planner | None, list[Attempt]]]:
    """(state, planner, attempts): one part for both planners where they change nothing, else one for each of them."""
    parts: list[tuple[str, Planner | None, list[Attempt]]] = []
    for state in sorted({a.state for a in attempts}):
        mine = [a for a in attempts if a.state == state]
        chains = [a for a in mine if a.contract.behavior is Behavior.SEQUENTIAL]
        parts.append((state, None, [a for a in mine if a.contract.behavior is not Behavior.SEQUENTIAL]))
        for planner in Planner:
            alone = [replace(a, plans=dict.fromkeys(Planner, a.plans[planner])) for a in chains]
            parts.append((state, planner, alone))
    return parts
