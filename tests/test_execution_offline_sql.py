"""The offline SQL writer: right answers on a small database from the prompt alone, through both agents."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tasks_lib.execution.agents import write_sql
from tasks_lib.execution.drafts import Example, SqlDraft
from tasks_lib.execution.examples import Pool
from tasks_lib.execution.planner import plan
from tasks_lib.models.backends import OFFLINE_POLICIES, BackendSpec
from tasks_lib.models.client import open_model
from tasks_lib.models.offline.sql import statements
from tasks_lib.models.offline.sql_schema import parse_schema
from tasks_lib.protocol.records import DatabaseHandle, LocalRequest, PublicTask
from tasks_lib.protocol.vocabulary import Corpus, DataAgent, Engine, QueryMode
from tasks_lib.sql.canonical import CanonicalResult
from tasks_lib.sql.comparators import compare
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.sql.guard import is_ordered
from tasks_lib.store.keys import sha256_bytes
from tasks_lib.store.ledgers import Ledger

SCHEMA = """CREATE TABLE lighthouse (
    lighthouse_id INTEGER PRIMARY KEY,
    name TEXT,
    country TEXT, -- where it stands
    height REAL, -- metres above the ground
    built_year INTEGER
);

CREATE TABLE keeper (
    keeper_id INTEGER PRIMARY KEY,
    first_name TEXT,
    last_name TEXT,
    age INTEGER,
    salary REAL,
    lighthouse_id INTEGER,
    FOREIGN KEY (lighthouse_id) REFERENCES lighthouse (lighthouse_id)
);

CREATE TABLE repair (
    repair_id INTEGER PRIMARY KEY,
    lighthouse_id INTEGER REFERENCES lighthouse (lighthouse_id),
    cost REAL,
    repair_date TEXT
);
"""
ROWS = """
INSERT INTO lighthouse VALUES (1,'Skerry','Scotland',33.5,1844),(2,'Fastnet','Ireland',54,1904),(3,'Hook','Ireland',35,1172),
 (4,'Lista','Norway',34,1836),(5,'Utsira','Norway',13,1844),(6,'Rota','Spain',18,1980);
INSERT INTO keeper VALUES (1,'Ada','Berg',61,3100,4),(2,'Tom','Kerr',44,2900,1),(3,'Una','Daly',38,2500,2),
 (4,'Finn','Daly',52,2700,2),(5,'Ola','Vik',29,2300,4),(6,'Mo','Roe',47,2600,3);
INSERT INTO repair VALUES (1,1,900,'1990-05-01'),(2,2,1500,'2001-07-12'),(3,2,400,'2010-03-30'),(4,4,250,'2010-06-02'),
 (5,2,700,'2015-01-20');
"""
QUESTIONS: tuple[tuple[str, str], ...] = (
    ("How many lighthouses are there?", "SELECT count(*) FROM lighthouse"),
    ("How many keepers are older than 45?", "SELECT count(*) FROM keeper WHERE age > 45"),
    ("What is the average salary of all keepers?", "SELECT avg(salary) FROM keeper"),
    ("Show the name and height of every lighthouse.", "SELECT name, height FROM lighthouse"),
    ("List the names of lighthouses in Norway.", "SELECT name FROM lighthouse WHERE country = 'Norway'"),
    ("Which lighthouse has the greatest height?", "SELECT name FROM lighthouse ORDER BY height DESC LIMIT 1"),
    ("What is the total cost of repairs?", "SELECT sum(cost) FROM repair"),
    (
        "For each country, how many lighthouses are there?",
        "SELECT country, count(*) FROM lighthouse GROUP BY country",
    ),
    ("List the distinct countries of lighthouses.", "SELECT DISTINCT country FROM lighthouse"),
    ("How many different countries have lighthouses?", "SELECT count(DISTINCT country) FROM lighthouse"),
    ("What is the maximum and minimum height of lighthouses?", "SELECT max(height), min(height) FROM lighthouse"),
    (
        "Show the names of lighthouses sorted by height in descending order.",
        "SELECT name FROM lighthouse ORDER BY height DESC",
    ),
    (
        "What are the names of the 3 lighthouses with the largest height?",
        "SELECT name FROM lighthouse ORDER BY height DESC LIMIT 3",
    ),
    ("What is the last name of the youngest keeper?", "SELECT last_name FROM keeper ORDER BY age LIMIT 1"),
    (
        "Give the salary of the keeper named Ada Berg.",
        "SELECT salary FROM keeper WHERE first_name = 'Ada' AND last_name = 'Berg'",
    ),
    (
        "What is the country of the lighthouse called 'Fastnet'?",
        "SELECT country FROM lighthouse WHERE name = 'Fastnet'",
    ),
    ("List the names of lighthouses built before 1850.", "SELECT name FROM lighthouse WHERE built_year < 1850"),
    (
        "Which lighthouses have a height between 15 and 34?",
        "SELECT name FROM lighthouse WHERE height BETWEEN 15 AND 34",
    ),
    (
        "Show the last names of keepers of the lighthouse named 'Lista'.",
        "SELECT last_name FROM keeper NATURAL JOIN lighthouse WHERE name = 'Lista'",
    ),
    ("How many keepers have a salary of at least 2700?", "SELECT count(*) FROM keeper WHERE salary >= 2700"),
    (
        "Which lighthouse has the most repairs?",
        "SELECT name FROM lighthouse NATURAL JOIN repair GROUP BY lighthouse_id ORDER BY count(*) DESC LIMIT 1",
    ),
    (
        "Show the names of lighthouses that have at least 2 keepers.",
        "SELECT name FROM lighthouse NATURAL JOIN keeper GROUP BY lighthouse_id HAVING count(*) >= 2",
    ),
    (
        "List the names of lighthouses without any repairs.",
        "SELECT name FROM lighthouse WHERE lighthouse_id NOT IN (SELECT lighthouse_id FROM repair)",
    ),
    (
        "What is the average height of lighthouses in Ireland?",
        "SELECT avg(height) FROM lighthouse WHERE country = 'Ireland'",
    ),
    (
        "For each country, show the country and the average height of its lighthouses.",
        "SELECT country, avg(height) FROM lighthouse GROUP BY country",
    ),
    (
        "What is the most common country of lighthouses?",
        "SELECT country FROM lighthouse GROUP BY country ORDER BY count(*) DESC LIMIT 1",
    ),
    (
        "What are the first name and age of keepers with a salary above the average salary?",
        "SELECT first_name, age FROM keeper WHERE salary > (SELECT avg(salary) FROM keeper)",
    ),
    (
        "What are the names of lighthouses whose name contains 'ot'?",
        "SELECT name FROM lighthouse WHERE name LIKE '%ot%'",
    ),
    (
        "Show the names of lighthouses in Spain or Scotland.",
        "SELECT name FROM lighthouse WHERE country IN ('Spain', 'Scotland')",
    ),
    (
        "What is the total cost of repairs for the lighthouse 'Fastnet'?",
        "SELECT sum(cost) FROM repair NATURAL JOIN lighthouse WHERE name = 'Fastnet'",
    ),
)
POLICY = "offline/bm25"


@pytest.fixture
def handle(tmp_path: Path) -> DatabaseHandle:
    path = tmp_path / "coast.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript(SCHEMA + ROWS)
    connection.close()
    return DatabaseHandle("db_coast", Corpus.SPIDER, Engine.SQLITE, str(path), sha256_bytes(path.read_bytes()), SCHEMA)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(f"sqlite:///{tmp_path}/ledger.sqlite")


@pytest.fixture
async def runner(ledger: Ledger) -> AsyncIterator[SqlRunner]:
    async with SqlRunner(ledger) as made:
        yield made


def local(text: str, *placeholders: str) -> LocalRequest:
    return LocalRequest("t", "", "db_coast", QueryMode.FUSED, text, placeholders)


async def write(
    agent: DataAgent, text: str, handle: DatabaseHandle, ledger: Ledger, runner: SqlRunner, *placeholders: str
) -> SqlDraft:
    model = open_model(BackendSpec(name="offline", model=POLICY, temperature=None), ledger)
    shown = [Example("How many ships are there?", "SELECT count(*) FROM ship", "db_other", "u1")]
    return await write_sql(agent, local(text, *placeholders), handle, "", model, runner, Pool(shown).without(), 0)


async def result(runner: SqlRunner, handle: DatabaseHandle, sql: str) -> CanonicalResult | None:
    return (await runner.run(handle, sql)).result


@pytest.mark.parametrize("agent", list(DataAgent))
async def test_a_decent_share_of_easy_questions_is_right(
    agent: DataAgent, handle: DatabaseHandle, ledger: Ledger, runner: SqlRunner
) -> None:
    wrong = []
    for question, gold_sql in QUESTIONS:
        draft = await write(agent, question, handle, ledger, runner)
        assert draft.kind is None, question
        assert len(draft.calls) >= 1
        gold, mine = await result(runner, handle, gold_sql), await result(runner, handle, draft.sql or "")
        assert gold is not None
        assert gold.rows
        if mine is None or not compare(Corpus.SPIDER, gold, mine, is_ordered(Engine.SQLITE, gold_sql)).equal:
            wrong.append((question, draft.sql))
    share = 1 - len(wrong) / len(QUESTIONS)
    assert share >= 0.6, f"{share:.2f} right; wrong: {wrong}"


@pytest.mark.parametrize("agent", list(DataAgent))
async def test_listed_placeholders_are_used_as_values(
    agent: DataAgent, handle: DatabaseHandle, ledger: Ledger, runner: SqlRunner
) -> None:
    text = "How tall is the lighthouse of that name?"
    draft = await write(agent, text, handle, ledger, runner, "up1_name", "up1_price")
    assert draft.sql is not None
    assert "name = :up1_name" in draft.sql
    assert draft.executions == ()
    bound = await runner.run(handle, draft.sql, {"up1_name": "Hook", "up1_price": 3})
    assert bound.result is not None
    assert bound.result.rows


async def test_an_empty_result_makes_the_adapter_try_the_next_candidate(
    handle: DatabaseHandle, ledger: Ledger, runner: SqlRunner
) -> None:
    text = "What is the height of the lighthouse named 'fastnet'?"
    once = await write(DataAgent.TEXT_TO_SQL, text, handle, ledger, runner)
    twice = await write(DataAgent.ADAPTER, text, handle, ledger, runner)
    assert (len(once.calls), len(twice.calls)) == (1, 2)
    assert once.sql != twice.sql
    found = await result(runner, handle, twice.sql or "")
    assert found is not None
    assert found.rows == ((54.0,),)


@pytest.mark.parametrize(
    ("text", "evidence", "sql"),
    [
        (
            "How many keepers are well paid?",
            "well paid refers to salary > 2600",
            "SELECT COUNT(*) FROM keeper WHERE salary > 2600",
        ),
        (
            "What are the names of towers in Caledonia?",
            "tower refers to lighthouse; Caledonia refers to country = 'Scotland'",
            "SELECT name FROM lighthouse WHERE country = 'Scotland'",
        ),
        ("Give the age of VIK.", '"Vik" is the last_name', "SELECT age FROM keeper WHERE last_name = 'Vik'"),
        (
            "What is the name of the most ancient lighthouse?",
            "most ancient refers to MIN(built_year)",
            "SELECT name FROM lighthouse ORDER BY built_year ASC LIMIT 1",
        ),
        (
            "How many keepers are there?",
            "busy refers to salary > 9; share = DIVIDE(SUM(age = 3), COUNT(age))",
            "SELECT COUNT(*) FROM keeper",
        ),
    ],
)
def test_evidence_gives_conditions_columns_and_extremes(text: str, evidence: str, sql: str) -> None:
    prompt = f"# Task: sql\n\n<knowledge>\n{evidence}\n</knowledge>\n\n<request>\n{text}\n</request>\n"
    assert statements(POLICY, prompt, SCHEMA, False)[0] == sql


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        (
            "I am comparing coasts. How many keepers are older than 45? Which quarterly invoices were overdue?",
            "SELECT COUNT(*) FROM keeper WHERE age > 45",
        ),
        (
            "Please tell me how many overdue invoices were sent, the average salary of keepers and which pianists "
            "won the contest.",
            "SELECT AVG(salary) FROM keeper",
        ),
        ("Show the name and the height of every lighthouse.", "SELECT name, height FROM lighthouse"),
    ],
)
def test_of_a_fused_request_the_part_of_this_database_is_answered(text: str, sql: str) -> None:
    prompt = f"# Task: sql\n\n<request>\n{text}\n</request>\n"
    assert statements(POLICY, prompt, SCHEMA, False)[0] == sql


@pytest.mark.parametrize(
    ("text", "order", "edges"),
    [
        ("Find the town with the oldest mill, then list concerts in that town.", ["db_mill", "db_show"], 1),
        ("Which concerts were played in the town returned by the oldest mill?", ["db_mill", "db_show"], 1),
        ("List concerts and also mills.", ["db_show", "db_mill"], 0),
    ],
)
async def test_the_offline_plan_follows_the_wording(text: str, order: list[str], edges: int, ledger: Ledger) -> None:
    descriptions = {"db_show": "concerts and singers on stage", "db_mill": "mills, millers and rivers"}
    task = PublicTask("t", Corpus.SPIDER, text, tuple(descriptions))
    model = open_model(BackendSpec(name="offline", model=POLICY, temperature=None), ledger)
    made = await plan(task, text, tuple(descriptions), descriptions, model, 0)
    assert (list(made.result.order), len(made.result.edges), made.result.ok) == (order, edges, True)


@pytest.mark.parametrize("policy", OFFLINE_POLICIES)
def test_every_policy_writes_sql_for_both_engines(policy: str) -> None:
    prompt = "# Task: sql\n\n<request>\nHow many keepers are older than 45?\n</request>\n"
    for postgres in (False, True):
        assert statements(policy, prompt, SCHEMA, postgres)[0] == "SELECT COUNT(*) FROM keeper WHERE age > 45"


def test_a_schema_is_read_from_postgresql_text_with_comments() -> None:
    text = """
    CREATE TABLE public."Big Ship" ("shipId" bigint NOT NULL, tons numeric(8,2) DEFAULT 0, /* gross weight */
      data jsonb, CONSTRAINT k PRIMARY KEY ("shipId"));
    -- where ships may lie
    CREATE TABLE berth (
      no integer PRIMARY KEY, -- number painted on the wall
      -- who lies here
      ship bigint
    );
    ALTER TABLE ONLY public.berth ADD CONSTRAINT f FOREIGN KEY (ship) REFERENCES public."Big Ship"("shipId");
    COMMENT ON COLUMN public."Big Ship".data IS 'crew''s papers';
    """
    schema = parse_schema(text)
    assert [table.name for table in schema.tables] == ["Big Ship", "berth"]
    ship, berth = schema.tables
    assert [(c.name, c.type, c.comment, c.primary) for c in ship.columns] == [
        ("shipId", "bigint", "", True),
        ("tons", "numeric ( 8 , 2 )", "gross weight", False),
        ("data", "jsonb", "crew's papers", False),
    ]
    assert [(c.name, c.comment) for c in berth.columns] == [
        ("no", "number painted on the wall"),
        ("ship", "who lies here"),
    ]
    assert [(link.source.name, link.target.name, link.declared) for link in schema.links] == [("ship", "shipId", True)]


def test_a_call_takes_a_few_milliseconds() -> None:
    prompts = [f"# Task: sql\n\n<request>\n{question}\n</request>\n" for question, _sql in QUESTIONS]
    statements(POLICY, prompts[0], SCHEMA, False)
    started = time.process_time()
    for prompt in prompts:
        statements(POLICY, prompt, SCHEMA, False)
    assert (time.process_time() - started) / len(prompts) < 0.01


def test_a_table_may_have_the_name_of_a_keyword() -> None:
    schema = parse_schema(
        "CREATE TABLE match (id INT PRIMARY KEY);\nCREATE TABLE host (m INT, FOREIGN KEY (m) REFERENCES match (id));"
    )
    assert [(link.source.table, link.target.table, link.target.name) for link in schema.links] == [
        ("host", "match", "id")
    ]
