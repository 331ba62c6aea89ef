"""PRIVATE. What a unit reports: its measure, the kind of thing measured, and the shape of its answer.

Belongs here: reading question and gold together through the closed lists of `subjects.yaml`. A measure counts only when both
say it: "average age" needs AVG over a column called or described as an age; "number of customers" needs COUNT and a customer
table or column; a subject needs its word in the question and in a table or column of the gold. Whatever the lists do not surely
cover has no fact. Does not belong here: grouping facts (`groups`), judging the question's language (`quality`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import sqlglot
import yaml
from sqlglot import exp

from tasks_lib.contracts.contract import DIALECTS, Unit
from tasks_lib.contracts.questions import lexicon, stem, words
from tasks_lib.corpora.model import CorpusDatabase
from tasks_lib.protocol.vocabulary import Corpus


class Shape(StrEnum):
    """What an answer looks like. `number`: one figure. `leader`: who or what comes first. `table`: a figure for each of
    several things. `listing`: anything else."""

    NUMBER = "number"
    LEADER = "leader"
    TABLE = "table"
    LISTING = "listing"


@dataclass(frozen=True, slots=True)
class Measure:
    """`statistic`: number, average, total, highest, lowest, percentage, first (what comes first of all). `attribute`: what is measured ("" for a
    number of things). `subject`: key of what it is measured of, or ""."""

    statistic: str
    attribute: str
    subject: str


@dataclass(frozen=True, slots=True)
class Fact:
    """What one unit reports. `subjects`: keys of `subjects.yaml` that the question names and the gold reads, those first that
    a table of the gold is called by (`tabled`). `measures`: best first. `output`: subject key of the thing that a leader names, or ""."""

    shape: Shape
    subjects: tuple[str, ...]
    tabled: frozenset[str]
    measures: tuple[Measure, ...]
    output: str


@dataclass(frozen=True, slots=True)
class Subject:
    """A kind of thing. `needs`: stems of which the schema must know one. `topic`: something to be told about (a place is
    more often where something is)."""

    key: str
    words: frozenset[str]
    families: tuple[str, ...]
    needs: frozenset[str]
    topic: bool


@dataclass(frozen=True, slots=True)
class Attribute:
    """What can be measured. `columns`: stems that a gold column must show. `leaders`: what has the most and the least of it
    ("oldest", "youngest"), or (). `alone`: plural where no subject follows. `wide`: comparable whatever it belongs to."""

    key: str
    plural: str
    words: frozenset[str]
    columns: frozenset[str]
    leaders: tuple[str, ...]
    alone: str
    wide: bool


@cache
def _file() -> Mapping[str, Any]:
    found: Mapping[str, Any] = yaml.safe_load((Path(__file__).parent / "subjects.yaml").read_text("utf-8"))
    return found


@cache
def subjects() -> Mapping[str, Subject]:
    """Key -> subject, in the order of the file."""
    return {
        key: Subject(
            key,
            frozenset(s["words"].split()),
            tuple(s["families"].split()),
            frozenset(s.get("needs", "").split()),
            bool(s.get("topic", True)),
        )
        for key, s in _file()["subjects"].items()
    }


@cache
def families(kind: str) -> Mapping[str, str]:
    """Family -> label, of one kind (`class` or `field`)."""
    return {name: found["label"] for name, found in _file()["families"].items() if found["kind"] == kind}


@cache
def attributes() -> Mapping[str, Attribute]:
    """Key -> attribute."""
    return {
        key: Attribute(
            key,
            a["plural"],
            frozenset(a["words"].split()),
            frozenset(a.get("columns", a["words"]).split()),
            tuple(word.replace("most-", "most ") for word in a.get("leaders", "").split()),
            a.get("alone", a["plural"]),
            bool(a.get("wide", False)),
        )
        for key, a in _file()["attributes"].items()
    }


@cache
def _superlatives() -> Mapping[str, tuple[str, str]]:
    return {word: tuple(text.split()) for word, text in _file()["superlatives"].items()}


@cache
def synonyms() -> Mapping[str, str]:
    """Stem -> the first of its subjects or attributes: shop and store count as one word."""
    found: dict[str, str] = {}
    for key, subject in subjects().items():
        for word in sorted(subject.words):
            found.setdefault(word, key)
    for key, attribute in attributes().items():
        for word in sorted(attribute.words):
            found.setdefault(word, key)
    return found


_ENDS = lexicon("phrase_ends")
_FIRST_WORDS = lexicon("phrase_starts")
_STATISTICS = {
    "number": r"(?:how many|number of|count of)",
    "percentage": r"(?:percentage of|percent of|proportion of|what percentage(?: is)?|(?:and|show) (?:its|the) percentage)",
    "average": r"(?:average|mean)(?: and (?:minimum|maximum|total|highest|lowest))?",
    "total": r"(?<!average )(?:total|sum of|sum of the)",
    "highest": r"(?:highest|largest|greatest|maximum|biggest|most)",
    "lowest": r"(?:lowest|smallest|minimum|fewest|least)",
}
_OPENING = re.compile(
    r"^(?:please )?(?:what|who|find|show|list|give|return|tell|name|provide|which)(?: (?:me|us|is|are|was|were))? "
)
_OUTPUTS = tuple(
    re.compile(pattern + r"((?:\w+ )?\w+)")
    for pattern in (
        r"\b(?:names?|titles?)(?: and [a-z ]+?)? of (?:the |all |every |an? )?",
        r"\b(?:which|what) (?!is |are |was |were )",
        r"^(?:what|who) (?:is|are|was|were) the ",
        r"^(?:\w+ ){1,2}the ",
    )
)
"""Where a question names what it asks for, surest place first."""
_COMPARES = re.compile(r"\b(?:difference|differ|ratio|compared|times more|how many more|how much more)\b")
_COUNTED_AFTER = lexicon("counted_after")
_TOP = re.compile(r"\b(?:most(?! recent| common| frequent)|highest|largest|greatest|biggest|longest)\b")
_EXTREMES = re.compile(
    r"\b(?:most|highest|largest|greatest|biggest|longest|maximum|fewest|least|lowest|smallest|minimum|oldest|youngest|tallest|"
    r"shortest|heaviest|cheapest|fastest|first|last|latest|earliest|best|worst)\b(?! names?| and last names?)"
)
_PLURAL = lexicon("plurals")
_ANSWERS = {
    "number": (exp.Count, exp.Sum),
    "average": (exp.Avg, exp.Div),
    "total": (exp.Sum,),
    "highest": (exp.Max,),
    "lowest": (exp.Min,),
}


def spoken(name: str) -> list[str]:
    """The stems of a table, column or meaning: `custAddress_id` -> cust, address, id."""
    return [stem(word) for word in words(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " "))]


def span(text: str) -> list[str]:
    """The words of the noun phrase that `text` begins with; its last one is the head."""
    found: list[str] = []
    for token in text.split():
        if token in _FIRST_WORDS and not found:
            continue
        if token in _ENDS or re.fullmatch(r"\d+|\w{2,}ed|\w{3,}ing", token):
            break
        found.append(token)
    return found


def read(unit: Unit, database: CorpusDatabase) -> Fact:
    """The fact of a unit. Raises ValueError when sqlglot cannot read its gold."""
    tree = sqlglot.parse_one(unit.sql, read=DIALECTS[unit.corpus])
    specified = unit.corpus is Corpus.LIVESQLBENCH  # the first sentence asks, the others say how
    tokens = words(re.split(r"(?<=[.?!])\s", unit.question)[0] if specified else unit.question)
    stems = [stem(token) for token in tokens]
    gold_tables: set[str] = set()
    gold_columns: set[str] = set()
    known = set(spoken(database.title))
    for table in database.tables:
        name = spoken(table.name)
        known.update(name)
        if table.name.lower() in unit.tables:
            gold_tables.update(name)
        for column in table.columns:
            called = spoken(column.name)
            known.update(called)
            if f"{table.name}.{column.name}".lower() in unit.columns:
                gold_columns.update(called, spoken(column.meaning))
    if specified:  # keys inside JSON columns are constants of the text
        gold_columns.update(s for literal in unit.literals for s in spoken(literal))
    keys = _named(stems, gold_tables, gold_columns, known)
    tabled = frozenset(key for key in keys if subjects()[key].words & gold_tables)
    shape = _shape(unit, tree)
    output = ""
    if shape is Shape.LEADER:
        text = " ".join(tokens)
        asked = next((match for pattern in _OUTPUTS if (match := pattern.search(text))), None)
        heads = [stem(word) for word in span(asked[1])] if asked else []
        output = next((k for head in heads for k in keys if head in subjects()[k].words), "")
    return Fact(shape, keys, tabled, tuple(_measures(tokens, tree, shape, keys, gold_columns, output)), output)


def _named(stems: list[str], tables: set[str], columns: set[str], known: set[str]) -> tuple[str, ...]:
    """Subjects that the question names and the gold reads; those that are tables of the gold first."""
    found: dict[str, tuple[int, int]] = {}
    for key, subject in subjects().items():
        if subject.needs and not subject.needs & known:
            continue
        at = next((i for i, s in enumerate(stems) if s in subject.words), None)
        if at is None:
            continue
        if subject.words & tables:
            found[key] = (0, at)
        elif subject.words & columns:
            found[key] = (1, at)
    return tuple(sorted(found, key=lambda key: (found[key], key)))


def _shape(unit: Unit, tree: exp.Expr) -> Shape:
    select = tree if isinstance(tree, exp.Select) else None
    if select is None:
        return Shape.LISTING
    counts = any(item.find(exp.AggFunc) is not None for item in select.expressions)
    if unit.row_count == 1 and unit.column_count == 1 and unit.first_row:
        kind, value = unit.first_row[0]
        if isinstance(value, int | float) and not isinstance(value, bool):
            return Shape.NUMBER
        if kind in ("decimal", "numeric", "int", "float"):
            return Shape.NUMBER
    if unit.row_count == 1 and unit.column_count <= 3 and _picks(select):
        return Shape.LEADER
    if counts and select.args.get("group") is not None and unit.row_count >= 2 and 2 <= unit.column_count <= 4:
        return Shape.TABLE
    return Shape.LISTING


def _picks(select: exp.Select) -> bool:
    """Whether the query keeps the first of an order, or what equals a maximum or minimum."""
    if select.args.get("order") is not None and select.args.get("limit") is not None:
        return True
    return any(sub.find(exp.Max, exp.Min) is not None for sub in select.find_all(exp.Subquery))


def _measures(
    tokens: list[str], tree: exp.Expr, shape: Shape, keys: tuple[str, ...], columns: set[str], output: str
) -> list[Measure]:
    text = " ".join(tokens)
    if _COMPARES.search(text):
        return []  # a difference of two numbers is no number of things
    if shape is Shape.LEADER and (len(_EXTREMES.findall(text)) != 1 or not _names_leader(text)):
        return []  # two extremes, or something else about the leader
    found: list[Measure] = []
    for statistic, pattern in _STATISTICS.items():
        for match in re.finditer(rf"\b{pattern} ", text):
            found += _read_at(statistic, text, match, tree, shape, keys, columns)
    for token in tokens:
        if token in _superlatives():
            statistic, attribute = _superlatives()[token]
            if attributes()[attribute].columns & columns and shape is not Shape.LISTING:
                found.append(Measure(statistic, attribute, output or (keys[0] if keys else "")))
    if output and _TOP.search(text) and shape is Shape.LEADER:
        found.append(Measure("first", "", output))
    return list(dict.fromkeys(found))


def _names_leader(text: str) -> bool:
    """Whether the question asks who or what comes first, and not for a property of it ("the birth place of the oldest")."""
    asked = _OPENING.sub("", text)
    head, separator, _ = (
        re.split(r" (of|for|with|that|who|whose|which|in|has|have|is) ", asked, maxsplit=1)
        if re.search(r" (?:of|with|that|who|whose|which|in|has|have|is|for) ", asked)
        else (asked, "", "")
    )
    return separator not in ("of", "for") or bool(re.search(r"\b(?:names?|titles?)\b", head))


def _read_at(
    statistic: str,
    text: str,
    match: re.Match[str],
    tree: exp.Expr,
    shape: Shape,
    keys: tuple[str, ...],
    columns: set[str],
) -> list[Measure]:
    rest = text[match.end() :]
    if shape is Shape.LISTING or re.match(r"(?:number|count|expensive|recent|common|popular|than)\b", rest):
        return []
    phrase = span(rest)
    if not phrase:
        return []
    # "how many rooms cost more": the head of a plural phrase is its first plural word that is a subject
    plurals = [w for w in phrase if stem(w) != w and stem(w) in synonyms()]
    head = stem(plurals[0] if plurals and statistic in ("number", "percentage") else phrase[-1])
    if statistic in ("number", "percentage"):
        subject = next((k for k in keys if head in subjects()[k].words), "")
        if not subject and statistic == "percentage" and shape is Shape.TABLE:
            return [Measure("percentage", "", "")]
        if not subject or (not plurals and phrase[-1] not in _PLURAL):
            return []
        before = text[: match.start()].split()[-1:]
        if statistic == "number" and not match[0].startswith("how") and before and before[0] not in _COUNTED_AFTER:
            return []  # "the report number of"
        extreme = next((s for s in ("highest", "lowest") if before and re.fullmatch(_STATISTICS[s], before[0])), "")
        if statistic == "percentage":
            return [Measure("percentage", "", subject)] if shape is not Shape.LEADER else []
        if shape is Shape.LEADER:
            return [Measure(f"{extreme} number", "", subject)] if extreme else []
        if (before and before[0] in ("average", "total", "minimum", "maximum", "least", "most")) or extreme:
            return [Measure(f"{before[0]} number", "", subject)] if before[0] in ("average", "total") else []
        return [Measure("number", "", subject)] if _computed("number", tree) else []
    attribute = next((a for a in attributes().values() if head in a.words and a.columns & columns), None)
    if attribute is None:
        subject = next((k for k in keys if head in subjects()[k].words), "")
        if (
            statistic in ("highest", "lowest")
            and shape is Shape.LEADER
            and subject
            and text[match.start() :].startswith(("most ", "fewest ", "least "))
        ):
            return [Measure(f"{statistic} number", "", subject)]
        return []
    if shape is not Shape.LEADER and not _computed(statistic, tree):
        return []
    after = rest.split()[len(phrase) :]
    owner = ""
    if (
        after[:1]
        and after[0] in ("of", "for", "across", "among", "that", "in", "by")
        and after[1:2] not in (["each"], ["every"])
    ):
        near = span(" ".join(after[1:]))
        owner = next((k for k in keys if near and stem(near[-1]) in subjects()[k].words), "")
    if not owner and len(phrase) > 1:  # "the average employee age"
        owner = next((k for k in keys if stem(phrase[-2]) in subjects()[k].words), "")
    return [Measure(statistic, attribute.key, owner)]


def _computed(statistic: str, tree: exp.Expr) -> bool:
    """Whether the outermost query computes the statistic (or orders by it and keeps the first row)."""
    select = tree if isinstance(tree, exp.Select) else None
    if select is None:
        return False
    kinds = _ANSWERS[statistic]
    if any(item.find(*kinds) is not None for item in select.expressions):
        return True
    return statistic in ("highest", "lowest") and _picks(select)
