"""Text scorers of the offline policies: the fitting text wins, scores lie in 0..1, nothing depends on what came before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks_lib.models.backends import OFFLINE_POLICIES
from tasks_lib.models.offline.retrieval import bm25, hybrid, minilm, scorer, tfidf


@pytest.fixture(autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSABENCH_HOME", str(tmp_path_factory.getbasetemp() / "home"))


TEXTS = [
    "harbour pilots\npilot: name, licence, age\nship: tonnage, flag",
    "school library\nbook: title, author_name\nloan: reader, due_date",
    "orchard\ntree: species, plantedYear\nharvest: kilograms, picker",
]
QUERIES = [
    ("List the age of every pilot.", 0),
    ("Who wrote each book?", 1),
    ("Total kilograms of the harvests by species", 2),
]


@pytest.mark.parametrize("policy", OFFLINE_POLICIES)
def test_the_fitting_text_wins_and_scores_are_shares(policy: str) -> None:
    score = scorer(policy)
    for query, best in QUERIES:
        scores = score(query, TEXTS)
        assert max(range(3), key=scores.__getitem__) == best
        assert all(0.0 <= value <= 1.0 for value in scores)
        assert score(query, TEXTS) == scores
    assert score("anything", []) == []


@pytest.mark.parametrize("policy", OFFLINE_POLICIES)
def test_order_of_the_texts_only_reorders_the_scores(policy: str) -> None:
    query = QUERIES[0][0]
    assert scorer(policy)(query, TEXTS[::-1]) == pytest.approx(scorer(policy)(query, TEXTS)[::-1])


def test_identifiers_and_plurals_meet_words() -> None:
    for score in (tfidf, bm25):
        assert score("planted years of trees", TEXTS)[2] > 0
        assert score("author names", TEXTS)[1] > score("author names", TEXTS)[0]


def test_meaning_without_shared_words_is_seen_by_minilm_only() -> None:
    query = "fruit picked by gardeners"
    assert minilm(query, TEXTS)[2] == max(minilm(query, TEXTS))
    assert bm25(query, TEXTS)[2] == 0.0
    assert hybrid(query, TEXTS)[2] == max(hybrid(query, TEXTS))


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="offline/none"):
        scorer("offline/none")


@given(st.text(max_size=40), st.lists(st.text(max_size=40), max_size=5))
def test_any_text_has_a_score(query: str, texts: list[str]) -> None:
    for score in (tfidf, bm25):
        assert all(0.0 <= value <= 1.0 + 1e-9 for value in score(query, texts))
