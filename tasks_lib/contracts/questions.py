"""PRIVATE. Reading a unit's question as words: normal form, content words, locked literals.

Belongs here: what can be said of a question without its database. Does not belong here: changing a question into another
phrase (`phrases`), what it measures (`facts`), whether its language is good (`quality`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import yaml


@cache
def _lists() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "lexicon.yaml").read_text("utf-8"))
    return found


def lexicon(name: str) -> frozenset[str]:
    """A word list of `lexicon.yaml`: words separated by blanks, or a list where some are phrases."""
    found = _lists()[name]
    return frozenset(found if isinstance(found, list) else str(found).split())


def table_of_words(name: str) -> dict[str, tuple[str, ...]]:
    """A table of `lexicon.yaml`: entry -> its words, or its phrases where they stand in a list."""
    return {key: tuple(found.split() if isinstance(found, str) else found) for key, found in _lists()[name].items()}


_STOP = lexicon("stop")
_OPENING = re.compile(
    r"^(?:please )?(?:what (?:is|are|was|were)|who (?:is|are|was|were)|(?:find|show|list|give|return|tell)(?: me)?(?: us)?)\b"
)
_COUNTING = (
    re.compile(r"^how many (?P<what>.+?) (?:are|were) there(?: in total)?(?P<rest>.*)$"),
    re.compile(r"^how many (?P<what>.+?) (?:do|did) we have(?: in total)?(?P<rest>.*)$"),
    re.compile(
        r"^(?:count )?(?:total )?(?:number|count) of (?:different |distinct )?(?P<what>.+?)(?: in total)?(?P<rest>)$"
    ),
)
_UNCOUNTED = lexicon("uncounted")


def words(text: str) -> list[str]:
    """Lower-case words of a text; apostrophes and hyphens inside a word are kept."""
    return [word.lower() for word in re.findall(r"[^\W_]+(?:['’-][^\W_]+)*", text)]


_PLURALS_IN_IE = frozenset({"movies", "cookies", "calories", "ties", "pies", "zombies", "rookies"})


def stem(word: str) -> str:
    """A word without its plural ending: cities -> city, boxes -> box, prices -> price."""
    word = word.removesuffix("'s").removesuffix("’s")
    if len(word) <= 3 or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-1] if word in _PLURALS_IN_IE else word[:-3] + "y"
    if word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    return word.removesuffix("s")


def plural(word: str) -> str:
    """The plural of a noun by rule; a noun that already looks plural stays."""
    if stem(word) != word or word.endswith("ss") or word in _UNCOUNTED:
        return word
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh")) else "s")


def normal(question: str) -> str:
    """Form under which two questions count as the same request: case, punctuation, articles and the opening words
    ("what is", "show", "list") do not matter, nor do the ways to ask for a number. Literals do."""
    text = " ".join(words(question))
    text = _OPENING.sub("", text)
    text = " ".join(word for word in text.split() if word not in {"the", "a", "an", "all"})
    for pattern in _COUNTING:
        if match := pattern.match(text):
            return f"number of {match['what']}{match['rest']}".strip()
    return text


def content(question: str) -> list[str]:
    """Stems of the words that carry meaning, in order, each once."""
    return list(dict.fromkeys(stem(w) for w in words(question) if w not in _STOP and not w.isdigit() and len(w) > 2))


def stands_in(text: str, literal: str) -> bool:
    """Whether `literal` stands in `text` as whole words, case ignored."""
    # No pattern: compiling one for each constant costs more than all the rest of a build.
    words, needle = text.lower(), literal.lower()
    at = words.find(needle)
    while at >= 0:
        end = at + len(needle)
        if not (at and _in_word(words[at - 1])) and not (end < len(words) and _in_word(words[end])):
            return True
        at = words.find(needle, at + 1)
    return False


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def locked(question: str, literals: Iterable[str]) -> tuple[str, ...]:
    """The constants of the gold text that the question shows: wording must keep each of them."""
    return tuple(dict.fromkeys(lit for lit in literals if lit.strip() and stands_in(question, lit)))


def distinctive(value: object) -> bool:
    """Whether a value can tie two databases: a name or a code, not a flag, a small number, a letter, a month or a noun."""
    if isinstance(value, bool) or not isinstance(value, str):
        return isinstance(value, int) and not isinstance(value, bool) and value >= 1000 and not 1900 <= value <= 2100
    text = value.strip()
    if len(text) < 3 or text.casefold() in _COMMON_VALUES or "\n" in text or len(text) > 60:
        return False
    if text == text.lower() and text.isalpha():  # a common noun, no name
        return False
    if re.fullmatch(r"[-+]?[\d.,]+", text):
        return text.isdigit() and len(text) >= 4 and not 1900 <= int(text) <= 2100
    return not re.fullmatch(r"\d{4}-\d\d-\d\d.*", text)


_COMMON_VALUES = lexicon("common_values")
