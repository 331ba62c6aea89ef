"""PRIVATE. Builds RouteDB, the public catalog: rows of every `cat_*` table under public ids (PROTOCOL 6; paper C.1).

Only facts of schemas, column descriptions and (but for replicas) values enter; each row says where its facts come from.
Questions, gold SQL, physical database names and values of replicas never enter: `build` takes databases, not corpora.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tasks_lib.catalog.capabilities import capabilities
from tasks_lib.catalog.columns import label, meaning, sentence
from tasks_lib.catalog.identities import Identities
from tasks_lib.catalog.keys import Key, keys
from tasks_lib.catalog.relations import Column, compatible, inside
from tasks_lib.catalog.values import Connect, EntityValue, entities, examples, synthetic
from tasks_lib.catalog.wording import Hider, listed, words
from tasks_lib.corpora.model import ColumnInfo, CorpusDatabase, TableInfo
from tasks_lib.models.embeddings import chunks, embed
from tasks_lib.store.schemas import (
    CAT_CAPABILITIES,
    CAT_CARDS,
    CAT_COLUMNS,
    CAT_DATABASES,
    CAT_ENTITIES,
    CAT_RELATIONS,
    CAT_TABLES,
    TABLES,
)

Rows = list[dict[str, Any]]

PROVENANCE = {
    "original": "schema and rows of the source database",
    "embedded": "schema and rows of the source database",
    "surrogate": "schema of the source database; rows of a public copy of the same data",
    "replica": "schema of the source database only; rows are made up and their values left out",
}


def build(
    databases: Sequence[CorpusDatabase], identities: Identities, connect: Connect | None = None
) -> dict[str, Rows]:
    """Rows by table name (`cat_databases` … `cat_cards`), sorted by key, so independent of the order of `databases`.

    connect: how a loaded PostgreSQL database is reached, to count its values; without it the reader's examples stand in.
    Embeds the cards (about 20 chunks a second where no cache has them). Raises IdCollision, KeyError for an unknown origin.
    """
    ordered = sorted(databases, key=lambda d: identities.database(d.corpus, d.name))
    writer = _Writer(identities, Hider(database.name for database in databases))
    values = {place: entities(database, connect) for place, database in enumerate(ordered)}
    for place, database in enumerate(ordered):
        found = keys(database)
        writer.database(database, values[place], found)
        for relation in inside(place, found):
            writer.relation(
                ordered, relation.kind, relation.source, relation.target, relation.text, relation.provenance
            )
    for relation in compatible(ordered, values):
        writer.relation(ordered, relation.kind, relation.source, relation.target, relation.text, relation.provenance)
    writer.embed_cards()
    for name, rows in writer.rows.items():
        key = TABLES[name].key
        rows.sort(key=lambda row, key=key: tuple(row[k] for k in key))  # type: ignore[misc]
    return writer.rows


def table_card(database: CorpusDatabase, table: TableInfo) -> str:
    """A paragraph about a table: what it is of, then a sentence a column, each on its line so that long ones are cut between them."""
    title = " ".join(database.title.split()).rstrip(".")
    lines = [f"{title[:1].upper()}{title[1:]}: the {'view' if table.view else 'table'} {words(table.name)}."]
    for column in table.columns:
        told = meaning(column).rstrip(". ")
        such = examples(database, column)[:2]
        lines.append(f"{told[:1].upper()}{told[1:]}{f', such as {listed(such)}' if such else ''}.")
    return "\n".join(lines)


def counted(number: int, what: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


class _Writer:
    """Collects rows; every text that leaves passes the hider."""

    def __init__(self, identities: Identities, hide: Hider) -> None:
        self.ids = identities
        self.hide = hide
        tables = (CAT_DATABASES, CAT_TABLES, CAT_COLUMNS, CAT_CAPABILITIES, CAT_ENTITIES, CAT_RELATIONS, CAT_CARDS)
        self.rows: dict[str, Rows] = {table.name: [] for table in tables}

    def _column_id(self, database: CorpusDatabase, table: str, column: str) -> str:
        return self.ids.column(database.corpus, database.name, table, column)

    def database(self, database: CorpusDatabase, values: Sequence[EntityValue], found: Sequence[Key]) -> None:
        public = self.ids.database(database.corpus, database.name)
        title = self.hide(" ".join(database.title.split())).rstrip(".")
        tables = [words(table.name) for table in database.tables]
        rows = sum(table.row_count for table in database.tables)
        shown = listed(tables[:12] + ([f"{len(tables) - 12} more"] if len(tables) > 12 else []))
        held = f"{counted(rows, 'row')} in {counted(len(tables), 'table')}" if rows else counted(len(tables), "table")
        summary = self.hide(f"{title[:1].upper()}{title[1:]}. Holds {held}: {shown}.")
        self.rows["cat_databases"].append(
            {
                "database_id": public,
                "corpus": database.corpus.value,
                "summary": summary,
                "table_count": len(tables),
                "row_count": rows,
                "evidence_id": self.ids.evidence(public),
                "provenance": PROVENANCE[database.origin],
            }
        )
        self._card(public, public, f"{summary}\n{self.hide(database.knowledge)}".strip())
        for ordinal, table in enumerate(database.tables):
            self._table(database, public, ordinal, table, found)
        for value in values:
            column_id = self._column_id(database, value.table, value.column)
            entity = self.ids.entity(column_id, value.value)
            self.rows["cat_entities"].append(
                {
                    "entity_id": entity,
                    "database_id": public,
                    "column_id": column_id,
                    "value": self.hide(value.value),
                    "count": value.count,
                    "evidence_id": self.ids.evidence(entity),
                    "provenance": value.provenance,
                }
            )

    def _table(
        self, database: CorpusDatabase, public: str, ordinal: int, table: TableInfo, found: Sequence[Key]
    ) -> None:
        table_id = self.ids.table(database.corpus, database.name, table.name)
        labels = [label(column) for column in table.columns]
        shown = listed(labels[:15] + ([f"{len(labels) - 15} more"] if len(labels) > 15 else []))
        held = f"{counted(table.row_count, 'row')} with {shown}" if table.row_count else shown
        summary = self.hide(f"{words(table.name)}: {held}.")
        self.rows["cat_tables"].append(
            {
                "table_id": table_id,
                "database_id": public,
                "ordinal": ordinal,
                "name": self.hide(table.name),
                "summary": summary,
                "row_count": table.row_count,
                "column_count": len(table.columns),
                "evidence_id": self.ids.evidence(table_id),
                "provenance": PROVENANCE[database.origin],
            }
        )
        for place, column in enumerate(table.columns):
            self._column(database, public, table_id, table, place, column)
        for capability in capabilities(database, table, found):
            capability_id = self.ids.capability(table_id, capability.kind, capability.subject)
            self.rows["cat_capabilities"].append(
                {
                    "capability_id": capability_id,
                    "database_id": public,
                    "table_id": table_id,
                    "kind": capability.kind,
                    "text": self.hide(capability.text),
                    "evidence_id": self.ids.evidence(capability_id),
                    "provenance": capability.provenance,
                }
            )
        self._card(table_id, public, self.hide(table_card(database, table)))

    def _column(
        self, database: CorpusDatabase, public: str, table_id: str, table: TableInfo, ordinal: int, column: ColumnInfo
    ) -> None:
        column_id = self._column_id(database, table.name, column.name)
        described = "column description of the corpus" if column.meaning else "name of the column"
        shown = examples(database, column)
        self.rows["cat_columns"].append(
            {
                "column_id": column_id,
                "table_id": table_id,
                "database_id": public,
                "ordinal": ordinal,
                "name": self.hide(column.name),
                "type": column.type,
                "key": "primary" if column.primary else "foreign" if column.references else "",
                "meaning": self.hide(meaning(column)),
                "examples": [self.hide(value) for value in shown],
                "value_range": "" if synthetic(database) else column.value_range,
                "evidence_id": self.ids.evidence(column_id),
                "provenance": f"{described}; {PROVENANCE[database.origin]}",
            }
        )
        title = " ".join(database.title.split()).rstrip(".").lower()
        self._card(column_id, public, self.hide(f"{sentence(column)} of {words(table.name)}, {title}"))

    def relation(
        self, databases: Sequence[CorpusDatabase], kind: str, source: Column, target: Column, text: str, provenance: str
    ) -> None:
        left, right = databases[source[0]], databases[target[0]]
        source_id, target_id = self._column_id(left, *source[1:]), self._column_id(right, *target[1:])
        relation = self.ids.relation(kind, source_id, target_id)
        self.rows["cat_relations"].append(
            {
                "relation_id": relation,
                "kind": kind,
                "source_column_id": source_id,
                "target_column_id": target_id,
                "source_database_id": self.ids.database(left.corpus, left.name),
                "target_database_id": self.ids.database(right.corpus, right.name),
                "text": self.hide(text),
                "evidence_id": self.ids.evidence(relation),
                "provenance": provenance,
            }
        )

    def _card(self, object_id: str, database_id: str, text: str) -> None:
        for number, piece in enumerate(chunks(text)):
            self.rows["cat_cards"].append(
                {"object_id": object_id, "database_id": database_id, "chunk": number, "text": piece, "vector": []}
            )

    def embed_cards(self) -> None:
        """Fill in the vectors of all cards at once."""
        cards = self.rows["cat_cards"]
        for card, vector in zip(cards, embed([card["text"] for card in cards]), strict=True):
            card["vector"] = vector.tolist()
