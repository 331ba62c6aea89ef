"""PRIVATE. What a text says: numbers, dates, names and hints of a request, for the audit of unstated constraints.

Belongs here: whether one value or one idea is said in a text, in any of the forms people use. Does not belong here: what a query
demands (`unstated`). Every rule is generous: where a reader might see the value in the words, it counts as said.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from tasks_lib.contracts.questions import lexicon, stem, words

_UNITS = {
    word: value
    for value, word in enumerate(
        [
            *(
                "zero",
                "one",
                "two",
                "three",
                "four",
                "five",
                "six",
                "seven",
                "eight",
                "nine",
                "ten",
                "eleven",
                "twelve",
            ),
            *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
        ]
    )
}
_TENS = {
    word: 10 * value
    for value, word in enumerate(("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"), 2)
}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12}
_ORDINALS = {
    **{"first": 1, "second": 2, "third": 3, "fifth": 5, "eighth": 8, "ninth": 9, "twelfth": 12, "twentieth": 20},
    **{f"{word}th": value for word, value in _UNITS.items() if f"{word}th" not in ("oneth", "twoth", "threeth")},
}
_QUANTITIES = {
    **{"once": 1, "single": 1, "only": 1, "sole": 1, "a": 1, "an": 1},
    **{"twice": 2, "both": 2, "couple": 2, "pair": 2, "double": 2, "thrice": 3, "triple": 3},
    **{
        "half": 0.5,
        "halves": 0.5,
        "majority": 0.5,
        "quarter": 0.25,
        "no": 0,
        "none": 0,
        "never": 0,
        "without": 0,
        "not": 0,
    },
    **{
        "multiple": 2,
        "several": 2,
        "repeated": 2,
        "everyday": 7,
        "daily": 7,
        "decade": 10,
        "century": 100,
        "fortnight": 14,
        "year": 365,
        "adult": 18,
    },
}
_SUFFIXES = {"k": 1000, "m": 10**6, "mn": 10**6, "b": 10**9, "bn": 10**9}
_CONVERSIONS: tuple[tuple[str, tuple[float, ...]], ...] = (
    (r"%|per ?cent|percentage|proportion|rate|ratio", (0.01, 100)),
    (r"hours?|hrs?|minutes?|mins?|seconds?|secs?|milliseconds?", (60, 3600, 1000, 60_000, 3_600_000)),
    (r"days?|weeks?|months?|years?", (7, 12, 24, 30, 365)),
    (r"kilo\w*|km|kg|kb|mb|gb|met(?:er|re)s?|cm|centi\w*|grams?|thousands?|tons?", (10, 100, 1000, 1024)),
    (r"thousands?|millions?|billions?|k", (1000, 10**6, 10**9)),
)
MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november"),
    "december",
)
_ALIKE: tuple[frozenset[str], ...] = tuple(
    frozenset(group.split("|"))
    for group in (
        "usa|us|u.s|u.s.a|united states|united state|united states of america|america|american|americans|states",
        "uk|u.k|united kingdom|britain|great britain|british|gb|england|english",
        "france|french|fra",
        "netherlands|dutch|holland",
        "switzerland|swiss",
        "spain|spanish|esp",
        "f|female|females|ms|mrs|miss|woman|women|girl|girls|lady|ladies|wife|mother|daughter|sister|actress|actresses|she|her|waitress",
        "m|male|males|mr|man|men|boy|boys|guy|guys|gentleman|gentlemen|husband|father|son|brother|he|his",
        "y|yes|true|t",
        "n|no|not|false|f|none|never|without",
        "bachelor|bachelors|undergraduate|undergraduates",
        "master|masters|graduate",
        "car|cars|vehicle|vehicles|automobile",
        "movie|movies|film|films",
        "kid|kids|child|children|kids'",
        "won|win|wins|winner|winners|winning|victory|victories|award|awards|awarded",
        "lost|lose|loses|loss|losses|losing",
        "married|m|spouse|marriage",
        "single|s|unmarried",
        "email|e-mail|mail",
        "tv|television",
        "died|dies|dead|death|deaths|die|deceased|passed|killed|alive|living",
        "born|birth|birthday|birthdate|birthdates|age|aged|ages|old|older|oldest|young|younger|youngest",
    )
)
_SUPERLATIVE = re.compile(
    r"\b(?:\w{2,}est|most|least|top|first|last|final|max\w*|min\w*|best|worst|lead\w*|record|rank\w*|winn?\w*|champion\w*|"
    r"number one|peak|main\w*|primary|prime|favou?rite|dominant|predominant\w*|initial\w*|original\w*|current\w*|recent\w*|"
    r"popular|common\w*|typical\w*|(?:in)?frequent\w*|often|mode|extreme\w*|ultimate|utmost|1st|number 1|no\.? ?1|"
    r"more|less|higher|lower|larger|smaller|bigger|older|younger|longer|shorter|greater|taller|faster|slower|earlier|"
    r"later|better|worse|heavier|lighter|cheaper|closer|nearer|newer|richer|fewer|stronger|elder|further|farther|deeper|"
    r"mostly|usual\w*|regular\w*|bottom\w*|exceed\w*|outnumber\w*|superior|begin\w*|began|start\w*|end\w*|latter|former|upper|bottom|major\w*|sole|chief|premier|"
    r"maximal|minimal|debut\w*|begun)\b",
    re.IGNORECASE,
)
_ORDERED = re.compile(
    r"\b(?:sort\w*|order(?:ed)? by|in (?:\w+ ){0,3}order|(?:re)?order(?:ed|ing)?|rank\w*|arrang\w*|alphabet\w*|lexic\w*|ascend\w*|descend\w*|"
    r"asc|desc|increas\w*|decreas\w*|chronolog\w*|revers\w*|sequen\w*|starting (?:from|with)|(?:high|low|old|new|larg|small|long|short|great|young|earli|late)\w*"
    r"(?: \w+)? (?:to|first)|first to|from (?:the )?(?:\w+est|most|least|top|high|low|old|new)|\w+est (?:\w+ )?(?:first|last|to)|"
    r"(?:most|least) \w+ first|by (?:\w+ ){0,2}(?:date|year|name|age|number|time|month|id)|from \w+ to \w+|trend|over time|month by month|year by year)\b",
    re.IGNORECASE,
)
_DESCENDING = re.compile(
    r"\b(?:descend\w*|desc|decreas\w*|declin\w*|revers\w*|from (?:the )?(?:\w+est|most|top|high\w*|new\w*|late\w*|large\w*|old\w*|big\w*|long\w*|z)|"
    r"\w+est (?:\w+ ){0,2}(?:first|to)|most (?:\w+ )+(?:first|to)|high\w* to|larg\w* to|rank\w*|top|most|latest|newest|highest|"
    r"largest|biggest|oldest|youngest|longest|greatest|best)\b",
    re.IGNORECASE,
)
_NEGATIVE = re.compile(
    r"\b(?:no|not|non\w*|never|without|except\w*|exclud\w*|other than|but|only|neither|nor|none|nobody|nothing|cannot|un\w{3,}|in(?:valid|active|eligible|complete)\w*|"
    r"lack\w*|miss\w*|fail\w*|empty|null|blank|absen\w*|apart from|besides|outside|exclusive\w*|solely|remain\w*|left|zero|free|rather than|instead|still|yet|"
    r"dis\w{4,}|avoid\w*|rest|minus|leav\w*|all but|ignor\w*|skip\w*|unless|until now|others?|else|rule\w* out|yet to|open|ongoing|alive|living|available|pending)\b|n['’]t\b",
    re.IGNORECASE,
)
_COMPARED = re.compile(
    r"\b(?:than|before|after|over|under|above|below|exceed\w*|beyond|past|between|at least|at most|up to|beat|won|win\w*|lost|los\w*|late\w*|early|"
    r"differ\w*|other|another|outnumber\w*|earlier|older|younger|higher|lower|more|less|greater|not|same|equal\w*|prior|since|victor\w*|defeat\w*|"
    r"overdue|delay\w*|exceed\w*|unlike|change\w*|increas\w*|decreas\w*|grew|rise|rose|fell|drop\w*|gain\w*|profit\w*|rival\w*|each other|pair\w*)\b|n['’]t\b",
    re.IGNORECASE,
)
_DISTINCT = re.compile(
    r"\b(?:distinct\w*|differ\w*|unique\w*|each|every|various|kinds?|types?|sorts?|repeat\w*|duplicat\w*|which|who|set of|list of|separate\w*|individual\w*|"
    r"all the|possible|variet\w*|diverse|once)\b",
    re.IGNORECASE,
)
_AVERAGE = re.compile(r"\b(?:averag\w*|mean|avg|typical\w*|on the whole|usual\w*)\b", re.IGNORECASE)
_ANY = re.compile(
    r"\b(?:any|at least|some|positive\w*|ha[sd]|have|having|with|more|made|earn\w*|gain\w*|ever|exist\w*|above|over|non-?zero)\b",
    re.IGNORECASE,
)
_PRESENT = re.compile(
    r"\b(?:ha[sd]|have|having|with|record\w*|known|given|any|available|all|stated|listed|exist\w*|whose|ignor\w*|valid)\b",
    re.IGNORECASE,
)
_FILLER = lexicon("stop") | frozenset(
    {"s", "inc", "co", "ltd", "flag", "status", "is", "has", "type", "code", "indicator", "was", "boolean"}
)


@dataclass
class Said:
    """A text, read once. `words`: lower case; `stems`; `numbers`: every value that it names in
    digits or words; `quantities`: those that words like "a", "both" or "never" imply."""

    text: str
    words: tuple[str, ...] = field(init=False)
    stems: frozenset[str] = field(init=False)
    numbers: frozenset[float] = field(init=False)
    quantities: frozenset[float] = field(init=False)

    def __post_init__(self) -> None:
        plain = re.sub(r"(?<=[a-z])(?=[A-Z])|[_/-]", " ", self.text)
        self.words = tuple(dict.fromkeys([*words(self.text), *words(plain)]))
        self.stems = frozenset(map(stem, self.words))
        self.numbers = frozenset(_numbers(self.text))
        self.quantities = frozenset(float(_QUANTITIES[word]) for word in self.words if word in _QUANTITIES)

    def superlative(self) -> bool:
        """A superlative, a rank or a comparison of two: what picks one row of an order."""
        return _SUPERLATIVE.search(self.text) is not None

    def ordered(self) -> bool:
        return _ORDERED.search(self.text) is not None or self.superlative_first()

    def superlative_first(self) -> bool:
        return re.search(r"\b(?:\w+est|most|least)\b.{0,40}\b(?:first|last)\b", self.text, re.IGNORECASE) is not None

    def descending(self) -> bool:
        return _DESCENDING.search(self.text) is not None or self.superlative_first()

    def negative(self) -> bool:
        return _NEGATIVE.search(self.text) is not None

    def compared(self) -> bool:
        return _COMPARED.search(self.text) is not None or self.superlative()

    def distinct(self) -> bool:
        return _DISTINCT.search(self.text) is not None

    def average(self) -> bool:
        return _AVERAGE.search(self.text) is not None

    def some(self) -> bool:
        return _ANY.search(self.text) is not None

    def current(self) -> bool:
        return re.search(r"\b(?:current\w*|now|at present|to date|stable)\b", self.text, re.IGNORECASE) is not None

    def only(self) -> bool:
        return re.search(r"\b(?:only|just|solely|exclusively|purely)\b", self.text, re.IGNORECASE) is not None

    def next_to(self) -> bool:
        """Whether a year is named by its neighbour ("the year before")."""
        pattern = r"\b(?:previous|last|next|following|follow|prior|preceding|consecutive|before|after|earlier|later)\b"
        return re.search(pattern, self.text, re.IGNORECASE) is not None

    def present(self) -> bool:
        return _PRESENT.search(self.text) is not None

    def topic(self, names: Iterable[str], besides: Collection[str] = ()) -> bool:
        """Whether a content word of `names` (identifiers, meanings) is said in some form. Stems in `besides` do not count."""
        split = (re.sub(r"(?<=[a-z])(?=[A-Z])|[_/-]", " ", name) for name in names)
        told = (w for name in split for w in words(name) if w not in _FILLER and len(w) > 2 and stem(w) not in besides)
        return any(map(self.word, told))

    def word(self, wanted: str) -> bool:
        """Whether one word is said: itself, its plural, a relative (`cancelled`, `cancellation`) or a slip of the pen."""
        root = stem(wanted)
        if root in self.stems:
            return True
        if any(wanted in group and not group.isdisjoint(self.words) for group in _ALIKE):
            return True
        if len(root) < 4:
            return False
        # A flag of 0 is said by the opposite of its column's word: "inactive", "uninsured".
        opposites = (other.removeprefix(prefix) for other in self.stems for prefix in ("in", "un", "non", "dis"))
        return root in opposites or any(_related(root, other) for other in self.stems)

    def name(self, literal: str) -> bool:
        """Whether a text constant is said: as written, by most of its words, as an abbreviation or in another form."""
        literal = re.sub(r"^\d-(?=\D)", "", literal)  # "4-LOW" is a level with its rank
        pieces = [piece for piece in re.split(r"[:;(]", literal) if len(words(piece)) > 1]
        return self._said(literal) or any(self._said(piece) for piece in pieces if piece != literal)

    def _said(self, literal: str) -> bool:
        cleaned = _folded(literal)
        flat = _folded(self.text)
        if not re.search(r"\w", cleaned):
            return cleaned in flat
        if re.search(rf"(?<!\w){re.escape(cleaned)}(?!\w)", flat):
            return True
        squeezed = re.sub(r"\W+", "", cleaned)
        if (
            len(squeezed) > 3 or (len(squeezed) > 1 and squeezed[0].isdigit() and squeezed[-1].isalpha())
        ) and squeezed in re.sub(r"\W+", "", flat):
            return True
        if any(
            cleaned in group and any(re.search(rf"(?<!\w){re.escape(w)}(?!\w)", flat) for w in group)
            for group in _ALIKE
        ):
            return True
        runs = re.findall(r"\d+", literal)
        if len(runs) == 1 and len(runs[0]) > 3 and float(runs[0]) in self.numbers:  # "FY1980"
            return True
        coded = re.fullmatch(r"(?:[A-Za-z]{1,2}\W?\d+\W?)+", literal)  # "S20-E11" for season 20, episode 11
        if (
            coded
            and all(float(run) in self.numbers for run in runs)
            and all(any(w.startswith(run.lower()) for w in self.words) for run in re.findall(r"[A-Za-z]+", literal))
        ):
            return True
        parts = [w for w in words(re.sub(r"(?<=[a-z])(?=[A-Z])|[_/-]", " ", literal)) if w not in _FILLER] or words(
            literal
        )
        hits = sum(self.word(part) or (part.isdigit() and float(part) in self.numbers) for part in parts)
        if parts and hits >= len(parts) * (1 if len(parts) < 3 else 0.6):
            return True
        return self._abbreviated(squeezed, words(literal))

    def _abbreviated(self, squeezed: str, parts: list[str]) -> bool:
        if len(parts) > 1 and stem("".join(part[0] for part in parts)) in self.stems:
            return True
        if not 2 <= len(squeezed) <= 4 or not squeezed.isalpha():
            return False
        initials = "".join(w[0] for w in words(self.text))
        if squeezed in initials:
            return True
        return any(len(w) > len(squeezed) and w[0] == squeezed[0] and _within(squeezed, w) for w in self.words)

    def number(self, value: float, slack: bool = False) -> bool:
        """Whether a number is said, in digits or words. `slack`: a whole number next to it will do ("over 5" for `>= 6`)."""
        wanted = [value, *((value - 1, value + 1) if slack and value == int(value) else ())]
        if any(abs(w) in self.numbers or abs(w) in self.quantities for w in wanted):
            return True
        digits = f"{abs(value):.9f}".strip("0").replace(".", "").lstrip("0")
        if len(digits) >= 4 and float(digits) in self.numbers:  # the same digits in another unit
            return True
        for pattern, factors in _CONVERSIONS:
            if re.search(rf"(?<![a-z])(?:{pattern})(?![a-z])", self.text, re.IGNORECASE):
                scaled = [w * f for w in wanted for f in factors] + [w / f for w in wanted for f in factors]
                if any(round(abs(s), 9) in self.numbers for s in scaled if s):
                    return True
        return False

    def date(self, literal: str) -> bool:
        """Whether every part of a date or time that is no mere edge (first or last of a month, midnight) is said."""
        day, _, clock = literal.strip().partition(" ") if " " in literal.strip() else literal.strip().partition("T")
        if ":" in day:
            day, clock = "", day
        found = [int(p) for p in re.findall(r"\d+", day)]
        years = [p for p in found if p > 31] or found[-1:]
        edge = len(found) == 3 and (
            found[1:] in ([1, 1], [12, 31]) or (found[0] > 31 and found[2] in (1, 28, 29, 30, 31))
        )
        for place, part in enumerate(found):
            if part in years and len(found) > 1:
                if (
                    not {float(part), part + 1.0, part - 1.0, part + 2000.0, part + 1900.0, float(part % 100)}
                    & self.numbers
                ):
                    return False
            elif edge and (place == 2 or found[1:] in ([1, 1], [12, 31])):
                continue
            elif float(part) not in self.numbers and not self.month(part):
                return False
        times = [int(p) for p in re.findall(r"\d+", clock.split(".")[0])]
        return all(not t or t in (59, 23) or {float(t), float(t % 12), float(t + 1)} & self.numbers for t in times)

    def month(self, number: int) -> bool:
        """Whether a month is named ("March", "Mar")."""
        if not 1 <= number <= 12:
            return False
        name = MONTHS[number - 1]
        quarter = {"1": "first", "2": "second", "3": "third", "4": "fourth"}[str((number + 2) // 3)]
        return name in self.words or name[:3] in self.words or ("quarter" in self.words and quarter in self.words)


def _folded(text: str) -> str:
    """Lower case, single blanks, no accents, no underscores."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return " ".join(plain.casefold().replace("_", " ").split())


def _related(one: str, other: str) -> bool:
    """Words of one family, or one spelt slightly wrong: a common beginning of half the longer and four letters."""
    shared = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        shared += 1
    if shared >= 4 and shared >= min(len(one), len(other)) * 0.6:
        return True
    if len(one) < 5 or one[0] != other[0] or abs(len(one) - len(other)) > 2:
        return False
    return SequenceMatcher(None, one, other).ratio() >= 0.8


def _within(letters: str, word: str) -> bool:
    """Whether the letters occur in the word in their order."""
    rest = iter(word)
    return all(letter in rest for letter in letters)


def _numbers(text: str) -> Iterator[float]:
    """Every number that `text` may be read to name: digits with separators and scales, words, ordinals, decades, centuries."""
    for found in re.finditer(r"(?<![\d.,])(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?\s?(%|[a-z]+)?", text, re.IGNORECASE):
        value = float(found[1].replace(",", "") + (found[2] or ""))
        yield value
        mark = (found[3] or "").lower()
        scale = _SUFFIXES.get(mark) or _SCALES.get(mark)
        if scale:
            yield value * scale
    for found in re.finditer(r"\d+", text):  # "no.2", "1995/03/01", "2008-2010": every run of digits on its own
        yield float(found[0])
    for found in re.finditer(r"(?<!\d)\.\d+|\d+\.\d+", text):
        yield float(found[0])
    for found in re.finditer(r"\b(\d{2}|\d{4})['’]?s\b", text):
        decade = int(found[1]) + (1900 if len(found[1]) == 2 else 0)
        yield from (float(decade), float(decade + 9), float(decade + 10), float(decade - 1))
    for place, name in enumerate(
        ("twenties", "thirties", "forties", "fifties", "sixties", "seventies", "eighties", "nineties"), 2
    ):
        if name in text.lower():
            yield from (float(base + 10 * place + end) for base in (0, 1900) for end in (0, 9, 10, -1))
    for found in re.finditer(r"\b(\d{1,2})(?:st|nd|rd|th) century", text, re.IGNORECASE):
        first = (int(found[1]) - 1) * 100
        yield from (float(first), float(first + 1), float(first + 99), float(first + 100), float(int(found[1])))
    yield from _years_between(text)
    yield from _spelt(words(text.replace("-", " ")))


def _years_between(text: str) -> Iterator[float]:
    """Years that a span names by its ends, or by its start and length ("three years from 2015")."""
    for found in re.finditer(
        r"\b((?:1[89]|20)\d\d)\b\W*(?:to|and|till|until|through|-|–)\W*((?:1[89]|20)\d\d)\b", text
    ):
        yield from map(float, range(int(found[1]), min(int(found[2]), int(found[1]) + 60) + 1))
    if (span := re.search(r"\b(\d{1,2})(?: \w+)? years\b", text)) is not None:
        for year in re.findall(r"\b(?:1[89]|20)\d\d\b", text):
            yield from (float(int(year) + step) for step in range(int(span[1]) + 1))


def _spelt(tokens: list[str]) -> Iterator[float]:
    total, current, open_ = 0.0, 0.0, False
    for token in [*tokens, ""]:
        if token in _ORDINALS:
            yield float(_ORDINALS[token] + (current if open_ else 0))
        if token in _UNITS or token in _TENS:
            value = _UNITS.get(token, _TENS.get(token, 0))
            yield float(value)
            current += value
            open_ = True
        elif token in _SCALES or token.removesuffix("s") in _SCALES:
            scale = _SCALES[token if token in _SCALES else token.removesuffix("s")]
            current = (current or 1) * scale
            yield current
            open_ = True
            if scale >= 1000:
                total, current = total + current, 0
        elif token == "and" and open_:
            continue
        elif open_:
            yield total + current
            total, current, open_ = 0.0, 0.0, False
