"""What a request asks for, read from its words and their links to a schema.

Belongs here: `read(schema, request, placeholders) -> Reading`, the order of the rules, and the rules for what is returned.
Does not belong here: joins and SQL text (`sql_compose`). It is a floor, not a parser.
"""

from __future__ import annotations

from collections.abc import Sequence

from tasks_lib.models.offline.sql_conditions import Conditions
from tasks_lib.models.offline.sql_lexicon import ALWAYS_LISTING, ENDING, FUNCTIONS, LISTING, SUPERLATIVES
from tasks_lib.models.offline.sql_linking import Mention
from tasks_lib.models.offline.sql_links import UNKNOWN, Order, Output, Reading, Scorer
from tasks_lib.models.offline.sql_schema import Schema
from tasks_lib.models.offline.sql_shape import Shape
from tasks_lib.models.offline.sql_words import name_words


def read(
    schema: Schema,
    request: str,
    placeholders: Sequence[str] = (),
    knowledge: str = "",
    scorer: Scorer | None = None,
) -> Reading:
    """Read `request` against `schema`, with the sentences of `knowledge` that concern it.

    Every placeholder name given may be used as the value of a filter.
    """
    return _Reader(schema, request, scorer).read(placeholders, knowledge)


class _Reader(Shape, Conditions):
    """The rules in their order."""

    def read(self, placeholders: Sequence[str], knowledge: str) -> Reading:
        self._evidence(knowledge)
        self._order()
        self._group()
        self._having()
        self._superlative()
        self._numbers()
        self._values()
        self._placeholders(placeholders)
        self._absent()
        self._outputs()
        self._tables()
        return self.out

    def _segments(self) -> list[bool]:
        """For every word, whether it stands in a part that says what to return."""
        inside, flags = True, []
        for place, low in enumerate(self.lows):
            fresh = (
                place == 0 or self.words[place - 1].kind == "sign" or self.lows[place - 1] in ("and", "please", "also")
            )
            if low in LISTING and (fresh or low in ALWAYS_LISTING):
                inside = True
            elif low in ENDING and place > 0:
                inside = False
            flags.append(inside)
        return flags

    def _outputs(self) -> None:
        outputs = self._aggregates()
        inside = self._segments()
        wanted = [m for m in self.mentions if inside[m.start] and self.free(m)]
        strict = any(m.columns and not m.tables and m.columns[0][1] >= 0.55 for m in wanted)
        for mention in wanted:
            # A word that is a table and a column alike is the column only where its table is named beside it.
            table_like = bool(mention.tables) and not (
                mention.columns and mention.columns[0][1] >= 0.95 and self._beside(mention)
            )
            if table_like or not mention.columns or (strict and mention.columns[0][1] < 0.45):
                continue
            column = self.pick(mention)
            chosen = [column] if column is not None else []
            if column is not None and self.words[mention.end - 1].stem == "name" and mention.end - mention.start <= 2:
                pair = self.person_names(self.schema.table(column.table))
                spoken = set(self.lows[mention.start : mention.end]) & {"first", "last"}
                chosen = pair if column in pair and not spoken else chosen
                if column in pair and self.lows[mention.start - 2 : mention.start] == ["first", "and"]:
                    chosen = pair
            if self.words[mention.start].stem == "name" and mention.end == mention.start + 1:
                for name in sorted(self._beside(mention)):
                    pair = self.person_names(self.schema.table(name))
                    chosen = pair if pair and self.name_column(name) in (*pair, None) else chosen
            outputs.extend(Output(mention.start, c) for c in chosen if not any(o.column == c for o in outputs))
        counting = any(o.function for o in outputs)
        if self.out.group and counting and not any(o.column == self.out.group[0] and not o.function for o in outputs):
            many = self.phrase((("how", "many"),)) is not None
            outputs.append(Output(-1 if many else self.group_place, self.out.group[0]))
        elif self.out.group and not counting and self.out.order is None and not self.out.having:
            if not any(o.column == self.out.group[0] for o in outputs) and not outputs:
                outputs.append(Output(self.group_place, self.out.group[0]))
            self.out.group = []
        if not self.out.group and outputs and outputs[0].function == "COUNT" and self.out.order is None:
            outputs = [output for output in outputs if output.function or output.place < outputs[0].place]
        fixed = [item.column for item in self.out.filters if item.operator == "=" and item.kind == "text"]
        outputs = [output for output in outputs if output.function or output.column not in fixed] or outputs
        if not outputs:
            outputs = self._default_outputs(wanted)
        self.out.distinct = any(low in ("different", "distinct", "unique") for low in self.lows[:8]) and not any(
            o.function for o in outputs
        )
        self.out.outputs = sorted(outputs, key=lambda output: output.place)

    def _default_outputs(self, wanted: list[Mention]) -> list[Output]:
        for mention in [*wanted, *self.mentions]:
            if mention.tables:
                table = self.schema.table(mention.tables[0])
                self.out.main = self.out.main or table.name
                if any(low in ("information", "info", "detail", "details") for low in self.lows):
                    return [Output(mention.start, column) for column in table.columns]
                return [Output(mention.start, column) for column in self.named(table.name)]
            if mention.columns and mention in wanted:
                column = self.pick(mention)
                if column is not None:
                    return [Output(mention.start, column)]
        table = self.tables_by_weight()[0]
        return [Output(0, column) for column in self.named(table.name)]

    def _aggregates(self) -> list[Output]:
        outputs: list[Output] = []
        for place, low in enumerate(self.lows):
            if place in self.used:
                continue
            function = FUNCTIONS.get(low, "")
            if function == "SUM" and low == "total" and self.number_of(place + 1):
                continue
            if not function and low in SUPERLATIVES and low not in ("top", "most"):
                function = "MAX" if SUPERLATIVES[low][0] else "MIN"
            if function:
                start = place + 1
                while start < len(self.lows) and (
                    self.lows[start] in ("", "and", "the")
                    or self.lows[start] in FUNCTIONS
                    or self.lows[start] in SUPERLATIVES
                ):
                    start += 1
                target = self.mention_at(start, 3, lambda m: bool(m.columns))
                follower = target and target.tables and self.mention_at(target.end, 0, lambda m: bool(m.columns))
                target = follower or target
                column = self.pick(target, numeric=True) if target else None
                self.used.add(place)
                if self.number_of(start):
                    self.used.update(range(start, self.number_of(start)))
                if (
                    target is not None
                    and column is not None
                    and (column.numeric or not column.type or function in ("MIN", "MAX"))
                ):
                    outputs.append(Output(place, column, function))
                    self.used.update(range(target.start, target.end))
                continue
            count_end = self._count_end(place)
            if count_end:
                self.used.update(range(place, count_end))
                outputs.extend(self._count(place, count_end))
        # `minimum and maximum price`: the first word found the column that the second one took, too.
        return outputs

    def _count_end(self, place: int) -> int:
        for phrase in (
            ("how", "many"),
            ("number", "of"),
            ("numbers", "of"),
            ("count", "the", "number", "of"),
            ("count", "of"),
            ("count",),
        ):
            if tuple(self.lows[place : place + len(phrase)]) == phrase:
                if phrase == ("count",) and place > 1 and self.lows[place - 1] in ("the", "and"):
                    return 0
                if phrase[0].startswith("number") and self.lows[max(0, place - 2) : place] == ["count", "the"]:
                    return 0
                if phrase[0].startswith("number") and self._inside_name(place):
                    return 0
                return place + len(phrase)
        return 0

    def _inside_name(self, place: int) -> bool:
        """Whether `number` belongs to a name: `phone number of`, or a column `number of seats`."""
        return any(m.columns and (m.start < place < m.end or (m.end == place and not m.tables)) for m in self.mentions)

    def _count(self, place: int, end: int) -> list[Output]:
        distinct = any(low in ("different", "distinct", "unique") for low in self.lows[end : end + 2])
        target = self.mention_at(end, 3, lambda m: True)
        if target is None:
            return [Output(place, None, "COUNT")]
        self.take(target)
        column = self.pick(target) if target.columns else None
        if target.tables and not (distinct and column is not None and target.columns[0][1] >= 0.9):
            if not self.out.group:
                self.out.main = self.out.main or target.tables[0]
            self.out.counted = self.out.counted or target.tables[0]
            return [Output(place, None, "COUNT")]
        if column is None or any(item.column == column for item in self.out.filters):
            self.out.main = self.out.main or (column.table if column is not None else "")
            return [Output(place, None, "COUNT")]
        self.out.main = self.out.main or column.table
        if "total" in self.lows[end : end + 1] or (
            column.numeric and not column.primary and not distinct and "id" not in name_words(column.name)
        ):
            return [Output(place, column, "SUM")]
        return [Output(place, column, "COUNT", True)]

    def _tables(self) -> None:
        for mention in self.mentions:
            if mention.tables and len(mention.tables) == 1 and mention.tables[0] not in self.out.tables:
                self.out.tables.append(mention.tables[0])
        if not self.out.main:
            owners = [o.column.table for o in self.out.outputs if o.column is not None]
            self.out.main = owners[0] if owners else (self.out.tables or [self.tables_by_weight()[0].name])[0]
        if self.out.order is not None and self.out.order.column is UNKNOWN:
            plain = [o.column for o in self.out.outputs if o.column is not None and not o.function]
            self.out.order = Order(plain[0], self.out.order.descending) if plain else None
