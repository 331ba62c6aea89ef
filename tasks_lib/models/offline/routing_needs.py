"""A request taken apart without a model: clauses (needs), how they depend on each other, and what kind of request it is.

Words and rules only; which database answers a need is decided in `routing`. The rules are plain English cues, set once by
common sense and tuned on nothing.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from tasks_lib.models.offline.words import stems

STOP = frozenset(
    stems(
        "a an the this that these those it its i we us our you your my me they them their he she his her of for to in on at by with "
        "from about as is are was were be been being do does did can could would should will may might must has have had what which "
        "who whom whose when where how why and or but if not no nor than then so such also each every all any some more most less "
        "many much give show list tell find get return provide report display please need want know let there here into out up over "
        "per between among both either one ones name names number count"
    )
)
_SENTENCE = re.compile(r"(?<=[.;?!])\s+|\n+")
_JOINT = re.compile(
    r",?\s+(?:and|then|plus|while|whereas|as well as|along with|together with|alongside)\s+(?:then\s+)?|[,;:]\s+",
    re.IGNORECASE,
)
_RELATIVE = re.compile(
    r"\b(?:whose|the one (?:that|who|which|whose)|the same \w+ (?:as|that|which)|found by|given by|named by|identified by|"
    r"taken from|determined by|as the one|that belongs to the)\b",
    re.IGNORECASE,
)
_FORWARD = re.compile(
    r"\b(?:then|afterwards|that same|this same|using (?:that|this|it|the result)|use (?:that|this|it|the result)|"
    r"(?:for|with|from|of|in|at|to|by|has|have) (?:that|this|it|those|them)\b(?! (?:is|are|was|were|has|have))|"
    r"based on (?:that|this|it)|its result)\b",
    re.IGNORECASE,
)
_GOAL = re.compile(
    r"\b(?:understand|overview|explore|investigate|assess|evaluate|decide|plan|planning|prepare|preparing|briefing|study|"
    r"big picture|help (?:me|us)|insight|get a sense|figure out|look into|find out what|learn about)\b",
    re.IGNORECASE,
)

LEAST_WORDS = 2
"""A clause with fewer content words is no need of its own; it stays with the clause before it."""


@dataclass(frozen=True, slots=True)
class Need:
    """One clause. `cue`: "relative" (describes an input of another clause), "forward" (uses an earlier clause), or ""."""

    text: str
    cue: str = ""


def content_words(text: str) -> list[str]:
    """Stemmed words that say what a text is about, in order."""
    return [word for word in stems(text) if word not in STOP and not word.isdigit() and len(word) > 1]


def _pieces(sentence: str) -> list[str]:
    """A sentence cut at joints and before relative cues."""
    cut: list[str] = []
    for part in _JOINT.split(sentence):
        starts = [0, *(m.start() for m in _RELATIVE.finditer(part)), len(part)]
        cut += [part[a:b].strip() for a, b in itertools.pairwise(starts) if part[a:b].strip()]
    return cut


def needs_of(request: str) -> list[Need]:
    """The clauses of a request, at least one. Joints: sentence ends, commas, and, then, while, relative wording."""
    found: list[Need] = []
    for sentence in _SENTENCE.split(request.strip()):
        for i, piece in enumerate(_pieces(sentence)):
            cue = "relative" if _RELATIVE.match(piece) else "forward" if _FORWARD.search(piece) else ""
            thin = len(content_words(piece)) < LEAST_WORDS
            if found and (thin or len(content_words(found[-1].text)) < LEAST_WORDS):
                before = found[-1]
                found[-1] = Need(f"{before.text}{', ' if i else ' '}{piece}", before.cue or cue)
            else:
                found.append(Need(piece, cue))
    return found or [Need(request)]


def sounds_like_a_goal(request: str) -> bool:
    """The request states an aim and leaves its sources open."""
    return _GOAL.search(request) is not None
