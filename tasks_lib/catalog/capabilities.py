"""PRIVATE. What can be asked of a table, derived by rule from the roles of its columns and the keys between tables (PROTOCOL 6).

No model writes here and nothing is learned from questions: a capability is a rule and the facts it was applied to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tasks_lib.catalog.columns import Role, label, role
from tasks_lib.catalog.keys import Key
from tasks_lib.catalog.values import examples, synthetic
from tasks_lib.catalog.wording import listed, singular, words
from tasks_lib.corpora.model import ColumnInfo, CorpusDatabase, TableInfo

JOINS = 12
"""Capabilities of one table that rest on tables which refer to it."""

RULES = {
    "count": "rule count: every table can be counted",
    "join": "rule join: another table refers to this one by a key",
    "measure": "rule measure: numeric column that is no key, code or year",
    "time": "rule time: date, time or year column",
    "grouping": "rule grouping: text column with few distinct values, or named like a category where none were read",
    "flag": "rule flag: column that says yes or no",
    "filter": "rule filter: text column that is no grouping",
}
"""Provenance of a capability by the rule that derived it."""


@dataclass(frozen=True, slots=True)
class Capability:
    """`kind`: count | join | measure | grouping | filter | time. `subject`: what it rests on inside the table, or empty."""

    kind: str
    subject: str
    text: str
    provenance: str


def capabilities(database: CorpusDatabase, table: TableInfo, keys: Sequence[Key]) -> list[Capability]:
    """Capabilities of one table: its count, what refers to it, then one a column that is no key, in declared order.

    `keys`: keys of the whole database.
    """
    subject = words(table.name)
    made_up = synthetic(database)
    roles = [(column, role(table, column, made_up)) for column in table.columns]
    groupings = [label(column) for column, r in roles if r is Role.GROUPING][:3]
    by = f", in all or by {listed(groupings)}" if groupings else ""
    found = [Capability("count", "", f"count {singular(subject)} records{by}", RULES["count"])]
    found += _joins(table, keys)
    for column, r in roles:
        what = label(column)
        match r:
            case Role.MEASURE:
                text = f"total, average, lowest and highest {what} of {subject}{_span(column, made_up)}"
                found.append(Capability("measure", column.name, text, RULES["measure"]))
            case Role.TIME:
                text = f"{subject} over time by {what}{_span(column, made_up)}"
                found.append(Capability("time", column.name, text, RULES["time"]))
            case Role.GROUPING:
                shown = examples(database, column)[:3]
                such = f" such as {listed(shown)}" if shown else ""
                text = f"{subject} grouped by {what}{such}"
                found.append(Capability("grouping", column.name, text, RULES["grouping"]))
            case Role.FLAG:
                text = f"{subject} with and without {what}"
                found.append(Capability("filter", column.name, text, RULES["flag"]))
            case Role.FILTER:
                found.append(Capability("filter", column.name, f"find {subject} by {what}", RULES["filter"]))
            case Role.KEY:
                pass
    return found


def _span(column: ColumnInfo, made_up: bool) -> str:
    low, _, high = column.value_range.partition("..")
    if made_up or not high:
        return ""
    return f" (from {low} to {high})" if low != high else f" (always {low})"


def _joins(table: TableInfo, keys: Sequence[Key]) -> list[Capability]:
    """What can be counted for each row of `table`: records that refer to it, and other things those records tie to it."""
    subject = singular(words(table.name))
    from_table: dict[str, list[Key]] = defaultdict(list)
    for key in keys:
        from_table[key.table].append(key)
    found: dict[str, Capability] = {}
    for child, mine in from_table.items():
        if child == table.name or all(key.target_table != table.name for key in mine):
            continue
        declared = any(key.declared for key in mine if key.target_table == table.name)
        source = RULES["join"] if declared else f"{RULES['join']} that is not declared"
        found[child] = Capability(
            "join", child, f"number of {singular(words(child))} records for each {subject}", source
        )
        for other in dict.fromkeys(key.target_table for key in mine):
            if other not in (table.name, child):
                text = f"{singular(words(other))} records of each {subject}, joined by {words(child)}"
                found[f"{child} {other}"] = Capability("join", f"{child}\n{other}", text, source)
    return list(found.values())[:JOINS]
