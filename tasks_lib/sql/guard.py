"""Whether an SQL text is exactly one read-only statement, decided on its syntax tree before any engine sees it.

Belongs here: the check, its allow-lists, and reading from the tree whether the outermost query promises an order. Does
not belong here: running or rewriting SQL. The tree is for checking only and the text that runs is the text as written:
sqlglot's own output means something else in some dialects (`CAST('2020-05-01' AS DATE)` is 2020 in SQLite).
The guard is the first of three walls; the engine's authorizer or grants and the read-only connection stand behind it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tasks_lib.protocol.vocabulary import Engine, VerdictKind
from tasks_lib.sql.functions import (
    POSTGRES_CATALOG,
    POSTGRES_FUNCTIONS,
    SQLITE_REFUSED_FUNCTIONS,
    SQLITE_REFUSED_TABLES,
)
from tasks_lib.sql.lexer import deepest_brackets, trimmed, without_comments

# It warns, with the whole SQL text, whenever a statement falls back to `Command`; the guard refuses those itself.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

MAX_SQL_CHARACTERS = 50_000
"""Longer texts are refused: the longest gold query at hand has under 3,000 characters."""
MAX_NESTING = 50
"""Deeper brackets are refused: sqlglot recurses and leaves Python's stack at about 90 levels."""
MAX_SQUARE_NESTING = 8
"""Deeper square brackets are refused: sqlglot reads `ARRAY[ARRAY[...]]` in time that doubles with every level."""
_SPARE_NODES = 5_000
"""A text may make sqlglot try as many nodes as it has characters, and these: trying again and again must end."""


@dataclass(frozen=True, slots=True)
class GuardReport:
    """Whether the text may run. When not, `reason` is one sentence and `kind` the verdict it leads to."""

    allowed: bool
    reason: str = ""
    kind: VerdictKind | None = None


class _Refused(Exception):
    """One statement that may not run, or more than one."""


class _Unreadable(Exception):
    """No SQL of the engine."""


_QUERIES = (exp.Select, exp.SetOperation, exp.Subquery, exp.Values)
# What makes a tree of queries more than a query. Everything that is a statement of its own is refused by its parent
# (only queries may stand in a CTE, a bracket or at the root); these are the parts that hide inside a Select.
_WRITING = (
    exp.DML,
    exp.DDL,
    exp.Command,
    exp.Into,
    exp.Lock,
    exp.Alter,
    exp.Drop,
    exp.Set,
    exp.Pragma,
    exp.Transaction,
    exp.Commit,
    exp.Rollback,
    exp.Attach,
    exp.Detach,
    exp.Use,
    exp.Kill,
    exp.LoadData,
    exp.TruncateTable,
    exp.Analyze,
    exp.Grant,
    exp.Revoke,
)


def check_sql(engine: Engine, sql: str | None) -> GuardReport:
    """Check that `sql` is one read-only query; trailing blanks, semicolons and comments are no second statement.

    `kind` of a refusal: `missing_sql` (None, blank, only comments), `parse_error` (not readable as SQL of the engine),
    `refused_sql` (readable, but not allowed). Never raises for any text, and ends soon for any text.
    """
    if sql is None:
        return _MISSING
    if len(sql) > MAX_SQL_CHARACTERS:
        reason = f"The SQL has {len(sql)} characters; at most {MAX_SQL_CHARACTERS} are allowed."
        return GuardReport(False, reason, VerdictKind.REFUSED_SQL)
    return _read(engine, sql)[0]


def is_ordered(engine: Engine, sql: str) -> bool:
    """Return whether the outermost query itself, brackets removed, has an ORDER BY.

    An ORDER BY in a sub-select, CTE body, window, aggregate, string or comment promises nothing about the result.

    Raises:
        ValueError: `sql` is not one readable query (check it with `check_sql` first).
    """
    report = check_sql(engine, sql)
    ordered = _read(engine, sql)[1] if len(sql) <= MAX_SQL_CHARACTERS else None
    if ordered is None:
        raise ValueError(f"Whether the SQL is ordered cannot be told, it is not one readable query: {report.reason}")
    return ordered


_MISSING = GuardReport(False, "There is no SQL statement: the text is empty or only comments.", VerdictKind.MISSING_SQL)


@lru_cache(maxsize=16_384)
def _read(engine: Engine, sql: str) -> tuple[GuardReport, bool | None]:
    """The report, and whether the one statement is ordered (None when there is no tree of one statement)."""
    try:
        sql.encode("utf-8")
    except UnicodeEncodeError:
        reason = "The text holds a lone surrogate, which is no character."
        return GuardReport(False, reason, VerdictKind.PARSE_ERROR), None
    if not trimmed(engine, sql):
        return _MISSING, None
    ordered = None
    try:
        root = _single_root(engine, sql)
        ordered = _ordered(root)
        _check_tree(engine, root)
    except _Unreadable as error:
        reason = f"The text cannot be read as {engine} SQL: {error}"
        return GuardReport(False, reason, VerdictKind.PARSE_ERROR), ordered
    except _Refused as refusal:
        return GuardReport(False, str(refusal), VerdictKind.REFUSED_SQL), ordered
    return GuardReport(True), ordered


def _ordered(node: exp.Expression) -> bool:
    while not node.args.get("order") and isinstance(node, exp.Subquery):
        node = node.this
    return bool(node.args.get("order"))


def _single_root(engine: Engine, sql: str) -> exp.Expression:
    if "\x00" in sql:
        raise _Refused("The SQL holds a NUL character, at which engines stop reading.")
    for pair, most in ("()", MAX_NESTING), ("[]", MAX_SQUARE_NESTING):
        # No text nests deeper than it has opening brackets: few are counted token by token.
        if sql.count(pair[0]) > most and (depth := deepest_brackets(engine, sql, pair)) > most:
            raise _Refused(f"The SQL nests {pair} {depth} deep; at most {most} are allowed.")
    # Comments mean nothing, but sqlglot does not find `GROUP BY` where one stands between its words.
    try:
        text = without_comments(engine, trimmed(engine, sql))
    except ValueError as error:
        raise _Refused(str(error)) from None
    try:
        parsed = sqlglot.parse(text, read=engine.value, max_nodes=_SPARE_NODES + len(text))
    except RecursionError:
        raise _Refused("The SQL nests deeper than it can be checked.") from None
    except SqlglotError as error:
        raise _Unreadable(str(error).splitlines()[0] if str(error) else type(error).__name__) from error
    except (TypeError, ValueError, AttributeError, LookupError, AssertionError) as error:
        # sqlglot stumbles in its own code over some unfinished texts, such as `SELECT 1 ? 1 ?`.
        raise _Unreadable(f"it is not finished or not well formed ({type(error).__name__}).") from error
    statements = [node for node in parsed if node is not None and not isinstance(node, exp.Semicolon)]
    if len(statements) != 1:
        raise _Refused(f"The text holds {len(statements)} statements; exactly one is allowed.")
    (root,) = statements
    if not isinstance(root, exp.Expression):
        raise _Refused(f"The statement is {type(root).__name__.upper()}, not a query.")
    return root


def _check_tree(engine: Engine, root: exp.Expression) -> None:
    if not isinstance(root, _QUERIES):
        raise _Refused(f"The statement is {type(root).__name__.upper()}, not a query; only SELECT and VALUES may run.")
    for node in root.walk():
        match _part_of(type(node)):
            case _Part.WRITING:
                raise _Refused(f"The query contains {type(node).__name__.upper()}, which is not read-only.")
            case _Part.QUERY if not isinstance(node.this, (*_QUERIES, exp.Table)):
                what = type(node.this).__name__.upper()
                raise _Refused(f"A part of the query is {what}; only queries may stand there.")
            case _Part.TABLE:
                _check_table(engine, node.name.lower(), node.text("db").lower())
            case _Part.FUNCTION:
                _check_function(engine, node.name)


class _Part(Enum):
    """What is checked of a node."""

    WRITING = auto()
    QUERY = auto()
    TABLE = auto()
    FUNCTION = auto()
    OTHER = auto()


def _part_of(kind: type) -> _Part:
    """By the node's class, once for each: asking every node whether it is one of so many takes longer than parsing."""
    found = _KNOWN.get(kind)
    if found is None:
        found = next((part for part, kinds in _PARTS.items() if issubclass(kind, kinds)), _Part.OTHER)
        _KNOWN[kind] = found
    return found


_KNOWN: dict[type, _Part] = {}


_PARTS: dict[_Part, tuple[type, ...]] = {
    _Part.WRITING: _WRITING,
    _Part.QUERY: (exp.CTE, exp.Subquery),
    _Part.TABLE: (exp.Table,),
    _Part.FUNCTION: (exp.Anonymous, exp.AnonymousAggFunc),
}


def _check_table(engine: Engine, name: str, schema: str) -> None:
    if engine is Engine.SQLITE:
        if name.startswith("pragma_") or name in SQLITE_REFUSED_TABLES:
            raise _Refused(f"The table {name} shows or changes engine settings and may not be read.")
    elif (name.startswith("pg_") or schema.startswith("pg_")) and name not in POSTGRES_CATALOG:
        raise _Refused(f"The system table {name} may not be read; information_schema may.")


def _check_function(engine: Engine, name: str) -> None:
    name = name.lower()
    if engine is Engine.SQLITE:
        if name.startswith("pragma_") or name in SQLITE_REFUSED_FUNCTIONS or name in SQLITE_REFUSED_TABLES:
            raise _Refused(f"The function {name} may not be called: it reaches outside the database.")
    elif name not in POSTGRES_FUNCTIONS:
        raise _Refused(f"The function {name} is not on the list of functions that may be called.")
