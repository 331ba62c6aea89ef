"""PRIVATE. A question that follows another: "How many clubs are in Salem?" as "How many clubs are in that town?".

Belongs here: putting "that <noun>" where a value stood, and a question as the one that goes before. Rules are closed and give
None whatever they do not surely handle. Does not belong here: descriptions inside one sentence (`phrases`), kinds (`kinds`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from tasks_lib.contracts.kinds import nouns
from tasks_lib.contracts.phrases import find_literal
from tasks_lib.contracts.questions import lexicon, stem

_BEFORE = (lexicon("plain_before") | lexicon("takes_object")) - {"written", "given"}
_AFTER = lexicon("may_follow") | frozenset({"during", "under", "after", "before", "since", "between", "using", "both"})
_VERBS = lexicon("verbs")
_PERSONS = lexicon("persons") | lexicon("more_persons")
_FROM = lexicon("places") | {"region"}
_GRAMMAR = re.compile(
    "|".join(
        (
            r"\b(?:do|does|did) (?:the )?\w+(?: \w+)? (?:has|participated)\b",
            r"\bcountries has\b",
            r"\bwhich \w+s (?:has|is|was)\b",
            r"\bwhich country (?:are|have)\b",
            r"^how many (?:\w+ ){1,3}(?:using|whose)\b",
            r"\bhow many \w+ (?:is\b|\w+ whose\b)",
            r"\bhow many \w+ with sales\b",
            r"\bhow many player\b",
            r"\bdoes \w+ \w+$",
            r"\bwhere (?:has|most of|it locates)\b",
            r"\bis located in$",
            r"\bthe names? of the .* name\b",
            r"^which are\b",
            r"\bdatabase\b",
            r"\b(?:from from|the its|the them)\b",
            r"\bwhat is the (?:average )?(?:names|quantities)\b",
            r"\bwhat are the total \w+ value\b",
            r"\bof \w+ belongs\b",
            r"\bof the \w+ were\b",
            r"\bproducts goes\b",
            r"\bin which have\b",
            r"\bindicator belongs\b",
            r"\bline number building\b",
            r"^which continent is the (?:\w+ )?country\b",
            r"\ball city\b",
            r"\bfrom which .* from$",
            r"\bdoes .* lived\b",
            r"\bdid .* got\b",
            r"\bwhich (?:name|user rating) is\b",
            r"\bhave the lowest\b",
        )
    ),
    re.IGNORECASE,
)
"""Slips of grammar that a first question must not carry on."""
_MANY = re.compile(
    r"^(?:(?:show|list|find|give|return|retrieve)(?: me)?|what are|which are|which|who are)(?: the)?(?: distinct| different)?"
    r"(?: names? of)?(?: the)? (?P<noun>[a-z]+(?: (?!that|which|who|having)[a-z]+)?) (?P<link>(?:that|which|who) )?"
    r"(?P<verb>have|having|are|were|participated) (?P<rest>.+)$",
    re.IGNORECASE,
)
_SINGULAR = {"have": "has", "having": "has", "are": "is", "were": "was", "participated": "participated"}


def sound(question: str) -> bool:
    """Whether a question shows none of the slips of grammar that are known."""
    return _GRAMMAR.search(" ".join(question.split()).rstrip(" .?")) is None


def single(question: str) -> str | None:
    """The question as one that asks for one thing; None when it asks for several and no rule is sure.

    "Show the parties that have both … and …" becomes "Which party has both … and …", since one answer is known to exist.
    """
    text = " ".join(question.split()).rstrip(" .?")
    if re.search(r"[.?!]\s", text):
        return None
    match = _MANY.match(text)
    if match is not None:
        *front, last = match["noun"].lower().split()
        one = " ".join([*front, stem(last)])
        if stem(last) == last:
            return question
        if not match["link"] and match["verb"].lower() == "are":
            return None
        return f"Which {one} {_SINGULAR[match['verb'].lower()]} {match['rest']}?"
    asked = re.match(
        r"^(?:(?:show|list|find|give|return|retrieve|tell)(?: me| down)?|what are|what is|which|what)(?: the)?(?: distinct| different| all)?(?: names?)?"
        r"(?: of)?(?: the)? (?:[a-z]+ )?(?P<noun>[a-z]+?)s (?:that|which|who|where|with|for|shared|of|did|do|have|having|in|are|were|participated)\b",
        text,
        re.IGNORECASE,
    )
    plain = asked is None or stem(asked["noun"] + "s") == asked["noun"] + "s"
    return (
        question
        if plain and not re.match(r"^(?:for )?(?:what|which) \w+s are\b|^what are\b|^who are\b", text, re.I)
        else None
    )


@dataclass(frozen=True, slots=True)
class _Patterns:
    """How questions put a kind's noun beside a value: `behind` it, in "whose <noun> is" before it, or `ahead` of it."""

    noun: re.Pattern[str]
    behind: re.Pattern[str]
    whose: re.Pattern[str]
    ahead: re.Pattern[str]


@cache
def _patterns(kind: str) -> _Patterns:
    either = "|".join(map(re.escape, sorted(nouns(kind), key=len, reverse=True)))
    return _Patterns(
        re.compile(rf"\b(?:{either})\b", re.IGNORECASE),
        re.compile(rf"\s+(?P<noun>{either})\b(?!\s+(?:of|{either})\b)", re.IGNORECASE),
        re.compile(
            rf"\bwhose\s+(?P<noun>{either})\s+(?:is|are|was)(?P<not>\s+not)?(?: from| located in| in)?$", re.IGNORECASE
        ),
        re.compile(
            rf"(?:\b(?P<have>do not have|that have|have|having|with)\s+)?(?:\bthe\s+)?\b(?P<noun>{either})"
            rf"(?:\s+(?:(?:of|named|called)|(?:(?:with|of) )?(?:the )?(?:{either})?\s*(?:code|name)))?(?:\s+(?:is|of))?$",
            re.IGNORECASE,
        ),
    )


def follow_up(question: str, value: str, kind: str, holder: str = "") -> str | None:
    """The question with "that <kind>" for `value`, or None when no rule is sure.

    `holder`: what the rows with the value are ("student"), for a family name in a full one.
    """
    span = find_literal(question, value)
    if span is None:
        return None
    before, after = question[: span[0]].rstrip(), question[span[1] :]
    if kind in {"first name", "last name", "name", "title"}:
        return _named(before, after, kind, value, holder)
    if re.match(r"\s*['’]s\b", after):
        return _joined(_bare(before), f"that {kind}", after) if _takes(_bare(before)) else None
    said = _patterns(kind)
    if match := said.behind.match(after):
        word = match["noun"].lower()
        if stem(word) != word:
            return None
        return _joined(_bare(before), f"that {_noun(kind, word)}", after[match.end() :])
    if match := said.whose.search(before):
        if (
            not _ends(after)
            or re.match(r"\s+or\b", after)
            or before[: match.start()].rstrip().endswith((" and", " or"))
        ):
            return None
        word = stem(match["noun"].lower())
        kept = before[: match.start()].rstrip()
        if match["not"]:
            return _joined(kept, f"{_preposition(kind, word)} another {_noun(kind, word)}", after)
        return _joined(kept, f"{_preposition(kind, word)} that {_noun(kind, word)}", after)
    if match := said.ahead.search(before):
        if not _ends(after):
            return None
        word = stem(match["noun"].lower())
        kept = before[: match.start()].rstrip()
        have = (match["have"] or "").lower()
        if have and have not in {"with", "having"}:
            return None
        if have:
            link = "from" if kind in _FROM else "with"
            return _joined(kept, f"{link} that {_noun(kind, word)}", after)
        if kept.endswith((" has", " have", " had")):
            return None
        return _joined(kept, f"that {_noun(kind, word)}", after) if _takes(kept) else None
    if not _ends(after) or not _takes(_bare(before)):
        return None
    near = " ".join(before.split()[-5:])
    if said.noun.search(f"{near} {after}"):  # "… that advisor as the advisor"
        return None
    within = "in " if kind in _FROM and re.search(r"\b(?:is|are|was|were)(?: not)?$", before) else ""
    return _joined(_bare(before), f"{within}that {kind}", after)


def _named(before: str, after: str, kind: str, value: str, holder: str) -> str | None:
    """A name's value: "with the last name 'Poe'" as "with that last name"; "student Ann Poe" as "student Ann with that …"."""
    if not _ends(after) or after.startswith(("'s", "’s")):
        return None
    if match := re.search(r"\b(?:named|called|titled|entitled)$|\bwith (?:the )?(?:name|title)$", before):
        noun = "title" if match.group().endswith(("titled", "title")) else "name"
        return (
            _joined(before[: match.start()].rstrip(), f"with that {noun}", after) if kind in {"name", "title"} else None
        )
    if match := re.search(
        rf"\b(?:(?:who|that) (?:has|have)|with|having|whose)\s+(?:the )?{kind}(?: of| is| being)?$",
        before,
        re.IGNORECASE,
    ):
        kept = before[: match.start()].rstrip()
        return _joined(kept, f"with that {kind}", after)
    if kind == "last name" and holder in _PERSONS:
        match = re.search(rf"(?:\bthe )?\b{holder} (?P<first>[A-Z][a-z]+)$", before)
        if match is not None:
            return _joined(
                before[: match.start()].rstrip(), f"the {holder} {match['first']} with that last name", after
            )
    return None


def _noun(kind: str, word: str) -> str:
    """How the follow-up calls the thing: "country" for a nationality, else the question's own word."""
    return kind if kind == "country" or word.endswith(" name") else word


def _preposition(kind: str, word: str) -> str:
    return "from" if kind in _FROM else "with" if word.endswith("name") else "of"


def _bare(before: str) -> str:
    return re.sub(r"\s+the$", "", before)


def _takes(before: str) -> bool:
    """Whether "that <noun>" may stand behind these words."""
    tokens = before.split()
    return not tokens or tokens[-1].lower() in _BEFORE | {"do", "does", "did"} or tokens[-1].lower() in _VERBS


def _ends(after: str) -> bool:
    """Whether a name may end before these words: an end, a mark or a word that opens the rest of the sentence."""
    match = re.match(r"\s*([\w'-]+)", after)
    if re.match(r"\s*[?.!,;]|\s*$", after) or match is None:
        return True
    word = match[1].lower()
    return word in _AFTER or word in _VERBS or (word.endswith("ed") and len(word) > 4)


def _joined(before: str, middle: str, after: str) -> str:
    gap = "" if not after or after[0] in " ,.?!;'’" else " "
    if middle == "that continent":
        before = re.sub(r"\bin$", "on", before)
    text = f"{before} {middle}{gap}{after}".strip()
    return text[0].upper() + text[1:]


def sentence(question: str) -> str:
    """A question with a capital first and one end mark."""
    text = " ".join(question.split()).rstrip(" .?!")
    last = re.split(r"(?<=[.?!])\s+", text)[-1]
    orders = re.match(
        r"^(?:please|find|show|list|give|return|tell|count|name|state|provide|calculate|compute)\b", last, re.IGNORECASE
    )
    asks = re.search(r"\b(?:what|which|who|whose|how|where|when|is|are|do|does|did)\b", last, re.IGNORECASE)
    return text[0].upper() + text[1:] + ("?" if asks and not orders else ".")
