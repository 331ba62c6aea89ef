"""Rows of `analyses` that have no interval: spreads of configurations, maxima picked by their score, ranges over backends.

Quartiles describe variation over configurations, ranges variation over backends; neither is uncertainty. What was picked by
looking at the scores (a maximum, the best of 72, an end of a range) says so in `selected` (PROTOCOL 14, appendix G.6).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tasks_lib.protocol.vocabulary import Interaction, Planner
from tasks_lib.scoring.cells import grid
from tasks_lib.scoring.grids import OPEN, Fixed, Grid, chosen, plain_row
from tasks_lib.scoring.metrics import HEADLINE

EVERY = "(all)"
"""The backend of a range over all of them; no backend can be called this."""
SPREADS = ("median", "q1", "q3", "maximum")
SPREAD_ROWS = len(Interaction) * len(HEADLINE) * len(SPREADS)
TOP, SHOWN = 4, ("EA-Micro", "R+E-Graph")
"""How many of the best cells are told, and which of their values."""
BEST_ROWS = TOP * len(SHOWN)
PLACES = 12
"""Decimal places to which scores are rounded before they order cells."""


def spread(values: Grid, backend: str) -> list[dict[str, Any]]:
    """Median, quartiles and maximum over the 12 open cells of the LLM planner, by interaction (Tables 5 and 24).

    Cells of 0/0 are left out; `cells` says how many are not, and 0 of them is 0 over nothing.
    """
    rows = []
    for interaction in Interaction:
        fixed: Fixed = {"planner": str(Planner.LLM), "interaction": str(interaction), "query_mode": OPEN}
        cells = chosen(grid([backend]), fixed)
        for metric in HEADLINE:
            held = [cell for cell in cells if values.parts([cell], metric)[1]]
            got = values.values(held, metric) if held else np.zeros(1)
            q1, median, q3 = (float(v) for v in np.percentile(got, [25, 50, 75], method="linear"))
            for statistic, value in zip(SPREADS, (median, q1, q3, float(got.max())), strict=True):
                subject = f"interaction={interaction}"
                row = plain_row(
                    "configurations", "Tables 5, 24", subject, metric, statistic, value, len(held), fixed
                )  # fmt: skip
                rows.append(row | {"selected": statistic == "maximum"})
    return rows


def best(values: Grid, backend: str) -> list[dict[str, Any]]:
    """The four cells of the 72 with the highest R+E-Graph (ties in grid order): picked on these very scores (Tables 33-36)."""
    cells = grid([backend])
    scores = values.values(cells, "R+E-Graph")
    rows = []
    for rank, place in enumerate(np.lexsort((np.arange(len(cells)), -np.round(scores, PLACES)))[:4], 1):
        cell = cells[place]
        for metric in SHOWN:
            value = float(values.values([cell], metric)[0])
            row = plain_row("best of 72", "Tables 33-36", cell.cell_id, metric, f"rank {rank}", value, 1, {})
            top, bottom = values.parts([cell], metric)
            rows.append(row | {"numerator": top, "denominator": bottom, "selected": True})
    return rows


def ranges(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The lowest and highest value over backends of every row of `analyses` that all backends have, where they are two or more
    (Tables 6, 17, 24 and the ranges of section 6).

    No range: of 0/0 in any backend, of marginals, and of cells picked by their score, which are others in every backend.
    """
    found: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    backends = set()
    for row in rows:
        backends.add(row["backend"])
        key = tuple(row[name] for name in ("analysis", "subject", "scope", "metric", "statistic"))
        if not row["marginal"] and not row["statistic"].startswith("rank"):
            found.setdefault(key, []).append(row)
    if len(backends) < 2:
        return []
    made = []
    for some in found.values():
        if len(some) == len(backends) and all(_defined(row) for row in some):
            values = [float(row["value"]) for row in some]
            for end, value in (("lowest", min(values)), ("highest", max(values))):
                made.append(_end(some, end, value))
    return made


def _defined(row: Mapping[str, Any]) -> bool:
    """A spread is where a cell has a value; a ratio or difference where it has an interval."""
    return row["cells"] > 0 if row["statistic"] in SPREADS else row["low"] is not None


def _end(rows: Sequence[Mapping[str, Any]], end: str, value: float) -> dict[str, Any]:
    blank = dict.fromkeys(("low", "high", "numerator", "denominator", "counted")) | dict.fromkeys(
        ("draws", "dropped", "seed"), 0
    )
    named = {"backend": EVERY, "statistic": f"{end} {rows[0]['statistic']}", "value": value, "selected": True}
    return {**rows[0], **blank, **named}
