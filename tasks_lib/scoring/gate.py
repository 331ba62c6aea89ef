"""The counting part of the gate before publication (PROTOCOL 12-14, 16): what a run's tables must hold, to the row.

Everything expected comes from the release and the run's backends, nothing from the tables looked at. Every check returns problems,
one sentence each; an empty list is a pass. Recomputation, diagnostics and invariants are in recompute and verify.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import polars as pl

from tasks_lib.protocol.vocabulary import Behavior
from tasks_lib.scoring.cells import grid
from tasks_lib.scoring.targets import Target, Targets, base_tasks

NESTED = (
    ("RA-Graph", "RA-Set"),
    ("R+E-Set", "RA-Set"),
    ("R+E-Set", "TEA"),
    ("R+E-Graph", "R+E-Set"),
    ("R+E-Graph", "RA-Graph"),
)
"""(inner, outer): a metric whose gate holds wherever the other one's does; both over the same tasks."""
SHARES = ("precision", "recall", "f1", "over_rate", "under_rate")
KEY = ("cell_id", "task_id", "branch_id")


def check_grid(cells: Collection[str], backends: Sequence[str]) -> list[str]:
    """The run has exactly the 72 cells of each backend."""
    wanted, found = {c.cell_id for c in grid(backends)}, set(cells)
    problems = []
    for what, some in (("lacks", wanted - found), ("holds unknown", found - wanted)):
        if some:
            problems.append(
                f"the run {what} {len(some)} cells (first {min(some)}), expected the {len(wanted)} of "
                f"{len(backends)} backends; resume the run."
            )
    return problems


def check_episodes(episodes: pl.DataFrame, targets: Sequence[Target], cells: Collection[str]) -> list[str]:
    """Each cell holds the release's episodes once: identities, weights, requirements, labels; counts and shares in range."""
    targets = Targets.of(targets)
    tasks, problems = base_tasks(targets), []
    repeated = episodes.select(KEY).filter(episodes.select(KEY).is_duplicated())
    if repeated.height:
        problems.append(f"{repeated.height} episode rows share a key (first {repeated.row(0)}), expected unique keys.")
    counts = episodes.group_by("cell_id").agg(
        rows=pl.len(),
        base=pl.col("task_id").n_unique(),
        weighted=(pl.col("weight") * pl.col("required")).sum(),
    )
    weighted = sum(t.weight * len(t.units) for t in targets)
    wanted = {c: (len(targets), tasks, weighted) for c in cells}
    found = {c: (r, b, w) for c, r, b, w in counts.iter_rows()}
    odd = sorted(c for c in wanted.keys() | found.keys() if wanted.get(c) != found.get(c))
    if odd:
        problems.append(
            f"{len(odd)} cells do not add up (first {odd[0]}): (episodes, tasks, weighted contributions) are "
            f"{found.get(odd[0])}, expected {wanted.get(odd[0])} of the release."
        )
    facts = targets.frame.columns
    strange = episodes.select("cell_id", *facts).join(targets.frame, on=facts, how="anti")
    if strange.height:
        problems.append(
            f"{strange.height} episode rows are not of the release (first {strange.row(0)}): its tasks, branches, weights, "
            "labels and requirements stand in the manifest's contracts."
        )
    halves = episodes.filter(pl.col("behavior") == Behavior.INTERACTIVE).group_by("cell_id", "task_id")
    lone = halves.agg(n=pl.col("branch_id").n_unique()).filter(pl.col("n") != 2)
    if lone.height:
        problems.append(f"{lone.height} interactive tasks lack a branch (first {lone.row(0)}), expected both of them.")
    wild = episodes.filter(
        pl.any_horizontal(~pl.col(n).is_between(0, 1) | ~pl.col(n).is_finite() for n in SHARES)
        | (pl.col("correct") < 0)
        | (pl.col("correct") > pl.col("ran"))
        | (pl.col("ran") > pl.col("required"))
    )
    if wild.height:
        row = wild.row(0, named=True)
        problems.append(
            f"{wild.height} episode rows are out of range (first {tuple(row[k] for k in KEY)}): "
            f"{ {n: row[n] for n in (*SHARES, 'correct', 'ran', 'required')} }."
        )
    return problems


def check_metrics(
    metrics: pl.DataFrame, targets: Sequence[Target], cells: Collection[str], names: Iterable[str]
) -> list[str]:
    """Each cell has every metric in every slice once; values are finite, in 0..1, the ratio of their parts; gates nest."""
    targets, names = Targets.of(targets), list(names)
    cuts = [(cut, value) for cut in targets.slices.columns[1:] for value in targets.slices[cut].unique().sort()]
    wanted = (
        pl.DataFrame({"cell_id": sorted(cells)}, schema={"cell_id": pl.String})
        .join(pl.DataFrame(cuts, schema=["slice", "value_of"], orient="row"), how="cross")
        .join(pl.DataFrame({"metric": names}), how="cross")
    )
    key, problems = list(wanted.columns), []
    for what, some in (
        ("are missing", wanted.join(metrics, on=key, how="anti")),
        ("are unknown", metrics.select(key).join(wanted, on=key, how="anti")),
        ("appear twice", metrics.select(key).filter(metrics.select(key).is_duplicated())),
    ):
        if some.height:
            problems.append(f"{some.height} metric rows {what} (first {some.row(0)}); score the cells again.")
    top, bottom, value = (pl.col(n) for n in ("numerator", "denominator", "value"))
    ratio = pl.when(bottom == 0).then(0.0).otherwise(top / bottom)
    wild = metrics.filter(
        ~(top.is_finite() & bottom.is_finite() & value.is_finite())
        | (top < 0)
        | (top > bottom * (1 + 1e-12))
        | (value != ratio)
    )
    if wild.height:
        row = wild.row(0, named=True)
        problems.append(
            f"{wild.height} metric values are out of range (first {row['cell_id']} {row['metric']}): "
            f"{row['numerator']}/{row['denominator']} = {row['value']}, expected a ratio in 0..1; score the cell again."
        )
    wide = {m: p.select(*key[:3], p=top) for (m,), p in metrics.partition_by("metric", as_dict=True).items()}
    for inner, outer in NESTED:
        if inner not in wide or outer not in wide:
            continue
        both = wide[inner].join(wide[outer], on=key[:3], suffix="_outer").filter(pl.col("p") > pl.col("p_outer"))
        if both.height:
            problems.append(
                f"{inner} is above {outer} in {both.height} values (first {both.row(0)}), expected nested gates."
            )
    return problems
