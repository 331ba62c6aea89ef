"""PRIVATE. Groups of units of different databases under one theme: what parallel and exploratory share.

A theme is a measure ("average prices") or a kind of thing ("members") that the questions name and the schemas know, found
in enough databases to compare and in few enough to mean something.
"""

from __future__ import annotations

from collections.abc import Iterator

from tasks_lib.contracts.contract import Unit
from tasks_lib.contracts.pool import Pool
from tasks_lib.contracts.questions import Theme

MAX_SHARE = 0.4
"""A theme that more than this share of the databases has says nothing (but a corpus of few databases needs it)."""

TURNS = 6
"""Groups taken from one theme, each with other databases or units."""


def themed(pool: Pool, label: str, measured: bool, size: int) -> Iterator[tuple[Theme, tuple[Unit, ...]]]:
    """(theme, units) with one unit from each of `size` databases, in keyed order; the themes take turns.

    `measured`: whether measures or things are wanted.
    """
    by_theme: dict[Theme, dict[str, list[Unit]]] = {}
    for unit in pool.ordered(pool.units, label, lambda u: u.unit_id):
        if not pool.specific(unit):
            continue
        for theme in pool.themes(unit):
            if theme.measure == measured:
                by_theme.setdefault(theme, {}).setdefault(unit.database, []).append(unit)
    most = max(6, int(MAX_SHARE * len(pool.databases)))
    usable = [theme for theme, found in by_theme.items() if len(found) >= size and (theme.broad or len(found) <= most)]
    order = pool.ordered(usable, f"{label} {size} themes", lambda t: t.key)
    for broad, turn in [(broad, turn) for broad in (False, True) for turn in range(TURNS)]:
        for theme in (t for t in order if t.broad == broad):
            found = by_theme[theme]
            chosen = pool.ordered(found, f"{label} {theme.key} {size} {turn}", str)[:size]
            yield theme, tuple(found[name][turn % len(found[name])] for name in chosen)
