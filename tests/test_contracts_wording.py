"""Questions become clauses and descriptions only where a rule is sure; requests are clean sentences and vary."""

from __future__ import annotations

import re

import pytest

from tasks_lib.contracts.phrases import clause, referent, with_referent
from tasks_lib.contracts.questions import distinctive, locked, normal, plural, stem
from tasks_lib.contracts.wording import listed, templates, tidy
from tasks_lib.protocol.vocabulary import Behavior


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is the average fare?", "the average fare"),
        ("How many boats are there in each harbor?", "how many boats there are in each harbor"),
        ("How many boats do we have?", "how many boats we have"),
        ("How many boats does each club have?", "how many boats each club has"),
        ("How many boats were sold?", "how many boats were sold"),
        ("Which boat has won the most races?", "which boat has won the most races"),
        ("Show the names of all harbors.", "the names of all harbors"),
        ("Count the number of boats.", "the number of boats"),
        ("Who is the youngest member?", "who the youngest member is"),
        ("How many times has the boat been repaired?", None),
        ("In which year did the club open?", None),
        ("Which boats sank, and how many?", None),
        ("How many boats are there? Sort them by name.", None),
        ("How many trips has each skipper's boat made?", None),
    ],
)
def test_clauses(question: str, expected: str | None) -> None:
    assert clause(question) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which boat has won the most races?", "the boat that has won the most races"),
        ("Which skipper won the most races?", "the skipper that won the most races"),
        ("Who built the oldest boat?", "the person who built the oldest boat"),
        ("What is the name of the oldest harbor?", "the oldest harbor"),
        ("What is the postal code of the oldest harbor?", "the postal code of the oldest harbor"),
        ("In which town was the fastest boat built?", "the town in which the fastest boat was built"),
        ("Which builder's boats won most often?", "the builder whose boats won most often"),
        ("Which boats have won a race?", None),
        ("How many boats are there?", None),
        ("Which country is the harbor located in?", None),
    ],
)
def test_descriptions(question: str, expected: str | None) -> None:
    found = referent(question)
    assert (found.phrase if found else None) == expected


@pytest.mark.parametrize(
    ("question", "value", "upstream", "expected"),
    [
        (
            "How many boats left from 'Salem', and when?",
            "Salem",
            "Which town hosted the most races?",
            "How many boats left from the town that hosted the most races, and when?",
        ),
        (
            "How often was the song 'Ash' played?",
            "Ash",
            "Which film had the largest budget?",
            "How often was the song with the same title as the film that had the largest budget played?",
        ),
        (
            "Who directed the film 'Ash'?",
            "Ash",
            "Which film won the most awards?",
            "Who directed the film that won the most awards?",
        ),
        (
            "Which pupils have the last name 'Poe'?",
            "Poe",
            "Which rower won the most races?",
            "Which pupils have the same last name as the rower that won the most races?",
        ),
        (
            "How many people live in the area with postal code '02134'?",
            "02134",
            "What is the postal code of the oldest harbor?",
            "How many people live in the area with the postal code of the oldest harbor?",
        ),
        (
            "How many parcels are on the routes that serve 'Salem'?",
            "Salem",
            "Which town hosted the most races?",
            "How many parcels are on the routes that serve the town that hosted the most races?",
        ),
        (
            "Who directed the film 'Ash'?",
            "Ash",
            "Which movie sold the most tickets?",
            "Who directed the film with the same title as the movie that sold the most tickets?",
        ),
        ("How many Salem clubs are there?", "Salem", "Which town hosted the most races?", None),
        ("How far is 'Salem' from 'Salem'?", "Salem", "Which town hosted the most races?", None),
    ],
)
def test_a_value_is_described_and_not_shown(question: str, value: str, upstream: str, expected: str | None) -> None:
    thing = referent(upstream)
    assert thing is not None
    found = with_referent(question, value, thing)
    assert found == expected
    assert found is None or value not in found


def test_the_same_request_in_other_words_has_one_normal_form() -> None:
    forms = {
        normal(q) for q in ("How many boats are there?", "Count the number of boats.", "How many boats do we have?")
    }
    assert forms == {"number of boats"}
    assert normal("Show the boats of 'Salem'") != normal("Show the boats of 'Lowell'")


@pytest.mark.parametrize("value", ["Glass Tower", "02134", "A-0007", 48213])
def test_distinctive_values(value: object) -> None:
    assert distinctive(value)


@pytest.mark.parametrize(
    "value", ["Yes", "x", "May", "7", 12, 999, 2015, "2015", "modern", "2020-01-31", None, True, 3.5]
)
def test_values_that_tie_nothing(value: object) -> None:
    assert not distinctive(value)


def test_locked_literals_are_those_the_question_shows() -> None:
    assert locked("How many boats over 30 feet are in Salem?", ["Salem", "30", "hidden"]) == ("Salem", "30")


def test_stems_and_plurals() -> None:
    assert stem("cities") == "city"
    assert plural("city") == "cities"


def test_sentences_are_clean() -> None:
    assert tidy("how many boats are there ?") == "How many boats are there?"
    assert tidy("show all boats .") == "Show all boats."
    assert tidy("How many boats are there? Sort by name.") == "How many boats are there? Sort by name."
    assert listed(["a", "b"]) == "a and b"
    assert listed(["a, b", "c"]) == "a, b; and c"
    assert listed(["a and b", "c"]) == "a and b, and c"
    assert tidy("Which boat sank? Leave out boats whose owner is known.").endswith("known.")


def test_behaviors_share_no_phrase_that_all_their_templates_carry() -> None:
    for behavior in Behavior:
        found = templates(behavior)
        assert len({text for _, text in found}) >= 4
        words = [set(text.lower().split()) for _, text in found]
        assert not set.intersection(*words) - {"{theme}"}


def test_neutral_templates_are_one_set_for_all_behaviors() -> None:
    sets = {templates(behavior, "neutral") for behavior in Behavior}
    assert len(sets) == 1
    for _, text in sets.pop():
        assert "{theme}" not in text


@pytest.mark.parametrize("behavior", list(Behavior))
def test_no_template_shows_the_surface_pattern_of_the_published_requests(behavior: Behavior) -> None:
    cue = re.compile(r"registered data sources|source-grounded synthesis|identify.*sources", re.IGNORECASE)
    for style in ("plain", "neutral"):
        assert not [text for _, text in templates(behavior, style) if cue.search(text)]
