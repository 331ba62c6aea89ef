"""Tiers in place of ranks: which entries of a leaderboard stand together because their intervals overlap.

Belongs here: the rule alone. Does not belong here: what is compared (see leaderboards), how intervals are made (`scoring`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

RULE = (
    "Walking down by value, a new tier begins at the first entry whose 95 % interval does not overlap the interval of its tier's "
    "best; intervals that touch overlap, and of equal values the one whose interval begins higher is the better. Entries of one "
    "tier are not told apart; neighbours of two tiers may overlap each other."
)
"""The rule in words."""
SHORT_RULE = "A new tier begins where an interval no longer overlaps that of the tier's best."
DIGITS = 12
"""Decimals to which values are rounded before they order anything."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A value with its interval; None for 0/0, bounds None without interval. `apart`: shown, but in no tier."""

    value: float | None
    low: float | None = None
    high: float | None = None
    apart: bool = False

    @property
    def ranked(self) -> bool:
        return not self.apart and None not in (self.value, self.low, self.high)


def tier_name(number: int) -> str:
    """A, B, … Z, AA, AB, …"""
    name = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        name = chr(ord("A") + rest) + name
    return name


def tiers(standings: Sequence[Standing]) -> list[tuple[int, int | None]]:
    """(place in `standings`, tier from 0 or None) in reading order: down by value, then entries in no tier, 0/0 last."""

    def order(place: int) -> tuple[bool, bool, float, float, int]:
        s = standings[place]
        value, low = (0.0 if x is None else round(x, DIGITS) for x in (s.value, s.low))
        return (not s.ranked, s.value is None, -value, -low, place)

    found: list[tuple[int, int | None]] = []
    tier, floor = -1, 0.0
    for place in sorted(range(len(standings)), key=order):
        s = standings[place]
        if not s.ranked or s.low is None or s.high is None:
            found.append((place, None))
            continue
        low, high = round(s.low, DIGITS), round(s.high, DIGITS)
        if tier < 0 or high < floor:
            tier, floor = tier + 1, low
        found.append((place, tier))
    return found
