"""The lines of a result's byte form for values that SQLite has: null, whole numbers, floats, text and bytes.

Belongs here: the part of `canonical` that a worker needs for SQLite. Does not belong here: all other types (`canonical`),
limits, drivers. A worker process starts with it, so it imports next to nothing: the `json` package alone would cost as
much as Python itself takes to start, therefore its encoder in C is taken without it.
"""

from __future__ import annotations

from _json import encode_basestring, encode_basestring_ascii, make_encoder
from math import isfinite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

FORMAT = "dsabench-result/1"


def _tagged(value: object) -> dict[str, str]:
    return {"bytes": value.hex()} if type(value) is bytes else _unknown(value)


def _unknown(value: object) -> NoReturn:
    raise TypeError(f"A value has type {type(value).__name__}, which has no line here.")


# ASCII, no spaces; NaN and the infinities raise ValueError, since they have a tag.
_encode = make_encoder(None, _tagged, encode_basestring_ascii, None, ":", ",", False, False, False)


def writer(*, spaced: bool, ascii_only: bool) -> Callable[[object], str]:
    """Return what writes plain data as `json.JSONEncoder` with sorted keys does, and with blanks if `spaced`.

    The encoder makes its machine in C anew for each text, which takes longer than writing a short one; here it is made once.
    """
    texts = encode_basestring_ascii if ascii_only else encode_basestring
    colon, comma = (": ", ", ") if spaced else (":", ",")
    encode = make_encoder(None, _unknown, texts, None, colon, comma, True, False, False)
    return lambda value: "".join(encode(value, 0))


def header_line(columns: Sequence[str]) -> bytes:
    """Return the first line of the byte form, with the line end."""
    return json_line({"columns": list(columns), "format": FORMAT})


def json_line(value: object) -> bytes:
    """Return plain data as one line of ASCII JSON, with the line end. Raises TypeError, ValueError."""
    return "".join(_encode(value, 0)).encode("ascii") + b"\n"


def row_line(row: Sequence[object]) -> bytes:
    """Return one row as its line, with the line end. Raises TypeError for a type that SQLite does not have."""
    try:
        return json_line(row)
    except ValueError:
        return json_line(
            [value if type(value) is not float or isfinite(value) else {"float": repr(value)} for value in row]
        )


def row_lines(rows: Sequence[Sequence[object]]) -> bytes:
    """Return the lines of rows of one or more columns, as `row_line` of each, in a tenth of the time.

    Raises TypeError for a type that SQLite does not have.
    """
    try:
        text = "".join(_encode(rows, 0))
    except ValueError:
        return b"".join(map(row_line, rows))
    if text.count("],[") != len(rows) - 1:  # also inside a text: where rows end cannot be told from it
        return b"".join(map(row_line, rows))
    return text.replace("],[", "]\n[").encode("ascii")[1:-1] + b"\n"
