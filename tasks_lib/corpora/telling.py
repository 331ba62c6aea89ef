"""PRIVATE. What the text of a gold query alone tells: references, order, flags, and the probes it calls for.

Belongs here: reading each distinct gold once, a pure function of the text and the schema of its database, so that it may
run in another process. Does not belong here: anything that results show (`units`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp
from sqlglot.errors import SqlglotError

from tasks_lib.corpora.flags import text_flags
from tasks_lib.corpora.model import CorpusDatabase
from tasks_lib.corpora.probes import Site, backward_probe, sites
from tasks_lib.corpora.references import References, parsed_query, references_in
from tasks_lib.sql.guard import check_sql


@dataclass(frozen=True, slots=True)
class Told:
    """`ordered`: the outermost query has an ORDER BY. `flags`: those of the text. `sites`, `backward`: see `probes`."""

    refers: References = field(default_factory=References)
    ordered: bool = False
    flags: frozenset[str] = frozenset()
    sites: tuple[Site, ...] = ()
    backward: str = ""


def tell_all(database: CorpusDatabase, golds: Sequence[str]) -> list[Told]:
    """Read the golds of one database (trimmed texts)."""
    return [tell(database, sql) for sql in golds]


def tell(database: CorpusDatabase, sql: str) -> Told:
    """Read one gold (a trimmed text). Of what the guard refuses nothing is told: the runner refuses it too, and says why."""
    if not check_sql(database.engine, sql).allowed:
        return Told()
    try:
        tree = parsed_query(database.engine, sql)
    except (ValueError, SqlglotError, RecursionError):
        return Told(flags=frozenset({"refused"}))
    flags = text_flags(database.engine, sql, tree)
    ordered = _ordered(tree)
    try:
        refers = references_in(tree, sql, database)
    except (SqlglotError, RecursionError):
        return Told(ordered=ordered, flags=frozenset(flags | {"refused"}))
    if not refers.tables and not refers.missing_tables:
        flags.add("trivial")
    named = {
        "dqs_literal": refers.dqs_literals,
        "dqs_shadowed": refers.dqs_shadowed,
        "missing_table": refers.missing_tables,
        "missing_column": refers.missing_columns,
    }
    flags |= {flag for flag, names in named.items() if names}
    tables = frozenset(table.name.lower() for table in database.tables)
    backward = backward_probe(database.engine, sql, tree, tables)
    return Told(refers, ordered, frozenset(flags), sites(database.engine, sql), backward)


def schema_only(database: CorpusDatabase) -> CorpusDatabase:
    """The database without what texts are not held against: what goes to another process is small."""
    tables = tuple(
        replace(table, columns=tuple(replace(column, meaning="", examples=()) for column in table.columns))
        for table in database.tables
    )
    return replace(database, tables=tables, ddl="", knowledge="")


def _ordered(tree: exp.Expr) -> bool:
    """As `sql.guard.is_ordered`, of a tree at hand."""
    node = tree
    while not node.args.get("order") and isinstance(node, exp.Subquery):
        node = node.this
    return bool(node.args.get("order"))
