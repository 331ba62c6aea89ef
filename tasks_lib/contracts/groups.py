"""PRIVATE. Groups of units of different databases under one theme: what parallel and exploratory share.

A theme is a measure ("average prices") or a kind of thing ("members") that the questions name and the schemas know, found
in enough databases to compare and in few enough to mean something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tasks_lib.contracts.contract import Unit
from tasks_lib.contracts.pool import Pool

MAX_SHARE = 0.4
"""A theme that more than this share of the databases has says nothing (but a corpus of few databases needs it)."""


def themed(
    pool: Pool, label: str, accept: Callable[[str], bool], sizes: Sequence[int]
) -> Iterator[tuple[str, tuple[Unit, ...]]]:
    """(theme, units) with one unit a database, in keyed order; the themes take turns.

    `accept`: which themes this behavior wants. `sizes`: wanted numbers of databases, drawn in keyed order.
    """
    by_theme: dict[str, dict[str, list[Unit]]] = {}
    for unit in pool.ordered(pool.units, label, lambda u: u.unit_id):
        if not pool.specific(unit):
            continue
        for theme in pool.themes(unit):
            if accept(theme):
                by_theme.setdefault(theme, {}).setdefault(unit.database, []).append(unit)
    most = max(6, int(MAX_SHARE * len(pool.databases)))
    usable = [theme for theme, found in by_theme.items() if 2 <= len(found) <= most]
    order = pool.ordered(usable, f"{label} themes", str)
    for turn in range(6):
        for theme in order:
            found = by_theme[theme]
            names = pool.ordered(found, f"{label} {theme} {turn}", str)
            wanted = sizes[pool.number(f"{label} size {theme} {turn}") % len(sizes)]
            chosen = names[: min(wanted, len(names))]
            if len(chosen) < 2:
                continue
            yield theme, tuple(found[name][turn % len(found[name])] for name in chosen)
