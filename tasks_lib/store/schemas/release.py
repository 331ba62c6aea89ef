"""Tables of the private corpora and of a release: units, contracts, the public tasks, gates and reviews."""

from __future__ import annotations

import pyarrow as pa

from tasks_lib.store.schemas.types import BINDINGS, BOOL, BRANCHES, INT, PAIRS, STR, STRS, Table

UNITS = Table(
    "units",
    1,
    "Audited source units of one corpus (private).",
    key=("unit_id",),
    columns=[
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
DATABASES = Table(
    "databases",
    1,
    "Identity map of a release (private): public id to physical database.",
    key=("database_id",),
    columns=[
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
CONTRACTS = Table(
    "contracts",
    1,
    "Frozen contracts (private).",
    key=("task_id",),
    columns=[
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
TASKS = Table(
    "tasks",
    1,
    "What routers may know of each task (public).",
    key=("task_id",),
    columns=[
        ("task_id", STR, "opaque task id"),
        ("corpus", STR, "corpus"),
        ("request", STR, "request text"),
        ("allowlist", STRS, "candidate public ids in keyed-digest order"),
    ],
    visibility="public",
)
REJECTED = Table(
    "rejected",
    1,
    "Candidates that failed a gate (private).",
    key=("candidate_id", "gate"),
    columns=[
        ("candidate_id", STR, "digest of the candidate's units"),
        ("corpus", STR, "corpus"),
        ("behavior", STR, "behavior"),
        ("unit_ids", STRS, "units of the candidate"),
        ("gate", STR, "gate that refused it"),
        ("reason", STR, "one sentence"),
    ],
)
WORDINGS = Table(
    "wordings",
    1,
    "Who worded each request, and which of its words stand for which unit (private).",
    key=("task_id",),
    columns=[
        ("task_id", STR, "task"),
        ("renderer", STR, "template, or the backend that wrote it"),
        ("template", STR, "template or prompt with its attempt"),
        ("contributions", pa.list_(pa.struct([("unit_id", STR), ("words", STR)])), "words of the request by unit"),
    ],
)
GATES = Table(
    "gates",
    1,
    "How often each gate of PROTOCOL 4 let a candidate pass or refused it (private).",
    key=("corpus", "behavior", "gate"),
    columns=[
        ("corpus", STR, "corpus"),
        ("behavior", STR, "behavior of the candidates"),
        ("gate", STR, "name of the check"),
        ("position", INT, "place in the order of checks, from 0"),
        ("passed", INT, "candidates that passed it"),
        ("refused", INT, "candidates it refused; a refused one meets no later gate"),
    ],
)
UNSTATED = Table(
    "unstated",
    1,
    "Constraints of the gold that a request does not state (private).",
    key=("task_id", "unit_id", "position"),
    columns=[
        ("task_id", STR, "task"),
        ("unit_id", STR, "unit whose gold demands it"),
        ("position", INT, "place in the unit's list, from 0"),
        ("kind", STR, "kind of contracts.unstated"),
        ("detail", STR, "the constraint as the gold has it"),
    ],
)
REVIEWS = Table(
    "reviews",
    1,
    "Answers of reviewers (private): `by` says whether a person or a script gave them.",
    key=("release", "reviewer", "pass", "item", "question"),
    columns=[
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
DECISIONS = Table(
    "decisions",
    1,
    "Audit trail of a release and its parents (private): every adjudication and wording-only revision of a task.",
    key=("revision", "task_id"),
    columns=[
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
TEXTS = Table(
    "texts",
    1,
    "Questions of a corpus that have no usable gold (private): the retrieval audit searches for them, and nothing else reads them.",
    key=("text_id",),
    columns=[
        ("text_id", STR, "id in the corpus"),
        ("corpus", STR, "corpus"),
        ("database", STR, "physical name of the database it is about"),
        ("question", STR, "its text"),
    ],
)
