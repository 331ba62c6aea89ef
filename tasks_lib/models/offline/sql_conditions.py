"""Rules for filters: which column a number, a value or a placeholder belongs to, and by which comparison.

Does not belong here: conditions on counts (`sql_shape`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tasks_lib.models.offline.sql_evidence import clauses
from tasks_lib.models.offline.sql_lexicon import HINTS, PLACE_HINTS
from tasks_lib.models.offline.sql_linking import Mention
from tasks_lib.models.offline.sql_links import Filter, Links, Order
from tasks_lib.models.offline.sql_schema import Column
from tasks_lib.models.offline.sql_words import name_words

_AFTER_NUMBER: dict[tuple[str, ...], str] = {
    ("or", "more"): ">=",
    ("or", "above"): ">=",
    ("or", "less"): "<=",
    ("or", "fewer"): "<=",
}


class Conditions(Links):
    """Each rule takes the words it understands."""

    def _evidence(self, knowledge: str) -> None:
        """Conditions, extremes and names that the knowledge gives to words of the request."""
        if not knowledge.strip():
            return
        made, self.known_values = clauses(self.schema, knowledge, self.words, self.weight)
        for clause in made:
            span = range(clause.start, clause.end)
            for item in clause.conditions:
                kind = "text" if item.quoted else "number"
                self.out.filters.append(Filter(clause.start, item.column, item.operator, item.value, kind, item.second))
                self.used.update(i for i, word in enumerate(self.words) if word.low == item.value.lower())
            if clause.extreme is not None and self.out.order is None:
                self.out.order = Order(*clause.extreme, 1)
            if clause.column is not None:
                if not span:
                    continue
                self.mentions = [m for m in self.mentions if m.end <= clause.start or m.start >= clause.end]
                self.mentions.append(Mention(clause.start, clause.end, (), ((clause.column, 1.0),)))
                self.mentions.sort(key=lambda mention: mention.start)
            else:
                self.used.update(span)
        columns = [item.column for clause in made for item in clause.conditions]
        columns += [clause.column for clause in made if clause.column is not None]
        for name in {column.table for column in columns}:
            self.weight[name] = min(1.0, self.weight[name] + 0.3)

    def _numbers(self) -> None:
        place = 0
        while place < len(self.words):
            step = self._number_here(place)
            place = max(step, place + 1)

    def _number_here(self, place: int) -> int:
        if place in self.used:
            return place + 1
        if self.lows[place] == "between" and (low := self.number(place + 1)) and (high := self.number(place + 3)):
            column = self._column_for_number(place, place + 4, "between")
            if column:
                self.filter(place, column, "BETWEEN", low, "number", high)
            return place + 4
        operator, end = self.comparison(place)
        if operator:
            skip = end + (1 if end < len(self.lows) and self.lows[end] in ("the", "year", "than") else 0)
            skip += 1 if skip < len(self.lows) and self.lows[skip] in ("year",) else 0
            average = self.phrase((("average",), ("mean",)), end)
            if average and average[0] <= end + 1:
                target = self.mention_at(average[1], 1, lambda m: bool(m.columns)) or self.left(place)
                column = self.pick(target, numeric=True) if target else None
                if column:
                    self.filter(place, column, operator, column.name, "average")
                    self.used.update(range(place, average[1] + 1))
                return average[1]
            number = self.number(skip)
            if number is None:
                return place + 1
            trail = tuple(self.lows[skip + 1 : skip + 3])
            if trail == ("or", "more"):
                operator = ">="
            column = self._column_for_number(place, skip + 1, self.lows[place])
            if column:
                self.filter(place, column, operator, number, "number")
                self.used.add(skip)
            return skip + 1
        number = self.number(place)
        spelled = number is not None and self.words[place].kind == "word" and number != "1"
        if spelled and not self.mention_at(place + 1, 0, lambda m: self.measure(m) is not None):
            return place + 1
        if number is not None and (spelled or self.words[place].kind == "number"):
            trail = tuple(self.lows[place + 1 : place + 3])
            operator = _AFTER_NUMBER.get(trail, "=")
            column = self._column_for_number(place, place + 1, "")
            if column:
                self.filter(place, column, operator, number, "number")
            return place + 1
        return place + 1

    def _column_for_number(self, start: int, end: int, cue: str) -> Column | None:
        def numeric(column: Column) -> bool:
            spoken = any(low in ("id", "ids", "number", "code") for low in self.lows[max(0, start - 4) : end + 2])
            key = column.primary or "id" in name_words(column.name)
            return (column.numeric or column.temporal or not column.type) and (spoken or not key)

        if "old" in self.lows[end : end + 2] and (hint := self.hinted(("age",))):
            return hint[0]
        if cue in HINTS and (hint := self.hinted(HINTS[cue], numeric=True)):
            left = self.left(start, 2)
            named = self.pick(left, True, numeric) if left and left.columns[0][1] >= 0.9 else None
            if left and any(column == hint[0] for column, _score in left.columns):
                self.take(left)
            return named or hint[0]
        year = self.words[end - 1].text if end - 1 < len(self.words) else ""
        right = self.mention_at(end, 1, lambda m: bool(m.columns))
        if right and (column := self.pick(right, True, numeric)) and column.numeric and not column.primary:
            self.take(right)
            return column
        left = self.left(start)
        if (
            left
            and (column := self.pick(left, True, numeric))
            and (
                self.lows[start - 1] in ("in", "is", "of", "was", "than", "with", "code", "id", "number", "year", "")
                or left.end >= start - 2
            )
        ):
            self.take(left)
            return column
        if year.isdigit() and 1500 <= int(year) <= 2100 and (hint := self.hinted(("year", "date", "time"))):
            return hint[0]
        return self.pick(left, True) if left and cue == "" else None

    def _values(self) -> None:
        last: Filter | None = None
        for place, word in enumerate(self.words):
            if word.kind != "value" or place in self.used:
                continue
            known = self.known_values.get(word.low)
            if known is None and self._person(place, word.text):
                continue
            column = known[0] if known else self._column_for_value(place, word.text)
            joined = last is not None and self.lows[place - 1] in ("or", "and") and place - last.place <= 2
            if joined and last is not None and (column is None or self._bare(place)):
                column = last.column
            if column is None:
                continue
            operator, text = self._value_operator(place, known[1] if known else word.text)
            last = Filter(place, column, operator, text, "text")
            if joined and self.lows[place - 1] == "and" and "both" in self.lows:
                self.out.both = True
            self.out.filters.append(last)
            self.used.add(place)

    def _person(self, place: int, text: str) -> bool:
        """`Ada Berg` beside a table of people whose names are in two columns: two filters."""
        parts = text.split(" ")
        if len(parts) != 2 or not all(part[:1].isupper() for part in parts):
            return False
        for table in self.tables_by_weight()[:3]:
            pair = self.person_names(table)
            if pair and self.weight[table.name] > 0.4 and self.name_column(table.name) in (*pair, None):
                for column, part in zip(pair, parts, strict=True):
                    self.filter(place, column, "=", part, "text")
                return True
        return False

    def _bare(self, place: int) -> bool:
        return place < 1 or self.lows[place - 1] in ("or", "and")

    def _value_operator(self, place: int, text: str) -> tuple[str, str]:
        before = self.lows[max(0, place - 6) : place]
        joined = " ".join(before)
        if any(
            cue in joined
            for cue in (
                "contain",
                "includ",
                "substring",
                "has the word",
                "have the word",
                "has the letter",
                "with the word",
                "the word",
            )
        ):
            return "LIKE", f"%{text}%"
        if any(
            cue in joined
            for cue in (
                "start with",
                "starts with",
                "starting with",
                "begin with",
                "begins with",
                "beginning with",
                "prefix",
                "starting",
            )
        ):
            return "LIKE", f"{text}%"
        if any(cue in joined for cue in ("end with", "ends with", "ending with", "suffix")):
            return "LIKE", f"%{text}"
        near = before[-3:]
        if any(
            low in ("not", "except", "excluding", "isn't", "doesn't", "don't", "without")
            for low in self.lows[max(0, place - 5) : place]
        ) or near[-2:] == ["other", "than"]:
            return "!=", text
        return "=", text

    def _column_for_value(self, place: int, text: str) -> Column | None:
        low = text.lower()

        def texty(column: Column) -> bool:
            return not column.numeric

        known = [
            c
            for table in self.tables_by_weight()
            for c in table.columns
            if len(low) > 1 and low in c.comment.lower() and texty(c) and _as_value(low, c.comment.lower())
        ]
        left = self.left(place, 5)
        right = self.mention_at(place + 1, 0, lambda m: bool(m.columns))
        calling = place > 0 and self.lows[place - 1] in ("named", "called", "titled")
        for mention in (left if left and left.end >= place - 2 else None, right, left):
            if mention is None or calling or (mention is left and self._owner_between(mention, place)):
                continue
            column = self.pick(mention, fits=lambda c: texty(c) and (not known or c in known))
            if column is not None and mention.columns[0][1] >= 0.5:
                if mention is not left or left.end >= place - 3:
                    self.take(mention)
                return column
        if known:
            return known[0]
        before = self.lows[place - 1] if place else ""
        before = self.lows[place - 2] if before in ("the", "") and place > 1 else before
        for mention in (left if left and left.end >= place - 3 else None, right):
            if (mention is left and left is not None and self._owner_between(left, place)) or calling:
                continue
            if mention is not None and (column := self.pick(mention, fits=texty)) is not None:
                return column
        near = [m for m in self.mentions if m.tables and (m.start == place + 1 or place - 3 <= m.end - 1 < place)][::-1]
        hint = self.hinted(PLACE_HINTS[before]) if before in PLACE_HINTS else None
        if hint and not calling:
            return hint[0]
        for mention in near:
            if (column := self.name_column(mention.tables[0])) is not None:
                return column
        if hint:
            return hint[0]
        for table in self.tables_by_weight()[:2]:
            if (column := self.name_column(table.name)) is not None:
                return column
        return None

    def _owner_between(self, mention: Mention, place: int) -> bool:
        """Whether a table is named between a column and a value: the value then belongs to that table."""
        return any(m.tables and mention.end <= m.start and m.end <= place for m in self.mentions)

    def _placeholders(self, placeholders: Sequence[str]) -> None:
        if not placeholders:
            return
        best: tuple[float, int, str, Column] | None = None
        for order, name in enumerate(placeholders):
            field_words = name_words(name.split("_", 1)[1] if name.startswith("up") and "_" in name else name)
            for table in self.tables_by_weight():
                for column in table.columns:
                    words = name_words(column.name)
                    shared = len(set(words) & set(field_words)) / len(set(words) | set(field_words))
                    spoken = any(column == item and score >= 0.7 for m in self.mentions for item, score in m.columns)
                    value = shared + 0.3 * self.weight[table.name] + (0.25 if spoken and not column.numeric else 0.0)
                    if best is None or value > best[0] + 1e-9:
                        best = (value, -order, name, column)
        if best is not None:
            self.out.filters.append(Filter(len(self.words), best[3], "=", best[2], "placeholder"))


def _as_value(low: str, comment: str) -> bool:
    """Whether a value stands in a comment as a whole."""
    place = comment.find(low)
    before, after = comment[place - 1 : place], comment[place + len(low) : place + len(low) + 1]
    return not before.isalnum() and not after.isalnum()
