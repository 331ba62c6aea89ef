"""Groups measure one thing in question and gold, tell different facts of one subject, and say it in sound language."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks_lib.contracts import exploratory, parallel
from tasks_lib.contracts.contract import Unit
from tasks_lib.contracts.facts import Measure, Shape, read, subjects
from tasks_lib.contracts.groups import measured
from tasks_lib.contracts.pool import Pool
from tasks_lib.contracts.quality import faults, misspelled
from tasks_lib.contracts.wording import word
from tasks_lib.corpora.model import ColumnInfo, CorpusDatabase, TableInfo
from tasks_lib.protocol.vocabulary import Corpus, Engine


def database(name: str, **tables: str) -> CorpusDatabase:
    made = tuple(
        TableInfo(table, tuple(ColumnInfo(column, "text") for column in columns.split()), 9)
        for table, columns in tables.items()
    )
    path = Path(f"{name}.sqlite")
    return CorpusDatabase(
        Corpus.SPIDER, name, Engine.SQLITE, path, path.name, name, "original", name.replace("_", " "), made, ""
    )


def unit(home: CorpusDatabase, question: str, sql: str, *columns: str, value: object = 7) -> Unit:
    rows, pairs = (1, (("int", value),)) if value is not None else (5, ())
    tables = tuple(dict.fromkeys(column.split(".")[0] for column in columns))
    return Unit(
        unit_id=f"{home.name} {question}",
        corpus=home.corpus,
        database=home.name,
        database_digest=home.digest,
        question=question,
        sql=sql,
        evidence="",
        tables=tables,
        columns=columns,
        literals=(),
        result_digest=f"{home.name} {sql}",
        row_count=rows,
        column_count=1 if pairs else 2,
        first_row=pairs,
        flags=(),
    )


YARD = database("boat_yard", employee="name age salary yard", boat="name length")
CLINIC = database("pet_clinic", employee="name age ward", patient="name weight")
ARCHIVE = database("map_archive", employee="name age archive", document="title year")


def ages(home: CorpusDatabase, where: str) -> Unit:
    return unit(
        home,
        f"What is the average age of the employees of the {where}?",
        "SELECT avg(age) FROM employee",
        "employee.age",
    )


def test_a_measure_needs_question_and_gold() -> None:
    good = read(ages(YARD, "yard"), YARD)
    assert good.shape is Shape.NUMBER
    assert good.measures == (Measure("average", "age", "employees"),)
    other = unit(YARD, "What is the average age of the employees?", "SELECT max(age) FROM employee", "employee.age")
    assert read(other, YARD).measures == ()
    wrong = unit(YARD, "What is the average age of the employees?", "SELECT avg(length) FROM boat", "boat.length")
    assert not [m for m in read(wrong, YARD).measures if m.attribute == "age"]


@pytest.mark.parametrize(
    ("question", "sql", "columns", "expected"),
    [
        ("How many boats are in the yard?", "SELECT count(*) FROM boat", ("boat.name",), ["numbers of ships"]),
        ("What is the report number of boats?", "SELECT count(*) FROM boat", ("boat.name",), []),
        (
            "How many more boats than employees are there?",
            "SELECT count(*) FROM boat",
            ("boat.name", "employee.name"),
            [],
        ),
        ("How many people are older than an employee?", "SELECT count(*) FROM boat", ("boat.name",), []),
    ],
)
def test_counts(question: str, sql: str, columns: tuple[str, ...], expected: list[str]) -> None:
    fact = read(unit(YARD, question, sql, *columns), YARD)
    assert [measured(m, m.subject, fact.shape) for m in fact.measures] == expected


def test_a_word_of_several_senses_needs_its_setting() -> None:
    plain = database("word_games", game="title platform", score="points")
    asked = unit(plain, "How many games are there on each platform?", "SELECT count(*) FROM game", "game.platform")
    assert "matches" not in read(asked, plain).subjects
    assert "video games" in read(asked, plain).subjects
    assert "team" in subjects()["matches"].needs


def test_parallel_compares_one_measure_and_names_what_to_derive() -> None:
    units = [ages(YARD, "yard"), ages(CLINIC, "ward"), ages(ARCHIVE, "archive")]
    pool = Pool([YARD, CLINIC, ARCHIVE], units, b"k" * 32)
    found = next(parallel.candidates(pool, 3))
    assert found.theme == "average ages of employees"
    assert len(set(found.databases)) == 3
    worded = word(found, pool)
    assert worded is not None
    assert "largest" in worded.request or "highest" in worded.request or "comes out on top" in worded.request
    assert worded.request.count("?") <= 1
    assert [unit_id for unit_id, _ in worded.contributions] == list(found.unit_ids)
    assert all(said in worded.request for _, said in worded.contributions)
    neutral = word(found, pool, style="neutral")
    assert neutral is not None
    assert found.theme not in neutral.request


def test_exploratory_tells_different_facts_of_one_subject() -> None:
    told = unit(
        CLINIC,
        "What are the names and wards of the employees?",
        "SELECT name, ward FROM employee",
        "employee.name",
        "employee.ward",
        value=None,
    )
    same = Pool([YARD, CLINIC, ARCHIVE], [ages(YARD, "yard"), ages(ARCHIVE, "archive")], b"k" * 32)
    assert list(exploratory.candidates(same, 2)) == []
    mixed = Pool([YARD, CLINIC, ARCHIVE], [ages(YARD, "yard"), told], b"k" * 32)
    found = next(exploratory.candidates(mixed, 2))
    assert found.theme == "employees"
    assert set(found.databases) == {"boat_yard", "pet_clinic"}


def test_a_question_without_a_place_is_not_fit() -> None:
    vague = unit(YARD, "What is the average age of the employees?", "SELECT avg(age) FROM employee", "employee.age")
    pool = Pool([YARD, CLINIC, ARCHIVE], [vague, ages(YARD, "yard")], b"k" * 32)
    assert [u.question for u in pool.fit] == ["What is the average age of the employees of the yard?"]


@pytest.mark.parametrize(
    ("question", "rule"),
    [
        ("Show the number of boats of each each owner.", "doubled_word"),
        ("What are the ids of the owners?", "asks_for_ids"),
        ("What is the status code of the boat?", "asks_for_codes"),
        ("What are the fname and city of the owners?", "schema_word"),
        ("Which boats have the label TR004_8_9?", "identifier"),
        ("What are the details of the boats?", "vague"),
        ("Find the role that have the most owners.", "agreement"),
        ("What is the birth year of the owner and", "loose_end"),
        ("Name the owners" + " of boats" * 30, "long"),
    ],
)
def test_faults_of_language(question: str, rule: str) -> None:
    assert rule in faults(question)


@pytest.mark.parametrize(
    "question",
    ["Which town has the most boats?", "How many boats were sold in 2012?", "the names of boats longer than 9 meters"],
)
def test_sound_language(question: str) -> None:
    assert faults(question) == ()


def test_misspellings() -> None:
    assert misspelled("the hosue of the salaray", ()) == ("hosue", "salaray")
    assert misspelled("the planned 'hosue' of the heaviest boats", ()) == ()
    assert misspelled("the hosue", {"hosue"}) == ()
