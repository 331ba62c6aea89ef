"""The page of the audit: counts of source units by corpus, database and flag; one HTML file that opens offline.

Belongs here: counting rows of `units` for people and for `--json`. Does not belong here: judging golds (`corpora`). No
question, gold or value of a database stands on the page: it may be passed on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks_lib.corpora.flags import DISQUALIFYING, FLAGS
from tasks_lib.reporting.page import render, write_whole
from tasks_lib.reporting.views import Column, Entry, View, count, number, text_columns

NOT_BIRD = "not BIRD results"
DERIVED = ("surrogate", "replica")
"""Origins of databases that stand in for BIRD's own files."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """An audited corpus. `origins`: of each database, in the order of the corpus. `rows`: of `units`. `notes`: its reader's."""

    name: str
    origins: Mapping[str, str]
    rows: Sequence[Mapping[str, Any]]
    notes: Sequence[str]

    def by_database(self) -> dict[str, list[Mapping[str, Any]]]:
        """The rows of each database."""
        found: dict[str, list[Mapping[str, Any]]] = {name: [] for name in self.origins}
        for row in self.rows:
            found[row["database"]].append(row)
        return found


def usable(rows: Sequence[Mapping[str, Any]]) -> int:
    """How many units have no disqualifying flag."""
    return sum(not DISQUALIFYING & set(row["flags"]) for row in rows)


def flagged(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Units by flag, in the order of the closed list, without flags that no unit has."""
    found = Counter(flag for row in rows for flag in row["flags"])
    return {flag: found[flag] for flag in FLAGS if found[flag]}


def as_json(corpora: Sequence[Corpus]) -> dict[str, Any]:
    """Counts: units, usable ones, flags (a unit may have several), the same by corpus, databases by origin, notes."""
    rows = [row for corpus in corpora for row in corpus.rows]
    return {
        "units": len(rows),
        "usable": usable(rows),
        "flags": {flag: flagged(rows).get(flag, 0) for flag in FLAGS},
        "by_corpus": {
            corpus.name: {
                "databases": len(corpus.origins),
                "origins": dict(sorted(Counter(corpus.origins.values()).items())),
                "units": len(corpus.rows),
                "usable": usable(corpus.rows),
                "flags": flagged(corpus.rows),
                "notes": list(corpus.notes),
            }
            for corpus in corpora
        },
    }


def text(counts: Mapping[str, Any]) -> str:
    """The counts of `as_json` as lines for a terminal."""
    lines = [f"{counts['units']} units, {counts['usable']} usable"]
    for name, found in counts["by_corpus"].items():
        lines.append(f"{name}: {found['units']} units of {found['databases']} databases, {found['usable']} usable")
        lines += [f"  {flag}: {units}" for flag, units in found["flags"].items()]
    return "\n".join(lines)


def page_html(corpora: Sequence[Corpus]) -> str:
    """The whole page as text; the same counts give the same bytes."""
    return render(
        "units.html.j2",
        warnings=_warnings(corpora),
        corpora=corpora,
        summary=_summary(corpora),
        flags=_flags(corpora),
        databases={corpus.name: _databases(corpus) for corpus in corpora},
    )


def write_page(corpora: Sequence[Corpus], out: Path) -> Path:
    """Write the page to the file `out`, whole or not at all, and return it. Raises ReportError when `out` is a folder."""
    return write_whole(page_html(corpora), out)


def _warnings(corpora: Sequence[Corpus]) -> list[str]:
    found = []
    for corpus in corpora:
        by_origin = Counter(corpus.origins.values())
        derived = [f"{by_origin[origin]} {origin}" for origin in DERIVED if by_origin[origin]]
        if derived:
            found.append(
                f"{' and '.join(derived)} of the {len(corpus.origins)} databases of {corpus.name} are not the published "
                f"files: what is measured on them is {NOT_BIRD}."
            )
    return found


def _summary(corpora: Sequence[Corpus]) -> View:
    columns = [*text_columns("Corpus"), *map(Column, ("Databases", "Units", "Usable", "Disqualified"))]
    rows = [
        [
            Entry(corpus.name),
            number(len(corpus.origins)),
            number(len(corpus.rows)),
            number(usable(corpus.rows)),
            number(len(corpus.rows) - usable(corpus.rows)),
        ]
        for corpus in corpora
    ]
    return View(
        "summary", "Units by corpus", columns, rows, "A usable unit has no disqualifying flag; others enter no task."
    )


def _flags(corpora: Sequence[Corpus]) -> View:
    columns = [*text_columns("Flag", "Meaning", "Effect"), *(Column(corpus.name) for corpus in corpora)]
    counts = [flagged(corpus.rows) for corpus in corpora]
    rows = [
        [
            Entry(flag),
            Entry(meaning),
            Entry("disqualifies" if flag in DISQUALIFYING else "warning"),
            *(number(found.get(flag, 0)) for found in counts),
        ]
        for flag, meaning in FLAGS.items()
    ]
    return View("flags", "Units by flag", columns, rows, "A unit may have several flags.")


def _databases(corpus: Corpus) -> View:
    present = list(flagged(corpus.rows))
    columns = [*text_columns("Database", "Origin"), *map(Column, ("Units", "Usable", *present))]
    units = corpus.by_database()
    rows = []
    for name, origin in corpus.origins.items():
        flags = flagged(units[name])
        marks = (NOT_BIRD,) if origin in DERIVED else ()
        rows.append(
            [
                Entry(name),
                Entry(origin, marks=marks),
                number(len(units[name])),
                number(usable(units[name])),
                *(number(flags.get(flag, 0)) for flag in present),
            ]
        )
    caption = f"Databases of {corpus.name}: {count(len(rows))}"
    return View(f"databases-{corpus.name}", caption, columns, rows, empty="No database.", sortable=True)
