"""What a call gives back: size-capped JSON text, the same as data, and the evidence it carries.

Building and cutting only. Text is JSON with one item a line, so that both people and line readers can follow it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MAX_CHARACTERS = 8_000
"""Size cap of an observation's text (about 2,500 tokens); what is cut is counted in `omitted`."""

MAX_VALUE = 600
"""Size cap of one text inside it; a longer one ends in an ellipsis."""
RESERVED = 1_000
"""What each list may count on, however long those before it are."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Observation:
    """Answer of one call. `text`: JSON shown to the model, "" with an `error`. `data`: the same as plain data.

    `evidence_ids`, `database_ids`: those in the text, in order of appearance, without repeats.
    """

    text: str
    data: Mapping[str, Any]
    evidence_ids: tuple[str, ...]
    database_ids: tuple[str, ...]
    error: str = ""


@dataclass(frozen=True, slots=True)
class Item:
    """One shown row. `owners`: databases it is about, the first of them the one its evidence counts for."""

    shown: Row
    owners: tuple[str, ...]


@dataclass
class Answer:
    """An observation in the making: a head that is always shown, then lists of items that are cut where space ends."""

    head: dict[str, Any] = field(default_factory=dict)
    head_items: list[Item] = field(default_factory=list)
    lists: dict[str, Sequence[Item]] = field(default_factory=dict)
    omitted: dict[str, int] = field(default_factory=dict)

    def finish(self, cap: int = MAX_CHARACTERS) -> tuple[Observation, dict[str, str]]:
        """The observation of at most `cap` characters, and the database each of its evidence ids counts for."""
        data: dict[str, Any] = {name: _clipped(value) for name, value in self.head.items()}
        lists = {name: [_clipped(dict(item.shown)) for item in items] for name, items in self.lists.items()}
        sizes = {name: [len(_line(row)) + 2 for row in rows] for name, rows in lists.items()}
        room = cap - len(_line(data)) - 200
        used = list(self.head_items)
        lines = [f"{_line(name)}: {_line(value)}" for name, value in data.items()]
        omitted = dict(self.omitted)
        later = {name: min(sum(mine), RESERVED) for name, mine in sizes.items()}
        for name, rows in lists.items():
            del later[name]
            left, count = room - sum(later.values()), 0
            while count < len(rows) and sizes[name][count] <= left:
                left -= sizes[name][count]
                room -= sizes[name][count]
                count += 1
            used += self.lists[name][:count]
            data[name] = rows[:count]
            body = "\n" + ",\n".join(map(_line, rows[:count])) + "\n" if count else ""
            lines.append(f"{_line(name)}: [{body}]")
            if count < len(rows):
                omitted[name] = omitted.get(name, 0) + len(rows) - count
        omitted = {name: n for name, n in omitted.items() if n}
        if omitted:
            data["omitted"] = omitted
            lines.append(f'"omitted": {_line(omitted)}')
        evidence = {
            item.shown["evidence_id"]: item.owners[0] for item in used if item.shown.get("evidence_id") and item.owners
        }
        databases = tuple(dict.fromkeys(owner for item in used for owner in item.owners))
        return Observation("{" + ",\n".join(lines) + "}", data, tuple(evidence), databases), evidence


def _clipped(value: Any) -> Any:
    """`value` with every text in it cut to MAX_VALUE characters."""
    if isinstance(value, str):
        return value if len(value) <= MAX_VALUE else value[: MAX_VALUE - 1] + "…"
    if isinstance(value, Mapping):
        return {name: _clipped(part) for name, part in value.items()}
    return [_clipped(part) for part in value] if isinstance(value, list) else value


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
