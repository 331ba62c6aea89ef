"""PRIVATE. Gates of single behaviors: bindings of sequential tasks, branches of interactive ones (PROTOCOL 3, 4)."""

from __future__ import annotations

from collections.abc import Sequence

from tasks_lib.contracts.contract import Unit
from tasks_lib.contracts.interactive import rivals
from tasks_lib.contracts.pool import replace_literal
from tasks_lib.contracts.proposals import Bench, Proposal, gold, same_rows
from tasks_lib.contracts.questions import content, normal, stands_in, words
from tasks_lib.contracts.readings import common, readings
from tasks_lib.protocol.records import BindingValue
from tasks_lib.protocol.vocabulary import Behavior
from tasks_lib.sql.placeholders import placeholders_in

OTHER_VALUES = 12
"""Other upstream values tried before a binding counts as without effect."""


def branch_wording(bench: Bench, proposal: Proposal) -> str | None:
    """Both branches are readings of the same request, and their values tell them apart; the request favours neither."""
    c = proposal.candidate
    if c.behavior is not Behavior.INTERACTIVE:
        return None
    first, second = c.units
    if not any(common(bench.pool, a, b) for a in readings(first) for b in readings(second)):
        return "the two branches do not answer the same words."
    values = [frozenset(w for w in words(branch.value) if not w.isdigit()) for branch in c.branches]
    if not values[0] or not values[1] or values[0] == values[1]:
        return "the two values cannot be told apart in words."
    shared = _shared(proposal)
    asked = set(content(shared))
    titles = [frozenset(content(bench.pool.databases[unit.database].title)) for unit in c.units]
    told = sorted(asked & (titles[0] ^ titles[1]))
    if told:
        return f"the request says {told[0]!r}, which only one branch's setting has: it gives the branch away."
    for branch, other in ((c.branches[0], c.branches[1]), (c.branches[1], c.branches[0])):
        if other.value.casefold() in branch.answer.casefold():
            return f"the answer of branch {branch.branch_id} shows the other branch's value."
        if stands_in(shared, branch.value.strip('"')):
            return f"the request shows {branch.value!r}, the value of branch {branch.branch_id}."
    return None


def shared_wording_unique(bench: Bench, proposal: Proposal) -> str | None:
    """No third allowlisted database knows all that the open request says: only the two branches can be meant."""
    if proposal.candidate.behavior is not Behavior.INTERACTIVE:
        return None
    third = sorted(rivals(bench.pool, proposal.candidate, _shared(proposal)).intersection(proposal.allowlist))
    return f"the open request could be about {third[0]} as well." if third else None


def _shared(proposal: Proposal) -> str:
    """The open request of an interactive task: as the candidate has it, else the one question of both, else as worded."""
    c = proposal.candidate
    first, second = (unit.question for unit in c.units)
    return c.shared_question or (first if normal(first) == normal(second) else proposal.task.request or first)


async def branches_differ(bench: Bench, proposal: Proposal) -> str | None:
    """The two branches of an interactive task are of different databases and give different results."""
    if proposal.candidate.behavior is not Behavior.INTERACTIVE:
        return None
    first, second = await gold(bench, proposal)
    if len(set(proposal.candidate.databases)) != 2:
        return "both branches need the same database."
    if first.result is None or second.result is None or same_rows(first.result, second.result):
        return "both branches give the same result."
    return None


async def branch_needs_its_value(bench: Bench, proposal: Proposal) -> str | None:
    """Where a branch's answer gives a constant of its gold, the other branch's constant finds nothing in its database.

    So the answer tells which database is meant: either value fits one of the two only.
    """
    c = proposal.candidate
    if c.behavior is not Behavior.INTERACTIVE:
        return None
    given = [
        tuple(lit for lit in dict.fromkeys(unit.literals) if lit.strip() and stands_in(branch.value, lit))
        for unit, branch in zip(c.units, c.branches, strict=True)
    ]
    if not given[0] or len(given[0]) != len(given[1]):
        return None
    for unit, own, others in zip(c.units, given, given[::-1], strict=True):
        sql: str | None = unit.sql
        for at, literal in enumerate(own):
            sql = replace_literal(bench.pool.databases[unit.database], sql, literal, f":other{at}") if sql else None
        if sql is None:
            return f"the gold of {unit.unit_id} does not hold the value that its answer gives."
        run = await bench.run(unit.database, sql, {f"other{at}": value for at, value in enumerate(others)})
        if run.result is None or any(value not in (None, 0, "") for row in run.result.rows for value in row):
            return f"{unit.database} has an answer for the other branch's value too."
    return None


async def binding_by_execution(bench: Bench, proposal: Proposal) -> str | None:
    """Each binding's value comes from the upstream run, gives the gold result downstream, and another value does not."""
    c = proposal.candidate
    units = {unit.unit_id: unit for unit in c.units}
    for link in c.bindings:
        up, down = units[link.upstream_unit], units[link.downstream_unit]
        upstream = (await bench.run(up.database, up.sql)).result
        if upstream is None or len(upstream.rows) != 1 or upstream.rows[0][link.column_index] != link.value:
            return f"{up.unit_id} does not give exactly one row with the bound value."
        if "binding" not in placeholders_in(bench.engine, link.downstream_sql):
            return f"the downstream SQL of {down.unit_id} has no placeholder."
        if (await bench.run(down.database, link.downstream_sql)).kind is None:
            return f"{down.unit_id} runs without the upstream value, so nothing depends on it."
        gold = await bench.run(down.database, down.sql)
        bound = await bench.run(down.database, link.downstream_sql, {"binding": link.value})
        if bound.result is None or gold.result is None or not same_rows(bound.result, gold.result):
            return f"{down.unit_id} with the bound value does not give the gold result."
        for other in await _other_values(bench, up, link.field, link.value):
            run = await bench.run(down.database, link.downstream_sql, {"binding": other})
            if run.result is not None and not same_rows(run.result, gold.result):
                break
        else:
            return f"no other value of {link.field} changes the result of {down.unit_id}."
    return None


async def _other_values(bench: Bench, unit: Unit, field_name: str, value: BindingValue) -> Sequence[BindingValue]:
    """Up to OTHER_VALUES other values of the upstream column, as the engine returns them."""
    table, column = field_name.split(".", 1)
    database = bench.pool.databases[unit.database]
    for info in database.tables:
        for col in info.columns:
            if (info.name.lower(), col.name.lower()) == (table, column):
                sql = f'SELECT DISTINCT "{col.name}" FROM "{info.name}" WHERE "{col.name}" IS NOT NULL ORDER BY 1 LIMIT {OTHER_VALUES + 1}'
                result = (await bench.run(unit.database, sql)).result
                found = [row[0] for row in result.rows] if result else []
                return [v for v in found if isinstance(v, str | int | float) and v != value][:OTHER_VALUES]
    return []


def upstream_absent(bench: Bench, proposal: Proposal) -> str | None:
    """The request of a sequential task does not show a value that an upstream unit is to supply."""
    for link in proposal.candidate.bindings:
        if str(link.value).casefold() in proposal.task.request.casefold():
            return f"the request shows the upstream value {link.value!r}."
    return None
