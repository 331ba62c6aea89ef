"""A query taken apart into the things it asks for, so that each can be searched for by itself (PROTOCOL 6).

Plain English cues only: ends of sentences, semicolons, and joints before a word that opens a new thing ("and the", ", how").
What is done with the parts is decided in `search`.
"""

from __future__ import annotations

import re

from tasks_lib.routeenv.tokens import tokens

_SENTENCE = re.compile(r"(?<=[.;?!])\s+|\n+")
_OPENS = r"(?:the|a|an|all|each|every|how|what|which|who|where|when|whose|both|any|their|our)\b"
_JOINT = re.compile(
    r";\s*(?:and\s+)?|,\s+and\s+|"
    rf"\s+(?:and|as well as|along with|together with|plus|while|then)\s+(?={_OPENS})|,\s+(?={_OPENS})",
    re.IGNORECASE,
)
LEAST_WORDS = 2
"""A clause with fewer words that mean something stays with the clause before it, or is dropped when it comes first."""
LONG = 10
"""A sentence with fewer such words, and no semicolon, asks for one thing: "the names and the ages of all pilots"."""
MOST = 16
"""Parts of one query that are searched for; what follows is searched for as part of the whole query only."""


def needs(query: str) -> list[str]:
    """The query itself, then its clauses when it has several: at most 1 + 16 texts, the first always `query`."""
    found: list[str] = []
    for sentence in _SENTENCE.split(query.strip()):
        several = ";" in sentence or len(tokens(sentence)) >= LONG
        for clause in _JOINT.split(sentence) if several else [sentence]:
            if len(tokens(clause)) >= LEAST_WORDS:
                found.append(clause)
            elif found and clause:
                found[-1] = f"{found[-1]} {clause}"
    return [query, *found[:MOST]] if len(found) > 1 else [query]
