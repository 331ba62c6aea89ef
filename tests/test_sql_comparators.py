"""When results are equal, corpus by corpus, and that stored results lose nothing (known faults C03, C06, C08)."""

from __future__ import annotations

import json
import math
from collections import Counter
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.sql.canonical import CanonicalResult, Interval, Json, Opaque, Value, row_bytes
from tasks_lib.sql.comparators import COMPARATOR_VERSION, compare
from tasks_lib.sql.lines import row_line, row_lines

SPIDER, BIRD, LIVE = Corpus.SPIDER, Corpus.BIRD, Corpus.LIVESQLBENCH


def table(*rows: tuple[Value, ...], columns: int | None = None) -> CanonicalResult:
    width = columns if columns is not None else len(rows[0])
    return CanonicalResult(tuple(f"c{i}" for i in range(width)), rows)


def one(value: Value) -> CanonicalResult:
    return table((value,))


def equal(corpus: Corpus, left: CanonicalResult, right: CanonicalResult, ordered: bool = False) -> bool:
    return compare(corpus, left, right, ordered).equal


@pytest.mark.parametrize(
    ("corpus", "ordered", "rule", "duplicate", "swapped"),
    [
        (SPIDER, False, "spider/multiset", False, True),
        (SPIDER, True, "spider/ordered", False, False),
        (BIRD, False, "bird/set", True, True),
        (BIRD, True, "bird/set", True, True),
    ],
)
def test_the_rule_belongs_to_the_corpus(
    corpus: Corpus, ordered: bool, rule: str, duplicate: bool, swapped: bool
) -> None:
    gold = table(("apple",), ("pear",))
    compared = compare(corpus, gold, table(("apple",), ("apple",), ("pear",)), ordered)
    assert (compared.equal, compared.rule, compared.version) == (duplicate, rule, COMPARATOR_VERSION[corpus])
    assert equal(corpus, gold, table(("pear",), ("apple",)), ordered) is swapped


def test_livesqlbench_rounds_then_compares_sets() -> None:
    compared = compare(LIVE, one(Decimal("1.004")), table((Decimal("1.001"),), (Decimal("1.00"),)), True)
    assert (compared.equal, compared.rule) == (True, "livesqlbench/round2_set")


@pytest.mark.parametrize(
    ("value", "rounded"),
    [
        (2.675, "2.68"),
        (Decimal("2.675"), "2.68"),
        (1.005, "1.01"),
        (0.125, "0.13"),
        (-2.675, "-2.68"),
        (0.005, "0.01"),
        (-0.004, "0.00"),
        (3, "3.00"),
        (Decimal("1E+3"), "1000.00"),
        (Decimal("1.10"), "1.10"),
        (1e-7, "0.00"),
        (0.1 + 0.2, "0.30"),
        (1e300, str(Decimal("1e300"))),
        (Decimal("9" * 900 + ".994"), "9" * 900 + ".99"),
    ],
)
def test_halves_go_away_from_zero(value: float | int | Decimal, rounded: str) -> None:
    """C08. The neighbour a cent away must differ, so the expected value is pinned from both sides."""
    assert equal(LIVE, one(value), one(Decimal(rounded)))
    assert not equal(LIVE, one(value), one(Decimal(rounded) + Decimal("0.01") if abs(value) < 1e9 else Decimal(1)))


def test_values_compare_by_type_and_exactly() -> None:
    for corpus in (SPIDER, BIRD):
        assert equal(corpus, one(1), one(1.0))
        assert equal(corpus, one(-0.0), one(0))
        assert not equal(corpus, one(1), one("1"))
        assert not equal(corpus, one(2**53 + 1), one(float(2**53)))  # SQLite compares these exactly too
        assert not equal(corpus, one(0.1 + 0.2), one(0.3))
        assert not equal(corpus, one("abc"), one(b"abc"))
        assert not equal(corpus, one(None), one(""))
    assert not equal(LIVE, one(True), one(1))
    assert not equal(LIVE, one("1.00"), one(1))
    assert equal(LIVE, one(math.nan), one(Decimal("NaN")))
    assert equal(LIVE, one(Decimal("Infinity")), one(math.inf))
    assert equal(LIVE, one(Json('{"a": 1.0, "b": [true, null]}')), one(Json('{"b": [true, null], "a": 1}')))
    assert not equal(LIVE, one(Json('{"a": 1}')), one(Json('{"a": true}')))
    assert equal(LIVE, one((1.001, None)), one((Decimal("1.00"), None)))
    assert equal(LIVE, one(Interval(1, 0, 0)), one(Interval(0, 30, 0)))
    assert not equal(LIVE, one(date(2020, 1, 1)), one(datetime(2020, 1, 1)))


def test_times_with_zone_compare_as_instants() -> None:
    east = timezone(timedelta(hours=2))
    noon = datetime(2020, 1, 1, 12, tzinfo=UTC)
    assert equal(LIVE, one(noon), one(noon.astimezone(east)))
    assert not equal(LIVE, one(noon), one(noon.replace(tzinfo=None)))


def test_column_counts_must_match_and_names_do_not() -> None:
    for corpus in Corpus:
        assert not equal(corpus, table(columns=1), table(columns=2))
        assert equal(corpus, CanonicalResult(("a",), ((1,),)), CanonicalResult(("b",), ((1,),)))
        assert equal(corpus, table(columns=1), table(columns=1))
        assert not equal(corpus, table((1, 2)), table((2, 1)))


scalars = (
    st.none()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=("Cs",)))
    | st.binary()
    | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape"))
)
rich: st.SearchStrategy[Value] = st.recursive(
    scalars
    | st.booleans()
    | st.decimals()
    | st.dates()
    | st.times().map(lambda value: value.replace(fold=0))  # no database knows Python's fold
    | st.datetimes().map(lambda value: value.replace(fold=0))
    | st.datetimes(timezones=st.just(UTC)).map(lambda value: value.replace(fold=0))
    | st.uuids()
    | st.builds(Interval, st.integers(), st.integers(), st.integers())
    | st.builds(Opaque, st.text(st.characters(codec="ascii")), st.text(st.characters(codec="utf-8"))),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)
small_rows = st.lists(st.tuples(st.integers(0, 2) | st.sampled_from(["a", "b"]), st.integers(0, 1)), max_size=8)


def rows_of(values: st.SearchStrategy[Value]) -> st.SearchStrategy[list[tuple[Value, ...]]]:
    return st.lists(st.tuples(values, values), max_size=5)


@settings(deadline=None)  # on a busy machine single examples take long
@given(rows=small_rows, data=st.data())
def test_permuting_rows_matters_only_where_order_does(rows: list[tuple[Value, ...]], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(rows))
    gold, other = table(*rows, columns=2), table(*shuffled, columns=2)
    assert equal(SPIDER, gold, other)
    assert equal(BIRD, gold, other)
    assert equal(LIVE, gold, other)
    assert equal(SPIDER, gold, other, ordered=True) is (list(rows) == shuffled)


@settings(deadline=None)  # on a busy machine single examples take long
@given(rows=small_rows.filter(bool), data=st.data())
def test_duplicating_a_row_matters_only_for_spider(rows: list[tuple[Value, ...]], data: st.DataObject) -> None:
    gold, more = table(*rows), table(*rows, data.draw(st.sampled_from(rows)))
    assert not equal(SPIDER, gold, more)
    assert not equal(SPIDER, gold, more, ordered=True)
    assert equal(BIRD, gold, more)
    assert equal(LIVE, gold, more)


close = st.sampled_from(
    [0, 0.0, -0.0, 1, 1.0, True, False, math.nan, float("nan"), "1", b"1", None, Decimal(1), 2**53, 2**53 + 1]
)


@settings(deadline=None)  # on a busy machine single examples take long
@given(rows=st.lists(st.tuples(close, close), max_size=6), data=st.data())
def test_the_short_way_decides_as_the_long_one(rows: list[tuple[Value, ...]], data: st.DataObject) -> None:
    """Results of plain values are compared by Python itself, which takes NaN for unequal to itself and True for 1."""

    def told(value: Value) -> object:
        if isinstance(value, bool):
            return f"bool {value}"
        return "nan" if value != value else value

    other = data.draw(st.permutations(rows) | st.lists(st.tuples(close, close), max_size=6))
    gold, predicted = table(*rows, columns=2), table(*other, columns=2)
    left, right = ([tuple(map(told, row)) for row in part] for part in (rows, other))
    assert equal(SPIDER, gold, predicted) is (Counter(left) == Counter(right))
    assert equal(SPIDER, gold, predicted, ordered=True) is (left == right)
    assert equal(BIRD, gold, predicted) is (set(left) == set(right))


@settings(deadline=None)  # on a busy machine single examples take long
@given(left=rows_of(rich), right=rows_of(rich), ordered=st.booleans(), corpus=st.sampled_from(Corpus))
def test_symmetric_and_reflexive(
    left: list[tuple[Value, ...]], right: list[tuple[Value, ...]], ordered: bool, corpus: Corpus
) -> None:
    a, b = table(*left, columns=2), table(*right, columns=2)
    assert equal(corpus, a, a, ordered)
    assert equal(corpus, a, b, ordered) is equal(corpus, b, a, ordered)


@settings(deadline=None)  # on a busy machine single examples take long
@given(rows=rows_of(rich), names=st.lists(st.text(st.characters(codec="utf-8")), min_size=2, max_size=2))
def test_bytes_are_lossless_and_deterministic(rows: list[tuple[Value, ...]], names: list[str]) -> None:
    result = CanonicalResult(tuple(names), tuple(rows))
    data = result.to_bytes()
    data.decode("utf-8")
    again = CanonicalResult.from_bytes(data)
    assert again.to_bytes() == data
    assert again.digest == result.digest
    assert repr(again) == repr(result)  # repr tells 1 from 1.0 from True, and -0.0 from 0.0


@settings(deadline=None)  # on a busy machine single examples take long
@given(rows=rows_of(rich))
def test_stored_results_can_stand_in_any_file(rows: list[tuple[Value, ...]]) -> None:
    """C06: text that is not UTF-8 is written as JSON lines and as Parquet text, and reads back equal."""
    result = table(*rows, columns=2)
    text = result.to_bytes().decode("utf-8")
    assert json.loads(json.dumps({"result": text}))["result"] == text
    kept = pa.array([text], pa.string())[0].as_py()
    assert repr(CanonicalResult.from_bytes(kept.encode("utf-8"))) == repr(result)


@settings(deadline=None)  # on a busy machine single examples take long
@given(rows=rows_of(rich), data=st.data())
def test_a_digest_tells_order_and_what_is_compared_does_not_depend_on_it(
    rows: list[tuple[Value, ...]], data: st.DataObject
) -> None:
    """Equal digests are equal bytes, so equal under every rule; rows in another order have another digest and stay equal where
    order does not count."""
    gold = table(*rows, columns=2)
    moved = table(*data.draw(st.permutations(rows)), columns=2)
    assert (gold.digest == moved.digest) is (gold.to_bytes() == moved.to_bytes())
    if gold.digest == moved.digest:
        assert equal(SPIDER, gold, moved, ordered=True)
    for corpus in Corpus:
        assert equal(corpus, gold, moved)


@settings(deadline=None)  # on a busy machine single examples take long
@given(left=rows_of(rich), right=rows_of(rich), ordered=st.booleans())
def test_what_was_read_from_bytes_compares_as_what_was_not(
    left: list[tuple[Value, ...]], right: list[tuple[Value, ...]], ordered: bool
) -> None:
    """Rows of equal bytes are not even decoded."""
    for gold, other in ((left, right), (left, left), (left, left[::-1])):
        made = table(*gold, columns=2), table(*other, columns=2)
        read = tuple(CanonicalResult.from_bytes(one.to_bytes()) for one in made)
        for corpus in Corpus:
            assert equal(corpus, *read, ordered) is equal(corpus, *made, ordered)
    same = [CanonicalResult.from_bytes(table(*left, columns=2).to_bytes()) for _ in range(2)]
    assert equal(SPIDER, *same, ordered=True)
    assert not any("rows" in vars(one) for one in same)


@settings(deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(), st.floats(), st.binary(max_size=3), st.text(max_size=3)),
            st.sampled_from(["],[", "]\n[", '"],["', "x", math.inf, -math.inf, 0, None]),
        ),
        max_size=5,
    )
)
def test_rows_together_have_the_lines_of_each(rows: list[tuple[Value, ...]]) -> None:
    assert row_lines(rows) == b"".join(map(row_line, rows)) == b"".join(map(row_bytes, rows))


def test_types_are_kept_apart_in_the_digest() -> None:
    values: list[Value] = [
        None, True, 1, 1.0, -0.0, 0.0, "1", b"1", Decimal(1), Decimal("1.0"), math.nan, Decimal("NaN"), math.inf,
        date(2020, 1, 1), datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC), time(1), time(1, tzinfo=UTC),
        UUID(int=1), Json("1"), Interval(1, 0, 0), Interval(0, 30, 0), Opaque("date", "infinity"), "infinity", (1,), ("1",),
        "Mu\udcf1oz", "Mu\udcffoz", "\\udcf1",
    ]  # fmt: skip
    assert len({one(value).digest for value in values}) == len(values)


def test_a_foreign_format_is_an_error() -> None:
    with pytest.raises(ValueError, match="dsabench-result/1"):
        CanonicalResult.from_bytes(b'{"format": "other/9", "columns": []}\n')
    with pytest.raises(TypeError, match="canonical"):
        one(object()).to_bytes()  # type: ignore[arg-type]
