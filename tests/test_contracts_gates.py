"""Every gate refuses a candidate made to fail it, names itself, and lets the good candidate pass."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from contracts_support import SETUP, make_bench, make_source, propose, refusals, reworded

from tasks_lib.contracts import gates
from tasks_lib.contracts.contract import Candidate, Unit, freeze
from tasks_lib.contracts.gates_wording import ordinary
from tasks_lib.contracts.proposals import Bench, Proposal, same_answer
from tasks_lib.protocol.records import Binding, Branch
from tasks_lib.protocol.vocabulary import Behavior, Corpus, Difficulty
from tasks_lib.sql.canonical import CanonicalResult, Value
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

    def propose(self, candidate: Candidate, *others: str, request: str = "") -> Proposal:
        """The candidate under the plainest of wordings: its questions one after the other."""
        said = request or " ".join(dict.fromkeys(unit.question for unit in candidate.units))
        return propose(self.bench, candidate, *others, request=said)

    def single(self, unit_id: str = "song-mean", *others: str) -> Proposal:
        return self.propose(self.many(unit_id, behavior=Behavior.SINGLE), *(others or ("leaf_shop",)))

    def parallel(self) -> Proposal:
        return self.propose(self.many("film-mean", "song-mean"), "leaf_shop")

    def sequential(self) -> Proposal:
        up, down = self.units["film-top"], self.units["song-plays"]
        link = Binding(
            up.unit_id,
            down.unit_id,
            "films.film_title",
            0,
            "Glass Tower",
            "SELECT plays FROM songs WHERE song_title = :binding",
            "How many times has the song '{binding}' been played?",
        )
        edge = (up.unit_id, down.unit_id)
        candidate = Candidate(Corpus.SPIDER, Behavior.SEQUENTIAL, (up, down), (edge,), (link,), aggregation="last")
        said = "Which film had the largest budget, and how many times has the song of the same title been played?"
        return self.propose(candidate, "leaf_shop", request=said)

    def interactive(self, first: str = "shop-salem", second: str = "clinic-salem") -> Proposal:
        values = {"shop-salem": "a garden shop's clients", "clinic-salem": "a clinic's patients"}
        names = (first, second)
        settings = [values[name.replace("lowell", "salem")] for name in names]
        branches = tuple(
            Branch(letter, name, f"I mean {value}.", value)
            for letter, name, value in zip("ab", names, settings, strict=True)
        )
        candidate = Candidate(
            Corpus.SPIDER,
            Behavior.INTERACTIVE,
            tuple(self.units[name] for name in names),
            branches=branches,
            slot_question="Whose records do you mean?",
            aggregation="the branch that is meant",
        )
        return self.propose(candidate, "wave_radio")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all tests here, so that a gold runs once."""
    return tmp_path_factory.mktemp("gates")


@pytest_asyncio.fixture
async def room(shared: Path) -> AsyncIterator[Room]:
    async with SqlRunner(Ledger(f"sqlite:///{shared}/ledger.sqlite")) as runner:
        yield Room(*await make_bench(make_source(shared / "corpus"), runner))


def changed(proposal: Proposal, **fields: object) -> Proposal:
    """The proposal with other candidate fields; the contract follows."""
    candidate = replace(proposal.candidate, **fields)  # type: ignore[arg-type]
    contract = freeze(candidate, proposal.contract.task_id, lambda name: proposal.public_ids.get(name, ""))
    return replace(proposal, candidate=candidate, contract=contract)


def with_unit(proposal: Proposal, at: int, **fields: object) -> Proposal:
    units = list(proposal.candidate.units)
    units[at] = replace(units[at], **fields)  # type: ignore[arg-type]
    return changed(proposal, units=tuple(units))


async def test_good_candidates_of_every_behavior_pass_every_gate(room: Room) -> None:
    exploratory = room.propose(room.many("film-chile", "clinic-bill", behavior=Behavior.EXPLORATORY), "wave_radio")
    for proposal in (room.single(), room.parallel(), exploratory, room.sequential(), room.interactive()):
        assert await refusals(room.bench, proposal) == []
        assert await gates.judge(room.bench, proposal) is None


async def test_ownership(room: Room) -> None:
    for fields in ({"database": "no_such"}, {"corpus": Corpus.BIRD}, {"database_digest": "0" * 64}):
        assert (await refusals(room.bench, with_unit(room.single(), 0, **fields)))[0] == "ownership"
    two = room.propose(room.many("film-mean", "film-chile"), "leaf_shop")
    assert await refusals(room.bench, two) == ["ownership"]


async def test_behavior_shape(room: Room) -> None:
    good = room.sequential()
    for fields in (
        {"edges": ()},
        {"bindings": ()},
        {"edges": (good.candidate.edges[0][::-1],)},
        {"behavior": Behavior.PARALLEL},
    ):
        bad = changed(good, **fields)
        if not bad.candidate.bindings:  # nothing supplies the value then, so the request must say it
            bad = reworded(bad, f"{bad.task.request} I mean Glass Tower.")
        assert await refusals(room.bench, bad) == ["behavior_shape"]
    assert await refusals(room.bench, changed(room.single(), behavior=Behavior.PARALLEL)) == ["behavior_shape"]
    assert await refusals(room.bench, changed(room.interactive(), slot_question="")) == ["behavior_shape"]


async def test_duplicate(room: Room) -> None:
    room.bench.seen.add(frozenset({"song-mean", "film-mean"}))
    assert await refusals(room.bench, room.parallel()) == ["duplicate"]


async def test_schema_references(room: Room) -> None:
    for fields in ({"tables": ("albums",)}, {"columns": ("songs.tempo",)}):
        assert await refusals(room.bench, with_unit(room.single(), 0, **fields)) == ["schema_references"]


async def test_read_only(room: Room) -> None:
    """The runner refuses such text as well, so nothing of it can run even if this gate were gone."""
    for sql in ("DELETE FROM songs", "SELECT 1; SELECT 2"):
        bad = with_unit(room.single(), 0, sql=sql)
        assert await refusals(room.bench, bad) == ["read_only", "executes"]
        refusal = await gates.judge(room.bench, bad)
        assert refusal is not None
        assert refusal.gate == "read_only"


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
        assert (await refusals(room.bench, proposal))[0] == "branch_wording"


async def test_shared_wording_unique(room: Room) -> None:
    """A third database that names all that the request says could be meant as well."""
    good = room.interactive()
    assert await refusals(room.bench, replace(good, allowlist=(*good.allowlist, "lamp_films"))) == []
    open_words = changed(good, shared_question="How many are there?")
    assert "shared_wording_unique" in await refusals(room.bench, open_words)


async def test_branch_needs_its_value(room: Room) -> None:
    """Both databases know both towns, so that the town does not tell which one is meant."""
    good = room.interactive("shop-salem", "clinic-lowell")
    towns = tuple(
        replace(branch, value=town, answer=f"I mean {town}.")
        for branch, town in zip(good.candidate.branches, ("Salem", "Lowell"), strict=True)
    )
    asked = "How many people live in the town I mentioned?"
    bad = reworded(changed(good, branches=towns, shared_question=asked), asked)
    assert "branch_needs_its_value" in await refusals(room.bench, bad)


async def test_executes(room: Room) -> None:
    assert await refusals(room.bench, with_unit(room.single(), 0, sql="SELECT nope FROM songs")) == ["executes"]
    assert await refusals(room.bench, with_unit(room.single(), 0, result_digest="0" * 64)) == ["executes"]


@pytest.mark.parametrize("unit_id", ["shop-none", "shop-empty", "shop-nulls"])
async def test_non_trivial(room: Room, unit_id: str) -> None:
    """Known fault C05: a gold that returns no row, nulls or a lone zero may not become a contract."""
    assert await refusals(room.bench, room.single(unit_id, "wave_radio")) == ["non_trivial"]
    assert not [u for u in room.bench.pool.units if u.unit_id == unit_id]


async def test_source_necessity(room: Room) -> None:
    """Two films of Chile, two people in Salem: with either number gone the set of contributions is the same."""
    equal = room.propose(room.many("film-chile", "shop-salem"), "wave_radio")
    assert await refusals(room.bench, equal) == ["source_necessity"]
    found = await gates.source_necessity(room.bench, equal)
    assert found == "without film-chile the joint answer is the same, shop-salem gives it too."
    assert await gates.source_necessity(room.bench, room.single()) is None


@pytest.mark.parametrize(
    ("corpus", "first", "second", "same"),
    [
        (Corpus.SPIDER, [(1,), (1,), (2,)], [(2,), (1,)], False),
        (Corpus.BIRD, [(1,), (1,), (2,)], [(2,), (1,)], True),
        (Corpus.SPIDER, [(1, "a"), (2, "b")], [(2.0, "b"), (1.0, "a")], True),
        (Corpus.BIRD, [(2.5,)], [(2.504,)], False),
        (Corpus.LIVESQLBENCH, [(2.5,)], [(2.504,)], True),
        (Corpus.BIRD, [("1",)], [(1,)], False),
    ],
)
def test_one_answer_is_what_the_corpus_takes_for_one(
    corpus: Corpus, first: list[tuple[Value, ...]], second: list[tuple[Value, ...]], same: bool
) -> None:
    results = [CanonicalResult(tuple("c" * len(rows[0])), tuple(rows)) for rows in (first, second)]
    assert same_answer(corpus, *results) is same


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
        bad = changed(good, bindings=(replace(link, **fields),))  # type: ignore[arg-type]
        if "value" in fields:
            bad = reworded(bad, f"{bad.task.request} I mean Glass Tower.")
        assert await refusals(room.bench, bad) == ["binding_by_execution"]


async def test_branches_differ(room: Room) -> None:
    assert await refusals(room.bench, room.interactive("shop-lowell", "clinic-lowell")) == ["branches_differ"]


async def test_target_uniqueness(room: Room) -> None:
    asked = room.propose(room.many("shop-salem", behavior=Behavior.SINGLE), "north_clinic")
    assert await refusals(room.bench, asked) == ["target_uniqueness"]
    near = room.single("film-top", "old_films")
    assert await refusals(room.bench, near) == ["target_uniqueness"]
    assert await gates.target_uniqueness(room.bench, near) == "old_films has nearly the schema of lamp_films."


CINEMA_COLUMNS = "CREATE TABLE halls (hall TEXT, a1 TEXT, a2 TEXT, a3 TEXT, a4 TEXT, a5 TEXT);"
CINEMAS = {
    "a table": """CREATE TABLE films (film_id INTEGER PRIMARY KEY, film_title TEXT, budget INTEGER, country TEXT);
        INSERT INTO films VALUES (1, 'Glass Tower', 901, 'Peru');""",
    "a table in another case": """CREATE TABLE FILMS (ID INTEGER, Film_Title TEXT, BUDGET INTEGER);
        INSERT INTO FILMS VALUES (1, 'Glass Tower', 901);""",
    "a view": """CREATE TABLE shown (code INTEGER, called TEXT, spent INTEGER);
        INSERT INTO shown VALUES (1, 'Glass Tower', 901);
        CREATE VIEW Films AS SELECT called AS film_title, spent AS budget FROM shown;""",
}


@pytest.mark.parametrize("kind", CINEMAS)
async def test_target_uniqueness_runs_gold_where_it_prepares(shared: Path, kind: str) -> None:
    setup = {**SETUP, "old_films": ("a row of cinemas and what they show", CINEMAS[kind] + CINEMA_COLUMNS)}
    folder = shared / kind.replace(" ", "-")
    async with SqlRunner(Ledger(f"sqlite:///{shared}/ledger.sqlite")) as runner:
        room = Room(*await make_bench(make_source(folder, setup), runner))
        same = room.single("film-top", "old_films")
        assert await refusals(room.bench, same) == ["target_uniqueness"]
        assert await gates.target_uniqueness(room.bench, same) == "gold of film-top gives the same answer on old_films."
        assert await gates.target_uniqueness(room.bench, room.single("film-mean", "old_films")) is None
        asked = {"lamp_films", "old_films"}
        assert "old_films" in room.bench.neighbourhood.confusable([room.units["film-top"]])
        assert not asked & room.bench.neighbourhood.confusable([room.units["song-mean"]])


async def test_gold_that_reads_no_table_is_no_ones(room: Room) -> None:
    found = await gates.target_uniqueness(
        room.bench, with_unit(room.single(), 0, sql="SELECT 7", tables=(), columns=(), result_digest="")
    )
    assert found == "gold of song-mean gives the same answer on leaf_shop."


async def test_literals_survive(room: Room) -> None:
    proposal = reworded(room.single("film-chile", "leaf_shop"), "How many films were made there?")
    assert await refusals(room.bench, proposal) == ["literals_survive"]


@pytest.mark.parametrize(
    ("asked", "literals", "said", "kept"),
    [
        ("Which three songs are played most?", ("3",), "the three songs that are played most", True),
        ("Which three songs are played most?", ("3",), "the 3 songs that are played most", True),
        ("Which three songs are played most?", ("3",), "the songs that are played most", False),
        ("Which songs were played over 10,000 times?", ("10000",), "songs played over 10000 times", True),
        ("Which songs were played over 10000 times?", ("10000",), "songs played over 1000 times", False),
        ("Which songs did 'Bo Lund' sing?", ("Bo Lund",), "the songs of BO LUND", True),
        ("Which songs did 'Bo Lund' sing?", ("Bo Lund",), "the songs of Bo", False),
        ("Which song is from zip 02134?", ("02134",), "the song from zip 2134", False),
        ("Which songs are there?", ("Bo Lund", ""), "all songs", True),  # the question does not show it either
    ],
)
async def test_literals_survive_in_some_form(
    room: Room, asked: str, literals: tuple[str, ...], said: str, kept: bool
) -> None:
    proposal = reworded(with_unit(room.single(), 0, question=asked, literals=literals), said)
    assert (gates.literals_survive(room.bench, proposal) is None) is kept


async def test_a_literal_may_stand_in_the_answer_of_its_branch(room: Room) -> None:
    good = room.interactive()
    first, second = good.candidate.branches
    unsaid = reworded(good, "How many people live there?")
    assert await refusals(room.bench, unsaid) == ["literals_survive"]
    answers = tuple(replace(b, answer=f"{b.answer} The town is Salem.") for b in (first, second))
    assert await refusals(room.bench, reworded(changed(unsaid, branches=answers), unsaid.task.request)) == []


@pytest.mark.parametrize(
    "request_text",
    [
        "What is the average of song_title?",
        "What is the average number of plays by city_name?",
        "What is the average number of plays in wave_radio?",
        "What is the average number of plays in db_0123456789ab?",
        "What does spider:dev:12 ask?",
        "SELECT AVG(plays) FROM the songs",
        "What is the average number of plays, ORDER BY singer?",
        "What is the average number of plays of {binding}?",
        "What is the average number of plays of :up1_title?",
    ],
)
async def test_no_identifiers(room: Room, request_text: str) -> None:
    assert await refusals(room.bench, reworded(room.single(), request_text)) == ["no_identifiers"]


async def test_ordinary_words_are_no_identifiers(room: Room) -> None:
    proposal = reworded(room.single(), "What is the average number of plays over all songs of every singer?")
    assert await refusals(room.bench, proposal) == []


SPELLED = (
    "plays", "Country", "GDP", "ID", "birthDay", "perpetrator", "coachID", "CoachName", "ratingdate", "makeid", "fname", "frpm",
    "hL", "forename", "SongTitle",
)  # fmt: skip


@pytest.mark.parametrize("token", ["plays", "country", "GDP", "ID", "birthday", "perpetrator", "forename", "Countries"])
async def test_an_ordinary_word_may_be_a_column_too(room: Room, token: str) -> None:
    room.bench.__dict__["spellings"] = {name.casefold(): frozenset({name}) for name in SPELLED}
    room.bench.__dict__["asked_of"] = {"forename": 2}
    assert ordinary(room.bench, token)


@pytest.mark.parametrize(
    "token",
    ["coachID", "coachid", "CoachName", "coachname", "ratingdate", "makeid", "fname", "frpm", "hl", "SongTitle"],
)
async def test_abbreviations_and_joined_words_are_identifiers(room: Room, token: str) -> None:
    room.bench.__dict__["spellings"] = {name.casefold(): frozenset({name}) for name in SPELLED}
    assert not ordinary(room.bench, token)
    assert await refusals(room.bench, reworded(room.single(), f"What is the average {token}?")) == ["no_identifiers"]


async def test_names_of_several_words_are_identifiers_when_nobody_says_them(room: Room) -> None:
    names = ("Plays (K-12)", "Song Title")
    room.bench.__dict__["spellings"] = {name.casefold(): frozenset({name}) for name in names}
    assert await refusals(room.bench, reworded(room.single(), "What is the average Plays (K-12)?")) == [
        "no_identifiers"
    ]
    assert await refusals(room.bench, reworded(room.single(), "What is the average Song Title?")) == []


async def test_a_constant_may_look_like_a_name(room: Room) -> None:
    asked = "How many songs are called song_title?"
    proposal = reworded(with_unit(room.single(), 0, question=asked, literals=("song_title",)), asked)
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
        replace(good, task=replace(good.task, allowlist=(*good.task.allowlist, good.task.allowlist[0]))),
        replace(good, task=replace(good.task, corpus=Corpus.BIRD)),
        replace(good, contract=replace(good.contract, difficulty=Difficulty.HARD)),
        replace(good, contract=replace(good.contract, edges=(good.contract.databases,))),  # type: ignore[arg-type]
    ):
        assert await refusals(room.bench, proposal) == ["records_agree"]


def test_every_gate_has_a_test() -> None:
    """Here or in another file on contracts, by its name."""
    texts = [path.read_text("utf-8") for path in Path(__file__).parent.glob("test_contracts_*.py")]
    untested = [name for name in gates.NAMES if not any(f"def test_{name}" in text for text in texts)]
    assert untested == []
