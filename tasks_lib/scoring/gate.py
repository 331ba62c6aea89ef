"""The counting part of the gate before publication (PROTOCOL 12-14, 16): what a run's tables must hold, to the row.

Everything expected comes from the release and the run's backends, nothing from the tables looked at. Tables come in parts, so that
memory does not grow with the grid: what a check finds in each is added up by `findings.told`; an empty list is a pass.
Recomputation, diagnostics and invariants are in recompute and verify.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import polars as pl

from tasks_lib.protocol.vocabulary import Behavior
from tasks_lib.scoring.cells import grid
from tasks_lib.scoring.findings import Found, found
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


def check_partition(cell_id: str, episodes: pl.DataFrame) -> list[Found]:
    """The partition of a cell holds rows of that cell alone, and some."""
    strange = episodes.filter(pl.col("cell_id") != cell_id).select(KEY)
    problems = found(
        "{count} episode rows stand in the partition of another cell (first {first}); score its cells again.", strange
    )
    if not episodes.height:
        problems.append(
            Found("{count} episode partitions are empty (first {first}); score their cells again.", 1, cell_id)
        )
    return problems


def check_episodes(episodes: pl.DataFrame, targets: Sequence[Target], cells: Collection[str]) -> list[Found]:
    """Each of `cells` holds the release's episodes once: identities, weights, requirements, labels; counts and shares in range.

    `episodes`: all rows of these cells.
    """
    targets = Targets.of(targets)
    tasks = base_tasks(targets)
    keys = episodes.select(KEY)
    problems = found(
        "{count} episode rows share a key (first {first}), expected unique keys.", keys.filter(keys.is_duplicated())
    )
    counts = episodes.group_by("cell_id").agg(
        rows=pl.len(),
        base=pl.col("task_id").n_unique(),
        weighted=(pl.col("weight") * pl.col("required")).sum(),
    )
    weighted = sum(t.weight * len(t.units) for t in targets)
    wanted = {c: (len(targets), tasks, weighted) for c in cells}
    held = {c: (r, b, w) for c, r, b, w in counts.iter_rows()}
    odd = sorted(c for c in wanted.keys() | held.keys() if wanted.get(c) != held.get(c))
    if odd:
        problems.append(
            Found(
                "{count} cells do not add up (first {first} of the release.",
                len(odd),
                f"{odd[0]}): (episodes, tasks, weighted contributions) are {held.get(odd[0])}, expected {wanted.get(odd[0])}",
            )
        )
    facts = targets.frame.columns
    problems += found(
        "{count} episode rows are not of the release (first {first}): its tasks, branches, weights, labels and requirements stand in "
        "the manifest's contracts.",
        episodes.select("cell_id", *facts).join(targets.frame, on=facts, how="anti", maintain_order="left"),
    )
    halves = episodes.filter(pl.col("behavior") == Behavior.INTERACTIVE)
    halves = halves.group_by("cell_id", "task_id", maintain_order=True).agg(n=pl.col("branch_id").n_unique())
    problems += found(
        "{count} interactive tasks lack a branch (first {first}), expected both of them.",
        halves.filter(pl.col("n") != 2),
    )
    wild = episodes.filter(
        pl.any_horizontal(~pl.col(n).is_between(0, 1) | ~pl.col(n).is_finite() for n in SHARES)
        | (pl.col("correct") < 0)
        | (pl.col("correct") > pl.col("ran"))
        | (pl.col("ran") > pl.col("required"))
    ).select(*KEY, *SHARES, "correct", "ran", "required")
    return problems + found(
        "{count} episode rows are out of range (first {first}): shares lie in 0..1, and correct ≤ ran ≤ required.",
        wild,
        wild.row(0, named=True) if wild.height else None,
    )


def check_metrics(
    metrics: pl.DataFrame, targets: Sequence[Target], cells: Collection[str], names: Iterable[str]
) -> list[Found]:
    """Each of `cells` has every metric in every slice once; values are finite, in 0..1, the ratio of their parts; gates nest.

    `metrics`: all rows of these cells, and no others.
    """
    targets, names = Targets.of(targets), list(names)
    cuts = list(targets.places)
    wanted = (
        pl.DataFrame({"cell_id": sorted(cells)}, schema={"cell_id": pl.String})
        .join(pl.DataFrame(cuts, schema=["slice", "value_of"], orient="row"), how="cross")
        .join(pl.DataFrame({"metric": names}), how="cross")
    )
    key = list(wanted.columns)
    problems: list[Found] = []
    for what, some in (
        ("are missing", wanted.join(metrics, on=key, how="anti", maintain_order="left")),
        ("are unknown", metrics.select(key).join(wanted, on=key, how="anti", maintain_order="left")),
        ("appear twice", metrics.select(key).filter(metrics.select(key).is_duplicated())),
    ):
        problems += found(f"{{count}} metric rows {what} (first {{first}}); score the cells again.", some)
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
        first = f"{row['cell_id']} {row['metric']}): {row['numerator']}/{row['denominator']} = {row['value']}"
        problems += found(
            "{count} metric values are out of range (first {first}, expected a ratio in 0..1; score the cell again.",
            wild,
            first,
        )
    wide = {m: p.select(*key[:3], p=top) for (m,), p in metrics.partition_by("metric", as_dict=True).items()}
    for inner, outer in NESTED:
        if inner not in wide or outer not in wide:
            continue
        both = wide[inner].join(wide[outer], on=key[:3], suffix="_outer", maintain_order="left")
        problems += found(
            f"{inner} is above {outer} in {{count}} values (first {{first}}), expected nested gates.",
            both.filter(pl.col("p") > pl.col("p_outer")),
        )
    return problems
