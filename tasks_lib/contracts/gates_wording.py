"""PRIVATE. Gates of the last round: what the request shows, and whether the records agree (PROTOCOL 4)."""

from __future__ import annotations

import re

from tasks_lib.contracts.proposals import Bench, Proposal
from tasks_lib.contracts.questions import lexicon, locked, stands_in

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
