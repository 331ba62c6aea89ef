"""What one database brings to the word indexes: its catalog text taken apart into words. Nothing here looks at another database.

A part depends on the rows of its database alone, so that a catalog in which one database is new or changed reads that one anew and
takes the others over (`Catalog.following`). Counting over all databases is `evidence` and `indexes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from tasks_lib.routeenv.rows import CatalogRows, Row
from tasks_lib.routeenv.tokens import content, raw, tokens


@dataclass(frozen=True, slots=True)
class Part:
    """Words of one database: of its whole description, as spelled, of title and tables, pairs that stand together, a list a table,
    a list a column, and each value as written."""

    described: list[str]
    spelled: list[str]
    names: list[str]
    phrases: list[str]
    tables: list[list[str]]
    columns: list[list[str]]
    values: list[tuple[str, ...]]

    @property
    def value_words(self) -> list[str]:
        """Stemmed words of all values."""
        return content(chain.from_iterable(self.values))


def phrases_of(words: Sequence[str]) -> list[str]:
    """Neighbouring words."""
    return [f"{a} {b}" for a, b in pairwise(words)]


def texts(catalog: CatalogRows, name: str) -> tuple[object, ...]:
    """Everything that `read` reads of a database, to tell whether it has changed."""
    tables = catalog.tables_of.get(name, ())
    return (
        catalog.databases[name]["summary"],
        [card["text"] for card in catalog.cards_of.get(name, ()) if card["object_id"] == name],
        [(table["name"], [_said(c) for c in catalog.columns_of.get(table["table_id"], ())]) for table in tables],
        [entity["value"] for entity in catalog.entities_of.get(name, ())],
    )


def _said(column: Row) -> tuple[object, ...]:
    return column["name"], column["meaning"], column["examples"]


def read(catalog: CatalogRows, name: str) -> Part:
    """Take the catalog text of one database apart."""
    summary = str(catalog.databases[name]["summary"])
    topic = tokens(summary.split(". Holds", maxsplit=1)[0])  # what the records are about, without what it counts
    described = tokens(summary)
    for card in catalog.cards_of.get(name, ()):
        if card["object_id"] == name:
            described += tokens(card["text"])
    spelled, names, phrases = raw(summary), list(topic), phrases_of(topic)
    table_words: list[list[str]] = []
    column_words: list[list[str]] = []
    for table in catalog.tables_of.get(name, ()):
        title = tokens(table["name"])
        mine = list(title)
        names += title
        phrases += phrases_of(title)
        spelled += raw(table["name"])
        for column in catalog.columns_of.get(table["table_id"], ()):
            words, label = raw(f"{column['name']} {column['meaning']}"), tokens(column["name"])
            told = content(words)
            mine += told
            for value in column["examples"]:
                mine += tokens(value)
            phrases += phrases_of(told) + phrases_of(title[-1:] + label[:1]) + phrases_of(label[-1:] + title[:1])
            spelled += words
            column_words.append(told)
        described += mine
        table_words.append(mine + topic)
    values = [tuple(raw(entity["value"])) for entity in catalog.entities_of.get(name, ())]
    return Part(described, spelled, names, phrases, table_words, column_words, values)
