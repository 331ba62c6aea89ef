"""PRIVATE. Questions with one thing left open, so that the same words are asked of several databases.

Three things may be open: nothing in the words (the setting: whose records), the people it is about ("gymnasts" or "poker
players"), a value ("Japan" or "Kenya"). Rules are closed and give nothing where they are not sure. Does not belong here: pairing
the readings and the words of the clarification (`interactive`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tasks_lib.contracts.contract import Unit
from tasks_lib.contracts.follow_ups import follow_up, sound
from tasks_lib.contracts.kinds import compared, kind
from tasks_lib.contracts.phrases import find_literal
from tasks_lib.contracts.pool import Pool
from tasks_lib.contracts.questions import content, lexicon, locked, normal, stem, words
from tasks_lib.contracts.signatures import signature

_PERSONS = lexicon("persons") | lexicon("class_nouns")
_PEOPLE = re.compile(
    rf"\b(?:{'|'.join(sorted(_PERSONS, key=lambda noun: (-len(noun), noun)))})(?:s'|'s|s)?\b", re.IGNORECASE
)
_OPEN = lexicon("open_words")
_MANY_NAMES = lexicon("many_names")
_PLACES = lexicon("places") | {"county", "region", "district", "continent"}
_OPENING = re.compile(
    r"^(?:please )?(?:provide|state|name|identify|write|mention|calculate|compute|count|indicate|list|show|give|find|tell)"
    r"(?: down| out)?(?: me| us)?\b\s*"
)
_EACH = r"(?:(?:all|each|every) (?:of )?)?(?:the )?(?:different |distinct )?"
_TECHNICAL = re.compile(r"\b(?:ids?|codes?)\b|_", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Reading:
    """One unit as one reading of an open question. `form`: equal forms may share one wording. `slot`: `setting`, or the noun of
    what is open ("people", "country"). `value`: what closes it ("" for a setting). `shared`: the question with it open."""

    form: str
    unit: Unit
    slot: str
    value: str
    shared: str


def readings(unit: Unit) -> Iterator[Reading]:
    """The readings that a unit gives, several or none."""
    if not sound(unit.question) or _TECHNICAL.search(unit.question):
        return
    constants = locked(unit.question, unit.literals)
    yield Reading(f"same {normal(unit.question)}", unit, "setting", "", unit.question)
    # Equal golds of one table ask the same in other words.
    if not constants and len(unit.tables) == 1 and (simple := signature(unit)) is not None and not simple.values:
        yield Reading(f"gold {simple.form}", unit, "setting", "", unit.question)
    yield from _of_people(unit)
    yield from _of_value(unit, constants)


def common(pool: Pool, first: Reading, second: Reading) -> bool:
    """Whether two readings may share one wording: one form, one slot and two values; where only their golds are alike, the
    words of each must not be strange to the other."""
    if first.form != second.form or first.slot != second.slot:
        return False
    if first.slot != "setting" and first.value.casefold() == second.value.casefold():
        return False
    return not first.form.startswith("gold ") or (fits(pool, first.shared, second) and fits(pool, second.shared, first))


def fits(pool: Pool, shared: str, reading: Reading) -> bool:
    """Whether every word of a shared question that carries meaning is one of the reading's own question or of its schema."""
    own = set(content(reading.unit.question)) | pool.words_of[reading.unit.database] | _OPEN | {reading.slot}
    return own.issuperset(content(shared))


def known(pool: Pool, shared: str, databases: tuple[str, ...]) -> frozenset[str] | None:
    """Stems of a shared question that make a database a reading of it: those that every one of `databases` names in its
    schema, else those that any does. None when the question says nothing of any records."""
    said = frozenset(word for word in content(shared) if word not in _OPEN)
    if not said:
        return None
    named = [pool.named_by[name] for name in databases]
    return said.intersection(*named) or said.intersection(frozenset().union(*named))


def about_people(text: str) -> bool:
    """Whether a text names people by some noun."""
    return any(stem(word) in _PERSONS for word in words(text))


def _of_people(unit: Unit) -> Iterator[Reading]:
    """The question with its noun for people open, where it has exactly one, in the plural."""
    text = " ".join(unit.question.split())
    found = list(_PEOPLE.finditer(text))
    if len(found) != 1 or "'" in found[0].group():
        return
    noun = found[0].group().lower()
    if stem(noun) == noun:
        return
    before, after = text[: found[0].start()], text[found[0].end() :]
    if re.search(r"\bwho\b|\bwhose\b", after) or re.search(
        r"[A-Za-z]-$|\b(?:female|male|young|old|public)\s*$", before
    ):
        return
    bare = re.sub(rf"\b{_EACH}$", "", before, flags=re.IGNORECASE)
    if not re.search(
        r"\b(?:how many|of|across|by|for|do|number of|names?|from|among)\s*$", bare.rstrip(), re.IGNORECASE
    ):
        return
    if re.match(r"^\s+(?:are|were) there(?: in total)?\s*\?*$", after):
        if bare.strip().lower() != "how many":
            return
        shared = "How many people are on record?"
    elif re.search(r"\b(?:how many|number of)\s*$", bare, re.IGNORECASE):
        shared = f"{bare.rstrip()} people on record{after}"
    else:
        shared = f"{bare.rstrip()} the people on record{after}"
    if re.search(r"\bdo we have\b", shared):
        shared = shared.replace("people on record do we have", "people do we have on record")
    yield Reading(f"people {_form(shared)}", unit, "people", noun, shared)


def _of_value(unit: Unit, constants: tuple[str, ...]) -> Iterator[Reading]:
    """The question with its one value open (a first and a last name count as one)."""
    value, columns = _open_value(unit, constants)
    span = find_literal(unit.question, value) if value else None
    if (
        value is None
        or span is None
        or not (len(value) > 2 or value.isupper())
        or re.search(r"[#@_]|^\W*\d+\W*$", value)
    ):
        return
    if value.casefold() in _MANY_NAMES:
        return
    noun = _noun(columns)
    shown = unit.question[span[0] : span[1]].strip("'\"“”‘’ ")
    for name in (noun, "place") if noun in _PLACES else (noun,):
        told = follow_up(unit.question, value, name) if name else None
        if told is None or not re.search(rf"\bthat {name}\b(?!['’])", told):
            continue
        shared = told.replace(f"that {name}", f"the {name} I mentioned", 1)
        yield Reading(f"value {name} {_form(shared)}", unit, str(name), shown, shared)
        simple = signature(unit) if name == noun else None
        if simple is not None and len(simple.values) in (1, 2):
            yield Reading(f"gold {name} {simple.form}", unit, str(name), shown, shared)


def _open_value(unit: Unit, constants: tuple[str, ...]) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    """The one value that a question shows and its gold compares, with the columns; (None, ()) when there is no such."""
    texts = [constant for constant in constants if not constant.isdigit()]
    if len(texts) == 1 == len(constants):
        return texts[0], compared(unit, texts[0])
    if len(texts) == 2 == len(constants):
        for first, last in (texts, texts[::-1]):
            kinds = [kind(*column) for value in (first, last) for column in compared(unit, value)]
            if kinds == ["first name", "last name"] and find_literal(unit.question, f"{first} {last}"):
                return f"{first} {last}", compared(unit, first)
    return None, ()


def _noun(columns: tuple[tuple[str, str], ...]) -> str | None:
    """How a person would call what the columns hold: "country", "person", "movie"."""
    found = {_called(*column) for column in columns}
    return found.pop() if len(found) == 1 else None


_WORKS = lexicon("titled_things")


def _called(table: str, column: str) -> str | None:
    name = kind(table, column)
    holder = stem(re.findall(r"[a-z]+", table.lower())[-1]) if re.findall(r"[a-z]+", table.lower()) else ""
    if name in ("first name", "name"):
        return "person"
    if name == "last name":
        return None
    if name == "title":
        return holder if holder in _WORKS else None
    return name


def _form(shared: str) -> str:
    text = _OPENING.sub("", normal(shared))
    return " ".join(word for word in text.split() if word not in {"the", "a", "an", "all", "please"})
