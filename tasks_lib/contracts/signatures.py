"""PRIVATE. What a gold query computes, said without names of one schema: the proof that two questions ask the same.

Belongs here: reading simple queries (one SELECT, filters joined by AND). Anything else has no signature. Does not belong here:
whether two questions may share a wording (`interactive`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp

from tasks_lib.contracts.contract import Unit
from tasks_lib.contracts.kinds import owner, tree
from tasks_lib.contracts.questions import lexicon, stem

_PLACES = lexicon("places")


@dataclass(frozen=True, slots=True)
class Signature:
    """`outputs`: (function, words of the column) in order. `filters`: (words of the column, operator) sorted. `values`: the
    constants of the filters in that order. `rest`: grouping, order and limit. `subject`: the noun of the table that is counted
    or whose column comes first. `columns`: (table, column) of the filters in that order."""

    subject: str
    outputs: tuple[tuple[str, str], ...]
    filters: tuple[tuple[str, str], ...]
    values: tuple[str, ...]
    rest: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]

    @property
    def form(self) -> tuple[object, ...]:
        """Everything but the constants: equal forms compute the same thing in their own schemas."""
        return (self.subject, self.outputs, self.filters, self.rest)


_BEYOND = (exp.Case, exp.Div, exp.Or)
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
}


@lru_cache(maxsize=32768)
def signature(unit: Unit) -> Signature | None:
    """The signature of a unit's gold, or None when it is not simple enough to be sure of."""
    found = tree(unit)
    if not isinstance(found, exp.Select) or len(list(found.find_all(exp.Select))) > 1 or found.find(*_BEYOND):
        return None
    query: exp.Select = found
    source = query.args.get("from_") or query.args.get("from")
    if source is None or not isinstance(source.this, exp.Table):
        return None
    main = _noun(source.this.name)
    outputs: list[tuple[str, str]] = []
    subject = ""
    for item in query.expressions:
        output = _output(unit, item.unalias())
        if output is None:
            return None
        outputs.append(output[:2])
        subject = subject or output[2]
    where = query.args.get("where")
    terms: list[tuple[tuple[str, str], str, tuple[str, str]]] = []
    for part in where.this.flatten() if where and isinstance(where.this, exp.And) else [where.this] if where else []:
        term = _term(unit, part)
        if term is None:
            return None
        terms.append(term)
    terms.sort()
    rest: list[str] = []
    for name in ("group", "having", "order", "limit", "distinct"):
        clause = query.args.get(name)
        if clause is not None:
            words = _clause(unit, clause)
            if words is None:
                return None
            rest.append(f"{name} {words}")
    counted = outputs[0][0] == "count" and not outputs[0][1]
    return Signature(
        main if counted or not subject else subject,
        tuple(outputs),
        tuple(term[0] for term in terms),
        tuple(term[1] for term in terms),
        tuple(rest),
        tuple(term[2] for term in terms),
    )


def _output(unit: Unit, node: exp.Expr) -> tuple[str, str, str] | None:
    """(function, column words, noun of the column's table)."""
    if isinstance(node, exp.Count):
        inner = node.this
        if isinstance(inner, exp.Star):
            return ("count", "", "")
        if isinstance(inner, exp.Distinct) and len(inner.expressions) == 1:
            column = owner(unit, inner.expressions[0])
            return ("count distinct", _words(*column), _noun(column[0])) if column else None
        column = owner(unit, inner)
        if column is None:
            return None
        words = _words(*column)
        plain = words.split()[-1:] in (["id"], ["name"], ["title"]) or words == _noun(column[0])
        return ("count", "" if plain else words, _noun(column[0]))
    if isinstance(node, exp.Avg | exp.Sum | exp.Max | exp.Min):
        column = owner(unit, node.this)
        return (node.key, _words(*column), _noun(column[0])) if column else None
    column = owner(unit, node)
    return ("", _words(*column), _noun(column[0])) if column else None


def _term(unit: Unit, node: exp.Expr) -> tuple[tuple[str, str], str, tuple[str, str]] | None:
    operator = _OPERATORS.get(type(node))
    if operator is None or not isinstance(node, exp.Binary):
        return None
    column, value = owner(unit, node.left), _constant(unit, node.right)
    if column is None or value is None:
        return None
    return ((_words(*column), operator), value, column)


def _constant(unit: Unit, node: exp.Expr) -> str | None:
    if isinstance(node, exp.Literal):
        return str(node.this)
    quoted = isinstance(node, exp.Column) and not node.table and node.name in unit.literals
    return node.name if quoted else None


def _clause(unit: Unit, node: exp.Expr) -> str | None:
    """A clause with its columns in words; None when it names what is no plain column."""
    copy = node.copy()
    columns = list(node.find_all(exp.Column))
    for column, twin in zip(columns, list(copy.find_all(exp.Column)), strict=True):
        found = owner(unit, column)
        if found is None:
            return None
        twin.replace(exp.to_identifier(_words(*found).replace(" ", "_") or "it"))
    return re.sub(r"\s+", " ", copy.sql().lower()).replace("count(id)", "count(*)")


def _split(name: str) -> list[str]:
    text = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").replace("-", " ").lower()
    return [stem(word) for word in re.findall(r"[a-z0-9]+", text)]


def _noun(table: str) -> str:
    parts = _split(table)
    return parts[-1] if parts else table.lower()


def _words(table: str, column: str) -> str:
    """Words of a column without those of its table: `product_price` of `products` is "price"."""
    own = _split(table)
    parts = _split(column)
    if parts[: len(own)] == own and len(parts) > len(own):
        parts = parts[len(own) :]
    elif len(parts) > 1 and parts[0] == own[-1]:
        parts = parts[1:]
    if parts in (["name"], ["title"], ["id"]):
        parts = [own[-1], *parts]
    if parts[-1:] == ["name"] and parts[:-1] == own[-1:] and own[-1] in _PLACES:
        parts = parts[:-1]
    if "".join(parts) in {"fname", "firstname"}:
        parts = ["first", "name"]
    if "".join(parts) in {"lname", "lastname"}:
        parts = ["last", "name"]
    return " ".join(parts)
