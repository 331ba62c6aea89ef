"""Named bindings `:name` in SQL text, found on tokens, and how each driver gets them.

Belongs here: which bindings a text uses, and the text and values handed to the driver. Does not belong here: where a
value comes from and whether it may be bound (evaluation decides that). Values are never written into the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tasks_lib.protocol.vocabulary import Engine
from tasks_lib.sql.canonical import Value
from tasks_lib.sql.lexer import TokenKind, tokens


@dataclass(frozen=True, slots=True)
class BoundStatement:
    """An SQL text as written, beside the values of the bindings it uses: what is stored and shown."""

    sql: str
    bindings: tuple[tuple[str, Value], ...]


def placeholders_in(engine: Engine, sql: str) -> tuple[str, ...]:
    """Return the names of the bindings in `sql`, without the colon, each once, in order of first use.

    Strings, comments, quoted names, casts (`x::type`) and PostgreSQL array slices (`a[1:n]`) hold no bindings.
    """
    found = (sql[token.start + 1 : token.end] for token in tokens(engine, sql) if token.kind is TokenKind.BINDING)
    return tuple(dict.fromkeys(found))


def bound(engine: Engine, sql: str, values: Mapping[str, Value]) -> BoundStatement:
    """Pair `sql` with the values it uses, sorted by name; values that it does not use are left out.

    Raises:
        KeyError: a binding of the text has no value; the message names it and what was given.
    """
    names = placeholders_in(engine, sql)
    missing = [name for name in names if name not in values]
    if missing:
        given = ", ".join(sorted(values)) or "none"
        raise KeyError(f"The SQL uses the binding :{missing[0]}, but values were given for: {given}; supply it.")
    return BoundStatement(sql, tuple((name, values[name]) for name in sorted(names)))


def driver_text(engine: Engine, sql: str) -> str:
    """Return the text that the driver gets together with named values.

    SQLite takes `:name` as it is. psycopg takes `%(name)s`, which it sends as a server-side parameter, so every `%`
    outside a binding is doubled. Call this only when there are bindings: a PostgreSQL text without bindings goes to
    the server as written, with no parameter argument.
    """
    if engine is Engine.SQLITE:
        return sql
    parts = []
    for token in tokens(engine, sql):
        text = sql[token.start : token.end]
        parts.append(f"%({text[1:]})s" if token.kind is TokenKind.BINDING else text.replace("%", "%%"))
    return "".join(parts)
