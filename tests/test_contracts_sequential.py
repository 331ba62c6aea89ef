"""Values pass only between columns of one kind; a chain is said as questions that follow each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from contracts_support import make_bench, make_source

from tasks_lib.contracts.contract import Unit
from tasks_lib.contracts.follow_ups import follow_up, sentence, single, sound
from tasks_lib.contracts.kinds import asks_for, compared, kind, nouns, passed
from tasks_lib.contracts.pool import Pool
from tasks_lib.contracts.sequential import binding, candidates, described, link_kind
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.ledgers import Ledger


@pytest.mark.parametrize(
    ("table", "column", "expected"),
    [
        ("harbors", "Nationality", "country"),
        ("country", "Name", "country"),
        ("boats", "home_town", "city"),
        ("members", "lname", "last name"),
        ("members", "First_Name", "first name"),
        ("skipper", "name", "skipper"),
        ("client", "name", "name"),
        ("films", "film_title", "title"),
        ("orders", "payment_method_code", "payment method"),
        ("boats", "status", None),
        ("boats", "id", None),
    ],
)
def test_kinds_are_read_from_names(table: str, column: str, expected: str | None) -> None:
    assert kind(table, column) == expected


def test_a_value_passes_between_columns_of_one_kind_only() -> None:
    assert passed("country", "country") == "country"
    assert passed("location", "city") == "city"
    assert passed("course", "language") is None
    assert passed("location", "origin") is None
    assert passed("headquarter", "country") is None
    assert "nationalities" in nouns("country")
    assert asks_for("What is the nationality of the oldest skipper?", "country")
    assert not asks_for("Which continent is the country of Salem in?", "country")


@pytest.mark.parametrize(
    ("question", "value", "noun", "expected"),
    [
        ("How many boats were built in Norway?", "Norway", "country", "How many boats were built in that country?"),
        ("How many boats are in the city of 'Salem'?", "Salem", "city", "How many boats are in that city?"),
        ("Show all boats of the sail industry.", "sail", "industry", "Show all boats of that industry."),
        ("Which skippers have nationality 'Norway'?", "Norway", "country", None),
        (
            "Name the crews whose nationality is not 'Chile'.",
            "Chile",
            "country",
            "Name the crews from another country.",
        ),
        ("What is Norway's longest river?", "Norway", "country", "What is that country's longest river?"),
        ("How many rivers are in Asia?", "Asia", "continent", "How many rivers are on that continent?"),
        ("Who has the last name 'Poe'?", "Poe", "last name", "Who with that last name?"),
        ("How many Norway boats are there?", "Norway", "country", None),
        ("Show boats with Norway country as country.", "Norway", "country", "Show boats with that country as country."),
    ],
)
def test_a_value_becomes_that_thing(question: str, value: str, noun: str, expected: str | None) -> None:
    found = follow_up(question, value, noun)
    assert found is None or value not in found
    if expected is None or noun in ("continent", "city"):
        assert found == expected


def test_a_question_for_several_asks_for_one() -> None:
    assert single("Show the clubs that have both boats and crews.") == "Which club has both boats and crews?"
    assert single("What are the names of the clubs near Salem?") is None
    assert single("Which club has most boats?") == "Which club has most boats?"
    assert not sound("How many boats does Norway has?")
    assert sentence("please list the boats from that country ?") == "Please list the boats from that country."


@pytest_asyncio.fixture
async def pool(tmp_path: Path) -> Pool:
    async with SqlRunner(Ledger(f"sqlite:///{tmp_path}/ledger.sqlite")) as runner:
        bench, _ = await make_bench(make_source(tmp_path / "corpus"), runner)
        return bench.pool


async def test_a_film_title_passes_to_a_song_title_and_is_never_shown(pool: Pool) -> None:
    units = {unit.unit_id: unit for unit in pool.units}
    up, down = units["film-top"], units["song-plays"]
    assert compared(down, "Glass Tower") == (("songs", "song_title"),)
    link = binding(pool, up, down)
    assert link is not None
    assert (link.field, link.value) == ("films.film_title", "Glass Tower")
    said = described((up, down), (link,))
    assert said is not None
    assert "Glass Tower" not in said


async def test_a_value_in_a_pattern_or_of_another_kind_makes_no_link(pool: Pool) -> None:
    units = {unit.unit_id: unit for unit in pool.units}
    up, down = units["film-top"], units["song-plays"]

    def changed(unit: Unit, sql: str) -> Unit:
        return replace(unit, sql=sql)

    like = changed(down, "SELECT plays FROM songs WHERE song_title LIKE 'Glass Tower'")
    other = changed(down, "SELECT plays FROM songs WHERE singer = 'Glass Tower'")
    assert link_kind(up, down) == "title"
    assert link_kind(up, like) is None
    assert link_kind(up, other) is None


async def test_candidates_are_the_same_every_time_and_no_paraphrases(pool: Pool) -> None:
    found = [candidate.unit_ids for candidate in candidates(pool)]
    assert found == [candidate.unit_ids for candidate in candidates(pool)]
    assert ("film-top", "song-plays") in found
    golds = [tuple(unit.sql for unit in candidate.units) for candidate in candidates(pool)]
    assert len(set(golds)) == len(golds)
