"""PRIVATE. What can be asked of a table, derived by rule from the roles of its columns (PROTOCOL 6).

No model writes here and nothing is learned from questions: a capability is a rule and the facts it was applied to.
"""

from __future__ import annotations

from dataclasses import dataclass

from tasks_lib.catalog.columns import Role, label, role
from tasks_lib.catalog.values import examples, synthetic
from tasks_lib.catalog.wording import listed, words
from tasks_lib.corpora.model import CorpusDatabase, TableInfo


@dataclass(frozen=True, slots=True)
class Capability:
    """`kind`: measure | grouping | filter | time | count. `subject`: column it rests on, or empty."""

    kind: str
    subject: str
    text: str
    provenance: str


def capabilities(database: CorpusDatabase, table: TableInfo) -> list[Capability]:
    """Capabilities of one table: its count, then one a column that is no key, in declared order."""
    subject = words(table.name)
    made_up = synthetic(database)
    roles = [(column, role(table, column, made_up)) for column in table.columns]
    groupings = [label(column) for column, r in roles if r is Role.GROUPING][:3]
    by = f", in all or by {listed(groupings)}" if groupings else ""
    found = [Capability("count", "", f"count {subject} records{by}", "rule count: every table can be counted")]
    for column, r in roles:
        what = label(column)
        if r is Role.MEASURE:
            span = f" (from {column.value_range.replace('..', ' to ')})" if column.value_range and not made_up else ""
            text = f"total, average, lowest and highest {what} of {subject}{span}"
            found.append(
                Capability("measure", column.name, text, "rule measure: numeric column that is no key or code")
            )
        elif r is Role.TIME:
            span = f" (from {column.value_range.replace('..', ' to ')})" if column.value_range and not made_up else ""
            found.append(
                Capability(
                    "time", column.name, f"{subject} over time by {what}{span}", "rule time: date, time or year column"
                )
            )
        elif r is Role.GROUPING:
            shown = examples(database, column)[:3]
            such = f" such as {listed(shown)}" if shown else ""
            found.append(
                Capability(
                    "grouping",
                    column.name,
                    f"{subject} grouped by {what}{such}",
                    "rule grouping: text column with few distinct values",
                )
            )
        elif r is Role.FILTER:
            found.append(
                Capability(
                    "filter", column.name, f"find {subject} by {what}", "rule filter: text column that is no grouping"
                )
            )
    return found
