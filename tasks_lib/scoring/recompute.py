"""Independent recomputation of published values in DuckDB SQL, from the episode partitions alone (PROTOCOL 14).

On one thread in little memory: the grid comes a part at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tasks_lib.scoring.metrics import HEADLINE

TOLERANCE = 1e-15
QUERY = Path(__file__).with_name("recompute.sql")
LIMITS: dict[str, str | bool | int | float | list[str]] = {"threads": 1, "memory_limit": "256MB"}


@dataclass(frozen=True, slots=True)
class Recomputation:
    """`compared`: values compared; `worst`: largest absolute discrepancy of value; `problems`: one sentence each."""

    compared: int
    worst: float
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.problems

    def __add__(self, other: Recomputation) -> Recomputation:
        """Both parts together."""
        return Recomputation(
            self.compared + other.compared, max(self.worst, other.worst), self.problems + other.problems
        )


def check(episode_files: Sequence[str], metrics: pl.DataFrame) -> Recomputation:
    """Compare the published headline values (`metrics` rows of slice all) with SQL over the episode files of the same cells."""
    import duckdb

    if not episode_files:
        raise ValueError("no episode partitions were given, expected one per cell; run the factorial first.")
    with duckdb.connect(config=LIMITS) as connection:
        connection.execute(
            "create view episodes as select * from read_parquet(?)".replace("?", repr(list(episode_files)))
        )
        again = connection.sql(QUERY.read_text("utf-8")).pl()
    published = metrics.filter((pl.col("slice") == "all") & pl.col("metric").is_in(HEADLINE))
    both = published.join(again, on=["cell_id", "metric"], how="full", suffix="_again", coalesce=True)
    problems = []
    lost = both.filter(pl.col("value").is_null() | pl.col("value_again").is_null())
    for row in lost.iter_rows(named=True):
        problems.append(
            f"{row['cell_id']} {row['metric']} was published or recomputed on one side only; score the cell again."
        )
    gap = both.drop_nulls(["value", "value_again"]).with_columns(
        gap=(pl.col("value") - pl.col("value_again")).abs(),
        part=(pl.col("numerator") - pl.col("numerator_again")).abs()
        + (pl.col("denominator") - pl.col("denominator_again")).abs(),
    )
    for row in gap.filter((pl.col("gap") > TOLERANCE) | (pl.col("part") > TOLERANCE)).iter_rows(named=True):
        problems.append(
            f"{row['cell_id']} {row['metric']}: published {row['numerator']}/{row['denominator']}, recomputed "
            f"{row['numerator_again']}/{row['denominator_again']}; the metrics or the episodes were altered, score the cell again."
        )
    worst = gap["gap"].max() if gap.height else 0.0
    return Recomputation(gap.height, float(worst or 0.0), tuple(problems))  # type: ignore[arg-type]
