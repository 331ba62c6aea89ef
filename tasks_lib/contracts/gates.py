"""PRIVATE. The gates of PROTOCOL 4, each a named check: None when the candidate passes, else one sentence why not.

Three rounds, in this order: CONTRACT (records and text of the gold), EXECUTION (needs SQL), WORDING (needs the request). A
gate never edits gold; a refused candidate is recorded with the gate's name and its reason. Adding a gate means writing a
function and naming it in its round.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tasks_lib.contracts.contract import DIALECTS, Candidate, Unit
from tasks_lib.contracts.distractors import NEAR_IDENTICAL, Neighbourhood, overlap
from tasks_lib.contracts.pool import Pool
from tasks_lib.contracts.questions import content, lexicon, locked, normal, stands_in
from tasks_lib.protocol.records import BindingValue, Contract, DatabaseHandle, PublicTask
from tasks_lib.protocol.vocabulary import Behavior, Corpus, Engine
from tasks_lib.sql.canonical import CanonicalResult, Value
from tasks_lib.sql.execute import Execution, SqlRunner
from tasks_lib.sql.guard import check_sql
from tasks_lib.store.keys import digest, sha256_bytes

MAX_ROWS = 1000
"""A gold result of more rows is no answer to a person's question."""
OTHER_VALUES = 3
"""Other upstream values tried before a binding counts as without effect."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Which gate refused a candidate, and why in one sentence."""

    gate: str
    reason: str


@dataclass
class Bench:
    """What gates look things up in, for one corpus. `handles`: by physical name. `seen`: unit sets already accepted."""

    pool: Pool
    neighbourhood: Neighbourhood
    runner: SqlRunner
    handles: Mapping[str, DatabaseHandle]
    seen: set[frozenset[str]] = field(default_factory=set)

    @property
    def engine(self) -> Engine:
        return Engine.POSTGRES if DIALECTS[self.pool.corpus] == "postgres" else Engine.SQLITE

    async def run(self, database: str, sql: str, bindings: Mapping[str, BindingValue] | None = None) -> Execution:
        return await self.runner.run(self.handles[database], sql, bindings)


@dataclass(frozen=True)
class Proposal:
    """A candidate with everything proposed for it. `allowlist`: physical names. `contract`, `task`: the records as they would
    be published. `public_ids`: physical name -> public id of the registry."""

    candidate: Candidate
    allowlist: tuple[str, ...]
    contract: Contract
    task: PublicTask
    public_ids: Mapping[str, str]


# ---- CONTRACT: records and text ----


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
        schema = bench.neighbourhood.schemas[unit.database]
        tables = {table for table, _ in schema}
        lost = [t for t in unit.tables if t not in tables]
        lost += [c for c in unit.columns if tuple(c.rsplit(".", 1)) not in schema]
        if lost:
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


# ---- EXECUTION: needs SQL ----


def same_rows(first: CanonicalResult, second: CanonicalResult) -> bool:
    """Whether two results hold the same rows in some order; column names do not count."""
    return rows_digest(first) == rows_digest(second)


def rows_digest(result: CanonicalResult) -> str:
    """sha256 hex of the rows as a multiset."""
    from tasks_lib.sql.canonical import row_bytes

    return sha256_bytes(b"".join(sorted(map(row_bytes, result.rows))))


def aggregate(results: Iterable[CanonicalResult]) -> str:
    """The joint answer of a task as one digest: over the set of its contributions, whatever their order."""
    return digest(sorted({rows_digest(result) for result in results}))


async def _gold(bench: Bench, proposal: Proposal) -> list[Execution]:
    return list(await asyncio.gather(*(bench.run(u.database, u.sql) for u in proposal.candidate.units)))


async def executes(bench: Bench, proposal: Proposal) -> str | None:
    """Every gold query runs inside the limits and gives the audited result."""
    for unit, run in zip(proposal.candidate.units, await _gold(bench, proposal), strict=True):
        if run.kind is not None:
            return f"gold of {unit.unit_id} gives no result ({run.kind.value}: {run.error})."
        if run.digest != unit.result_digest:
            return f"gold of {unit.unit_id} gives another result than when it was audited."
    return None


async def non_trivial(bench: Bench, proposal: Proposal) -> str | None:
    """Every gold result says something: it has rows, at most MAX_ROWS, and is no lone zero, blank or null."""
    for unit, run in zip(proposal.candidate.units, await _gold(bench, proposal), strict=True):
        rows = run.result.rows if run.result else ()
        if not rows:
            return f"gold of {unit.unit_id} returns no row."
        if len(rows) > MAX_ROWS:
            return f"gold of {unit.unit_id} returns {len(rows)} rows, expected at most {MAX_ROWS}."
        if all(_blank(value) for row in rows for value in row) or (len(rows) == 1 and all(map(_nothing, rows[0]))):
            return f"gold of {unit.unit_id} returns only zero, blank or null."
    return None


def _blank(value: Value) -> bool:
    return value is None or value == ""


def _nothing(value: Value) -> bool:
    return _blank(value) or (not isinstance(value, bool | str | bytes | tuple) and value == 0)


async def source_necessity(bench: Bench, proposal: Proposal) -> str | None:
    """Without any one unit the joint answer differs or is undefined.

    Sequential: without the upstream unit the downstream has an unbound placeholder. Interactive: each branch needs its unit.
    """
    c = proposal.candidate
    if c.behavior is Behavior.INTERACTIVE:
        return None
    results = [run.result for run in await _gold(bench, proposal) if run.result is not None]
    whole = aggregate(results)
    needed = {b.upstream_unit for b in c.bindings}
    for at, unit in enumerate(c.units):
        if unit.unit_id not in needed and len(results) > 1 and aggregate(results[:at] + results[at + 1 :]) == whole:
            return f"without {unit.unit_id} the joint answer is the same."
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
        if "binding" not in _placeholders(bench.engine, link.downstream_sql):
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


def _placeholders(engine: Engine, sql: str) -> tuple[str, ...]:
    from tasks_lib.sql.placeholders import placeholders_in

    return placeholders_in(engine, sql)


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


async def branches_differ(bench: Bench, proposal: Proposal) -> str | None:
    """The two branches of an interactive task are of different databases and give different results."""
    if proposal.candidate.behavior is not Behavior.INTERACTIVE:
        return None
    first, second = await _gold(bench, proposal)
    if len(set(proposal.candidate.databases)) != 2:
        return "both branches need the same database."
    if first.result is None or second.result is None or same_rows(first.result, second.result):
        return "both branches give the same result."
    return None


async def target_uniqueness(bench: Bench, proposal: Proposal) -> str | None:
    """No other allowlisted database answers a unit: none is asked the same, has its schema, or gives its gold's result."""
    c = proposal.candidate
    branches = set(c.databases) if c.behavior is Behavior.INTERACTIVE else set()
    for unit in c.units:
        own = bench.neighbourhood.schemas[unit.database]
        for name in proposal.allowlist:
            if name == unit.database:
                continue
            if name not in branches and name in bench.pool.asked_by.get(normal(unit.question), ()):
                return f"the question of {unit.unit_id} is also asked of {name}."
            schema = bench.neighbourhood.schemas[name]
            if name not in branches and overlap(own, schema) >= NEAR_IDENTICAL:
                return f"{name} has nearly the schema of {unit.database}."
            # A query can only prepare where its tables exist; the rest is asked of the engine.
            if {table for table, _ in schema}.issuperset(unit.tables) and unit.tables:
                gold, run = await asyncio.gather(bench.run(unit.database, unit.sql), bench.run(name, unit.sql))
                if run.result is not None and gold.result is not None and same_rows(run.result, gold.result):
                    return f"gold of {unit.unit_id} gives the same answer on {name}."
    return None


# ---- WORDING: needs the request ----

_PUBLIC_ID = re.compile(r"\b(?:db|tb|col|cap|ent|rel|ev|task)_\w+")
_SQL = re.compile(
    r"\bSELECT\b.+\bFROM\b|\b(?:GROUP|ORDER) BY\b|\b(?:COUNT|SUM|AVG|MIN|MAX)\s*\(|\bINNER JOIN\b|:\w*binding|\{\w*\}"
)
_CODE_WORDS = lexicon("code_words")


def _texts(proposal: Proposal) -> list[str]:
    c = proposal.candidate
    return [proposal.task.request, c.slot_question, *(branch.answer for branch in c.branches)]


def literals_survive(bench: Bench, proposal: Proposal) -> str | None:
    """Every constant that a unit's question shows is in the request, but for the value an upstream unit supplies."""
    c = proposal.candidate
    for unit in c.units:
        supplied = {str(link.value) for link in c.bindings if link.downstream_unit == unit.unit_id}
        for literal in locked(unit.question, unit.literals):
            if literal not in supplied and not stands_in(proposal.task.request, literal):
                return f"the request lost {literal!r} of {unit.unit_id}."
    return None


def no_identifiers(bench: Bench, proposal: Proposal) -> str | None:
    """No public id, SQL, database, table or column identifier in what is shown, unless it is an ordinary word.

    An ordinary word has letters only, no capital inside and is no column abbreviation. A database's name counts as one
    only when a unit's own question uses it.
    """
    own = {w for unit in proposal.candidate.units for w in re.findall(r"\w+", unit.question.casefold())}
    names: dict[str, bool] = {}
    for database in proposal.allowlist:
        names.setdefault(database.casefold(), True)
        for table, column in bench.neighbourhood.schemas[database]:
            names.setdefault(table, False)
            names.setdefault(column, False)
    for text in _texts(proposal):
        if found := _PUBLIC_ID.search(text) or _SQL.search(text):
            return f"the wording shows {found.group()[:40]!r}."
        for token in re.findall(r"\w+", text):
            is_database = names.get(token.casefold())
            if is_database is None or token.isdigit():
                continue
            plain = token.isalpha() and token[1:] == token[1:].lower() and token.casefold() not in _CODE_WORDS
            if not plain or (is_database and token.casefold() not in own):
                return f"the wording shows the identifier {token!r}."
    return None


def upstream_absent(bench: Bench, proposal: Proposal) -> str | None:
    """The request of a sequential task does not show a value that an upstream unit is to supply."""
    for link in proposal.candidate.bindings:
        if str(link.value).casefold() in proposal.task.request.casefold():
            return f"the request shows the upstream value {link.value!r}."
    return None


def allowlist_contains(bench: Bench, proposal: Proposal) -> str | None:
    """The allowlist holds every required database, and at least one that is not required."""
    missing = sorted(set(proposal.contract.databases) - set(proposal.task.allowlist))
    if missing:
        return f"the allowlist lacks the required database {missing[0]}."
    if len(proposal.task.allowlist) <= len(set(proposal.contract.databases)):
        return "the allowlist holds no distractor."
    return None


def records_agree(bench: Bench, proposal: Proposal) -> str | None:
    """Registry, task and contract name the same things: ids, corpus, units and their databases, in one order."""
    c, contract, task = proposal.candidate, proposal.contract, proposal.task
    if task.task_id != contract.task_id or task.corpus is not contract.corpus or contract.corpus is not c.corpus:
        return "task and contract disagree on task id or corpus."
    if contract.unit_ids != c.unit_ids or contract.behavior is not c.behavior:
        return "contract and candidate disagree on units or behavior."
    if contract.databases != tuple(proposal.public_ids.get(name, "") for name in c.databases):
        return "the contract's databases are not the registry's ids of its units' databases."
    registered = set(proposal.public_ids.values())
    if len(set(task.allowlist)) != len(task.allowlist) or not registered.issuperset(task.allowlist):
        return "the allowlist repeats a database or holds one that the registry does not have."
    return None


Check = Callable[[Bench, Proposal], str | None]
AsyncCheck = Callable[[Bench, Proposal], Awaitable[str | None]]

CONTRACT: tuple[Check, ...] = (ownership, behavior_shape, duplicate, schema_references, read_only, branch_wording)
EXECUTION: tuple[AsyncCheck, ...] = (
    executes,
    non_trivial,
    source_necessity,
    binding_by_execution,
    branches_differ,
    target_uniqueness,
)
WORDING: tuple[Check, ...] = (literals_survive, no_identifiers, upstream_absent, allowlist_contains, records_agree)
NAMES: tuple[str, ...] = tuple(gate.__name__ for gate in (*CONTRACT, *EXECUTION, *WORDING))


def first_refusal(checks: Iterable[Check], bench: Bench, proposal: Proposal) -> Refusal | None:
    """The first of `checks` that refuses, or None."""
    for check in checks:
        if (reason := check(bench, proposal)) is not None:
            return Refusal(check.__name__, reason)
    return None


async def judge(bench: Bench, proposal: Proposal) -> Refusal | None:
    """The first gate of the contract and execution rounds that refuses, or None."""
    refusal = first_refusal(CONTRACT, bench, proposal)
    if refusal is not None:
        return refusal
    for check in EXECUTION:
        if (reason := await check(bench, proposal)) is not None:
            return Refusal(check.__name__, reason)
    return None


__all__ = [
    "CONTRACT",
    "EXECUTION",
    "NAMES",
    "WORDING",
    "Bench",
    "Corpus",
    "Proposal",
    "Refusal",
    "aggregate",
    "first_refusal",
    "judge",
    "same_rows",
]
