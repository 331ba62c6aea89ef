"""The routing study's part of the page beyond its main table: means over backends, cuts, first probes, usage, events, repeats.

Every view is made from one published table of the study and is left out when the run has none. Nothing is computed here but the
share of prompt tokens that were read from a cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tasks_lib.reporting.run_tables import Band, Ratio, RunTables
from tasks_lib.reporting.tables import backend_entry
from tasks_lib.reporting.views import DASH, Column, Entry, View, count, number, plain, share, text_columns, words
from tasks_lib.scoring.cells import ROUTING_STUDY_ROUTERS
from tasks_lib.scoring.routing_publish import MEAN
from tasks_lib.scoring.routing_trials import METRICS
from tasks_lib.scoring.routing_usage import QUANTITIES
from tasks_lib.store.schemas import ROUTING_EVENTS, ROUTING_TABLE, ROUTING_TRIALS, ROUTING_USAGE

GLOSSARY = (
    (
        "OR, UR",
        "Share of the selected databases that are not required, and of the required ones that are not selected.",
    ),
    (
        "First probe",
        "The first k distinct databases that were opened before the first submission, k being the number of databases of the "
        "declared route. A router with a fixed schedule opens what its schedule inspects, so there it is the search's first choice.",
    ),
    ("First route", "The databases of the first submission, whether it was accepted or not."),
    ("Declared route", "The databases of the accepted route; none when no route was accepted."),
    (
        "Right → wrong, wrong → right",
        "Task-equivalents whose first probe (or first route) was exactly the required set and whose declared route is not, and "
        "the other way round.",
    ),
    ("Switch", "A submission that selects another set than the submission before it."),
)
CUTS = ("corpus", "behavior", "size")
CUT_METRICS = ("RA-Set", "RA-Graph", "F1", "OR", "UR", "Valid")
WHAT = {"probe": "Probe", "route": "Route"}
Row = Mapping[str, Any]


def _pair(run: RunTables, row: Row) -> list[Entry]:
    return [backend_entry(run, row["backend"]), Entry(row["router"])]


def _shown(row: Row | None) -> Entry:
    """A value of `routing_table` with its interval."""
    if row is None:
        return Entry("")
    band = None
    if row["dropped"] < row["draws"]:
        band = Band(row["value"], row["low"], row["high"], row["tasks"], row["draws"], row["dropped"])
    return share(Ratio(row["numerator"], row["denominator"]), band)


def _values(run: RunTables) -> dict[tuple[str, str, str, str, str], Row]:
    return {
        (r["backend"], r["router"], r["slice"], r["value_of"], r["metric"]): r
        for r in run.study[ROUTING_TABLE.name].iter_rows(named=True)
    }


def _pairs(run: RunTables, found: Mapping[tuple[str, str, str, str, str], Row]) -> list[tuple[str, str]]:
    have = {key[:2] for key in found}
    return [(b, str(r)) for b in run.backends for r in ROUTING_STUDY_ROUTERS if (b, str(r)) in have]


def means(run: RunTables) -> View:
    """Mean over backends by router (the last row of paper Table 3)."""
    found = _values(run)
    rows = [
        [Entry(str(r)), *(_shown(found.get((MEAN, str(r), "all", "all", m))) for m in METRICS)]
        for r in ROUTING_STUDY_ROUTERS
        if (MEAN, str(r), "all", "all", "RA-Set") in found
    ]
    return View(
        "routing-means",
        "Mean over all backends by router, with 95 % intervals (percent)",
        [*text_columns("Router"), *(Column(m) for m in METRICS)],
        rows,
        "A task is resampled with the routes of all backends together.",
        "There is one backend: no mean is shown.",
        sortable=True,
    )


def cuts(run: RunTables) -> View:
    """Every pair by corpus, behavior and size of the target list."""
    found = _values(run)
    order = {cut: i for i, cut in enumerate(CUTS)}
    parts = sorted({key[2:4] for key in found if key[2] in CUTS}, key=lambda part: (order[part[0]], part[1]))
    rows = []
    for cut, value in parts:
        for b, r in _pairs(run, found):
            first = found[(b, r, cut, value, "RA-Set")]
            rows.append(
                [
                    *_pair(run, first),
                    Entry(f"{'databases' if cut == 'size' else cut}: {value}"),
                    number(first["tasks"]),
                    *(_shown(found[(b, r, cut, value, m)]) for m in CUT_METRICS),
                ]
            )
    return View(
        "routing-cuts",
        "Routing by corpus, behavior and number of databases in the target list, with 95 % intervals (percent)",
        [*text_columns("Backend", "Router", "Cut"), Column("Tasks"), *(Column(m) for m in CUT_METRICS)],
        rows,
        "The tasks of a cut are resampled. A target list of an interactive task holds the databases of both branches.",
        "No routing study belongs to this run.",
        sortable=True,
    )


def probes(run: RunTables) -> View:
    """First probe and first route against the declared route."""
    found = _values(run)
    rows = []
    for b, r in _pairs(run, found):
        row = [backend_entry(run, b), Entry(r)]
        for kind in WHAT.values():
            first = found.get((b, r, "all", "all", f"First-{kind}"))
            if first is None:
                break
            moves = [
                found[(b, r, "all", "all", f"{kind}-{way}")]["numerator"]
                for way in ("Right-to-Wrong", "Wrong-to-Right")
            ]
            after = found[(b, r, "all", "all", f"Declared-after-{kind}")]
            row += [number(first["denominator"]), _shown(first), _shown(after), *map(number, moves)]
        if len(row) > 2:
            rows.append(row)
    columns = [
        Column(label)
        for kind in ("probe", "route")
        for label in (
            f"Episodes with a first {kind}",
            f"First {kind} right",
            f"Declared right after it ({kind})",
            f"{kind}: right → wrong",
            f"{kind}: wrong → right",
        )
    ]
    return View(
        "routing-probes",
        "First look and first submission against the declared route, with 95 % intervals (percent; moves in task-equivalents)",
        [*text_columns("Backend", "Router"), *columns],
        rows,
        "Routers with a fixed schedule hand in once, so their first and declared route differ only where the plan was refused; "
        "Random opens nothing and hands nothing in.",
        "No transcripts were kept in this run.",
        sortable=True,
    )


def _number(value: float | None, digits: int = 1) -> str:
    return DASH if value is None else f"{value:,.{digits}f}"


def _used(row: Row) -> Entry:
    """Mean of a route; median, 90th percentile and most below it; unknown turns in words."""
    if row["mean"] is None:
        return Entry("unknown", f"{count(row['unknown_turns'])} turns")
    detail = f"{_number(row['median'])} / {_number(row['p90'])} / {_number(row['most'], 0)}"
    if row["unknown_turns"]:
        detail += f"; {count(row['unknown_turns'])} turns unknown"
    return Entry(_number(row["mean"]), detail, row["mean"])


def cache_share(prompt: Row, cached: Row) -> float | None:
    """Share of the prompt tokens that were read from a cache; None unless both are known of the same number of turns."""
    if not prompt["total"] or prompt["known_turns"] != cached["known_turns"]:
        return None
    return float(cached["total"] / prompt["total"])


def usage(run: RunTables) -> View:
    """Turns, tool calls, tokens, opened databases and submissions of a route by pair."""
    found: dict[tuple[str, str], dict[str, Row]] = {}
    for row in run.study[ROUTING_USAGE.name].iter_rows(named=True):
        found.setdefault((row["backend"], row["router"]), {})[row["quantity"]] = row
    rows = [
        [
            *_pair(run, quantities["turns"]),
            number(quantities["turns"]["total"]),
            *(_used(quantities[name]) for name in QUANTITIES),
            plain(cache_share(quantities["prompt_tokens"], quantities["cached_tokens"])),
        ]
        for b in run.backends
        for r in ROUTING_STUDY_ROUTERS
        if (quantities := found.get((b, str(r))))
    ]
    return View(
        "routing-usage",
        "What one route takes: mean, and below it median / 90th percentile / most",
        [
            *text_columns("Backend", "Router"),
            Column("Model calls"),
            *(Column(words(name)) for name in QUANTITIES),
            Column("Prompt read from cache, %"),
        ],
        rows,
        "Tokens are what endpoints told; a turn of which nobody told is counted as unknown and is in no mean. Offline policies "
        "have no tokenizer of their own.",
        "No transcripts were kept in this run.",
        sortable=True,
    )


def events(run: RunTables) -> View:
    """Malformed turns, failed calls, recoveries by adapter, refused and invalid plans by reason."""
    rows = [
        [*_pair(run, row), Entry(words(row["event"])), Entry(words(row["kind"])), number(row["n"]), number(row["of"])]
        for row in run.study[ROUTING_EVENTS.name].iter_rows(named=True)
        if row["event"] != "action"
    ]
    return View(
        "routing-events",
        "What went wrong or was mended while routing, by kind",
        [*text_columns("Backend", "Router", "Event", "Kind"), Column("Count"), Column("Of turns or routes")],
        rows,
        "Invalid plans and empty predictions are counted over routes, everything else over turns.",
        "Every turn was well formed and every plan was accepted, or no transcripts were kept.",
        sortable=True,
    )


def trials(run: RunTables) -> View:
    """How far repeats differ."""
    rows = [
        [
            *_pair(run, row),
            Entry(row["metric"]),
            number(row["trials"]),
            *(plain(row[name]) for name in ("published", "low", "high", "deviation")),
            number(row["set_changed"]),
            number(row["graph_changed"]),
            number(row["tasks"]),
        ]
        for row in run.study[ROUTING_TRIALS.name].iter_rows(named=True)
    ]
    return View(
        "routing-trials",
        "How far repeats of the study differ (percent)",
        [
            *text_columns("Backend", "Router", "Metric"),
            *map(Column, ("Trials", "Published", "Min", "Max", "Standard deviation", "Set changed", "Graph changed")),
            Column("Tasks"),
        ],
        rows,
        "Trial 0 is published. Random draws anew in every trial; offline policies give the same answer in all of them.",
        "The study was not repeated.",
        sortable=True,
    )


def views(run: RunTables) -> tuple[View, ...]:
    """The study's views in reading order; those whose table the run lacks are left out."""
    wanted: Sequence[tuple[str, Any]] = (
        (ROUTING_TABLE.name, means),
        (ROUTING_TABLE.name, cuts),
        (ROUTING_TABLE.name, probes),
        (ROUTING_USAGE.name, usage),
        (ROUTING_EVENTS.name, events),
        (ROUTING_TRIALS.name, trials),
    )
    empty = pl.DataFrame()
    return tuple(make(run) for name, make in wanted if run.study.get(name, empty).width)
