"""Words of names and requests: splitting, abbreviations, stems. No schema and no SQL belongs here."""

from __future__ import annotations

import re
from functools import lru_cache

STOP = frozenset(
    [
        "a",
        "an",
        "the",
        "of",
        "and",
        "or",
        "to",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "do",
        "does",
        "did",
        "have",
        "has",
        "had",
        "with",
        "in",
        "on",
        "at",
        "for",
        "from",
        "by",
        "that",
        "which",
        "who",
        "whom",
        "whose",
        "what",
        "when",
        "where",
        "how",
        "many",
        "much",
        "all",
        "any",
        "each",
        "every",
        "there",
        "their",
        "its",
        "it",
        "his",
        "her",
        "they",
        "them",
        "this",
        "these",
        "those",
        "as",
        "if",
        "not",
        "no",
        "than",
        "then",
        "give",
        "show",
        "list",
        "find",
        "return",
        "tell",
        "me",
        "us",
        "please",
        "get",
        "display",
        "report",
        "also",
        "both",
        "either",
        "we",
        "you",
        "your",
        "our",
        "i",
        "would",
        "like",
        "can",
        "could",
        "will",
        "shall",
        "may",
        "should",
        "must",
        "into",
        "out",
        "up",
        "more",
        "most",
        "less",
        "least",
        "some",
        "such",
        "only",
        "own",
        "same",
        "so",
    ]
)

_SHORT = {
    "fname": "first name",
    "lname": "last name",
    "mname": "middle name",
    "firstname": "first name",
    "lastname": "last name",
    "dept": "department",
    "num": "number",
    "no": "number",
    "nbr": "number",
    "stu": "student",
    "stuid": "student id",
    "emp": "employee",
    "addr": "address",
    "desc": "description",
    "qty": "quantity",
    "yr": "year",
    "pct": "percent",
    "amt": "amount",
    "dob": "birth date",
    "avg": "average",
    "max": "maximum",
    "min": "minimum",
    "tel": "telephone",
    "cust": "customer",
    "prof": "professor",
    "loc": "location",
    "lat": "latitude",
    "long": "longitude",
    "lng": "longitude",
    "char": "character",
    "govt": "government",
    "org": "organization",
    "info": "information",
    "identifier": "id",
    "identification": "id",
    "ids": "id",
}
_IRREGULAR = {
    "people": "person",
    "persons": "person",
    "men": "man",
    "women": "woman",
    "children": "child",
    "countries": "country",
    "series": "series",
    "species": "species",
    "status": "status",
    "news": "news",
    "bus": "bus",
    "address": "address",
    "addresses": "address",
    "mice": "mouse",
    "ages": "age",
    "id": "id",
    "nation": "country",
    "nations": "country",
}


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """A light stem: plural and -ed/-ing endings go, so `cities` meets `city` and `opening` meets `opened`."""
    low = word.lower()
    if low in _IRREGULAR:
        return _IRREGULAR[low]
    if len(low) > 4 and low.endswith("ies"):
        return low[:-3] + "y"
    if len(low) > 4 and low.endswith(("sses", "ches", "shes", "xes", "zes")):
        return low[:-2]
    if len(low) > 3 and low.endswith("s") and not low.endswith(("ss", "us", "is")):
        low = low[:-1]
    for ending in ("ing", "ed"):
        if low.endswith(ending) and len(low) - len(ending) >= 4:
            low = low[: -len(ending)]
            if low[-1] == low[-2] and low[-1] not in "ls":
                low = low[:-1]
            break
    return low[:-1] if len(low) > 4 and low.endswith("e") else low


@lru_cache(maxsize=50_000)
def name_words(name: str) -> tuple[str, ...]:
    """Stems of a table or column name: `Song_release_year`, `songReleaseYear` and `song release year` are one."""
    if name.lower() in _SHORT:
        return tuple(stem(word) for word in _SHORT[name.lower()].split())
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_|\W+", " ", name)
    words: list[str] = []
    for word in spaced.lower().split():
        words.extend(_SHORT.get(word, word).split())
    return tuple(stem(word) for word in words)


def request_stem(word: str) -> str:
    """Stem of a word of a request, abbreviations written out when they are one word."""
    low = word.lower()
    full = _SHORT.get(low, low) if low != "no" else low
    return stem(full) if " " not in full else stem(low)
