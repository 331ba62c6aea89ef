"""Every metric of PROTOCOL 12 as a numerator and a denominator per base task, then summed.

`per_task` is the one place where a metric is defined; point values, slices and the bootstrap all sum its columns. The
denominators come from the targets, never from the result rows. 0/0 is stored as 0 with denominator 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tasks_lib.protocol.vocabulary import AskScope
from tasks_lib.scoring.targets import Target, Targets, base_tasks

HEADLINE = ("RA-Set", "RA-Graph", "EA-Micro", "TEA", "CEA-Set", "CEA-Graph", "R+E-Set", "R+E-Graph")


class DenominatorError(ValueError):
    """The rows are not exactly the episodes of the release; no headline may be published from them."""


def truth(name: str) -> pl.Expr:
    """A boolean column as 0 and 1."""
    return pl.col(name).cast(pl.Float64)


W, ONE = pl.col("weight"), pl.col("weight") * 0 + 1
S, G, T, H = truth("s"), truth("g"), truth("t"), truth("h")
INTERACTIVE = (pl.col("behavior") == "interactive").cast(pl.Float64)
SEQUENTIAL = (pl.col("behavior") == "sequential").cast(pl.Float64)
ASKED = truth("asked") * INTERACTIVE
NEEDLESS = truth("asked") * (1 - INTERACTIVE)

ROUTING: dict[str, tuple[pl.Expr, pl.Expr]] = {
    "RA-Set": (W * S, W),
    "RA-Graph": (W * G, W),
    "Precision": (W * pl.col("precision"), W),
    "Recall": (W * pl.col("recall"), W),
    "F1": (W * pl.col("f1"), W),
    "OR": (W * pl.col("over_rate"), W),
    "UR": (W * pl.col("under_rate"), W),
    "Valid": (W * truth("valid"), W),
    "Label": (W * truth("label_ok"), W),
    "Label-given-Set": (W * S * truth("label_ok"), W * S),
    "Edges-given-Set": (W * S * truth("edges_ok"), W * S),
}
EXECUTION: dict[str, tuple[pl.Expr, pl.Expr]] = {
    "EA-Micro": (W * pl.col("correct"), W * pl.col("required")),
    "TEA": (W * T, W),
    "CEA-Set": (W * S * T, W * S),
    "CEA-Graph": (W * G * T, W * G),
    "R+E-Set": (W * S * T * H, W),
    "R+E-Graph": (W * G * T * H, W),
    "Execution-Coverage": (W * pl.col("ran"), W * pl.col("required")),
    "Plan-Accuracy": (W * S * H * SEQUENTIAL, W * S * SEQUENTIAL),
    "Ask-Rate": (W * ASKED, W * INTERACTIVE),
    "Release-Rate": (W * truth("released"), W * ASKED),
    "Change-per-Ask": (W * ASKED * truth("changed"), W * ASKED),
    "Repair-per-Ask": (W * ASKED * (1 - truth("initial_s")) * S, W * ASKED),
    "Harm-per-Ask": (W * ASKED * truth("initial_s") * (1 - S), W * ASKED),
}
CELL_METRICS = ROUTING | EXECUTION | {"Needless-Ask-Rate": (W * NEEDLESS, W * 0)}
"""Of a cell whose agents may ask on interactive tasks only: no ordinary task could be asked about, so its rate is 0/0."""


def cell_metrics(ask_scope: AskScope) -> dict[str, tuple[pl.Expr, pl.Expr]]:
    """The metrics of a cell; with scope `all` needless asks are counted over the ordinary tasks (PROTOCOL 8, 12)."""
    if ask_scope == "interactive":
        return CELL_METRICS
    return CELL_METRICS | {"Needless-Ask-Rate": (W * NEEDLESS, W * (1 - INTERACTIVE))}


def check_rows(rows: pl.DataFrame, targets: Sequence[Target], what: str) -> None:
    """The rows are exactly the target episodes, with their weights and requirements; DenominatorError names what is off."""
    targets = Targets.of(targets)
    columns = ["task_id", "branch_id", "weight"] + (["required"] if "required" in rows.columns else [])
    shown = rows.select(columns)
    if not shown.equals(targets.frame.select(columns)):
        _name_the_odd(shown, targets, what)
    base_tasks(targets)


def _name_the_odd(shown: pl.DataFrame, targets: Targets, what: str) -> None:
    """Raises DenominatorError for the first row that is no target, repeated or altered; rows may stand in any order."""
    wanted = {(t.task_id, t.branch_id): (t.weight, len(t.units)) for t in targets}
    seen: set[tuple[str, str]] = set()
    for task_id, branch_id, weight, *required in shown.iter_rows():
        key = (task_id, branch_id)
        if key not in wanted:
            raise DenominatorError(
                f"{what}: episode {key} is unknown to the release; score against the release it belongs to."
            )
        if key in seen:
            raise DenominatorError(f"{what}: episode {key} appears twice, expected once.")
        if weight != wanted[key][0] or (required and required[0] != wanted[key][1]):
            raise DenominatorError(
                f"{what}: episode {key} has weight or requirement {(weight, *required)}, expected {wanted[key]}."
            )
        seen.add(key)
    missing = sorted(set(wanted) - seen)
    if missing:
        raise DenominatorError(
            f"{what}: {len(missing)} of {len(wanted)} episodes are missing (first {missing[0]}); the cell is incomplete, resume it."
        )


def per_task(rows: pl.DataFrame, metrics: dict[str, tuple[pl.Expr, pl.Expr]], by: Sequence[str] = ()) -> pl.DataFrame:
    """Numerator and denominator of every metric per base task: columns `task_id`, *by*, `<metric>|n`, `<metric>|d`.

    Gates are multiplied inside an episode, then added over a task's branches (known fault A04).
    """
    parts = []
    for name, (top, bottom) in metrics.items():
        parts += [top.sum().alias(f"{name}|n"), bottom.sum().alias(f"{name}|d")]
    return rows.group_by(["task_id", *by], maintain_order=True).agg(parts)


def measure(
    rows: pl.DataFrame, targets: Sequence[Target], metrics: dict[str, tuple[pl.Expr, pl.Expr]], what: str
) -> pl.DataFrame:
    """Metric values of one subject: columns slice, value_of, metric, numerator, denominator, value.

    Slices: all, and by corpus, behavior, difficulty, size of the target list. Raises DenominatorError.
    """
    targets = Targets.of(targets)
    check_rows(rows, targets, what)
    columns = [pl.col(f"{name}|{part}").cast(pl.Float64) for name in metrics for part in "nd"]
    ordered = targets.slices.select("task_id").join(per_task(rows, metrics), on="task_id", maintain_order="left")
    tasks = ordered.select(columns).to_numpy().T  # a metric in one piece: numpy adds it up pairwise
    parts = np.stack([tasks.take(places, axis=1).sum(axis=1) for places in targets.places.values()])
    top, bottom = parts[:, 0::2], parts[:, 1::2]
    values = np.divide(top, bottom, out=np.zeros_like(top), where=bottom != 0)
    cuts, shown = zip(*targets.places, strict=True)
    return pl.DataFrame(
        {
            "slice": np.repeat(cuts, len(metrics)),
            "value_of": np.repeat(shown, len(metrics)),
            "metric": list(metrics) * len(parts),
            "numerator": top.ravel(),
            "denominator": bottom.ravel(),
            "value": values.ravel(),
        }
    )
