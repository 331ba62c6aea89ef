"""PRIVATE. What a packet shows, and writing it as a form that works offline and as CSV.

Pass 1 shows an anonymous item id, the request, the candidates and public catalog evidence: nothing that tells the contract.
Pass 2 shows the contract; its packet does not exist before the reviewer's pass 1 is saved. Both forms carry the shown fields
back, so that an import can tell whether one was changed. Does not belong here: checking answers (`imports`).
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tasks_lib.contracts.release import Release
from tasks_lib.contracts.review.assignments import Plan
from tasks_lib.contracts.review.questions import PASSES, By
from tasks_lib.protocol.records import Contract
from tasks_lib.store.artifacts import read_file
from tasks_lib.store.schemas import CAT_CAPABILITIES, CAT_DATABASES, CAT_TABLES

TEMPLATES = Path(__file__).with_name("templates")
FORMAT = "review_packet@1"
HEAD: tuple[str, ...] = ("packet", "release", "reviewer", "pass", "by")
SHOWN: dict[int, tuple[str, ...]] = {
    1: ("item", "request", "candidates"),
    2: ("item", "request", "required_behavior", "units", "dependencies", "branches"),
}


@dataclass(frozen=True)
class Item:
    """One item of a packet. `shown`: the read-only fields as text. `units`: what pass 2 shows of each unit, for the form."""

    task_id: str
    shown: dict[str, str]
    candidates: tuple[str, ...] = ()
    units: tuple[dict[str, str], ...] = ()
    unit_count: int = 0


@dataclass(frozen=True)
class Packet:
    """One reviewer's items of one pass. `evidence`: public id -> summary and tables, pass 1 only."""

    packet: str
    release: str
    reviewer: str
    number: int
    items: tuple[Item, ...]
    evidence: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of its CSV form."""
        return (*HEAD, *SHOWN[self.number], *(question.name for question in PASSES[self.number]))

    def head(self) -> dict[str, str]:
        """The fields that every row repeats. `by` stays empty until somebody answers."""
        return {
            "packet": self.packet,
            "release": self.release,
            "reviewer": self.reviewer,
            "pass": str(self.number),
            "by": "",
        }

    def rows(self) -> list[dict[str, str]]:
        """The CSV rows without answers."""
        blank = {question.name: "" for question in PASSES[self.number]}
        return [{**self.head(), **item.shown, **blank} for item in self.items]


def packet(release: Release, made: Plan, reviewer: str, number: int, only: Iterable[str] | None = None) -> Packet:
    """A reviewer's packet of a pass. `only`: items to show (pass 2 opens for those whose pass 1 is saved)."""
    tasks = {task.task_id: task for task in release.tasks}
    wanted = None if only is None else set(only)
    items = []
    for assignment in made.of(reviewer):
        if wanted is not None and assignment.item not in wanted:
            continue
        task, contract = tasks[assignment.task_id], release.contracts[assignment.task_id]
        shown = {"item": assignment.item, "request": task.request}
        if number == 1:
            shown["candidates"] = " ".join(task.allowlist)
            items.append(Item(task.task_id, shown, task.allowlist, (), len(contract.unit_ids)))
        else:
            units = _units(release, contract)
            shown |= {
                "required_behavior": contract.behavior.value,
                "units": "\n\n".join("\n".join(f"{name}: {text}" for name, text in unit.items()) for unit in units),
                "dependencies": "\n".join(_dependencies(contract)),
                "branches": "\n".join(_branches(contract)),
            }
            items.append(Item(task.task_id, shown, (), tuple(units), len(units)))
    shown_ids = {database for item in items for database in item.candidates}
    return Packet(
        packet=made.packet(reviewer, number),
        release=made.release[:16],
        reviewer=reviewer,
        number=number,
        items=tuple(items),
        evidence=_evidence(release, shown_ids),
    )


def _units(release: Release, contract: Contract) -> list[dict[str, str]]:
    titles = {row["database_id"]: row["title"] for row in release.databases.iter_rows(named=True)}
    found = []
    for number, (unit_id, public) in enumerate(zip(contract.unit_ids, contract.databases, strict=True), 1):
        unit = release.units[unit_id]
        shown = {
            "unit": f"{number} of {len(contract.unit_ids)}",
            "database": f"{unit.database} ({unit.corpus.value}, {public}): {titles[public]}",
            "question": unit.question,
        }
        if unit.evidence:
            shown["knowledge"] = unit.evidence
        found.append({**shown, "SQL": unit.sql})
    return found


def _dependencies(contract: Contract) -> list[str]:
    place = {database: number for number, database in enumerate(contract.databases, 1)}
    lines = [f"unit {place[source]} before unit {place[target]}" for source, target in contract.edges]
    number = {unit_id: at for at, unit_id in enumerate(contract.unit_ids, 1)}
    for link in contract.bindings:
        lines.append(
            f"unit {number[link.downstream_unit]} needs {link.field} = {link.value!r} from unit "
            f"{number[link.upstream_unit]}: {link.downstream_sql}"
        )
    return lines


def _branches(contract: Contract) -> list[str]:
    if not contract.branches:
        return []
    number = {unit_id: at for at, unit_id in enumerate(contract.unit_ids, 1)}
    lines = [f"asked back: {contract.slot_question}"]
    return lines + [f"unit {number[branch.unit_id]} if answered: {branch.answer}" for branch in contract.branches]


def _evidence(release: Release, ids: set[str]) -> dict[str, dict[str, Any]]:
    """Summary, tables and capabilities of the databases in `ids`; corpus and provenance are left out."""
    if not ids:
        return {}
    catalog = release.public / "catalog"
    capabilities: dict[str, list[str]] = {}
    for row in read_file(CAT_CAPABILITIES, catalog / "cat_capabilities.parquet").iter_rows(named=True):
        if row["database_id"] in ids:
            capabilities.setdefault(row["table_id"], []).append(row["text"])
    tables: dict[str, list[dict[str, Any]]] = {}
    frame = read_file(CAT_TABLES, catalog / "cat_tables.parquet").sort("database_id", "ordinal")
    for row in frame.iter_rows(named=True):
        if row["database_id"] in ids:
            shown = {"summary": row["summary"], "capabilities": sorted(capabilities.get(row["table_id"], []))}
            tables.setdefault(row["database_id"], []).append(shown)
    return {
        row["database_id"]: {"summary": row["summary"], "tables": tables.get(row["database_id"], [])}
        for row in read_file(CAT_DATABASES, catalog / "cat_databases.parquet").iter_rows(named=True)
        if row["database_id"] in ids
    }


# ---- writing ----


def write(shown: Packet, folder: Path) -> tuple[Path, ...]:
    """Write a packet as `pass<n>.html` and `pass<n>.csv` (pass 1 also `catalog.csv`), the CSV last; returns the files."""
    name = f"pass{shown.number}"
    files = {f"{name}.html": html(shown)}
    if shown.evidence:
        files["catalog.csv"] = csv_text(("database_id", "summary", "tables"), _catalog_rows(shown.evidence))
    files[f"{name}.csv"] = csv_text(shown.columns, shown.rows())
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        write_text(folder / file, text)
    return tuple(folder / file for file in files)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, "utf-8", newline="")
    os.replace(draft, path)


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> str:
    """Rows as CSV text with a header line."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _catalog_rows(evidence: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    def lines(table: Mapping[str, Any]) -> str:
        return "\n".join([table["summary"], *(f"- {text}" for text in table["capabilities"])])

    return [
        {"database_id": name, "summary": about["summary"], "tables": "\n".join(map(lines, about["tables"]))}
        for name, about in sorted(evidence.items())
    ]


def html(shown: Packet) -> str:
    """The packet as one HTML file that needs no network; the same packet gives the same bytes."""
    import jinja2

    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined
    )
    data = {
        "format": FORMAT,
        "head": shown.head(),
        "questions": [asdict(question) for question in PASSES[shown.number]],
        "items": [
            {"shown": item.shown, "candidates": list(item.candidates), "units": list(item.units)}
            for item in shown.items
        ],
        "evidence": shown.evidence,
    }
    return env.get_template("packet.html.j2").render(
        number=shown.number,
        reviewer=shown.reviewer,
        count=len(shown.items),
        by=[by.value for by in By],
        data=data,
        css=(TEMPLATES / "packet.css").read_text("utf-8"),
        script=(TEMPLATES / "packet.js").read_text("utf-8"),
    )
