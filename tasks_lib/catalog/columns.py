"""PRIVATE. What kind of thing a column is, by rule: key, number, date, category or free text.

Rules over declared facts (type, keys, name, number of distinct values) only; words about them are made in `capabilities`.
"""

from __future__ import annotations

import re
from enum import StrEnum

from tasks_lib.catalog.wording import words
from tasks_lib.corpora.model import ColumnInfo, TableInfo

LOW_DISTINCT = 30
"""At most so many distinct values make a text column a grouping, unless every row has its own."""

SENTENCE = 120
"""Characters of a description in the card of a column; its whole text stands in the card of the table."""

_NUMBER = re.compile(r"int|real|float|double|numeric|decimal|number|money|serial", re.I)
_DATE = re.compile(r"date|time|year", re.I)
_DATE_NAME = re.compile(r"(^|\s)(date|time|year|month|day|timestamp|datetime)(\s|$)")
_CODE_NAME = re.compile(
    r"(^|\s)(id|ids|code|zip|zipcode|postal|phone|fax|number|no|num|key|index|latitude|longitude|lat|lng|lon)$"
)


_TYPE = re.compile(
    r"(?:text|real|bigint|integer|int|smallint|varchar|char|date|timestamp|bigserial|serial|jsonb|boolean|numeric)(?:\(.*\))?",
    re.I,
)
_EXAMPLES = re.compile(r"\s*(?:\bPK\b\.?|\bExamples?:|\bPossible values:|\be\.g\.)")


class Role(StrEnum):
    """What a column can be used for."""

    KEY = "key"
    MEASURE = "measure"
    TIME = "time"
    GROUPING = "grouping"
    FILTER = "filter"


def is_numeric(column: ColumnInfo) -> bool:
    """Declared as a number."""
    return bool(_NUMBER.search(column.type)) and not _DATE.search(column.type)


def role(table: TableInfo, column: ColumnInfo, synthetic: bool) -> Role:
    """The role of a column. `synthetic`: rows are made up, so the number of distinct values says nothing."""
    name = words(column.name)
    if column.references or (column.primary and is_numeric(column)):
        return Role.KEY
    if _DATE.search(column.type) or _DATE_NAME.search(name):
        return Role.TIME
    if is_numeric(column):
        return Role.KEY if _CODE_NAME.search(name) else Role.MEASURE
    if not synthetic and 1 < column.distinct <= LOW_DISTINCT and column.distinct < table.row_count:
        return Role.GROUPING
    return Role.FILTER


def meaning(column: ColumnInfo) -> str:
    """What a column holds, in words: its described meaning without a leading type, else its name as words."""
    described = " ".join(column.meaning.split())
    first, _, rest = described.partition(". ")
    if rest and _TYPE.fullmatch(first):
        described = rest
    return described or words(column.name)


def label(column: ColumnInfo) -> str:
    """A column in a few words: what its description says before it gives examples when that is short, else its name."""
    short = _EXAMPLES.split(meaning(column))[0].strip().rstrip(".")
    return short if short and len(short) <= 60 else words(column.name)


def sentence(column: ColumnInfo) -> str:
    """A column for its own card: the first sentence of its meaning, cut to 120 characters."""
    return meaning(column).split(". ", maxsplit=1)[0][:SENTENCE].rstrip(". ")
