"""Tables as the page shows them: columns, entries, marks, and how numbers are written. Knows nothing of metrics or runs.

Percent have two decimals; 0/0 is an en dash; an interval is [low, high]; what was not computed says so in a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tasks_lib.reporting.run_tables import Band, Ratio

DASH = "–"
MISSING = "not computed"
BASELINE, DIAGNOSTIC, SELECTED, MARGINAL = "baseline", "diagnostic", "selected", "marginal"


@dataclass(frozen=True, slots=True)
class Entry:
    """One table cell. `detail`: smaller second line. `sort`: number it sorts by (None: last, or by text). `marks`: chips."""

    text: str
    detail: str = ""
    sort: float | None = None
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A column head. `number`: right-aligned and sorted by number. `head`: its entries name their row."""

    label: str
    number: bool = True
    head: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """A table: `rows` align with `columns`. `note` stands below. A view without rows shows `empty` in words instead.

    `filtered`: a box above filters its rows by their text. `choices`: labels of columns whose values can be chosen there too.
    """

    name: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Entry]]
    note: str = ""
    empty: str = ""
    sortable: bool = False
    filtered: bool = False
    choices: Sequence[str] = ()

    def __post_init__(self) -> None:
        wrong = [len(row) for row in self.rows if len(row) != len(self.columns)]
        if wrong:
            raise ValueError(f"table {self.name} has a row of {wrong[0]} entries, expected {len(self.columns)}.")
        unknown = set(self.choices) - {c.label for c in self.columns}
        if unknown:
            raise ValueError(f"table {self.name} has no column {sorted(unknown)[0]!r} to choose by.")

    @property
    def chosen_by(self) -> list[tuple[int, str, list[str]]]:
        """(place, label, values in order of appearance) of the columns in `choices`."""
        return [
            (i, c.label, list(dict.fromkeys(row[i].text for row in self.rows)))
            for i, c in enumerate(self.columns)
            if c.label in self.choices
        ]


def signless(value: float, digits: int = 2) -> str:
    """A rounded number with a true minus sign, never a negative zero."""
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")


def percent(value: float | None) -> str:
    """A fraction as percent with two decimals; None (0/0) as an en dash."""
    return DASH if value is None else signless(100 * value)


def bracket(low: float | None, high: float | None) -> str:
    """[low, high] in percent; an en dash when there is no interval."""
    return DASH if low is None or high is None else f"[{percent(low)}, {percent(high)}]"


def count(value: float) -> str:
    """A count, possibly of half-weight branches, with thin grouping and no needless decimals."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def words(text: str) -> str:
    """A vocabulary word as people write it."""
    return text.replace("_", " ")


def number(value: float) -> Entry:
    return Entry(count(value), sort=value)


def share(ratio: Ratio | None, band: Band | None = None) -> Entry:
    """A percent entry, with its interval below when there is one."""
    if ratio is None:
        return Entry(MISSING)
    value = ratio.value
    detail = "" if band is None or value is None else bracket(band.low, band.high)
    return Entry(percent(value), detail, value)


def plain(value: float | None) -> Entry:
    return Entry(percent(value), sort=value)


def banded(band: Band | None) -> Entry:
    """A percent entry with the interval below that came with it, where there is one."""
    if band is None:
        return Entry(MISSING)
    return Entry(percent(band.value), "" if band.low is None else bracket(band.low, band.high), band.value)


def difference(band: Band | None) -> tuple[Entry, Entry]:
    """(difference in percentage points, interval) of a contrast."""
    if band is None:
        return Entry(MISSING), Entry(MISSING)
    if band.value is None:
        return Entry(DASH), Entry(DASH)
    sign = "+" if float(f"{100 * band.value:.2f}") > 0 else ""
    return Entry(sign + percent(band.value), sort=band.value), Entry(bracket(band.low, band.high), sort=band.low)


def text_columns(*labels: str) -> list[Column]:
    """Leading text columns; the first one heads its rows."""
    return [Column(label, number=False, head=i == 0) for i, label in enumerate(labels)]
