"""RouteEnv: one episode's view of the public catalog, through actions that state facts and never pick a route (paper C.1, F.2).

Every answer is filtered to the task's allowlist, size-capped and carries stable evidence ids. Nothing a caller writes can raise:
a call that cannot be answered is an observation with an error. Search itself is `search`, argument rules are `actions`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks_lib.protocol.records import PublicTask
from tasks_lib.routeenv.actions import ACTIONS, HERMES_TOOLS, RELATION_TYPES, ArgumentError, read_arguments
from tasks_lib.routeenv.observations import MAX_CHARACTERS, Answer, Item, Observation
from tasks_lib.routeenv.rows import Row
from tasks_lib.routeenv.search import Catalog

__all__ = ["ACTIONS", "HERMES_TOOLS", "Observation", "RouteEnv", "Step"]

CAPABILITIES = 12
"""Capabilities shown with a database, taking turns among its tables."""
SKILL_COLUMNS = 40

_PREFIXES = {"database": "db_", "table": "tb_", "column": "col_"}
_TABLE = ("table_id", "name", "summary", "row_count", "column_count", "evidence_id")
_COLUMN = ("column_id", "name", "type", "key", "meaning", "examples", "value_range", "evidence_id")
_CAPABILITY = ("capability_id", "table_id", "kind", "text", "evidence_id")
_RELATION = (
    "relation_id",
    "kind",
    "source_database_id",
    "source_column_id",
    "target_database_id",
    "target_column_id",
    "text",
    "evidence_id",
)


@dataclass(frozen=True, slots=True)
class Step:
    """One call of an episode with its answer; `arguments` as the caller gave them, {} where they were no object."""

    action: str
    arguments: Mapping[str, Any]
    observation: Observation


class RouteEnv:
    """One episode over the catalog. Not shared between episodes; the catalog is.

    `evidence`: evidence ids observed so far, each with the database it counts for, in order of appearance.
    `cap`: characters of an observation; only people, who may read on, ask for more than the default.
    `observed`: databases that appeared in an observation, in order of appearance. `transcript`: every call with its answer.
    """

    def __init__(self, catalog: Catalog, task: PublicTask, step_budget: int = 30, cap: int = MAX_CHARACTERS) -> None:
        unknown = [name for name in task.allowlist if name not in catalog.databases]
        if unknown:
            raise ValueError(
                f"Task {task.task_id}: allowlist names {unknown[0]}, expected ids of the catalog; build catalog and tasks of one release."
            )
        self.catalog = catalog
        self.task = task
        self.step_budget = step_budget
        self.cap = cap
        self.evidence: dict[str, str] = {}
        self.transcript: list[Step] = []
        self._allowed = frozenset(task.allowlist)
        self._observed: dict[str, None] = {}
        self._lock = threading.Lock()

    @property
    def observed(self) -> tuple[str, ...]:
        """Databases that appeared in an observation, in order of first appearance."""
        return tuple(self._observed)

    @property
    def steps_left(self) -> int:
        """Calls that will still be answered. Calls with faulty arguments count too."""
        return self.step_budget - len(self.transcript)

    def call(self, action: str, arguments: Mapping[str, Any]) -> Observation:
        """Answer one of ACTIONS or HERMES_TOOLS. Faulty calls and a spent budget give an observation with an error.

        Calls from several threads are answered one after the other, each counted once.
        """
        with self._lock:
            if self.steps_left <= 0:
                return Observation("", {}, (), (), f"no steps are left: the budget of {self.step_budget} is spent.")
            try:
                found = read_arguments(action, arguments)
                # Every action is the method of its name; the names are a closed list that `read_arguments` has checked.
                answer: Callable[..., Answer] = getattr(self, f"_{action}")
                observation, evidence = answer(**found).finish(self.cap)
            except ArgumentError as error:
                observation, evidence = Observation("", {}, (), (), str(error)), {}
            for name, database in evidence.items():
                self.evidence.setdefault(name, database)
            self._observed.update(dict.fromkeys(observation.database_ids))
            given = dict(arguments) if isinstance(arguments, Mapping) else {}
            self.transcript.append(Step(str(action), given, observation))
            return observation

    # ---- resolving ids ----

    def _owned(self, rows: Mapping[str, Row], name: str, what: str) -> Row:
        row = rows.get(name)
        if row is None or row["database_id"] not in self._allowed:
            # An id of another database is refused in the same words as one that does not exist, and not repeated.
            raise ArgumentError(
                f"that id is no {what} of the candidate databases; use an id {_PREFIXES[what]}… from an observation."
            )
        return row

    def _database(self, name: str) -> Row:
        return self._owned(self.catalog.databases, name, "database")

    # ---- rows as shown ----

    @staticmethod
    def _database_item(row: Row, **more: Any) -> Item:
        shown = {k: row[k] for k in ("database_id", "corpus", "summary", "evidence_id")}
        return Item({**shown, **more}, (row["database_id"],))

    @staticmethod
    def _item(row: Row, names: Iterable[str], owned: bool = False) -> Item:
        """`owned`: name the database in the row, where the answer is about several."""
        first = {"database_id": row["database_id"]} if owned else {}
        return Item({**first, **{k: row[k] for k in names if row[k] not in ("", [])}}, (row["database_id"],))

    @staticmethod
    def _relation_item(row: Row) -> Item:
        owners = dict.fromkeys((row["source_database_id"], row["target_database_id"]))
        return Item({k: row[k] for k in _RELATION}, tuple(owners))

    def _column_item(self, row: Row) -> Item:
        shown = {k: row[k] for k in ("database_id", "table_id", "column_id", "name")}
        table = self.catalog.tables[row["table_id"]]["name"]
        return Item({**shown, "table": table, "evidence_id": row["evidence_id"]}, (row["database_id"],))

    def _entity_item(self, row: Row) -> Item:
        column = self.catalog.columns[row["column_id"]]
        table = self.catalog.tables[column["table_id"]]
        shown = {k: row[k] for k in ("database_id", "entity_id", "value", "column_id")}
        count = {"count": row["count"]} if row["count"] else {}
        found_in = f"{column['name']} of {table['name']}"
        return Item({**shown, "found_in": found_in, **count, "evidence_id": row["evidence_id"]}, (row["database_id"],))

    def _head(self, row: Row) -> Answer:
        item = self._database_item(row, table_count=row["table_count"], row_count=row["row_count"])
        return Answer({"database": dict(item.shown)}, [item])

    def _capabilities(self, name: str, most: int) -> tuple[list[Item], int]:
        """Capabilities of a database, its tables taking turns, and how many are left out."""
        order = {table["table_id"]: i for i, table in enumerate(self.catalog.tables_of.get(name, ()))}
        turns: dict[str, int] = {}
        rows = []
        for row in self.catalog.capabilities_of.get(name, ()):
            turn = turns[row["table_id"]] = turns.get(row["table_id"], -1) + 1
            rows.append((turn, order[row["table_id"]], row))
        rows.sort(key=lambda entry: entry[:2])
        return [self._item(row, _CAPABILITY) for _, _, row in rows[:most]], max(0, len(rows) - most)

    def _relations(self, rows: Iterable[Row]) -> list[Row]:
        """Relations whose two ends are both allowed."""
        return [
            row
            for row in rows
            if row["source_database_id"] in self._allowed and row["target_database_id"] in self._allowed
        ]

    # ---- the nine actions ----

    def _search_catalog(self, query: str, dataset: str | None, top_k: int) -> Answer:
        found = self.catalog.search(query, self._allowed, top_k, dataset)
        items = [self._database_item(self.catalog.databases[name], score=round(score, 4)) for name, score in found]
        return Answer(lists={"databases": items})

    def _inspect_database(self, database_id: str, table_limit: int) -> Answer:
        answer = self._head(self._database(database_id))
        tables = self.catalog.tables_of.get(database_id, [])
        capabilities, left = self._capabilities(database_id, CAPABILITIES)
        answer.lists = {"tables": [self._item(t, _TABLE) for t in tables[:table_limit]], "capabilities": capabilities}
        answer.omitted = {"tables": max(0, len(tables) - table_limit), "capabilities": left}
        return answer

    def _inspect_table(self, table_id: str, column_limit: int) -> Answer:
        table = self._owned(self.catalog.tables, table_id, "table")
        item = self._item(table, _TABLE, owned=True)
        columns = self.catalog.columns_of.get(table_id, [])
        return Answer(
            {"table": dict(item.shown)},
            [item],
            {"columns": [self._item(c, _COLUMN) for c in columns[:column_limit]]},
            {"columns": max(0, len(columns) - column_limit)},
        )

    def _inspect_column(self, column_id: str) -> Answer:
        column = self._owned(self.catalog.columns, column_id, "column")
        item = self._item(column, (*_COLUMN, "table_id", "provenance"), owned=True)
        rows = self._relations(self.catalog.relations_of.get(column["database_id"], ()))
        mine = [r for r in rows if column_id in (r["source_column_id"], r["target_column_id"])]
        return Answer(
            {"column": dict(item.shown)},
            [item],
            {"relations": [self._relation_item(r) for r in mine[:20]]},
            {"relations": max(0, len(mine) - 20)},
        )

    def _search_capability(self, query: str, dataset: str | None, top_k: int) -> Answer:
        rows = self.catalog.lookup.capabilities(query, self._allowed, top_k, dataset)
        return Answer(lists={"capabilities": [self._item(row, _CAPABILITY, owned=True) for row in rows]})

    def _search_entity(self, query: str, dataset: str | None, top_k: int) -> Answer:
        rows = self.catalog.lookup.entities(query, self._allowed, top_k, dataset)
        return Answer(lists={"values": [self._entity_item(row) for row in rows]})

    def _check_coverage(self, database_id: str) -> Answer:
        answer = self._head(self._database(database_id))
        seen = [name for name, owner in self.evidence.items() if owner == database_id]
        held = set(seen)
        tables = self.catalog.tables_of.get(database_id, [])
        kinds = {
            "tables": tables,
            "columns": [c for t in tables for c in self.catalog.columns_of.get(t["table_id"], ())],
            "capabilities": self.catalog.capabilities_of.get(database_id, []),
            "values": self.catalog.entities_of.get(database_id, []),
            "relations": self._relations(self.catalog.relations_of.get(database_id, ())),
        }
        answer.head["coverage"] = {
            kind: {"observed": sum(row["evidence_id"] in held for row in rows), "in_all": len(rows)}
            for kind, rows in kinds.items()
        }
        answer.head["observed_evidence"] = seen[:60]
        answer.omitted = {"observed_evidence": max(0, len(seen) - 60)}
        return answer

    def _expand_relations(
        self, object_type: str, object_id: str, relation_types: list[str] | None, depth: int, limit: int
    ) -> Answer:
        catalog = self.catalog
        rows = {"database": catalog.databases, "table": catalog.tables, "column": catalog.columns}[object_type]
        row = self._owned(rows, object_id, object_type)
        if object_type == "database":
            frontier = {
                c["column_id"]
                for t in catalog.tables_of.get(object_id, ())
                for c in catalog.columns_of.get(t["table_id"], ())
            }
        elif object_type == "table":
            frontier = {c["column_id"] for c in catalog.columns_of.get(object_id, ())}
        else:
            frontier = {object_id}
        kinds = set(relation_types or RELATION_TYPES)
        databases = {row["database_id"]}
        found: dict[str, Row] = {}
        for _ in range(depth):
            reached: set[str] = set()
            for name in sorted(databases):
                for relation in self._relations(catalog.relations_of.get(name, ())):
                    ends = {relation["source_column_id"], relation["target_column_id"]}
                    if relation["kind"] in kinds and ends & frontier and relation["relation_id"] not in found:
                        found[relation["relation_id"]] = relation
                        reached |= {catalog.columns[end]["table_id"] for end in ends}
            frontier = {c["column_id"] for table in reached for c in catalog.columns_of[table]}
            databases = {catalog.tables[table]["database_id"] for table in reached}
        kept = list(found.values())
        head = {"object_type": object_type, "object_id": object_id, "database_id": row["database_id"]}
        return Answer(
            head,
            [Item({}, (row["database_id"],))],
            {"relations": [self._relation_item(r) for r in kept[:limit]]},
            {"relations": max(0, len(kept) - limit)},
        )

    def _between(self, source: str, target: str) -> list[Row]:
        ends = {source, target}
        rows = self._relations(self.catalog.relations_of.get(source, ()))
        return [r for r in rows if {r["source_database_id"], r["target_database_id"]} == ends]

    def _check_compatibility(self, source_database_id: str, target_database_id: str, limit: int) -> Answer:
        self._database(source_database_id)
        self._database(target_database_id)
        if source_database_id == target_database_id:
            raise ArgumentError("check_compatibility compares two databases, found one id twice; give two.")
        rows = self._between(source_database_id, target_database_id)
        return Answer(
            {"source_database_id": source_database_id, "target_database_id": target_database_id},
            [Item({}, (source_database_id, target_database_id))],
            {"relations": [self._relation_item(r) for r in rows[:limit]]},
            {"relations": max(0, len(rows) - limit)},
        )

    # ---- Hermes' tools over the same rows ----

    def _route_search(self, query: str, top_k: int) -> Answer:
        """Each database with its own line, and beside it the columns (with their tables), capabilities and values that match best."""
        found = self.catalog.search(query, self._allowed, top_k)
        names = [name for name, _ in found]
        databases = [self._database_item(self.catalog.databases[name], score=round(score, 4)) for name, score in found]
        columns = self.catalog.lookup.columns(query, names, 200)
        capabilities = self.catalog.lookup.capabilities(query, names, 200)
        values = self.catalog.lookup.entities(query, names, 200)
        return Answer(
            lists={
                "databases": databases,
                "columns": [self._column_item(row) for row in _first(columns, names, 1)],
                "capabilities": [self._item(row, _CAPABILITY, owned=True) for row in _first(capabilities, names, 2)],
                "values": [self._entity_item(row) for row in _first(values, names, 2)],
            }
        )

    def _load_database_skill(self, database_id: str) -> Answer:
        answer = self._head(self._database(database_id))
        tables = []
        for table in self.catalog.tables_of.get(database_id, ()):
            columns = [c["name"] for c in self.catalog.columns_of.get(table["table_id"], ())]
            item = self._item(table, ("table_id", "name", "row_count"))
            shown = {**item.shown, "columns": columns[:SKILL_COLUMNS], "evidence_id": table["evidence_id"]}
            tables.append(Item(shown, item.owners))
        capabilities, left = self._capabilities(database_id, CAPABILITIES)
        rows = self._relations(self.catalog.relations_of.get(database_id, ()))
        joins = [self._relation_item(r) for r in rows if r["kind"] != "compatible"]
        answer.lists = {"tables": tables, "capabilities": capabilities, "joins": joins}
        answer.omitted = {"capabilities": left}
        return answer

    def _inspect_relationships(self, database_id: str, target_database_id: str | None, limit: int) -> Answer:
        self._database(database_id)
        rows = self._relations(self.catalog.relations_of.get(database_id, ()))
        owners: tuple[str, ...] = (database_id,)
        if target_database_id is not None:
            self._database(target_database_id)
            rows = [
                r
                for r in rows
                if {r["source_database_id"], r["target_database_id"]} <= {database_id, target_database_id}
                and (r["kind"] == "compatible" or target_database_id == database_id)
            ]
            owners = (database_id, target_database_id)
        return Answer(
            {"database_id": database_id},
            [Item({}, owners)],
            {"relations": [self._relation_item(r) for r in rows[:limit]]},
            {"relations": max(0, len(rows) - limit)},
        )


def _first(rows: Iterable[Row], names: Iterable[str], most: int) -> list[Row]:
    """At most `most` rows of each database, databases in the order of `names`."""
    kept: dict[str, list[Row]] = {name: [] for name in names}
    for row in rows:
        if len(kept[row["database_id"]]) < most:
            kept[row["database_id"]].append(row)
    return [row for mine in kept.values() for row in mine]
