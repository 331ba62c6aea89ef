"""From a reading to SQL text: which tables are joined along which links, and how the clauses are written.

Belongs here: `compose(schema, reading, postgres) -> list[str]`, the likeliest text first, others behind it for correction
rounds. Does not belong here: understanding the request (`sql_reading`).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from tasks_lib.models.offline.sql_links import Filter, Output, Reading
from tasks_lib.models.offline.sql_schema import Column, Link, Schema

_RESERVED = frozenset(
    [
        "select",
        "from",
        "where",
        "group",
        "order",
        "by",
        "having",
        "limit",
        "join",
        "on",
        "and",
        "or",
        "not",
        "in",
        "is",
        "null",
        "as",
        "case",
        "when",
        "then",
        "else",
        "end",
        "table",
        "index",
        "references",
        "primary",
        "key",
        "check",
        "default",
        "transaction",
        "to",
        "values",
        "union",
        "all",
        "distinct",
        "user",
        "like",
        "between",
        "match",
        "cast",
    ]
)


def compose(schema: Schema, reading: Reading, postgres: bool) -> list[str]:
    """Candidate statements for a reading, without repeats, best first; never empty."""
    writer = _Writer(schema, postgres)
    relaxed = replace(reading, filters=[_relaxed(item) for item in reading.filters])
    loose = [item for item in reading.filters if item.kind == "placeholder"]
    variants = [reading, relaxed]
    variants += [replace(reading, tables=[]), replace(relaxed, tables=[], having=None)]
    variants += [replace(reading, filters=loose), replace(reading, filters=loose, having=None, absent="")]
    return list(dict.fromkeys(writer.statement(variant) for variant in variants))


def _relaxed(item: Filter) -> Filter:
    """The same condition on a part of the value, in any case."""
    if item.kind == "text" and item.operator == "=":
        return replace(item, operator="LIKE", value=f"%{item.value}%")
    return item


class _Writer:
    def __init__(self, schema: Schema, postgres: bool) -> None:
        self.schema = schema
        self.postgres = postgres
        self.graph: dict[str, list[tuple[str, Link]]] = {table.name: [] for table in schema.tables}
        for link in schema.links:
            self.graph[link.source.table].append((link.target.table, link))
            self.graph[link.target.table].append((link.source.table, link))

    def statement(self, reading: Reading) -> str:
        """One SELECT, or two joined by INTERSECT when two values must both hold for one row's name."""
        equal = [item for item in reading.filters if item.kind == "text" and item.operator == "="]
        same = [item for item in equal if equal and item.column == equal[0].column]
        if reading.both and len(same) == 2:
            rest = [item for item in reading.filters if item not in same]
            parts = [replace(reading, filters=[*rest, item], both=False, order=None) for item in same]
            return " INTERSECT ".join(self.statement(part) for part in parts)
        reading = self._reachable(reading)
        needed = self._needed(reading)
        joins, placed = self._from(reading.main, needed)
        several = len(placed) > 1
        text = [f"SELECT {'DISTINCT ' if reading.distinct else ''}{self._outputs(reading, several)}", f"FROM {joins}"]
        conditions = self._conditions(reading, several)
        if conditions:
            text.append("WHERE " + " AND ".join(conditions))
        group = self._group(reading, several)
        if group:
            text.append("GROUP BY " + ", ".join(group))
        if reading.having:
            text.append(f"HAVING COUNT(*) {reading.having[0]} {reading.having[1]}")
        if reading.order is not None:
            column = reading.order.column
            by = self._name(column, several) if column is not None else "COUNT(*)"
            if column is not None and group and by not in group:
                by = f"{'MAX' if reading.order.descending else 'MIN'}({by})"
            text.append(f"ORDER BY {by} {'DESC' if reading.order.descending else 'ASC'}")
            if reading.order.limit:
                text.append(f"LIMIT {reading.order.limit}")
        return " ".join(text)

    # -- tables --

    def _reachable(self, reading: Reading) -> Reading:
        """Without the parts on tables that no link leads to: multiplying tables answers nothing and takes hours.

        Placeholders stay: a query that does not use them counts as wrong anyway.
        """

        def near(column: Column | None) -> bool:
            return column is None or column.table == reading.main or bool(self._path([reading.main], column.table))

        outputs = [output for output in reading.outputs if near(output.column)]
        return replace(
            reading,
            outputs=outputs or [Output(0, None, "COUNT")],
            filters=[item for item in reading.filters if near(item.column) or item.kind == "placeholder"],
            group=[column for column in reading.group if near(column)],
            order=reading.order if reading.order is not None and near(reading.order.column) else None,
            counted=reading.counted if self._path([reading.main], reading.counted) else "",
        )

    def _needed(self, reading: Reading) -> list[str]:
        names = [reading.main]
        names += [output.column.table for output in reading.outputs if output.column is not None]
        names += [item.column.table for item in reading.filters]
        names += [column.table for column in reading.group]
        if reading.order is not None and reading.order.column is not None:
            names.append(reading.order.column.table)
        counts = reading.having or (reading.order is not None and reading.order.column is None) or reading.group
        if reading.counted and counts:
            names.append(reading.counted)
        return [name for name in dict.fromkeys(names) if name in self.graph]

    def _from(self, main: str, needed: list[str]) -> tuple[str, list[str]]:
        """FROM text along shortest paths from the tables already placed; a table no link leads to is multiplied in."""
        placed = [main]
        text = [self._quoted(main)]
        for name in needed:
            for table, link in self._path(placed, name):
                here, there = (link.source, link.target) if link.source.table == table else (link.target, link.source)
                text.append(f"JOIN {self._quoted(table)} ON {self._name(here, True)} = {self._name(there, True)}")
                placed.append(table)
            if name not in placed:
                text.append(f"CROSS JOIN {self._quoted(name)}")
                placed.append(name)
        return " ".join(text), placed

    def _path(self, placed: list[str], goal: str) -> list[tuple[str, Link]]:
        """Steps (new table, link) from any placed table to `goal`, [] when it is placed or cannot be reached."""
        if goal in placed:
            return []
        before: dict[str, tuple[str, Link] | None] = dict.fromkeys(placed)
        queue = deque(placed)
        while queue and goal not in before:
            here = queue.popleft()
            for table, link in sorted(self.graph[here], key=lambda step: not step[1].declared):
                if table not in before:
                    before[table] = (here, link)
                    queue.append(table)
        if goal not in before:
            return []
        steps: list[tuple[str, Link]] = []
        place = goal
        while (step := before[place]) is not None:
            steps.append((place, step[1]))
            place = step[0]
        return steps[::-1]

    # -- clauses --

    def _outputs(self, reading: Reading, several: bool) -> str:
        return ", ".join(self._output(output, several) for output in reading.outputs)

    def _output(self, output: Output, several: bool) -> str:
        if output.column is None:
            return "COUNT(*)"
        name = self._name(output.column, several)
        if not output.function:
            return name
        return f"{output.function}({'DISTINCT ' if output.distinct else ''}{name})"

    def _group(self, reading: Reading, several: bool) -> list[str]:
        """The grouping, and what the outputs force into it: PostgreSQL wants every plain output named."""
        counted = reading.having or (reading.order is not None and reading.order.column is None)
        plain = [o.column for o in reading.outputs if o.column is not None and not o.function]
        columns = list(reading.group)
        if not columns and counted and plain:
            table = self.schema.table(plain[0].table)
            columns = (
                [table.key]
                if table.key is not None and not reading.distinct and reading.counted not in ("", table.name)
                else [plain[0]]
            )
        if not columns and any(o.function for o in reading.outputs) and plain:
            columns = plain
        if columns and self.postgres:
            columns += [column for column in plain if column not in columns]
        return list(dict.fromkeys(self._name(column, several) for column in columns))

    def _conditions(self, reading: Reading, several: bool) -> list[str]:
        made: list[str] = []
        groups: dict[Column, list[Filter]] = {}
        for item in reading.filters:
            groups.setdefault(item.column, []).append(item)
        for items in groups.values():
            equal = [item for item in items if item.operator in ("=", "LIKE") and item.kind in ("text", "number")]
            rest = [item for item in items if item not in equal]
            alternatives = list(dict.fromkeys(self._condition(item, several) for item in equal))
            if len(alternatives) > 1:
                made.append(f"({' OR '.join(alternatives)})")
            else:
                made.extend(alternatives)
            made.extend(self._condition(item, several) for item in rest)
        if reading.absent and (condition := self._absent(reading, several)):
            made.append(condition)
        return made

    def _condition(self, item: Filter, several: bool) -> str:
        name = self._name(item.column, several)
        if item.kind == "placeholder":
            return f"{name} = :{item.value}"
        if item.kind == "average":
            plain = self._quoted(item.column.name)
            return f"{name} {item.operator} (SELECT AVG({plain}) FROM {self._quoted(item.column.table)})"
        if item.operator == "BETWEEN":
            return (
                f"{name} BETWEEN {self._literal(item.column, item.value)} AND {self._literal(item.column, item.second)}"
            )
        if item.operator == "LIKE":
            text = f"CAST({name} AS TEXT) ILIKE" if self.postgres else f"{name} LIKE"
            return f"{text} {_string(item.value)}"
        if item.kind == "number" and item.operator == "=" and _is_dated(item):
            return f"{f'CAST({name} AS TEXT)' if self.postgres else name} LIKE {_string(f'%{item.value}%')}"
        literal = self._literal(item.column, item.value) if item.kind == "number" else _string(item.value)
        return f"{name} {item.operator} {literal}"

    def _absent(self, reading: Reading, several: bool) -> str:
        """NOT IN along the link between the main table and the absent one, or one table between them."""
        steps = self._path([reading.main], reading.absent)
        if not steps:
            return ""
        table, link = steps[0]
        here, there = (link.source, link.target) if link.source.table == reading.main else (link.target, link.source)
        return (
            f"{self._name(here, several)} NOT IN (SELECT {self._quoted(there.name)} FROM {self._quoted(table)} "
            f"WHERE {self._quoted(there.name)} IS NOT NULL)"
        )

    # -- words --

    def _literal(self, column: Column, value: str) -> str:
        if re.fullmatch(r"-?\d+(\.\d+)?", value) and (column.numeric or (not self.postgres and not column.type)):
            return value
        return _string(value)

    def _quoted(self, name: str) -> str:
        plain = r"[a-z_][a-z0-9_]*" if self.postgres else r"[A-Za-z_][A-Za-z0-9_]*"
        if re.fullmatch(plain, name) and name.lower() not in _RESERVED:
            return name
        return '"' + name.replace('"', '""') + '"'

    def _name(self, column: Column, several: bool) -> str:
        name = self._quoted(column.name)
        return f"{self._quoted(column.table)}.{name}" if several else name


def _is_dated(item: Filter) -> bool:
    """A bare year compared with a column of whole dates."""
    return bool(re.search("date|time", item.column.type + item.column.name.lower())) and not item.column.numeric


def _string(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def normal(sql: str) -> str:
    """SQL text for comparing candidates with what was written before."""
    return " ".join(_words(sql))


def _words(sql: str) -> Iterable[str]:
    return sql.strip().rstrip(";").split()
