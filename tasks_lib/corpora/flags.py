"""PRIVATE. The closed list of what may be said about a source unit, and what its gold text alone says.

Belongs here: the flags, which of them keep a unit out of every task, and the flags that are read from the text. Does not
belong here: what runs show (`units`), and the statements that make them show it (`probes`).
"""

from __future__ import annotations

import itertools

import sqlglot
from sqlglot import exp

from tasks_lib.protocol.vocabulary import Engine
from tasks_lib.sql.lexer import TokenKind, tokens, trimmed

FLAGS: dict[str, str] = {
    "gold_error": "the engine refuses the gold SQL, or it ended the worker",
    "gold_timeout": "the gold SQL ran out of time",
    "result_too_large": "the gold result is larger than a result may be",
    "refused": "the gold text is not one readable, read-only query",
    "empty_gold": "the gold result has no row",
    "all_null": "every value of the gold result is null",
    "trivial": "the gold reads no table, or its one row holds only zeros, empty texts and nulls",
    "clock": "the gold result depends on the time of day",
    "random": "the gold result depends on chance",
    "duplicate": "an earlier unit asks the same of the same database",
    "dqs_literal": "a double-quoted name is a string, for want of such a column (SQLite)",
    "dqs_shadowed": "a double-quoted name that is compared with a column is itself a column (SQLite)",
    "missing_table": "the gold names a table that the database does not have",
    "missing_column": "the gold names a column that the database does not have",
    "limit_without_order": "a LIMIT keeps some rows of a query that promises no order",
    "limit_cuts_tie": "a LIMIT cuts through rows that tie on the keys of its ORDER BY, and other rows return when ties are broken otherwise",
    "order_not_total": "the corpus compares this result in order, and rows that differ tie on the keys of the ORDER BY",
    "read_order": "other rows return when the tables are read from their end, such as values of a column that is not grouped (SQLite)",
    "rounding_unstable": "digits that the corpus compares change with the order of summation, or lie on the edge of its rounding",
}
"""Closed list of what may be said about a unit.

The last four are shown by running our own variants of the gold (`probes`), never by its words alone:

- `limit_cuts_tie`, `order_not_total`: gold and two variants that break ties upwards and downwards give other rows, or the
  same rows in another order. Order counts only where the corpus compares in order (Spider, outermost ORDER BY): there a
  right prediction that breaks a tie otherwise would be judged wrong. BIRD and LiveSQLBench compare sets, so that the flag
  cannot occur there.
- `read_order`, `rounding_unstable` under an exact comparison (Spider, BIRD): a variant reads every table backwards. Other
  rows are `read_order`; rows that are equal to 12 significant digits and differ beyond are `rounding_unstable`.
- `rounding_unstable` under LiveSQLBench's rounding to two decimals: a fractional number of the result lies within 10^-9
  cents, or 90 units in the last place of a double, of a half cent.
"""

DISQUALIFYING = frozenset(FLAGS) - {"dqs_literal", "dqs_shadowed"}
"""Flags that keep a unit out of every task; the other two are warnings about how the gold is written.

Whatever makes the answer arbitrary disqualifies, since a right prediction could be judged wrong. On the data at hand that
takes few units (of Spider's 9,693, BIRD's 10,962 and 111 of LiveSQLBench): `limit_cuts_tie` 293, 466 and 0;
`order_not_total` 209 of Spider; `read_order` 30 and 95; `rounding_unstable` 57, 165 and 1. No probe failed to run.
"""

_CLOCK_WORDS = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})
_CLOCK_CALLS = frozenset(
    {"now", "clock_timestamp", "statement_timestamp", "transaction_timestamp", "timeofday", "getdate", "sysdate"}
)
_SQLITE_DATE_CALLS = frozenset({"date", "time", "datetime", "julianday", "strftime", "unixepoch"})
_RANDOM_CALLS = frozenset({"random", "randomblob", "gen_random_uuid", "uuid_generate_v4", "random_normal"})


def text_flags(engine: Engine, sql: str, tree: exp.Expr | None = None) -> set[str]:
    """Return which of `clock`, `random` and `limit_without_order` hold for a readable query.

    Args:
        tree: the parsed text, where it is at hand.
    """
    spans = [t for t in tokens(engine, sql) if t.kind not in (TokenKind.SPACE, TokenKind.COMMENT)]
    parts = [(token.kind, sql[token.start : token.end].lower()) for token in spans]
    called = {
        text
        for (kind, text), (_, following) in itertools.pairwise(parts)
        if kind is TokenKind.WORD and following == "("
    }
    said = {text for kind, text in parts if kind is TokenKind.WORD}
    # SQLite's date functions and PostgreSQL's date casts take the text 'now'; SQLite's also take no argument at all.
    now = any(kind in (TokenKind.STRING, TokenKind.NAME) and text[1:-1].strip() == "now" for kind, text in parts)
    bare = engine is Engine.SQLITE and any(
        text in _SQLITE_DATE_CALLS and parts[at + 1 : at + 3] == [(TokenKind.OTHER, "("), (TokenKind.OTHER, ")")]
        for at, (_, text) in enumerate(parts)
    )
    flags = set()
    if said & _CLOCK_WORDS or called & _CLOCK_CALLS or now or bare:
        flags.add("clock")
    if called & _RANDOM_CALLS:
        flags.add("random")
    if said & {"limit", "offset", "fetch"}:
        parsed = tree if tree is not None else sqlglot.parse_one(trimmed(engine, sql), read=engine.value)
        if any(_keeps_some(node) for node in parsed.find_all(exp.Query)):
            flags.add("limit_without_order")
    return flags


def _keeps_some(query: exp.Expr) -> bool:
    """Whether a LIMIT or OFFSET picks among rows in no promised order. One aggregate row, or EXISTS, loses nothing."""
    limited = query.args.get("limit") or query.args.get("offset")
    if not limited or query.args.get("order") or isinstance(query.parent, exp.Exists):
        return False
    if isinstance(query, exp.Select) and not query.args.get("group"):
        return not all(projection.find(exp.AggFunc) for projection in query.selects)
    return True
