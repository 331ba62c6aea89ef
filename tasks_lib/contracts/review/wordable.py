"""PRIVATE. Whether a request text may stand for a released task: the wording gates, asked of a release folder alone.

The release holds all that they look up: registry, schemas, units, contracts. No corpus is read and no SQL runs. Does not
belong here: the gates themselves (`contracts.gates`).
"""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from typing import cast

from tasks_lib.contracts import gates
from tasks_lib.contracts.certificate import bench_of, proposal_of
from tasks_lib.contracts.proposals import Bench
from tasks_lib.contracts.questions import stands_in
from tasks_lib.contracts.release import Release
from tasks_lib.protocol.vocabulary import Behavior, Corpus
from tasks_lib.sql.execute import SqlRunner


class Wordable:
    """Judges request texts for the tasks of one release."""

    def __init__(self, release: Release) -> None:
        self.release = release
        self.tasks = {task.task_id: task for task in release.tasks}
        self._benches: dict[Corpus, Bench] = {}

    def refusal(self, task_id: str, request: str) -> str | None:
        """The first wording gate that refuses `request` for the task, as "gate: reason", or None."""
        contract = self.release.contracts[task_id]
        if not request.strip() or "\n" in request or request != request.strip():
            return "form: the request is empty, has outer blanks or has more than one line."
        odd = next((c for c in request if unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp"}), None)
        if odd is not None:
            return f"form: the request holds the invisible character U+{ord(odd):04X}."
        bench = self._bench(contract.corpus)
        units = {unit.unit_id: unit for unit in bench.pool.all_units}
        proposal = proposal_of(bench, units, contract, replace(self.tasks[task_id], request=request))
        if isinstance(proposal, str):
            return f"records: {proposal}"
        found = gates.first_refusal(gates.WORDING, bench, proposal)
        if found is not None:
            return f"{found.gate}: {found.reason}"
        # The gates of synthesis know requests that templates made; a repaired one could also name its branch.
        shown = [branch.value for branch in contract.branches if stands_in(request, branch.value)]
        if contract.behavior is Behavior.INTERACTIVE and shown:
            return f"branches: the request shows {shown[0]!r} and so gives the branch away."
        return None

    def _bench(self, corpus: Corpus) -> Bench:
        if corpus not in self._benches:
            no_sql = cast(SqlRunner, None)  # wording gates run none
            self._benches[corpus] = bench_of(self.release, corpus, no_sql)
        return self._benches[corpus]
