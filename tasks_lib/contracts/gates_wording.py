"""PRIVATE. Gates of the last round: what the request shows, and whether the records agree (PROTOCOL 4)."""

from __future__ import annotations

import re
from dataclasses import replace

from tasks_lib.contracts.contract import freeze
from tasks_lib.contracts.proposals import WORD, Bench, Proposal
from tasks_lib.contracts.questions import lexicon, stands_in, stem
from tasks_lib.models.embeddings import vocabulary

_PUBLIC_ID = re.compile(r"\b(?:db|tb|col|cap|ent|rel|ev|task)_\w+|\b(?:spider|bird|livesqlbench):\w+")
_SQL = re.compile(
    r"\bSELECT\b|\b(?:GROUP|ORDER) BY\b|\b(?:COUNT|SUM|AVG|MIN|MAX)\s*\(|\b(?:JOIN|HAVING|UNION)\b|\bLIMIT \d"
    r"|(?<!\w):(?:up\d+_\w+|\w*binding)\b|\{\w*\}"
)
_CODE_WORDS = lexicon("code_words")
_NUMBERS = dict(
    enumerate(
        """two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
        nineteen twenty""".split(),  # noqa: SIM905 - twenty quoted words are harder to read
        start=2,
    )
)


def _texts(proposal: Proposal) -> list[str]:
    c = proposal.candidate
    return [proposal.task.request, c.slot_question, *(branch.answer for branch in c.branches)]


def forms(literal: str) -> tuple[str, ...]:
    """The ways to write a constant: as it stands; whole numbers also with separators (1,000) and, up to twenty, as a word."""
    text = literal.strip()
    if not (text.isascii() and text.isdigit()) or str(int(text)) != text:
        return (text,) if text else ()
    number = int(text)
    return tuple(dict.fromkeys((text, f"{number:,}", *([_NUMBERS[number]] if number in _NUMBERS else []))))


def _shown(text: str, literal: str) -> bool:
    return any(stands_in(text, form) for form in forms(literal))


def literals_survive(bench: Bench, proposal: Proposal) -> str | None:
    """Every constant that a unit's question shows is in the request, in some form, but for what an upstream unit supplies.

    A branch of an interactive task may have it in its answer.
    """
    c = proposal.candidate
    answers = {branch.unit_id: branch.answer for branch in c.branches}
    for unit in c.units:
        supplied = {str(link.value) for link in c.bindings if link.downstream_unit == unit.unit_id}
        wording = f"{proposal.task.request}\n{answers.get(unit.unit_id, '')}"
        for literal in unit.literals:
            if literal not in supplied and _shown(unit.question, literal) and not _shown(wording, literal):
                return f"the request lost {literal!r} of {unit.unit_id}."
    return None


def no_identifiers(bench: Bench, proposal: Proposal) -> str | None:
    """No public id, SQL, database, table or column identifier in what is shown, unless it is an ordinary word (`ordinary`).

    Names of tables and columns are those of the whole corpus, names of databases those of the allowlist. A constant that the
    gold holds is a value and may look like anything.
    """
    c = proposal.candidate
    own = {word for unit in c.units for word in WORD.findall(unit.question)}
    constants = {word for unit in c.units for literal in unit.literals for word in WORD.findall(literal)} & own
    spoken = {word.casefold() for word in own}
    databases = {name.casefold() for name in proposal.allowlist}
    for at, text in enumerate(_texts(proposal)):
        if found := _PUBLIC_ID.search(text) or _SQL.search(text):
            return f"the wording shows {found.group()[:40]!r}."
        for token in WORD.findall(text):
            name = token.casefold()
            if token.isdigit() or token in constants:
                continue
            good = "_" not in token
            if good and name in databases:
                # A question of the database itself may use the word; an answer has to say whose records are meant.
                good = _plain(token) and (name in spoken or (at > 0 and ordinary(bench, token)))
            elif good and name in bench.spellings:
                good = ordinary(bench, token)
            if not good:
                return f"the wording shows the identifier {token!r}."
        for phrase in bench.unspoken:
            if phrase in text:
                return f"the wording shows the column or table name {phrase!r}."
    return None


def _plain(token: str) -> bool:
    """Letters only and no capital inside, unless all are capitals."""
    return token.isalpha() and (token[1:] == token[1:].lower() or token.isupper())


def ordinary(bench: Bench, token: str) -> bool:
    """Whether a word that is also a name in some schema of the corpus is a word of its own.

    It has letters only, no capital inside (but may be all capitals: GDP), is no known column abbreviation, and is common
    English or used in the questions about two databases. What is left are rare words: they pass when they are spelled as one
    word, are long enough to be no abbreviation, and do not come apart into two common words (`ratingdate`, `coachid`).
    """
    name = token.casefold()
    if not _plain(token) or name in _CODE_WORDS:
        return False
    if name in vocabulary() or stem(name) in vocabulary():
        return True
    spellings = bench.spellings.get(name, ())
    if spellings and all(re.search(r"[a-z][A-Z]", spelling) for spelling in spellings):
        return False
    if bench.asked_of.get(name, 0) >= 2:
        return True
    return len(name) >= 6 and not _joined(name)


def _joined(name: str) -> bool:
    """Whether a word is two common words written together, or one with `id` or `no` behind it."""
    known = vocabulary()
    if name.endswith(("id", "no")) and name[:-2] in known:
        return True
    return any(name[:at] in known and name[at:] in known for at in range(4, len(name) - 3))


def allowlist_contains(bench: Bench, proposal: Proposal) -> str | None:
    """The allowlist holds every required database, and at least one that is not required."""
    missing = sorted(set(proposal.contract.databases) - set(proposal.task.allowlist))
    if missing:
        return f"the allowlist lacks the required database {missing[0]}."
    if len(proposal.task.allowlist) <= len(set(proposal.contract.databases)):
        return "the allowlist holds no distractor."
    return None


def records_agree(bench: Bench, proposal: Proposal) -> str | None:
    """Registry, task, contract and candidate name the same things: ids, corpus, units and their databases, in one order."""
    c, contract, task = proposal.candidate, proposal.contract, proposal.task
    if task.task_id != contract.task_id or task.corpus is not contract.corpus or contract.corpus is not c.corpus:
        return "task and contract disagree on task id or corpus."
    if contract.unit_ids != c.unit_ids or contract.behavior is not c.behavior:
        return "contract and candidate disagree on units or behavior."
    if contract.databases != tuple(proposal.public_ids.get(name, "") for name in c.databases):
        return "the contract's databases are not the registry's ids of its units' databases."
    frozen = freeze(c, contract.task_id, lambda name: proposal.public_ids.get(name, ""))
    if replace(frozen, extra=contract.extra) != contract:
        return "contract and candidate disagree on edges, bindings, branches or difficulty."
    registered = set(proposal.public_ids.values())
    if len(set(task.allowlist)) != len(task.allowlist) or not registered.issuperset(task.allowlist):
        return "the allowlist repeats a database or holds one that the registry does not have."
    return None
