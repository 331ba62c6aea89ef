"""Typed result values and result tables, and their one byte form.

Belongs here: the closed list of value types a database may return, and a deterministic, lossless, self-describing
encoding of tables of them. Does not belong here: when two values count as equal (`comparators`), and any driver.
Imports the standard library only: worker processes load it.

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
from json.encoder import c_make_encoder, encode_basestring_ascii  # type: ignore[attr-defined]
from typing import Any, TypeAlias
from uuid import UUID

FORMAT = "dsabench-result/1"


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
_ROW = c_make_encoder(None, None, encode_basestring_ascii, None, ":", ",", False, False, False)
"""What `_ENCODER.encode` makes anew for every row and then calls; making it costs more than a short row."""
_NATIVE = frozenset({type(None), bool, int, str, float})


def row_bytes(row: Sequence[Value]) -> bytes:
    """Return one row as its line of the byte form, with the line end."""
    if _NATIVE.issuperset(map(type, row)):
        try:
            return "".join(_ROW(row, 0)).encode("ascii") + b"\n"
        except ValueError:  # NaN and the infinities have a tag
            return _tagged_row(row)
    return _tagged_row(row)


def _tagged_row(row: Iterable[Value]) -> bytes:
    return _ENCODER.encode([encoded(cell) for cell in row]).encode("ascii") + b"\n"


def header_bytes(columns: tuple[str, ...]) -> bytes:
    """Return the first line of the byte form."""
    header = {"columns": list(columns), "format": FORMAT}
    return json.dumps(header, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"


_TAGGED_ROWS = json.JSONDecoder(object_hook=_tagged)
_PLAIN_ROWS = json.JSONDecoder()  # made once, as above


@lru_cache(256)
def _columns(header: bytes) -> tuple[str, ...] | None:
    """The column names of a first line, None when it is of another format."""
    read = json.loads(header) if header else {}
    return tuple(read["columns"]) if read.get("format") == FORMAT else None


@dataclass(frozen=True)
class CanonicalResult:
    """A result table: `columns` are the names the engine gave (not unique), each row has one value per column."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    def to_bytes(self) -> bytes:
        """Return the byte form: equal results give equal bytes, and `from_bytes` gives back an equal result."""
        return b"".join([header_bytes(self.columns), *map(row_bytes, self.rows)])

    @classmethod
    def from_bytes(cls, data: bytes) -> CanonicalResult:
        """Read the byte form. Raises ValueError when it is of another format."""
        first, _, rest = data.partition(b"\n")
        columns = _columns(first)
        if columns is None:
            raise ValueError(f"A stored result begins with {data[:40]!r}, expected format {FORMAT}; run the SQL again.")
        # One JSON text of all rows: line ends stand between rows only, since those in texts are escaped.
        text = rest.decode("ascii").rstrip("\n").replace("\n", ",")
        rows = (_TAGGED_ROWS if "{" in text else _PLAIN_ROWS).decode(f"[{text}]")
        return cls(columns, tuple(map(tuple, rows)))

    @cached_property
    def value_types(self) -> frozenset[type]:
        """The types of the values, array items apart."""
        return frozenset(map(type, chain.from_iterable(self.rows)))

    @cached_property
    def digest(self) -> str:
        """sha256 hex of the byte form (column names, types, values and row order all count)."""
        return hashlib.sha256(self.to_bytes()).hexdigest()
