"""The fixed slice cut by corpus, behavior, difficulty and size of the target list.

Belongs here: published values of slices, with an interval where one was computed for the slice. Does not belong here: the routing
study's cuts (see routing_section).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from tasks_lib.protocol.vocabulary import Behavior, Difficulty
from tasks_lib.reporting.gates_section import scope_words
from tasks_lib.reporting.run_tables import RunTables
from tasks_lib.reporting.tables import FIXED_SLICE, FIXED_WORDS, NEVER, backend_entry
from tasks_lib.reporting.views import DASH, Column, Entry, View, number, percent, share, text_columns
from tasks_lib.scoring.spreads import EVERY

SHOWN = ("RA-Set", "RA-Graph", "EA-Micro", "TEA", "R+E-Graph")


def origin_words(run: RunTables, corpus: str) -> str:
    """Where a corpus' databases come from, in words: 'surrogate (80)'."""
    return ", ".join(f"{o} ({n})" for o, n in sorted(run.record["manifest"]["origins"].get(corpus, {}).items()))


def _values(run: RunTables, cell_id: str, backend: str, cut: str, value: str) -> list[Entry]:
    scope = f"size={value}" if cut == "size" else value
    found = [
        (run.ratio(cell_id, m, cut, value), run.analysis("reference cell", backend, m, "all", scope)) for m in SHOWN
    ]
    return [share(ratio, band) for ratio, band in found]


def corpora(run: RunTables) -> View:
    """The fixed slice under Never by corpus."""
    names = list(run.record["manifest"]["by_corpus"])
    rows = []
    for cell in run.cells(interaction=NEVER, **FIXED_SLICE):
        for corpus in names:
            whole = run.ratio(cell.cell_id, "TEA", "corpus", corpus)
            if whole is None:
                continue
            rows.append(
                [
                    backend_entry(run, cell.backend),
                    Entry(corpus),
                    Entry(origin_words(run, corpus)),
                    number(whole.denominator),
                    *_values(run, cell.cell_id, cell.backend, "corpus", corpus),
                ]
            )
    return View(
        "corpora",
        f"By corpus: {FIXED_WORDS}, Never, with 95 % intervals (percent)",
        [*text_columns("Backend", "Corpus", "Databases by origin"), Column("Tasks"), *(Column(m) for m in SHOWN)],
        rows,
        "Corpora differ in task mix and in their rules of result equality: a lower value does not make a corpus harder. The tasks "
        "of a corpus are resampled.",
        "No cell of this slice is complete.",
    )


def cuts(run: RunTables) -> View:
    """The fixed slice under Never by behavior, difficulty and number of databases in the target list."""
    sizes = sorted(run.metrics.filter(pl.col("slice") == "size")["value_of"].unique().to_list())
    wanted: tuple[tuple[str, Sequence[str]], ...] = (
        ("behavior", [str(b) for b in Behavior]),
        ("difficulty", [str(d) for d in Difficulty]),
        ("size", sizes),
    )
    rows = []
    for cut, values in wanted:
        for cell in run.cells(interaction=NEVER, **FIXED_SLICE):
            for value in values:
                whole = run.ratio(cell.cell_id, "TEA", cut, value)
                if whole is None:
                    continue
                rows.append(
                    [
                        backend_entry(run, cell.backend),
                        Entry("databases" if cut == "size" else cut),
                        Entry(value),
                        number(whole.denominator),
                        *_values(run, cell.cell_id, cell.backend, cut, value),
                    ]
                )
    return View(
        "cuts",
        f"By behavior, difficulty and number of databases in the target list: {FIXED_WORDS}, Never, with 95 % "
        "intervals (percent)",
        [*text_columns("Backend", "Cut", "Value"), Column("Tasks"), *(Column(m) for m in SHOWN)],
        rows,
        "The tasks of a cut are resampled: small cuts have wide intervals. The target list of an interactive task holds the databases of both "
        "branches.",
        "No cell of this slice is complete.",
        sortable=True,
        filtered=True,
        choices=("Backend", "Cut", "Value"),
    )


def ranges(run: RunTables) -> View:
    """Lowest and highest value of the fixed slice over backends, by corpus."""
    found = {
        (r["scope"], r["metric"], r["statistic"]): r["value"]
        for r in run.analysed.filter((pl.col("analysis") == "reference cell") & (pl.col("backend") == EVERY)).iter_rows(
            named=True
        )
    }
    scopes = [s for s in ("all", "ordinary", *run.record["manifest"]["by_corpus"]) if any(k[0] == s for k in found)]
    rows = [[Entry(scope_words(s)), *(_range(found, s, m) for m in SHOWN)] for s in scopes]
    return View(
        "ranges",
        f"Lowest to highest value over the {len(run.backends)} backends: {FIXED_WORDS}, Never (percent)",
        [*text_columns("Tasks"), *(Column(m) for m in SHOWN)],
        rows,
        "The range is variation over backends, not uncertainty; its ends are selected by their values.",
        "A range needs two backends that have all of their cells.",
    )


def _range(found: Mapping[tuple[str, str, str], float], scope: str, metric: str) -> Entry:
    low, high = (found.get((scope, metric, f"{end} mean")) for end in ("lowest", "highest"))
    return Entry(DASH) if low is None or high is None else Entry(f"{percent(low)} to {percent(high)}", sort=low)
