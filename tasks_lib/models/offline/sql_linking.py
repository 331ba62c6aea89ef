"""Which words of a request mean which tables and columns of a schema, and which are values.

Belongs here: tokens of a request, mentions, and the linked lines that the adapter shows. Does not belong here: what the
request asks for (`sql_reading`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tasks_lib.models.offline.sql_schema import Column, Schema, parse_schema
from tasks_lib.models.offline.sql_words import STOP, name_words, request_stem

_REQUEST = re.compile(
    r"""(?P<value>"[^"]+"|“[^”]+”|‘[^’]+’|(?<!\w)'[^'\n]+?'(?!\w))
      | (?P<number>(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w-]))
      | (?P<word>\w[\w&/.-]*\w|\w)
      | (?P<sign>[.,;:?!()])""",
    re.VERBOSE,
)
_PLAIN_CAPITALS = frozenset(["i", "a", "id", "ids", "tv", "dvd", "cd", "usd"])
LONGEST = 4
"""Words of the longest name that is looked up at once."""


@dataclass(frozen=True, slots=True)
class Word:
    """A token of a request. `kind`: word | number | value | sign. `text`: quotes removed."""

    text: str
    kind: str
    low: str
    stem: str


@dataclass(frozen=True, slots=True)
class Mention:
    """Words start..end-1 name these tables or these columns (best first, each with a score up to 1)."""

    start: int
    end: int
    tables: tuple[str, ...]
    columns: tuple[tuple[Column, float], ...]


def words_of(text: str) -> list[Word]:
    """Tokens of a request. Runs of capitalised words are still words here."""
    found = []
    for match in _REQUEST.finditer(text):
        kind, raw = str(match.lastgroup), match.group()
        if kind == "value":
            raw = raw[1:-1]
        elif kind == "number":
            raw = raw.replace(",", "")
        low = raw.lower()
        found.append(Word(raw, kind, low, request_stem(low) if kind == "word" else low))
    return found


@dataclass(frozen=True, slots=True)
class _Index:
    tables: dict[str, tuple[str, ...]]
    columns: dict[str, tuple[tuple[Column, float], ...]]
    parts: dict[str, tuple[tuple[Column, float], ...]]
    table_parts: dict[str, tuple[str, ...]]
    plain: tuple[tuple[str, Column], ...]


@lru_cache(maxsize=256)
def _index(schema: Schema) -> _Index:
    tables: dict[str, list[str]] = {}
    table_parts: dict[str, list[str]] = {}
    columns: dict[str, dict[Column, float]] = {}
    parts: dict[str, dict[Column, float]] = {}

    def put(book: dict[str, dict[Column, float]], key: str, column: Column, score: float) -> None:
        scores = book.setdefault(key, {})
        scores[column] = max(score, scores.get(column, 0.0))

    for table in schema.tables:
        own = name_words(table.name)
        tables.setdefault("".join(own), []).append(table.name)
        for word in own:
            if len(own) > 1 and len(word) > 2 and word not in ("ref", "data", "info", "information"):
                table_parts.setdefault(word, []).append(table.name)
        for column in table.columns:
            words = name_words(column.name)
            put(columns, "".join(words), column, 1.0)
            rest = tuple(word for word in words if word not in own)
            if rest and rest != words:
                put(columns, "".join(rest), column, 0.95)
            if len(words) > 1 and words[-1] in ("name", "code", "id", "number", "type", "title", "date"):
                put(columns, "".join(words[:-1]), column, 0.7 if words[-1] in ("name", "title") else 0.55)
            for word in words:
                if len(word) > 2 and word not in own:
                    put(parts, word, column, 1 / len(words))
            meaning = name_words(re.split(r"[.;,(]|\bexamples?\b", column.comment, maxsplit=1)[0])
            content = tuple(word for word in meaning if word not in STOP)
            if 0 < len(content) <= LONGEST:
                put(columns, "".join(content), column, 0.9)
            for word in content[:8]:
                if len(word) > 3 and word not in own:
                    put(parts, word, column, 0.5 / max(2, len(content)))

    def ranked(book: dict[str, dict[Column, float]]) -> dict[str, tuple[tuple[Column, float], ...]]:
        return {key: tuple(sorted(scores.items(), key=lambda item: -item[1])) for key, scores in book.items()}

    return _Index(
        {key: tuple(names) for key, names in tables.items()},
        ranked(columns),
        ranked(parts),
        {key: tuple(dict.fromkeys(names)) for key, names in table_parts.items()},
        tuple(
            (word, column) for table in schema.tables for column in table.columns for word in name_words(column.name)
        ),
    )


def mentions_in(schema: Schema, words: Sequence[Word]) -> list[Mention]:
    """Mentions from left to right, longest first, without overlap; single words of longer names where nothing else fits."""
    index = _index(schema)
    found: list[Mention] = []
    place = 0
    while place < len(words):
        mention = _at(index, words, place)
        if mention is None:
            place += 1
            continue
        found.append(mention)
        place = mention.end
    return found


def _at(index: _Index, words: Sequence[Word], place: int) -> Mention | None:
    if words[place].kind != "word" or words[place].low in STOP:
        return None
    for length in range(min(LONGEST, len(words) - place), 0, -1):
        span = words[place : place + length]
        if any(word.kind != "word" for word in span) or (length > 1 and span[-1].low in STOP):
            continue
        content = [word.stem for word in span if word.low not in ("of", "the", "a", "an")]
        if length > 1 and len(content) < 2:
            continue
        tables: tuple[str, ...] = ()
        columns: tuple[tuple[Column, float], ...] = ()
        for key in {"".join(content): 0, "".join(reversed(content)): 0}:
            tables = tables or index.tables.get(key, ())
            columns = columns or index.columns.get(key, ())
        if length == 1 and not tables and columns and columns[0][1] < 0.6:
            tables = index.table_parts.get(content[0], ())
        if tables or columns:
            return Mention(place, place + length, tables, columns)
    stem = words[place].stem
    columns = tuple(item for item in index.parts.get(stem, ()) if item[1] >= 0.2)
    tables = index.table_parts.get(stem, ())
    if not tables and not columns and len(stem) >= 4:
        columns = tuple(
            (column, 0.35)
            for name, column in index.plain
            if len(name) >= len(stem) + 2 and (name.startswith(stem) or name.endswith(stem))
        )
    if tables or columns:
        return Mention(place, place + 1, tables if not columns or len(tables) <= 2 else (), columns)
    return None


def with_values(words: Sequence[Word], mentions: Sequence[Mention]) -> list[Word]:
    """The words with runs of capitalised words that name nothing in the schema joined into values; offsets change."""
    named = {place for mention in mentions for place in range(mention.start, mention.end)}
    made: list[Word] = []
    place = 0
    while place < len(words):
        end = place
        while end < len(words) and _is_proper(words, end, named, bool(end > place)):
            end += 1
        if end > place:
            text = " ".join(word.text for word in words[place:end])
            made.append(Word(text, "value", text.lower(), text.lower()))
            place = end
        else:
            made.append(words[place])
            place += 1
    return made


def _is_proper(words: Sequence[Word], place: int, named: set[int], inside: bool) -> bool:
    word = words[place]
    if word.kind != "word" or word.low in _PLAIN_CAPITALS:
        return False
    first = place == 0 or words[place - 1].text in (".", "?", "!", ":", ";")
    if inside and word.low in ("of", "the", "de", "and") and place + 1 < len(words):
        return word.low != "and" and words[place + 1].text[:1].isupper()
    if re.search(r"[A-Za-z]", word.text) and re.search(r"\d", word.text):
        return place not in named
    return word.text[:1].isupper() and not first and (inside or place not in named)


def linked_lines(schema_text: str, request: str, most: int = 30) -> str:
    """Tables and columns that the words of `request` may mean, one a line, best first; "" when there are none."""
    schema = parse_schema(schema_text)
    scores: dict[str, float] = {}
    for mention in mentions_in(schema, words_of(request)):
        for name in mention.tables:
            scores[name] = max(scores.get(name, 0.0), 1.0)
        for column, score in mention.columns:
            label = f"{column.table}.{column.name}"
            scores[label] = max(scores.get(label, 0.0), score)
    ranked = sorted(scores.items(), key=lambda item: -item[1])
    return "\n".join(f"- {label}" for label, _score in ranked[:most])
