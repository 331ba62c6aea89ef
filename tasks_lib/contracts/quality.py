"""PRIVATE. Is a question fit to be said by a person: closed rules on its language, each with a name.

Belongs here: ungrammatical, opaque and unplaceable wording of the source questions. Does not belong here: what a question
measures (`facts`), whether its answer is good (`gates`). A rule refuses more than it must: there are many questions.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from tasks_lib.contracts.questions import lexicon, stem
from tasks_lib.models.embeddings import vocabulary

MOST_WORDS = 35
"""Longer questions are read twice; PROTOCOL asks for requests that a person would make."""

SPECIFIED = frozenset(
    {
        "vague",
        "notation",
        "computes",
        "loose_end",
        "asks_for_lists",
        "pointing",
        "asks_for_codes",
        "code",
        "agreement",
        "schema_word",
    }
)
"""Rules that do not hold for specifications."""

_CODE_WORDS = lexicon("code_words") | lexicon("schema_words")
_SPELLED = lexicon("spelled")
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|(?<!\w)'[^']*'(?!\w)|(?<!\w)‘[^’]*’(?!\w)")
_RULES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("doubled_word", re.compile(r"\b(?!(?:that|had)\b)(\w+),? \1\b", re.IGNORECASE)),
    ("identifier", re.compile(r"\w*_\w+|\b[a-z]+[A-Z]\w*|\w+#\w+|\w\.\w+(?=\W)(?<!\d)")),
    (
        "code",
        re.compile(
            r"\b(?=\w*\d)(?=\w*[A-Za-z])(?!\d+(?:st|nd|rd|th|s|km|kg|mm|cm|m|am|pm|k)\b)\w{3,}\b|\b[0-9]{6,}\b",
            re.IGNORECASE,
        ),
    ),
    ("asks_for_ids", re.compile(r"\bids?\b|\bidentif\w+\b|\buuid\b|\bkeys?\b", re.IGNORECASE)),
    ("asks_for_codes", re.compile(r"(?<!postal )(?<!zip )(?<!airport )(?<!country )\bcodes?\b", re.IGNORECASE)),
    (
        "vague",
        re.compile(
            r"\b(?:details?|records?|entry|entries|rows?|tables?|columns?|values?|databases?|datasets?|null|instances?|tuples?|descriptions?|info|information|data|corresponding|correspond|respectively|listed|types?|object|objects|occurrences?|associated)\b",
            re.IGNORECASE,
        ),
    ),
    (
        "notation",
        re.compile(r"\bno\.|\bi\.e\.?|\be\.g\.?|[=<>&|/\\{}\[\]*]|\(|\+|\betc\b|%(?!\s|$)|#|;|:|~", re.IGNORECASE),
    ),
    (
        "computes",
        re.compile(
            r"\b(?:calculate|compute|lexicograph\w*|ascending|descending|asc|desc|avg|num|max|min)\b",
            re.IGNORECASE,
        ),
    ),
    (
        "agreement",
        re.compile(
            r"\b\w+[^s\W]s (?:which|that|who) (?:has|is|was|does)\b|\bthe (?:first |last |full )?(?:name|title) of (?:all|the \w+[^s\W]s)\b(?! (?:and|of))|\b(?:what|which) (?:is|was) the (?:names|titles|ages|prices)\b"
            r"|\bhow many is\b|\bhas (?:not )?(?:have|are|is|got)\b|\bdid \w+ed\b|\b(?:many|these|several|two|three) (?:author|player|customer|student|teacher|employee|patient|client|product|event|user|actor|director|city|country)\b|\ba (?:[aeio]\w+)\b|\ban (?:[bcdfgjklpqrtvwz]\w*)\b"
            r"|\b(?:less|more|most|least) number\b|\bmost of number\b|\bnumber of number\b|\b(?:role|one|person|city|country|student|employee|customer|teacher|company) (?:that|who|which)? ?have\b|\beach \w+[^s\W'’]s\b(?! of)|\bevery \w+[^s\W'’]s\b"
            r"|\bhow many times (?:is|are|more|as)\b|\bhow many percent\b|\b(?:percentage|percent|proportion) of (?:the )?\w+ (?:are|is|were|was)\b|\baverage (?:occupation|year|gender|date)\b|\b(?:foots|childs|mens|womens|informations|peoples)\b|\bmost \w+est\b|\bwhose the\b|\bthe (?!people|staff|men|women|children|police)\w+[^s\W] (?:that|who|which) have\b|\bwith (?:\w+ )?\w+ is\b|\bgreater \d|\b(?:aircrafts|staffs|furnitures|equipments|softwares)\b|(?<!do )(?<!does )(?<!did )(?<!may )(?<!can )\bnot have\b|^which \w+ (?:is|are|was|were) (?:the|an?) .*\b(?:from|in|of|by|to|on)$|\ball the \w+[a-rt-z] (?:with|that|who)\b|^an? list\b",
            re.IGNORECASE,
        ),
    ),
    (
        "loose_end",
        re.compile(
            r"\?(?! (?:Give|List|Show|Order|Put|Sort|Start|Begin|Include|Name) ).+|,\W*$|\b(?:the|and|with|him|her|them|its|too|please)\W*$|\bnamely\b|\brather\b|\bso \w+\b.*\bthat\b|^(?:and|or|among them)\b",
            re.IGNORECASE,
        ),
    ),
    (
        "pointing",
        re.compile(
            r"\b(?:following|aforementioned|said|this (?!year)|these)\b|\b(?:he|she|his|her|him|it)\b",
            re.IGNORECASE,
        ),
    ),
    (
        "asks_for_lists",
        re.compile(
            r"\b(?:list down|list out|list all|state the|please (?:list|give|state)|name (?:all|them)|mention|enumerate|tally|indicate)\b",
            re.IGNORECASE,
        ),
    ),
)


def misspelled(question: str, known: Collection[str]) -> tuple[str, ...]:
    """Lower-case words outside quotes that neither MiniLM's vocabulary nor `known` (stems of the schema) has: a word of 30,000
    common ones is whole in that vocabulary, a misspelling is not. A plural, past or -ing form of a known word is known."""
    found = re.findall(r"(?<![\w'’-])[a-z]{5,}(?![\w'’-])", _QUOTED.sub(" ", question))
    return tuple(word for word in dict.fromkeys(found) if not _known(word, known))


def _known(word: str, known: Collection[str]) -> bool:
    if word in _SPELLED or stem(word) in known:
        return True
    stems = [
        word.removesuffix(ending)
        for ending in ("", "s", "es", "d", "ed", "ing", "r", "er", "st", "est", "ist", "ists", "ized", "ly")
        if word.endswith(ending)
    ]
    # planned -> plan, rated -> rate
    stems += [form[:-1] for form in stems if form[-1:] == form[-2:-1]] + [form + "e" for form in stems[1:]]
    return any(len(form) > 2 and form in vocabulary() for form in stems)


def faults(question: str, specified: bool = False) -> tuple[str, ...]:
    """Names of the rules that a question breaks; () when a person could say it.

    `specified`: the corpus writes its questions as specifications in whole sentences (LiveSQLBench), so that notation, stated
    rounding and tie rules, second sentences and length are its style and no fault.

    What stands in quotes is somebody's name and not judged, but for its being a code.
    """
    said = _QUOTED.sub("“x”", question)
    found = [name for name, pattern in _RULES if pattern.search(said)]
    if not specified and any(
        re.fullmatch(r"(?=\S*\d)(?=\S*[A-Za-z])\S{5,}|\d{6,}|\w*_\w*", quoted[1:-1])
        for quoted in _QUOTED.findall(question)
    ):
        found.append("code")
    tokens = re.findall(r"[\w'’-]+", said.lower())
    if len(tokens) > (2 * MOST_WORDS if specified else MOST_WORDS):
        found.append("long")
    if any(token in _CODE_WORDS for token in tokens):
        found.append("schema_word")
    if (
        question.count('"') % 2
        or question.count("“") != question.count("”")
        or question.count("(") != question.count(")")
    ):
        found.append("unbalanced")
    return tuple(name for name in dict.fromkeys(found) if not (specified and name in SPECIFIED))
