"""The unstated-constraint audit on hand-made gold: what a request leaves out is found by kind, what it says in any form is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks_lib.contracts.contract import Candidate, Unit, freeze
from tasks_lib.contracts.stated import Said
from tasks_lib.contracts.unstated import KINDS, task_rows, unstated
from tasks_lib.corpora.model import ColumnInfo, CorpusDatabase, TableInfo
from tasks_lib.protocol.records import Binding, Branch
from tasks_lib.protocol.vocabulary import Behavior, Corpus, Engine

COLUMNS = (
    ColumnInfo("id", "INTEGER", "number of the boat", primary=True),
    ColumnInfo("name", "TEXT", "name of the boat"),
    ColumnInfo("port", "TEXT", "home port"),
    ColumnInfo("lengthM", "REAL", "length in metres"),
    ColumnInfo("crew", "INTEGER", "people aboard"),
    ColumnInfo("isInsured", "INTEGER", "whether the boat is insured"),
    ColumnInfo("state", "TEXT", "A: in service; W: under repair; S: sunk"),
    ColumnInfo("built", "TEXT", "day of launching"),
    ColumnInfo("share", "REAL", "part of the crew that stays ashore"),
    ColumnInfo("captainSex", "TEXT", "sex of the captain"),
    ColumnInfo("scrapped", "TEXT", ""),
)
BOATS = CorpusDatabase(
    Corpus.SPIDER, "boats", Engine.SQLITE, Path("boats.sqlite"), "boats.sqlite", "0" * 64, "embedded", "boats of a coast",
    (TableInfo("boat", COLUMNS, 9),), "",
)  # fmt: skip


def unit(
    sql: str, question: str = "", evidence: str = "", unit_id: str = "boats-1", literals: tuple[str, ...] = ()
) -> Unit:
    return Unit(
        unit_id, Corpus.SPIDER, "boats", "0" * 64, question, sql, evidence, ("boat",), (), literals, "d", 5, 1, (), ()
    )  # fmt: skip


def found(request: str, sql: str, evidence: str = "") -> list[tuple[str, str]]:
    return [(item.kind, item.detail) for item in unstated(request, unit(sql, evidence=evidence), BOATS)]


@pytest.mark.parametrize(
    ("condition", "said", "unsaid"),
    [
        ("port = 'Harlow Bay'", "Which boats are at home in harlow bay?", "Which boats do we have?"),
        ('port = "Harlow"', "Which boats are at home in Harlow?", "Which boats do we have?"),
        ("crew > 25", "Which boats carry more than twenty-five people?", "Which boats carry many people?"),
        ("crew >= 6", "Which boats carry over 5 people?", "Which boats carry over 8 people?"),
        ("crew BETWEEN 1000 AND 2000", "Which carry 1,000 to 2k people?", "Which carry 1,000 people?"),
        ("crew IN (3, 12)", "Which have a crew of three or a dozen?", "Which have a crew of three?"),
        ("share > 0.2", "Where does over 20 % of the crew stay ashore?", "Where does part of the crew stay ashore?"),
        ("lengthM < 1500", "Which are shorter than 1.5 kilometres?", "Which are short?"),
        ("isInsured = 1", "Which boats are insured?", "Which boats are there?"),
        ("state = 'W'", "Which boats are being repaired?", "Which boats are big?"),
        ("captainSex = 'F'", "Which boats have women as captains?", "Which boats have captains?"),
        ("built >= '1990-05-01'", "Which were launched since May 1990?", "Which were launched since 1990?"),
        ("built LIKE '1987%'", "Which were launched in 1987?", "Which were launched early?"),
        (
            "built BETWEEN '1990-01-01' AND '1999-12-31'",
            "Which are from the 1990s?",
            "Which are from the last century?",
        ),
        ("strftime('%m', built) = '03'", "Which were launched in March?", "Which were launched in spring?"),
        ("name LIKE '%Star%'", "Which names contain star?", "Which names are fine?"),
        ("name LIKE 'Q_een%'", "Which are called queen?", "Which have royal names?"),
        ("port = 'NV'", "Which are at home in Nevada?", "Which are at home inland?"),
        ("scrapped IS NULL", "Which were never scrapped?", "Which boats were launched?"),
        ("crew > (SELECT AVG(crew) FROM boat)", "Whose crew is above average?", "Whose crew is big?"),
        ("crew = (SELECT MAX(crew) FROM boat)", "Which has the largest crew?", "Which has a crew?"),
        ("id NOT IN (SELECT id FROM boat WHERE crew > 3)", "Which do not have over 3?", "Which have 3?"),
        ("lengthM > crew", "Which have more metres than people?", "Which have metres and people?"),
    ],
)
def test_conditions(condition: str, said: str, unsaid: str) -> None:
    sql = f"SELECT name FROM boat WHERE {condition}"
    assert found(said, sql) == []
    assert [kind for kind, _ in found(unsaid, sql)] == ["filter"]


def test_conditions_in_having_case_and_subqueries() -> None:
    for sql in (
        "SELECT port FROM boat GROUP BY port HAVING COUNT(*) >= 4",
        "SELECT SUM(CASE WHEN crew > 4 THEN 1 ELSE 0 END) FROM boat",
        "SELECT name FROM boat WHERE id IN (SELECT id FROM boat WHERE crew = 4)",
    ):
        assert [kind for kind, _ in found("Which ports are there?", sql)] == ["filter"]
        assert found("Which ports have four?", sql) == []


def test_limits() -> None:
    five = "SELECT name FROM boat ORDER BY crew DESC LIMIT 5"
    assert found("What are the names of the boats with the largest crews?", five) == [("limit", "LIMIT 5")]
    assert found("What are the names of the top five boats by crew?", five) == []
    one = "SELECT name FROM boat ORDER BY crew DESC LIMIT 1"
    assert found("What is the name of the boat?", one) == [("limit", "ORDER BY crew DESC LIMIT 1")]
    for request in ("Which boat has the most people?", "Which boat is bigger, Ann or Bo?", "What is our main boat?"):
        assert found(request, one) == []
    assert found("What is a name of a boat?", "SELECT name FROM boat LIMIT 1") == []


def test_order() -> None:
    rising, falling = "SELECT name FROM boat ORDER BY crew", "SELECT name FROM boat ORDER BY crew DESC"
    assert found("What are the boats called?", rising) == [("order", "ORDER BY crew")]
    assert found("Sort the boats' names by crew.", rising) == []
    assert found("Sort the boats' names by crew.", falling) == [("order", "ORDER BY crew DESC (its direction)")]
    for request in ("List boats in descending order of crew.", "List the boats, largest crew first."):
        assert found(request, falling) == []


def test_distinct_where_equal_rows_count() -> None:
    sql = "SELECT DISTINCT port FROM boat"
    assert found("What are the home ports?", sql) == [("distinct", "SELECT DISTINCT port")]
    for request in ("What are the different home ports?", "Which ports are there?"):
        assert found(request, sql) == []
    assert found("What are the boats' numbers?", "SELECT DISTINCT id FROM boat") == []


def test_what_only_the_evidence_says_is_marked() -> None:
    """The case of the paper: a flag and a count that the request leaves out, and a threshold that the evidence gives."""
    sql = "SELECT name FROM boat WHERE isInsured = 1 AND crew > 20 LIMIT 5"
    evidence = "a full boat refers to crew > 20"
    assert found("What are the full boats called?", sql, evidence) == [
        ("filter", "isInsured = 1"),
        ("evidence", "crew > 20"),
        ("limit", "LIMIT 5"),
    ]
    assert found("Name 5 insured boats with more than 20 people.", sql, evidence) == []
    assert {kind for kind, _ in found("?", sql, evidence)} <= set(KINDS)


def test_hygiene_is_no_constraint() -> None:
    assert (
        found("Which port has the fewest?", "SELECT port FROM boat WHERE crew IS NOT NULL ORDER BY crew LIMIT 1") == []
    )
    assert found("What do we own?", "SELECT name FROM boat WHERE scrapped IS NOT NULL")[0][0] == "filter"


def test_gold_that_cannot_be_read_is_told() -> None:
    with pytest.raises(ValueError, match="boats-1 cannot be parsed"):
        unstated("Which?", unit("SELECT FROM WHERE ("), BOATS)


def test_values_that_may_not_be_said_are_no_findings() -> None:
    up = unit("SELECT name FROM boat ORDER BY crew DESC LIMIT 1", "Which boat has the largest crew?", unit_id="up")
    down = unit("SELECT port FROM boat WHERE name = 'Gull' AND crew > 7", "Where is 'Gull' at home?", unit_id="down", literals=("Gull", "7"))  # fmt: skip
    link = Binding("up", "down", "boat.name", 0, "Gull", "SELECT port FROM boat WHERE name = :binding AND crew > 7", "Where is {binding} at home?")  # fmt: skip
    candidate = Candidate(
        Corpus.SPIDER, Behavior.SEQUENTIAL, (up, down), (("up", "down"),), (link,), aggregation="last"
    )
    request = "Where is the boat with the largest crew at home?"
    rows = task_rows(freeze(candidate, "task_1", str), request, {"up": up, "down": down}, {"boats": BOATS})
    assert rows == [{"task_id": "task_1", "unit_id": "down", "kind": "filter", "detail": "crew > 7"}]


def test_the_slot_of_an_interactive_task_may_stay_open() -> None:
    units = {}
    for name, port in (("one", "Harlow"), ("two", "Milford")):
        sql = f"SELECT COUNT(*) FROM boat WHERE port = '{port}' AND crew > 7"
        units[name] = unit(sql, f"How many boats are in {port}?", unit_id=name, literals=(port, "7"))
    branches = (Branch("a", "one", "Harlow.", "Harlow"), Branch("b", "two", "Milford.", "Milford"))
    candidate = Candidate(Corpus.SPIDER, Behavior.INTERACTIVE, tuple(units.values()), branches=branches, slot_question="Which port?")  # fmt: skip
    rows = task_rows(freeze(candidate, "task_1", str), "How many boats are in the port?", units, {"boats": BOATS})
    assert [(row["unit_id"], row["detail"]) for row in rows] == [("one", "crew > 7"), ("two", "crew > 7")]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("two hundred and fifty-six boats", 256),
        ("3.5 million", 3_500_000),
        ("12,400 dollars", 12_400),
        ("the third race", 3),
        ("the 21st race", 21),
        ("race no.18", 18),
        ("in the 1980s", 1989),
        ("a couple of them", 2),
        ("half of them", 0.5),
        ("15 percent", 0.15),
        ("3 minutes", 180),
    ],
)
def test_numbers_in_words(text: str, number: float) -> None:
    assert Said(text).number(number)
    assert not Said("some boats on the sea").number(number)
