"""Every gate refuses a candidate made to fail it, names itself, and lets the good candidate pass."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from contracts_support import SETUP, make_bench, make_source, propose, refusals, reworded

from tasks_lib.contracts import gates, sequential
from tasks_lib.contracts.contract import Candidate, Unit
from tasks_lib.contracts.interactive import candidates as interactive_candidates
from tasks_lib.contracts.proposals import Bench, Proposal
from tasks_lib.protocol.vocabulary import Behavior, Corpus
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.ledgers import Ledger


class Room:
    """The bench of a test with its units and a few good proposals."""

    def __init__(self, bench: Bench, units: dict[str, Unit]) -> None:
        self.bench, self.units = bench, units

    def many(self, *unit_ids: str, behavior: Behavior = Behavior.PARALLEL) -> Candidate:
        return Candidate(
            Corpus.SPIDER, behavior, tuple(self.units[u] for u in unit_ids), aggregation="all", theme="average plays"
        )

    def single(self, unit_id: str = "song-mean", *others: str) -> Proposal:
        return propose(self.bench, self.many(unit_id, behavior=Behavior.SINGLE), *(others or ("leaf_shop",)))

    def parallel(self) -> Proposal:
        return propose(self.bench, self.many("film-mean", "song-mean"), "leaf_shop")

    def sequential(self) -> Proposal:
        up, down = self.units["film-top"], self.units["song-plays"]
        link = sequential.binding(self.bench.pool, up, down)
        assert link is not None
        edge = (up.unit_id, down.unit_id)
        candidate = Candidate(Corpus.SPIDER, Behavior.SEQUENTIAL, (up, down), (edge,), (link,), aggregation="last")
        return propose(self.bench, candidate, "leaf_shop")

    def interactive(self) -> Proposal:
        found = [
            c for c in interactive_candidates(self.bench.pool) if {"shop-salem", "clinic-salem"} == set(c.unit_ids)
        ]
        return propose(self.bench, found[0], "wave_radio")


@pytest_asyncio.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    async with SqlRunner(Ledger(f"sqlite:///{tmp_path}/ledger.sqlite")) as runner:
        yield Room(*await make_bench(make_source(tmp_path / "corpus"), runner))


def changed(proposal: Proposal, **fields: object) -> Proposal:
    """The proposal with other candidate fields; the contract follows."""
    candidate = replace(proposal.candidate, **fields)  # type: ignore[arg-type]
    contract = replace(proposal.contract, unit_ids=candidate.unit_ids, behavior=candidate.behavior)
    return replace(proposal, candidate=candidate, contract=contract)


def with_unit(proposal: Proposal, at: int, **fields: object) -> Proposal:
    units = list(proposal.candidate.units)
    units[at] = replace(units[at], **fields)  # type: ignore[arg-type]
    return changed(proposal, units=tuple(units))


async def test_good_candidates_of_every_behavior_pass_every_gate(room: Room) -> None:
    exploratory = propose(
        room.bench, room.many("film-chile", "clinic-bill", behavior=Behavior.EXPLORATORY), "wave_radio"
    )
    for proposal in (room.single(), room.parallel(), exploratory, room.sequential(), room.interactive()):
        assert await refusals(room.bench, proposal) == []
        assert await gates.judge(room.bench, proposal) is None


async def test_ownership(room: Room) -> None:
    for fields in ({"database": "no_such"}, {"corpus": Corpus.BIRD}, {"database_digest": "0" * 64}):
        assert (await refusals(room.bench, with_unit(room.single(), 0, **fields)))[0] == "ownership"
    two = propose(room.bench, room.many("film-mean", "film-chile"), "leaf_shop")
    assert await refusals(room.bench, two) == ["ownership"]


async def test_behavior_shape(room: Room) -> None:
    good = room.sequential()
    for fields in (
        {"edges": ()},
        {"bindings": ()},
        {"edges": (good.candidate.edges[0][::-1],)},
        {"behavior": Behavior.PARALLEL},
    ):
        assert "behavior_shape" in await refusals(room.bench, changed(good, **fields))
    assert await refusals(room.bench, changed(room.single(), behavior=Behavior.PARALLEL)) == ["behavior_shape"]
    assert "behavior_shape" in await refusals(room.bench, changed(room.interactive(), slot_question=""))


async def test_duplicate(room: Room) -> None:
    room.bench.seen.add(frozenset({"song-mean", "film-mean"}))
    assert await refusals(room.bench, room.parallel()) == ["duplicate"]


async def test_schema_references(room: Room) -> None:
    for fields in ({"tables": ("albums",)}, {"columns": ("songs.tempo",)}):
        assert await refusals(room.bench, with_unit(room.single(), 0, **fields)) == ["schema_references"]


async def test_read_only(room: Room) -> None:
    for sql in ("DELETE FROM songs", "SELECT 1; SELECT 2"):
        assert (await refusals(room.bench, with_unit(room.single(), 0, sql=sql)))[0] == "read_only"


async def test_branch_wording(room: Room) -> None:
    good = room.interactive()
    first, second = good.candidate.branches
    gives_away = with_unit(
        with_unit(good, 0, question="How many clients live in Salem?"), 1, question="How many clients live in Salem?"
    )
    leaks_other = changed(good, branches=(replace(first, answer=f"Not {second.value}."), second))
    other_words = with_unit(good, 1, question="How many persons are from Salem?")
    same_value = changed(good, branches=(first, replace(second, value=first.value)))
    for proposal in (gives_away, leaks_other, other_words, same_value):
        assert "branch_wording" in await refusals(room.bench, proposal)


async def test_executes(room: Room) -> None:
    assert "executes" in await refusals(room.bench, with_unit(room.single(), 0, sql="SELECT nope FROM songs"))
    assert await refusals(room.bench, with_unit(room.single(), 0, result_digest="0" * 64)) == ["executes"]


@pytest.mark.parametrize("unit_id", ["shop-none", "shop-empty", "shop-nulls"])
async def test_non_trivial(room: Room, unit_id: str) -> None:
    """Known fault C05: a gold that returns no row, nulls or a lone zero may not become a contract."""
    assert await refusals(room.bench, room.single(unit_id, "wave_radio")) == ["non_trivial"]
    assert not [u for u in room.bench.pool.units if u.unit_id == unit_id]


async def test_source_necessity(room: Room) -> None:
    equal = propose(room.bench, room.many("clinic-lowell", "shop-lowell"), "wave_radio")
    assert "source_necessity" in await refusals(room.bench, equal)
    found = await gates.source_necessity(room.bench, equal)
    assert found is not None
    assert "joint answer is the same" in found


async def test_binding_by_execution(room: Room) -> None:
    good = room.sequential()
    (link,) = good.candidate.bindings
    for fields in (
        {"value": "Iron Meadow"},
        {"downstream_sql": room.units["song-plays"].sql},
        {"downstream_sql": "SELECT plays FROM songs WHERE song_title = 'Glass Tower' OR :binding = ''"},
        {"downstream_sql": "SELECT MAX(plays) FROM songs WHERE song_title <> :binding"},
        {"field": "films.no_such"},
    ):
        assert "binding_by_execution" in await refusals(room.bench, changed(good, bindings=(replace(link, **fields),)))  # type: ignore[arg-type]


async def test_branches_differ(room: Room) -> None:
    found = [c for c in interactive_candidates(room.bench.pool) if "shop-lowell" in c.unit_ids]
    assert await refusals(room.bench, propose(room.bench, found[0], "wave_radio")) == ["branches_differ"]


async def test_target_uniqueness(room: Room) -> None:
    asked = propose(room.bench, room.many("shop-salem", behavior=Behavior.SINGLE), "north_clinic")
    assert await refusals(room.bench, asked) == ["target_uniqueness"]
    near = room.single("film-top", "old_films")
    found = await gates.target_uniqueness(room.bench, near)
    assert found == "old_films has nearly the schema of lamp_films."


async def test_target_uniqueness_runs_gold_where_it_prepares(tmp_path: Path) -> None:
    wider = """CREATE TABLE films (film_id INTEGER PRIMARY KEY, film_title TEXT, budget INTEGER, country TEXT);
        INSERT INTO films VALUES (1, 'Glass Tower', 901, 'Peru');
        CREATE TABLE halls (hall TEXT, a1 TEXT, a2 TEXT, a3 TEXT, a4 TEXT, a5 TEXT);"""
    setup = {**SETUP, "old_films": ("a row of cinemas and what they show", wider)}
    async with SqlRunner(Ledger(f"sqlite:///{tmp_path}/ledger.sqlite")) as runner:
        room = Room(*await make_bench(make_source(tmp_path / "corpus", setup), runner))
        same = await gates.target_uniqueness(room.bench, room.single("film-top", "old_films"))
        assert same == "gold of film-top gives the same answer on old_films."
        assert await gates.target_uniqueness(room.bench, room.single("film-mean", "old_films")) is None


async def test_literals_survive(room: Room) -> None:
    proposal = reworded(room.single("film-chile", "leaf_shop"), "How many films were made there?")
    assert await refusals(room.bench, proposal) == ["literals_survive"]


@pytest.mark.parametrize(
    "request_text",
    [
        "What is the average of song_title?",
        "What is the average number of plays in wave_radio?",
        "What is the average number of plays in db_0123456789ab?",
        "SELECT AVG(plays) FROM the songs",
        "What is the average number of plays of {binding}?",
    ],
)
async def test_no_identifiers(room: Room, request_text: str) -> None:
    assert await refusals(room.bench, reworded(room.single(), request_text)) == ["no_identifiers"]


async def test_ordinary_words_are_no_identifiers(room: Room) -> None:
    proposal = reworded(room.single(), "What is the average number of plays over all songs of every singer?")
    assert await refusals(room.bench, proposal) == []


async def test_upstream_absent(room: Room) -> None:
    good = room.sequential()
    assert await refusals(room.bench, reworded(good, good.task.request + " It is GLASS TOWER.")) == ["upstream_absent"]


async def test_allowlist_contains(room: Room) -> None:
    good = room.parallel()
    without = replace(good, task=replace(good.task, allowlist=good.task.allowlist[:1]))
    assert await refusals(room.bench, without) == ["allowlist_contains"]
    alone = replace(good, task=replace(good.task, allowlist=good.contract.databases))
    assert await refusals(room.bench, alone) == ["allowlist_contains"]


async def test_records_agree(room: Room) -> None:
    good = room.parallel()
    for proposal in (
        replace(good, task=replace(good.task, task_id="task_2")),
        replace(good, contract=replace(good.contract, unit_ids=good.contract.unit_ids[::-1])),
        replace(good, contract=replace(good.contract, databases=good.contract.databases[::-1])),
        replace(good, task=replace(good.task, allowlist=(*good.task.allowlist, "db_ffffffffffff"))),
    ):
        assert await refusals(room.bench, proposal) == ["records_agree"]


async def test_every_gate_has_a_test_here() -> None:
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert set(gates.NAMES) <= tested
