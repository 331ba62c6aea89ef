"""Layers of the published size for tests and benches of scoring: the simulated backend (ReAct, text-to-SQL) under the paper's task
counts, with every column that the layer tables have, and a store that holds them. No expectations here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, cycle, islice
from typing import Any

import pyarrow as pa
from simulated_backend import World, contributions

from tasks_lib.protocol.vocabulary import Behavior, DataAgent, Router
from tasks_lib.scoring.targets import Target
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.schemas import ASKS, CONTRIBUTIONS, PLANS, RELEASES, ROUTES, Table

Rows = list[dict[str, Any]]
TABLES: Mapping[str, Table] = {
    "routes": ROUTES,
    "clarified": ROUTES,
    "asks": ASKS,
    "releases": RELEASES,
    "plans": PLANS,
    "contributions": CONTRIBUTIONS,
}
PUBLISHED: tuple[tuple[int, Behavior, tuple[int, ...]], ...] = (
    (92, Behavior.SINGLE, (1,)),
    (305, Behavior.PARALLEL, (2, 2, 3, 3, 4)),
    (22, Behavior.SEQUENTIAL, (2, 2, 3)),
    (291, Behavior.EXPLORATORY, (2, 3, 3, 4, 5, 6)),
    (105, Behavior.INTERACTIVE, (2,)),
)
"""Tasks of the paper's 815 by behavior, and sizes of their target lists in turn."""


class Published(World):
    """A world of `tasks` tasks in the paper's proportions: 920 episodes for 815 tasks."""

    def __init__(self, seed: int, tasks: int = 815) -> None:
        super().__init__(seed, tasks)
        layers, tried = self.chain(Router.REACT)
        rows = contributions(DataAgent.TEXT_TO_SQL, tried).drop("luck", "right").to_dicts()
        self.layers: dict[str, Rows] = {**layers, "contributions": rows}

    def population(self) -> list[tuple[Behavior, int]]:
        kinds = list(
            chain.from_iterable(
                [(behavior, size) for size in islice(cycle(sizes), n)] for n, behavior, sizes in PUBLISHED
            )
        )
        if self.tasks % len(kinds) == 0:
            return kinds * (self.tasks // len(kinds))
        return [kinds[int(i)] for i in self.rng.integers(0, len(kinds), self.tasks)]

    def ordered(self) -> tuple[Target, ...]:
        """Targets in task order, as `episodes_of` gives them."""
        return tuple(sorted(self.targets, key=lambda t: (t.task_id, t.branch_id)))


def blank(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return []
    return "" if pa.types.is_string(kind) else 0 if pa.types.is_integer(kind) else False


def whole(table: Table, rows: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> Rows:
    """Rows with every column of the table; texts of contributions are as long as real ones, keys of calls are digests."""
    made = []
    for row in rows:
        full = {f.name: row.get(f.name, names.get(f.name, blank(f.type))) for f in table.schema}
        if table is ROUTES:
            full["edges"] = [{"type": "", "reason": "", **edge} for edge in row["edges"]]
        if table is CONTRIBUTIONS:
            seed = f"{full['task_id']} {full['unit_id']} {full['query_mode']} {full['state']}"
            text = hashlib.sha256(seed.encode()).hexdigest()
            full |= {
                "request_text": text * 3,
                "sql": text * 4,
                "execution": text,
                "calls": [text],
                "executions": [text],
            }
        made.append(full)
    return made


@dataclass
class Simulated:
    """One world in a store: `keys[(backend, router)]` are layer keys, contributions by data agent."""

    store: ArtifactStore
    world: Published
    targets: tuple[Target, ...]
    keys: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)

    def add(self, backend: str, router: str) -> None:
        """Write the world's layers as those of one more (backend, router)."""
        layers = self.world.layers
        parts = {name: layers[name] for name in ("asks", "releases", "plans")}
        parts["routes"] = [r for r in layers["routes"] if r["branch_id"] == ""]
        parts["clarified"] = [r for r in layers["routes"] if r["branch_id"] != ""]
        keys = {name: hashlib.sha256(f"{name} {backend} {router}".encode()).hexdigest() for name in parts}
        names = {"backend": backend, "router": router}
        for name, key in keys.items():
            self.store.write(TABLES[name], key, whole(TABLES[name], parts[name], names))
        for agent in DataAgent:
            key = hashlib.sha256(f"{agent} {backend} {router}".encode()).hexdigest()
            rows = whole(CONTRIBUTIONS, layers["contributions"], {**names, "data_agent": str(agent)})
            self.store.write(CONTRIBUTIONS, key, rows)
            keys[str(agent)] = key
        self.keys[(backend, router)] = keys

    def layer_keys(self, backend: str, router: str, agent: str) -> dict[str, str]:
        """Keys that `tables.Scorer` wants."""
        keys = self.keys[(backend, router)]
        return {name: keys[name] for name in TABLES if name != "contributions"} | {"contributions": keys[agent]}


def simulated(folder: str, tasks: int = 815, seed: int = 1) -> Simulated:
    world = Published(seed, tasks)
    return Simulated(ArtifactStore(folder), world, world.ordered())
