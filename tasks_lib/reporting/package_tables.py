"""Tables of a publication package that rest on what is not in it, held against what is: outcomes, summaries, each other.

Transcripts, results and gold stay private, so that these tables cannot be made anew from a package; here stands every sum, share
and bound of them that the package itself decides.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

from tasks_lib.reporting.package_intervals import outcomes, published
from tasks_lib.scoring.bootstrap import wilson
from tasks_lib.store.schemas import (
    AUDIT,
    DISAGREEMENT,
    METRICS,
    ROUTING_EPISODES,
    ROUTING_EVENTS,
    ROUTING_PROBES,
    ROUTING_TRIALS,
    ROUTING_USAGE,
    Table,
)

CLOSE = 1e-9
PAIR = ["backend", "router"]


def check_tables(folder: Path) -> tuple[dict[str, int], list[str]]:
    """(rows looked at by table, problems, one sentence each)."""
    done: dict[str, int] = {}
    problems: list[str] = []
    routing = folder / "outcomes/routing_episodes.csv.gz"
    checks: list[tuple[Table, Callable[[Path, pl.DataFrame], list[str]]]] = [
        (DISAGREEMENT, _disagreement),
        (AUDIT, _audit),
    ]
    if routing.is_file():
        checks += [
            (ROUTING_PROBES, _probes),
            (ROUTING_USAGE, _usage),
            (ROUTING_EVENTS, _events),
            (ROUTING_TRIALS, _trials),
        ]
    for table, check in checks:
        name = f"tables/{table.name}.csv"
        if (folder / name).is_file():
            rows = published(folder, name, table)
            done[table.name] = rows.height
            problems += [f"{name}: {problem}" for problem in check(folder, rows)]
    return done, problems


def _odd(rows: pl.DataFrame, good: pl.Expr, sentence: str) -> list[str]:
    """`sentence` about the first row that is not good."""
    wrong = rows.filter(~good.fill_null(False))
    return [f"{wrong.height} rows {sentence} (first {wrong.row(0)})."] if wrong.height else []


def _near(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    apart = a - b
    return apart.is_finite() & (apart.abs() <= CLOSE * pl.max_horizontal(pl.lit(1.0), a.abs(), b.abs()))


def _routed(folder: Path) -> pl.DataFrame:
    return pl.concat(outcomes(folder, "outcomes/routing_episodes.csv.gz", ROUTING_EPISODES))


def _disagreement(folder: Path, rows: pl.DataFrame) -> list[str]:
    """EA-Micro as judged is that of the cells, and a rule's changes are the sum of those with a reason."""
    cells = published(folder, "tables/cells.csv.gz", METRICS).filter(
        (pl.col("metric") == "EA-Micro") & (pl.col("slice") == "corpus")
    )
    cells = cells.with_columns(backend=pl.col("cell_id").str.split(".").list.get(0), corpus=pl.col("value_of"))
    sums = cells.group_by("backend", "corpus").agg(top=pl.col("numerator").sum(), bottom=pl.col("denominator").sum())
    own = rows.join(sums, on=["backend", "corpus"], how="left")
    column = pl.col
    problems = _odd(
        own,
        _near(column("numerator"), column("top")) & _near(column("denominator"), column("bottom")),
        "do not hold the contributions of the cells",
    )
    by = ["backend", "corpus", "rule"]
    moved = (column("other_numerator") - column("numerator")).alias("moved")
    named = rows.filter(column("reason") != "all").group_by(by).agg(column("to_right", "to_wrong").sum(), moved.sum())
    whole = rows.filter(column("reason") == "all").select(*by, "verdicts", "to_right", "to_wrong", moved)
    both = whole.join(named, on=by, how="left", suffix="_named").with_columns(pl.col(pl.Int64, pl.Float64).fill_null(0))
    good = (
        (column("to_right") == column("to_right_named"))
        & (column("to_wrong") == column("to_wrong_named"))
        & _near(column("moved"), column("moved_named"))
        & (column("to_right") + column("to_wrong") <= column("verdicts"))
    )
    return problems + _odd(both, good, "are not the sum of their reasons")


def _audit(folder: Path, rows: pl.DataFrame) -> list[str]:
    """Fractions lie in 0..1, and intervals of 0/1 outcomes are Wilson's of their counts; the audited release is the package's."""
    del folder
    shares = rows.filter(pl.col("metric") != "truncated_tokens")
    problems = _odd(shares, pl.col("value").is_between(0, 1), "are no fractions")
    for row in rows.filter(pl.col("low").is_not_null()).iter_rows(named=True):
        low, high = wilson(round(row["value"] * row["n"]), row["n"])
        if max(abs(low - row["low"]), abs(high - row["high"])) > CLOSE:
            where = " ".join(row[k] for k in AUDIT.key)
            problems.append(f"{where} has interval {(row['low'], row['high'])}, its counts give {(low, high)}.")
    return problems


def _probes(folder: Path, rows: pl.DataFrame) -> list[str]:
    """One row an episode of the outcomes with its facts; what was probed and handed in stands in its lists."""
    facts = ["corpus", "behavior", "difficulty", "weight", "list_size", "s"]
    key = list(ROUTING_PROBES.key)
    routed = _routed(folder).select(*key, *facts)
    alike = rows.join(routed, on=[*key, *facts], how="anti")
    problems = [f"{alike.height} rows are not what the outcomes say (first {alike.row(0)})."] if alike.height else []
    size = {name: pl.col(name).list.len() for name in ("opened", "declared", "first")}
    good = (
        (pl.col("probed") == ((size["declared"] > 0) & (size["opened"] > 0)))
        & (pl.col("probe_s") <= pl.col("probed"))
        & (pl.col("first_s") <= pl.col("submitted"))
        & ((size["first"] == 0) | pl.col("submitted"))
    )
    return problems + _odd(rows, good, "say otherwise than their lists")


def _usage(folder: Path, rows: pl.DataFrame) -> list[str]:
    """One route a task; every quantity knows of the same turns; means are totals by routes, and model turns those of the outcomes."""
    tasks = _routed(folder)
    held = tasks.group_by(PAIR).agg(tasks=pl.col("task_id").n_unique())
    turns = tasks.unique([*PAIR, "task_id"]).group_by(PAIR).agg(taken=pl.col("turns").sum())
    both = rows.join(held, on=PAIR, how="left").join(turns, on=PAIR, how="left")
    whole = pl.col("unknown_turns") == 0
    mean = _near(pl.col("mean") * pl.col("known_routes"), pl.col("total").cast(pl.Float64))
    return [
        *_odd(both, pl.col("routes") == pl.col("tasks"), "do not count one route a task"),
        *_odd(both, (pl.col("known_routes") == pl.col("routes")) | ~whole, "lack routes without lacking turns"),
        *_odd(both, mean | ~whole | (pl.col("known_routes") == 0), "have a mean that is not their total by routes"),
        *_odd(
            both,
            pl.col("known_turns") + pl.col("unknown_turns") == pl.col("taken"),
            "do not count the turns of the outcomes",
        ),
    ]


def _events(folder: Path, rows: pl.DataFrame) -> list[str]:
    """Counts are within what they are counted over, and refused routes are those of the outcomes."""
    routes = _routed(folder).unique([*PAIR, "task_id"])
    invalid = routes.group_by(PAIR).agg(outcomes=(~pl.col("valid")).sum().cast(pl.Int64))
    told = rows.filter(pl.col("event") == "invalid_plan").group_by(PAIR).agg(told=pl.col("n").sum())
    pairs = (
        rows.select(PAIR).unique(maintain_order=True).join(invalid, on=PAIR, how="left").join(told, on=PAIR, how="left")
    )
    pairs = pairs.with_columns(pl.col("told").fill_null(0))
    return [
        *_odd(rows, (pl.col("n") > 0) & (pl.col("n") <= pl.col("of")), "count more than there is"),
        *_odd(pairs, pl.col("told") == pl.col("outcomes"), "do not count the refused routes of the outcomes"),
    ]


def _trials(folder: Path, rows: pl.DataFrame) -> list[str]:
    """The published value is that of the routing table, and lies between the lowest and the highest."""
    whole = pl.read_csv(folder / "tables/routing.csv").filter(pl.col("slice") == "all").select(*PAIR, "metric", "value")
    both = rows.join(whole, on=[*PAIR, "metric"], how="left")
    good = (
        _near(pl.col("published"), pl.col("value"))
        & (pl.col("low") <= pl.col("published"))
        & (pl.col("published") <= pl.col("high"))
        & (pl.col("deviation") >= 0)
    )
    return _odd(both, good, "are not those of the routing table")
