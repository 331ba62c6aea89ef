"""The intervals and analyses of a publication package, computed anew from its outcomes with its own draws and seed.

This is the project's own bootstrap again, not a second code path: it proves that the published intervals are those of the published
outcomes. The sums have their second path in `package_check`. One backend's outcomes are in memory at a time.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl

from tasks_lib.protocol.vocabulary import Behavior, Corpus, Difficulty
from tasks_lib.reporting.package_check import near
from tasks_lib.scoring.analyses import analysis_rows
from tasks_lib.scoring.contrasts import cell_intervals, contrast_intervals, routing_intervals
from tasks_lib.scoring.metrics import ROUTING
from tasks_lib.scoring.publish import WHOLE
from tasks_lib.scoring.routing_probes import PROBES
from tasks_lib.scoring.routing_publish import cut_rows, with_mean
from tasks_lib.scoring.spreads import ranges
from tasks_lib.scoring.targets import Target, Targets
from tasks_lib.store.schemas import (
    ANALYSES,
    EPISODES,
    INTERVALS,
    ROUTING_EPISODES,
    ROUTING_PROBES,
    ROUTING_TABLE,
    Table,
)

Rows = list[dict[str, Any]]


def outcomes(folder: Path, name: str, table: Table) -> Iterator[pl.DataFrame]:
    """Task-level outcomes as the table they came from, a backend after the other as they stand in the file."""
    with gzip.open(folder / name, "rb") as stream:
        header = next(iter(stream))
        place = header.strip().split(b",").index(b"backend")
        for _, lines in groupby(stream, key=lambda line: line.split(b",", place + 1)[place]):
            yield _frame(table, header + b"".join(lines))


def _frame(table: Table, data: bytes) -> pl.DataFrame:
    """CSV text with the table's types; lists stand in it as words."""
    empty = pl.from_arrow(table.schema.empty_table())
    assert isinstance(empty, pl.DataFrame)
    lists = [name for name, kind in empty.schema.items() if isinstance(kind, pl.List)]
    types = {name: pl.String if name in lists else kind for name, kind in empty.schema.items()}
    frame = pl.read_csv(io.BytesIO(data), schema_overrides=types).select(empty.columns)
    texts = [name for name, kind in types.items() if kind == pl.String and name not in table.nullable]
    frame = frame.with_columns(pl.col(texts).fill_null(""))
    none = pl.lit([], pl.List(pl.String))
    return frame.with_columns(
        pl.when(pl.col(n) == "").then(none).otherwise(pl.col(n).str.split(" ")).alias(n) for n in lists
    )


def published(folder: Path, name: str, table: Table) -> pl.DataFrame:
    """A table of the package with its own types."""
    data = (folder / name).read_bytes()
    return _frame(table, gzip.decompress(data) if name.endswith(".gz") else data)


def check_intervals(folder: Path) -> tuple[dict[str, int], list[str]]:
    """(rows compared by table, problems, one sentence each)."""
    done: dict[str, int] = {}
    problems: list[str] = []
    given = published(folder, "tables/intervals.csv", INTERVALS)
    draws, seed = given["draws"][0], given["seed"][0]
    bands: Rows = []
    matched: Rows = []
    for episodes in outcomes(folder, "outcomes/episodes.csv.gz", EPISODES):
        whole = episodes["backend"].unique().to_list() if episodes["cell_id"].n_unique() == WHOLE else []
        bands += [*cell_intervals(episodes, draws, seed), *contrast_intervals(episodes, whole, draws, seed)]
        matched += analysis_rows(episodes, whole, draws, seed)
    done["intervals_resampled"] = _compared("tables/intervals.csv", INTERVALS, given, bands, problems)
    if (folder / "tables/analyses.csv").is_file():
        name = "tables/analyses.csv"
        again = [*matched, *ranges(matched)]
        done["analyses_recomputed"] = _compared(name, ANALYSES, published(folder, name, ANALYSES), again, problems)
    if (folder / "outcomes/routing_episodes.csv.gz").is_file():
        _routing(folder, done, problems)
    return done, problems


def _routing(folder: Path, done: dict[str, int], problems: list[str]) -> None:
    """The intervals of the routing study, and its table of every cut."""
    routed = pl.concat(outcomes(folder, "outcomes/routing_episodes.csv.gz", ROUTING_EPISODES))
    name = "tables/routing_intervals.csv"
    given = published(folder, name, INTERVALS)
    draws, seed = given["draws"][0], given["seed"][0]
    again = routing_intervals(routed, draws, seed)
    done["routing_intervals_resampled"] = _compared(name, INTERVALS, given, again, problems)
    if not (folder / "tables/routing_table.csv").is_file():
        return
    name = "tables/routing_table.csv"
    given = published(folder, name, ROUTING_TABLE)
    draws, seed = given["draws"][0], given["seed"][0]
    targets = _targets(routed)
    again = cut_rows(with_mean(routed), targets, ROUTING, draws, seed)
    if (folder / "tables/routing_probes.csv").is_file():
        probes = published(folder, "tables/routing_probes.csv", ROUTING_PROBES)
        again += cut_rows(probes, targets, PROBES, draws, seed) if probes.height else []
    done["routing_table_resampled"] = _compared(name, ROUTING_TABLE, given, again, problems)


def _targets(routed: pl.DataFrame) -> Targets:
    """What was scored against, as far as outcomes tell: enough to cut by."""
    rows = routed.unique(["task_id", "branch_id"], maintain_order=True).iter_rows(named=True)
    return Targets(
        Target(
            r["task_id"],
            r["branch_id"],
            Corpus(r["corpus"]),
            Behavior(r["behavior"]),
            Difficulty(r["difficulty"]),
            r["weight"],
            (),
            (),
            frozenset(),
            r["list_size"],
        )
        for r in rows
    )


def _compared(
    name: str, table: Table, given: pl.DataFrame, again: Iterable[Mapping[str, Any]], problems: list[str]
) -> int:
    """Rows compared, in every column but the key; adds to `problems`."""
    columns = [c for c in given.columns if c not in table.key]
    wanted = {tuple(r[k] for k in table.key): r for r in again}
    for row in given.iter_rows(named=True):
        key = tuple(row[k] for k in table.key)
        where = f"{name}: {' '.join(filter(None, key))}"
        new = wanted.pop(key, None)
        if new is None:
            problems.append(f"{where} cannot be computed by this version of DSABench.")
            continue
        odd = [c for c in columns if not _same(row[c], new[c])]
        if odd:
            found, expected = ({c: r[c] for c in odd} for r in (row, new))
            problems.append(f"{where} is published as {found}, the outcomes give {expected}.")
    problems += [f"{name}: {' '.join(filter(None, key))} is not published." for key in wanted]
    return given.height


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float | int) and isinstance(b, float | int):
        return near(float(a), float(b))
    return bool(a == b)
