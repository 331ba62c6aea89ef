"""Distractors are close to the targets by their schema cards, the rest is spread, and nothing but the cards moves them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tasks_lib.contracts import profiles
from tasks_lib.contracts.contract import Candidate, Unit
from tasks_lib.contracts.distractors import DECIMALS, Neighbourhood
from tasks_lib.contracts.pool import Pool
from tasks_lib.corpora.cards import schema_card
from tasks_lib.corpora.model import ColumnInfo, CorpusDatabase, TableInfo
from tasks_lib.models import embeddings
from tasks_lib.protocol.vocabulary import Behavior, Corpus, Engine

SUBJECTS = {
    "music": ("singer", "album", "song", "concert"),
    "health": ("patient", "nurse", "prescription", "disease"),
    "flight": ("airport", "aircraft", "passenger", "runway"),
    "school": ("pupil", "teacher", "course", "exam"),
    "court": ("judge", "verdict", "lawyer", "trial"),
}
EACH = 6


def database(name: str, title: str, things: tuple[str, ...], meaning: str = "") -> CorpusDatabase:
    """A database without a file: distractors look at the schema only."""
    tables = tuple(
        TableInfo(thing, (ColumnInfo(f"{thing}_{name}", "TEXT", meaning), ColumnInfo("note", "TEXT")), 1)
        for thing in things
    )
    return CorpusDatabase(
        Corpus.SPIDER, name, Engine.SQLITE, Path(name), name, f"digest of {name}", "original", title, tables, ""
    )


def databases() -> list[CorpusDatabase]:
    """Five subjects, six databases each; two tables of every database are those of a neighbour on the subject."""
    found = []
    for subject, things in SUBJECTS.items():
        for at in range(EACH):
            pair = (things[at % 4], things[(at + 1) % 4])
            found.append(database(f"{subject}_{at}", f"{subject} records of place {at}", pair))
    return found


def unit(name: str, at: int = 0) -> Unit:
    return Unit(
        f"unit-{name}-{at}", Corpus.SPIDER, name, f"digest of {name}", f"What is noted in {name}, part {at}?", "SELECT 1", "",
        (), (), (), "d" * 64, 1, 1, (), (),
    )  # fmt: skip


def neighbourhood(key: bytes = b"key", given: list[CorpusDatabase] | None = None) -> Neighbourhood:
    chosen = given if given is not None else databases()
    return Neighbourhood(Pool(chosen, [unit(d.name) for d in chosen], key))


def task(*names: str) -> Candidate:
    behavior = Behavior.SINGLE if len(names) == 1 else Behavior.PARALLEL
    return Candidate(Corpus.SPIDER, behavior, tuple(map(unit, names)))


@pytest.fixture(scope="module")
def near() -> Neighbourhood:
    return neighbourhood()


def subject(name: str) -> str:
    return name.split("_")[0]


def test_databases_on_one_subject_are_close_and_share_a_cluster(near: Neighbourhood) -> None:
    same = np.array([[subject(a) == subject(b) for b in near.names] for a in near.names])
    assert near.similarity[same].mean() > near.similarity[~same].mean() + 0.2
    for cluster in set(near.clusters.values()):
        assert len({subject(name) for name, label in near.clusters.items() if label == cluster}) == 1


def test_similarities_are_rounded_and_symmetric(near: Neighbourhood) -> None:
    assert (near.similarity == np.round(near.similarity, DECIMALS)).all()
    assert (near.similarity == near.similarity.T).all()


@pytest.mark.parametrize("target", ["music_0", "court_3"])
def test_half_of_an_allowlist_is_near_and_the_rest_is_spread(near: Neighbourhood, target: str) -> None:
    allowlist = near.allowlist(task(target), 11)
    assert len(allowlist) == 11
    assert list(allowlist) == sorted(set(allowlist))
    counts = {s: sum(subject(name) == s for name in allowlist) for s in SUBJECTS}
    assert counts[subject(target)] == EACH
    assert sorted(counts.values()) == [1, 1, 1, 2, EACH]  # 5 near, then 5 in turns over the other clusters


def test_every_target_and_the_neighbours_of_each_are_in(near: Neighbourhood) -> None:
    allowlist = near.allowlist(task("music_0", "flight_0"), 12)
    assert {"music_0", "flight_0"} < set(allowlist)
    assert {"music", "flight"} <= {subject(name) for name in allowlist if name not in ("music_0", "flight_0")}


def test_the_random_variant_does_not_look_at_closeness(near: Neighbourhood) -> None:
    counts = []
    for at in range(EACH):
        drawn = near.allowlist(task(f"music_{at}"), 11, spread_only=True)
        assert len(drawn) == 11
        assert f"music_{at}" in drawn
        counts.append(sum(subject(name) == "music" for name in drawn) - 1)
    assert sum(counts) / EACH < 3.5  # 5 of 29 are expected to be 1.7 of 10; near ones would be 5
    assert neighbourhood().allowlist(task("music_1"), 11, True) == near.allowlist(task("music_1"), 11, True)


def test_the_key_moves_the_spread_and_never_the_near_half(near: Neighbourhood) -> None:
    other = neighbourhood(b"another key")
    first, second = (set(n.allowlist(task("health_2"), 11)) for n in (near, other))
    assert first != second
    near_half = {name for name in near.names if subject(name) == "health"}
    assert near_half <= first & second


def test_order_of_databases_and_questions_moves_nothing(near: Neighbourhood) -> None:
    given = databases()[::-1]
    pool = Pool(given, [unit(d.name, at) for at in (3, 0) for d in given], b"key")
    again = Neighbourhood(pool)
    assert again.clusters == near.clusters
    assert again.allowlist(task("school_1"), 12) == near.allowlist(task("school_1"), 12)


def test_only_the_card_counts(near: Neighbourhood) -> None:
    """Types, keys, examples and rows are no part of the frozen card, so they move nothing."""
    changed = [
        replace(
            d,
            knowledge="Everything else",
            tables=tuple(
                replace(
                    t,
                    row_count=999,
                    columns=tuple(replace(c, type="REAL", primary=True, examples=("x",)) for c in t.columns),
                )
                for t in d.tables
            ),
        )
        for d in databases()
    ]
    assert (neighbourhood(given=changed).similarity == near.similarity).all()


def test_noise_in_the_last_bits_moves_nothing(near: Neighbourhood, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two machines agree on vectors to about 1e-6."""
    real = embeddings.embed

    def noisy(texts: list[str]) -> embeddings.Vectors:
        vectors = real(texts)
        noise = np.random.default_rng(7).normal(0, 1e-8, vectors.shape)
        return (vectors + noise).astype(np.float32)

    monkeypatch.setattr(embeddings, "embed", noisy)
    other = neighbourhood()
    assert other.clusters == near.clusters
    for target in ("music_0", "health_1", "flight_5"):
        assert other.allowlist(task(target), 13) == near.allowlist(task(target), 13)


def test_ties_go_by_name() -> None:
    """Three schemas of one card are equally close to the target."""
    twins = [database(name, "bus records", ("bus", "stop")) for name in ("target", "c_bus", "a_bus", "b_bus")]
    plain = [replace(d, tables=tuple(replace(t, columns=(ColumnInfo(f"n{i}", "TEXT"),)) for t in d.tables)) for i, d in enumerate(twins)]  # fmt: skip
    others = [d for d in databases() if d.name.startswith("court")]
    chosen = neighbourhood(given=plain + others).allowlist(task("target"), 5)
    assert {"a_bus", "b_bus"} <= set(chosen)


def test_a_long_card_counts_to_its_end() -> None:
    """Two cards that differ only after the model's 256 tokens have different vectors."""
    filler = tuple(f"thing{at}" for at in range(120))
    first = database("one", "records", (*filler, "orchestra", "violin"))
    second = database("two", "records", (*filler, "surgeon", "clinic"))
    cards = [schema_card(replace(d, name="same")) for d in (first, second)]
    assert min(len(embeddings.chunks(card)) for card in cards) > 1
    vectors = embeddings.embed([card.replace("_one", "").replace("_two", "") for card in cards])
    assert not np.allclose(vectors[0], vectors[1], atol=1e-3)


def test_twins_and_databases_asked_the_same_are_left_out() -> None:
    given = databases()
    twin = replace(given[0], name="music_9", title="other records")
    pool = Pool(
        [*given, twin],
        [unit(d.name) for d in given] + [replace(unit("court_1"), question=unit("music_0").question)],
        b"k",
    )
    found = Neighbourhood(pool)
    assert found.confusable(task("music_0").units) == {"music_9", "court_1"}
    for random in (False, True):
        assert not {"music_9", "court_1"} & set(found.allowlist(task("music_0"), 40, random))
        assert len(found.allowlist(task("music_0"), 40, random)) == len(given) - 1


def test_a_corpus_of_equal_cards_still_gives_allowlists(tmp_path: Path) -> None:
    given = [
        CorpusDatabase(Corpus.SPIDER, f"d{at}", Engine.SQLITE, tmp_path, "", f"{at}", "original", "records", (), "")
        for at in range(8)
    ]
    found = Neighbourhood(Pool(given, [], b"k"))
    assert len(found.allowlist(Candidate(Corpus.SPIDER, Behavior.SINGLE, (unit("d1"),)), 4)) == 4


def test_the_paper_profile_draws_66_databases_on_the_mean() -> None:
    paper = profiles.load("paper")
    drawn = []
    for corpus, counts in paper.wanted(list(Corpus)).items():
        total = sum(counts.values())
        drawn += [paper.allowlist[corpus].draw((at + 0.5) / total) for at in range(total)]
    assert len(drawn) == 815
    assert 60 <= sum(drawn) / 815 <= 72
    assert min(drawn) == 11
    assert 160 <= max(drawn) <= 166
    assert paper.distractors == "near"
