"""PRIVATE. Proving a finished release again from its files alone: every gate of PROTOCOL 4 over every task, and its counts.

Belongs here: putting candidates together again from the published tables, and the report. Does not belong here: what a gate
checks (`gates_` modules), promises of tables (`suites`). Nothing of synthesis is read: what was lost or altered on the way to
the files is found here. With the ledger of the build at hand no SQL runs again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from tasks_lib.contracts import gates
from tasks_lib.contracts.contract import Candidate, Unit
from tasks_lib.contracts.distractors import Neighbourhood
from tasks_lib.contracts.pool import Pool
from tasks_lib.contracts.proposals import Bench, Proposal
from tasks_lib.contracts.registry import databases_of
from tasks_lib.contracts.release import Release, figures
from tasks_lib.protocol.records import Contract, PublicTask
from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.sql.execute import SqlRunner

COUNTS = "counts"
"""Name under which counts of the manifest are proven, beside the gates."""


@dataclass(frozen=True, slots=True)
class Violation:
    """What does not hold. `check`: a gate or COUNTS. `task_id`: empty for the release as a whole."""

    check: str
    task_id: str
    reason: str


@dataclass(frozen=True)
class Certificate:
    """What was proven of a release. `proven`: check -> tasks it holds for. `seconds`: wall time."""

    release: str
    tasks: int
    proven: dict[str, int]
    violations: tuple[Violation, ...] = field(default=())
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether everything holds."""
        return not self.violations

    def as_json(self) -> dict[str, Any]:
        """The fields of `dsabench certify --json`."""
        return {
            "release": self.release,
            "ok": self.ok,
            "tasks": self.tasks,
            "proven": self.proven,
            "violations": [{"check": v.check, "task_id": v.task_id, "reason": v.reason} for v in self.violations],
            "seconds": self.seconds,
        }


async def certify(release: Release, runner: SqlRunner) -> Certificate:
    """Put every gate of PROTOCOL 4 to every task of a finished release, each on its own, and count again.

    So among others: without any one unit the joint answer differs or is undefined; binding another value of the upstream column
    changes the downstream result; no other allowlisted database gives a gold's answer; the request shows no identifier. Every
    violation is listed, not only the first of a task.

    Raises what the runner raises for a database that is missing or damaged.
    """
    started = monotonic()
    proven = dict.fromkeys((*gates.NAMES, COUNTS), 0)
    violations = list(_miscounts(release))
    proven[COUNTS] = len(release.tasks) if not violations else 0
    tasks = {task.task_id: task for task in release.tasks}
    for corpus in Corpus:
        held = [contract for contract in release.contracts.values() if contract.corpus is corpus]
        if not held:
            continue
        bench = bench_of(release, corpus, runner)
        units = {unit.unit_id: unit for unit in bench.pool.all_units}
        for contract in held:
            proposal = proposal_of(bench, units, contract, tasks.get(contract.task_id))
            if isinstance(proposal, str):
                violations.append(Violation(COUNTS, contract.task_id, proposal))
                continue
            for name, reason in await _judged(bench, proposal):
                if reason is None:
                    proven[name] += 1
                else:
                    violations.append(Violation(name, contract.task_id, reason))
            bench.seen.add(frozenset(contract.unit_ids))
    seconds = round(monotonic() - started, 3)
    return Certificate(str(release.folder), len(release.tasks), proven, tuple(violations), seconds)


async def _judged(bench: Bench, proposal: Proposal) -> list[tuple[str, str | None]]:
    """Every gate with its reason or None; after `ownership` has refused, the others would look up what is not there."""
    first = gates.CONTRACT[0](bench, proposal)
    found: list[tuple[str, str | None]] = [(gates.CONTRACT[0].__name__, first)]
    if first is not None:
        return found
    found += [(check.__name__, check(bench, proposal)) for check in (*gates.CONTRACT[1:], *gates.WORDING)]
    found += [(check.__name__, await check(bench, proposal)) for check in gates.EXECUTION]
    return found


def _miscounts(release: Release) -> Iterable[Violation]:
    """Where the manifest's figures are not those of the tables."""
    contracts = list(release.contracts.values())
    for name, counted in figures(contracts).items():
        if release.manifest.get(name) != counted:
            yield Violation(
                COUNTS, "", f"the manifest says {name} {release.manifest.get(name)!r}, the tables {counted!r}."
            )
    lonely = sorted({task.task_id for task in release.tasks} ^ set(release.contracts))
    for task_id in lonely:
        yield Violation(COUNTS, task_id, "the task has no contract, or the contract no task.")


def bench_of(release: Release, corpus: Corpus, runner: SqlRunner) -> Bench:
    """The bench of one corpus, made of the registry and the audited units."""
    databases = databases_of(release, corpus)
    rows = release.unit_rows.filter(release.unit_rows["corpus"] == corpus.value).iter_rows(named=True)
    pool = Pool(databases, map(Unit.from_row, rows), b"")
    named = release.databases.filter(release.databases["corpus"] == corpus.value)
    handles = {name: release.handles[i] for i, name in named.select("database_id", "database").iter_rows()}
    return Bench(pool, Neighbourhood(pool), runner, handles)


def proposal_of(bench: Bench, units: Mapping[str, Unit], contract: Contract, task: PublicTask | None) -> Proposal | str:
    """The candidate of a contract as the gates want it, or why it cannot be put together."""
    if task is None:
        return "the contract has no task."
    names = {handle.database_id: name for name, handle in bench.handles.items()}
    lost = [unit_id for unit_id in contract.unit_ids if unit_id not in units]
    lost += [public_id for public_id in (*contract.databases, *task.allowlist) if public_id not in names]
    if lost:
        return f"the release holds no unit or database {lost[0]} of {contract.corpus.value}."
    of_database = dict(zip(contract.databases, contract.unit_ids, strict=False))
    if strange := [i for edge in contract.edges for i in edge if i not in of_database]:
        return f"an edge names {strange[0]}, which is no required database."
    candidate = Candidate(
        corpus=contract.corpus,
        behavior=contract.behavior,
        units=tuple(units[unit_id] for unit_id in contract.unit_ids),
        edges=tuple((of_database[source], of_database[target]) for source, target in contract.edges),
        bindings=contract.bindings,
        branches=contract.branches,
        slot_question=contract.slot_question,
        aggregation=contract.aggregation,
        theme=contract.theme,
    )
    public_ids = {name: handle.database_id for name, handle in bench.handles.items()}
    return Proposal(candidate, tuple(sorted(names[i] for i in task.allowlist)), contract, task, public_ids)
