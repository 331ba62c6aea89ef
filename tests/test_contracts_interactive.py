"""Questions with one thing open: the people, a value, or the setting; who else could be meant is kept out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from contracts_support import make_bench, make_source

from tasks_lib.contracts.contract import Unit
from tasks_lib.contracts.interactive import candidates, rivals
from tasks_lib.contracts.pool import Pool
from tasks_lib.contracts.readings import common, readings
from tasks_lib.contracts.settings import Settings, title
from tasks_lib.contracts.signatures import signature
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.ledgers import Ledger


@pytest_asyncio.fixture
async def pool(tmp_path: Path) -> AsyncIterator[Pool]:
    async with SqlRunner(Ledger(f"sqlite:///{tmp_path}/ledger.sqlite")) as runner:
        bench, _ = await make_bench(make_source(tmp_path / "corpus"), runner)
        yield bench.pool


def asked(unit: Unit, question: str, sql: str | None = None) -> Unit:
    return replace(unit, question=question, sql=sql or unit.sql)


@pytest.mark.parametrize(
    ("question", "shared", "value"),
    [
        ("What is the average age of all gymnasts?", "What is the average age of the people on record?", "gymnasts"),
        ("How many poker players are there?", "How many people are on record?", "poker players"),
        ("How many singers are from each country?", "How many people on record are from each country?", "singers"),
    ],
)
async def test_the_people_may_be_open(pool: Pool, question: str, shared: str, value: str) -> None:
    unit = asked(pool.units[0], question)
    found = [reading for reading in readings(unit) if reading.slot == "people"]
    assert [(reading.shared, reading.value) for reading in found] == [(shared, value)]


@pytest.mark.parametrize(
    "question", ["Which gymnast is the oldest?", "Show the gymnasts who won.", "What is each singer's age?"]
)
async def test_people_stay_where_no_rule_is_sure(pool: Pool, question: str) -> None:
    assert not [reading for reading in readings(asked(pool.units[0], question)) if reading.slot == "people"]


async def test_a_value_may_be_open(pool: Pool) -> None:
    units = {unit.unit_id: unit for unit in pool.units}
    found = [reading for reading in readings(units["shop-salem"]) if reading.slot == "city"]
    assert {(reading.shared, reading.value) for reading in found} == {
        ("How many people live in the city I mentioned?", "Salem")
    }
    named = asked(
        units["film-chile"], "How many films were made in 'USA'?", "SELECT COUNT(*) FROM films WHERE country = 'USA'"
    )
    assert not [r for r in readings(replace(named, literals=("USA",))) if r.slot == "country"]  # written in many ways


async def test_equal_golds_read_alike_in_other_words_only_if_no_word_is_strange(pool: Pool) -> None:
    units = {unit.unit_id: unit for unit in pool.units}
    first, second = (
        units["film-mean"],
        replace(units["film-mean"], unit_id="other", question="Give the mean film budget."),
    )
    one, two = signature(first), signature(second)
    assert one is not None
    assert two is not None
    assert one.form == two.form
    pairs = [(a, b) for a in readings(first) for b in readings(second) if a.form == b.form]
    assert pairs
    assert any(common(pool, a, b) for a, b in pairs)
    strange = replace(second, question="What do the yachts cost on average?")
    assert not any(common(pool, a, b) for a in readings(first) for b in readings(strange))


async def test_settings_are_things_and_never_the_name(pool: Pool) -> None:
    settings = Settings(pool)
    said = settings.between("leaf_shop", "north_clinic", frozenset())
    assert said == "sales"
    assert settings.between("leaf_shop", "north_clinic", frozenset({"sale"})) is None
    database = pool.databases["leaf_shop"]
    assert title(database) == "a garden shop's clients and sales"
    assert title(replace(database, name="a_new_leaf_shop_1", title="A New Leaf Shop")) is None


async def test_candidates_are_open_and_repeat(pool: Pool) -> None:
    found = list(candidates(pool))
    assert found
    assert [c.candidate_id for c in found] == [c.candidate_id for c in candidates(pool)]
    for candidate in found:
        first, second = candidate.branches
        assert first.value.casefold() != second.value.casefold()
        assert first.value in first.answer
        assert second.value not in first.answer
        assert not rivals(pool, candidate) & set(candidate.databases)
        assert candidate.shared_question


async def test_whoever_names_all_that_is_asked_is_a_rival(pool: Pool) -> None:
    candidate = next(iter(candidates(pool)))
    assert rivals(pool, replace(candidate, shared_question="How many are there?")) == frozenset(pool.databases) - set(
        candidate.databases
    )
