"""What a run would do: items wanted and done by backend and stage, and the calls, tokens and cost the rest should take. Runs nothing.

An item is a row of its stage's table. A stage that is done tells its rows; of one that is not, what its done inputs decide is
counted and the rest is bounded, so that the number is exact or marked as a most. A run says the same before it starts (`announce`),
without the estimates.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from flows import runs
from flows.cell import cell_done
from flows.estimates import Size, expected, layer_size, price_of, router_sizes
from flows.explain import changed_fields
from flows.releases import release_folder
from flows.runtime import say
from flows.wanted import ChainKeys, RunSpec, cell_key, chain_keys, routes_key, wanted_tasks
from tasks_lib.evaluation.inputs import load
from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.transcripts import KIND
from tasks_lib.protocol.vocabulary import AskScope, Behavior, DataAgent, Planner, PlannerLanguage, QueryMode, Router
from tasks_lib.scoring.cells import FACTORIAL_ROUTERS, ROUTING_STUDY_ROUTERS, grid
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.ledgers import Ledger, items
from tasks_lib.store.schemas import ASKS, CONTRIBUTIONS, PLANS, RELEASES, ROUTES, Table
from tasks_lib.store.settings import settings

TURNS = {
    Router.RANDOM: 0,
    Router.DIRECT: 1,
    Router.RERANK: 1,
    Router.CONSTRAINED: 1,
    Router.REACT: 30,
    Router.HERMES: 30,
}
PLAN_CALLS, SQL_CALLS, TOOL_STEPS = 4, {DataAgent.TEXT_TO_SQL: 1, DataAgent.ADAPTER: 2}, 30
BOOKED = {"clarified routes": "clarified_routes", "contributions": "local_sql"}
"""What the model calls of a stage are booked under, where that is not the stage's name."""


@dataclass
class Stage:
    """One stage of one backend. `wanted`, `done`: rows; `exact`: `wanted` is no mere most. `layers`: artifacts wanted and done.

    `calls_at_most`: model calls that the rest can make when nothing is shared and every episode uses all its turns.
    `calls_stored`: those of this backend and stage in the ledger, whatever run asked for them: a run that was stopped finds its own.
    """

    name: str
    wanted: int = 0
    done: int = 0
    exact: bool = True
    layers: int = 0
    layers_done: int = 0
    calls_at_most: int = 0
    calls_stored: int = 0

    @property
    def to_run(self) -> int:
        return self.wanted - self.done

    def as_json(self) -> dict[str, Any]:
        return {
            "stage": self.name,
            "wanted": self.wanted,
            "done": self.done,
            "to_run": self.to_run,
            "exact": self.exact,
            "calls_at_most": self.calls_at_most,
            "calls_stored": self.calls_stored,
        }


@dataclass(frozen=True)
class _Tasks:
    """Counts of the release: `units` of all tasks, one a branch; the two branches of an interactive task are two episodes."""

    tasks: int
    interactive: int
    units: int

    @property
    def branches(self) -> int:
        return 2 * self.interactive


class _Count:
    """Books the artifacts of one backend as stages, and what is left to do by layer as `estimates` names layers."""

    def __init__(self, store: ArtifactStore) -> None:
        self.store = store
        self.stages: dict[str, Stage] = {}
        self.todo: Counter[str] = Counter()

    def add(
        self, stage: str, table: Table, key: str, rows: tuple[int, bool], calls: int, layer: tuple[str, int]
    ) -> None:
        """Book one artifact. `rows`: (rows it will hold, exact). `calls`: the most it takes. `layer`: (name, items) to estimate."""
        place = self.stages.setdefault(stage, Stage(stage))
        record = self.store.record(table, key) if self.store.ok(table, key) else None
        wanted, exact = (record.rows, True) if record else rows
        place.wanted += wanted
        place.exact &= exact
        place.layers += 1
        if record:
            place.done += wanted
            place.layers_done += 1
        else:
            place.calls_at_most += calls
            self.todo[layer[0]] += layer[1]


def stages_of(
    run: RunSpec, backend: BackendSpec, tasks: _Tasks, store: ArtifactStore, study: bool = True
) -> tuple[list[Stage], Counter[str]]:
    """(stages in order, items to do by layer as `estimates` names layers). `study`: the routers of the routing study too."""
    count, n = _Count(store), tasks.tasks
    for router in ROUTING_STUDY_ROUTERS if study else FACTORIAL_ROUTERS:
        key = routes_key(run, backend, router)
        count.add("routes", ROUTES, key, (n, True), n * TURNS[router], (f"routes {router}", n))
    chains = {router: chain_keys(run, backend, router) for router in FACTORIAL_ROUTERS}
    for router, chain in chains.items():
        asked, released, planned = _decided(store, chain, tasks, run.ask_scope)
        again, plans = released[0], planned[0] // len(Planner)
        asks = tasks.interactive if run.ask_scope == "interactive" else tasks.tasks
        count.add("asks", ASKS, chain.asks, (asks, True), asks, ("asks", asks))
        count.add("releases", RELEASES, chain.releases, asked, 0, ("releases", 0))
        layer = (f"clarified routes {router}", again)
        count.add("clarified routes", ROUTES, chain.clarified, released, again * TURNS[router], layer)
        count.add("plans", PLANS, chain.plans, planned, plans * PLAN_CALLS, ("plans", plans))
        drafts = len(QueryMode) * (tasks.units + again)
        for agent, key in chain.contributions.items():
            most = drafts * (TOOL_STEPS if agent is DataAgent.ADAPTER else SQL_CALLS[agent])
            layer = ("local_sql", drafts * SQL_CALLS[agent])
            count.add("contributions", CONTRIBUTIONS, key, (drafts * len(Planner), released[1]), most, layer)
    cells = grid([backend.name])
    done = sum(cell_done(store, cell_key(run, c, chains[c.router])) for c in cells)
    return [*count.stages.values(), Stage("cells", len(cells), done, True, len(cells), done)], count.todo


def _decided(
    store: ArtifactStore, chain: ChainKeys, tasks: _Tasks, ask_scope: AskScope
) -> tuple[tuple[int, bool], tuple[int, bool], tuple[int, bool]]:
    """(rows, exact) of releases, clarified routes and plans, as far as what they follow from is done."""
    asked, released = (tasks.branches, False), (tasks.branches, False)
    if store.ok(ASKS, chain.asks):
        # Only questions on interactive tasks are released an answer; the table does not tell which those are.
        asks = min(int(store.read(ASKS, chain.asks, ["ask"])["ask"].sum()), tasks.interactive)
        asked = (2 * asks, ask_scope == "interactive" or not asks)
        released = (asked[0], not asked[0])
    if store.ok(RELEASES, chain.releases):
        released = (int(store.read(RELEASES, chain.releases, ["released"])["released"].sum()), True)
    planned = (2 * (tasks.tasks + released[0]), False)
    if store.ok(ROUTES, chain.routes) and store.ok(ROUTES, chain.clarified):
        frames = [store.read(ROUTES, key, ["selected"]) for key in (chain.routes, chain.clarified)]
        planned = (2 * sum(int((frame["selected"].list.len() > 1).sum()) for frame in frames), True)
    return asked, released, planned


def stored_calls(ledger: Ledger) -> Counter[tuple[str, str]]:
    """Model calls in the ledger by backend and the layer they are booked under: what a run that was stopped left."""
    query = sa.select(items.c.meta).where(items.c.kind == KIND, items.c.state == "done")
    found: Counter[tuple[str, str]] = Counter()
    with ledger.engine.connect() as connection:
        for row in connection.execution_options(yield_per=10_000).execute(query):
            meta = json.loads(row.meta)
            found[(meta.get("backend", ""), meta["layer"])] += 1
    return found


@dataclass(frozen=True)
class Plan:
    """What one backend wants and has: stages in order, cells last, and items to do by layer as `estimates` names layers."""

    stages: list[Stage]
    todo: Counter[str]

    @property
    def layers(self) -> int:
        return sum(s.layers for s in self.stages[:-1])

    @property
    def layers_done(self) -> int:
        return sum(s.layers_done for s in self.stages[:-1])

    @property
    def done(self) -> bool:
        cells = self.stages[-1]
        return self.layers == self.layers_done and cells.wanted == cells.done


def plan_of(run: RunSpec, study: bool = True) -> dict[str, Plan]:
    """The plan of every backend, by name. `study`: the routers of the routing study too. Looks at the release and the store alone."""
    store = ArtifactStore(settings().resolved_store_url)
    contracts = [load(run.release).contracts[t] for t in wanted_tasks(run)]
    interactive = sum(c.behavior is Behavior.INTERACTIVE for c in contracts)
    counted = _Tasks(len(contracts), interactive, sum(len(c.unit_ids) for c in contracts))
    return {backend.name: Plan(*stages_of(run, backend, counted, store, study)) for backend in run.backends}


def _note_stored(plans: Mapping[str, Plan], ledger: Ledger) -> None:
    stored = stored_calls(ledger)
    for name, plan in plans.items():
        for stage in plan.stages:
            stage.calls_stored = stored[(name, BOOKED.get(stage.name, stage.name))]


def announce(run: RunSpec, study: bool = True) -> None:
    """Say, before anything starts, what is wanted, done and to run by backend and stage, and which changes a recorded run is run
    again for."""
    plans = plan_of(run, study)
    layers, cells = sum(p.layers for p in plans.values()), sum(p.stages[-1].wanted for p in plans.values())
    if all(plan.done for plan in plans.values()):
        say(f"plan of {run.run_id}: nothing to run, {layers} layers and {cells} cells are done")
        return
    ledger = Ledger(settings().resolved_ledger_url)
    try:
        _note_stored(plans, ledger)
    finally:
        ledger.close()
    say(f"plan of {run.run_id}: {len(wanted_tasks(run))} tasks; items of each stage:")
    for line in table(plans):
        say(f"  {line}")
    for line in reasons(run):
        say(f"  {line}")


def reasons(run: RunSpec) -> list[str]:
    """Why a run does again what was done before: requests that its release revised, fields of keys that today's code changes."""
    lines = []
    revision = load(run.release).release.manifest.get("revision")
    if revision:
        new, gone = revision["rerun"], len(revision["deleted"])
        named = f" ({', '.join(new[:3])}{' …' if len(new) > 3 else ''})" if new else ""
        lines.append(
            f"the release revises {revision['parent'][:12]}: {len(new)} requests are new{named}, {gone} tasks are gone; of all other tasks "
            "every layer is made anew from the calls stored for its parent, none of which is made again"
        )
    return [*lines, *(f"{stage} again: {', '.join(fields)}" for stage, fields in changed_fields(run).items())]


async def dry(
    folder: str,
    backends: Sequence[BackendSpec],
    judge: BackendSpec | None,
    evidence: str,
    ask_scope: AskScope,
    planner_language: PlannerLanguage,
    tasks: int,
    study: bool = True,
) -> dict[str, Any]:
    """Counts by backend; the upper bounds assume nothing is shared and every episode uses all its turns.

    What is expected takes as many turns as an offline policy took, one call a plan and the fewest an agent can make.
    """
    release = await release_folder(folder)
    run = runs.spec_of(release, backends, judge, evidence, tasks, ask_scope, planner_language)
    plans = plan_of(run, study)
    found: dict[str, Any] = {}
    ledger = Ledger(settings().resolved_ledger_url)
    _note_stored(plans, ledger)
    measured: dict[str, dict[Router, Size]] = {}
    for backend in run.backends:
        plan = plans[backend.name]
        cells = plan.stages[-1]
        found[backend.name] = {
            "layers": {"wanted": plan.layers, "done": plan.layers_done},
            "stages": [s.as_json() for s in plan.stages],
            "cells": cells.wanted,
            "cells_done": cells.done,
            "model_calls_at_most": sum(s.calls_at_most for s in plan.stages),
            "expected": expected(await _sized(run, backend, plan.todo, ledger, measured), price_of(backend)),
        }
    ledger.close()
    lines = [f"run {run.run_id} on {release}: {len(wanted_tasks(run))} tasks; items of each stage:", *table(plans)]
    lines += [
        f"{name}: layers {f['layers']['done']} of {f['layers']['wanted']} done, cells {f['cells_done']} of {f['cells']} done, "
        f"at most {f['model_calls_at_most']} model calls to make; {_expectation(f['expected'])}"
        for name, f in found.items()
    ]
    lines += reasons(run)
    return {
        "run": run.run_id,
        "release": str(release),
        "status": "dry_run",
        "cells": 72 * len(run.backends),
        "backends": found,
        "text": "\n".join(lines),
    }


def table(plans: Mapping[str, Plan]) -> list[str]:
    """Lines of one text table of all backends and stages; ≤ marks a number that is a most until what it follows from is done."""
    rows = [("backend", "stage", "wanted", "done", "to run", "calls stored")]
    for name, plan in plans.items():
        for stage in plan.stages:
            most = "" if stage.exact else "≤ "
            left = f"{most if stage.to_run else ''}{stage.to_run:,}"
            rows.append(
                (name, stage.name, f"{most}{stage.wanted:,}", f"{stage.done:,}", left, f"{stage.calls_stored:,}")
            )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


async def _sized(
    run: RunSpec, backend: BackendSpec, wanted: Counter[str], ledger: Ledger, measured: dict[str, dict[Router, Size]]
) -> dict[str, tuple[float, Size | None]]:
    """Items to do by layer, with the size of one. `measured`: sizes of routers by protocol, filled once for all backends.

    `routes X` and `clarified routes X` are the episodes of router X; Random asks no model.
    """
    sizes: dict[str, tuple[float, Size | None]] = {}
    for layer, number in wanted.items():
        router = Router(layer.rsplit(" ", 1)[1]) if " " in layer else None
        if not number or router is Router.RANDOM:
            continue
        if router is None:
            sizes[layer] = number, layer_size(ledger, layer, backend.name)
            continue
        if backend.protocol not in measured:
            public = f"{run.release}/public"
            measured[backend.protocol] = await router_sizes(public, backend, tuple(Router), wanted_tasks(run))
        sizes[layer] = number, measured[backend.protocol].get(router)
    return sizes


def _expectation(found: dict[str, Any]) -> str:
    tokens = f"{found['prompt_tokens']:,} tokens in and {found['completion_tokens']:,} out"
    cost = "cost unknown" if found["cost_usd"] is None else f"{found['cost_usd']:.2f} US dollars"
    text = f"expected {found['calls']} calls, {tokens}, {cost}"
    if found["unmeasured"]:
        text += (
            f", and what {', '.join(found['unmeasured'])} take (no such call is stored yet; a run with the offline policies, which "
            "costs nothing, measures their prompts)"
        )
    by = [f"{', '.join(layers)} by {what}" for what, layers in found["basis"].items()]
    return text + (f"; measured: {'; '.join(by)}" if by else "")
