"""PRIVATE. Drives local work: from routes and plans to a verdict for every required unit (PROTOCOL 10, 11).

Items are shared by content through the ledgers: equal requests are written once, equal SQL runs once. No call is paid whose
verdict is already decided: a unit of a database the route did not select, or a downstream unit none of whose planned upstream
values can be bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tasks_lib.evaluation.bindings import bound_values, placeholder_names
from tasks_lib.evaluation.gold import Gold, GoldUnit
from tasks_lib.evaluation.requests import local_request
from tasks_lib.execution.drafts import SqlDraft
from tasks_lib.protocol.records import BindingValue, Contract, DatabaseHandle, LocalRequest
from tasks_lib.protocol.vocabulary import Behavior, DataAgent, Planner, QueryMode, VerdictKind
from tasks_lib.sql.canonical import CanonicalResult
from tasks_lib.sql.comparators import compare
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.sql.placeholders import placeholders_in
from tasks_lib.store.keys import canonical_json

Row = Mapping[str, Any]


class Writer(Protocol):
    """What writes local SQL: a data agent over a backend, or a diagnostic that knows the gold."""

    async def __call__(self, request: LocalRequest, handle: DatabaseHandle, unit: GoldUnit) -> SqlDraft: ...


@dataclass(frozen=True)
class Attempt:
    """One route facing one target list: `branch_id` and `unit_ids` say what is scored. `exchange`: the released (question, answer)."""

    contract: Contract
    request: str
    branch_id: str
    unit_ids: tuple[str, ...]
    state: str
    route: Row
    plans: Mapping[Planner, Row | None]
    exchange: tuple[str, str] | None


@dataclass
class _Outcome:
    """What became of one unit. `columns`, `result`: of its own execution, for downstream placeholders."""

    kind: VerdictKind
    request_text: str = ""
    sql: str = ""
    bindings: dict[str, BindingValue] = field(default_factory=dict)
    execution: str = ""
    comparator: str = ""
    ran: bool = False
    calls: tuple[str, ...] = ()
    executions: tuple[str, ...] = ()
    result: CanonicalResult | None = None


class Driver:
    """Local work of one (backend, router, data agent)."""

    def __init__(self, gold: Gold, runner: SqlRunner, writer: Writer, concurrency: int = 8) -> None:
        self._gold = gold
        self._runner = runner
        self._writer = writer
        self._limit = asyncio.Semaphore(concurrency)

    async def contributions(
        self, backend: str, router: str, agent: DataAgent, attempts: Sequence[Attempt]
    ) -> list[dict[str, Any]]:
        """Rows of `contributions`: every attempt under every planner and query mode."""
        parts = await asyncio.gather(*(self._attempt(backend, router, agent, a) for a in attempts))
        return [row for part in parts for row in part]

    async def _attempt(self, backend: str, router: str, agent: DataAgent, attempt: Attempt) -> list[dict[str, Any]]:
        async with self._limit:
            rows = []
            for mode in QueryMode:
                sequential = attempt.contract.behavior is Behavior.SEQUENTIAL
                shared = None if sequential else await self._independent(attempt, mode)
                for planner in Planner:
                    outcomes = (
                        shared if shared is not None else await self._in_order(attempt, mode, attempt.plans[planner])
                    )
                    rows += [
                        self._row(backend, router, agent, planner, mode, attempt, u, o) for u, o in outcomes.items()
                    ]
            return rows

    async def _independent(self, attempt: Attempt, mode: QueryMode) -> dict[str, _Outcome]:
        """Units that need nothing from each other; planners change nothing here (appendix L)."""
        selected = set(attempt.route["selected"])
        outcomes = {}
        for unit_id in attempt.unit_ids:
            unit = self._gold.units[unit_id]
            if unit.database_id not in selected:
                outcomes[unit_id] = _Outcome(VerdictKind.NOT_SELECTED)
            else:
                outcomes[unit_id] = await self._write_and_judge(attempt, mode, unit, (), {}, {})
        return outcomes

    async def _in_order(self, attempt: Attempt, mode: QueryMode, plan: Row | None) -> dict[str, _Outcome]:
        """A sequential workflow in the plan's order; placeholders come from the plan's declared edges."""
        selected = set(attempt.route["selected"])
        by_database = {self._gold.units[u].database_id: self._gold.units[u] for u in attempt.unit_ids}
        order = list(plan["order"]) if plan is not None else sorted(selected)
        edges = [(e["source"], e["target"]) for e in plan["edges"]] if plan is not None else []
        downstream = {b.downstream_unit for b in attempt.contract.bindings}
        outcomes: dict[str, _Outcome] = {}
        for database_id in order:
            unit = by_database.get(database_id)
            if unit is None or database_id not in selected:
                continue
            names, values, placeholder_of = self._placeholders(database_id, order, edges, by_database, outcomes)
            if unit.unit_id in downstream and not values:
                outcomes[unit.unit_id] = _Outcome(VerdictKind.BINDING_INVALID)
                continue
            outcomes[unit.unit_id] = await self._write_and_judge(
                attempt, mode, unit, names, values, placeholder_of, must_bind=unit.unit_id in downstream
            )
        for unit in by_database.values():
            outcomes.setdefault(unit.unit_id, _Outcome(VerdictKind.NOT_SELECTED))
        return outcomes

    def _placeholders(
        self,
        database_id: str,
        order: Sequence[str],
        edges: Iterable[tuple[str, str]],
        by_database: Mapping[str, GoldUnit],
        outcomes: Mapping[str, _Outcome],
    ) -> tuple[tuple[str, ...], dict[str, BindingValue], dict[tuple[str, int], str]]:
        """(names shown, values that may be bound, name by (upstream unit, column)) for one downstream database."""
        upstream = [d for d in order if (d, database_id) in set(edges)]
        names: list[str] = []
        values: dict[str, BindingValue] = {}
        placeholder_of: dict[tuple[str, int], str] = {}
        for number, source in enumerate(upstream, start=1):
            unit = by_database.get(source)
            outcome = outcomes.get(unit.unit_id) if unit is not None else None
            if unit is None or outcome is None or outcome.result is None:
                continue
            shown = placeholder_names(number, outcome.result.columns)
            names += shown
            placeholder_of |= {(unit.unit_id, i): name for i, name in enumerate(shown)}
            values |= bound_values(shown, outcome.result, outcome.kind is VerdictKind.CORRECT) or {}
        return tuple(names), values, placeholder_of

    async def _write_and_judge(
        self,
        attempt: Attempt,
        mode: QueryMode,
        unit: GoldUnit,
        names: tuple[str, ...],
        values: Mapping[str, BindingValue],
        placeholder_of: Mapping[tuple[str, int], str],
        must_bind: bool = False,
    ) -> _Outcome:
        handle = self._gold.handles[unit.database_id]
        request = local_request(
            mode,
            attempt.contract.task_id,
            attempt.branch_id,
            unit,
            attempt.request,
            attempt.exchange,
            attempt.route["nodes"],
            attempt.contract.bindings,
            names,
            placeholder_of,
        )
        draft = await self._writer(request, handle, unit)
        done = _Outcome(
            VerdictKind.MISSING_SQL, request.text, draft.sql or "", calls=draft.calls, executions=draft.executions
        )
        if draft.sql is None:
            done.kind = draft.kind or VerdictKind.MISSING_SQL
            return done
        used = placeholders_in(handle.engine, draft.sql)
        if any(name not in values for name in used) or (must_bind and not used):
            done.kind = VerdictKind.BINDING_INVALID
            return done
        done.bindings = {name: values[name] for name in used}
        execution = await self._runner.run(handle, draft.sql, done.bindings)
        done.execution = execution.key
        if execution.key:
            done.executions = (*draft.executions, execution.key)
        if execution.kind is not None:
            done.kind = execution.kind
            return done
        done.ran, done.result = True, execution.result
        assert execution.result is not None
        verdict = compare(unit.corpus, await self._gold.result(unit.unit_id), execution.result, unit.ordered)
        done.comparator = f"{verdict.rule}@{verdict.version}"
        done.kind = VerdictKind.CORRECT if verdict.equal else VerdictKind.MISMATCH
        return done

    def _row(
        self,
        backend: str,
        router: str,
        agent: DataAgent,
        planner: Planner,
        mode: QueryMode,
        attempt: Attempt,
        unit_id: str,
        outcome: _Outcome,
    ) -> dict[str, Any]:
        return {
            "backend": backend,
            "router": router,
            "data_agent": str(agent),
            "planner": str(planner),
            "query_mode": str(mode),
            "state": attempt.state,
            "task_id": attempt.contract.task_id,
            "branch_id": attempt.branch_id,
            "unit_id": unit_id,
            "trial": int(attempt.route["trial"]),
            "database_id": self._gold.units[unit_id].database_id,
            "request_text": outcome.request_text,
            "sql": outcome.sql,
            # A value whose text is not UTF-8 holds lone surrogates, which no file takes: as JSON escapes they read back equal.
            "bindings_json": canonical_json(outcome.bindings).encode("utf-8", "backslashreplace").decode()
            if outcome.bindings
            else "",
            "execution": outcome.execution,
            "comparator": outcome.comparator,
            "kind": str(outcome.kind),
            "ran": outcome.ran,
            "needs_binding": any(b.downstream_unit == unit_id for b in attempt.contract.bindings),
            "calls": list(outcome.calls),
            "executions": list(outcome.executions),
        }


def attempts_of(
    contracts: Iterable[Contract],
    requests: Mapping[str, str],
    routes: Iterable[Row],
    asks: Iterable[Row],
    releases: Iterable[Row],
    plans: Iterable[Row],
) -> list[Attempt]:
    """Every attempt of one (backend, router): initial routes on every target, clarified ones where an answer was released."""
    by_route = {(r["task_id"], r["branch_id"]): r for r in routes if r["trial"] == 0}
    questions = {a["task_id"]: a["question"] for a in asks if a["trial"] == 0}
    answers = {(r["task_id"], r["branch_id"]): r["answer"] for r in releases if r["released"] and r["trial"] == 0}
    by_plan = {(p["planner"], p["task_id"], p["branch_id"]): p for p in plans if p["trial"] == 0}
    found = []
    for c in sorted(contracts, key=lambda c: c.task_id):
        branches = (
            [(b.branch_id, (b.unit_id,)) for b in c.branches]
            if c.behavior is Behavior.INTERACTIVE
            else [("", c.unit_ids)]
        )
        for branch_id, unit_ids in branches:
            states: list[tuple[str, str, tuple[str, str] | None]] = [("initial", "", None)]
            if (c.task_id, branch_id) in answers:
                states.append(("clarified", branch_id, (questions[c.task_id], answers[(c.task_id, branch_id)])))
            for state, route_branch, exchange in states:
                plan_of = {p: by_plan.get((str(p), c.task_id, route_branch)) for p in Planner}
                found.append(
                    Attempt(
                        c,
                        requests[c.task_id],
                        branch_id,
                        unit_ids,
                        state,
                        by_route[(c.task_id, route_branch)],
                        plan_of,
                        exchange,
                    )
                )
    return found
