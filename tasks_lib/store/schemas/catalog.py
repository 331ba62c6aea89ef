"""Tables of RouteDB, of its search weights and of the retrieval audit."""

from __future__ import annotations

import pyarrow as pa

from tasks_lib.store.schemas.types import INT, REAL, STR, STRS, Table

CAT_DATABASES = Table(
    "cat_databases",
    1,
    "RouteDB: databases (public).",
    key=("database_id",),
    columns=[
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
CAT_TABLES = Table(
    "cat_tables",
    1,
    "RouteDB: tables (public).",
    key=("table_id",),
    columns=[
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
CAT_COLUMNS = Table(
    "cat_columns",
    1,
    "RouteDB: columns (public).",
    key=("column_id",),
    columns=[
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
CAT_CAPABILITIES = Table(
    "cat_capabilities",
    1,
    "RouteDB: what can be asked (public).",
    key=("capability_id",),
    columns=[
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
CAT_ENTITIES = Table(
    "cat_entities",
    1,
    "RouteDB: values worth finding a database by (public).",
    key=("entity_id",),
    columns=[
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
CAT_RELATIONS = Table(
    "cat_relations",
    1,
    "RouteDB: keys inside databases and compatible columns across them (public).",
    key=("relation_id",),
    columns=[
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
CAT_CARDS = Table(
    "cat_cards",
    1,
    "Semantic cards with their MiniLM vectors, in chunks (public).",
    key=("object_id", "chunk"),
    columns=[
        ("object_id", STR, "database, table or column public id"),
        ("database_id", STR, "public id"),
        ("chunk", INT, "chunk number"),
        ("text", STR, "card text"),
        ("vector", pa.list_(pa.float32()), "384 unit-norm floats"),
    ],
    visibility="public",
)
CAT_RERANKER = Table(
    "cat_reranker",
    1,
    "Weights of the search over RouteDB (public): what agents search with, and per fold for the retrieval audit.",
    key=("fold", "stage", "feature"),
    columns=[
        ("fold", INT, "-1 for searches; k for weights fitted without the databases of fold k"),
        ("stage", STR, "candidate | reranked"),
        ("feature", STR, "kind of evidence"),
        ("weight", REAL, "weight; one that is missing is 0"),
    ],
    visibility="public",
)
RERANKER_UNITS = Table(
    "reranker_units",
    1,
    "Training record of the reranker (private): the train-split units that its weights were fitted on.",
    key=("unit_id",),
    columns=[
        ("unit_id", STR, "unit"),
        ("database_id", STR, "public id of its database"),
        ("fold", INT, "fold of its database: it had no part in the weights of this fold"),
    ],
)
AUDIT = Table(
    "audit",
    3,
    "Retrieval audit.",
    key=("scope", "slice", "value_of", "stage", "metric"),
    columns=[
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
