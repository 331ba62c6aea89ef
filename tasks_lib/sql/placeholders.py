"""Named bindings `:name` in SQL text, found on tokens, and how each driver gets them.

Belongs here: which bindings a text uses, and the text and values handed to the driver. Does not belong here: where a
value comes from and whether it may be bound (evaluation decides that). Values are never written into the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from functools import lru_cache
from uuid import UUID

from tasks_lib.protocol.records import BindingValue
from tasks_lib.protocol.vocabulary import Engine
from tasks_lib.sql.canonical import Json, Value
from tasks_lib.sql.lexer import TokenKind, tokens


@dataclass(frozen=True, slots=True)
class BoundStatement:
    """An SQL text as written, beside the values of the bindings it uses: what is stored and shown."""

    sql: str
    bindings: tuple[tuple[str, BindingValue], ...]


@lru_cache(maxsize=16_384)
def placeholders_in(engine: Engine, sql: str) -> tuple[str, ...]:
    """Return the names of the bindings in `sql`, without the colon, each once, in order of first use.

    Strings, comments, quoted names, casts (`x::type`) and PostgreSQL array slices (`a[1:n]`) hold no bindings.
    """
    if ":" not in sql:
        return ()
    found = (sql[token.start + 1 : token.end] for token in tokens(engine, sql) if token.kind is TokenKind.BINDING)
    return tuple(dict.fromkeys(found))


def bound(engine: Engine, sql: str, values: Mapping[str, BindingValue]) -> BoundStatement:
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
    """Return the text that the driver gets together with values.

    SQLite takes `:name` and named values as they are. PostgreSQL takes `$1`, `$2` ... (values in the order of
    `placeholders_in`), bound by the server; a `%` means nothing special to psycopg's raw cursor and stays single.
    """
    if engine is Engine.SQLITE:
        return sql
    numbers = {name: number for number, name in enumerate(placeholders_in(engine, sql), start=1)}
    parts = []
    for token in tokens(engine, sql):
        text = sql[token.start : token.end]
        parts.append(f"${numbers[text[1:]]}" if token.kind is TokenKind.BINDING else text)
    return "".join(parts)


def bindable(value: Value) -> BindingValue:
    """Return a result value as one that may be bound; text stays text and integers stay integers.

    What has no binding type of its own (numeric, dates, JSON, uuid) becomes the text PostgreSQL reads it from: a bound
    text has no type yet, like a quoted literal, and takes that of what it is compared with.

    Raises:
        ValueError: an array, an interval or an opaque value, which no literal of a gold query stands for.
    """
    match value:
        case None | str() | bytes() | float() | int():
            return value
        case Decimal() | UUID():
            return str(value)
        case date() | time():
            return value.isoformat()
        case Json():
            return value.text
        case _:
            raise ValueError(f"A value of type {type(value).__name__} cannot be bound; choose another upstream column.")
