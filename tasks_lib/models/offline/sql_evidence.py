"""Sentences of external knowledge that tie words of a request to columns, conditions and extremes of a schema.

Belongs here: `clauses(schema, knowledge, request_words, weight)`, reading sentences such as `tall refers to height > 50`,
`"Hook" is the name`, `the oldest means MIN(year)`. Does not belong here: what a reading does with them. Formulas with
aggregates are passed over: a condition inside a share is no filter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from tasks_lib.models.offline.sql_linking import Mention, Word, mentions_in, words_of
from tasks_lib.models.offline.sql_schema import Column, Schema
from tasks_lib.models.offline.sql_words import STOP

_SAYS = re.compile(r"\s+(?:refers? to|means?|indicates?|stands? for|denotes?|is|are)\s+|\s*:\s+", re.IGNORECASE)
_CONDITION = re.compile(
    r"([\w.`\"\[\] -]+?)\s*(>\s?=|<\s?=|!=|<>|=|>|<|\bLIKE\b)\s*('[^']*'|\"[^\"]*\"|-?\d+(?:\.\d+)?(?![\w/]))",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"([\w.`\"]+)\s+BETWEEN\s+'?(-?[\d.]+)'?\s+AND\s+'?(-?[\d.]+)'?", re.IGNORECASE)
_EXTREME = re.compile(r"^\s*(MAX|MIN)\s*\(\s*([\w.`\" -]+?)\s*\)\s*$", re.IGNORECASE)
_FORMULA = re.compile(r"\b(?:sum|count|avg|divide|multiply|subtract|case|percentage)\b\s*\(?", re.IGNORECASE)
ENOUGH = 0.6
"""Share of a sentence's content words that must stand in the request: knowledge about other things is passed over."""


@dataclass(frozen=True, slots=True)
class Condition:
    """`column operator value`; `second` is the upper end of a BETWEEN; `quoted`: the value stood in quotes."""

    column: Column
    operator: str
    value: str
    quoted: bool
    second: str = ""


@dataclass(frozen=True, slots=True)
class Clause:
    """One sentence: the request's words start..end-1 (start = end when only scattered) and what they mean."""

    start: int
    end: int
    conditions: tuple[Condition, ...] = ()
    extreme: tuple[Column, bool] | None = None
    column: Column | None = None


@dataclass
class _Columns:
    schema: Schema
    weight: Mapping[str, float]
    found: dict[str, Column | None] = field(default_factory=dict)

    def get(self, text: str) -> Column | None:
        """The column that `text` ends in: `T1.height`, `and height`, `Full Name`; the likeliest table's."""
        plain = re.sub(r"[`\"\[\]]", "", text).strip().lower()
        if plain not in self.found:
            self.found[plain] = self._find(plain)
        return self.found[plain]

    def _find(self, plain: str) -> Column | None:
        parts = plain.split()
        for length in range(min(4, len(parts)), 0, -1):
            name = " ".join(parts[-length:])
            table, _dot, last = name.rpartition(".")
            fitting = [c for t in self.schema.tables for c in t.columns if c.name.lower() in (name, last)]
            owned = [c for c in fitting if c.table.lower() == table]
            ranked = sorted(owned or fitting, key=lambda c: -self.weight[c.table])
            if ranked:
                return ranked[0]
        return None


def clauses(
    schema: Schema, knowledge: str, words: Sequence[Word], weight: Mapping[str, float]
) -> tuple[list[Clause], dict[str, tuple[Column, str]]]:
    """Clauses that concern the request; for values in lower case, their column and how the knowledge spells them."""
    columns = _Columns(schema, weight)
    made: list[Clause] = []
    values: dict[str, tuple[Column, str]] = {}
    lows = [word.low for word in words]
    stems = {part for word in words for part in (word.stem, *word.low.split())}
    for said in (said for part in knowledge.split("\n\n") for said in _sentences(part)):
        start, end = _place(said, lows, stems)
        if start < 0:
            continue
        conditions = _conditions(columns, said.meaning)
        if conditions:
            made.append(Clause(start, end, conditions))
        elif extreme := _EXTREME.match(said.meaning):
            column = columns.get(extreme[2])
            if column is not None:
                made.append(Clause(start, end, extreme=(column, extreme[1].upper() == "MAX")))
        elif re.fullmatch(r"[\w.`\" -]+", said.meaning):
            column = _named(schema, columns, said.meaning, weight)
            if column is not None and end == start + 1 and words[start].kind == "value":
                values[words[start].low] = (column, said.phrase)
            elif column is not None:
                made.append(Clause(start, end, column=column))
    return made, values


@dataclass(frozen=True, slots=True)
class _Said:
    """A sentence cut in two. `lows`: words of its phrase; `content`: (stem, word) of those that say something."""

    phrase: str
    meaning: str
    lows: tuple[str, ...]
    content: tuple[tuple[str, str], ...]


@lru_cache(maxsize=4096)
def _sentences(knowledge: str) -> tuple[_Said, ...]:
    found = []
    for sentence in re.split(r"[;\n]|\.\s", knowledge):
        parts = _SAYS.split(sentence.strip(), maxsplit=1)
        if len(parts) != 2 or len(sentence) > 400:
            continue
        phrase = parts[0].strip("\"'` ")
        words = [word for word in words_of(phrase) if word.kind != "sign"]
        if words:
            content = tuple((word.stem, word.low) for word in words if word.low not in STOP)
            found.append(_Said(phrase, parts[1].strip().rstrip("."), tuple(word.low for word in words), content))
    return tuple(found)


def _conditions(columns: _Columns, meaning: str) -> tuple[Condition, ...]:
    if _FORMULA.search(meaning):
        return ()
    found = []
    for match in _BETWEEN.finditer(meaning):
        if column := columns.get(match[1]):
            found.append(Condition(column, "BETWEEN", match[2], False, match[3]))
    for match in _CONDITION.finditer(_BETWEEN.sub(" ", meaning)):
        if column := columns.get(match[1]):
            operator = match[2].replace(" ", "").upper().replace("<>", "!=")
            quoted = match[3][0] in "'\""
            found.append(Condition(column, operator, match[3][1:-1] if quoted else match[3], quoted))
    return tuple(found)


def _named(schema: Schema, columns: _Columns, meaning: str, weight: Mapping[str, float]) -> Column | None:
    """The column that a meaning names literally, or whose name is spoken in it."""
    bare = re.sub(r"^(?:the|a|an|one of)\s+", "", meaning, flags=re.IGNORECASE)
    parts = bare.split()
    if len(parts) <= 4 and (column := columns.get(parts[0] if len(parts) == 1 else bare)) is not None:
        return column
    spoken: list[Mention] = [m for m in mentions_in(schema, words_of(bare)) if m.columns]
    ranked = sorted(spoken[:1], key=lambda m: -m.columns[0][1])
    if not ranked or ranked[0].columns[0][1] < 0.7:
        return None
    top = ranked[0].columns[0][1]
    return max((c for c, score in ranked[0].columns if score == top), key=lambda c: weight[c.table])


def _place(said: _Said, lows: Sequence[str], stems: set[str]) -> tuple[int, int]:
    """Where a phrase stands in the request: its words in a row, or (0, 0) when most of them occur, or (-1, -1)."""
    whole, size = said.phrase.lower(), len(said.lows)
    for start, low in enumerate(lows):
        if low == whole:
            return start, start + 1
        if low == said.lows[0] and tuple(lows[start : start + size]) == said.lows:
            return start, start + size
    share = sum(stem in stems or low in stems for stem, low in said.content) / (len(said.content) or 1)
    return (0, 0) if said.content and share >= ENOUGH else (-1, -1)
