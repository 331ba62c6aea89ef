"""PRIVATE. Gates of the first round: records and text of the gold, nothing is run (PROTOCOL 4)."""

from __future__ import annotations

from tasks_lib.contracts.proposals import Bench, Proposal
from tasks_lib.protocol.vocabulary import Behavior
from tasks_lib.sql.guard import check_sql


def ownership(bench: Bench, proposal: Proposal) -> str | None:
    """Every unit belongs to a database of the corpus, as that file was audited, one unit a database."""
    candidate = proposal.candidate
    for unit in candidate.units:
        database = bench.pool.databases.get(unit.database)
        if database is None or unit.corpus is not candidate.corpus:
            return f"unit {unit.unit_id} names database {unit.database}, which {candidate.corpus.value} does not have."
        if unit.database_digest != database.digest:
            return f"unit {unit.unit_id} was audited on another file of {unit.database}; audit it again."
    if len(set(candidate.databases)) != len(candidate.units):
        return "two units belong to one database, expected one unit a database."
    return None


def schema_references(bench: Bench, proposal: Proposal) -> str | None:
    """Every table and column the gold names is in its database."""
    for unit in proposal.candidate.units:
        tables, columns = bench.neighbourhood.tables[unit.database], bench.neighbourhood.columns[unit.database]
        if lost := [*(t for t in unit.tables if t not in tables), *(c for c in unit.columns if c not in columns)]:
            return f"unit {unit.unit_id} refers to {lost[0]}, which {unit.database} does not have."
    return None


def read_only(bench: Bench, proposal: Proposal) -> str | None:
    """Every gold text is one read-only statement."""
    for unit in proposal.candidate.units:
        report = check_sql(bench.engine, unit.sql)
        if not report.allowed:
            return f"gold of {unit.unit_id} may not run: {report.reason}"
    return None


def duplicate(bench: Bench, proposal: Proposal) -> str | None:
    """No accepted task has the same set of units."""
    if frozenset(proposal.candidate.unit_ids) in bench.seen:
        return "another task has the same set of units."
    return None


def behavior_shape(bench: Bench, proposal: Proposal) -> str | None:
    """Units, edges, bindings and branches are those of the behavior (PROTOCOL 3)."""
    c = proposal.candidate
    linked = {(b.upstream_unit, b.downstream_unit) for b in c.bindings}
    position = {unit_id: at for at, unit_id in enumerate(c.unit_ids)}
    if c.behavior is Behavior.SEQUENTIAL:
        forward = all(a in position and b in position and position[a] < position[b] for a, b in c.edges)
        good = len(c.units) >= 2 and set(c.edges) == linked and len(linked) == len(c.units) - 1 and forward
    elif c.behavior is Behavior.INTERACTIVE:
        good = (
            len(c.units) == 2
            and [b.unit_id for b in c.branches] == list(c.unit_ids)
            and bool(c.slot_question)
            and not linked
        )
    else:
        sizes = range(1, 2) if c.behavior is Behavior.SINGLE else range(2, 9)
        good = len(c.units) in sizes and not c.edges and not c.bindings
    if c.behavior is not Behavior.INTERACTIVE and c.branches:
        good = False
    return None if good else f"units, edges, bindings or branches are not those of a {c.behavior.value} task."
