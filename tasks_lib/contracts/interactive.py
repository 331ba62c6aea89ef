"""PRIVATE. Interactive: one request, two readings, each a complete branch with one database.

A good candidate is a question that two databases can be asked in the same words once one thing is left open, and whose answers
differ. The slot is what is left open (`readings`); each branch's answer names its own value only. No third database of the
allowlist may fit the shared words: `rivals` are kept out.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from tasks_lib.contracts.contract import Candidate
from tasks_lib.contracts.pool import Pool
from tasks_lib.contracts.questions import content, lexicon, normal
from tasks_lib.contracts.readings import Reading, about_people, common, known, readings
from tasks_lib.contracts.settings import Settings, title
from tasks_lib.protocol.records import Branch
from tasks_lib.protocol.vocabulary import Behavior

SETTING_QUESTIONS = (
    "Which records should this be about?",
    "Which records do you mean?",
    "Which collection of records should I use?",
    "Which of our collections is this about?",
)
SETTING_ANSWERS = (
    "I mean the records that also cover {value}.",
    "This is about the collection that also covers {value}.",
    "Please use the records that also cover {value}.",
    "The ones that also cover {value}.",
)
TITLE_ANSWERS = (
    "I mean the records on {value}.",
    "This is about {value}.",
    "Please use the records on {value}.",
    "I am asking about {value}.",
)
VALUE_QUESTIONS = ("Which {noun} do you mean?", "Which {noun} is this about?", "Which {noun} did you mention?")
VALUE_ANSWERS = ("I mean {value}.", "{value}.", "The {noun} is {value}.", "It is about {value}.")
PEOPLE_QUESTIONS = (
    "Which people do you mean?",
    "Which group of people do you mean?",
    "What kind of people should this be about?",
)
PEOPLE_ANSWERS = ("I mean the {value}.", "The {value}.", "It is about the {value}.")
WORKS = lexicon("titled_things")
PAIRS_PER_DATABASES = 5
"""Candidates of two databases under one form; more would ask the same again and again."""

WORDINGS_OF_A_PAIR = 2
"""Candidates that may share one pair of golds, each in its own words."""


def rivals(pool: Pool, candidate: Candidate, shared: str = "") -> frozenset[str]:
    """Databases that the shared question could be about as well: they know every word of it that both branches name.

    `shared`: the words to judge, when the candidate does not carry them.
    """
    if candidate.behavior is not Behavior.INTERACTIVE:
        return frozenset()
    shared = candidate.shared_question or shared or candidate.units[0].question
    needed = known(pool, shared, candidate.databases)
    people = " people " in f" {shared} "
    if needed is not None and not needed and not people:
        return frozenset()  # no schema says any word of it: who is asked the same is all that can be known
    return frozenset(
        name
        for name, database in pool.databases.items()
        if name not in candidate.databases
        and (needed or frozenset()) <= pool.words_of[name]
        and (not people or any(about_people(table.name.replace("_", " ")) for table in database.tables))
    )


def candidates(pool: Pool) -> Iterator[Candidate]:
    """Pairs of readings in keyed order; the forms take turns."""
    groups: dict[str, list[Reading]] = {}
    found = (reading for unit in pool.units for reading in readings(unit))
    for reading in pool.ordered(found, "interactive", lambda r: f"{r.unit.unit_id} {r.form}"):
        groups.setdefault(reading.form, []).append(reading)
    settings = Settings(pool)
    order = pool.ordered(
        (form for form, group in groups.items() if len({r.unit.database for r in group}) > 1),
        "interactive questions",
        str,
    )
    turns = [_pairs(pool, settings, form, groups[form]) for form in order]
    seen: dict[frozenset[str], set[str]] = {}
    while turns:
        still = []
        for turn in turns:
            candidate = next(turn, None)
            if candidate is None:
                continue
            still.append(turn)
            # Paraphrases of one pair of golds: one more at most, and in other words.
            golds = frozenset(
                " ".join(unit.sql.lower().rstrip("; ").split()) + unit.database for unit in candidate.units
            )
            said = seen.setdefault(golds, set())
            if len(said) < WORDINGS_OF_A_PAIR and normal(candidate.shared_question) not in said:
                said.add(normal(candidate.shared_question))
                yield candidate
        turns = still


def _pairs(pool: Pool, settings: Settings, form: str, found: list[Reading]) -> Iterator[Candidate]:
    """Candidates of one form, every pair of databases before the second candidate of any."""
    by_databases: dict[tuple[str, str], list[tuple[Reading, Reading]]] = {}
    for first, second in combinations(found, 2):
        if first.unit.database == second.unit.database or not common(pool, first, second):
            continue
        one, other = sorted((first.unit.database, second.unit.database))
        by_databases.setdefault((one, other), []).append((first, second))
    order = pool.ordered(by_databases, f"interactive {form}", "\x1f".join)
    for number in range(PAIRS_PER_DATABASES):
        for names in order:
            if number < len(by_databases[names]):
                candidate = _candidate(pool, settings, form, by_databases[names][number])
                if candidate is not None:
                    yield candidate


def _candidate(pool: Pool, settings: Settings, form: str, pair: tuple[Reading, Reading]) -> Candidate | None:
    ordered = pool.ordered(pair, f"branches {form}", lambda r: r.unit.unit_id)
    shared = min((r.shared for r in pair), key=lambda text: (len(text), text))
    closed = _closed(pool, settings, shared, ordered)
    if closed is None:
        return None
    slot_question, values = closed
    branches = tuple(
        Branch("ab"[at], reading.unit.unit_id, answer, value)
        for at, (reading, (value, answer)) in enumerate(zip(ordered, values, strict=True))
    )
    return Candidate(
        pool.corpus,
        Behavior.INTERACTIVE,
        tuple(reading.unit for reading in ordered),
        branches=branches,
        slot_question=slot_question,
        aggregation="the contribution of the branch that is meant",
        theme=form,
        shared_question=shared,
    )


def _closed(
    pool: Pool, settings: Settings, shared: str, pair: list[Reading]
) -> tuple[str, list[tuple[str, str]]] | None:
    """The slot question with (value, answer) of each branch; None where the two cannot be told apart."""
    draw = pool.number(f"slot {pair[0].unit.unit_id} {pair[1].unit.unit_id}")
    slot = pair[0].slot
    if slot != "setting":
        questions, answers = (
            (PEOPLE_QUESTIONS, PEOPLE_ANSWERS) if slot == "people" else (VALUE_QUESTIONS, VALUE_ANSWERS)
        )
        values = [f'"{reading.value}"' if slot in WORKS else reading.value for reading in pair]
        said = [answers[(draw + at) % len(answers)].format(value=value, noun=slot) for at, value in enumerate(values)]
        said = [
            text[0].upper() + text[1:] if not text.startswith(value) else text
            for text, value in zip(said, values, strict=True)
        ]
        return questions[draw % len(questions)].format(noun=slot), list(zip(values, said, strict=True))
    first, second = (reading.unit.database for reading in pair)
    asked = frozenset(content(shared))
    titles = [title(pool.databases[name]) for name in (first, second)]
    things = [settings.between(first, second, asked), settings.between(second, first, asked)]
    values = [value for value in (titles if all(titles) else things) if value]
    if len(values) < 2 or values[0].casefold() == values[1].casefold():
        return None
    answers = TITLE_ANSWERS if all(titles) else SETTING_ANSWERS
    said = [answers[(draw + at) % len(answers)].format(value=value) for at, value in enumerate(values)]
    return SETTING_QUESTIONS[draw % len(SETTING_QUESTIONS)], list(zip(values, said, strict=True))
