"""Typed result values and result tables, and their one byte form.

Belongs here: the closed list of value types a database may return, and a deterministic, lossless, self-describing
encoding of tables of them. Does not belong here: when two values count as equal (`comparators`), and any driver.
Imports the standard library only: worker processes load it with PostgreSQL's driver (for SQLite, `lines` is enough).

The byte form is ASCII JSON, one line each: a header `{"columns": [...], "format": "dsabench-result/1"}`, then one array
per row. JSON's own null, booleans, strings and numbers stand for themselves (a number with a point or an exponent is a
float, else an integer); every other type is an object of one key, its tag: `{"decimal": "1.10"}`, `{"bytes": "00ff"}`,
`{"float": "nan"}`. Text that was not UTF-8 in the database keeps each stray byte as a lone surrogate (PEP 383), written
as a `\\udcXX` escape: different bytes stay different and the file itself is always valid UTF-8.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from functools import cached_property, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from tasks_lib.sql.lines import FORMAT, header_line, json_line


@dataclass(frozen=True, slots=True)
class Json:
    """A JSON or JSONB value: the text as the server printed it."""

    text: str


@dataclass(frozen=True, slots=True)
class Interval:
    """A PostgreSQL interval: months, days and microseconds are kept apart, as the server keeps them."""

    months: int
    days: int
    microseconds: int


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that has no Python type that holds it (a date before year 1, `infinity`, a range): type name and text."""

    type: str
    text: str


Value: TypeAlias = (
    "bool | int | float | Decimal | str | bytes | date | time | datetime | UUID | Json | Interval | Opaque"
    " | tuple[Value, ...] | None"
)
"""One cell. Arrays are tuples; a datetime or time with a zone is the aware one."""


def _float(value: float) -> object:
    return value if math.isfinite(value) else {"float": repr(value)}


# Exact types, not isinstance: bool is an int and datetime is a date in Python, and they must not be confused here.
_ENCODERS: dict[type, Callable[[Any], object]] = {
    type(None): lambda value: value,
    bool: lambda value: value,
    int: lambda value: value,
    str: lambda value: value,
    float: _float,
    Decimal: lambda value: {"decimal": str(value)},
    bytes: lambda value: {"bytes": value.hex()},
    date: lambda value: {"date": value.isoformat()},
    time: lambda value: {"timetz" if value.tzinfo else "time": value.isoformat()},
    datetime: lambda value: {"timestamptz" if value.tzinfo else "timestamp": value.isoformat()},
    UUID: lambda value: {"uuid": str(value)},
    Json: lambda value: {"json": value.text},
    Interval: lambda value: {"interval": [value.months, value.days, value.microseconds]},
    Opaque: lambda value: {"opaque": [value.type, value.text]},
    tuple: lambda value: {"array": [encoded(item) for item in value]},
}

_DECODERS: dict[str, Callable[[Any], Value]] = {
    "float": float,
    "decimal": Decimal,
    "bytes": bytes.fromhex,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timetz": time.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "timestamptz": datetime.fromisoformat,
    "uuid": UUID,
    "json": Json,
    "interval": lambda parts: Interval(*parts),
    "opaque": lambda parts: Opaque(*parts),
    "array": lambda items: tuple(decoded(item) for item in items),
}

_IN_PLACE: dict[str, Callable[[Any], Value]] = {**_DECODERS, "array": tuple}
"""Decoders for the JSON reader itself, which meets the items of an array before the array."""


def encoded(value: Value) -> object:
    """Return `value` as what the JSON encoder writes. Raises TypeError for a type outside the closed list."""
    encode = _ENCODERS.get(type(value))
    if encode is None:
        raise TypeError(f"A result value has type {type(value).__name__}, which is not one of the canonical types.")
    return encode(value)


def decoded(value: object) -> Value:
    """Return the value that `encoded` was given."""
    if isinstance(value, dict):
        ((tag, body),) = value.items()
        return _DECODERS[tag](body)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"A stored result holds {value!r}, which is no tagged value of format {FORMAT}.")


def _tagged(node: dict[str, Any]) -> Value:
    ((tag, body),) = node.items()
    return _IN_PLACE[tag](body)


_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))  # made once: making costs most
_NATIVE = frozenset({type(None), bool, int, str, float})


def row_bytes(row: Sequence[Value]) -> bytes:
    """Return one row as its line of the byte form, with the line end."""
    if _NATIVE.issuperset(map(type, row)):
        try:
            return json_line(row)
        except ValueError:  # NaN and the infinities have a tag
            return _tagged_row(row)
    return _tagged_row(row)


def _tagged_row(row: Iterable[Value]) -> bytes:
    return _ENCODER.encode([encoded(cell) for cell in row]).encode("ascii") + b"\n"


_TAGGED_ROWS = json.JSONDecoder(object_hook=_tagged)
_PLAIN_ROWS = json.JSONDecoder()  # made once, as above


@lru_cache(256)
def _columns(header: bytes) -> tuple[str, ...] | None:
    """The column names of a first line, None when it is of another format."""
    read = json.loads(header) if header else {}
    return tuple(read["columns"]) if read.get("format") == FORMAT else None


def _rows(lines: bytes) -> tuple[tuple[Value, ...], ...]:
    # One JSON text of all rows: line ends stand between rows only, since those in texts are escaped.
    text = lines.decode("ascii").rstrip("\n").replace("\n", ",")
    rows = (_TAGGED_ROWS if "{" in text else _PLAIN_ROWS).decode(f"[{text}]")
    return tuple(map(tuple, rows))


@dataclass(frozen=True)
class CanonicalResult:
    """A result table: `columns` are the names the engine gave (not unique), each row has one value per column.

    Of a result that was read from its bytes, the rows are decoded when somebody first looks at them.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    def to_bytes(self) -> bytes:
        """Return the byte form: equal results give equal bytes, and `from_bytes` gives back an equal result."""
        return b"".join([header_line(self.columns), *map(row_bytes, self.rows)])

    @classmethod
    def from_bytes(cls, data: bytes) -> CanonicalResult:
        """Read the byte form. Raises ValueError when it is of another format."""
        columns = _columns(data.split(b"\n", 1)[0])
        if columns is None:
            raise ValueError(f"A stored result begins with {data[:40]!r}, expected format {FORMAT}; run the SQL again.")
        made = cls.__new__(cls)
        made.__dict__["columns"], made.__dict__["data"] = columns, data
        return made

    if not TYPE_CHECKING:  # for whoever reads the types, `rows` is an attribute like any other

        def __getattr__(self, name: str) -> object:
            # Asked only for what is not there yet.
            if name == "rows" and (lines := self.row_lines) is not None:
                return self.__dict__.setdefault("rows", _rows(lines))
            raise AttributeError(f"A CanonicalResult has no {name}.")

    @property
    def row_lines(self) -> bytes | None:
        """All rows in their byte form, where they were read from it: equal bytes are equal rows in equal order."""
        data: bytes | None = self.__dict__.get("data")
        return None if data is None else data.partition(b"\n")[2]

    @cached_property
    def value_types(self) -> frozenset[type]:
        """The types of the values, array items apart."""
        return frozenset(map(type, chain.from_iterable(self.rows)))

    @cached_property
    def digest(self) -> str:
        """sha256 hex of the byte form (column names, types, values and row order all count)."""
        return hashlib.sha256(self.to_bytes()).hexdigest()
