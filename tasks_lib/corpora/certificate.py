"""PRIVATE. The gold certificate of whole corpora: every usable gold, submitted as a prediction, is correct, twice (PROTOCOL 4, 11).

Belongs here: running usable golds anew, apart from what the audit ran, and what does not hold. Does not belong here: which
units are usable (`flags`), and the certificate of a run, which covers the units of its release (`evaluation.gold`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks_lib.corpora.cards import handle
from tasks_lib.corpora.flags import DISQUALIFYING
from tasks_lib.corpora.model import CorpusSource
from tasks_lib.corpora.units import Runner
from tasks_lib.protocol.records import DatabaseHandle
from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.sql.comparators import compare
from tasks_lib.sql.execute import Execution

_CONCURRENCY = 8


@dataclass(frozen=True)
class GoldCertificate:
    """What was proven of one corpus.

    units: all audited. usable: without a disqualifying flag. certified: usable ones whose gold scored correct in every round with
    the bytes the audit recorded. executions: distinct (database, SQL) that a round runs. faults: one sentence each, in unit order.
    """

    corpus: Corpus
    units: int
    usable: int
    certified: int
    executions: int
    rounds: int
    faults: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.faults

    def as_json(self) -> dict[str, Any]:
        """The fields of `dsabench units --certify --json`."""
        return {
            "units": self.units,
            "usable": self.usable,
            "certified": self.certified,
            "executions_a_round": self.executions,
            "rounds": self.rounds,
            "faults": list(self.faults),
        }


async def certify(source: CorpusSource, rows: Iterable[Mapping[str, Any]], rounds: Sequence[Runner]) -> GoldCertificate:
    """Run every usable gold of `rows` (of the table `units`) once with each runner and judge it against itself.

    Each runner needs a ledger of its own, empty at the start: what is proven is that executing again gives the same bytes. The
    first round's result is the gold, every round's is a prediction, and each must have the digest that the audit recorded.

    Raises what a runner raises for a database that is missing or damaged.
    """
    databases = {database.name: handle(database, database.name) for database in source.databases}
    listed = list(rows)
    usable = [row for row in listed if not set(row["flags"]) & DISQUALIFYING]
    found: dict[str, str] = {}
    queue = iter(usable)

    async def work() -> None:
        for row in queue:
            fault = await _fault(source.corpus, databases[row["database"]], row, rounds)
            if fault:
                found[row["unit_id"]] = fault

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(_CONCURRENCY):
                group.create_task(work())
    except BaseExceptionGroup as raised:
        raise raised.exceptions[0] from None
    faults = tuple(found[row["unit_id"]] for row in usable if row["unit_id"] in found)
    distinct = len({(row["database"], row["sql"]) for row in usable})
    return GoldCertificate(
        source.corpus, len(listed), len(usable), len(usable) - len(faults), distinct, len(rounds), faults
    )


async def _fault(corpus: Corpus, at: DatabaseHandle, row: Mapping[str, Any], rounds: Sequence[Runner]) -> str:
    """What does not hold for one unit, or ""."""
    unit = row["unit_id"]
    gold: Execution | None = None
    for number, runner in enumerate(rounds, 1):
        done = await runner.run(at, row["sql"])
        if done.result is None:
            return f"the gold of {unit} ended in {done.kind} in round {number} ({done.error}); the audit had a result."
        if done.digest != row["result_digest"]:
            return (
                f"the gold of {unit} gave digest {done.digest[:12]} in round {number}, expected {row['result_digest'][:12]} "
                "as audited."
            )
        gold = gold or done
        assert gold.result is not None
        if not compare(corpus, gold.result, done.result, row["ordered"]).equal:
            return f"the gold of {unit} is not correct against itself in round {number}."
    return ""
