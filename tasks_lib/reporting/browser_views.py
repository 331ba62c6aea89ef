"""PRIVATE. What the browser of a run hands on: the stored rows of one task, its gold, and the parts of its page as words.

Types only: no reading (browser_layers), no wording (browser_tasks, browser_routes, browser_work).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from tasks_lib.protocol.records import Contract, PublicTask, SourceUnit
from tasks_lib.reporting.browser_texts import Ran, Table

Row = Mapping[str, Any]
AnswerKey = tuple[str, str, str, str, str]
"""What makes one distinct answer: unit, SQL, bindings, execution and verdict."""
SQL, ARGUMENTS, REQUEST = 6000, 1500, 3000
"""Characters of a text that are shown."""


@dataclass(frozen=True, slots=True)
class TaskRows:
    """Rows of one task in one (backend, router). `turns`: by branch ("" for the initial route). `episodes`: of all its cells."""

    backend: str
    router: str
    routes: Sequence[Row]
    turns: Mapping[str, Sequence[Row]]
    asks: Sequence[Row]
    releases: Sequence[Row]
    plans: Sequence[Row]
    contributions: Sequence[Row]
    episodes: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Gold:
    """The private side of one task. `names`: physical name by public database id. `units` in gold order."""

    contract: Contract
    task: PublicTask
    units: tuple[SourceUnit, ...]
    names: Mapping[str, str]

    def name(self, database_id: str) -> str:
        """How a database is called on the page."""
        return self.names.get(database_id, database_id)


@dataclass(frozen=True, slots=True)
class Answer:
    """One distinct SQL text, with its values, written for a unit. `written`: how many stored verdicts rest on it."""

    number: int
    sql: str
    bindings: str
    verdict: str
    right: bool
    written: int
    ran: Ran | None
    same: bool


@dataclass(frozen=True, slots=True)
class UnitView:
    """A required unit: its gold, and everything that was written for it."""

    number: int
    unit: SourceUnit
    database_id: str
    table: Table | None
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class TurnView:
    """A turn in words. `facts`: what was read of the reply."""

    number: int
    kind: str
    action: str
    arguments: str
    facts: tuple[str, ...]
    reply: str


@dataclass(frozen=True, slots=True)
class RouteView:
    """A route beside the gold it is scored against."""

    title: str
    verdict: str
    gold: Markup
    route: Markup
    facts: tuple[tuple[str, str], ...]
    requests: tuple[tuple[str, str], ...]
    plans: tuple[tuple[str, str], ...]
    turns: tuple[TurnView, ...]
    turns_note: str


@dataclass(frozen=True, slots=True)
class Local:
    """Verdicts of one unit under one data agent: by query mode, each a list of (who planned, verdict, unit, answer, request)."""

    state: str
    unit: int
    database: str
    agent: str
    modes: tuple[tuple[tuple[str, str, int, int, str], ...], ...]


@dataclass(frozen=True, slots=True)
class CellsView:
    """Cells that ended alike. `cells`: in words."""

    branch: str
    gates: str
    stage: str
    flag: str
    count: int
    cells: str


@dataclass(frozen=True, slots=True)
class ChainView:
    """One backend and router."""

    anchor: str
    backend: str
    router: str
    selected: str
    initial: str
    solved: int
    attempts: int
    stages: str
    exchange: tuple[tuple[str, str], ...]
    routes: tuple[RouteView, ...]
    locals: tuple[Local, ...]
    cells: tuple[CellsView, ...]


@dataclass(frozen=True, slots=True)
class TaskView:
    """Everything the page of a task shows."""

    gold: Gold
    graph: Markup
    facts: tuple[tuple[str, str], ...]
    edges: tuple[str, ...]
    branches: tuple[tuple[str, str, str, str], ...]
    units: tuple[UnitView, ...]
    chains: tuple[ChainView, ...]


def answer_key(row: Row) -> AnswerKey:
    """The answer that a row of `contributions` holds."""
    return row["unit_id"], row["sql"], row["bindings_json"], row["execution"], row["kind"]
