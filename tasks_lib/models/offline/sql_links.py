"""The ground of reading a request: its words, its mentions, and which column a mention means.

Belongs here: the records of a reading and the lookups that all rules share. Does not belong here: the rules (`sql_shape`,
`sql_conditions`, `sql_reading`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tasks_lib.models.offline.sql_lexicon import COMPARISONS, NUMBER_WORDS
from tasks_lib.models.offline.sql_linking import Mention, Word, mentions_in, with_values, words_of
from tasks_lib.models.offline.sql_schema import Column, Schema, Table
from tasks_lib.models.offline.sql_words import name_words, stem

Scorer: TypeAlias = Callable[[str, Sequence[str]], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Output:
    """One result column at its place in the request. `function`: "" | COUNT | AVG | SUM | MIN | MAX; no column: COUNT(*)."""

    place: int
    column: Column | None
    function: str = ""
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """`column` `operator` `value`; `kind`: text | number | placeholder | average. `second`: upper end of a BETWEEN."""

    place: int
    column: Column
    operator: str
    value: str
    kind: str
    second: str = ""


@dataclass(frozen=True, slots=True)
class Order:
    """Order by `column`, or by COUNT(*) when None. `limit` 0: none."""

    column: Column | None
    descending: bool
    limit: int = 0


@dataclass
class Reading:
    """The request in parts. `tables`: tables its words name, most certain first. `absent`: a table that must not match."""

    outputs: list[Output] = field(default_factory=list)
    filters: list[Filter] = field(default_factory=list)
    group: list[Column] = field(default_factory=list)
    having: tuple[str, str] | None = None
    order: Order | None = None
    distinct: bool = False
    main: str = ""
    tables: list[str] = field(default_factory=list)
    counted: str = ""
    absent: str = ""
    both: bool = False


UNKNOWN = Column("", "", "")
"""Stands for a column that is found out last."""


class Links:
    """A request linked to a schema. `used`: places of words that a rule has taken. `out`: the reading in the making."""

    def __init__(self, schema: Schema, request: str, scorer: Scorer | None) -> None:
        self.schema = schema
        self.request = request
        self.scorer = scorer
        first = words_of(request)
        self.words: list[Word] = with_values(first, mentions_in(schema, first))
        self.mentions = mentions_in(schema, self.words)
        self.lows = [word.low if word.kind == "word" else "" for word in self.words]
        self.used: set[int] = set()  # places of words that a rule has taken
        self.out = Reading()
        self.known_values: dict[str, tuple[Column, str]] = {}
        self.weight = self._weights()

    def _weights(self) -> dict[str, float]:
        weight = {table.name: 0.0 for table in self.schema.tables}
        for mention in self.mentions:
            words = mention.end - mention.start
            exact = 1.5 if not mention.columns or mention.columns[0][1] >= 0.9 or words > 1 else 1.2
            for name in mention.tables:
                weight[name] += exact / len(mention.tables)
            best: dict[str, float] = {}
            for column, score in mention.columns:
                best[column.table] = max(best.get(column.table, 0.0), score * words**0.5)
            for name, score in best.items():
                weight[name] += score * (0.3 if mention.tables else 0.6)
        top = max(weight.values(), default=0.0) or 1.0
        return {name: value / top for name, value in weight.items()}

    def pick(
        self, mention: Mention, numeric: bool = False, fits: Callable[[Column], bool] | None = None
    ) -> Column | None:
        """The column a mention means: name fit, weight of its table, a table named beside it."""
        beside = self._beside(mention)

        def value(item: tuple[Column, float]) -> float:
            column, score = item
            near = 0.5 if column.table in beside else 0.0
            counted = 0.3 if column.table == self.out.counted else 0.0
            return (
                score + 0.35 * self.weight[column.table] + near + (0.2 if numeric and column.numeric else 0.0) - counted
            )

        fitting = [item for item in mention.columns if fits is None or fits(item[0])]
        if not fitting:
            return None
        ranked = sorted(fitting, key=lambda item: -value(item))
        tied = [item[0] for item in ranked if value(ranked[0]) - value(item) < 0.02]
        if len(tied) > 1 and self.scorer is not None:
            scores = self.scorer(self.request, [f"{c.table} {c.name} {c.comment}" for c in tied])
            return tied[max(range(len(tied)), key=lambda index: (scores[index], -index))]
        return tied[0]

    def _beside(self, mention: Mention) -> set[str]:
        """Tables named right before a mention (`singer name`, `singer with name`) or as its owner (`name and age of singers`)."""
        names: set[str] = set()
        for other in self.mentions:
            gap = self.lows[other.end : mention.start]
            if other.tables and other.end <= mention.start and len(gap) <= 2 and all(low in _BEFORE for low in gap):
                names.update(other.tables)
        owner = False
        place = mention.end
        while place < len(self.words):
            here = self.mention_at(place, 0, lambda m: True)
            if here is not None and here.tables and owner:
                names.update(here.tables)
                break
            if here is not None and here.columns:
                place = here.end
            elif self.lows[place] in _GLUE or self.words[place].text == ",":
                owner = owner or self.lows[place] in ("of", "for", "in")
                place += 1
            else:
                break
        return names

    def tables_by_weight(self) -> list[Table]:
        order = {table.name: index for index, table in enumerate(self.schema.tables)}
        return sorted(self.schema.tables, key=lambda table: (-self.weight[table.name], order[table.name]))

    def hinted(self, hints: Iterable[str], numeric: bool = False) -> tuple[Column, bool] | None:
        """The column of the likeliest table whose name holds a hint; True when the hint turns the direction round."""
        for table in self.tables_by_weight():
            if self.weight[table.name] < 0.3:
                continue
            for hint in hints:
                turned, wanted = hint.startswith("-"), stem(hint.lstrip("-"))
                for column in table.columns:
                    words = name_words(column.name)
                    if wanted in words and "id" not in words and (column.numeric or not numeric or column.temporal):
                        return column, turned
        return None

    def mention_at(self, start: int, reach: int, ok: Callable[[Mention], bool]) -> Mention | None:
        for mention in self.mentions:
            if start <= mention.start <= start + reach and ok(mention):
                return mention
        return None

    def phrase(self, phrases: Iterable[tuple[str, ...]], start: int = 0) -> tuple[int, int] | None:
        """First place of any phrase from `start` on: (start, end); longer phrases win at one place."""
        ranked = sorted(phrases, key=lambda item: -len(item))
        for place in range(start, len(self.lows)):
            for item in ranked:
                if tuple(self.lows[place : place + len(item)]) == item:
                    return place, place + len(item)
        return None

    def take(self, mention: Mention) -> None:
        self.used.update(range(mention.start, mention.end))

    def free(self, mention: Mention) -> bool:
        return mention.start not in self.used

    def name_column(self, table_name: str) -> Column | None:
        """The column that names the rows of a table."""
        table = self.schema.table(table_name)
        own = name_words(table.name)
        for wanted in ("name", "title"):
            for exact in (True, False):
                for column in table.columns:
                    words = name_words(column.name)
                    rest = tuple(word for word in words if word not in own)
                    if rest == (wanted,) or (not exact and wanted in words):
                        return column
        return None

    def named(self, table_name: str) -> list[Column]:
        """The columns that together name a row: one name, or first and last name, or the key, or the first column."""
        table = self.schema.table(table_name)
        pair = self.person_names(table)
        single = self.name_column(table_name)
        if pair and (single is None or single in pair):
            return pair
        return [single or table.key or table.columns[0]]

    def person_names(self, table: Table) -> list[Column]:
        """First and last name columns, [] unless both exist."""
        found = [
            c for wanted in ("first", "last") for c in table.columns if {wanted, "name"} <= set(name_words(c.name))
        ]
        return found if len(found) == 2 else []

    def comparison(self, place: int) -> tuple[str, int]:
        """(operator, end) of a comparison phrase at `place`, ("", place) when there is none."""
        for phrase, operator in COMPARISONS:
            if tuple(self.lows[place : place + len(phrase)]) == phrase:
                return operator, place + len(phrase)
        return "", place

    def number(self, place: int) -> str | None:
        if not 0 <= place < len(self.words):
            return None
        word = self.words[place]
        return word.text if word.kind == "number" else NUMBER_WORDS.get(word.low)

    def number_of(self, place: int) -> int:
        """End of `number of` and the like from `place` on, 0 when it does not stand there."""
        found = self.phrase((("number", "of"), ("amount", "of"), ("total", "number", "of"), ("numbers", "of")), place)
        return found[1] if found and found[0] <= place + 1 else 0

    def left(self, place: int, reach: int = 5) -> Mention | None:
        """The nearest column mention before `place`."""
        for mention in reversed(self.mentions):
            if mention.columns and place - reach <= mention.end - 1 < place:
                return mention
        return None

    def filter(self, place: int, column: Column, operator: str, value: str, kind: str, second: str = "") -> None:
        self.out.filters.append(Filter(place, column, operator, value, kind, second))
        self.used.add(place)

    def measure(self, mention: Mention | None) -> Column | None:
        """The number or date that a mention names, or None: keys measure nothing."""
        if mention is None or not mention.columns or mention.columns[0][1] < 0.5:
            return None
        column = self.pick(mention, numeric=True)
        if column is None or not (column.numeric or column.temporal) or "id" in name_words(column.name):
            return None
        return column


_BEFORE = frozenset({"with", "whose", "has", "having", "the", "by"})

_GLUE = frozenset(
    {"and", "of", "for", "in", "the", "all", "each", "every", "a", "an", "any", "these", "those", "different", "our"}
)
