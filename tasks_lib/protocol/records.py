"""The seam types: what one floor hands to another (DESIGN, seam types). Frozen; fields may grow, owners may not change.

No logic lives here. Ids are public opaque ids (`db_…`) wherever a public floor can see them; private records say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tasks_lib.protocol.vocabulary import (
    Audience,
    Behavior,
    Corpus,
    DataAgent,
    Difficulty,
    Engine,
    Interaction,
    Planner,
    QueryMode,
    Router,
    VerdictKind,
)

BindingValue = str | int | float | bytes | None
"""A bound value with its own type: '02134' stays text."""


@dataclass(frozen=True, slots=True)
class PublicTask:
    """What a router may know of a task. `allowlist`: candidate public ids in keyed-digest order."""

    task_id: str
    corpus: Corpus
    request: str
    allowlist: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RouteNode:
    """One selected database and what the route asks of it."""

    database_id: str
    information_request: str


@dataclass(frozen=True, slots=True)
class RouteEdge:
    """A declared dependency: the output of `source` feeds `target`."""

    source: str
    target: str
    type: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RoutePlan:
    """A route as declared (PROTOCOL 7). `topology` is None and `selected` empty when no plan was accepted."""

    selected: tuple[str, ...]
    topology: Behavior | None
    nodes: tuple[RouteNode, ...]
    edges: tuple[RouteEdge, ...]
    evidence_ids: tuple[str, ...]
    confidence: float


@dataclass(frozen=True, slots=True)
class AskDecision:
    """One decision per (backend, router, task), shared by both branches (PROTOCOL 8)."""

    backend: str
    router: Router
    task_id: str
    trial: int
    ask: bool
    question: str


@dataclass(frozen=True, slots=True)
class CanonicalSlot:
    """PRIVATE. The ambiguous slot of an interactive task: its question, its values and each branch's answer."""

    task_id: str
    question: str
    values: tuple[str, ...]
    answers_by_branch: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ReleaseDecision:
    """Whether the branch's answer was released, by which rule, and the judge call it rests on (or "")."""

    task_id: str
    branch_id: str
    released: bool
    answer: str
    rule: str
    judge_call: str


@dataclass(frozen=True, slots=True)
class PlanResult:
    """Order and dependencies over the selected databases (PROTOCOL 9). `edges`: (from, to) pairs. `ok`: planner succeeded."""

    order: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    ok: bool
    attempts: int


@dataclass(frozen=True, slots=True)
class LocalRequest:
    """What a data agent receives for one database. `branch_id` is "" for ordinary tasks."""

    task_id: str
    branch_id: str
    database_id: str
    mode: QueryMode
    text: str
    placeholders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DatabaseHandle:
    """How to reach one database. Made by the private side; agents see `schema_text` and `database_id` only.

    `location`: absolute path of the SQLite file, or of the SQL dump that an engine loads on demand.
    `digest`: sha256 hex of that file. `samples`: rows may be shown to executors (False for replicas).
    `knowledge`: column meanings and knowledge entries an executor may read.
    """

    database_id: str
    corpus: Corpus
    engine: Engine
    location: str
    digest: str
    schema_text: str
    knowledge: str = ""
    samples: bool = True


@dataclass(frozen=True, slots=True)
class ExecutionKey:
    """One distinct SQL execution. `bindings`: sorted (name, typed value) pairs."""

    database_digest: str
    sql: str
    bindings: tuple[tuple[str, BindingValue], ...]
    limits_version: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one contribution was judged. `execution`, `comparator`: their keys and version, "" where nothing ran."""

    unit_id: str
    execution: str
    comparator: str
    kind: VerdictKind


@dataclass(frozen=True, slots=True)
class CallContext:
    """Who reads a prompt, which layer sends it, and which repeat it is. The audience decides the leak-scan list."""

    audience: Audience
    layer: str
    trial: int = 0


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the factorial. `cell_id` is `backend.router.agent.planner.interaction.mode` (scoring.cells makes it)."""

    cell_id: str
    backend: str
    router: Router
    data_agent: DataAgent
    planner: Planner
    interaction: Interaction
    query_mode: QueryMode


# ---- private records: never handed to a public floor ----


@dataclass(frozen=True, slots=True)
class SourceUnit:
    """PRIVATE. u = (database, question, read-only gold SQL, evidence) as audited (PROTOCOL 1, 4).

    `tables`, `columns`: schema references as lower-case `table` and `table.column`. `literals`: constants in the gold text.
    `result_digest`: digest of the canonical gold result. `flags`: from corpora.units.FLAGS. `ordered`: gold promises an order.
    """

    unit_id: str
    corpus: Corpus
    database: str
    question: str
    sql: str
    evidence: str
    split: str
    tables: tuple[str, ...]
    columns: tuple[str, ...]
    literals: tuple[str, ...]
    ordered: bool
    result_digest: str
    row_count: int
    column_count: int
    flags: tuple[str, ...]
    difficulty: str = ""


@dataclass(frozen=True, slots=True)
class Binding:
    """PRIVATE. One verified output-to-input edge of a sequential contract.

    `upstream_unit`'s result column `column_index` (0-based) gives `value`, a literal of `downstream_unit`'s gold.
    `field`: private name after the upstream field, such as `film.title`. `downstream_sql`: gold text with that literal token
    replaced by `:binding`; `downstream_question`: the question with that literal replaced by `{binding}`.
    """

    upstream_unit: str
    downstream_unit: str
    field: str
    column_index: int
    value: BindingValue
    downstream_sql: str
    downstream_question: str


@dataclass(frozen=True, slots=True)
class Branch:
    """PRIVATE. One latent reading of an interactive task with its one required unit."""

    branch_id: str
    unit_id: str
    answer: str
    value: str


@dataclass(frozen=True, slots=True)
class Contract:
    """PRIVATE. Frozen before any wording (PROTOCOL 1). `unit_ids` has exactly one unit per database, in gold order.

    `databases`: public ids aligned with `unit_ids`. Edges are (upstream, downstream) public ids.
    """

    task_id: str
    corpus: Corpus
    behavior: Behavior
    difficulty: Difficulty
    unit_ids: tuple[str, ...]
    databases: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    bindings: tuple[Binding, ...] = ()
    branches: tuple[Branch, ...] = ()
    slot_question: str = ""
    aggregation: str = ""
    theme: str = ""
    extra: Mapping[str, str] = field(default_factory=dict)
