"""The disagreement table counts what a rule changes, weighs it as EA-Micro does, and runs no SQL."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import SmallRun
from reporting_support import MODEL, POLICY, run_tables
from test_reporting_page import Page

from flows.wanted import RunSpec, recorded_chains
from tasks_lib.evaluation.gold import GoldFault, GoldUnit
from tasks_lib.evaluation.inputs import load
from tasks_lib.protocol.vocabulary import Behavior, Corpus, Difficulty
from tasks_lib.reporting.page import page_html
from tasks_lib.scoring.disagreement import CELLS, disagreement, disagreement_rows
from tasks_lib.scoring.targets import Target, episodes_of
from tasks_lib.sql.canonical import CanonicalResult, Value
from tasks_lib.sql.comparators import COMPARATOR_VERSION, rule_name
from tasks_lib.sql.execute import LEDGER_KIND
from tasks_lib.store.artifacts import ArtifactStore, conform
from tasks_lib.store.keys import sha256_bytes
from tasks_lib.store.ledgers import Ledger, Produced
from tasks_lib.store.schemas import CONTRIBUTIONS, DISAGREEMENT, METRICS
from tasks_lib.store.settings import settings

GOLD: list[tuple[Value, ...]] = [(1, "a"), (2, "b")]
DUPLICATED = [*GOLD, (1, "a")]
SWAPPED: list[tuple[Value, ...]] = [("a", 1), ("b", 2)]


def _bytes(rows: list[tuple[Value, ...]]) -> bytes:
    return CanonicalResult(("x", "y"), tuple(rows)).to_bytes()


@pytest.fixture
async def ledger(tmp_path: Path) -> Ledger:
    """Holds three executions: `same`, `duplicated` and `swapped`."""
    made = Ledger(f"sqlite:///{tmp_path}/ledger.sqlite")
    for name, rows in (("same", GOLD), ("duplicated", DUPLICATED), ("swapped", SWAPPED)):
        data = _bytes(rows)
        found = sha256_bytes(data)

        async def produce(found: str = found, data: bytes = data) -> Produced:
            return Produced("ok", f'{{"digest": "{found}"}}'.encode(), {}, {found: data})

        await made.once(name, LEDGER_KIND, produce)
    return made


def _target(task: str, branch: str = "", weight: float = 1.0) -> Target:
    return Target(task, branch, Corpus.SPIDER, Behavior.SINGLE, Difficulty.EASY, weight, ("d",), ("u",), frozenset(), 1)


UNIT = GoldUnit("u", Corpus.SPIDER, "d", "", "SELECT x, y FROM t", "", False, sha256_bytes(_bytes(GOLD)))


def _verdict(task: str, execution: str, kind: str, branch: str = "", state: str = "initial") -> dict[str, Any]:
    return {
        **dict.fromkeys(CONTRIBUTIONS.schema.names, ""),
        **{"task_id": task, "branch_id": branch, "unit_id": "u", "state": state, "trial": 0, "kind": kind},
        **{"execution": execution, "ran": bool(execution), "needs_binding": False, "calls": [], "executions": []},
    }


def _frame(*rows: dict[str, Any]) -> pl.DataFrame:
    found = pl.from_arrow(conform(CONTRIBUTIONS, list(rows)))
    assert isinstance(found, pl.DataFrame)
    return found


async def test_changes_are_counted_and_weighed(ledger: Ledger) -> None:
    """An initial verdict counts under Never and Once, unless a clarified one takes its place under Once."""
    frame = _frame(
        _verdict("t1", "same", "correct"),
        _verdict("t2", "duplicated", "mismatch"),
        _verdict("t3", "swapped", "mismatch"),
        _verdict("t4", "", "timeout"),
        _verdict("t5", "same", "correct", "b1"),
        _verdict("t5", "duplicated", "mismatch", "b1", "clarified"),
    )
    targets = [*(_target(f"t{i}") for i in range(1, 5)), _target("t5", "b1", 0.5)]
    rows = disagreement_rows({"x": [frame]}, targets, [UNIT], ledger)
    told = {(r["rule"], r["reason"]): r for r in rows}
    assert {(r["backend"], r["corpus"], r["verdicts"]) for r in rows} == {("x", "spider", 5)}
    assert {r["denominator"] for r in rows} == {CELLS * 4.5}
    assert {r["numerator"] for r in rows} == {2 + 0.5}
    bird = told["bird", "all"]
    assert (bird["to_right"], bird["to_wrong"], bird["other_numerator"]) == (2, 0, 2.5 + 2 + 0.5)
    assert told["bird", "duplicate_rows"] == {**bird, "reason": "duplicate_rows"}
    published = told["spider_published", "all"]
    assert (published["to_right"], published["to_wrong"], published["other_numerator"]) == (1, 0, 2.5 + 2)
    assert ("spider_published", "column_permutation") in told
    assert len(told) == len(rows)


async def test_a_lost_result_is_an_error(ledger: Ledger) -> None:
    with pytest.raises(GoldFault, match="lacks 1 executions"):
        disagreement_rows({"x": [_frame(_verdict("t1", "gone", "correct"))]}, [_target("t1")], [UNIT], ledger)
    lost = dataclasses.replace(UNIT, result_digest="0" * 64)
    with pytest.raises(GoldFault, match="lacks the result"):
        disagreement_rows({"x": [_frame(_verdict("t1", "same", "correct"))]}, [_target("t1")], [lost], ledger)


def test_the_table_of_a_run_rests_on_its_verdicts_and_runs_nothing(small_run: SmallRun) -> None:
    store = ArtifactStore(settings().resolved_store_url)
    ledger = Ledger(settings().resolved_ledger_url)
    spec = RunSpec.model_validate(small_run.record["spec"], strict=False)
    inputs = load(spec.release)
    tasks = sorted(inputs.contracts)[: spec.tasks or None]
    targets = episodes_of(inputs.contracts[t] for t in tasks)
    layers: dict[str, list[str]] = {}
    for (backend, _), chain in recorded_chains(small_run.record).items():
        layers.setdefault(backend, []).extend(chain.contributions.values())
    before = ledger.count(LEDGER_KIND)
    key = disagreement(store, ledger, layers, targets, inputs.gold_units)
    assert ledger.count(LEDGER_KIND) == before
    ledger.close()
    rows = store.read(DISAGREEMENT, key)
    metrics = store.read(METRICS, small_run.record["metrics_key"]).filter(
        (pl.col("metric") == "EA-Micro") & (pl.col("slice") == "corpus")
    )
    for corpus, numerator, denominator in (
        metrics.group_by("value_of").agg(pl.col("numerator").sum(), pl.col("denominator").sum()).iter_rows()
    ):
        mine = rows.filter((pl.col("corpus") == corpus) & (pl.col("reason") == "all"))
        assert mine.height == 3
        assert set(mine["numerator"]) == {numerator}
        assert set(mine["denominator"]) == {denominator}


def test_every_verdict_names_its_rule_and_version(small_run: SmallRun) -> None:
    """Known fault C03: where SQL ran, the rule that judged it stands beside the verdict; elsewhere none does."""
    store = ArtifactStore(settings().resolved_store_url)
    corpora = {u.unit_id: u for u in load(small_run.record["spec"]["release"]).gold_units}
    chains = recorded_chains(small_run.record).values()
    frames = [store.read(CONTRIBUTIONS, key) for chain in chains for key in chain.contributions.values()]
    for unit_id, ran, named in pl.concat(frames).select("unit_id", "ran", "comparator").unique().iter_rows():
        unit = corpora[unit_id]
        rule = f"{rule_name(unit.corpus, unit.ordered)}@{COMPARATOR_VERSION[unit.corpus]}"
        assert named == (rule if ran else "")


def test_the_page_tells_it_in_words() -> None:
    columns = list(DISAGREEMENT.schema.names)
    rows = [
        (MODEL, "spider", "bird", "all", 900, 30, 2, 40.0, 54.0, 80.0),
        (MODEL, "spider", "bird", "duplicate_rows", 900, 30, 0, 40.0, 55.0, 80.0),
        (POLICY, "spider", "bird", "all", 10, 0, 0, 0.0, 0.0, 0.0),
    ]
    run = dataclasses.replace(run_tables(), disagreement=pl.DataFrame(rows, schema=columns, orient="row"))
    html = page_html(run)
    shown = Page(html).rows("disagreement", MODEL)[0]
    assert shown["Difference"] == "+17.50"
    assert shown["EA-Micro as judged"] == "50.00"
    assert shown["Because of"] == "duplicate rows 30"
    assert 'id="rules"' in html
    assert 'id="rules"' not in page_html(run_tables())
