"""PRIVATE. What a task requires, before any wording: audited units, candidates, frozen contracts, their hash, difficulty.

Belongs here: the records of synthesis and the rules that read nothing but them. Does not belong here: finding candidates
(one module a behavior), judging them (`gates`), putting them into words (`wording`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import sqlglot
from sqlglot import exp

from tasks_lib.protocol.records import Binding, BindingValue, Branch, Contract
from tasks_lib.protocol.vocabulary import Behavior, Corpus, Difficulty
from tasks_lib.store.keys import digest

DIALECTS = {Corpus.SPIDER: "sqlite", Corpus.BIRD: "sqlite", Corpus.LIVESQLBENCH: "postgres"}


@dataclass(frozen=True)
class Unit:
    """One audited source unit: a row of `units`. `first_row`: typed pairs (type, value) of a one-row result, else empty."""

    unit_id: str
    corpus: Corpus
    database: str
    database_digest: str
    question: str
    sql: str
    evidence: str
    tables: tuple[str, ...]
    columns: tuple[str, ...]
    literals: tuple[str, ...]
    result_digest: str
    row_count: int
    column_count: int
    first_row: tuple[tuple[str, Any], ...]
    flags: tuple[str, ...]

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Unit:
        """A unit from its row of the `units` table."""
        pairs = json.loads(row["first_row_json"]) if row["first_row_json"] else []
        return cls(
            unit_id=row["unit_id"],
            corpus=Corpus(row["corpus"]),
            database=row["database"],
            database_digest=row["database_digest"],
            question=row["question"],
            sql=row["sql"],
            evidence=row["evidence"],
            tables=tuple(row["tables"]),
            columns=tuple(row["columns"]),
            literals=tuple(row["literals"]),
            result_digest=row["result_digest"],
            row_count=row["row_count"],
            column_count=row["column_count"],
            first_row=tuple((kind, value) for kind, value in pairs),
            flags=tuple(row["flags"]),
        )

    @cached_property
    def complexity(self) -> int:
        """Points of the gold SQL: see `sql_points`."""
        return sql_points(self.sql, DIALECTS[self.corpus])


@dataclass(frozen=True)
class Candidate:
    """A proposed contract over physical names. `edges`: (upstream, downstream) unit ids. `aggregation`: how contributions
    combine. `shared_question`: the one question of an interactive task that leaves the slot open. Units stand in gold order,
    one per database."""

    corpus: Corpus
    behavior: Behavior
    units: tuple[Unit, ...]
    edges: tuple[tuple[str, str], ...] = ()
    bindings: tuple[Binding, ...] = ()
    branches: tuple[Branch, ...] = ()
    slot_question: str = ""
    aggregation: str = ""
    theme: str = ""
    shared_question: str = ""

    @cached_property
    def candidate_id(self) -> str:
        """sha256 hex of the behavior and the set of units."""
        return digest([self.behavior.value, sorted(unit.unit_id for unit in self.units)])

    @property
    def unit_ids(self) -> tuple[str, ...]:
        return tuple(unit.unit_id for unit in self.units)

    @property
    def databases(self) -> tuple[str, ...]:
        """Physical names aligned with `units`."""
        return tuple(unit.database for unit in self.units)

    @cached_property
    def bound_units(self) -> frozenset[str]:
        """Units that wait for an upstream value."""
        return frozenset(binding.downstream_unit for binding in self.bindings)


@lru_cache(maxsize=16384)
def sql_points(sql: str, dialect: str) -> int:
    """Points of one query: 1 a join (at most 2), 2 a nested query or set operation (at most 4), 1 for grouping or an
    aggregate, 1 for HAVING. Raises ValueError when sqlglot cannot read it."""
    try:
        tree = sqlglot.parse_one(sql, read=dialect)
    except sqlglot.errors.SqlglotError as error:
        raise ValueError(f"gold SQL {sql[:60]!r} cannot be parsed ({error}), expected one {dialect} query.") from error
    joins = sum(1 for _ in tree.find_all(exp.Join))
    nested = sum(1 for _ in tree.find_all(exp.Select)) - 1
    grouped = tree.find(exp.Group, exp.AggFunc) is not None
    return min(joins, 2) + min(2 * nested, 4) + int(grouped) + int(tree.find(exp.Having) is not None)


def difficulty(units: Sequence[Unit], edges: Sequence[tuple[str, str]]) -> Difficulty:
    """The one difficulty rule (PROTOCOL 3; the paper gives none).

    Points = (databases in the target list - 1) + edges + `sql_points` of the hardest unit. Up to 1 point is easy, 2 to 4
    medium, 5 and more hard. An interactive task lists two databases although each branch needs one.
    """
    points = len({unit.database for unit in units}) - 1 + len(edges) + max(unit.complexity for unit in units)
    if points <= 1:
        return Difficulty.EASY
    return Difficulty.MEDIUM if points <= 4 else Difficulty.HARD


def freeze(candidate: Candidate, task_id: str, public_id: Callable[[str], str]) -> Contract:
    """The contract of a candidate. `public_id` turns a physical database name of the corpus into its public id."""
    databases = {unit.unit_id: public_id(unit.database) for unit in candidate.units}
    return Contract(
        task_id=task_id,
        corpus=candidate.corpus,
        behavior=candidate.behavior,
        difficulty=difficulty(candidate.units, candidate.edges),
        unit_ids=candidate.unit_ids,
        databases=tuple(databases[unit_id] for unit_id in candidate.unit_ids),
        edges=tuple((databases[source], databases[target]) for source, target in candidate.edges),
        bindings=candidate.bindings,
        branches=candidate.branches,
        slot_question=candidate.slot_question,
        aggregation=candidate.aggregation,
        theme=candidate.theme,
    )


def executable_hash(contract: Contract) -> str:
    """sha256 hex over every executable field of a contract. A repair of the wording must leave it as it is (PROTOCOL 5).

    Task id, difficulty, theme and `extra` (the template) do not count: they change nothing that runs.
    """
    return digest(
        {
            "corpus": contract.corpus,
            "behavior": contract.behavior,
            "unit_ids": contract.unit_ids,
            "databases": contract.databases,
            "edges": contract.edges,
            "bindings": contract.bindings,
            "branches": contract.branches,
            "slot_question": contract.slot_question,
            "aggregation": contract.aggregation,
        }
    )


def to_row(contract: Contract) -> dict[str, Any]:
    """A contract as its row of the `contracts` table."""
    return {
        "task_id": contract.task_id,
        "corpus": contract.corpus.value,
        "behavior": contract.behavior.value,
        "difficulty": contract.difficulty.value,
        "unit_ids": list(contract.unit_ids),
        "databases": list(contract.databases),
        "edges": [{"source": source, "target": target} for source, target in contract.edges],
        "bindings": [
            {
                "upstream_unit": binding.upstream_unit,
                "downstream_unit": binding.downstream_unit,
                "field": binding.field,
                "column_index": binding.column_index,
                "value_json": json.dumps(binding.value, ensure_ascii=False),
                "downstream_sql": binding.downstream_sql,
                "downstream_question": binding.downstream_question,
            }
            for binding in contract.bindings
        ],
        "branches": [
            {"branch_id": branch.branch_id, "unit_id": branch.unit_id, "answer": branch.answer, "value": branch.value}
            for branch in contract.branches
        ],
        "slot_question": contract.slot_question,
        "aggregation": contract.aggregation,
        "theme": contract.theme,
        "template": contract.extra.get("template", ""),
    }


def from_row(row: Mapping[str, Any]) -> Contract:
    """A contract from its row; `to_row` undone."""

    def value(text: str) -> BindingValue:
        found = json.loads(text)
        if found is None or isinstance(found, str | int | float):
            return found
        raise ValueError(f"contract {row['task_id']}: binding value {text!r} is no text or number; build it again.")

    return Contract(
        task_id=row["task_id"],
        corpus=Corpus(row["corpus"]),
        behavior=Behavior(row["behavior"]),
        difficulty=Difficulty(row["difficulty"]),
        unit_ids=tuple(row["unit_ids"]),
        databases=tuple(row["databases"]),
        edges=tuple((edge["source"], edge["target"]) for edge in row["edges"]),
        bindings=tuple(
            Binding(
                upstream_unit=item["upstream_unit"],
                downstream_unit=item["downstream_unit"],
                field=item["field"],
                column_index=item["column_index"],
                value=value(item["value_json"]),
                downstream_sql=item["downstream_sql"],
                downstream_question=item["downstream_question"],
            )
            for item in row["bindings"]
        ),
        branches=tuple(Branch(b["branch_id"], b["unit_id"], b["answer"], b["value"]) for b in row["branches"]),
        slot_question=row["slot_question"],
        aggregation=row["aggregation"],
        theme=row["theme"],
        extra={"template": row["template"]},
    )
