"""PRIVATE. Reading a unit's question as words: normal form, content words, locked literals, themes.

Belongs here: what can be said of a question without its database, and which nouns of it a schema knows. Does not belong
here: changing a question into another phrase (`phrases`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml


@cache
def _lists() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "lexicon.yaml").read_text("utf-8"))
    return found


def lexicon(name: str) -> frozenset[str]:
    """A word list of `lexicon.yaml`."""
    return frozenset(str(_lists()[name]).split())


_STOP = lexicon("stop")
_OPENING = re.compile(
    r"^(?:please )?(?:what (?:is|are|was|were)|who (?:is|are|was|were)|(?:find|show|list|give|return|tell)(?: me)?(?: us)?)\b"
)
_AGGREGATES: tuple[tuple[str, str], ...] = (
    (r"\b(?:average|mean)\b", "average"),
    (r"\b(?:total|sum of)\b", "total"),
    (r"\b(?:highest|largest|greatest|maximum|most|longest|biggest)\b", "highest"),
    (r"\b(?:lowest|smallest|least|minimum|shortest|fewest)\b", "lowest"),
    (r"\b(?:oldest|earliest)\b", "oldest"),
    (r"\b(?:youngest|newest|latest|most recent)\b", "newest"),
    (r"\b(?:how many|number of|count)\b", "numbers of"),
)
_SUPERLATIVES = frozenset({"highest", "lowest", "oldest", "newest"})
_COUNTING = (
    re.compile(r"^how many (?P<what>.+?) (?:are|were) there(?: in total)?(?P<rest>.*)$"),
    re.compile(r"^how many (?P<what>.+?) (?:do|did) we have(?: in total)?(?P<rest>.*)$"),
    re.compile(
        r"^(?:count )?(?:total )?(?:number|count) of (?:different |distinct )?(?P<what>.+?)(?: in total)?(?P<rest>)$"
    ),
)
_POOR_NOUNS = lexicon("poor_nouns")
_UNCOUNTED = lexicon("uncounted")


def words(text: str) -> list[str]:
    """Lower-case words of a text; apostrophes and hyphens inside a word are kept."""
    return [word.lower() for word in re.findall(r"[^\W_]+(?:['’-][^\W_]+)*", text)]


def stem(word: str) -> str:
    """A word without its plural ending: cities -> city, boxes -> box, prices -> price."""
    word = word.removesuffix("'s").removesuffix("’s")
    if len(word) <= 3 or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
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
    return re.search(rf"(?<!\w){re.escape(literal)}(?!\w)", text, re.IGNORECASE) is not None


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


@dataclass(frozen=True, slots=True)
class Theme:
    """What several questions are about. `key`: what is compared. `label`: the theme in words, plural. `measure`: a quantity.
    `broad`: a topic of the lexicon instead of a noun that all the questions say."""

    key: str
    label: str
    measure: bool
    broad: bool = False


@cache
def _topics() -> tuple[tuple[str, frozenset[str]], ...]:
    return tuple((label, frozenset(stems.split())) for label, stems in _lists()["topics"].items())


_NAMED_AS = re.compile(r"\bmembers? of staff\b")


def themes(question: str, nouns: Collection[str]) -> tuple[Theme, ...]:
    """Themes of a question, best first: measures ("average prices"), things ("members"), topics ("money matters").

    `nouns`: stems of what the schemas of the corpus name; only those count as things records are about.
    """
    tokens = words(_NAMED_AS.sub("", question))
    stems = [stem(t) for t in tokens]
    known = [i for i, n in enumerate(stems) if n in nouns and _is_thing(n)]
    found: list[Theme] = []
    text = " ".join(tokens)
    for pattern, label in _AGGREGATES:
        for match in re.finditer(pattern, text):
            at = len(text[: match.end()].split())
            near = [i for i in known if at <= i < at + 4]
            if not near:
                continue
            last = near[0]
            while last + 1 in near:
                last += 1
            thing = plural(stems[last])
            superlative = label in _SUPERLATIVES
            found.append(Theme(f"{label} {thing}", thing if superlative else f"{label} {thing}", True))
    found += [Theme(plural(stems[i]), plural(stems[i]), False) for i in known]
    found += [Theme(label, label, False, True) for label, topic in _topics() if topic.intersection(stems)]
    return tuple(dict.fromkeys(found))


def _is_thing(noun: str) -> bool:
    usual = noun.isalpha() and len(noun) > 2 and noun not in _STOP and noun not in _POOR_NOUNS
    return usual and not noun.endswith(("ed", "ing"))
