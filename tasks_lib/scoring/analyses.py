"""Every matched analysis of the factorial beside the cells' own values and contrasts (PROTOCOL 14), as rows of `analyses`.

Which cells and tasks an analysis looks at is data (`ANALYSES`). A fixed set of cells has a percentile interval of the shared draws
(see grids); what describes a spread of configurations or was picked by looking at the scores has none (see spreads).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tasks_lib.protocol.records import Cell
from tasks_lib.protocol.vocabulary import (
    Behavior,
    Corpus,
    DataAgent,
    Difficulty,
    FailureStage,
    Interaction,
    Planner,
    QueryMode,
    Router,
)
from tasks_lib.scoring.bootstrap import counts
from tasks_lib.scoring.cells import grid
from tasks_lib.scoring.grids import OPEN as OPEN  # part of what an analysis is said by
from tasks_lib.scoring.grids import Fixed, Grid, chosen, other_side, plain_row
from tasks_lib.scoring.metrics import CELL_METRICS, HEADLINE, G, H, S, T, W, truth
from tasks_lib.scoring.spreads import BEST_ROWS, SPREAD_ROWS, best, spread
from tasks_lib.scoring.targets import LARGEST, SIZES

LABEL, EDGES = truth("label_ok"), truth("edges_ok")
STAGE = pl.col("failure_stage")
UNSEEN = STAGE.eq(FailureStage.RETRIEVAL_MISS).cast(pl.Float64)
UNCHOSEN = STAGE.eq(FailureStage.UNDER_SELECTION).cast(pl.Float64)
STAGES = {
    f"Failed: {stage}": (W * STAGE.eq(stage).cast(pl.Float64), W)
    for stage in FailureStage
    if stage != FailureStage.NONE
}
"""Share of the tasks whose primary failure stage it is; with R+E-Graph they add up to 1 (PROTOCOL 15)."""
METRICS = (
    CELL_METRICS
    | {
        "Graph-given-Set": (W * G, W * S),
        "R+E-given-Graph": (W * G * T * H, W * G),
        "R+E-given-Set": (W * G * T * H, W * S),
        "Label-wrong-given-Set": (W * S * (1 - LABEL) * EDGES, W * S),
        "Edges-wrong-given-Set": (W * S * LABEL * (1 - EDGES), W * S),
        "Both-wrong-given-Set": (W * S * (1 - LABEL) * (1 - EDGES), W * S),
        "Retriever-limited": (W * UNSEEN, W * (UNSEEN + UNCHOSEN)),
        "Agent-limited": (W * UNCHOSEN, W * (UNSEEN + UNCHOSEN)),
    }
    | STAGES
)
"""The cells' metrics, transitions between gates, which half of the graph gate failed where the set is right, failure stages, and of
routes that lack a required database the share that never saw it (retriever) and that saw it (agent; appendix G.1)."""

LLM_NEVER: Fixed = {"planner": str(Planner.LLM), "interaction": str(Interaction.NEVER)}
LLM_ONCE: Fixed = {"planner": str(Planner.LLM), "interaction": str(Interaction.ONCE)}
LOCAL: Fixed = {"query_mode": str(QueryMode.ROUTER)}
"""Requests of the router's own; only there a wrong answer can be laid to the request."""
REFERENCE: Fixed = {
    "router": str(Router.HERMES),
    "data_agent": str(DataAgent.ADAPTER),
    "query_mode": str(QueryMode.ROUTER),
    **LLM_NEVER,
}
"""The one fixed cell whose transitions the paper shows."""
ORDINARY = "ordinary"
SIZE = pl.col("list_size").replace_strict(SIZES, default=LARGEST, return_dtype=pl.String)
SCOPES: dict[str, pl.Expr] = {
    "all": pl.lit(True),
    ORDINARY: pl.col("behavior") != Behavior.INTERACTIVE,
    **{str(c): pl.col("corpus") == c for c in Corpus},
    **{str(b): pl.col("behavior") == b for b in Behavior},
    **{str(d): pl.col("difficulty") == d for d in Difficulty},
    **{f"size={size}": SIZE.eq(size) for size in dict.fromkeys((*SIZES.values(), LARGEST))},
}
"""Tasks that are looked at and resampled. Both episodes of an interactive task are in the same ones."""
CORPORA, BEHAVIORS = tuple(map(str, Corpus)), tuple(map(str, Behavior))


@dataclass(frozen=True, slots=True)
class Analysis:
    """One analysis of each backend. `cells`: values of factors held fixed; `scopes`: names of SCOPES.

    With `factor` the value is the mean over matched cells of metric(high) − metric(low), else the mean over the cells; `pooled`
    divides summed numerators by summed denominators. `by`: factors whose values are looked at apart as well.
    `marginal`: over the whole grid, privileged inputs included, so not interchangeable with fixed controls.
    """

    name: str
    paper: str
    metrics: tuple[str, ...]
    cells: Fixed = field(default_factory=dict)
    scopes: tuple[str, ...] = ("all",)
    factor: str = ""
    high: str = ""
    low: str = ""
    pooled: bool = False
    by: tuple[str, ...] = ()
    marginal: bool = False


def _differences() -> Iterable[Analysis]:
    """Matched differences: request modes, clarification, planners, routers, data agents; then the same over the whole grid."""
    mode, both = ("EA-Micro", "TEA", "R+E-Graph"), ("router", "data_agent")
    pairs: list[tuple[str, str, str, str, tuple[str, ...], Fixed, tuple[str, ...], tuple[str, ...]]] = [
        ("query_mode", QueryMode.ROUTER, QueryMode.FUSED, "Figure 3", mode, LLM_NEVER, both, ("all", ORDINARY)),
        ("query_mode", QueryMode.PRIVILEGED, QueryMode.ROUTER, "Figure 3", mode, LLM_NEVER, both, ("all", ORDINARY)),
        ("query_mode", QueryMode.PRIVILEGED, QueryMode.FUSED, "Figure 3", mode, LLM_NEVER, both, ("all", ORDINARY)),
    ]
    open_llm: Fixed = {"planner": str(Planner.LLM), "query_mode": OPEN}
    gates = ("RA-Set", "RA-Graph", "TEA", "R+E-Graph")
    pairs.append(
        ("interaction", Interaction.ONCE, Interaction.NEVER, "Table 23", gates, open_llm, both, ("interactive",))
    )
    pairs.append(("interaction", Interaction.ONCE, Interaction.NEVER, "Table 5", gates, open_llm, both, ("all",)))
    never_open: Fixed = {"interaction": str(Interaction.NEVER), "query_mode": OPEN}
    plan = ("Plan-Accuracy", "R+E-given-Set", "R+E-Graph")
    pairs.append(("planner", Planner.LLM, Planner.ORACLE, "Figure 4", plan, never_open, both, ("sequential",)))
    routed: Fixed = {**LLM_NEVER, "query_mode": OPEN}
    ends = (*HEADLINE, "Graph-given-Set", "R+E-given-Graph")
    scopes = ("all", ORDINARY)
    for high, low in (("react", "direct"), ("hermes", "direct"), ("hermes", "react")):
        pairs.append(("router", high, low, "router split", ends, routed, ("data_agent",), scopes))
    agents = (DataAgent.ADAPTER, DataAgent.TEXT_TO_SQL)
    pairs.append(("data_agent", *agents, "data-agent split", ends, routed, ("router",), scopes))
    for factor, high, low, paper, metrics, cells, by, where in pairs:
        yield Analysis(f"{high}−{low}", paper, metrics, cells, where, factor, high, low, by=by)
        if where != ("interactive",):
            yield Analysis(
                f"{high}−{low}, full grid", "E.4 marginal", metrics, {}, where, factor, high, low, marginal=True
            )


ANALYSES: tuple[Analysis, ...] = (
    Analysis(
        "reference cell",
        "Tables 4, 6, 17, 25",
        (*HEADLINE, "Graph-given-Set", "R+E-given-Graph"),
        REFERENCE,
        tuple(SCOPES),
    ),
    Analysis("reference cell, failures", "G.7", tuple(STAGES), REFERENCE, ("all", ORDINARY, *CORPORA, *BEHAVIORS)),
    Analysis(
        "routers and data agents",
        "Table 25 beyond its one cell",
        (*HEADLINE, "Graph-given-Set", "R+E-given-Graph", "R+E-given-Set"),
        {**LLM_NEVER, "query_mode": OPEN},
        ("all", ORDINARY),
        pooled=True,
        by=("router", "data_agent"),
    ),
    Analysis("request modes", "Figure 3", ("EA-Micro", "TEA", "R+E-Graph"), LLM_NEVER, by=("query_mode",)),
    Analysis(
        "interactive tasks",
        "Table 23",
        ("RA-Set", "RA-Graph", "TEA", "R+E-Graph"),
        {"planner": str(Planner.LLM), "query_mode": OPEN},
        ("interactive",),
        by=("interaction",),
    ),
    Analysis(
        "clarification",
        "Table 37",
        ("Ask-Rate", "Release-Rate", "Change-per-Ask", "Repair-per-Ask", "Harm-per-Ask"),
        {**LLM_ONCE, "query_mode": OPEN},
        ("interactive",),
        pooled=True,
        by=("router",),
    ),
    Analysis(
        "planners",
        "Figure 4",
        ("Plan-Accuracy", "R+E-given-Set"),
        {"interaction": str(Interaction.NEVER), "query_mode": OPEN},
        ("sequential",),
        pooled=True,
        by=("planner",),
    ),
    Analysis(
        "label against edges",
        "the split of RA-Graph that G.5 could not make",
        ("Graph-given-Set", "Label-wrong-given-Set", "Edges-wrong-given-Set", "Both-wrong-given-Set"),
        {**LLM_NEVER, "query_mode": OPEN},
        ("all", ORDINARY, "sequential"),
        pooled=True,
        by=("router",),
    ),
    Analysis("failures", "G.7", tuple(STAGES), {**LLM_NEVER, **LOCAL}, ("all", ORDINARY), by=("router", "data_agent")),
    Analysis(
        "failures, asking once", "G.7", tuple(STAGES), {**LLM_ONCE, **LOCAL}, ("all", "interactive"), by=("router",)
    ),
    Analysis(
        "retriever or agent",
        "G.1",
        ("Retriever-limited", "Agent-limited"),
        {**LLM_NEVER, **LOCAL},
        (ORDINARY, *CORPORA),
        pooled=True,
        by=("router",),
    ),
    *_differences(),
)


SPREAD_SCOPES = ("all", ORDINARY)
"""Scopes in which configurations are set beside each other and the best are picked."""
COLUMNS = (
    *("cell_id", "task_id", "corpus", "behavior", "difficulty", "weight", "list_size"),
    *("required", "correct", "ran", "s", "label_ok", "edges_ok", "g", "t", "h"),
    *("asked", "released", "changed", "initial_s", "failure_stage"),
)
"""Columns of `episodes` that analyses read."""


def analysis_rows(episodes: pl.DataFrame, backends: Sequence[str], draws: int, seed: int) -> list[dict[str, Any]]:
    """Rows of `analyses` for backends whose 72 cells are all there; scopes without a task have none.

    A backend's rows rest on its own episodes alone, so that backends may be asked for one after the other; `spreads.ranges` of all
    rows gives those over backends.
    """
    found: list[dict[str, Any]] = []
    episodes = episodes.select(COLUMNS)
    for scope, condition in SCOPES.items():
        tasks = sorted(episodes.select(pl.col("task_id").filter(condition).unique())["task_id"])
        if not tasks:
            continue
        matrix = counts(len(tasks), draws, seed)
        for backend in backends:
            wanted = [a for a in ANALYSES if scope in a.scopes]
            cells, metrics = _looked_at(wanted, scope, backend)
            mine = episodes.filter(condition & pl.col("cell_id").is_in(cells))
            values = Grid(mine, matrix, tasks, {m: METRICS[m] for m in metrics})
            rows = [row for a in wanted for row in _rows_of(a, values, backend)]
            if scope in SPREAD_SCOPES:
                rows += spread(values, backend) + best(values, backend)
            for row in rows:
                drawn = row["low"] is not None
                row |= {"backend": backend, "scope": scope, "tasks": len(tasks)}
                row |= {"draws": draws if drawn else 0, "seed": seed if drawn else 0}
            found += rows
    return found


def sides(a: Analysis, backend: str) -> tuple[list[Cell], list[Cell]]:
    """The cells of an analysis, and the matched ones that are taken from them (none without a factor)."""
    cells = chosen(grid([backend]), {**a.cells, **({a.factor: a.high} if a.factor else {})})
    return cells, [other_side(c, a.factor, a.low) for c in cells] if a.factor else []


def _looked_at(analyses: Sequence[Analysis], scope: str, backend: str) -> tuple[list[str], list[str]]:
    """(cell ids, metrics) that analyses need in a scope."""
    metrics = [*HEADLINE] if scope in SPREAD_SCOPES else []
    cells = [c.cell_id for c in grid([backend])] if scope in SPREAD_SCOPES else []
    for a in analyses:
        metrics += a.metrics
        cells += [c.cell_id for side in sides(a, backend) for c in side]
    return list(dict.fromkeys(cells)), list(dict.fromkeys(metrics))


def _subjects(a: Analysis, backend: str) -> dict[str, list[Cell]]:
    """The cells of each subject of an analysis: all of them, and those of each value of the factors in `by`."""
    cells, _ = sides(a, backend)
    groups = {"all": cells} if a.factor or not a.by or a.pooled else {}
    for factor in a.by:
        for value in dict.fromkeys(str(getattr(c, factor)) for c in cells):
            groups[f"{factor}={value}"] = chosen(cells, {factor: value})
    return groups


def row_count(tasks: pl.DataFrame) -> int:
    """Rows of a backend over these tasks, of which the columns of `episodes` are given that come from the release."""
    count = 0
    for scope, condition in SCOPES.items():
        if tasks.filter(condition).height:
            count += sum(len(_subjects(a, "any")) * len(a.metrics) for a in ANALYSES if scope in a.scopes)
            count += SPREAD_ROWS + BEST_ROWS if scope in SPREAD_SCOPES else 0
    return count


def _rows_of(a: Analysis, values: Grid, backend: str) -> list[dict[str, Any]]:
    statistic = "difference" if a.factor else "pooled" if a.pooled else "mean"
    rows = []
    for subject, some in _subjects(a, backend).items():
        less = [other_side(c, a.factor, a.low) for c in some] if a.factor else []
        for metric in a.metrics:
            got = values.pooled(some, metric) if a.pooled else values.mean(some, metric, less)
            row = plain_row(a.name, a.paper, subject, metric, statistic, got.value, len(some), a.cells)
            row |= {"counted": values.counted([*some, *less], metric), "marginal": a.marginal}
            if not a.factor:
                row["numerator"], row["denominator"] = values.parts(some, metric)
            ends = (got.low, got.high) if got.dropped < values.draws else (None, None)
            rows.append(row | {"low": ends[0], "high": ends[1], "dropped": got.dropped})
    return rows
