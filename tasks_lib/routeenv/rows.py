"""The public catalog in memory: rows by public id and by owner. No searching here (see `search`, `lookup`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from tasks_lib.routeenv.reranker import fixed_rows
from tasks_lib.store.artifacts import read_file
from tasks_lib.store.schemas import (
    CAT_CAPABILITIES,
    CAT_CARDS,
    CAT_COLUMNS,
    CAT_DATABASES,
    CAT_ENTITIES,
    CAT_RELATIONS,
    CAT_RERANKER,
    CAT_TABLES,
)

Row = dict[str, Any]

_TABLES = (
    CAT_DATABASES,
    CAT_TABLES,
    CAT_COLUMNS,
    CAT_CAPABILITIES,
    CAT_ENTITIES,
    CAT_RELATIONS,
    CAT_CARDS,
)


def _grouped(rows: Iterable[Row], key: str) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[key], []).append(row)
    return groups


@dataclass
class CatalogRows:
    """`databases`, `tables`, …: rows of the public tables by their id, in declared order inside their owner."""

    databases: dict[str, Row]
    tables: dict[str, Row]
    columns: dict[str, Row]
    capabilities: dict[str, Row]
    entities: dict[str, Row]
    relations: dict[str, Row]
    cards: list[Row]
    reranker: list[Row]

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read `cat_*.parquet` in `folder`; without `cat_reranker`, searches use the fixed weights.

        Raises ArtifactRefused naming a missing or damaged file.
        """
        tables = [*_TABLES, *([CAT_RERANKER] if (folder / f"{CAT_RERANKER.name}.parquet").exists() else [])]
        frames = {t.name: read_file(t, folder / f"{t.name}.parquet") for t in tables}
        cards = frames.pop(CAT_CARDS.name)
        vectors = cards["vector"].explode().to_numpy().reshape(cards.height, -1)  # rows of floats would take seconds
        rows = {name: frame.to_dicts() for name, frame in frames.items()}
        rows[CAT_CARDS.name] = [
            {**row, "vector": vector} for row, vector in zip(cards.drop("vector").to_dicts(), vectors, strict=True)
        ]
        return cls.from_rows(rows)

    @classmethod
    def from_rows(cls, rows: Mapping[str, Iterable[Row]]) -> Self:
        """The same from rows by table name (`cat_databases` …), in any order."""

        def by_id(name: str, key: str, *order: str) -> dict[str, Row]:
            return {row[key]: row for row in sorted(rows[name], key=lambda r: tuple(r[o] for o in (*order, key)))}

        return cls(
            databases=by_id("cat_databases", "database_id"),
            tables=by_id("cat_tables", "table_id", "database_id", "ordinal"),
            columns=by_id("cat_columns", "column_id", "database_id", "table_id", "ordinal"),
            capabilities=by_id("cat_capabilities", "capability_id", "database_id", "table_id", "kind"),
            entities=by_id("cat_entities", "entity_id", "database_id"),
            relations=by_id("cat_relations", "relation_id"),
            cards=sorted(rows["cat_cards"], key=lambda r: (r["database_id"], r["object_id"], r["chunk"])),
            reranker=list(rows.get(CAT_RERANKER.name) or fixed_rows()),
        )

    @cached_property
    def tables_of(self) -> dict[str, list[Row]]:
        """Tables of a database in declared order."""
        return _grouped(self.tables.values(), "database_id")

    @cached_property
    def columns_of(self) -> dict[str, list[Row]]:
        """Columns of a table in declared order."""
        return _grouped(self.columns.values(), "table_id")

    @cached_property
    def capabilities_of(self) -> dict[str, list[Row]]:
        """Capabilities of a database, table by table."""
        return _grouped(self.capabilities.values(), "database_id")

    @cached_property
    def entities_of(self) -> dict[str, list[Row]]:
        """Entities of a database."""
        return _grouped(self.entities.values(), "database_id")

    @cached_property
    def relations_of(self) -> dict[str, list[Row]]:
        """Relations with an end in a database, by relation id."""
        found: dict[str, list[Row]] = {}
        for row in self.relations.values():
            for name in dict.fromkeys((row["source_database_id"], row["target_database_id"])):
                found.setdefault(name, []).append(row)
        return found

    @cached_property
    def cards_of(self) -> dict[str, list[Row]]:
        """Card chunks of a database and its tables."""
        return _grouped(self.cards, "database_id")
