"""PRIVATE. A reviewer without a person, to try the procedure: it reads a packet's CSV and fills in seeded answers.

Every row it writes says `scripted`, and so does every figure made from it. Its answers judge nothing.
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

from tasks_lib.contracts.review.packets import csv_text
from tasks_lib.contracts.review.questions import PASSES, By, Kind, Question, ReviewRefused
from tasks_lib.store.keys import keyed_digest

AGREES = 0.8
"""Share of answers that are the question's first option, so that two scripts agree often and not always."""


def answer(packet: Path, seed: int) -> str:
    """The packet's CSV with an answer to every question, labelled scripted; equal packet and seed give an equal text.

    Raises:
        ReviewRefused: the file is no CSV form of a packet.
    """
    try:
        rows = list(csv.DictReader(io.StringIO(packet.read_text("utf-8-sig"), newline=""), strict=True))
    except OSError as error:
        raise ReviewRefused(
            f"{packet} cannot be read ({error.strerror}), expected the CSV form of a packet."
        ) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ReviewRefused(f"{packet} is no CSV ({error}), expected the CSV form of a packet.") from error
    number = {"1": 1, "2": 2}.get(rows[0].get("pass", "")) if rows else None
    if number is None or not all({"item", "by", "reviewer"} <= set(row) for row in rows):
        raise ReviewRefused(f"{packet} is no packet, expected the CSV form that `dsabench review export` wrote.")
    for row in rows:
        row["by"] = By.SCRIPTED.value
        for question in PASSES[number]:
            row[question.name] = _answer(question, row, seed)
    return csv_text(tuple(rows[0]), rows)


def _answer(question: Question, row: dict[str, str], seed: int) -> str:
    if question.kind is Kind.TEXT:
        return "scripted: no person read this item"

    def draw(options: tuple[str, ...], label: str) -> str:
        number = int(
            keyed_digest(str(seed).encode(), f"{row['reviewer']} {row['item']} {question.name} {label}")[:8], 16
        )
        return options[0] if number / 2**32 < AGREES else options[number % len(options)]

    if question.kind is Kind.SOURCES:
        return draw(tuple(row["candidates"].split()), "")
    units = len(re.findall(r"(?m)^unit: \d+ of \d+$", row["units"])) if question.kind is Kind.UNITS else 1
    return " ".join(draw(question.options, str(unit)) for unit in range(units))
