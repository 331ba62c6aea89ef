"""PRIVATE. Sequential: an upstream result value is a literal that the downstream gold SQL needs.

A good candidate has an upstream query of exactly one row and one column whose value is a name (no small number, no "Yes", no
letter, no month), stands as a literal in the downstream gold and once in the downstream question, and can be described by the
upstream question. Chains of three come first, then pairs.
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlglot
from sqlglot import exp

from tasks_lib.contracts.contract import DIALECTS, Candidate, Unit
from tasks_lib.contracts.phrases import clause, find_literal, referent, with_referent
from tasks_lib.contracts.pool import Pool, replace_literal
from tasks_lib.contracts.questions import distinctive
from tasks_lib.protocol.records import Binding
from tasks_lib.protocol.vocabulary import Behavior

PLACEHOLDER = "{binding}"


def upstream_value(unit: Unit) -> str | int | None:
    """The one distinctive value a unit gives, or None."""
    if unit.row_count != 1 or unit.column_count != 1 or len(unit.first_row) != 1:
        return None
    kind, value = unit.first_row[0]
    if isinstance(value, str) and kind != "text":
        return None
    return value if isinstance(value, str | int) and distinctive(value) else None


def output_column(unit: Unit) -> tuple[str, str] | None:
    """(table, column) as written that the first result column reads, or None when it is no plain column."""
    tree = sqlglot.parse_one(unit.sql, read=DIALECTS[unit.corpus])
    select = tree.find(exp.Select)
    if select is None or not select.expressions:
        return None
    column = select.expressions[0].unalias()
    if not isinstance(column, exp.Column):
        return None
    sources = {table.alias_or_name.lower(): table.name for table in select.find_all(exp.Table)}
    if column.table:
        table = sources.get(column.table.lower())
    else:
        owners = [ref.split(".", 1)[0] for ref in unit.columns if ref.endswith(f".{column.name.lower()}")]
        table = next((name for name in sources.values() if name.lower() in owners), None)
        if table is None and len(sources) == 1:
            table = next(iter(sources.values()))
    return (table, column.name) if table else None


def binding(pool: Pool, upstream: Unit, downstream: Unit) -> Binding | None:
    """The edge from `upstream` to `downstream`, or None when the value is not a literal of question and gold."""
    value = upstream_value(upstream)
    if value is None or downstream.database == upstream.database:
        return None
    span = find_literal(downstream.question, str(value))
    column = output_column(upstream)
    if span is None or column is None:
        return None
    sql = replace_literal(pool.databases[downstream.database], downstream.sql, str(value), ":binding")
    if sql is None:
        return None
    return Binding(
        upstream_unit=upstream.unit_id,
        downstream_unit=downstream.unit_id,
        field=f"{column[0]}.{column[1]}".lower(),
        column_index=0,
        value=value,
        downstream_sql=sql,
        downstream_question=downstream.question[: span[0]] + PLACEHOLDER + downstream.question[span[1] :],
    )


def described(units: tuple[Unit, ...], bindings: tuple[Binding, ...], as_clause: bool = False) -> str | None:
    """The last unit's question with every upstream value described by its question; None when no rule is sure.

    `as_clause`: the same as it stands after "tell me". The clause is made before the description goes in, so that verbs of the
    description cannot mislead the rules.
    """
    question = units[0].question
    last = bindings[-1].downstream_unit
    for unit, link in zip(units[1:], bindings, strict=True):
        thing = referent(question)
        text: str | None = unit.question
        if as_clause and unit.unit_id == last:
            text = clause(link.downstream_question.replace(PLACEHOLDER, f"'{link.value!s}'"))
        filled = with_referent(text, str(link.value), thing) if thing and text else None
        if filled is None:
            return None
        question = filled
    return question[0].lower() + question[1:] if as_clause else question


def candidates(pool: Pool) -> Iterator[Candidate]:
    """Chains of three, then pairs, in keyed order, each value and each database pair taking turns."""
    by_literal: dict[str, list[Unit]] = {}
    for unit in pool.units:
        for literal in sorted(set(unit.literals)):
            by_literal.setdefault(literal, []).append(unit)
    links: dict[str, list[tuple[Unit, Binding]]] = {}
    for unit in pool.units:
        value = upstream_value(unit)
        for downstream in by_literal.get(str(value), []) if value is not None else []:
            link = binding(pool, unit, downstream)
            if link is not None:
                links.setdefault(unit.unit_id, []).append((downstream, link))
    by_id = {unit.unit_id: unit for unit in pool.units}
    chains = [
        _candidate((by_id[first], second, third), (one, two))
        for first, found in links.items()
        for second, one in found
        for third, two in links.get(second.unit_id, [])
        if third.database != by_id[first].database
    ]
    pairs = [_candidate((by_id[first], second), (one,)) for first, found in links.items() for second, one in found]
    for group in (chains, pairs):
        wordable = [c for c in group if described(c.units, c.bindings) is not None]
        yield from _turns(pool, wordable)


def _candidate(units: tuple[Unit, ...], bindings: tuple[Binding, ...]) -> Candidate:
    edges = tuple((link.upstream_unit, link.downstream_unit) for link in bindings)
    return Candidate(
        units[0].corpus,
        Behavior.SEQUENTIAL,
        units,
        edges,
        bindings,
        aggregation="the last contribution, instantiated upstream",
    )


def _turns(pool: Pool, group: list[Candidate]) -> Iterator[Candidate]:
    by_databases: dict[tuple[str, ...], list[Candidate]] = {}
    for candidate in pool.ordered(group, "sequential", lambda c: c.candidate_id):
        by_databases.setdefault(candidate.databases, []).append(candidate)
    order = pool.ordered(by_databases, "sequential databases", "\x1f".join)
    for turn in range(max(map(len, by_databases.values()), default=0)):
        for names in order:
            if turn < len(by_databases[names]):
                yield by_databases[names][turn]
