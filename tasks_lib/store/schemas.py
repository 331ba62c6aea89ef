"""Every published table: its name@version, its one fixed Arrow schema, its unique key and what each column means.

No reading or writing here (see artifacts), no value rules (see quality). `artifacts/README.md` is generated from this file
(`python -m tasks_lib.store.schemas`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

STR, INT, REAL, BOOL = pa.string(), pa.int64(), pa.float64(), pa.bool_()
STRS = pa.list_(pa.string())
NODES = pa.list_(pa.struct([("database_id", STR), ("information_request", STR)]))
ROUTE_EDGES = pa.list_(pa.struct([("source", STR), ("target", STR), ("type", STR), ("reason", STR)]))
PAIRS = pa.list_(pa.struct([("source", STR), ("target", STR)]))
BINDINGS = pa.list_(
    pa.struct(
        [
            ("upstream_unit", STR),
            ("downstream_unit", STR),
            ("field", STR),
            ("column_index", INT),
            ("value_json", STR),
            ("downstream_sql", STR),
            ("downstream_question", STR),
        ]
    )
)
BRANCHES = pa.list_(pa.struct([("branch_id", STR), ("unit_id", STR), ("answer", STR), ("value", STR)]))


@dataclass(frozen=True)
class Table:
    """A published table. `columns`: (name, type, meaning). All columns are non-null unless named in `nullable`."""

    name: str
    version: int
    about: str
    columns: Sequence[tuple[str, pa.DataType, str]]
    key: tuple[str, ...]
    visibility: str = "private"
    nullable: frozenset[str] = frozenset()

    @property
    def stage(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(n, t, nullable=n in self.nullable) for n, t, _ in self.columns])


TABLES: dict[str, Table] = {}


def _table(
    name: str,
    version: int,
    about: str,
    key: tuple[str, ...],
    columns: Sequence[tuple[str, pa.DataType, str]],
    visibility: str = "private",
    nullable: frozenset[str] = frozenset(),
) -> Table:
    table = Table(name, version, about, columns, key, visibility, nullable)
    TABLES[name] = table
    return table


# ---- corpora and release ----

UNITS = _table(
    "units",
    1,
    "Audited source units of one corpus (private).",
    ("unit_id",),
    [
        ("unit_id", STR, "stable id `<corpus>:<file>:<index>`"),
        ("corpus", STR, "spider | bird | livesqlbench"),
        ("database", STR, "physical database name inside its corpus"),
        ("database_digest", STR, "sha256 of the physical file the gold ran on"),
        ("question", STR, "source-local question"),
        ("sql", STR, "gold SQL as written"),
        ("evidence", STR, "external knowledge of the unit, or empty"),
        ("split", STR, "train | dev"),
        ("tables", STRS, "lower-case tables referenced"),
        ("columns", STRS, "lower-case table.column references"),
        ("literals", STRS, "constants in the gold text, double-quoted ones included"),
        ("ordered", BOOL, "the outermost gold query has ORDER BY"),
        ("result_digest", STR, "digest of the canonical gold result; empty when gold failed"),
        ("row_count", INT, "rows of the gold result"),
        ("column_count", INT, "columns of the gold result"),
        ("first_row_json", STR, "typed first row of a one-row result (JSON), else empty"),
        ("flags", STRS, "closed list of corpora.units"),
        ("difficulty", STR, "difficulty as the corpus states it, or empty"),
    ],
)
DATABASES = _table(
    "databases",
    1,
    "Identity map of a release (private): public id to physical database.",
    ("database_id",),
    [
        ("database_id", STR, "public opaque id"),
        ("corpus", STR, "corpus"),
        ("database", STR, "physical name inside the corpus"),
        ("engine", STR, "sqlite | postgres"),
        ("relative_path", STR, "file below the corpus root (locations.json holds the roots)"),
        ("digest", STR, "sha256 of that file"),
        ("origin", STR, "original | surrogate | replica | embedded"),
        ("title", STR, "what the records are about, in words"),
        ("schema_text", STR, "DDL shown to data agents"),
        ("knowledge", STR, "column meanings and knowledge shown to data agents"),
    ],
)
CONTRACTS = _table(
    "contracts",
    1,
    "Frozen contracts (private).",
    ("task_id",),
    [
        ("task_id", STR, "opaque task id"),
        ("corpus", STR, "corpus"),
        ("behavior", STR, "behavior"),
        ("difficulty", STR, "easy | medium | hard by the stated rule"),
        ("unit_ids", STRS, "required units, gold order; interactive: one per branch"),
        ("databases", STRS, "public ids aligned with unit_ids"),
        ("edges", PAIRS, "directed dependency edges"),
        ("bindings", BINDINGS, "verified output-to-input bindings"),
        ("branches", BRANCHES, "interactive branches"),
        ("slot_question", STR, "canonical clarification question, or empty"),
        ("aggregation", STR, "how contributions combine"),
        ("theme", STR, "shared theme, or empty"),
        ("template", STR, "wording template and seed"),
    ],
)
TASKS = _table(
    "tasks",
    1,
    "What routers may know of each task (public).",
    ("task_id",),
    [
        ("task_id", STR, "opaque task id"),
        ("corpus", STR, "corpus"),
        ("request", STR, "request text"),
        ("allowlist", STRS, "candidate public ids in keyed-digest order"),
    ],
    visibility="public",
)
REJECTED = _table(
    "rejected",
    1,
    "Candidates that failed a gate (private).",
    ("candidate_id", "gate"),
    [
        ("candidate_id", STR, "digest of the candidate's units"),
        ("corpus", STR, "corpus"),
        ("behavior", STR, "behavior"),
        ("unit_ids", STRS, "units of the candidate"),
        ("gate", STR, "gate that refused it"),
        ("reason", STR, "one sentence"),
    ],
)

WORDINGS = _table(
    "wordings",
    1,
    "Who worded each request, and which of its words stand for which unit (private).",
    ("task_id",),
    [
        ("task_id", STR, "task"),
        ("renderer", STR, "template, or the backend that wrote it"),
        ("template", STR, "template or prompt with its attempt"),
        ("contributions", pa.list_(pa.struct([("unit_id", STR), ("words", STR)])), "words of the request by unit"),
    ],
)
GATES = _table(
    "gates",
    1,
    "How often each gate of PROTOCOL 4 let a candidate pass or refused it (private).",
    ("corpus", "behavior", "gate"),
    [
        ("corpus", STR, "corpus"),
        ("behavior", STR, "behavior of the candidates"),
        ("gate", STR, "name of the check"),
        ("position", INT, "place in the order of checks, from 0"),
        ("passed", INT, "candidates that passed it"),
        ("refused", INT, "candidates it refused; a refused one meets no later gate"),
    ],
)
UNSTATED = _table(
    "unstated",
    1,
    "Constraints of the gold that a request does not state (private).",
    ("task_id", "unit_id", "position"),
    [
        ("task_id", STR, "task"),
        ("unit_id", STR, "unit whose gold demands it"),
        ("position", INT, "place in the unit's list, from 0"),
        ("kind", STR, "kind of contracts.unstated"),
        ("detail", STR, "the constraint as the gold has it"),
    ],
)

REVIEWS = _table(
    "reviews",
    1,
    "Answers of reviewers (private): `by` says whether a person or a script gave them.",
    ("release", "reviewer", "pass", "item", "question"),
    [
        ("release", STR, "sha256 of the reviewed release's manifest"),
        ("reviewer", STR, "name of the packet's reviewer in the plan"),
        ("pass", INT, "1 without gold | 2 with it"),
        ("item", STR, "anonymous item id the reviewer saw"),
        ("question", STR, "question of contracts.review.questions"),
        ("task_id", STR, "task"),
        ("answer", STR, "the answer; several values stand in order, separated by spaces"),
        ("by", STR, "person | scripted"),
        ("request_digest", STR, "sha256 of the request text that was reviewed"),
    ],
)
DECISIONS = _table(
    "decisions",
    1,
    "Audit trail of a release and its parents (private): every adjudication and wording-only revision of a task.",
    ("revision", "task_id"),
    [
        ("revision", INT, "number of the revision that took the decision, from 1"),
        ("kind", STR, "adjudication | revision"),
        ("parent", STR, "sha256 of the manifest of the release it was taken on"),
        ("task_id", STR, "task"),
        ("decision", STR, "keep | repair | delete | escalate"),
        ("severity", STR, "none | minor | major | critical; empty in a revision"),
        ("rationale", STR, "why"),
        ("by", STR, "person | scripted | unreviewed (a revision)"),
        ("request_before", STR, "request text it was taken on"),
        ("request_after", STR, "request text since then; empty when the task was deleted"),
        ("executable_hash", STR, "sha256 of everything executable, the same before and after"),
    ],
)

# ---- catalog (public) ----

CAT_DATABASES = _table(
    "cat_databases",
    1,
    "RouteDB: databases (public).",
    ("database_id",),
    [
        ("database_id", STR, "public id"),
        ("corpus", STR, "corpus"),
        ("summary", STR, "one paragraph"),
        ("table_count", INT, "tables"),
        ("row_count", INT, "rows over all tables"),
        ("evidence_id", STR, "evidence id of the summary"),
        ("provenance", STR, "where the facts come from"),
    ],
    visibility="public",
)
CAT_TABLES = _table(
    "cat_tables",
    1,
    "RouteDB: tables (public).",
    ("table_id",),
    [
        ("table_id", STR, "public id"),
        ("database_id", STR, "public id"),
        ("ordinal", INT, "place in the declared order, from 0"),
        ("name", STR, "table name"),
        ("summary", STR, "one sentence"),
        ("row_count", INT, "rows"),
        ("column_count", INT, "columns"),
        ("evidence_id", STR, "evidence id"),
        ("provenance", STR, "source of the facts"),
    ],
    visibility="public",
)
CAT_COLUMNS = _table(
    "cat_columns",
    1,
    "RouteDB: columns (public).",
    ("column_id",),
    [
        ("column_id", STR, "public id"),
        ("table_id", STR, "public id"),
        ("database_id", STR, "public id"),
        ("ordinal", INT, "place in the declared order, from 0"),
        ("name", STR, "column name"),
        ("type", STR, "declared type"),
        ("key", STR, "primary | foreign | empty"),
        ("meaning", STR, "what the column holds"),
        ("examples", STRS, "safe example values"),
        ("value_range", STR, "range or empty"),
        ("evidence_id", STR, "evidence id"),
        ("provenance", STR, "source of the facts"),
    ],
    visibility="public",
)
CAT_CAPABILITIES = _table(
    "cat_capabilities",
    1,
    "RouteDB: what can be asked (public).",
    ("capability_id",),
    [
        ("capability_id", STR, "public id"),
        ("database_id", STR, "public id"),
        ("table_id", STR, "public id"),
        ("kind", STR, "count | join | measure | grouping | filter | time"),
        ("text", STR, "the capability in words"),
        ("evidence_id", STR, "evidence id"),
        ("provenance", STR, "rule that derived it"),
    ],
    visibility="public",
)
CAT_ENTITIES = _table(
    "cat_entities",
    1,
    "RouteDB: values worth finding a database by (public).",
    ("entity_id",),
    [
        ("entity_id", STR, "public id"),
        ("database_id", STR, "public id"),
        ("column_id", STR, "public id"),
        ("value", STR, "the value"),
        ("count", INT, "rows that hold it"),
        ("evidence_id", STR, "evidence id"),
        ("provenance", STR, "source"),
    ],
    visibility="public",
)
CAT_RELATIONS = _table(
    "cat_relations",
    1,
    "RouteDB: keys inside databases and compatible columns across them (public).",
    ("relation_id",),
    [
        ("relation_id", STR, "public id"),
        ("kind", STR, "foreign_key | probable_key | compatible"),
        ("source_column_id", STR, "public id"),
        ("target_column_id", STR, "public id"),
        ("source_database_id", STR, "public id"),
        ("target_database_id", STR, "public id"),
        ("text", STR, "evidence in words"),
        ("evidence_id", STR, "evidence id"),
        ("provenance", STR, "source"),
    ],
    visibility="public",
)
CAT_CARDS = _table(
    "cat_cards",
    1,
    "Semantic cards with their MiniLM vectors, in chunks (public).",
    ("object_id", "chunk"),
    [
        ("object_id", STR, "database, table or column public id"),
        ("database_id", STR, "public id"),
        ("chunk", INT, "chunk number"),
        ("text", STR, "card text"),
        ("vector", pa.list_(pa.float32()), "384 unit-norm floats"),
    ],
    visibility="public",
)

CAT_RERANKER = _table(
    "cat_reranker",
    1,
    "Weights of the search over RouteDB (public): what agents search with, and per fold for the retrieval audit.",
    ("fold", "stage", "feature"),
    [
        ("fold", INT, "-1 for searches; k for weights fitted without the databases of fold k"),
        ("stage", STR, "candidate | reranked"),
        ("feature", STR, "kind of evidence"),
        ("weight", REAL, "weight; one that is missing is 0"),
    ],
    visibility="public",
)
RERANKER_UNITS = _table(
    "reranker_units",
    1,
    "Training record of the reranker (private): the train-split units that its weights were fitted on.",
    ("unit_id",),
    [
        ("unit_id", STR, "unit"),
        ("database_id", STR, "public id of its database"),
        ("fold", INT, "fold of its database: it had no part in the weights of this fold"),
    ],
)

TEXTS = _table(
    "texts",
    1,
    "Questions of a corpus that have no usable gold (private): the retrieval audit searches for them, and nothing else reads them.",
    ("text_id",),
    [
        ("text_id", STR, "id in the corpus"),
        ("corpus", STR, "corpus"),
        ("database", STR, "physical name of the database it is about"),
        ("question", STR, "its text"),
    ],
)

# ---- run layers ----

ROUTES = _table(
    "routes",
    1,
    "Routes of one (backend, router): initial ones have an empty branch_id, clarified ones carry it.",
    ("backend", "router", "task_id", "branch_id", "trial"),
    [
        ("backend", STR, "backend name"),
        ("router", STR, "router"),
        ("task_id", STR, "task"),
        ("branch_id", STR, "branch whose answer the route saw, or empty"),
        ("trial", INT, "repeat"),
        ("valid", BOOL, "the validator accepted a plan"),
        ("reason", STR, "why not, or empty"),
        ("selected", STRS, "selected databases"),
        ("topology", STR, "declared topology, or empty"),
        ("nodes", NODES, "local information requests"),
        ("edges", ROUTE_EDGES, "declared dependencies"),
        ("evidence_ids", STRS, "cited evidence"),
        ("confidence", REAL, "0..1"),
        ("observed", STRS, "databases seen in any observation"),
        ("turns", INT, "model turns used"),
        ("malformed_turns", INT, "turns lost to malformed replies"),
        ("failure", STR, "call failure flag, or empty"),
        ("calls", STRS, "ledger keys of the model calls"),
    ],
)
ROUTE_TURNS = _table(
    "route_turns",
    1,
    "Transcripts of routes, one row a turn; a fixed router's one decision is its turn 1, Random has none. The text stays in the ledger.",
    ("backend", "router", "task_id", "branch_id", "trial", "turn"),
    [
        ("backend", STR, "backend name"),
        ("router", STR, "router"),
        ("task_id", STR, "task"),
        ("branch_id", STR, "branch whose answer the route saw, or empty"),
        ("trial", INT, "repeat"),
        ("turn", INT, "1, 2, … in the episode"),
        ("call_key", STR, "ledger key of the turn's model call"),
        ("outcome", STR, "how the call ended"),
        ("kind", STR, "action | final | ask | malformed | failed | decision"),
        ("action", STR, "action or tool that was run, or empty"),
        ("arguments", STR, "its arguments as JSON text, or empty"),
        ("malformed_reason", STR, "rule that a malformed reply broke, or empty"),
        ("recovery", STR, "adapter that read leaked provider markup, or double_encoded, or empty"),
        ("observed", STRS, "databases that this turn's observation showed"),
        ("selected", STRS, "candidates that a handed-in route selects, accepted or not"),
        ("accepted", BOOL, "the turn's route was accepted"),
        ("prompt_tokens", INT, "prompt tokens, null when unknown"),
        ("completion_tokens", INT, "completion tokens, null when unknown"),
        ("cached_tokens", INT, "prompt tokens that the provider read from its cache, null when unknown"),
    ],
    nullable=frozenset({"prompt_tokens", "completion_tokens", "cached_tokens"}),
)
ASKS = _table(
    "asks",
    2,
    "Ask decisions, one per (backend, router, task): interactive tasks, or every task where the ask scope is all.",
    ("backend", "router", "task_id", "trial"),
    [
        ("backend", STR, "backend name"),
        ("router", STR, "router"),
        ("task_id", STR, "task"),
        ("trial", INT, "repeat"),
        ("ask", BOOL, "ask or not"),
        ("question", STR, "the question, or empty"),
        ("failure", STR, "why a reply decided nothing (such a reply asks nothing), or empty"),
        ("calls", STRS, "ledger keys"),
    ],
)
RELEASES = _table(
    "releases",
    1,
    "Release decisions per branch.",
    ("backend", "router", "task_id", "branch_id", "trial"),
    [
        ("backend", STR, "backend name"),
        ("router", STR, "router"),
        ("task_id", STR, "task"),
        ("branch_id", STR, "branch"),
        ("trial", INT, "repeat"),
        ("released", BOOL, "the branch's answer was released"),
        ("answer", STR, "that answer, or empty"),
        ("rule", STR, "rule that decided"),
        ("judge_call", STR, "ledger key of the judge call, or empty"),
    ],
)
PLANS = _table(
    "plans",
    1,
    "Plans over selected databases; branch_id is empty for initial routes.",
    ("backend", "router", "planner", "task_id", "branch_id", "trial"),
    [
        ("backend", STR, "backend name"),
        ("router", STR, "router"),
        ("planner", STR, "oracle | llm"),
        ("task_id", STR, "task"),
        ("branch_id", STR, "branch of a clarified route, or empty"),
        ("trial", INT, "repeat"),
        ("order", STRS, "execution order"),
        ("edges", PAIRS, "declared dependencies"),
        ("ok", BOOL, "planner succeeded"),
        ("attempts", INT, "calls made"),
        ("calls", STRS, "ledger keys"),
    ],
)
CONTRIBUTIONS = _table(
    "contributions",
    1,
    "Verdicts of required units of one (backend, router, data agent), for every planner, query mode and state.",
    ("backend", "router", "data_agent", "planner", "query_mode", "state", "task_id", "branch_id", "unit_id", "trial"),
    [
        ("backend", STR, "backend name"),
        ("router", STR, "router"),
        ("data_agent", STR, "data agent"),
        ("planner", STR, "oracle | llm"),
        ("query_mode", STR, "privileged | fused | router"),
        ("state", STR, "initial | clarified: which route was executed"),
        ("task_id", STR, "task"),
        ("branch_id", STR, "branch scored, or empty"),
        ("unit_id", STR, "required unit"),
        ("trial", INT, "repeat"),
        ("database_id", STR, "its database"),
        ("request_text", STR, "local request, or empty"),
        ("sql", STR, "SQL as written by the agent"),
        ("bindings_json", STR, "typed bindings, or empty"),
        ("execution", STR, "execution key, or empty"),
        ("comparator", STR, "comparator version, or empty"),
        ("kind", STR, "verdict"),
        ("ran", BOOL, "the SQL ran to a result"),
        ("needs_binding", BOOL, "the unit is downstream of a gold edge"),
        ("calls", STRS, "model-call ledger keys"),
        ("executions", STRS, "execution ledger keys the unit used"),
    ],
)
EPISODES = _table(
    "episodes",
    1,
    "One row per scored attempt of a cell.",
    ("cell_id", "task_id", "branch_id"),
    [
        ("cell_id", STR, "cell"),
        ("backend", STR, "backend"),
        ("router", STR, "router"),
        ("data_agent", STR, "data agent"),
        ("planner", STR, "planner"),
        ("interaction", STR, "never | once"),
        ("query_mode", STR, "query mode"),
        ("task_id", STR, "task"),
        ("branch_id", STR, "branch or empty"),
        ("corpus", STR, "corpus"),
        ("behavior", STR, "behavior"),
        ("difficulty", STR, "difficulty"),
        ("weight", REAL, "1 or 0.5"),
        ("target_size", INT, "required databases of the episode"),
        ("list_size", INT, "databases in the task's target list"),
        ("required", INT, "required contributions"),
        ("correct", INT, "correct ones"),
        ("ran", INT, "required contributions whose SQL ran"),
        ("valid", BOOL, "accepted plan"),
        ("s", BOOL, "set gate"),
        ("label_ok", BOOL, "topology label equal"),
        ("edges_ok", BOOL, "edge sets equal"),
        ("g", BOOL, "graph gate"),
        ("t", BOOL, "execution gate"),
        ("h", BOOL, "plan gate"),
        ("bindings_ok", BOOL, "all gold bindings valid"),
        ("precision", REAL, "set precision"),
        ("recall", REAL, "set recall"),
        ("f1", REAL, "set F1"),
        ("over_rate", REAL, "OR"),
        ("under_rate", REAL, "UR"),
        ("asked", BOOL, "the agent asked"),
        ("released", BOOL, "answer released"),
        ("changed", BOOL, "clarified set differs from the initial set"),
        ("initial_s", BOOL, "set gate of the initial route"),
        ("planned", BOOL, "a planner ran"),
        ("plan_ok", BOOL, "planner succeeded"),
        ("failure_stage", STR, "primary failure stage or none"),
        ("failure_flag", STR, "provider, parser or tool failure, or empty"),
    ],
)
METRICS = _table(
    "metrics",
    1,
    "Metric values of cells by slice, with numerator and denominator.",
    ("cell_id", "slice", "value_of", "metric"),
    [
        ("cell_id", STR, "cell"),
        ("slice", STR, "all | corpus | behavior | difficulty | size"),
        ("value_of", STR, "slice value"),
        ("metric", STR, "metric name"),
        ("numerator", REAL, "numerator"),
        ("denominator", REAL, "denominator"),
        ("value", REAL, "numerator / denominator, 0 when the denominator is 0"),
    ],
)
ROUTING_EPISODES = _table(
    "routing_episodes",
    1,
    "Initial routes scored for the routing study.",
    ("backend", "router", "task_id", "branch_id"),
    [
        ("backend", STR, "backend"),
        ("router", STR, "router"),
        ("task_id", STR, "task"),
        ("branch_id", STR, "branch or empty"),
        ("corpus", STR, "corpus"),
        ("behavior", STR, "behavior"),
        ("difficulty", STR, "difficulty"),
        ("weight", REAL, "1 or 0.5"),
        ("list_size", INT, "databases in the task's target list"),
        ("valid", BOOL, "accepted plan"),
        ("s", BOOL, "set gate"),
        ("label_ok", BOOL, "label equal"),
        ("edges_ok", BOOL, "edges equal"),
        ("g", BOOL, "graph gate"),
        ("precision", REAL, "set precision"),
        ("recall", REAL, "set recall"),
        ("f1", REAL, "set F1"),
        ("over_rate", REAL, "OR"),
        ("under_rate", REAL, "UR"),
        ("turns", INT, "model turns"),
        ("malformed_turns", INT, "malformed turns"),
        ("failure_stage", STR, "primary failure stage or none"),
        ("failure_flag", STR, "failure flag or empty"),
    ],
)
ROUTING_METRICS = _table(
    "routing_metrics",
    1,
    "Metric values of the routing study.",
    ("backend", "router", "slice", "value_of", "metric"),
    [
        ("backend", STR, "backend"),
        ("router", STR, "router"),
        ("slice", STR, "all | corpus | behavior | difficulty | size"),
        ("value_of", STR, "slice value"),
        ("metric", STR, "metric"),
        ("numerator", REAL, "numerator"),
        ("denominator", REAL, "denominator"),
        ("value", REAL, "value"),
    ],
)
ROUTING_TABLE = _table(
    "routing_table",
    1,
    "The routing study as the paper reports it: every pair and cut with 95 % intervals, the mean over backends, first probes.",
    ("backend", "router", "slice", "value_of", "metric"),
    [
        ("backend", STR, "backend, or (mean) for the mean over all backends"),
        ("router", STR, "router"),
        ("slice", STR, "all | corpus | behavior | difficulty | size"),
        ("value_of", STR, "slice value; of size how many databases the target list holds"),
        ("metric", STR, "metric"),
        ("numerator", REAL, "numerator, in task-equivalents"),
        ("denominator", REAL, "denominator, in task-equivalents"),
        ("value", REAL, "numerator / denominator, 0 when the denominator is 0"),
        ("low", REAL, "2.5 percentile; 0 when every resample had a zero denominator"),
        ("high", REAL, "97.5 percentile; 0 when every resample had a zero denominator"),
        ("tasks", INT, "base tasks of the cut: the clusters that are resampled"),
        ("draws", INT, "resamples"),
        ("dropped", INT, "resamples with a zero denominator"),
        ("seed", INT, "seed"),
    ],
)
ROUTING_PROBES = _table(
    "routing_probes",
    1,
    "First databases opened, first route handed in and declared route of every episode of the routing study.",
    ("backend", "router", "task_id", "branch_id"),
    [
        ("backend", STR, "backend"),
        ("router", STR, "router"),
        ("task_id", STR, "task"),
        ("branch_id", STR, "branch or empty"),
        ("corpus", STR, "corpus"),
        ("behavior", STR, "behavior"),
        ("difficulty", STR, "difficulty"),
        ("weight", REAL, "1 or 0.5"),
        ("list_size", INT, "databases in the task's target list"),
        ("opened", STRS, "databases opened before the first submission, in order"),
        ("declared", STRS, "databases of the accepted route; empty when none was accepted"),
        ("first", STRS, "candidates that the first submission selects"),
        ("probed", BOOL, "a route was accepted, and a database opened before the first submission"),
        ("probe_s", BOOL, "probed, and the first k opened are the required ones, k = number declared"),
        ("submitted", BOOL, "a route was handed in, accepted or not"),
        ("first_s", BOOL, "submitted, and the first submission selects exactly the required ones"),
        ("s", BOOL, "set gate of the declared route"),
    ],
)
ROUTING_USAGE = _table(
    "routing_usage",
    1,
    "What the routes of every pair of the routing study took: turns, tool calls, tokens, databases opened, submissions.",
    ("backend", "router", "quantity"),
    [
        ("backend", STR, "backend"),
        ("router", STR, "router"),
        (
            "quantity",
            STR,
            "turns | tool_calls | prompt_tokens | completion_tokens | cached_tokens | databases_opened | submissions | switches",
        ),
        ("routes", INT, "routes, one a task"),
        ("total", INT, "sum of what is known"),
        ("known_turns", INT, "turns whose value is known"),
        ("unknown_turns", INT, "turns whose value nobody told; they are not in the total"),
        ("known_routes", INT, "routes all of whose turns are known: those of the next columns"),
        ("mean", REAL, "a route; null when no route is known"),
        ("median", REAL, "a route"),
        ("p90", REAL, "90th percentile of a route, linear"),
        ("most", INT, "the largest of a route"),
    ],
    nullable=frozenset({"mean", "median", "p90", "most"}),
)
ROUTING_EVENTS = _table(
    "routing_events",
    1,
    "What happened in the routes of every pair of the routing study, counted by kind.",
    ("backend", "router", "event", "kind"),
    [
        ("backend", STR, "backend"),
        ("router", STR, "router"),
        (
            "event",
            STR,
            "action | malformed_turn | failed_turn | recovery | ask_turn | refused_submission | invalid_plan | empty_prediction",
        ),
        (
            "kind",
            STR,
            "the action, rule that was broken, outcome of the call, adapter, or rule that refused the plan; else empty",
        ),
        ("n", INT, "how often"),
        ("of", INT, "turns of the pair; routes of the pair for invalid_plan and empty_prediction"),
    ],
)
ROUTING_TRIALS = _table(
    "routing_trials",
    1,
    "How far repeats of the routing study differ; trial 0 is the published one.",
    ("backend", "router", "metric"),
    [
        ("backend", STR, "backend"),
        ("router", STR, "router"),
        ("metric", STR, "metric"),
        ("trials", INT, "repeats that are complete, trial 0 among them"),
        ("published", REAL, "value of trial 0"),
        ("low", REAL, "smallest value of a trial"),
        ("high", REAL, "largest value of a trial"),
        ("deviation", REAL, "sample standard deviation (n - 1) of the trials' values"),
        ("tasks", INT, "base tasks"),
        ("set_changed", INT, "tasks whose selected set is not the same in all trials"),
        ("graph_changed", INT, "tasks whose set, topology or edges are not the same in all trials"),
    ],
)
INTERVALS = _table(
    "intervals",
    1,
    "Task-cluster bootstrap intervals.",
    ("subject", "metric", "scope"),
    [
        ("subject", STR, "cell, backend.router, or contrast name"),
        ("metric", STR, "metric"),
        ("scope", STR, "tasks resampled"),
        ("value", REAL, "point value"),
        ("low", REAL, "2.5 percentile"),
        ("high", REAL, "97.5 percentile"),
        ("tasks", INT, "clusters"),
        ("draws", INT, "resamples"),
        ("dropped", INT, "resamples with a zero denominator"),
        ("seed", INT, "seed"),
    ],
)
DISAGREEMENT = _table(
    "disagreement",
    1,
    "What a run's verdicts would be under other rules of comparing: those of the other corpora and the published one of its own.",
    ("backend", "corpus", "rule", "reason"),
    [
        ("backend", STR, "backend"),
        ("corpus", STR, "corpus of the verdicts"),
        ("rule", STR, "rule they are read under: a corpus's, or <corpus>_published of its own evaluator"),
        ("reason", STR, "all, or the differences of the rules that change these verdicts, joined by +"),
        ("verdicts", INT, "stored verdicts that rest on a result"),
        ("to_right", INT, "of these, wrong ones that become right"),
        ("to_wrong", INT, "right ones that become wrong"),
        ("numerator", REAL, "weighted right contributions as judged, over the backend's 72 cells"),
        ("other_numerator", REAL, "the same with the changes of this row"),
        ("denominator", REAL, "weighted required contributions over the cells; EA-Micro is a numerator by this"),
    ],
)
ANALYSES = _table(
    "analyses",
    1,
    "Matched analyses of the factorial: fixed sets of cells with intervals, spreads and selected maxima without.",
    ("analysis", "backend", "subject", "scope", "metric", "statistic"),
    [
        ("analysis", STR, "name; of a difference `<high>−<low>`"),
        ("paper", STR, "table, figure or section that it answers to"),
        ("backend", STR, "backend"),
        ("subject", STR, "all, `<factor>=<value>`, or a cell"),
        ("scope", STR, "tasks: all | ordinary | interactive | sequential | a corpus"),
        ("metric", STR, "metric, or a transition between gates"),
        ("statistic", STR, "mean | pooled | difference | median | q1 | q3 | maximum | rank n"),
        ("value", REAL, "value"),
        ("low", REAL, "2.5 percentile, null where no interval is given"),
        ("high", REAL, "97.5 percentile, null where no interval is given"),
        ("tasks", INT, "base tasks in scope"),
        ("cells", INT, "cells looked at, on one side of a difference"),
        ("draws", INT, "resamples, 0 without interval"),
        ("dropped", INT, "resamples with a zero denominator"),
        ("seed", INT, "seed, 0 without interval"),
        ("selected", BOOL, "picked by its score: a descriptive maximum"),
        ("marginal", BOOL, "over the whole grid, privileged inputs included"),
    ],
    nullable=frozenset({"low", "high"}),
)
AUDIT = _table(
    "audit",
    3,
    "Retrieval audit.",
    ("scope", "slice", "value_of", "stage", "metric"),
    [
        ("scope", STR, "own_corpus | whole_registry | task | catalog"),
        ("slice", STR, "all | source (unit, or text without gold) | corpus | split | behavior | size | candidates"),
        ("value_of", STR, "slice value"),
        ("stage", STR, "candidate | reranked | tfidf | bm25 | minilm | cards"),
        ("metric", STR, "recall_at_k, mrr, target_recall_at_k, all_target_coverage_at_k, truncated_tokens"),
        ("value", REAL, "fraction; of truncated_tokens a count"),
        ("n", INT, "questions, tasks or card chunks"),
        ("low", REAL, "lower end of the 95 % Wilson interval; null where outcomes are not 0 or 1"),
        ("high", REAL, "upper end"),
        ("release", STR, "sha256 of the manifest of the audited release"),
    ],
    nullable=frozenset({"low", "high"}),
)


def readme() -> str:
    """Markdown of `artifacts/README.md`: every table with its columns."""
    lines = [
        "# What runs write",
        "",
        "Generated from `tasks_lib/store/schemas.py`; do not edit. Every table is Parquet with one fixed Arrow schema, kept in a",
        'content-addressed store (`store/<table>/<key>.parquet`) beside a JSON record that is the only truth of "done".',
        "Columns are never null unless marked.",
        "",
    ]
    for table in TABLES.values():
        lines += [
            f"## `{table.stage}` ({table.visibility})",
            "",
            table.about,
            f"Unique key: {', '.join(table.key)}.",
            "",
        ]
        lines += ["| column | type | meaning |", "| --- | --- | --- |"]
        for name, kind, meaning in table.columns:
            null = " (nullable)" if name in table.nullable else ""
            lines.append(f"| `{name}` | {str(kind).replace('|', ' ')}{null} | {meaning.replace('|', ' / ')} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(readme(), end="")
