"""What a published table is, and the Arrow types of its columns. No table here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

STR, INT, REAL, BOOL = pa.string(), pa.int64(), pa.float64(), pa.bool_()
STRS = pa.list_(pa.string())
NODES = pa.list_(pa.struct([("database_id", STR), ("information_request", STR)]))
ROUTE_EDGES = pa.list_(pa.struct([("source", STR), ("target", STR), ("type", STR), ("reason", STR)]))
PAIRS = pa.list_(pa.struct([("source", STR), ("target", STR)]))
BINDINGS = pa.list_(
    pa.struct(
        [
            ("upstream_unit", STR),
            ("downstream_unit", STR),
            ("field", STR),
            ("column_index", INT),
            ("value_json", STR),
            ("downstream_sql", STR),
            ("downstream_question", STR),
        ]
    )
)
BRANCHES = pa.list_(pa.struct([("branch_id", STR), ("unit_id", STR), ("answer", STR), ("value", STR)]))


@dataclass(frozen=True)
class Table:
    """A published table. `columns`: (name, type, meaning). All columns are non-null unless named in `nullable`."""

    name: str
    version: int
    about: str
    columns: Sequence[tuple[str, pa.DataType, str]]
    key: tuple[str, ...]
    visibility: str = "private"
    nullable: frozenset[str] = frozenset()

    @property
    def stage(self) -> str:
        return f"{self.name}@{self.version}"

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(n, t, nullable=n in self.nullable) for n, t, _ in self.columns])
