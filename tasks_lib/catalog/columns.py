"""PRIVATE. What kind of thing a column is, by rule, and how it is called: key, number, date, category, yes-or-no or free text.

Rules over the schema, the column's description and what was counted of its values; sentences are made in `capabilities`.
"""

from __future__ import annotations

import re
from enum import StrEnum

from tasks_lib.catalog.wording import words
from tasks_lib.corpora.model import ColumnInfo, TableInfo

LOW_DISTINCT = 30
"""At most so many distinct values make a text column a grouping, if each is held by two rows on average."""

SENTENCE = 120
"""Characters of a description in the card of a column; its whole text stands in the card of the table."""

LABEL = 60
"""Characters of a description that may stand for the name of a column."""

_NUMBER = re.compile(r"int|real|float|double|numeric|decimal|number|money|serial", re.I)
_DATE = re.compile(r"date|time|year", re.I)
_FLAG = re.compile(r"^bool|^bit$|^tinyint\(1\)$", re.I)
_DATE_NAME = re.compile(r"(^|\s)(date|time|year|yr|month|day|timestamp|datetime)(\s|$)|[a-z]{3}(?:year|timestamp)$")
_CODE_NAME = re.compile(
    r"(^|\s)(id|ids|uid|uuid|guid|code|zip|zipcode|postal|postcode|ssn|isbn|issn|phone|fax|number|no|num|nr|key|index|ref"
    r"|sequence|ordinal|version|latitude|longitude|lat|lng|lon|long)$"
)
_GLUED_ID = re.compile(
    r"(^|\s)(?!(?:paid|prepaid|unpaid|bid|rebid|valid|invalid|grid|acid|humid|covid|solid|liquid|fluid|rapid|void|hybrid|android)$)\w{2,}id$"
)
_CATEGORY_NAME = re.compile(
    r"(^|\s)(type|category|status|gender|sex|country|state|city|county|region|continent|province|district|class|kind|level"
    r"|colou?r|department|genre|language|nationality|position|league|role|brand|currency|race|religion|season|sector|segment|industry)$"
)
_REAL = re.compile(r"real|float|double|numeric|decimal|money", re.I)
_YEAR_WORD = re.compile(
    r"year|yr|season|found|establish|open|built|build|since|start|born|birth|release|made|publish|from|to$"
)
_YEARS = re.compile(r"(1[5-9]|20)\d\d(\.0)?")


_TYPE = re.compile(
    r"(?:text|real|bigint|integer|int|smallint|varchar|char|date|timestamp|bigserial|serial|jsonb|boolean|numeric)(?:\(.*\))?",
    re.I,
)
_EXAMPLES = re.compile(r"\s*(?:\bPK\b\.?|\bFK\b|\bExamples?:|\bPossible values:|\bContains values:|\be\.g\.|\*\*)")
_QUOTED = re.compile(
    r"^(?:,? ?(?:in|within) the ['\"]?[\w ]+['\"]? table[^,]{0,40}, )?(?:the )?(?:column )?(['\"])(?P<name>[^'\"]{2,60})\1(?=[^.;]{0,40}\bcolumn\b|[^.;]{0,20}\bis\b)"
    r"|^the column (['\"])(?P<other>[^'\"]{2,60})\3",
    re.I,
)
_BARE = re.compile(r"^the (?P<name>[\w -]{2,40}?) (?:(?:text|integer|real) )?column (?:in|of) the\b", re.I)


class Role(StrEnum):
    """What a column can be used for."""

    KEY = "key"
    MEASURE = "measure"
    TIME = "time"
    GROUPING = "grouping"
    FLAG = "flag"
    FILTER = "filter"


def is_numeric(column: ColumnInfo) -> bool:
    """Declared as a number."""
    return bool(_NUMBER.search(column.type)) and not _DATE.search(column.type)


def role(table: TableInfo, column: ColumnInfo, synthetic: bool) -> Role:
    """The role of a column. `synthetic`: rows are made up, so counts and ranges of values say nothing."""
    name = words(column.name)
    if column.references or (column.primary and is_numeric(column)):
        return Role.KEY
    if _FLAG.search(column.type):
        return Role.FLAG
    if _DATE.search(column.type) or _DATE_NAME.search(name):
        return Role.TIME
    if is_numeric(column):
        return _number_role(column, name, synthetic)
    if synthetic or not column.distinct:
        return Role.GROUPING if _CATEGORY_NAME.search(name) else Role.FILTER
    return Role.GROUPING if 1 < column.distinct <= min(LOW_DISTINCT, table.row_count / 2) else Role.FILTER


def _number_role(column: ColumnInfo, name: str, synthetic: bool) -> Role:
    if _CODE_NAME.search(name) or (_GLUED_ID.search(name) and not _REAL.search(column.type)):
        return Role.KEY
    low, _, high = column.value_range.partition("..")
    if not synthetic and high:
        if _YEARS.fullmatch(low) and _YEARS.fullmatch(high) and column.distinct > 1:
            return Role.TIME if _YEAR_WORD.search(name) else Role.MEASURE
        if column.distinct == 2 and (float(low), float(high)) == (0, 1) and not _REAL.search(column.type):
            return Role.FLAG
    return Role.MEASURE


def meaning(column: ColumnInfo) -> str:
    """What a column holds, in words: its described meaning without a leading type, else its name as words."""
    described = " ".join(column.meaning.split())
    first, _, rest = described.partition(". ")
    if rest and _TYPE.fullmatch(first):
        described = rest
    return described or words(column.name)


def label(column: ColumnInfo) -> str:
    """A column in a few words: the name that its description gives it, else a short description, else its own name as words.

    Descriptions often begin by quoting the name in full ("The 'March wins' column in the … table"), where the column's own name
    is cut short. One that speaks of keys only says nothing about what the column holds.
    """
    described = meaning(column)
    quoted = _QUOTED.match(described) or _BARE.match(described)
    if quoted:
        named = quoted.groupdict()
        return words(named.get("name") or named.get("other") or "") or words(column.name)
    first = re.split(r"; ", _EXAMPLES.split(described)[0], maxsplit=1)[0].strip().rstrip(".,;")
    if not first or len(first) > LABEL or ". " in first:
        return words(column.name)
    return (
        first
        if first[:2].isupper() or first.split(" ")[0][1:] != first.split(" ")[0][1:].lower()
        else first[0].lower() + first[1:]
    )


def sentence(column: ColumnInfo) -> str:
    """A column for its own card: the first sentence of its meaning, cut between words to 120 characters."""
    first = meaning(column).split(". ", maxsplit=1)[0]
    return (first if len(first) <= SENTENCE else first[: SENTENCE + 1].rpartition(" ")[0] or first[:SENTENCE]).rstrip(
        ". "
    )
