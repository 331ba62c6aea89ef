"""What a router looked at first, what it handed in first, and what it declared: was the first look right, and did it move away?

The paper gives no plain definition, so these are ours. A database is *opened* by an action that reads it (`OPENING`), or by the
schedule of a router with a fixed one, which opens what it inspects before its one decision. The *first probe* is the set of the
first k distinct databases opened before the first submission, k being the number of databases of the declared route. The *first
route* is the set of the first submission, accepted or not. The *declared* route is the accepted one; without one it is empty.

Only rows and the definition of the metrics here; values and intervals are `routing_publish`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from tasks_lib.routing.turns import TurnKind
from tasks_lib.scoring.targets import Target

Row = Mapping[str, Any]

OPENING = frozenset(
    {"inspect_database", "inspect_table", "inspect_column", "load_database_skill", "inspect_relationships"}
)
"""Actions that read one database; the first one their observation shows is the one they read."""

W, S = pl.col("weight"), pl.col("s").cast(pl.Float64)
PROBED, PROBE = pl.col("probed").cast(pl.Float64), pl.col("probe_s").cast(pl.Float64)
SUBMITTED, FIRST = pl.col("submitted").cast(pl.Float64), pl.col("first_s").cast(pl.Float64)

PROBES: dict[str, tuple[pl.Expr, pl.Expr]] = {
    "First-Probe": (W * PROBED * PROBE, W * PROBED),
    "Declared-after-Probe": (W * PROBED * S, W * PROBED),
    "Probe-Right-to-Wrong": (W * PROBED * PROBE * (1 - S), W * PROBED),
    "Probe-Wrong-to-Right": (W * PROBED * (1 - PROBE) * S, W * PROBED),
    "First-Route": (W * SUBMITTED * FIRST, W * SUBMITTED),
    "Declared-after-Route": (W * SUBMITTED * S, W * SUBMITTED),
    "Route-Right-to-Wrong": (W * SUBMITTED * FIRST * (1 - S), W * SUBMITTED),
    "Route-Wrong-to-Right": (W * SUBMITTED * (1 - FIRST) * S, W * SUBMITTED),
}
"""First look and first route against the declared one, over the episodes that have them; numerators of the moves count
task-equivalents. `Declared-after-…` is RA-Set over the same episodes, so that the two can be compared."""


def by_task(turns: Iterable[Row]) -> dict[str, list[Row]]:
    """Turns of initial routes by task, in order of the turns."""
    found: dict[str, list[Row]] = {}
    for turn in turns:
        if turn["branch_id"] == "":
            found.setdefault(turn["task_id"], []).append(turn)
    for rows in found.values():
        rows.sort(key=lambda row: row["turn"])
    return found


def submissions(turns: Iterable[Row]) -> list[frozenset[str]]:
    """Selected candidates of every route that was handed in, in order. A decision that was no JSON object handed in none."""
    kinds = (TurnKind.FINAL, TurnKind.DECISION)
    return [frozenset(turn["selected"]) for turn in turns if turn["kind"] in kinds and turn["arguments"]]


def opened(turns: Iterable[Row]) -> list[str]:
    """Distinct databases opened before the first submission, in order."""
    found: dict[str, None] = {}
    for turn in turns:
        if turn["kind"] == TurnKind.DECISION:  # its schedule opened all that it shows
            return list(turn["observed"])
        if turn["kind"] == TurnKind.FINAL:
            break
        if turn["kind"] == TurnKind.ACTION and turn["action"] in OPENING and turn["observed"]:
            found[turn["observed"][0]] = None
    return list(found)


def probe_rows(
    backend: str, router: str, targets: Sequence[Target], routes: Iterable[Row], turns: Iterable[Row]
) -> list[dict[str, Any]]:
    """Rows of `routing_probes` of one pair; `routes`, `turns`: of its initial routes, one trial. Every target has a route."""
    declared = {r["task_id"]: list(r["selected"]) for r in routes if r["branch_id"] == ""}
    transcripts = by_task(turns)
    rows = []
    for target in targets:
        mine = transcripts.get(target.task_id, [])
        chosen, looked, handed = declared[target.task_id], opened(mine), submissions(mine)
        required = frozenset(target.databases)
        probed = bool(chosen and looked)
        rows.append(
            {
                "backend": backend,
                "router": router,
                **target.named(),
                "opened": looked,
                "declared": chosen,
                "first": sorted(handed[0]) if handed else [],
                "probed": probed,
                "probe_s": probed and frozenset(looked[: len(chosen)]) == required,
                "submitted": bool(handed),
                "first_s": bool(handed) and handed[0] == required,
                "s": frozenset(chosen) == required,
            }
        )
    return rows
