"""Wrong and nearly right predictions made of gold queries, by changing their syntax trees with sqlglot.

One change each, by name; what a change cannot be made to gives None. Text that sqlglot writes anew may mean something else than the
gold's: it is a prediction like any other, and every rule is given the same text.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import sqlglot
from sqlglot import exp

Change = Callable[[exp.Select, random.Random], bool]
"""Changes the outermost SELECT in place; False where there is nothing to change."""


def _distinct(tree: exp.Select, draw: random.Random) -> bool:
    found = next(iter(tree.find_all(exp.Distinct)), None)
    if found is None:
        tree.set("distinct", exp.Distinct())
    elif isinstance(found.parent, exp.Select):
        found.pop()
    else:  # COUNT(DISTINCT x)
        found.replace(found.expressions[0])
    return True


_OPERATORS: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    exp.GT: exp.GTE,
    exp.GTE: exp.GT,
    exp.LT: exp.LTE,
    exp.LTE: exp.LT,
}


def _operator(tree: exp.Select, draw: random.Random) -> bool:
    """Outside joins, whose conditions keep the result small."""
    found = [n for n in tree.find_all(*_OPERATORS) if not n.find_ancestor(exp.Join)]
    if not found:
        return False
    node = draw.choice(found)
    node.replace(_OPERATORS[type(node)](this=node.this, expression=node.expression))
    return True


def _swapped_columns(tree: exp.Select, draw: random.Random) -> bool:
    columns = list(tree.expressions)
    if len(columns) < 2:
        return False
    first, second = draw.sample(range(len(columns)), 2)
    columns[first], columns[second] = columns[second], columns[first]
    tree.set("expressions", columns)
    return True


def _no_order(tree: exp.Select, draw: random.Random) -> bool:
    if not tree.args.get("order"):
        return False
    tree.set("order", None)
    return True


def _other_order(tree: exp.Select, draw: random.Random) -> bool:
    order = tree.args.get("order")
    if not order:
        return False
    key = draw.choice(order.expressions)
    if not isinstance(key, exp.Ordered):
        return False
    key.set("desc", not key.args.get("desc"))
    return True


def _more_order(tree: exp.Select, draw: random.Random) -> bool:
    """Orders by the first column, behind what orders already."""
    order = tree.args.get("order")
    keys = list(order.expressions) if order else []
    tree.set("order", exp.Order(expressions=[*keys, exp.Ordered(this=exp.Literal.number(1), desc=draw.random() < 0.5)]))
    return True


def _literal(tree: exp.Select, draw: random.Random) -> bool:
    found = [n for n in tree.find_all(exp.Literal) if not n.find_ancestor(exp.Limit, exp.Order)]
    if not found:
        return False
    node = draw.choice(found)
    if node.is_string:
        node.replace(exp.Literal.string(node.this.swapcase()))
    else:
        node.replace(exp.Literal.number(float(node.this) + draw.choice((-1, 0, 1))))
    return True


def _extra_column(tree: exp.Select, draw: random.Random) -> bool:
    tree.append("expressions", draw.choice((exp.Literal.number(1), tree.expressions[0].copy())))
    return True


def _fewer_columns(tree: exp.Select, draw: random.Random) -> bool:
    if len(tree.expressions) < 2:
        return False
    tree.set("expressions", tree.expressions[:-1])
    return True


_AGGREGATES: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.Avg: exp.Sum,
    exp.Sum: exp.Avg,
    exp.Max: exp.Min,
    exp.Min: exp.Max,
    exp.Count: exp.Max,
}


def _aggregate(tree: exp.Select, draw: random.Random) -> bool:
    found = [n for n in tree.find_all(*_AGGREGATES) if isinstance(n.this, exp.Column)]
    if not found:
        return False
    node = draw.choice(found)
    node.replace(_AGGREGATES[type(node)](this=node.this))
    return True


def _limit(tree: exp.Select, draw: random.Random) -> bool:
    limit = tree.args.get("limit")
    if limit is None:
        tree.set("limit", exp.Limit(expression=exp.Literal.number(draw.choice((1, 5, 1000)))))
    elif draw.random() < 0.5:
        tree.set("limit", None)
    else:
        tree.set("limit", exp.Limit(expression=exp.Literal.number(2)))
    return True


def _connective(tree: exp.Select, draw: random.Random) -> bool:
    found = [n for n in tree.find_all(exp.And, exp.Or) if not n.find_ancestor(exp.Join)]
    if not found:
        return False
    node = draw.choice(found)
    other = exp.Or if isinstance(node, exp.And) else exp.And
    node.replace(other(this=node.this, expression=node.expression))
    return True


def _no_filter(tree: exp.Select, draw: random.Random) -> bool:
    """Not where tables are joined by the WHERE alone."""
    if not tree.args.get("where") or len(list(tree.find_all(exp.Table))) > 1:
        return False
    tree.set("where", None)
    return True


def _of_type(tree: exp.Select, draw: random.Random) -> bool:
    """The same values as another type: a number as a float or as text."""
    columns = list(tree.expressions)
    at = draw.randrange(len(columns))
    inner = columns[at].unalias()
    if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
        return False
    name = draw.choice(("REAL", "TEXT", "INTEGER"))
    columns[at] = exp.Cast(this=exp.Paren(this=inner.copy()), to=exp.DataType.build(name))
    tree.set("expressions", columns)
    return True


def _rounded(tree: exp.Select, draw: random.Random) -> bool:
    columns = list(tree.expressions)
    found = [i for i, c in enumerate(columns) if c.find(exp.AggFunc, exp.Div)]
    if not found:
        return False
    at = draw.choice(found)
    columns[at] = exp.Round(this=columns[at].unalias().copy(), decimals=exp.Literal.number(draw.choice((1, 2, 6))))
    tree.set("expressions", columns)
    return True


def _outer_join(tree: exp.Select, draw: random.Random) -> bool:
    joins = [j for j in tree.args.get("joins") or [] if j.args.get("on") is not None]
    if not joins:
        return False
    draw.choice(joins).set("side", "LEFT")
    return True


def _in_brackets(tree: exp.Select, draw: random.Random) -> bool:
    """SELECT * FROM (gold): the same rows, whose order nothing promises any longer."""
    inner = tree.copy()
    for name in list(tree.args):
        tree.set(name, None)
    tree.set("expressions", [exp.Star()])
    tree.set("from_", exp.From(this=exp.Subquery(this=inner)))
    return True


def _nothing(tree: exp.Select, draw: random.Random) -> bool:
    return True


CHANGES: dict[str, Change] = {
    "distinct": _distinct,
    "operator": _operator,
    "swapped columns": _swapped_columns,
    "no order": _no_order,
    "other order": _other_order,
    "more order": _more_order,
    "literal": _literal,
    "extra column": _extra_column,
    "fewer columns": _fewer_columns,
    "aggregate": _aggregate,
    "limit": _limit,
    "connective": _connective,
    "no filter": _no_filter,
    "type": _of_type,
    "rounded": _rounded,
    "outer join": _outer_join,
    "in brackets": _in_brackets,
    "nothing": _nothing,
}


def changed(sql: str, name: str, draw: random.Random) -> str | None:
    """The gold text with one change, or None where it cannot be made or the text is no readable SELECT."""
    try:
        tree = sqlglot.parse_one(sql, read="sqlite")
    except sqlglot.errors.SqlglotError:
        return None
    select = tree
    while isinstance(select, exp.SetOperation):
        select = select.this
    if not isinstance(select, exp.Select) or not CHANGES[name](select, draw):
        return None
    return tree.sql(dialect="sqlite")
