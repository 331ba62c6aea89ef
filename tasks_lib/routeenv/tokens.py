"""Words of queries and catalog text: one tokeniser and one light stemmer for every index.

Text in, tokens out; weights and scores are made in `indexes`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_SPLIT = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W_]+")

# fmt: off
STOPWORDS = frozenset(
    {
        "a", "an", "the", "of", "for", "in", "on", "at", "to", "from", "by", "with", "and", "or", "not", "no",
        "is", "are", "was", "were", "be", "been", "being", "do", "does", "did", "done", "has", "have", "had",
        "having", "what", "which", "who", "whom", "whose", "when", "where", "why", "how", "many", "much",
        "that", "this", "these", "those", "it", "its", "they", "them", "their", "there", "he", "she", "his",
        "her", "i", "me", "my", "we", "our", "you", "your", "us", "as", "than", "then", "so", "if", "each",
        "every", "any", "all", "some", "only", "also", "most", "least", "more", "less", "please", "can",
        "could", "would", "will", "shall", "should", "may", "might", "must", "show", "list", "give", "find",
        "tell", "return", "get", "provide", "want", "know", "whether", "between", "about", "into", "over",
        "under", "out", "up", "down", "per", "both", "either", "such", "same", "other", "others", "another",
    }
)
# fmt: on
"""Words that say nothing about a subject: articles, pronouns, auxiliaries, question words and verbs of asking."""


@lru_cache(maxsize=200_000)
def stem(word: str) -> str:
    """`word` (lower case) without common English endings. Light on purpose: character n-grams carry the rest."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("sses", "shes", "ches", "xes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    if len(word) > 5 and word.endswith("ing"):
        return word[:-3]
    if len(word) > 4 and word.endswith("ed"):
        return word[:-2]
    return word


@lru_cache(maxsize=20_000)
def _words(text: str) -> tuple[str, ...]:
    return tuple(word.casefold() for part in _SPLIT.split(text) for word in _WORD.findall(part))


def raw(text: str) -> list[str]:
    """Lower-case words in order, camel case and underscores split, nothing left out."""
    return list(_words(text))


def content(words: Iterable[str]) -> list[str]:
    """Words of `raw` stemmed, in order, without stopwords."""
    return [stem(word) for word in words if word not in STOPWORDS]


def tokens(text: str) -> list[str]:
    """Stemmed words in order without stopwords."""
    return content(_words(text))
