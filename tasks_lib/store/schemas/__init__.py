"""Every published table: its name@version, its one fixed Arrow schema, its unique key and what each column means.

One module a stage (release, catalog, layers, scores, routing); all are read from here. No reading or writing (see artifacts), no
value rules (see quality). `artifacts/README.md` is generated from this package (`python -m tasks_lib.store.schemas`).
"""

from __future__ import annotations

from tasks_lib.store.schemas.catalog import (
    AUDIT,
    CAT_CAPABILITIES,
    CAT_CARDS,
    CAT_COLUMNS,
    CAT_DATABASES,
    CAT_ENTITIES,
    CAT_RELATIONS,
    CAT_RERANKER,
    CAT_TABLES,
    RERANKER_UNITS,
)
from tasks_lib.store.schemas.layers import ASKS, CONTRIBUTIONS, PLANS, RELEASES, ROUTE_TURNS, ROUTES
from tasks_lib.store.schemas.release import (
    CONTRACTS,
    DATABASES,
    DECISIONS,
    GATES,
    REJECTED,
    REVIEWS,
    TASKS,
    TEXTS,
    UNITS,
    UNSTATED,
    WORDINGS,
)
from tasks_lib.store.schemas.routing import (
    ROUTING_EPISODES,
    ROUTING_EVENTS,
    ROUTING_METRICS,
    ROUTING_PROBES,
    ROUTING_TABLE,
    ROUTING_TRIALS,
    ROUTING_USAGE,
)
from tasks_lib.store.schemas.scores import ANALYSES, DISAGREEMENT, EPISODES, INTERVALS, METRICS
from tasks_lib.store.schemas.types import (
    BINDINGS,
    BOOL,
    BRANCHES,
    INT,
    NODES,
    PAIRS,
    REAL,
    ROUTE_EDGES,
    STR,
    STRS,
    Table,
)

__all__ = [
    "ANALYSES",
    "ASKS",
    "AUDIT",
    "BINDINGS",
    "BOOL",
    "BRANCHES",
    "CAT_CAPABILITIES",
    "CAT_CARDS",
    "CAT_COLUMNS",
    "CAT_DATABASES",
    "CAT_ENTITIES",
    "CAT_RELATIONS",
    "CAT_RERANKER",
    "CAT_TABLES",
    "CONTRACTS",
    "CONTRIBUTIONS",
    "DATABASES",
    "DECISIONS",
    "DISAGREEMENT",
    "EPISODES",
    "GATES",
    "INT",
    "INTERVALS",
    "METRICS",
    "NODES",
    "PAIRS",
    "PLANS",
    "REAL",
    "REJECTED",
    "RELEASES",
    "RERANKER_UNITS",
    "REVIEWS",
    "ROUTES",
    "ROUTE_EDGES",
    "ROUTE_TURNS",
    "ROUTING_EPISODES",
    "ROUTING_EVENTS",
    "ROUTING_METRICS",
    "ROUTING_PROBES",
    "ROUTING_TABLE",
    "ROUTING_TRIALS",
    "ROUTING_USAGE",
    "STR",
    "STRS",
    "TABLES",
    "TASKS",
    "TEXTS",
    "UNITS",
    "UNSTATED",
    "WORDINGS",
    "Table",
    "readme",
]

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        UNITS,
        DATABASES,
        CONTRACTS,
        TASKS,
        REJECTED,
        WORDINGS,
        GATES,
        UNSTATED,
        REVIEWS,
        DECISIONS,
        CAT_DATABASES,
        CAT_TABLES,
        CAT_COLUMNS,
        CAT_CAPABILITIES,
        CAT_ENTITIES,
        CAT_RELATIONS,
        CAT_CARDS,
        CAT_RERANKER,
        RERANKER_UNITS,
        TEXTS,
        ROUTES,
        ROUTE_TURNS,
        ASKS,
        RELEASES,
        PLANS,
        CONTRIBUTIONS,
        EPISODES,
        METRICS,
        ROUTING_EPISODES,
        ROUTING_METRICS,
        ROUTING_TABLE,
        ROUTING_PROBES,
        ROUTING_USAGE,
        ROUTING_EVENTS,
        ROUTING_TRIALS,
        INTERVALS,
        DISAGREEMENT,
        ANALYSES,
        AUDIT,
    )
}
"""By name, in the order of a run's stages."""


def readme() -> str:
    """Markdown of `artifacts/README.md`: every table with its columns."""
    lines = [
        "# What runs write",
        "",
        "Generated from `tasks_lib/store/schemas`; do not edit. Every table is Parquet with one fixed Arrow schema, kept in a",
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
