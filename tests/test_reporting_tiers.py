"""The rule of tiers, by hand: overlap with the tier's best, ties, touching intervals, missing intervals, 0/0, entries kept apart."""

from __future__ import annotations

import pytest

from tasks_lib.reporting.tiers import Standing, tier_name, tiers

A, B, C, NONE = 0, 1, 2, None


def standing(value: float | None, half: float | None = 0.05, apart: bool = False) -> Standing:
    if value is None or half is None:
        return Standing(value, apart=apart)
    return Standing(value, value - half, value + half, apart)


@pytest.mark.parametrize(
    ("standings", "wanted"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([standing(0.5)], [(0, A)], id="one"),
        pytest.param([standing(0.3), standing(0.5)], [(1, A), (0, B)], id="apart, in order of value"),
        pytest.param([standing(0.5), standing(0.45)], [(0, A), (1, A)], id="overlap"),
        # 0.42 overlaps 0.5 (0.45 to 0.55 against 0.37 to 0.47); 0.36 overlaps 0.42 but not the tier's best.
        pytest.param(
            [standing(0.5), standing(0.42), standing(0.36), standing(0.3)],
            [(0, A), (1, A), (2, B), (3, B)],
            id="the best decides, not the neighbour",
        ),
        pytest.param([standing(0.5), standing(0.4)], [(0, A), (1, A)], id="touching intervals overlap"),
        pytest.param([standing(0.5), standing(0.4 - 1e-9)], [(0, A), (1, B)], id="not quite touching"),
        # 0.1 + 0.2 is no reason for a tier of its own.
        pytest.param([Standing(0.4, 0.3, 0.5), Standing(0.2, 0.1, 0.1 + 0.2 - 1e-17)], [(0, A), (1, A)], id="rounding"),
        # Of equal values the higher lower end is the best, whatever the order: the wide one does not shelter 0.3.
        pytest.param(
            [Standing(0.5, 0.2, 0.8), standing(0.5), standing(0.3)],
            [(1, A), (0, A), (2, B)],
            id="tie, narrow one leads",
        ),
        pytest.param([standing(0.5), standing(0.5)], [(0, A), (1, A)], id="full tie keeps its order"),
        pytest.param(
            [standing(None), standing(0.9, None), standing(0.4), standing(0.6)],
            [(3, A), (2, B), (1, NONE), (0, NONE)],
            id="no interval, 0/0: in no tier, after the others",
        ),
        pytest.param(
            [standing(0.95, apart=True), standing(0.5), standing(0.48, apart=True), standing(0.2)],
            [(1, A), (3, B), (0, NONE), (2, NONE)],
            id="a diagnostic neither leads nor joins a tier",
        ),
        pytest.param([standing(0.0, 0.0), standing(0.0, 0.0)], [(0, A), (1, A)], id="all zero"),
        pytest.param(
            [standing(0.9, 0.01), standing(0.5, 0.01), standing(0.1, 0.01)], [(0, A), (1, B), (2, C)], id="three"
        ),
    ],
)
def test_tiers_by_hand(standings: list[Standing], wanted: list[tuple[int, int | None]]) -> None:
    assert tiers(standings) == wanted


def test_tiers_have_names_and_no_numbers() -> None:
    assert [tier_name(n) for n in (0, 1, 25, 26, 27, 51, 52, 701, 702)] == [
        *("A", "B", "Z", "AA", "AB", "AZ", "BA", "ZZ", "AAA"),
    ]
