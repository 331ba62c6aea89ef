"""Words of a text for lexical scores: lower case, identifiers split, plural endings cut. No scoring here."""

from __future__ import annotations

import re

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+")


def stem(word: str) -> str:
    """`word` without a plural ending: cities → city, singers → singer, classes → class; short words stay."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def stems(text: str) -> list[str]:
    """Stemmed words of `text` in order; `airport_code` and `airportCode` are two words."""
    return [stem(word) for word in _WORD.findall(_CAMEL.sub(" ", text).lower())]
