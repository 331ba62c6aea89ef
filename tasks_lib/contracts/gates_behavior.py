"""PRIVATE. Gates of single behaviors: bindings of sequential tasks, branches of interactive ones (PROTOCOL 3, 4)."""

from __future__ import annotations

from collections.abc import Sequence

from tasks_lib.contracts.contract import Unit
from tasks_lib.contracts.proposals import Bench, Proposal, gold, same_rows
from tasks_lib.contracts.questions import content, locked, normal
from tasks_lib.protocol.records import BindingValue
from tasks_lib.protocol.vocabulary import Behavior
from tasks_lib.sql.placeholders import placeholders_in

OTHER_VALUES = 3
"""Other upstream values tried before a binding counts as without effect."""


def branch_wording(bench: Bench, proposal: Proposal) -> str | None:
    """Both branches answer the same request, and their values tell them apart without naming a database."""
    c = proposal.candidate
    if c.behavior is not Behavior.INTERACTIVE:
        return None
    first, second = c.units
    if normal(first.question) != normal(second.question) or set(locked(first.question, first.literals)) != set(
        locked(second.question, second.literals)
    ):
        return "the two branches do not answer the same words."
    values = [frozenset(w for w in content(branch.value) if w.isalpha()) for branch in c.branches]
    if not values[0] or not values[1] or values[0] == values[1]:
        return "the two values cannot be told apart in words."
    asked = set(content(first.question))
    titles = [frozenset(content(bench.pool.databases[unit.database].title)) for unit in c.units]
    told = sorted(asked & (titles[0] ^ titles[1]))
    if told:
        return f"the request says {told[0]!r}, which only one branch's setting has: it gives the branch away."
    for branch, other in ((c.branches[0], c.branches[1]), (c.branches[1], c.branches[0])):
        if other.value.casefold() in branch.answer.casefold():
            return f"the answer of branch {branch.branch_id} shows the other branch's value."
    return None


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
