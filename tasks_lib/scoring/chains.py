"""The layers of one (backend, router), joined to the targets once; the cells that share them only choose among the parts.

`Routed` holds what routes, questions, releases and plans decide for each target, `Verdicts` what one data agent's contributions
decide. `join` picks from both and multiplies the gates. Every part is one value per target, in target order.
A missing, duplicate or unknown key is an error that names it (known fault C12), raised when a cell needs the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tasks_lib.protocol.records import Cell
from tasks_lib.protocol.vocabulary import AskScope, Behavior, Interaction, Planner, QueryMode, VerdictKind
from tasks_lib.scoring.episodes import JoinError, Row, index, need, no_strangers, plan_gate, route_score
from tasks_lib.scoring.stages import execution_stages, routing_stage
from tasks_lib.scoring.targets import Target, Targets

Column = npt.NDArray[Any]
VERDICT_COLUMNS = ("task_id", "branch_id", "unit_id", "planner", "query_mode", "state", "trial", "kind", "ran")


class Routed:
    """Routes, asks, releases and plans of one (backend, router) as the targets see them.

    `routes`: initial ones (branch "") and clarified ones. `plans`: of every planner. With `ask_scope` "all" the asks of ordinary
    tasks are noted too; nothing is released there, so nothing else changes. Raises JoinError.
    """

    def __init__(
        self,
        what: str,
        targets: Sequence[Target],
        routes: Iterable[Row],
        asks: Iterable[Row],
        releases: Iterable[Row],
        plans: Iterable[Row],
        ask_scope: AskScope = "interactive",
    ) -> None:
        self.what, self.targets, self.ask_scope = what, Targets.of(targets), ask_scope
        branch = ("task_id", "branch_id")
        self._routes = index((r for r in routes if r["trial"] == 0), *branch, what=f"{what}, routes")
        self._asks = index((r for r in asks if r["trial"] == 0), "task_id", what=f"{what}, asks")
        self._releases = index((r for r in releases if r["trial"] == 0), *branch, what=f"{what}, releases")
        self._plans = index((r for r in plans if r["trial"] == 0), *branch, "planner", what=f"{what}, plans")
        for layer in ("routes", "asks", "releases", "plans"):
            no_strangers(getattr(self, f"_{layer}"), 0, self.targets.tasks, f"{what}, {layer}")
        self._planned: dict[tuple[Interaction, Planner], dict[str, Column]] = {}

    def routes(self, interaction: Interaction) -> dict[str, Column]:
        """Columns of an episode that routing decides, `clarified` (its route saw the answer) and `stage`."""
        return self._once if interaction is Interaction.ONCE else self._never

    @cached_property
    def _never(self) -> dict[str, Column]:
        return _columns([self._route(t, Interaction.NEVER) for t in self.targets])

    @cached_property
    def _once(self) -> dict[str, Column]:
        return _columns([self._route(t, Interaction.ONCE) for t in self.targets])

    def _route(self, target: Target, interaction: Interaction) -> dict[str, Any]:
        """Under Once an interactive episode uses its clarified route where its answer was released."""
        route = initial = need(self._routes, (target.task_id, ""), f"{self.what}, routes")
        key = (target.task_id, target.branch_id)
        asked = released = False
        ambiguous = target.behavior is Behavior.INTERACTIVE
        if interaction is Interaction.ONCE and (ambiguous or self.ask_scope == "all"):
            asked = bool(need(self._asks, (target.task_id,), f"{self.what}, asks")["ask"])
            if asked and ambiguous:
                released = bool(need(self._releases, key, f"{self.what}, releases")["released"])
            if released:
                route = need(self._routes, key, f"{self.what}, clarified routes")
        scored = route_score(target, route)
        selected, first = frozenset(route["selected"]), frozenset(initial["selected"])
        changed = selected != first
        observed = frozenset(route["observed"])
        stage = routing_stage(target, selected, observed, scored["s"], scored["g"], released, changed)
        return {
            **scored,
            "asked": asked,
            "released": released,
            "changed": changed,
            "initial_s": first == frozenset(target.databases),
            "several": len(selected) > 1,
            "clarified": released,
            "stage": str(stage),
        }

    def plans(self, interaction: Interaction, planner: Planner) -> dict[str, Column]:
        """h, planned and plan_ok of the plan of the episode's route."""
        if (interaction, planner) not in self._planned:
            routes = self.routes(interaction)
            rows = []
            for target, clarified, several in zip(self.targets, routes["clarified"], routes["several"], strict=True):
                plan = self._plans.get((target.task_id, target.branch_id if clarified else "", planner))
                if plan is None and several:
                    key = (target.task_id, target.branch_id)
                    raise JoinError(f"{self.what}, plans: {key} is missing, expected one row; run the layer again.")
                ok = plan is not None and bool(plan["ok"])
                rows.append({"h": plan_gate(target, plan), "planned": plan is not None, "plan_ok": ok})
            self._planned[(interaction, planner)] = _columns(rows)
        return self._planned[(interaction, planner)]


class Verdicts:
    """Contributions of one (backend, router, data agent), counted by target under every planner, query mode and state."""

    def __init__(self, what: str, targets: Sequence[Target], contributions: Iterable[Row] | pl.DataFrame) -> None:
        self.what, self.targets = what, Targets.of(targets)
        frame = _verdict_frame(contributions).filter(pl.col("trial") == 0)
        key = ["state", "task_id", "branch_id", "unit_id"]
        apart = ["planner", "query_mode", *key]
        twice = frame.filter(frame.select(apart).is_duplicated())
        if twice.height:
            found = twice.row(0, named=True)
            raise JoinError(
                f"{what}: key {tuple(found[n] for n in key)} appears twice, expected once; remove the duplicate."
            )
        no_strangers(frame.select("task_id").unique().iter_rows(), 0, self.targets.tasks, what)
        odd = set(frame["kind"].unique()) - set(VerdictKind)
        if odd:
            raise JoinError(f"{what}: verdicts {sorted(odd)} are unknown, expected some of {sorted(VerdictKind)}.")
        frame = frame.join(self.targets.units, on=["task_id", "branch_id", "unit_id"])
        right = pl.col("kind") == VerdictKind.CORRECT
        apart.remove("query_mode")
        privileged = frame.filter(pl.col("query_mode") == QueryMode.PRIVILEGED).select(*apart, privileged=right)
        invalid = pl.col("kind") == VerdictKind.BINDING_INVALID
        self._frame = frame
        self._counts = (
            frame.join(privileged, on=apart, how="left")
            .group_by("planner", "query_mode", "state", "place")
            .agg(
                found=pl.len(),
                correct=right.sum(),
                ran=pl.col("ran").sum(),
                unbound=(invalid & pl.col("needs_binding")).any(),
                invalid=invalid.any(),
                privileged=pl.col("privileged").count(),
                decomposed=(~right & pl.col("privileged")).fill_null(False).any(),
            )
            .partition_by("planner", "query_mode", "state", as_dict=True)
        )
        self._spread: dict[tuple[str, ...], dict[str, Column]] = {}

    def _part(self, *point: str) -> dict[str, Column]:
        """Counts of (planner, query mode, state) by target; 0 where the layer has no row."""
        if point not in self._spread:
            some = self._counts.get(point)
            part = {}
            for name in ("found", "correct", "ran", "unbound", "invalid", "privileged", "decomposed"):
                flag = name in ("unbound", "invalid", "decomposed")
                column = np.zeros(len(self.targets), dtype=bool if flag else np.int64)
                if some is not None:
                    column[some["place"].to_numpy()] = some[name].to_numpy()
                part[name] = column
            self._spread[point] = part
        return self._spread[point]

    def part(self, planner: Planner, mode: QueryMode, clarified: Column) -> dict[str, Column]:
        """Counts of each target in the state that its route is in. Raises JoinError for a required unit without a row."""
        initial, later = (self._part(planner, mode, state) for state in ("initial", "clarified"))
        picked = {name: np.where(clarified, later[name], initial[name]) for name in initial}
        self._complete(picked["found"] == self.targets.required, planner, mode, clarified)
        return picked

    def require_privileged(self, part: Mapping[str, Column], g: Column, planner: Planner, clarified: Column) -> None:
        """Raises JoinError where a graph-correct target lacks the privileged verdict that its failure stage needs."""
        complete = (part["privileged"] == self.targets.required) | ~g
        self._complete(complete, planner, QueryMode.PRIVILEGED, clarified)

    def _complete(self, complete: Column, planner: Planner, mode: QueryMode, clarified: Column) -> None:
        if complete.all():
            return
        place = int(np.argmin(complete))
        target, state = self.targets[place], "clarified" if clarified[place] else "initial"
        there = self._frame.filter(
            (pl.col("place") == place)
            & (pl.col("planner") == planner)
            & (pl.col("query_mode") == mode)
            & (pl.col("state") == state)
        )
        unit = next(u for u in target.units if u not in set(there["unit_id"]))
        key = (state, target.task_id, target.branch_id, unit)
        raise JoinError(
            f"{self.what} ({planner}, {mode}): key {key} is missing, expected one row; run the layer again."
        )


def score_cell(
    cell: Cell,
    targets: Sequence[Target],
    routes: Iterable[Row],
    asks: Iterable[Row],
    releases: Iterable[Row],
    plans: Iterable[Row],
    contributions: Iterable[Row],
    ask_scope: AskScope = "interactive",
) -> pl.DataFrame:
    """`join` of layer rows; for many cells of the same layers make `Routed` and `Verdicts` once."""
    what = f"cell {cell.cell_id}"
    routed = Routed(what, targets, routes, asks, releases, plans, ask_scope)
    return join(cell, routed, Verdicts(f"{what}, contributions", routed.targets, contributions))


def join(cell: Cell, routed: Routed, verdicts: Verdicts) -> pl.DataFrame:
    """Rows of `episodes` of one cell (PROTOCOL 12), in target order. Raises JoinError."""
    targets = routed.targets
    routes = routed.routes(cell.interaction)
    plans = routed.plans(cell.interaction, cell.planner)
    part = verdicts.part(cell.planner, cell.query_mode, routes["clarified"])
    g, h = routes["g"], plans["h"]
    t = (part["correct"] == targets.required) & ~part["unbound"]
    decomposed = np.zeros_like(g)
    if cell.query_mode is QueryMode.ROUTER:
        verdicts.require_privileged(part, g, cell.planner, routes["clarified"])
        decomposed = part["decomposed"]
    stage = np.where(g, execution_stages(t, h, part["invalid"], decomposed), routes["stage"])
    point = {
        "cell_id": cell.cell_id,
        "backend": cell.backend,
        "router": str(cell.router),
        "data_agent": str(cell.data_agent),
        "planner": str(cell.planner),
        "interaction": str(cell.interaction),
        "query_mode": str(cell.query_mode),
    }
    scored = {
        "correct": part["correct"],
        "ran": part["ran"],
        **{name: routes[name] for name in ("valid", "s", "label_ok", "edges_ok", "g")},
        "t": t,
        "h": h,
        "bindings_ok": ~part["unbound"],
        **{name: routes[name] for name in ("precision", "recall", "f1", "over_rate", "under_rate")},
        **{name: routes[name] for name in ("asked", "released", "changed", "initial_s")},
        "planned": plans["planned"],
        "plan_ok": plans["plan_ok"],
        "failure_stage": stage,
        "failure_flag": routes["failure_flag"],
    }
    return targets.frame.select(
        *(pl.lit(value).alias(name) for name, value in point.items()),
        pl.all(),
        *(pl.Series(name, column) for name, column in scored.items()),
    )


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Column]:
    return {name: np.array([row[name] for row in rows]) for name in rows[0]} if rows else {}


def _verdict_frame(contributions: Iterable[Row] | pl.DataFrame) -> pl.DataFrame:
    """The columns that scoring reads, of a layer's table or of rows."""
    names = (*VERDICT_COLUMNS, "needs_binding")
    if isinstance(contributions, pl.DataFrame):
        return contributions.select(names)
    rows = list(contributions)
    kinds = {"trial": pl.Int64, "ran": pl.Boolean, "needs_binding": pl.Boolean}
    return pl.DataFrame(
        {n: [r[n] if n in kinds else str(r[n]) for r in rows] for n in names},
        schema={n: kinds.get(n, pl.String) for n in names},
    )
