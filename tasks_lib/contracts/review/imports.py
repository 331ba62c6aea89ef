"""PRIVATE. Taking in answered packets: all of what is given or nothing, each fault one sentence.

Belongs here: reading a form's JSON or a CSV, comparing it with what was sent out, storing the answers, opening pass 2. Does
not belong here: what the answers say (`agreement`). A pass is locked once it is saved: pass 2 shows the gold, so nobody may
change a judgment of pass 1 after it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tasks_lib.contracts.release import Release
from tasks_lib.contracts.review import assignments, packets
from tasks_lib.contracts.review.assignments import Plan
from tasks_lib.contracts.review.packets import HEAD, SHOWN, Packet
from tasks_lib.contracts.review.questions import PASSES, By, Kind, ReviewRefused, fault, normal
from tasks_lib.store.artifacts import read_file, write_file
from tasks_lib.store.keys import sha256_text
from tasks_lib.store.schemas import REVIEWS

SAVED = "private/reviews.parquet"
"""Place of the `reviews` table, in a review folder and in a release."""


@dataclass(frozen=True)
class Taken:
    """What an import took over. `opened`: pass 2 packets that exist since then. `left_open`: items closed without answers."""

    rows: int
    passes: tuple[tuple[str, int], ...]
    opened: tuple[Path, ...]
    left_open: int


def saved(folder: Path) -> pl.DataFrame:
    """The reviews of a review folder or release, empty when there are none."""
    path = folder / SAVED
    return read_file(REVIEWS, path) if path.exists() else pl.DataFrame(schema=pl.Schema(_empty().schema))


def _empty() -> pl.DataFrame:
    frame = pl.from_arrow(REVIEWS.schema.empty_table())
    assert isinstance(frame, pl.DataFrame)
    return frame


def take(release: Release, folder: Path, files: Sequence[Path], close: bool = False) -> Taken:
    """Validate answered packets and add them to the reviews of `folder`; pass 2 opens for every pass 1 saved.

    close: items without any answer are closed as not reviewed; without it, each item must be answered.

    Raises:
        ReviewRefused: unreadable file, another release, unknown packet or item, wrong pass order, a locked pass, a changed
            read-only field, a missing or unknown answer, a duplicate. Nothing is taken over then.
    """
    made = assignments.load(folder, release)
    before = saved(folder)
    open_second(release, folder, made, before)  # an earlier import may have been stopped between saving and this
    locked = {(row["reviewer"], row["pass"]) for row in before.iter_rows(named=True)}
    new: list[dict[str, Any]] = []
    passes: list[tuple[str, int]] = []
    left_open = 0
    for file in files:
        by, sent, rows = _checked(release, made, before, locked, file)
        if (sent.reviewer, sent.number) in passes:
            raise ReviewRefused(f"{file} repeats pass {sent.number} of {sent.reviewer}, expected each packet once.")
        found, blank = _answers(release, sent, rows, by, file, close)
        new += found
        left_open += blank
        passes.append((sent.reviewer, sent.number))
    if new:
        everything = pl.concat([before, pl.DataFrame(new, schema=before.schema)])
        write_file(REVIEWS, folder / SAVED, everything)
        before = everything
    return Taken(len(new), tuple(passes), open_second(release, folder, made, before), left_open)


def open_second(release: Release, folder: Path, made: Plan, reviews: pl.DataFrame) -> tuple[Path, ...]:
    """Write the pass 2 packet of each reviewer whose pass 1 is saved, unless it is there; returns the new files."""
    opened: list[Path] = []
    for reviewer in made.reviewers:
        items = _items(reviews, reviewer, 1)
        if items and not (folder / reviewer / "pass2.csv").exists():
            opened += packets.write(packets.packet(release, made, reviewer, 2, items), folder / reviewer)
    return tuple(opened)


def _items(reviews: pl.DataFrame, reviewer: str, number: int) -> list[str]:
    chosen = reviews.filter((pl.col("reviewer") == reviewer) & (pl.col("pass") == number))
    return sorted(chosen["item"].unique().to_list())


# ---- reading ----


def _rows(file: Path) -> list[dict[str, str]]:
    """The rows of a form's JSON or of a CSV; every value as text."""
    try:
        text = file.read_text("utf-8-sig")
    except OSError as error:
        raise ReviewRefused(f"{file} cannot be read ({error.strerror}), expected an answered packet.") from error
    except UnicodeDecodeError as error:
        raise ReviewRefused(f"{file} is not UTF-8 text, expected an answered packet; save it as UTF-8.") from error
    return _json_rows(file, text) if file.suffix.lower() == ".json" else _csv_rows(file, text)


def _json_rows(file: Path, text: str) -> list[dict[str, str]]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ReviewRefused(f"{file} is no JSON ({error}), expected the file that the form downloads.") from error
    if not isinstance(found, dict) or found.get("format") != packets.FORMAT or not isinstance(found.get("rows"), list):
        raise ReviewRefused(f"{file} is no answered packet, expected format {packets.FORMAT} with rows.")
    head = {name: found.get(name) for name in HEAD}
    rows: list[dict[str, Any]] = [{**head, **row} if isinstance(row, dict) else {"item": None} for row in found["rows"]]
    odd = [row for row in rows if not all(isinstance(value, str) for value in row.values())]
    if odd:
        raise ReviewRefused(f"{file}: item {odd[0].get('item')} holds a value that is no text, expected only texts.")
    return rows


def _csv_rows(file: Path, text: str) -> list[dict[str, str]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        rows = list(reader)
    except csv.Error as error:
        raise ReviewRefused(f"{file} is no CSV ({error}), expected the packet's CSV with its header.") from error
    for number, row in enumerate(rows, 2):
        if None in row or None in row.values():
            raise ReviewRefused(
                f"{file} row {number}: expected {len(reader.fieldnames or ())} values, found another number; keep the columns."
            )
    return [{name: str(value) for name, value in row.items()} for row in rows]


# ---- checking ----


def _checked(
    release: Release, made: Plan, before: pl.DataFrame, locked: set[tuple[Any, Any]], file: Path
) -> tuple[By, Packet, list[dict[str, str]]]:
    """(who answered, the packet as it was sent, the rows) of a file whose head can be used."""
    rows = _rows(file)
    if not rows:
        raise ReviewRefused(f"{file} has no rows, expected one an item.")
    head = {name: _only(file, rows, name) for name in HEAD}
    if head["release"] != made.release[:16]:
        raise ReviewRefused(
            f"{file} is of release {head['release'] or 'none'}, expected {made.release[:16]}; import it into the review it came from."
        )
    reviewer, number = head["reviewer"], {"1": 1, "2": 2}.get(head["pass"])
    if reviewer not in made.reviewers:
        raise ReviewRefused(f"{file} names reviewer {reviewer!r}, expected one of {', '.join(made.reviewers)}.")
    if number is None:
        raise ReviewRefused(f"{file} is of pass {head['pass']!r}, expected 1 or 2.")
    if number == 2 and (reviewer, 1) not in locked:
        raise ReviewRefused(f"{file} is pass 2 of {reviewer}, whose pass 1 is not saved; import pass 1 first.")
    if head["packet"] != made.packet(reviewer, number):
        raise ReviewRefused(
            f"{file} is of packet {head['packet']!r}, which this review has not sent to {reviewer} for pass {number}; "
            "import it into the review it came from."
        )
    if (reviewer, number) in locked:
        raise ReviewRefused(f"{file}: pass {number} of {reviewer} is saved and locked; it cannot be imported again.")
    if head["by"] not in {by.value for by in By}:
        raise ReviewRefused(
            f"{file} says it is answered by {head['by'] or 'nobody'!r}, expected person or scripted in `by`; say who answered."
        )
    by = By(head["by"])
    first = before.filter((pl.col("reviewer") == reviewer) & (pl.col("pass") == 1))
    if number == 2 and first["by"][0] != by:
        raise ReviewRefused(
            f"{file} is answered by {by.value!r}, but pass 1 of {reviewer} by {first['by'][0]!r}; one reviewer does both passes."
        )
    only = _items(before, reviewer, 1) if number == 2 else None
    sent = packets.packet(release, made, reviewer, number, only)
    for row in rows:
        odd = sorted(set(row) ^ set(sent.columns))
        if odd:
            raise ReviewRefused(
                f"{file}: column {odd[0]!r} is {'missing' if odd[0] in sent.columns else 'unknown'}, expected {', '.join(sent.columns)}."
            )
    return by, sent, rows


def _only(file: Path, rows: Iterable[Mapping[str, str]], name: str) -> str:
    """The one value of a head field, without outer blanks."""
    values = sorted({row.get(name, "").strip() for row in rows})
    if len(values) != 1:
        raise ReviewRefused(
            f"{file} holds {len(values)} values of {name!r} ({values[0]!r}, {values[1]!r}), expected one."
        )
    return values[0]


def _answers(
    release: Release, sent: Packet, rows: Iterable[Mapping[str, str]], by: By, file: Path, close: bool
) -> tuple[list[dict[str, Any]], int]:
    """Rows of the `reviews` table, and how many items were left without any answer."""
    items = {item.shown["item"]: item for item in sent.items}
    given: dict[str, Mapping[str, str]] = {}
    for row in rows:
        name = row["item"].strip()
        if name not in items:
            raise ReviewRefused(
                f"{file} names item {name!r}, which {sent.reviewer} was not sent in pass {sent.number}."
            )
        if name in given:
            raise ReviewRefused(f"{file} has item {name} twice, expected each item once.")
        given[name] = row
        changed = [f for f in SHOWN[sent.number] if _plain(row[f]) != _plain(items[name].shown[f])]
        if changed:
            raise ReviewRefused(
                f"{file}: the read-only field {changed[0]!r} of {name} came back changed; only answers may be filled in, "
                "a defect belongs into the notes."
            )
    questions = PASSES[sent.number]
    found: list[dict[str, Any]] = []
    blank = 0
    for name, item in items.items():
        answers = {question.name: given.get(name, {}).get(question.name, "") for question in questions}
        if not any(answers[question.name].strip() for question in questions if question.kind is not Kind.TEXT):
            if not close:
                raise ReviewRefused(
                    f"{file}: item {name} has no answers, expected all; answer it, or import with --close to leave it out for good."
                )
            blank += 1
            continue
        for question in questions:
            wrong = fault(question, answers[question.name], item.unit_count, item.candidates)
            if wrong is not None:
                raise ReviewRefused(f"{file}: item {name}: {wrong}.")
            found.append(
                {
                    "release": release.digest,
                    "reviewer": sent.reviewer,
                    "pass": sent.number,
                    "item": name,
                    "question": question.name,
                    "task_id": item.task_id,
                    "answer": normal(question, answers[question.name]),
                    "by": by.value,
                    "request_digest": sha256_text(item.shown["request"]),
                }
            )
    if not found:
        raise ReviewRefused(f"{file} answers no item, expected at least one.")
    return found, blank


def _plain(text: str) -> str:
    """Text with the line ends and outer blanks that spreadsheets change made equal."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()
