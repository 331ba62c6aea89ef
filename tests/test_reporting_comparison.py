"""A comparison as the page and a terminal tell it: conditions first, signs, 0/0, no discordant outcome, long lists cut."""

from __future__ import annotations

from dataclasses import replace

from reporting_support import run_tables

from tasks_lib.reporting.comparison import lead, text, views
from tasks_lib.reporting.page import page_html
from tasks_lib.scoring.bootstrap import Interval
from tasks_lib.scoring.comparison import (
    REFERENCE_CELL,
    Compared,
    Comparison,
    Condition,
    Difference,
    Outcome,
    mcnemar,
)
from tasks_lib.scoring.metrics import HEADLINE

MOVED = tuple(f"t{i:02}" for i in range(12))


def comparison() -> Comparison:
    """One backend: RA-Set up, CEA-Set 0/0 before, all else equal; twelve tasks gained, one lost in RA-Set."""
    differences = [
        Difference(
            REFERENCE_CELL,
            m,
            0.5,
            None if m == "CEA-Set" else 0.25,
            None if m == "CEA-Set" else Interval(0.25, -0.001, 0.5, 0),
        )
        for m in HEADLINE
    ]
    outcomes = (
        Outcome("RA-Set", 40, mcnemar(12, 1), MOVED, ("t90",)),
        Outcome("RA-Graph", 40, mcnemar(0, 0), (), ()),
    )
    compared = Compared("mine", "older-name", 50, 5000, 20260, tuple(differences), outcomes)
    conditions = (Condition("planner language", "zh", "en"),)
    return Comparison("run-b", "run-a", conditions, (compared,), ("left is left out: run-a lacks 2 of its 24 cells.",))


def test_conditions_come_first_and_every_number_has_its_meaning() -> None:
    found = comparison()
    told, differences, values, outcomes, moved = views(found)
    assert [e.text for e in told.rows[0]] == ["planner language", "zh", "en"]
    row = dict(zip([c.label for c in differences.columns], differences.rows[0], strict=True))
    assert row["Backend"].text == "mine (earlier older-name)"
    assert (row["RA-Set"].text, row["RA-Set"].detail, row["RA-Set"].sort) == (
        "+25.00",
        "[−0.10, 50.00]",
        0.25,
    )
    assert row["CEA-Set"].text == "–"
    assert [e.text for e in values.rows[0][2:4]] == ["25.00 → 50.00"] * 2
    assert values.rows[0][2 + HEADLINE.index("CEA-Set")].text == "– → 50.00"
    assert [e.text for e in outcomes.rows[0][2:]] == ["40", "12", "1", "7.69", "0.006"]
    assert [e.text for e in outcomes.rows[1][3:]] == ["0", "0", "no outcome differs", "1.000"]
    assert moved.rows[0][2].text.endswith("t07, and 4 more")
    assert len(moved.rows) == 1
    assert "One condition differs; it comes first. left is left out" in lead(found)


def test_equal_conditions_are_said_to_be_equal() -> None:
    same = replace(comparison(), conditions=(), left_out=())
    assert lead(same).endswith("No setting, prompt, code file or comparator differs.")
    assert len(views(same)) == 4


def test_the_terminal_says_the_same() -> None:
    lines = text(comparison()).splitlines()
    assert lines[1] == "  planner language: en → zh"
    assert "  reference cell, RA-Set: 25.00 → 50.00, +25.00 [−0.10, 50.00]" in lines
    assert lines[-1] == "  RA-Graph of 40 ordinary tasks: 0 gained, 0 lost; no outcome differs"


def test_the_page_has_the_section_when_there_is_a_comparison() -> None:
    run = run_tables()
    assert "Beside an earlier run" not in page_html(run)
    html = page_html(replace(run, comparison=comparison()))
    assert html.index("Beside an earlier run") < html.index('id="table-comparison-conditions"')
    assert html.index('id="table-comparison-conditions"') < html.index('id="table-comparison-mcnemar"')
