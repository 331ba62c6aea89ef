"""PRIVATE. Gold at scoring time: the required units of a release, their handles and their executed results.

Gold runs through the same door and ledger as predictions, once, before any prediction is judged; a gold that fails or no
longer gives its recorded digest stops the scoring of its unit before any model is scored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tasks_lib.protocol.records import DatabaseHandle
from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.sql.canonical import CanonicalResult
from tasks_lib.sql.comparators import compare
from tasks_lib.sql.execute import SqlRunner


class GoldFault(RuntimeError):
    """A gold query does not give what the release recorded; nothing that rests on it may be scored."""


@dataclass(frozen=True, slots=True)
class GoldUnit:
    """PRIVATE. One required unit ready for judging. `database_id`: public id of its database."""

    unit_id: str
    corpus: Corpus
    database_id: str
    question: str
    sql: str
    evidence: str
    ordered: bool
    result_digest: str


class Gold:
    """Units by id, handles by public database id, and each unit's canonical result."""

    def __init__(self, units: Iterable[GoldUnit], handles: Mapping[str, DatabaseHandle], runner: SqlRunner) -> None:
        self.units = {u.unit_id: u for u in units}
        self.handles = dict(handles)
        self._runner = runner
        self._results: dict[str, CanonicalResult] = {}

    async def result(self, unit_id: str) -> CanonicalResult:
        """The gold result. Raises GoldFault naming the unit."""
        found = self._results.get(unit_id)
        if found is not None:
            return found
        unit = self.units[unit_id]
        execution = await self._runner.run(self.handles[unit.database_id], unit.sql)
        if execution.kind is not None or execution.result is None:
            raise GoldFault(
                f"gold of {unit_id} ended in {execution.kind} ({execution.error}); rebuild the release on these databases."
            )
        if execution.digest != unit.result_digest:
            raise GoldFault(
                f"gold of {unit_id} gives digest {execution.digest[:12]}, expected {unit.result_digest[:12]} as released; "
                "the database was changed, restore it or rebuild the release."
            )
        self._results[unit_id] = execution.result
        return execution.result

    async def check_all(self) -> dict[str, int]:
        """Run every unit's gold; units by corpus. Raises GoldFault at the first fault."""
        await asyncio.gather(*(self.result(u) for u in self.units))
        counts: dict[str, int] = {}
        for unit in self.units.values():
            counts[unit.corpus] = counts.get(unit.corpus, 0) + 1
        return counts

    async def certificate(self) -> list[str]:
        """Gold as prediction against itself, on every unit; unit ids that do not score correct (expected none)."""
        wrong = []
        for unit in self.units.values():
            again = await self._runner.run(self.handles[unit.database_id], unit.sql)
            result = await self.result(unit.unit_id)
            if again.result is None or not compare(unit.corpus, result, again.result, unit.ordered).equal:
                wrong.append(unit.unit_id)
        return wrong
