"""Weights of the search: fitted on train units that no task uses, without the databases of their fold, recorded, repeatable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from catalog_support import ferries

from tasks_lib.catalog import routedb
from tasks_lib.catalog.identities import Identities
from tasks_lib.evaluation import reranker_training as module
from tasks_lib.evaluation.reranker_training import Example, examples, train, weights
from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.routeenv.reranker import SHIPPED, fixed_rows, fold_of
from tasks_lib.routeenv.search import Catalog
from tasks_lib.store.artifacts import conform
from tasks_lib.store.schemas import CAT_RERANKER, RERANKER_UNITS

TOPICS = (
    "beehives",
    "observatory",
    "pottery kilns",
    "chess club",
    "mountain huts",
    "violin makers",
    "glaciers",
    "orchards",
)
IDS = Identities(b"salt")


@pytest.fixture(autouse=True, scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSABENCH_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    path = tmp_path_factory.mktemp("databases")
    databases = [
        replace(ferries(path, f"d_{i}", port=f"Port{i}"), title=f"Records of {topic}") for i, topic in enumerate(TOPICS)
    ]
    return routedb.build(databases, IDS)


def unit(i: int, database: int, split: str = "train") -> dict[str, Any]:
    question = f"How many {TOPICS[database]} number {i}?"
    return {
        "unit_id": f"u{i}-{database}",
        "corpus": "spider",
        "database": f"d_{database}",
        "split": split,
        "question": question,
    }


PUBLIC = {("spider", f"d_{i}"): IDS.database(Corpus.SPIDER, f"d_{i}") for i in range(len(TOPICS))}


def test_only_train_units_of_no_task_are_fitted_on_and_databases_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    units = [unit(i, 0) for i in range(5)] + [unit(0, 1), unit(1, 1, "dev")]
    found = examples(units, PUBLIC, {"u0-0"})
    assert {e.unit_id for e in found} == {"u1-0", "u2-0", "u3-0", "u4-0", "u0-1"}
    monkeypatch.setattr(module, "MOST", 2)
    assert {e.database_id for e in examples(units, PUBLIC, set())} == {PUBLIC["spider", "d_0"], PUBLIC["spider", "d_1"]}


def test_a_fold_is_fitted_without_its_databases(
    rows: dict[str, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEAST_DATABASES", 2)
    catalog = Catalog.from_rows(rows)
    found = examples([unit(i, d) for d in range(len(TOPICS)) for i in range(3)], PUBLIC, set())
    fitted, record = train(catalog, found)
    assert train(catalog, found) == (fitted, record)
    assert conform(CAT_RERANKER, fitted).num_rows == len(fitted)
    assert conform(RERANKER_UNITS, record).num_rows == len(found)
    fold = record[0]["fold"]
    assert fold == fold_of(record[0]["database_id"])
    asked_else = [
        Example(e.unit_id, "What is the depth of a harbour?", e.database_id) if fold_of(e.database_id) == fold else e
        for e in found
    ]
    other, _ = train(catalog, asked_else)
    assert [r for r in other if r["fold"] == fold] == [r for r in fitted if r["fold"] == fold]
    assert [r for r in other if r["fold"] == SHIPPED] != [r for r in fitted if r["fold"] == SHIPPED]


def test_a_small_release_gets_the_fixed_weights(rows: dict[str, list[dict[str, Any]]]) -> None:
    assert weights(rows, [unit(0, 0), unit(0, 1)], PUBLIC, set()) == (fixed_rows(), [])
