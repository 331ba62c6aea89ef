"""`dsabench rescore`: verdicts, episodes and tables anew from stored outputs, with no model call and no SQL execution, or refused."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import Said, SmallRun

from flows import rescore, runs
from tasks_lib.evaluation import drive
from tasks_lib.evaluation.inputs import load
from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.sql.canonical import CanonicalResult
from tasks_lib.sql.comparators import COMPARATOR_VERSION, Comparison, compare
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.ledgers import Ledger, Produced
from tasks_lib.store.schemas import CONTRIBUTIONS, METRICS
from tasks_lib.store.settings import settings

pytestmark = pytest.mark.timeout(600)
Command = Callable[..., Said]
COUNTERS = ("model_calls_made", "sql_executions_made")


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Judging runs in a thread of this process, so that it sees the comparators a test puts in place."""
    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(rescore, "worker_pool", lambda: pool)
        yield


@pytest.fixture(autouse=True)
def record(small_run: SmallRun) -> Iterator[dict[str, Any]]:
    """The run's record; what stands beside it is put back."""
    folder = runs.run_folder(small_run.id)
    kept = {p: p.read_bytes() for p in (folder / "run.json", folder / "keys.json", folder.parent / "last.json")}
    yield runs.load(small_run.id)[1]
    for path, content in kept.items():
        path.write_bytes(content)


def contributions(record: dict[str, Any]) -> pl.DataFrame:
    store = ArtifactStore(settings().resolved_store_url)
    keys = [key for chain in record["chains"].values() for key in chain["contributions"].values()]
    return pl.concat([store.read(CONTRIBUTIONS, key) for key in keys])


def test_nothing_changed_gives_the_same_verdicts(
    small_run: SmallRun, dsabench: Command, record: dict[str, Any]
) -> None:
    said = dsabench("rescore", "--run", small_run.id, "--json")
    assert said.code == 0, said
    assert said.json["verdicts"] == contributions(record).height > 0
    assert [said.json[c] for c in ("verdicts_changed", "cells_scored", *COUNTERS)] == [0, 0, 0, 0]
    after = runs.load(small_run.id)[1]
    assert {k: v for k, v in after.items() if k != "rescored"} == record


def test_a_changed_comparator_changes_its_verdicts_and_makes_nothing(
    small_run: SmallRun, dsabench: Command, record: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contributions(record)
    corpora = {t: str(c.corpus) for t, c in load(str(small_run.release)).contracts.items()}
    right = before.filter(pl.col("kind") == "correct")["task_id"].replace_strict(corpora, return_dtype=pl.String)
    corpus = Corpus(right.value_counts(sort=True).row(0)[0])

    def stricter(of: Corpus, gold: CanonicalResult, predicted: CanonicalResult, ordered: bool) -> Comparison:
        found = compare(of, gold, predicted, ordered)
        return Comparison(found.equal and of is not corpus, found.rule, found.version)

    with monkeypatch.context() as changed:
        changed.setattr(drive, "compare", stricter)
        changed.setitem(COMPARATOR_VERSION, corpus, "strict@2")
        said = dsabench("rescore", "--run", small_run.id, "--json")
        assert said.code == 0, said
        assert [said.json[c] for c in COUNTERS] == [0, 0]
        strict = runs.load(small_run.id)[1]
        key = list(CONTRIBUTIONS.key)
        both = before.join(contributions(strict), on=key, suffix="_after", validate="1:1").with_columns(
            corpus=pl.col("task_id").replace_strict(corpora, return_dtype=pl.String)
        )
        assert both.height == before.height
        mine = both.filter(pl.col("corpus") == corpus)
        assert mine.filter(pl.col("kind_after") == "correct").is_empty()
        moved = mine.filter((pl.col("kind") == "correct") & ~pl.col("needs_binding"))
        assert set(moved["kind_after"]) == {"mismatch"}
        assert moved["comparator_after"].str.ends_with("strict@2").all()
        others = both.filter(pl.col("corpus") != corpus)
        assert others["kind"].equals(others["kind_after"])
        assert both["sql"].equals(both["sql_after"])
        assert both["calls"].equals(both["calls_after"])
        store = ArtifactStore(settings().resolved_store_url)
        metrics = store.read(METRICS, strict["metrics_key"])
        ea = metrics.filter((pl.col("metric") == "EA-Micro") & (pl.col("value_of") == corpus))
        assert ea.height == 72
        assert ea["numerator"].sum() == 0
        assert strict["metrics_key"] != record["metrics_key"]
        # The tables are those a run of these comparators would look for: it finds all of them done.
        cell = sorted(strict["cell_keys"])[0]
        explained = dsabench("explain", "--run", small_run.id, "--cell", cell, "--json")
        layers = {layer["name"]: layer["key"] for layer in explained.json["layers"]}
        assert (explained.json["again"], layers["cell"]) == ([], strict["cell_keys"][cell])
        assert layers["contributions"] in strict["chains"]["offline-tfidf direct"]["contributions"].values()
    said = dsabench("rescore", "--run", small_run.id, "--json")
    assert said.code == 0, said
    after = runs.load(small_run.id)[1]
    assert {k: v for k, v in after.items() if k != "rescored"} == record


def test_a_missing_execution_refuses_the_rescore_and_changes_nothing(
    small_run: SmallRun, dsabench: Command, record: dict[str, Any]
) -> None:
    ran = contributions(record).filter(pl.col("ran")).sort("execution")
    key = ran["execution"][0]
    before = (runs.run_folder(small_run.id) / "run.json").read_bytes()
    path = settings().resolved_ledger_url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as ledger:
        (row,) = ledger.execute("SELECT * FROM items WHERE key = ?", (key,)).fetchall()
        try:
            with ledger:
                ledger.execute("DELETE FROM items WHERE key = ?", (key,))
            said = dsabench("rescore", "--run", small_run.id, "--json")
            left = ledger.execute("SELECT count(*) FROM items WHERE key = ?", (key,)).fetchone()
        finally:
            with ledger:
                ledger.execute(f"INSERT OR REPLACE INTO items VALUES ({','.join('?' * len(row))})", row)
    assert said.code == 1
    assert left == (0,)
    error = said.json["error"]
    assert "cannot be rescored from what is stored" in error
    assert f"the ledger holds no sql execution {key[:12]}" in error
    assert "sql executions" in error
    assert (runs.run_folder(small_run.id) / "run.json").read_bytes() == before


def test_whatever_is_booked_meanwhile_refuses_the_rescore(
    small_run: SmallRun, dsabench: Command, record: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    judged, booked = rescore.judged, []

    async def and_books_a_call(run: Any, chains: Any, keys: Any, invocation: str) -> Any:
        ledger = Ledger(settings().resolved_ledger_url, run=invocation)
        booked.append(ledger.record("model_call", Produced("ok", b"{}")).key)
        ledger.close()
        return await judged(run, chains, keys, invocation)

    before = (runs.run_folder(small_run.id) / "run.json").read_bytes()
    monkeypatch.setattr(rescore, "judged", and_books_a_call)
    try:
        said = dsabench("rescore", "--run", small_run.id, "--json")
    finally:
        with closing(sqlite3.connect(settings().resolved_ledger_url.removeprefix("sqlite:///"))) as ledger, ledger:
            ledger.executemany("DELETE FROM items WHERE key = ?", [(key,) for key in booked])
    assert (said.code, len(booked)) == (1, 1)
    assert "booked 1 model calls and 0 SQL executions, expected none" in said.json["error"]
    assert (runs.run_folder(small_run.id) / "run.json").read_bytes() == before


def test_a_lost_layer_refuses_the_rescore(small_run: SmallRun, dsabench: Command, record: dict[str, Any]) -> None:
    chain = next(iter(record["chains"].values()))
    file = Path(ArtifactStore(settings().resolved_store_url).path(CONTRIBUTIONS, chain["contributions"]["adapter"]))
    kept = file.read_bytes()
    try:
        file.unlink()
        said = dsabench("rescore", "--run", small_run.id, "--json")
    finally:
        file.write_bytes(kept)
    assert said.code == 1
    assert "1 of 6 contribution tables" in said.json["error"]
    assert json.loads(said.out.splitlines()[-1])["status"] == "failed"
