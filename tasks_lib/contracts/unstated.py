"""PRIVATE. The unstated-constraint audit: what a gold query demands and the request does not say (paper H.4, H.6).

Belongs here: reading constraints off a gold query, and the findings. Does not belong here: whether words say a value (`stated`),
and any change of wording or gold: the audit judges nothing, a release lists its findings.

It is built to be believed: a finding should be a constraint that a reader of the request cannot know. Doubtful cases are
left out, so what it lists is a lower bound. Read by hand on the questions of Spider, BIRD and LiveSQLBench against their own gold,
53 of 60 findings were true; of text constants that a request surely lacks, 95 % are found. The kinds, and when each is said:

- filter: a comparison with a constant, in WHERE, HAVING, ON, FILTER or CASE. Every constant has to be said (in words or digits,
  as a relative of the word, an abbreviation, a date part; a whole number next to it where the sign is an inequality). A flag
  (`= 1`, `= 'T'`) is said by a word of its column's name or meaning, a code by the words that explain it in the column's meaning.
  A key that stands for a thing the request may name is told only where the request names numbers, and not that one.
  Against an average or an extreme: the word for it. Column against column: any word that compares. Differences of sets
  (EXCEPT, NOT IN, NOT EXISTS) and `IS NULL`: any word that denies. `IS NOT NULL` is told only of a column that nothing else in the
  query reads and the request does not name: otherwise it is hygiene.
- limit: LIMIT n > 1 by its number; LIMIT 1 over an order by a superlative, a rank or a comparison of two. LIMIT 1 without an order
  takes one row where one is asked for and is not told.
- order: an ORDER BY of the whole result that decides the order of two rows or more: by a word of sorting, its descending direction
  by a word for that, and with LIMIT n > 1 by a superlative or a rank.
- distinct: SELECT DISTINCT of the whole result where equal rows count (Spider), unless a key is selected. Said by "different",
  "unique", "each", "which" and the like. COUNT(DISTINCT c) counts things, as readers do, and is not told.
- evidence: a filter, limit or order that the unit's evidence gives although the request does not: who is given the evidence
  knows it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import sqlglot
from sqlglot import exp

from tasks_lib.contracts.contract import DIALECTS, Unit
from tasks_lib.contracts.questions import locked, stem, words
from tasks_lib.contracts.stated import Said
from tasks_lib.corpora.model import ColumnInfo, CorpusDatabase
from tasks_lib.corpora.references import references
from tasks_lib.protocol.records import Contract
from tasks_lib.protocol.vocabulary import Behavior, Corpus

KINDS = ("filter", "limit", "order", "distinct", "evidence")
_INEQUALITIES = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like, exp.ILike, exp.Glob, exp.In, exp.Between)
_FLAGS = frozenset({"0", "1", "yes", "no", "y", "n", "t", "f", "true", "false", "-1", "+", "-"})
_THOUSANDS = re.compile(r"(?<=[a-z])K$|_k$|thousand", re.IGNORECASE)
_VALUE = re.compile(r"(?:value|answer|content)$", re.IGNORECASE)
"""A column of values, whose row says in another column what the value is of."""
_KEY = re.compile(r"(?:id|no|nbr|num|number|code|key)$", re.IGNORECASE)
_NOUN = 3
_PLACE = re.compile(r"position|rank|place|order|standing|finish", re.IGNORECASE)
_SEX = re.compile(r"\bsex|gender|(?<=[a-z])Sex", re.IGNORECASE)
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?|[-+]?\.\d+")
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}(?:[-/.]\d{1,4})?(?:[ T].*)?|\d{1,2}:\d{2}.*")


@dataclass(frozen=True, slots=True)
class Unstated:
    """One constraint that the request does not state. `kind`: one of KINDS. `detail`: it as SQL (evaluator-side text)."""

    kind: str
    detail: str


def unstated(request: str, unit: Unit, database: CorpusDatabase, exempt: Collection[str] = ()) -> list[Unstated]:
    """Constraints of the unit's gold that `request` does not state, in text order, each once.

    `exempt`: constants that the request must not show (a bound value, the slot's values).

    Raises:
        ValueError: the gold is not one query that can be read.
    """
    reader = _Reader(request, unit, database, frozenset(text.casefold() for text in exempt))
    return list(dict.fromkeys(reader.findings()))


def task_rows(
    contract: Contract, request: str, units: Mapping[str, Unit], databases: Mapping[str, CorpusDatabase]
) -> list[dict[str, Any]]:
    """The findings of one task as rows: task_id, unit_id, kind, detail. `databases`: by physical name of the task's corpus.

    Exempt are, in a sequential task, values that an upstream unit supplies; in an interactive one, constants that one
    branch's question shows and the other's does not: they fill the slot.
    """
    rows = []
    for unit_id in contract.unit_ids:
        unit = units[unit_id]
        exempt = {str(link.value) for link in contract.bindings if link.downstream_unit == unit_id}
        if contract.behavior is Behavior.INTERACTIVE:
            own = set(locked(unit.question, unit.literals))
            for other in contract.unit_ids:
                if other != unit_id:
                    exempt |= own - set(locked(units[other].question, units[other].literals))
        rows += [
            {"task_id": contract.task_id, "unit_id": unit_id, "kind": found.kind, "detail": found.detail}
            for found in unstated(request, unit, databases[unit.database], exempt)
        ]
    return rows


@dataclass(frozen=True, slots=True)
class _Constant:
    value: str
    number: bool


@lru_cache(maxsize=64)
def _read(text: str) -> Said:
    return Said(text)


class _Reader:
    """One query against one request."""

    def __init__(self, request: str, unit: Unit, database: CorpusDatabase, exempt: frozenset[str]) -> None:
        self.unit, self.exempt = unit, exempt
        self.said, self.evidence = _read(request), _read(unit.evidence)
        self.dialect = DIALECTS[unit.corpus]
        try:
            self.tree = sqlglot.parse_one(unit.sql, read=self.dialect)
        except sqlglot.errors.SqlglotError as error:
            raise ValueError(f"gold SQL of {unit.unit_id} cannot be parsed ({error}), expected one query.") from error
        quoted = references(unit.sql, database).dqs_literals if '"' in unit.sql else ()
        self.strings = {text.lower() for text in quoted}
        self.tables = [table for table in database.tables if table.name.lower() in unit.tables]
        self.columns: dict[str, list[ColumnInfo]] = {}
        for column in (column for table in self.tables for column in table.columns):
            self.columns.setdefault(column.name.lower(), []).append(column)

    @cached_property
    def nouns(self) -> frozenset[str]:
        """What the rows are, by a table's name or the meanings of many columns: saying it says nothing of one column."""
        counted: Counter[str] = Counter()
        for table in self.tables:
            counted.update(dict.fromkeys(map(stem, words(table.name.replace("_", " "))), _NOUN))
            for column in table.columns:
                counted.update(set(map(stem, words(column.meaning))))
        return frozenset(word for word, times in counted.items() if times >= _NOUN)

    def findings(self) -> Iterator[Unstated]:
        for node in self.tree.find_all(*_COMPARISONS, exp.Is, exp.Except, exp.Exists, bfs=False):
            kind = self._condition(node)
            if kind:
                yield Unstated(kind, self._text(node.parent if isinstance(node.parent, exp.Not) else node))
        yield from self._limits()
        yield from self._order()
        yield from self._distinct()

    def _text(self, node: exp.Expr) -> str:
        text = node.sql(dialect=self.dialect)
        return text if len(text) <= 160 else text[:159] + "…"

    # ---- conditions ----

    def _condition(self, node: exp.Expr) -> str:
        """The kind of finding that a condition is, or ""."""
        negated = isinstance(node.parent, exp.Not) or bool(node.args.get("negate"))
        if isinstance(node, exp.Except) or (isinstance(node, exp.Exists) and negated):
            return "" if self.said.negative() else "filter"
        if isinstance(node, exp.Exists):
            return ""
        if isinstance(node, exp.Is):
            return self._null(node, negated)
        if isinstance(node, exp.In):
            if node.args.get("query") is not None:
                ranked = node.args["query"].find(exp.Max, exp.Min) is not None and self.said.superlative()
                return "filter" if negated and not (self.said.negative() or ranked) else ""
            return self._constants(node, node.this, node.expressions)
        if isinstance(node, exp.Between):
            return self._constants(node, node.this, [node.args["low"], node.args["high"]])
        left, right = node.this, node.expression
        if isinstance(right, exp.Subquery | exp.Select) or isinstance(left, exp.Subquery | exp.Select):
            return self._against_query(node, right if isinstance(right, exp.Subquery | exp.Select) else left)
        if self._constant(left) is not None:
            left, right = right, left
        if self._constant(right) is not None:
            return self._constants(node, left, [right])
        if isinstance(node, _INEQUALITIES) and self._reads(left) and self._reads(right):
            return "" if self.said.compared() else "evidence" if self.evidence.compared() else "filter"
        return ""

    def _reads(self, node: exp.Expr) -> bool:
        return any(not self._is_string(column) for column in node.find_all(exp.Column))

    def _is_string(self, node: exp.Expr) -> bool:
        """Whether a double-quoted name is a text constant, by SQLite's rule."""
        return (
            isinstance(node, exp.Column)
            and not node.table
            and bool(node.this.args.get("quoted"))
            and node.name.lower() in self.strings
        )

    def _constant(self, node: exp.Expr | None) -> _Constant | None:
        """The constant an expression is (signs, casts and functions of one constant included), or None."""
        if node is None:
            return None
        if isinstance(node, exp.Literal):
            return _Constant(node.this, not node.is_string)
        if isinstance(node, exp.Boolean):
            return _Constant("1" if node.this else "0", True)
        if self._is_string(node):
            return _Constant(node.name, False)
        if isinstance(
            node, exp.Neg | exp.Paren | exp.Cast | exp.TryCast | exp.Upper | exp.Lower | exp.Date | exp.TsOrDsToDate
        ):
            return self._constant(node.this)
        return None

    def _constants(self, node: exp.Expr, subject: exp.Expr, values: Iterable[exp.Expr]) -> str:
        found = [self._constant(value) for value in values]
        if not found or not (self._reads(subject) or subject.find(exp.AggFunc)):
            return ""
        missing = [
            c
            for c in found
            if c is not None and c.value.casefold() not in self.exempt and not self._is_said(node, subject, c)
        ]
        if not missing:
            return ""
        if all(self._in_evidence(c) for c in missing):
            return "evidence"
        return "" if self._coded(node, subject) else "filter"

    def _coded(self, node: exp.Expr, subject: exp.Expr) -> bool:
        """Whether a number may only be the key of a thing that the request names: a key is asked for, no number is said."""
        if not isinstance(node, exp.EQ | exp.In) or not isinstance(subject, exp.Column):
            return False
        return _KEY.search(subject.name) is not None and not self.said.numbers

    def _in_evidence(self, constant: _Constant) -> bool:
        text = constant.value.strip("% ")
        if _NUMBER.fullmatch(text):
            return abs(float(text)) in self.evidence.numbers
        return bool(text) and (text.casefold() in self.unit.evidence.casefold() or self.evidence.name(text))

    def _is_said(self, node: exp.Expr, subject: exp.Expr, constant: _Constant) -> bool:
        said, text = self.said, constant.value.strip()
        columns = [column for column in subject.find_all(exp.Column) if not self._is_string(column)]
        infos = [info for column in columns for info in self.columns.get(column.name.lower(), ())]
        plain = not subject.find(exp.AggFunc)
        equal = isinstance(node, exp.EQ | exp.NEQ | exp.Is | exp.Like | exp.ILike)
        if plain and equal and text.casefold() == "null":
            return said.negative() or said.present()
        if plain and equal and text.casefold() in _FLAGS:
            keys = [literal.this for literal in subject.find_all(exp.Literal)]  # of a JSON path
            names = [*(column.name for column in columns), *keys, *(info.meaning for info in infos)]
            if any(map(_SEX.search, names)):
                return said.name(text) or _SEX.search(said.text) is not None
            if said.topic(names, self.nouns) or all(_VALUE.search(column.name) for column in columns):
                return True
            # A rank that the query makes itself, or a column of places: the first one is said by a superlative.
            if text == "1" and (not infos or any(map(_PLACE.search, names))) and said.superlative():
                return True
            if text.lstrip("-").isdigit():
                return float(text) in said.numbers
        if isinstance(node, exp.Like | exp.ILike | exp.Glob):
            pieces = [piece for piece in re.split(r"[%*?]+", text) if piece.strip("_ ")]
            if re.fullmatch(r"[\d/.:_-]+", "".join(pieces) or "x"):  # pieces of a date
                return all(self._part_said(int(part)) for piece in pieces for part in re.findall(r"\d+", piece))
            return all(self._value_said(node, subject, piece.strip("_"), True) for piece in pieces)
        return self._value_said(node, subject, text, False) or any(self._explained(info, text) for info in infos)

    def _part_said(self, part: int) -> bool:
        """A year, month or day of a date pattern: as a number, a month's name, or a year without its century."""
        numbers = self.said.numbers
        return self.said.number(part) or self.said.month(part) or not {part + 1900.0, part + 2000.0}.isdisjoint(numbers)

    def _value_said(self, node: exp.Expr, subject: exp.Expr, text: str, part: bool) -> bool:
        said = self.said
        if _NUMBER.fullmatch(text):
            value = float(text)
            if value == 0:
                inequality = isinstance(node, exp.GT | exp.NEQ | exp.GTE)
                named = said.topic(column.name for column in subject.find_all(exp.Column))
                return said.negative() or (inequality and (named or said.some())) or said.compared()
            if value == 1 and isinstance(node, exp.GTE | exp.GT) and said.some():
                return True
            if isinstance(node, exp.EQ) and said.superlative() and self._extreme(subject):
                return True
            if re.search(r"%m|\bSUBSTR", subject.sql(dialect=self.dialect)) and said.month(int(value)):
                return True
            if any(_THOUSANDS.search(column.name) for column in subject.find_all(exp.Column)) and said.number(
                value * 1000
            ):
                return True
            if isinstance(node, exp.EQ) and 1800 < value < 2100 and said.next_to() and said.number(value, True):
                return True
            return said.number(value, isinstance(node, _INEQUALITIES)) or (value == int(value) and said.name(text))
        if _DATE.fullmatch(text):
            return said.date(text) or said.name(text)
        if not text:
            return said.negative()
        if part and (text.casefold() in said.text.casefold()):
            return True
        return said.name(text) or (isinstance(node, exp.NEQ) and said.only())

    def _extreme(self, subject: exp.Expr) -> bool:
        """Whether the evidence calls a column's value its maximum or minimum, which a superlative then names."""
        names = "|".join(re.escape(column.name) for column in subject.find_all(exp.Column))
        return (
            bool(names)
            and re.search(rf"(?:max|min)\s*\(\W*(?:{names})\b", self.unit.evidence, re.IGNORECASE) is not None
        )

    def _explained(self, info: ColumnInfo, text: str) -> bool:
        """Whether the words that follow a code in its column's meaning are said in the request."""
        found = (
            re.search(rf"(?<!\w){re.escape(text)}(?!\w)[^\w]*(.{{0,60}})", info.meaning) if len(text) <= 12 else None
        )
        if found is None:
            return False
        following = re.split(r"[,;.|\n]|\bor\b", found[1])[0]
        return self.said.topic([following])

    def _against_query(self, node: exp.Expr, query: exp.Expr) -> str:
        """A comparison with a nested query: its average or extreme has to be said; what else it does is read on its own."""
        select = query.find(exp.Select)
        picked = select.expressions[0] if select is not None and select.expressions else None
        if picked is None:
            return ""
        if picked.find(exp.Avg):
            return "" if self.said.average() else "evidence" if self.evidence.average() else "filter"
        if picked.find(exp.Max, exp.Min):
            return "" if self.said.superlative() or self.said.compared() else self._ranked("filter")
        if isinstance(node, exp.NEQ):
            return "" if self.said.negative() else "filter"
        return ""

    def _null(self, node: exp.Is, negated: bool) -> str:
        inside = node.find_ancestor(exp.Case, exp.If, exp.Select)
        if (
            not isinstance(node.expression, exp.Null)
            or not self._reads(node.this)
            or isinstance(inside, exp.Case | exp.If)
        ):
            return ""
        kind = "evidence" if "null" in self.evidence.words else "filter"
        if not negated:
            return "" if self.said.negative() or self.said.current() else kind
        columns = [column.name for column in node.this.find_all(exp.Column)]
        used = [column.name.lower() for column in self.tree.find_all(exp.Column)]
        meanings = [info.meaning for name in columns for info in self.columns.get(name.lower(), ())]
        keys = [literal.this for literal in node.this.find_all(exp.Literal)]  # of a JSON path
        alone = all(used.count(name.lower()) == 1 for name in columns)
        return kind if alone and not self.said.topic([*columns, *keys, *meanings]) else ""

    # ---- limits, order, duplicates ----

    def _limits(self) -> Iterator[Unstated]:
        for node in self.tree.find_all(exp.Limit, exp.Fetch):
            value = self._constant(node.expression if isinstance(node, exp.Limit) else node.args.get("count"))
            if value is None or not value.value.isdigit() or node.parent is None:
                continue
            order, offset = node.parent.args.get("order"), node.parent.args.get("offset")
            if value.value != "1":
                if not self.said.number(int(value.value)):
                    known = float(value.value) in self.evidence.numbers
                    yield Unstated("evidence" if known else "limit", f"LIMIT {value.value}")
            elif order is not None and offset is None and not self.said.superlative():
                yield Unstated(self._ranked("limit"), f"{self._text(order).strip()} LIMIT 1")

    def _ranked(self, kind: str) -> str:
        return "evidence" if self.evidence.superlative() else kind

    def _order(self) -> Iterator[Unstated]:
        order, limit = self.tree.args.get("order"), self.tree.args.get("limit")
        if order is None or self.unit.row_count < 2:
            return
        said, text = self.said, self._text(order).strip()
        if limit is not None:
            count = self._constant(limit.expression) if isinstance(limit, exp.Limit) else None
            if (count is None or count.value != "1") and not (said.superlative() or said.ordered()):
                yield Unstated(self._ranked("order"), text)
        elif not said.ordered():
            yield Unstated(self._ranked("order"), text)
        elif order.expressions[0].args.get("desc") and not said.descending():
            yield Unstated("order", f"{text} (its direction)")

    def _distinct(self) -> Iterator[Unstated]:
        root = self.tree
        if not isinstance(root, exp.Select) or not root.args.get("distinct") or self.said.distinct():
            return
        picked = [column for column in root.expressions if isinstance(column, exp.Column)]
        key = any(info.primary for column in picked for info in self.columns.get(column.name.lower(), ()))
        if self.unit.corpus is Corpus.SPIDER and self.unit.row_count > 1 and not key:
            yield Unstated("distinct", f"SELECT DISTINCT {', '.join(map(self._text, root.expressions))}")


__all__ = ["KINDS", "Unstated", "task_rows", "unstated"]
