"""Which part of a request over several databases one schema can answer.

Belongs here: `own_part(schema, request)`, by how many words of each sentence or clause name something in the schema. Does not
belong here: reading the part (`sql_reading`).
"""

from __future__ import annotations

import re

from tasks_lib.models.offline.sql_linking import mentions_in, words_of
from tasks_lib.models.offline.sql_schema import Schema
from tasks_lib.models.offline.sql_words import STOP

_SENTENCE = re.compile(r"(?<=[.?!;:])\s+(?:and\s+)?")
_CLAUSE = re.compile(
    r"(?:,\s+(?:and\s+)?|\s+and\s+)"
    r"(?=(?:what|which|who|whose|how|where|when|for each|find|show|list|give|return|count|the)\b)"
)
_EVERYWHERE = frozenset({"name", "id", "number", "type", "code", "date", "year", "country", "city", "title", "detail"})
"""Stems that nearly every schema has: they tell little."""
SHARE = 0.6
"""A part is kept when it fits the schema at least this well, measured by the best part."""


def own_part(schema: Schema, request: str) -> str:
    """The parts of `request` that fit the schema, in order; the whole request when it is one part.

    A fragment such as `the name`, which fits anywhere, stays with the other parts of its sentence.
    """
    parts = [
        (number, part)
        for number, sentence in enumerate(_SENTENCE.split(request))
        for part in _CLAUSE.split(sentence)
        if part.strip()
    ]
    if len(parts) < 2:
        return request
    fits = [_fit(schema, part) for _number, part in parts]
    best = max(fit for fit, _fragment in fits)
    good = {number for (number, _part), (fit, _fragment) in zip(parts, fits, strict=True) if fit >= SHARE * best}
    kept = [
        part
        for (number, part), (fit, fragment) in zip(parts, fits, strict=True)
        if fit >= SHARE * best or (fragment and number in good)
    ]
    if best <= 0 or len(kept) == len(parts):
        return request
    return " ".join(part if part.rstrip()[-1] in ".?!;:" else f"{part.rstrip()}," for part in kept).rstrip(",")


def _fit(schema: Schema, part: str) -> tuple[float, bool]:
    """Mean link strength of the words that say something, unknown words counting as nothing; is it a known fragment?"""
    words = words_of(part)
    told = {place: 0.0 for place, word in enumerate(words) if word.kind == "word" and word.low not in STOP}
    for mention in mentions_in(schema, words):
        strength = 1.5 if mention.tables else mention.columns[0][1]
        if mention.end == mention.start + 1 and words[mention.start].stem in _EVERYWHERE and not mention.tables:
            strength = 0.3
        for place in range(mention.start, mention.end):
            if place in told:
                told[place] = strength
    fragment = 0 < len(told) <= 2 and all(told.values())
    return sum(told.values()) / (len(told) + 1), fragment
