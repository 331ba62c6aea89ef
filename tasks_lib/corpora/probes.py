"""PRIVATE. Whether a gold query decides its own answer: asked of the engine, with statements of our own.

Belongs here: making those statements out of the gold text, and what their results say. Does not belong here: running them
(`units` does). The gold text itself is stored and run unchanged.

*Ties.* Two probes are the gold text with its output columns written behind the keys of each ORDER BY that promises
something (every one under a LIMIT, at any depth, and the outermost one): one breaks ties upwards, one downwards. Of rows
that tie a LIMIT keeps the smallest in one probe and the largest in the other. So other rows mean that a LIMIT cuts
through a tie and that the cut changes the result; the same rows in another order mean that the keys do not decide the
order. Rows that tie and look the same decide nothing and are no tie here.

*Reading backwards* (SQLite). One probe reads every table from its end. Other rows, or other digits of a sum, come from the
order in which rows happen to lie in the file.

What these few variants do not bring to light stays unseen, and a probe that gives no result shows nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from tasks_lib.protocol.vocabulary import Corpus, Engine
from tasks_lib.sql.canonical import Value
from tasks_lib.sql.comparators import Rows, rule_name
from tasks_lib.sql.lexer import TokenKind, tokens

_SET_OPERATIONS = frozenset({"union", "intersect", "except"})


@dataclass(frozen=True, slots=True)
class Site:
    """An ORDER BY that promises something. `at`: where its keys end in the text. `columns`: how many columns its query
    returns, 0 where only the result tells (a star). `limited`: a LIMIT follows. `outermost`: it is the statement's own."""

    at: int
    columns: int
    limited: bool
    outermost: bool


@dataclass(slots=True)
class _Level:
    """What has been read of one bracket level."""

    query: bool = False
    listing: bool = False
    columns: int = 0
    star: bool = False
    ordered: bool = False
    keys_end: int = 0


def sites(engine: Engine, sql: str) -> tuple[Site, ...]:
    """Return the ORDER BYs of a readable query that promise something, in text order.

    Windows and ordered aggregates stand in brackets without a SELECT and are none.
    """
    words = [
        (token.kind, sql[token.start : token.end].lower(), token.end)
        for token in tokens(engine, sql)
        if token.kind not in (TokenKind.SPACE, TokenKind.COMMENT)
    ]
    found: list[Site] = []
    levels = [_Level()]
    before, end_before = "", 0
    for at, (kind, text, end) in enumerate(words):
        level = levels[-1]
        if kind is TokenKind.OTHER and text == "(":
            levels.append(_Level())
        elif kind is TokenKind.OTHER and text == ")":
            found += _closed(levels.pop(), end_before, outermost=False)
        elif kind is TokenKind.OTHER and level.listing:
            level.columns += text == ","
            level.star |= text == "*" and before in ("select", "distinct", "all", ",", ".")
        elif kind is TokenKind.WORD and text == "select":
            level.query, level.listing, level.columns, level.star = True, True, 1, False
        elif kind is TokenKind.WORD and level.query:
            if (text == "from" and before != "distinct") or text in _SET_OPERATIONS:
                level.listing = False
            elif text == "order" and at + 1 < len(words) and words[at + 1][1] == "by":
                level.listing, level.ordered = False, True
            elif level.ordered and not level.keys_end and _limits(engine, text):
                level.keys_end = end_before
        before, end_before = text, end
    found += _closed(levels[0], end_before, outermost=True)
    return tuple(sorted(found, key=lambda site: site.at))


def _limits(engine: Engine, word: str) -> bool:
    """In SQLite an OFFSET stands behind its LIMIT, and may else be a name."""
    return word == "limit" or (engine is Engine.POSTGRES and word in ("offset", "fetch"))


def _closed(level: _Level, end: int, *, outermost: bool) -> Iterator[Site]:
    if level.query and level.ordered and (level.keys_end or outermost):
        yield Site(level.keys_end or end, 0 if level.star else level.columns, bool(level.keys_end), outermost)


def tie_probes(corpus: Corpus, sql: str, found: Sequence[Site], rows: int, columns: int) -> tuple[str, ...]:
    """Return the two probes that break ties upwards and downwards, or () where no tie could change a verdict.

    Args:
        sql: the gold text, without what may be cut off its end. found: its `sites`. rows, columns: of the gold result.
    """
    if not any(site.limited for site in found) and (rows < 2 or not _compares_order(corpus)):
        return ()
    known = [(site.at, columns if site.outermost else site.columns) for site in found]
    variants = []
    for direction in ("ASC", "DESC"):
        text = sql
        for at, count in sorted(known, reverse=True):
            text = text[:at] + "".join(f", {number} {direction}" for number in range(1, count + 1)) + text[at:]
        variants.append(text)
    return tuple(text for text in variants if text != sql)


def _compares_order(corpus: Corpus) -> bool:
    return rule_name(corpus, True) != rule_name(corpus, False)


def tie_flags(corpus: Corpus, found: Sequence[Site], gold: bytes, probed: Sequence[bytes]) -> set[str]:
    """Return which of `limit_cuts_tie` and `order_not_total` the results show (canonical bytes; see `sql.canonical`)."""
    results = [_lines(data) for data in (gold, *probed)]
    if all(lines == results[0] for lines in results):
        return set()
    if any(sorted(lines) != sorted(results[0]) for lines in results):
        return {"limit_cuts_tie"}
    outermost = any(site.outermost for site in found)
    return {"order_not_total"} if outermost and _compares_order(corpus) else set()


def backward_probe(engine: Engine, sql: str, tree: exp.Expr, tables: frozenset[str]) -> str:
    """Return the gold text reading its tables from their end, or "" where that could change nothing that is compared.

    Only aggregates and windows take values in the order in which rows are read. PostgreSQL has no columns that are
    neither grouped nor aggregated, and what is judged there is rounded.

    Args:
        tree: `sql` as parsed. tables: names of the database's tables, lower case.
    """
    if engine is not Engine.SQLITE or not any(map(_order_may_count, tree.find_all(exp.Select))):
        return ""
    places = []
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and table.name.lower() in tables and "start" in table.this.meta:
            places.append((table.this.meta["start"], table.this.meta["end"] + 1, bool(table.alias)))
    text = sql
    for start, end, aliased in sorted(places, reverse=True):
        name = sql[start:end]
        # Without the LIMIT SQLite would leave the ORDER BY of an inner query out.
        inner = f"(SELECT * FROM {name} ORDER BY rowid DESC LIMIT -1)" + ("" if aliased else f" AS {name}")
        text = text[:start] + inner + text[end:]
    return text if places else ""


def _order_may_count(select: exp.Select) -> bool:
    if select.args.get("group") or select.find(exp.Window):
        return True
    # TOTAL is an aggregate of SQLite's own, which the parser does not know as one.
    aggregates = [
        node
        for projection in select.selects
        for node in projection.find_all(exp.AggFunc, exp.Anonymous)
        if isinstance(node, exp.AggFunc) or node.name.lower() == "total"
    ]
    if not aggregates:
        return False
    plain = any(not projection.find(exp.AggFunc) and projection.find(exp.Column) for projection in select.selects)
    return plain or any(not isinstance(node, exp.Count | exp.Min | exp.Max) for node in aggregates)


def backward_flags(gold: bytes, probed: bytes) -> set[str]:
    """Return which of `read_order` and `rounding_unstable` the result of a `backward_probe` shows."""
    there, here = sorted(_lines(gold)), sorted(_lines(probed))
    if there == here:
        return set()
    if sorted(map(_rounded, there)) == sorted(map(_rounded, here)):
        return {"rounding_unstable"}
    return {"read_order"}


def _lines(data: bytes) -> list[bytes]:
    return data.split(b"\n")[1:]


def _rounded(line: bytes) -> str:
    """A row with its floats to 12 significant digits; sums that ought to be 0 are 0."""
    if not line:
        return ""
    return json.dumps([_digits(value) if isinstance(value, float) else value for value in json.loads(line)])


def _digits(value: float) -> float:
    return 0.0 if abs(value) < 1e-9 else float(f"{value:.12g}")


def half_cents(rows: Rows) -> bool:
    """Whether a number of the result lies so near a half cent that it may be rounded to either side."""
    return any(_near_half_cent(value) for row in rows for value in row)


_HALF = Decimal("0.5")


def _near_half_cent(value: Value) -> bool:
    if not isinstance(value, float | Decimal):
        return False
    exact = Decimal(repr(value)) if isinstance(value, float) else value
    if not exact.is_finite() or abs(exact) > 10**13:  # a double holds no cents up there, and whole numbers are no edge
        return False
    cents = abs(exact) * 100
    return abs(cents % 1 - _HALF) <= Decimal("1e-9") + cents * Decimal("1e-14")
