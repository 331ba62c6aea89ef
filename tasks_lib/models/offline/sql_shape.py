"""Rules for the shape of a query: order, grouping, conditions on counts, superlatives, absence.

Belongs here: what decides ORDER BY, GROUP BY, HAVING, LIMIT and NOT IN. Does not belong here: values and numbers
(`sql_conditions`), what is returned (`sql_reading`).
"""

from __future__ import annotations

from tasks_lib.models.offline.sql_lexicon import (
    COMMON,
    COMMON_DOINGS,
    DESCENDING,
    DOWNWARDS,
    GRADED,
    GROUP_CUES,
    HAVING_WORDS,
    LISTING,
    MOST_ROWS,
    ORDER_CUES,
    SUPERLATIVES,
)
from tasks_lib.models.offline.sql_linking import Mention
from tasks_lib.models.offline.sql_links import UNKNOWN, Links, Order
from tasks_lib.models.offline.sql_schema import Column


class Shape(Links):
    """Each rule takes the words it understands."""

    group_place = 0

    def _order(self) -> None:
        found = self.phrase(ORDER_CUES)
        if found is None:
            return
        start, end = found
        if self.lows[start:end][-1:] == ["order"] and end < len(self.lows) and self.lows[end] in ("of", "by"):
            end += 1
        descending = any(low in DESCENDING for low in self.lows[start:]) or self.phrase(DOWNWARDS, start) is not None
        count = self.phrase((("number", "of"), ("count",), ("frequency",)), end)
        mention = self.mention_at(end, 9, lambda m: bool(m.columns))
        while mention and mention.tables and (follower := self.mention_at(mention.end, 0, lambda m: bool(m.columns))):
            mention = follower
        if count and count[0] - end <= 3 and (mention is None or mention.start >= count[0]):
            column = self.pick(mention, numeric=True) if mention and mention.start == count[0] else None
            self.out.order = Order(column, descending)
        elif mention is not None:
            self.out.order = Order(self.pick(mention), descending)
        else:
            self.out.order = Order(None, descending)
        self.used.update(range(start, len(self.words)))
        if self.out.order.column is None and not count:
            self.out.order = Order(UNKNOWN, descending)

    def _group(self) -> None:
        found = self.phrase(GROUP_CUES)
        if (
            found is not None
            and self.lows[found[1] - 1] == "different"
            and self.lows[found[0] - 1] in ("number", "names")
        ):
            found = self.phrase(GROUP_CUES, found[1])
        if found is None or found[0] in self.used:
            return
        mention = self.mention_at(found[1], 2, lambda m: True)
        if mention is None:
            return
        column = self.entity(mention)
        if column is not None:
            self.out.group = [column]
            self.used.add(found[0])
            self.group_place = mention.start
            if mention.tables:
                self.out.tables.append(column.table)

    def entity(self, mention: Mention) -> Column | None:
        """What stands for the rows a mention names: its column, or its table's name or key column."""
        exact = mention.columns and mention.columns[0][1] >= 0.9
        if mention.tables and not (
            exact
            and len(mention.columns) == 1
            and self.weight[mention.columns[0][0].table] > self.weight[mention.tables[0]]
        ):
            table = self.schema.table(mention.tables[0])
            return self.name_column(table.name) or table.key or table.columns[0]
        return self.pick(mention)

    def _having(self) -> None:
        """`more than 2 concerts` where concerts are rows: a condition on a count."""
        for place in range(len(self.words)):
            operator, end = self.comparison(place)
            if not operator and self.number(place) and self.lows[place + 1 : place + 3] == ["or", "more"]:
                operator, end = ">=", place
            if not operator or self.number(end) is None:
                continue
            mention = self.mention_at(end + 1 + 2 * (end == place), 1, lambda m: bool(m.tables))
            if mention is None or (mention.columns and mention.columns[0][1] >= 0.95 and mention.columns[0][0].numeric):
                continue
            if HAVING_WORDS.isdisjoint(self.lows[max(0, place - 3) : place]):
                continue
            self.out.having = (operator, str(self.number(end)))
            self.out.counted = mention.tables[0]
            self.used.update(range(place, mention.end))
            return

    def _superlative(self) -> None:
        for place, low in enumerate(self.lows):
            if low not in SUPERLATIVES or place in self.used or self.out.order is not None:
                continue
            if low in ("most", "least") and self.lows[place - 1] == "at":
                continue
            descending, hints = SUPERLATIVES[low]
            if low in GRADED and self.lows[place - 1] not in ("most", "least"):
                continue
            end = place + 1
            if low in ("most", "least") and end < len(self.lows) and self.lows[end] in GRADED:
                descending, hints = SUPERLATIVES[self.lows[end]][0] == (low == "most"), SUPERLATIVES[self.lows[end]][1]
                end += 1
            limit = self.number(place - 1) or self.number(end) or self._rows_wanted()
            count = self.number_of(end)
            before = self.lows[max(0, place - 4) : place]
            direct = self.mention_at(count or end, 1 if not count else 2, lambda m: bool(m.columns) or bool(m.tables))
            if low == "top" and limit:
                self.used.update((place, end))
            if low in ("max", "min", "maximum", "minimum") or (not count and self._asked_value(place, direct)):
                continue  # MAX(...) or MIN(...), read with the outputs
            self.used.add(place)
            if count:
                self.used.update(range(place, count))
            self.used.update(at for at in (place - 1, end) if self.number(at))
            size = int(limit) if limit and limit.isdigit() and int(limit) <= MOST_ROWS else 1
            common = end < len(self.lows) and self.lows[end] in COMMON
            measured = self.measure(direct)
            if (
                low in ("most", "fewest", "least")
                and direct is not None
                and direct.tables
                and direct.columns[:1]
                and direct.columns[0][1] < 0.95
            ):
                measured = None
            if common:
                after = self.mention_at(end + 1, 2, lambda m: True)
                if self.lows[end] in COMMON_DOINGS or after is None:
                    after = next((m for m in reversed(self.mentions) if m.start < place), after)
                column = self.entity(after) if after else None
                if column:
                    self.out.group, self.out.order = [column], Order(None, descending, size)
            elif direct is not None and measured is not None and low not in ("oldest", "youngest"):
                self.take(direct)
                self.out.order = Order(measured, descending, size)
            elif direct is not None and direct.tables and (count or low in ("most", "fewest", "least")):
                self.take(direct)
                self.out.counted = direct.tables[0]
                self.out.order = Order(None, descending, size)
            elif count or low in ("fewest",):
                self.out.order = Order(None, descending, size)
            elif hint := self.hinted(hints):
                self.out.order = Order(hint[0], descending != hint[1], size)
            elif direct is not None and direct.columns and "by" not in before:
                self.out.order = Order(self.pick(direct, numeric=True), descending, size)
            elif later := self.mention_at(end, 8, lambda m: bool(m.columns) and (self.pick(m) or UNKNOWN).numeric):
                self.out.order = Order(self.pick(later, numeric=True), descending, size)

    def _rows_wanted(self) -> str | None:
        """`the 3 teachers that ...`: a number right before a table, after `the`."""
        for place in range(1, len(self.words)):
            number = self.number(place) if self.lows[place - 1] in ("the", "which", "what", "top") else None
            if number and number != "1" and self.mention_at(place + 1, 0, lambda m: bool(m.tables)):
                self.used.add(place)
                return number
        return None

    def _asked_value(self, place: int, direct: Mention | None) -> bool:
        """`what is the highest price`: the value itself is asked for."""
        if direct is None or not direct.columns or not (self.pick(direct, numeric=True) or UNKNOWN).numeric:
            return False
        before = [low for low in self.lows[:place] if low not in ("the", "a", "an")]
        ahead = self.lows[direct.end : direct.end + 1]
        opened = bool(before) and before[-1] in (*LISTING, "is", "are", "and", "") and before[-1] != "with"
        return (opened and ahead != ["for"]) or (bool(before[-1:]) and before[-1] in ("and",))

    def _absent(self) -> None:
        """`students who do not have a pet`: rows without a partner in another table."""
        for place, low in enumerate(self.lows):
            if low not in ("not", "without", "never", "no", "don't", "doesn't", "didn't", "haven't"):
                continue
            mention = self.mention_at(place + 1, 5, lambda m: bool(m.tables))
            if mention is None or any(place <= f.place <= mention.end + 2 for f in self.out.filters):
                continue
            if low == "no" and mention.start > place + 1:
                continue
            self.out.absent = mention.tables[0]
            self.take(mention)
            return
