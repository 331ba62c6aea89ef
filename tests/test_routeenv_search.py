"""Catalog search: deterministic order, allowlist before the cut (known fault K04), right database found, rescue, speed of build."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from catalog_support import ferries, publish

from tasks_lib.models import embeddings
from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.routeenv import search as module
from tasks_lib.routeenv.indexes import GramIndex, ValueIndex, WordIndex
from tasks_lib.routeenv.lookup import ranked
from tasks_lib.routeenv.search import LEXICAL, POOL, RERANK, Catalog
from tasks_lib.routeenv.tokens import raw, tokens
from tasks_lib.store.artifacts import ArtifactRefused

TOPICS = ("beehives", "observatory", "pottery kilns", "chess club", "mountain huts", "violin makers")


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSABENCH_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six databases of one shape that differ by title and values, five of Spider and one of BIRD."""
    path = tmp_path_factory.mktemp("public")
    databases = [
        replace(
            ferries(path, f"d_{i}", port=f"Port{'abcdef'[i]}", corpus=Corpus.BIRD if i == 5 else Corpus.SPIDER),
            title=f"Records of {topic}",
        )
        for i, topic in enumerate(TOPICS)
    ]
    return publish(databases, path)


@pytest.fixture(scope="module")
def catalog(folder: Path) -> Catalog:
    return Catalog.load(folder)


def about(catalog: Catalog, topic: str) -> str:
    return next(name for name, row in catalog.databases.items() if topic in row["summary"])


def test_ties_break_by_id_and_the_allowlist_comes_before_the_cut() -> None:
    scores = {"db_c": 0.5, "db_a": 0.5, "db_b": 0.9, "db_d": 0.5}
    for order in itertools.permutations(scores):
        given = {name: scores[name] for name in order}
        assert [n for n, _ in ranked(given, ["db_a", "db_b", "db_d"], 2)] == ["db_b", "db_a"]
        assert [n for n, _ in ranked(given, ["db_a", "db_d"], 2)] == ["db_a", "db_d"]


def test_scores_equal_to_six_decimals_are_ties() -> None:
    assert ranked({"db_b": 0.50000004, "db_a": 0.49999996, "db_c": 0.500001}, ["db_a", "db_b", "db_c"], 3) == [
        ("db_c", 0.500001),
        ("db_a", 0.5),
        ("db_b", 0.5),
    ]


@pytest.mark.parametrize("stage", ["candidate", "reranked"])
def test_search_orders_equal_databases_by_id_and_filters_first(catalog: Catalog, stage: module.Stage) -> None:
    query = "depth at low tide"  # says nothing that tells the six apart but their summaries' vectors
    whole = catalog.search(query, catalog.databases, 99, stage=stage)
    assert whole == sorted(whole, key=lambda item: (-item[1], item[0]))
    assert {n for n, _ in whole} == set(catalog.databases)
    for removed, _ in whole:
        allow = [n for n in catalog.databases if n != removed]
        expected = [n for n, _ in whole if n != removed][:2]
        assert [n for n, _ in catalog.search(query, allow, 2, stage=stage)] == expected
        assert catalog.search(query, reversed(allow), 2, stage=stage) == catalog.search(query, allow, 2, stage=stage)


@pytest.mark.parametrize("stage", ["candidate", "reranked"])
def test_the_database_a_request_is_about_comes_first(catalog: Catalog, stage: module.Stage) -> None:
    for topic in TOPICS:
        assert catalog.search(f"How many {topic} are there?", catalog.databases, 1, stage=stage)[0][0] == about(
            catalog, topic
        )
    by_value = catalog.search("How deep is Portc north 7?", catalog.databases, 1, stage=stage)
    assert by_value[0][0] == about(catalog, "pottery")


def test_dataset_keeps_one_corpus(catalog: Catalog) -> None:
    assert [n for n, _ in catalog.search("harbour", catalog.databases, 9, "bird")] == [about(catalog, "violin")]
    assert catalog.search("harbour", catalog.databases, 9, "livesqlbench") == []
    assert catalog.search("harbour", [], 9) == []


def test_meaning_rescues_a_query_without_a_shared_word(catalog: Catalog) -> None:
    found = catalog.search("telescope nights watching stars and planets", catalog.databases, 1, stage="candidate")
    assert found[0][0] == about(catalog, "observatory")


def test_strong_words_need_no_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(texts: list[str]) -> None:
        raise AssertionError("the model was asked")

    monkeypatch.setattr(module, "embed", refuse)
    catalog = Catalog.load(folder)
    catalog.search("pottery kilns harbour depth", catalog.databases, 3, stage="candidate")
    with pytest.raises(AssertionError, match="model was asked"):
        catalog.search("telescope", catalog.databases, 3, stage="candidate")


def test_what_is_behind_the_pool_follows_in_candidate_order(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POOL", 2)
    query = "observatory and pottery kilns"
    candidates = [n for n, _ in catalog.search(query, catalog.databases, 9, stage="candidate")]
    found = catalog.search(query, catalog.databases, 9)
    assert {n for n, _ in found[:2]} == set(candidates[:2])
    assert [n for n, _ in found[2:]] == candidates[2:]
    assert all(score >= 0 for _, score in found[:2])
    assert all(score < 0 for _, score in found[2:])


def test_many_threads_get_what_one_gets(folder: Path) -> None:
    queries = [f"{topic} {word}" for topic in TOPICS for word in ("depth", "region", "sailing")] * 3
    one = Catalog.load(folder)
    alone = [one.search(q, one.databases, 6) for q in queries]
    shared = Catalog.load(folder)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda q: shared.search(q, shared.databases, 6), queries)) == alone


def test_weights_are_fixed_shares() -> None:
    assert sum(LEXICAL.values()) == pytest.approx(1)
    assert sum(RERANK.values()) == pytest.approx(1)
    assert POOL == 50


def test_word_scores_by_hand() -> None:
    index = WordIndex([["tide", "port"], ["port", "crew"], ["port"]])
    rare, common, unseen = np.log(4 / 1.5), np.log(4 / 3.5), np.log(4 / 0.5)
    assert index.coverage(["tide", "port", "tide"]) == pytest.approx(
        [1, common / (rare + common), common / (rare + common)]
    )
    assert index.coverage(["tide", "quokka"]) == pytest.approx([rare / (rare + unseen), 0, 0])
    assert index.cosine(["port"]) == pytest.approx(
        [common / np.hypot(rare, common), common / np.hypot(rare, common), 1]
    )
    assert not index.coverage(["quokka"]).any()


def test_character_grams_meet_across_endings() -> None:
    index = GramIndex([["singers"], ["kilns"]])
    scores = index.cosine(["singer"])
    assert scores[0] > 0.5
    assert scores[1] == 0


def test_values_are_found_whole_and_rare_ones_weigh_more() -> None:
    index = ValueIndex([("Port Vell", 0), ("Port", 1), ("Yes", 0), ("Yes", 1), ("Yes", 2)], 3)
    found = index.scores("Ferries to Port Vell")
    assert found[0] > 0
    assert found[1] == 0  # the longest value takes its words
    assert index.scores("is it Yes or not")[2] < index.scores("is it Port or not")[1]
    assert index.scores("a portly man")[1] == 0


def test_words_split_and_stem() -> None:
    assert raw("StuID of song_release_year, HTTPServer") == [
        "stu",
        "id",
        "of",
        "song",
        "release",
        "year",
        "http",
        "server",
    ]
    assert tokens("What are the cities and the bosses' classes?") == ["city", "boss", "class"]


def test_a_missing_table_names_its_file(tmp_path: Path) -> None:
    with pytest.raises(ArtifactRefused, match=r"cat_databases\.parquet is missing"):
        Catalog.load(tmp_path)


def test_an_index_of_thirty_databases_builds_in_under_three_seconds(tmp_path: Path) -> None:
    databases = [ferries(tmp_path, f"d_{i}", port=f"Port{i}", rows=200) for i in range(30)]
    catalog = Catalog.load(publish(databases, tmp_path))
    begun = time.process_time()
    assert catalog.indexes.databases.size == 30
    assert time.process_time() - begun < 3


def test_query_vectors_are_kept(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    first = catalog.search("ceramic ovens", catalog.databases, 3)
    monkeypatch.setattr(embeddings, "_compute", lambda texts: pytest.fail("computed again"))
    assert Catalog.from_rows(rows_of(catalog)).search("ceramic ovens", catalog.databases, 3) == first


def rows_of(catalog: Catalog) -> dict[str, list[dict[str, object]]]:
    named = ("databases", "tables", "columns", "capabilities", "entities", "relations")
    return {f"cat_{name}": list(getattr(catalog, name).values()) for name in named} | {"cat_cards": catalog.cards}
