"""A simulated backend whose stage probabilities are known, as layers and as scored episodes. No expectations here.

Every world draws base tasks from a population of behaviors and sizes, and for every router and data agent the outcomes of every stage
(set, graph, order, execution, asking, release, repair) from known probabilities.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl

from tasks_lib.protocol.records import Cell
from tasks_lib.protocol.vocabulary import Behavior, Corpus, DataAgent, Difficulty, Planner, QueryMode, Router
from tasks_lib.scoring.bootstrap import Floats
from tasks_lib.scoring.cells import FACTORIAL_ROUTERS
from tasks_lib.scoring.chains import Routed, Verdicts, join
from tasks_lib.scoring.targets import Target

GRAPH, ORDER, ASK, RELEASE, REPAIR = 0.8, 0.7, 0.6, 0.75, 0.65
SET = {Router.DIRECT: 0.35, Router.REACT: 0.5, Router.HERMES: 0.65}
RIGHT = {
    (DataAgent.TEXT_TO_SQL, QueryMode.FUSED): 0.5,
    (DataAgent.TEXT_TO_SQL, QueryMode.ROUTER): 0.6,
    (DataAgent.TEXT_TO_SQL, QueryMode.PRIVILEGED): 0.75,
    (DataAgent.ADAPTER, QueryMode.FUSED): 0.6,
    (DataAgent.ADAPTER, QueryMode.ROUTER): 0.7,
    (DataAgent.ADAPTER, QueryMode.PRIVILEGED): 0.85,
}
"""Probability that one unit's SQL is right; the agents and modes of one unit and route are drawn together."""
KINDS: tuple[tuple[float, Behavior, int], ...] = (
    (0.12, Behavior.SINGLE, 1),
    (0.25, Behavior.PARALLEL, 2),
    (0.15, Behavior.PARALLEL, 4),
    (0.15, Behavior.SEQUENTIAL, 2),
    (0.15, Behavior.EXPLORATORY, 3),
    (0.18, Behavior.INTERACTIVE, 2),
)
"""The population: share, behavior, databases of the target list."""

Rows = list[dict[str, Any]]
Tried = tuple[Target, str, list[str], Floats]
"""A target, the state of its route (initial or clarified), what was selected, and the luck of each unit."""


class World:
    """One draw of tasks and of everything that a backend does with them."""

    def __init__(self, seed: int, tasks: int) -> None:
        self.rng, self.tasks = np.random.default_rng([20260, seed]), tasks
        self.targets = [t for n, kind in enumerate(self.population()) for t in _targets(f"t{n}", *kind)]

    def population(self) -> list[tuple[Behavior, int]]:
        """Behavior and databases of the target list of every task, drawn by share."""
        shares = np.array([share for share, _, _ in KINDS])
        return [KINDS[kind][1:] for kind in self.rng.choice(len(KINDS), size=self.tasks, p=shares)]

    def episodes(self, cells: Sequence[Cell]) -> pl.DataFrame:
        """The cells' episodes by the code that scores a run. Each router is drawn once."""
        frames = []
        for router in FACTORIAL_ROUTERS:
            layers, verdicts = self.chain(router)
            initial, asked, released, planned = (layers[n] for n in ("routes", "asks", "releases", "plans"))
            routed = Routed(router, self.targets, initial, asked, released, planned)
            for agent in DataAgent:
                judged = Verdicts(agent, self.targets, contributions(agent, verdicts))
                frames += [join(c, routed, judged) for c in cells if (c.router, c.data_agent) == (router, agent)]
        return pl.concat(frames)

    def _happens(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def chain(self, router: Router) -> tuple[dict[str, Rows], list[Tried]]:
        """The layers of a router but for contributions, and by target and state what was selected and each unit's luck."""
        right_set = SET[router]
        layers: dict[str, Rows] = {name: [] for name in ("routes", "asks", "releases", "plans")}
        verdicts: list[Tried] = []
        asks: dict[str, tuple[bool, list[str]]] = {}
        for target in self.targets:
            luck = self.rng.random(len(target.units))
            if target.behavior is not Behavior.INTERACTIVE:
                selected = self._selected(target, right_set)
                layers["routes"].append(_route(target, "", selected, self._happens(GRAPH)))
                layers["plans"] += _plans(target, selected, self._happens(ORDER))
                verdicts.append((target, "initial", selected, luck))
                continue
            if (
                target.task_id not in asks
            ):  # one route and one ask decision for both branches; the set is the first one's
                selected = self._selected(target, right_set)
                layers["routes"].append(_route(target, "", selected, self._happens(GRAPH)))
                asks[target.task_id] = (self._happens(ASK), selected)
                layers["asks"].append({"task_id": target.task_id, "trial": 0, "ask": asks[target.task_id][0]})
            ask, selected = asks[target.task_id]
            verdicts.append((target, "initial", selected, luck))
            released = ask and self._happens(RELEASE)
            named = {"task_id": target.task_id, "branch_id": target.branch_id, "trial": 0}
            if ask:
                layers["releases"].append(named | {"released": released})
            if released:
                mended = self._selected(target, REPAIR)
                layers["routes"].append(_route(target, target.branch_id, mended, self._happens(GRAPH)))
                verdicts.append((target, "clarified", mended, self.rng.random(1)))
        return layers, verdicts

    def _selected(self, target: Target, probability: float) -> list[str]:
        """A wrong set has a stranger instead of the first database of its target."""
        right = self._happens(probability)
        return list(target.databases) if right else [f"{target.task_id}_other", *target.databases[1:]]


def _targets(task: str, behavior: Behavior, size: int) -> Iterable[Target]:
    names = [f"{task}_d{i}" for i in range(size)]
    parts = (
        [("", names)] if behavior is not Behavior.INTERACTIVE else [(f"b{i}", [name]) for i, name in enumerate(names)]
    )
    edges = frozenset([(names[0], names[1])]) if behavior is Behavior.SEQUENTIAL else frozenset()
    for branch, some in parts:
        weight, units = 1 / len(parts), tuple(f"u_{name}" for name in some)
        yield Target(
            task, branch, Corpus.SPIDER, behavior, Difficulty.EASY, weight, tuple(some), units, edges, len(names)
        )  # fmt: skip


def _route(target: Target, branch: str, selected: list[str], graph: bool) -> dict[str, Any]:
    """A wrong graph has another label."""
    other = Behavior.SINGLE if target.behavior is not Behavior.SINGLE else Behavior.PARALLEL
    return {
        "task_id": target.task_id,
        "branch_id": branch,
        "trial": 0,
        "valid": True,
        "selected": selected,
        "observed": selected,
        "topology": str(target.behavior if graph else other),
        "edges": [{"source": a, "target": b} for a, b in sorted(target.edges)],
        "failure": "",
    }


def _plans(target: Target, selected: list[str], good: bool) -> Rows:
    named = {"task_id": target.task_id, "branch_id": "", "trial": 0, "ok": True}
    return [
        named | {"planner": planner, "order": selected if good or planner is Planner.ORACLE else selected[::-1]}
        for planner in Planner
    ]


def contributions(agent: DataAgent, verdicts: Iterable[Tried]) -> pl.DataFrame:
    """The layer of contributions of one data agent, as far as scoring reads it."""
    units = pl.DataFrame(
        [
            (state, target.task_id, target.branch_id, unit, database in selected, drawn)
            for target, state, selected, luck in verdicts
            for unit, database, drawn in zip(target.units, target.databases, luck.tolist(), strict=True)
        ],
        schema=["state", "task_id", "branch_id", "unit_id", "ran", "luck"],
        orient="row",
    ).with_columns(trial=0, needs_binding=False)
    right = pl.col("ran") & (pl.col("luck") < pl.col("right"))
    points = [(p, m, RIGHT[agent, m]) for p in Planner for m in QueryMode]
    return units.join(
        pl.DataFrame(points, schema=["planner", "query_mode", "right"], orient="row"), how="cross"
    ).with_columns(
        kind=pl.when(right)
        .then(pl.lit("correct"))
        .when("ran")
        .then(pl.lit("mismatch"))
        .otherwise(pl.lit("not_selected"))
    )
