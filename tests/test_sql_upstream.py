"""Our verdicts beside those of the corpora's own evaluators: every difference has a name, and what names them is right.

The sample runs where DSABENCH_DATA names the real corpora; the whole is `pytest -m nightly tests/test_sql_upstream.py -s`, which
prints the table of differences (some minutes).
"""

from __future__ import annotations

import json
import math
import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
import upstream_rules
from corpora_support import real
from hypothesis import given, settings
from hypothesis import strategies as st
from sql_mutations import CHANGES, changed

from tasks_lib.protocol.vocabulary import Corpus, Engine
from tasks_lib.sql.canonical import CanonicalResult, Json, Value
from tasks_lib.sql.comparators import compare
from tasks_lib.sql.fetching import Outcome, failed
from tasks_lib.sql.guard import check_sql, is_ordered
from tasks_lib.sql.lexer import trimmed
from tasks_lib.sql.limits import Limits
from tasks_lib.sql.upstream import SETTINGS, Pair, Rule, Switch, judge, other_rules, own_rule, reasons
from tasks_lib.sql.workers import Request, WorkerPool

SAMPLE, WHOLE = 300, 2_000
PLAIN = {Corpus.SPIDER: upstream_rules.spider, Corpus.BIRD: upstream_rules.bird}
WIDEST = 6
"""Golds with more columns are left out: the plain rule tries every order of columns."""
NO_RESULT = "no_result"
"""We have no result where an evaluator without limits or guard has one. Not a rule of comparing; named like one."""


@dataclass(frozen=True)
class Question:
    corpus: Corpus
    path: Path
    sql: str


def _questions(corpus: Corpus) -> list[Question]:
    root = real(corpus.value)
    if corpus is Corpus.SPIDER:
        files = [(root / name, root / "database", "query") for name in ("train_spider.json", "dev.json")]
    else:
        files = [(root / s / f"{s}.json", root / s / f"{s}_databases", "SQL") for s in ("train", "dev")]
    found = []
    for file, folder, field in files:
        for asked in json.loads(file.read_text("utf-8")):
            name = asked["db_id"]
            found.append(Question(corpus, folder / name / f"{name}.sqlite", asked[field]))
    return found


class Runs:
    """Statements through our own door, as a run sends them; golds once."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._golds: dict[tuple[Path, str], Outcome] = {}

    def run(self, path: Path, sql: str) -> Outcome:
        report = check_sql(Engine.SQLITE, sql)
        if not report.allowed:
            return failed(str(report.kind), report.reason)
        return self._pool.run(Request(Engine.SQLITE, str(path), trimmed(Engine.SQLITE, sql)))

    def gold(self, asked: Question) -> Outcome:
        key = (asked.path, asked.sql)
        if key not in self._golds:
            self._golds[key] = self.run(*key)
        return self._golds[key]


def _orders_in_brackets(sql: str) -> bool:
    places = [sql[: found.start()] for found in re.finditer("order by", sql, re.IGNORECASE)]
    return bool(places) and all(before.count("(") > before.count(")") for before in places)


def _predictions(runs: Runs, corpus: Corpus, wanted: int) -> Iterator[tuple[str, Question, str]]:
    """(change, question, predicted SQL), all changes equally often, on golds that have rows.

    One gold in five is of those whose ORDER BY stands in brackets only: few are, and rules read them differently.
    """
    draw = random.Random(f"{corpus}:2026")
    questions = _questions(corpus)
    inner = [asked for asked in questions if _orders_in_brackets(asked.sql)]
    left = wanted
    while True:
        for name in CHANGES:
            predicted = None
            while predicted is None:
                asked = draw.choice(inner if draw.random() < 0.2 else questions)
                predicted = changed(asked.sql, name, draw)
                if predicted is None:
                    continue
                gold = runs.gold(asked)
                if gold.kind or not gold.rows or len(json.loads(gold.data.split(b"\n", 1)[0])["columns"]) > WIDEST:
                    predicted = None
            yield name, asked, predicted
            left -= 1
            if not left:
                return


@dataclass
class Tally:
    """Pairs, verdicts, and differences by corpus and reason."""

    pairs: Counter[str]
    differences: Counter[tuple[str, str, str]]
    unexplained: list[str]


def _agreement(wanted: int, seconds: float) -> Tally:
    tally = Tally(Counter(), Counter(), [])
    with WorkerPool(1, Limits(wall_seconds=seconds, cpu_seconds=seconds)) as pool:
        runs = Runs(pool)
        for corpus, plain in PLAIN.items():
            for name, asked, predicted_sql in _predictions(runs, corpus, wanted // len(PLAIN)):
                gold = CanonicalResult.from_bytes(runs.gold(asked).data)
                ordered = is_ordered(Engine.SQLITE, asked.sql)
                outcome = runs.run(asked.path, predicted_sql)
                theirs = plain(asked.path, asked.sql, predicted_sql)
                ours, reason = False, ""
                if outcome.kind:
                    reason = NO_RESULT if theirs else ""
                else:
                    pair = Pair(gold, CanonicalResult.from_bytes(outcome.data), ordered, asked.sql)
                    ours = compare(corpus, gold, pair.predicted, ordered).equal
                    assert judge(own_rule(corpus), pair) == ours
                    published = Rule(f"{corpus}_published")
                    if judge(published, pair) != theirs:
                        tally.unexplained.append(
                            f"{published} is told wrong: {name}: {asked.sql!r} / {predicted_sql!r}"
                        )
                    reason = " + ".join(reasons(own_rule(corpus), published, pair))
                if bool(reason) != (ours != theirs):
                    tally.unexplained.append(f"{corpus} {name}: {ours} / {theirs}: {asked.sql!r} / {predicted_sql!r}")
                tally.pairs[f"{corpus} pairs"] += 1
                tally.pairs[f"{corpus} {'right' if ours else 'wrong' if not outcome.kind else 'no result'}"] += 1
                tally.pairs[f"{corpus} {'agree' if ours == theirs else 'differ'}"] += 1
                if reason:
                    tally.differences[corpus, reason, "theirs right" if theirs else "ours right"] += 1
    return tally


@pytest.mark.real
@pytest.mark.skipif("DSABENCH_DATA" not in os.environ, reason="DSABENCH_DATA names no data")
def test_every_difference_on_a_sample_has_a_name() -> None:
    tally = _agreement(SAMPLE, seconds=5)
    assert not tally.unexplained, tally.unexplained[:3]
    assert sum(n for what, n in tally.pairs.items() if what.endswith(" pairs")) == SAMPLE
    assert all(tally.pairs[f"{corpus} right"] > 20 and tally.pairs[f"{corpus} wrong"] > 20 for corpus in PLAIN)


@pytest.mark.nightly
@pytest.mark.real
@pytest.mark.timeout(3600)
@pytest.mark.skipif("DSABENCH_DATA" not in os.environ, reason="DSABENCH_DATA names no data")
def test_every_difference_has_a_name() -> None:
    tally = _agreement(WHOLE, seconds=20)
    print(f"\n{dict(sorted(tally.pairs.items()))}")
    for (corpus, reason, who), count in sorted(tally.differences.items()):
        print(f"{corpus:8} {reason:40} {who:14} {count}")
    assert not tally.unexplained, tally.unexplained


def pair(
    gold: list[tuple[Value, ...]],
    predicted: list[tuple[Value, ...]],
    ordered: bool = False,
    gold_sql: str = "SELECT 1",
    width: int = 1,
) -> Pair:
    left, right = (
        CanonicalResult(tuple(f"c{i}" for i in range(len(r[0]) if r else width)), tuple(r)) for r in (gold, predicted)
    )
    return Pair(left, right, ordered, gold_sql)


INNER = "SELECT a FROM t WHERE b = (SELECT b FROM u ORDER BY c LIMIT 1)"
EXAMPLES: list[tuple[Rule, Rule, Pair, bool, tuple[Switch, ...]]] = [
    (Rule.SPIDER, Rule.SPIDER_PUBLISHED, pair([(1,), (2,)], [(2,), (1,)], False, INNER), True, (Switch.ROW_ORDER,)),
    (Rule.SPIDER, Rule.SPIDER_PUBLISHED, pair([(1, "a")], [("a", 1)]), False, (Switch.COLUMN_PERMUTATION,)),
    (Rule.SPIDER, Rule.SPIDER_PUBLISHED, pair([(1, 10)], [(1.0, 10)]), True, (Switch.SORTED_ROWS,)),
    (Rule.SPIDER, Rule.SPIDER_PUBLISHED, pair([("a\udcff",)], [("a",)]), False, (Switch.TEXT_DECODING,)),
    (Rule.SPIDER, Rule.SPIDER_PUBLISHED, pair([("a",), ("b",)], [("b",), ("a",)]), True, ()),
    (Rule.SPIDER, Rule.BIRD, pair([(1,)], [(1,), (1,)]), False, (Switch.DUPLICATE_ROWS,)),
    (Rule.SPIDER, Rule.BIRD, pair([(1,), (2,)], [(2,), (1,)], True), False, (Switch.ROW_ORDER,)),
    (Rule.SPIDER, Rule.BIRD, pair([(1,), (2,)], [(2,), (1,), (1,)], True), False, (Switch.ROW_ORDER, Switch.DUPLICATE_ROWS)),
    (Rule.SPIDER, Rule.LIVESQLBENCH, pair([(1.004,)], [(1.001,)]), False, (Switch.NUMBER_ROUNDING,)),
    (Rule.BIRD, Rule.BIRD_PUBLISHED, Pair(CanonicalResult(("a",), ()), CanonicalResult(("a", "b"), ()), False, ""), False, (Switch.EMPTY_RESULT,)),
    (Rule.BIRD, Rule.BIRD_PUBLISHED, pair([("a\udcff",)], [("a\udcff",)]), True, (Switch.TEXT_DECODING,)),
    (Rule.LIVESQLBENCH, Rule.LIVESQLBENCH_PUBLISHED, pair([(0.125,)], [(Decimal("0.13"),)]), True, (Switch.NUMBER_ROUNDING,)),
    (Rule.LIVESQLBENCH, Rule.LIVESQLBENCH_PUBLISHED, pair([(datetime(2020, 1, 1, 9),)], [(date(2020, 1, 1),)]), False, (Switch.VALUE_TYPE,)),
    (Rule.LIVESQLBENCH, Rule.LIVESQLBENCH_PUBLISHED, pair([(True,)], [(1,)]), False, (Switch.VALUE_TYPE,)),
    (Rule.LIVESQLBENCH, Rule.LIVESQLBENCH_PUBLISHED, pair([(Json('{"a": 1, "b": 2}'),)], [(Json('{"b": 2, "a": 1}'),)]), True, ()),
    (Rule.LIVESQLBENCH, Rule.LIVESQLBENCH_PUBLISHED, pair([(1,), (2,)], [(2,), (1,)], True), True, (Switch.ROW_ORDER,)),
    (Rule.LIVESQLBENCH, Rule.LIVESQLBENCH_PUBLISHED, pair([], []), True, (Switch.EMPTY_RESULT,)),
]  # fmt: skip


@pytest.mark.parametrize(("own", "other", "given_pair", "ours", "named"), EXAMPLES)
def test_a_difference_has_the_name_of_its_switch(
    own: Rule, other: Rule, given_pair: Pair, ours: bool, named: tuple[Switch, ...]
) -> None:
    assert judge(own, given_pair) is ours
    assert (judge(other, given_pair) is ours) is not bool(named)
    assert reasons(own, other, given_pair) == named


def test_every_switch_is_met_and_every_rule_is_another() -> None:
    assert {switch for *_, named in EXAMPLES for switch in named} == set(Switch)
    assert len(set(SETTINGS.values())) == len(Rule) == len(SETTINGS)
    for corpus in Corpus:
        assert own_rule(corpus) not in other_rules(corpus)


few = st.sampled_from([0, 1, 1.0, 10, True, None, "1", "a", b"a", "a\udcff", 1.004, Decimal("1.00"), math.inf])
tables = st.integers(1, 3).flatmap(lambda width: st.lists(st.tuples(*[few] * width), min_size=1, max_size=4))


@settings(deadline=None)  # on a busy machine single examples take long
@given(gold=tables, other=tables, ordered=st.booleans(), data=st.data())
def test_the_switches_tell_our_own_rules_again(
    gold: list[tuple[Value, ...]], other: list[tuple[Value, ...]], ordered: bool, data: st.DataObject
) -> None:
    predicted = data.draw(st.just(other) | st.permutations(gold))
    given_pair = pair(gold, predicted, ordered)
    for corpus in Corpus:
        verdict = compare(corpus, given_pair.gold, given_pair.predicted, ordered).equal
        assert judge(own_rule(corpus), given_pair) is verdict
        for rule in other_rules(corpus):
            assert bool(reasons(own_rule(corpus), rule, given_pair)) is (judge(rule, given_pair) != verdict)


plain = st.sampled_from([0, 1, 1.0, 10, None, "1", "a", b"a"])


@settings(deadline=None)  # on a busy machine single examples take long
@given(
    gold=st.integers(1, 4).flatmap(lambda width: st.lists(st.tuples(*[plain] * width), min_size=1, max_size=5)),
    in_order=st.booleans(),
    data=st.data(),
)
def test_some_order_of_columns_is_found_where_there_is_one(
    gold: list[tuple[Value, ...]], in_order: bool, data: st.DataObject
) -> None:
    columns = data.draw(st.permutations(range(len(gold[0]))))
    rows = data.draw(st.permutations(gold))
    predicted = [tuple(row[c] for c in columns) for row in rows]
    if data.draw(st.booleans()):
        predicted[0] = (*predicted[0][:-1], data.draw(plain))
    given_pair = pair(gold, predicted, gold_sql="SELECT 1 ORDER BY 1" if in_order else "SELECT 1")
    assert judge(Rule.SPIDER_PUBLISHED, given_pair) is upstream_rules.spider_rows(gold, predicted, in_order)


def test_columns_that_are_alike_are_not_tried_one_by_one() -> None:
    """Trying every order of 12 columns would take days."""
    gold: list[tuple[Value, ...]] = [(*[None] * 11, i) for i in range(50)]
    predicted: list[tuple[Value, ...]] = [(i, *[None] * 10, i % 2) for i in range(50)]
    assert judge(Rule.SPIDER_PUBLISHED, pair(gold, [row[::-1] for row in gold]))
    assert not judge(Rule.SPIDER_PUBLISHED, pair(gold, predicted))
