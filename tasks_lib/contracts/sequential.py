"""PRIVATE. Sequential: an upstream result value is a literal that the downstream gold SQL needs.

A good candidate has an upstream query of exactly one row and one column whose value is a name (no small number, no "Yes", no
letter, no month), stands as a literal in the downstream gold and once in the downstream question, and can be described by the
upstream question. Chains of three come first, then pairs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from tasks_lib.contracts.contract import Candidate, Unit
from tasks_lib.contracts.follow_ups import follow_up, sentence, single, sound
from tasks_lib.contracts.kinds import Column, asks_for, compared, kind, nouns, owner, passed, tree
from tasks_lib.contracts.phrases import clause, find_literal, referent, with_referent
from tasks_lib.contracts.pool import Pool, replace_literal
from tasks_lib.contracts.questions import distinctive, lexicon
from tasks_lib.protocol.records import Binding
from tasks_lib.protocol.vocabulary import Behavior

PLACEHOLDER = "{binding}"
LONGEST_DESCRIPTION = 12
"""Words of a description that may stand inside another question."""
PLACE_KINDS = lexicon("places") | {"continent", "region", "county", "district"}
ORIGINS = frozenset({"nationality", "citizenship"})


def upstream_value(unit: Unit) -> str | int | None:
    """The one distinctive value a unit gives, or None."""
    if unit.row_count != 1 or unit.column_count != 1 or len(unit.first_row) != 1:
        return None
    kind, value = unit.first_row[0]
    if isinstance(value, str) and kind != "text":
        return None
    return value if isinstance(value, str | int) and distinctive(value) else None


def output_column(unit: Unit) -> Column | None:
    """(table, column) as written that the first result column reads, or None when it is no plain column."""
    select = tree(unit).find(exp.Select)
    return owner(unit, select.expressions[0].unalias()) if select is not None and select.expressions else None


def link_kind(upstream: Unit, downstream: Unit) -> str | None:
    """The kind of thing ("country") as which the upstream value passes downstream; None when the two mean different things."""
    value, column = str(upstream_value(upstream)), output_column(upstream)
    wanted = {kind(*found) for found in compared(downstream, value)}
    name = passed(kind(*column), wanted.pop()) if column and len(wanted) == 1 else None
    return name if name and asks_for(upstream.question, name) else None


def binding(pool: Pool, upstream: Unit, downstream: Unit) -> Binding | None:
    """The edge from `upstream` to `downstream`, or None when the value is not a literal of question and gold, or means
    another kind of thing there."""
    value = upstream_value(upstream)
    if value is None or downstream.database == upstream.database:
        return None
    span = find_literal(downstream.question, str(value))
    column = output_column(upstream)
    if span is None or column is None or link_kind(upstream, downstream) is None:
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
    """The questions of a chain as one text that shows no upstream value; None when no rule is sure.

    A short description stands in the place of the value ("… in the town that hosted the most races"); else the questions
    follow each other ("Which town hosted the most races? How many clubs are in that town?").
    `as_clause`: the same as it stands after "tell me".
    """
    if not all(sound(unit.question) for unit in units):
        return None
    return _inside(units, bindings, as_clause) or _following(units, bindings, as_clause)


def _inside(units: tuple[Unit, ...], bindings: tuple[Binding, ...], as_clause: bool) -> str | None:
    """A pair as one sentence, where the description is short and nothing follows it that could be read as part of it."""
    if len(units) != 2:
        return None
    thing, value = referent(units[0].question), str(bindings[0].value)
    name = link_kind(*units)
    span = find_literal(units[1].question, value)
    if thing is None or name is None or span is None or len(thing.phrase.split()) > LONGEST_DESCRIPTION:
        return None
    if name == "last name" or (
        name in PLACE_KINDS and (thing.attribute or thing.head not in nouns(name) or thing.head in ORIGINS)
    ):
        return None
    if re.match(r"\s*\w", units[1].question[span[1] :]) and name in PLACE_KINDS:
        return None
    # The clause is made before the description goes in, so that verbs of the description cannot mislead the rules.
    text = (
        clause(bindings[0].downstream_question.replace(PLACEHOLDER, f"'{value}'")) if as_clause else units[1].question
    )
    filled = with_referent(text, value, thing) if text else None
    if filled is None or (name in PLACE_KINDS and re.search(rf"with the same|\bha(?:ve|s) the {thing.head}\b", filled)):
        return None
    return filled[0].lower() + filled[1:] if as_clause else filled


def _following(units: tuple[Unit, ...], bindings: tuple[Binding, ...], as_clause: bool) -> str | None:
    """The questions one after the other, each value as "that <kind>"."""
    first = single(_spelled(units[0].question))
    parts = [clause(first) if as_clause and first else first]
    for before, unit, link in zip(units[:-1], units[1:], bindings, strict=True):
        name = link_kind(before, unit)
        asked = _spelled(unit.question)
        text: str | None = single(asked) if unit is not units[-1] else asked
        if as_clause and text:
            text = clause(text.replace(str(link.value), f"'{link.value!s}'") if "'" not in text else text)
        holders = compared(unit, str(link.value))
        parts.append(follow_up(text, str(link.value), name, holders[0][0].lower()) if text and name else None)
    said = [part for part in parts if part is not None]
    if len(said) < len(parts):
        return None
    if as_clause:
        said = [part[0].lower() + part[1:] for part in said]
        return ", ".join(said[:-1]) + ", and " + said[-1]
    return " ".join(sentence(part) for part in said)


def _spelled(question: str) -> str:
    """A question without the abbreviation that it adds to a name: "gross national product (GNP)"."""
    return re.sub(r"(?<=[a-z])\s*\([A-Z]{2,}\)", "", question)


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
        yield from _turns(pool, _distinct(pool, wordable))


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


def _distinct(pool: Pool, group: list[Candidate]) -> list[Candidate]:
    """One candidate for each series of gold texts: paraphrases of one question make no second task."""
    found: dict[tuple[str, ...], Candidate] = {}
    for candidate in pool.ordered(group, "sequential paraphrases", lambda c: c.candidate_id):
        found.setdefault(tuple(" ".join(unit.sql.lower().split()) for unit in candidate.units), candidate)
    return list(found.values())


def _turns(pool: Pool, group: list[Candidate]) -> Iterator[Candidate]:
    by_databases: dict[tuple[str, ...], list[Candidate]] = {}
    for candidate in pool.ordered(group, "sequential", lambda c: c.candidate_id):
        by_databases.setdefault(candidate.databases, []).append(candidate)
    order = pool.ordered(by_databases, "sequential databases", "\x1f".join)
    for turn in range(max(map(len, by_databases.values()), default=0)):
        for names in order:
            if turn < len(by_databases[names]):
                yield by_databases[names][turn]
