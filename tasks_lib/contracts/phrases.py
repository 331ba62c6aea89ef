"""PRIVATE. Question-to-phrase rules: a question as a clause, as a noun phrase, and a literal replaced by a description.

Rules are closed and refuse (None) whatever they do not surely handle: a refused question is worded as a sentence of its
own, or its candidate is left out. Does not belong here: templates (`wording`) and reading questions (`questions`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tasks_lib.contracts.questions import lexicon, stem

_AUX = r"has|have|had|is|are|was|were"
_SECOND_QUESTION = re.compile(
    r"(?:,|;|\band|\bor)\s+(?:(?:in|on|for|to|from|at|by) )?(?:what|which|how|where|when|who)\b", re.IGNORECASE
)
_SECOND_ORDER = re.compile(
    r"(?:,|\band)\s+(?:then )?(?:also )?(?:sort|order|list|show|give|return|find|rank|round)\b", re.IGNORECASE
)
_IMPERATIVE = re.compile(
    r"^(?:please )?(?:find|show|list|give|return|tell|count|compute|calculate|report|get)(?: (?:me|us|out))? (?=\S)",
    re.IGNORECASE,
)
_DETERMINED = re.compile(r"^(?:the|all|each|every|both|our|their|his|her|its|a|an)\s", re.IGNORECASE)
_PARTICIPLE = r"(?:been|left|won|sold|made|given|taken|had|become|gone|come|done|written|sung|run|paid|built|held|kept|seen|shown|sent|spent|taught|bought|led|set|drawn|caught|grown|known|worn|\w+ed)"
_INVERTED = re.compile(r"(?<!who )(?<!that )(?<!which )\b(?:do|does|did|can|could|should|would|will)\b", re.IGNORECASE)

_PLAIN_BEFORE = lexicon("plain_before")
_TITLES = lexicon("titled_things")
_AFTER = lexicon("may_follow")
_VERBS = lexicon("verbs")
_PERSONS = lexicon("persons")
_DIRECT = lexicon("direct_heads")
_UNNAMED = lexicon("unnamed")
_DETERMINERS = lexicon("determiners")


def _bare(question: str) -> str | None:
    """The question as one sentence without its end mark, or None when it is more than one sentence."""
    text = " ".join(question.split()).rstrip(" ?.!")
    if re.search(r"[?.!;]\s", text) or not text:
        return None
    return text


def noun_phrase(question: str) -> str | None:
    """`What is the average price?` as `the average price`; None when the question is no such request."""
    text = _bare(question)
    if text is None or _SECOND_QUESTION.search(text) or _SECOND_ORDER.search(text):
        return None
    match = re.match(r"^(?:what|who) (?:is|are|was|were) (.+)$", text, re.IGNORECASE) or (
        re.match(r"^.+?$", text) if _IMPERATIVE.match(text) else None
    )
    if match is None:
        return None
    rest = match.group(1) if match.groups() else _IMPERATIVE.sub("", text)
    if not _DETERMINED.match(rest) or re.search(r"\b(?:called|like|for)$", rest):
        return None
    return rest[0].lower() + rest[1:]


def clause(question: str) -> str | None:
    """The question as it stands after "tell me": a noun phrase or an indirect question; None when no rule is sure."""
    phrase = noun_phrase(question)
    text = _bare(question)
    if phrase is not None and text is not None:
        # "find out who the youngest member is" reads better than "find out the youngest member"
        asked = re.match(r"^who (is|was) the [\w' -]+$", text, re.IGNORECASE)
        return f"who {phrase} {asked[1].lower()}" if asked and len(phrase.split()) <= 5 else phrase
    if text is None or _SECOND_QUESTION.search(text) or _SECOND_ORDER.search(text):
        return None
    if match := re.match(r"^(how many .+?) (are|were) there\b(.*)$", text, re.IGNORECASE):
        return _lower(f"{match[1]} there {match[2]}{match[3]}")
    if match := re.match(r"^(how many .+?) (do|does) (.+?) have\b(.*)$", text, re.IGNORECASE):
        verb = "has" if match[2].lower() == "does" else "have"
        return _lower(f"{match[1]} {match[3]} {verb}{match[4]}")
    if _INVERTED.search(text):
        return None
    if re.match(r"^how many ", text, re.IGNORECASE):
        if re.search(r"\bhas\b(?! been)", text) and not re.search(r"\b(?:who|that|which) has\b", text):
            return None
        if re.search(rf"\bhave\b(?! {_PARTICIPLE}\b)", text) and not re.search(
            r"\b(?:who|that|which|\w+s) have\b", text
        ):
            return None
        if re.search(rf"^how many [\w' ]+? (?:{_AUX}) (?:the|a|an|this|each|every|['\"A-Z])", text):
            return None
        return _lower(text)
    if re.match(r"^(?:which|who) ", text, re.IGNORECASE):
        if re.search(rf"^which [\w' -]+? (?:{_AUX}) (?:['\"A-Z])", text, re.IGNORECASE) and re.search(
            rf"(?:{_AUX}) ['\"A-Z].*{_PARTICIPLE}$", text
        ):
            return None
        return _lower(text)
    return None


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]


@dataclass(frozen=True, slots=True)
class Referent:
    """One thing, named by description. `phrase`: "the film that had the largest budget"; `head`: "film"; `attribute`: the
    phrase names a property of the thing ("the postal code of …") and not the thing. `noun`: the words that a literal of the
    same kind would stand behind ("postal code")."""

    phrase: str
    head: str
    attribute: bool = False
    noun: str = ""


_NAMED = re.compile(
    r"^the (?:\w+ )?(?:name|title|names|titles) of (?P<thing>[a-z].+)$|^(?P<owner>the .+?)(?:'s|’s) (?:\w+ )?(?:name|title)$",
    re.IGNORECASE,
)
_END_OF_HEAD = re.compile(
    rf"\s(?:of|in|with|that|who|which|whose|from|at|for|by|on|to|{_AUX}|having|under|over|between|\w+ed|\w+ing)\b",
    re.IGNORECASE,
)


def referent(question: str) -> Referent | None:
    """The single thing a question asks for, as a description; None when the question asks for something else."""
    text = _bare(question)
    if text is None:
        return None
    phrase = noun_phrase(question)
    if phrase is not None:
        if not phrase.startswith("the ") or re.search(r"\b(?:and|or)\b.*\bof\b", phrase.split(" of ")[0] + " of"):
            return None
        named = _NAMED.match(phrase)
        thing = (named["thing"] or named["owner"]) if named else phrase
        thing = re.sub(r"^(?:an? |the )?", "the ", thing)
        head = _head(thing)
        if head is None or not thing.startswith("the ") or (stem(head) != head and head not in _TITLES):
            return None
        attribute = named is None and re.match(r"^the (?:[\w-]+ ){1,3}of\b", thing) is not None
        noun = thing.split(" of ")[0].removeprefix("the ") if attribute else head
        return Referent(thing, head, attribute, noun)
    if _SECOND_QUESTION.search(text) or _SECOND_ORDER.search(text):
        return None
    if match := re.match(r"^(in|to|on|at|from) which (.+?) (do|was|were|is|are) (the .+)$", text, re.IGNORECASE):
        return _place(*match.groups())
    if _INVERTED.search(text):
        return None
    if match := re.match(r"^who (.+)$", text, re.IGNORECASE):
        return Referent(f"the person who {match[1]}", "person", noun="person")
    if match := re.match(r"^which (.+)$", text, re.IGNORECASE):
        tokens = match[1].split()
        if (owned := re.match(r"^(\w+)['’]s$", tokens[0])) and len(tokens) > 2:
            return Referent(f"the {owned[1]} whose {' '.join(tokens[1:])}", owned[1].lower(), noun=owned[1])
        at = _verb_at(tokens)
        if at is None:
            return None
        noun, rest = " ".join(tokens[:at]), " ".join(tokens[at:])
        if re.match(r"(?:is|are|was|were) (?:the|an?) ", rest):  # "which country is the airport located in"
            return None
        head = _head(f"the {noun}")
        if head is None or stem(head) != head:
            return None
        return Referent(f"the {noun} {'who' if head in _PERSONS else 'that'} {rest}", head, noun=noun)
    return None


def _place(preposition: str, noun: str, verb: str, rest: str) -> Referent | None:
    """`In which town was the most energy charged` as "the town in which the most energy was charged"."""
    head = noun.split()[-1].lower()
    if stem(head) != head:
        return None
    if verb.lower() != "do":
        subject, _, last = rest.rpartition(" ")
        if not subject or not re.fullmatch(_PARTICIPLE, last):
            return None
        rest = f"{subject} {verb} {last}"
    return Referent(f"the {noun} {preposition.lower()} which {rest}", head, noun=noun)


def _head(phrase: str) -> str | None:
    core = phrase.removeprefix("the ")
    found = _END_OF_HEAD.search(f" {core}"[1:])
    core = core[: found.start()] if found else core
    last = re.findall(r"[A-Za-z][\w-]*", core)
    return last[-1].lower() if last else None


def _verb_at(tokens: list[str]) -> int | None:
    """Where the verb of "film in the collection has been …" begins: an auxiliary, a known verb or a regular past."""
    for i, token in enumerate(tokens[1:], 1):
        if token in _VERBS or re.fullmatch(r"[a-z]+ed", token):
            return i
        if i == 1 and re.fullmatch(r"[a-z]{4,}[^su]s", token):
            return i
    return None


def find_literal(question: str, value: str) -> tuple[int, int] | None:
    """Start and end of `value` in the question with its quotes; None unless it stands there exactly once."""
    if value.lower() not in question.lower():
        return None
    pattern = rf"(?<![\w])(?P<q>['\"“‘]?){re.escape(value)}(?:['\"”’](?!s\b))?(?!\w)"
    found = list(re.finditer(pattern, question, re.IGNORECASE))
    return (found[0].start(), found[0].end()) if len(found) == 1 else None


def with_referent(question: str, value: str, thing: Referent) -> str | None:
    """The question with `value` described instead of shown, or None when no rule is sure.

    "How many flights left from 'Salem'?" becomes "How many flights left from the city that hosted the most races?"; "the song
    'X'" becomes "the song with the same title as the film that …", or the description alone when both are of one kind.
    """
    span = find_literal(question, value)
    if span is None:
        return None
    before, after = question[: span[0]].rstrip(), question[span[1] :]
    tokens = before.split()
    if not tokens:
        return None
    last = tokens[-1].lower()
    following = re.match(r"\s*([\w'-]+)", after)
    if following and last not in {"did", "does", "do", "has", "have", "had"}:
        word = following[1].lower()
        if word not in _AFTER and not word.endswith("ed") and word not in _VERBS:
            return None
    if re.search(r"[,;:]$", last) or last in {"and", "or", "not"}:
        return None
    if last in {"called", "named", "titled", "entitled"}:
        noun = "title" if last in {"titled", "entitled"} else "name"
        return _joined(tokens[:-1], f"with the same {noun} as {thing.phrase}", after) if not thing.attribute else None
    if last in {"name", "title"}:
        kept = tokens[:-1]
        kind = last
        if kept and kept[-1].isalpha() and kept[-1].lower() not in _DETERMINERS:
            kind = f"{kept.pop()} {last}"
        if kept and kept[-1].lower() in {"the", "a"}:
            kept = kept[:-1]
        return _joined(kept, f"the same {kind} as {thing.phrase}", after) if not thing.attribute else None
    if last in {"is", "was", "are"}:
        if len(tokens) > 1 and stem(tokens[-2].lower()) in {"name", "title"}:
            return _joined(tokens, f"that of {thing.phrase}", after) if not thing.attribute else None
        fits = stem(tokens[-2].lower()) == stem(thing.head) if len(tokens) > 1 else False
        return _joined(tokens, thing.phrase, after) if fits and "whose" in {t.lower() for t in tokens} else None
    if last in _PLAIN_BEFORE:
        if stem(thing.head) not in _DIRECT:
            return None
        return _joined(tokens, thing.phrase, after)
    if not re.fullmatch(r"[a-z]{3,}", last) or last.endswith(("ly", "ing", "ed")) or last in _VERBS:
        return None
    noun_tokens = thing.noun.lower().split()
    if noun_tokens and [stem(t.lower()) for t in tokens[-len(noun_tokens) :]] == [stem(n) for n in noun_tokens]:
        kept = tokens[: -len(noun_tokens)]
        return _joined(kept[:-1] if kept and kept[-1].lower() == "the" else kept, thing.phrase, after)
    if thing.attribute:
        return None
    tail = [t.lower() for t in tokens[-4:-1]]
    if tail and tail[-1] in {"that", "who", "which"}:  # "the routes that serve 'Salem'": the last word is a verb
        return _joined(tokens, thing.phrase, after) if stem(thing.head) in _DIRECT else None
    if "the" not in tail or stem(last) in _UNNAMED:
        return None
    noun = "title" if last in _TITLES and thing.head in _TITLES else "name"
    return _joined(tokens, f"with the same {noun} as {thing.phrase}", after)


def _joined(before: list[str], middle: str, after: str) -> str:
    text = " ".join([*before, middle])
    return (text[0].upper() + text[1:]) + after
