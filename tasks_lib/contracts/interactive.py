"""PRIVATE. Interactive: one request, two readings, each a complete branch with one database.

A good candidate is a question asked of two databases in the same words, whose answers differ; the slot is the setting that the
request leaves unsaid. The slot's values are the databases' titles in words; each branch's answer names its own value only.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from tasks_lib.contracts.contract import Candidate, Unit
from tasks_lib.contracts.pool import Pool
from tasks_lib.contracts.questions import normal, plural, words
from tasks_lib.corpora.model import CorpusDatabase
from tasks_lib.protocol.records import Branch
from tasks_lib.protocol.vocabulary import Behavior

SLOT_QUESTIONS = (
    "Which records should this be about?",
    "Whose records do you mean?",
    "Which collection of records should I use?",
    "Which of our collections is this about?",
)
ANSWERS = (
    "I mean the records on {value}.",
    "This is about {value}.",
    "Please use the records on {value}.",
    "I am asking about {value}.",
)


def setting(database: CorpusDatabase) -> str:
    """What the records are about, as a person would say it: the title, and where that is a bare name, its main things."""
    title = database.title.strip().rstrip(".")
    if len(title.split()) >= 4:
        return title
    names = [" ".join(words(table.name.replace("_", " "))) for table in database.tables]
    things = list(dict.fromkeys(plural(name) for name in names if name.isalpha() and len(name) > 3))[:3]
    if not things:
        return title
    listed = things[0] if len(things) == 1 else ", ".join(things[:-1]) + " and " + things[-1]
    return f"{title}, with its {listed}"


def candidates(pool: Pool) -> Iterator[Candidate]:
    """Pairs of databases under one question, in keyed order; the questions take turns."""
    groups: dict[str, dict[str, Unit]] = {}
    for unit in pool.ordered(pool.units, "interactive", lambda u: u.unit_id):
        groups.setdefault(normal(unit.question), {}).setdefault(unit.database, unit)
    shared = {form: units for form, units in groups.items() if len(units) > 1}
    pairs = {
        form: pool.ordered(combinations(sorted(units), 2), f"interactive {form}", "\x1f".join)
        for form, units in shared.items()
    }
    order = pool.ordered(shared, "interactive questions", str)
    for turn in range(max(map(len, pairs.values()), default=0)):
        for form in order:
            if turn < len(pairs[form]):
                names = pool.ordered(pairs[form][turn], f"branches {form}", str)
                yield _candidate(pool, form, [shared[form][name] for name in names])


def _candidate(pool: Pool, form: str, units: list[Unit]) -> Candidate:
    branches = []
    for number, unit in enumerate(units):
        value = setting(pool.databases[unit.database])
        answer = ANSWERS[pool.number(f"answer {form} {unit.database}") % len(ANSWERS)].format(value=value)
        branches.append(Branch("ab"[number], unit.unit_id, answer, value))
    return Candidate(
        pool.corpus,
        Behavior.INTERACTIVE,
        tuple(units),
        branches=tuple(branches),
        slot_question=SLOT_QUESTIONS[pool.number(f"slot {form}") % len(SLOT_QUESTIONS)],
        aggregation="the contribution of the branch that is meant",
    )
