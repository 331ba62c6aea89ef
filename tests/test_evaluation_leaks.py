"""Planted leaks of every kind are found; the ordinary words of a request are not (known fault K01)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tasks_lib.evaluation.inputs import load
from tasks_lib.evaluation.leaks import Scanner, Withheld
from tasks_lib.evaluation.lexicon import WATCHED
from tasks_lib.models.chat import Message
from tasks_lib.models.transcripts import KIND, message_blob
from tasks_lib.protocol.vocabulary import Audience
from tasks_lib.store.ledgers import Lease, Ledger, Produced

GOLD = "SELECT name, salary FROM staff WHERE city = 'Harlow' ORDER BY salary DESC"
SCHEMA = "CREATE TABLE staff (name TEXT, salary INT, city TEXT)"
SCANNER = Scanner(
    ["concert_singer", "cinema", "staff_1"],
    ["stadium", "staff", "name"],
    {"spider:train_spider:7": (GOLD, "staff_1")},
    {"staff_1": SCHEMA},
)


@pytest.mark.parametrize(
    ("text", "leaks"),
    [
        ("db_91c2: singers and concerts", False),
        ("no such table: concert_singer.stadium", True),
        ("CREATE TABLE stadium (id INT) -- from concert_singer.sqlite", True),
        ("/data/spider/concert_singer/concert_singer.sqlite is locked", True),
        ("The concert singer was late", False),
        ("run 2026-11-29T19:44:34 ok (gold=44)", True),
        ("Which cinema sold the most tickets? A gold medal for the winner.", False),
        ("no such column: cinema.seats", True),
        ("the unit is spider:train_spider:7 here", True),
        ("the ratio is 3:7 in spider silk", False),
        ("behavior: sequential", True),
        ("topology: single, parallel, sequential, exploratory or interactive", False),
        (f"try {GOLD.lower()}", True),
        ("SELECT name FROM staff", False),
        ('{"behavior": "interactive"}', True),
        ('{"gold": ["db_1"]}', True),
        ('"required_databases": ["db_1"]', True),
        ("Which databases are required? Good behavior is expected.", False),
        (json.dumps(GOLD.replace(" FROM", "\n\tFROM")), True),
        (GOLD.replace(" = ", "=").replace("'", '"'), True),
        (GOLD.replace("WHERE", "/* x */ where"), True),
        (GOLD.replace("'", "&#39;"), True),
        ("see SPIDER:TRAIN_SPIDER:7.", True),
        ("C:\\data\\database\\x", True),
        ("file:///srv/x", True),
        ("cannot open /home/user/corpora/a.db", True),
        ("opened /data/a.duckdb", True),
        ("rows in km/h and and/or 3/4 of http://example.org/data/x", False),
        ("behavior:\n  sequential", True),
        ("Behavior: polite. Its behaviour = good", False),
        ("CREATE  TABLE IF NOT EXISTS `ferries` (id INT)", True),
        ("Create a table (one page) of the ferries", False),
        ("… WHERE city = 'Harlow' ORDER BY salary DESC", True),
        ("staff whose city = 'Harlow', order by salary, from the name and salary list", False),
        ("Which staff of the city Harlow have the highest salary, and what is their name?", False),
        ("gold_queries", True),
        ("Golden sources of labels", False),
        ("standard class of credit card; gold: high-level credit card", False),
        ("gold: 3, silver: 2", False),
        ('"gold": "db_000000000001"', True),
        ("upstream_unit", True),
    ],
)
def test_router_texts(text: str, leaks: bool) -> None:
    assert bool(SCANNER.scan(text, Audience.ROUTER)) == leaks


def test_executors_may_see_examples_of_other_databases_only() -> None:
    own = f"## Schema\n{SCHEMA}\n## Examples\n{GOLD}"
    assert [f.kind for f in SCANNER.scan(own, Audience.EXECUTOR)] == ["gold_sql"]
    other = f"## Schema\nCREATE TABLE other (a INT)\n## Examples\n{GOLD}"
    assert SCANNER.scan(other, Audience.EXECUTOR) == []
    assert [f.kind for f in SCANNER.scan(other, Audience.ROUTER)] == ["ddl", "gold_sql"]


def test_an_example_that_has_ones_own_query_inside_is_the_other_databases_query() -> None:
    inner = "SELECT avg(price) FROM items WHERE price > 10"
    outer = f"SELECT name FROM items WHERE price > ({inner})"
    schemas = {"shop_1": "CREATE TABLE items (price INT)", "shop_2": "CREATE TABLE items (name TEXT, price INT)"}
    scanner = Scanner([], [], {"u:1": (inner, "shop_1"), "u:2": (outer, "shop_2")}, schemas)
    prompt = f"## Schema\n{schemas['shop_1']}\n## Examples\n"
    assert scanner.scan(prompt + outer, Audience.EXECUTOR) == []
    assert [f.kind for f in scanner.scan(f"{prompt}{outer}\n{inner}", Audience.EXECUTOR)] == ["gold_sql"]
    assert [f.kind for f in scanner.scan(outer, Audience.ROUTER)] == ["gold_sql"]


def test_a_database_named_like_a_table_is_no_leak_in_a_schema() -> None:
    schema = "CREATE TABLE party_host (party_id INT)"
    scanner = Scanner(
        ["party_host", "tea_club"], ["host"], {}, {"party_host": schema, "tea_club": "CREATE TABLE t (a)"}
    )
    text = f"{schema}; the join is on party_host.party_id"
    assert scanner.scan(text, Audience.EXECUTOR) == []
    assert {f.kind for f in scanner.scan(text, Audience.ROUTER)} == {"ddl", "physical_name"}
    assert [f.found for f in scanner.scan("no such table: tea_club.t", Audience.EXECUTOR)] == ["tea_club", "tea_club.t"]


def test_a_column_named_like_a_label_is_no_leak() -> None:
    schema = "CREATE TABLE bank (branch_ID INT)"
    scanner = Scanner(["loan_1"], [], {}, {"loan_1": schema})
    assert scanner.scan(schema, Audience.EXECUTOR) == []
    assert [f.kind for f in scanner.scan("branch_id: b1", Audience.ROUTER)] == ["label"]
    assert [f.kind for f in scanner.scan("unit_id: u1", Audience.EXECUTOR)] == ["label"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("no such column: staff_1.bonus", "physical_name"),
        ("unable to open /var/lib/corpora/x", "path"),
        ("CREATE TABLE y (a INT) -- behaviour: parallel", "label"),
        ("asked as spider:train_spider:7", "unit_id"),
        ("WHERE city = 'Harlow' ORDER BY salary DESC", ""),
        ("CREATE TABLE y (a INT)", ""),
    ],
)
def test_executor_texts(text: str, kind: str) -> None:
    assert {f.kind for f in SCANNER.scan(text, Audience.EXECUTOR)} - {kind} == set()
    assert bool(SCANNER.scan(text, Audience.EXECUTOR)) == bool(kind)


def test_a_judge_sees_no_gold_either() -> None:
    assert [f.kind for f in SCANNER.scan(f"{GOLD} of staff_1", Audience.JUDGE)] == ["physical_name", "gold_sql"]


def test_ordinary_words_that_a_schema_holds_are_no_labels_for_its_executor() -> None:
    schema = "CREATE TABLE games (gold INT -- gold: medals won\n)"
    scanner = Scanner(["games_1"], [], {}, {"games_1": schema})
    assert scanner.scan(schema, Audience.EXECUTOR) == []
    assert {f.kind for f in scanner.scan("gold: db_1", Audience.ROUTER)} == {"label"}


def test_a_schema_in_a_prompt_is_known_among_many() -> None:
    schemas = {f"d_{i}": f"CREATE TABLE t (\n  a INT,\n  b{i % 3} INT, -- {i // 3}\n  c INT\n)" for i in range(9)}
    scanner = Scanner([], [], {}, schemas)
    for name, schema in schemas.items():
        assert scanner.schemas_in(f"<schema>\n{schema}\n</schema>") == {name}
    assert scanner.schemas_in("CREATE TABLE t (\n  a INT,\n  c INT\n)") == set()


def record(ledger: Ledger, key: str, audience: str, messages: Sequence[Message]) -> None:
    blobs = dict(message_blob(m) for m in messages)
    payload = {"request": {"messages": [message_blob(m)[0] for m in messages], "tools": ""}}
    lease = ledger.acquire(key, KIND)
    assert isinstance(lease, Lease)
    ledger.complete(lease, Produced("ok", json.dumps(payload).encode(), {"audience": audience}, blobs))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(f"sqlite:///{tmp_path / 'l.sqlite'}")


def test_an_executor_is_known_by_its_whole_conversation(ledger: Ledger) -> None:
    """Gold in a later message that does not repeat the schema is still that database's gold."""
    messages = [
        Message("user", f"## Schema\n{SCHEMA}"),
        Message("assistant", GOLD),
        Message("user", f"Try again: {GOLD}"),
    ]
    record(ledger, "k", "executor", messages)
    assert [f.kind for f in SCANNER.scan_calls(ledger, ["k"])] == ["gold_sql"]


def test_a_text_shown_many_times_is_reported_once_an_audience(ledger: Ledger) -> None:
    leak = Message("user", "rows\nof staff_1")
    for i in range(5):
        record(ledger, f"r{i}", "router", [leak, Message("user", f"turn {i}"), Message("user", "2\nof staff_1")])
    record(ledger, "j", "judge", [leak])
    found = SCANNER.scan_calls(ledger, ["j", *(f"r{i}" for i in range(5))])
    assert sorted((f.audience, f.found) for f in found) == [("judge", "staff_1"), ("router", "staff_1")]


REQUEST = "Which records hold the staff of the city that the river flows through?"
WITHHELD = Withheld(REQUEST, ("Port Harlow", "30", "one"), ("Which staff live in Port Harlow, by the river?",))
TASKS = Scanner([], [], {}, {}, [WITHHELD])


@pytest.mark.parametrize(
    ("audience", "prompt", "leaks"),
    [
        ("router", f"<request>\n{REQUEST}\n</request> You have 30 turns; choose one.", False),
        ("router", f"<request>\n{REQUEST} It is port harlow.\n</request>", True),
        ("router", f"<request>\n{REQUEST}\n</request>\nhint: 'Port  Harlow'", True),
        ("router", f"{REQUEST}\n<observation action='x'>\nPort Harlow, a value\n</observation>", False),
        ("router", "<request>\nWhat is Port Harlow famous for, and since when is it?\n</request>", False),
        ("executor", f"<schema>\n-- e.g. Port Harlow\n</schema>\n<request>\n{REQUEST}\n</request>", False),
        ("executor", f"<request>\n{REQUEST}\n</request>\nPort Harlow", True),
        (
            "executor",
            "<placeholders>\n:up1_city\n</placeholders>\nWhich staff live in Port Harlow, by the river?",
            True,
        ),
        ("executor", "<request>\nWhich staff live in Port Harlow, by the river?\n</request>", False),
        ("judge", f"{REQUEST}\nPort Harlow", False),
    ],
)
def test_withheld_values_stay_out_of_first_prompts(ledger: Ledger, audience: str, prompt: str, leaks: bool) -> None:
    record(ledger, "k", audience, [Message("system", "Route."), Message("user", prompt)])
    assert [f.kind for f in TASKS.scan_calls(ledger, ["k"])] == ["withheld"] * leaks


def test_what_the_model_brings_up_itself_is_not_withheld(ledger: Ledger) -> None:
    messages = [
        Message("user", f"<request>\n{REQUEST}\n</request>"),
        Message("assistant", "search_entity Port Harlow"),
        Message("user", "no value Port Harlow was found"),
    ]
    record(ledger, "k", "router", messages)
    assert TASKS.scan_calls(ledger, ["k"]) == []


def test_requests_and_catalog_of_the_embedded_release_are_clean_and_planted_ones_are_not(embedded: Path) -> None:
    """Every gold statement, unit id and withheld value of a real release is found where it does not belong."""
    inputs = load(str(embedded))
    scanner = inputs.scanner
    for task in inputs.tasks.values():
        assert scanner.scan(task.request, Audience.ROUTER) == []
    for summary in inputs.descriptions.values():
        assert scanner.scan(summary, Audience.ROUTER) == []
    units = [u for u in inputs.release.units.values() if len(u.sql) > 60]
    assert len(units) > 50
    for unit in units:
        assert "gold_sql" in {f.kind for f in scanner.scan(f"Try this.\n{unit.sql}", Audience.ROUTER)}, unit.sql
        assert "unit_id" in {f.kind for f in scanner.scan(f"({unit.unit_id})", Audience.JUDGE)}
    chains = [c for c in inputs.contracts.values() if c.bindings]
    assert chains


def test_diagnostics_are_exempt() -> None:
    assert SCANNER.scan(GOLD, Audience.DIAGNOSTIC) == []


PLANTS = {
    "physical_name": "no such table: concert_singer.stadium",
    "path": "unable to open database file /data/database/cinema/x",
    "ddl": "CREATE TABLE x (id INT) -- as the dump has it",
    "gold_sql": f"{SCHEMA}\ntry {GOLD}",  # an executor is watched for gold of the schema it reads
    "fragment": "… WHERE city = 'Harlow' ORDER BY salary DESC",
    "label": '{"behavior": "interactive"}',
    "unit_id": "as asked in spider:train_spider:7",
    "withheld": f"{REQUEST} It is Port Harlow.",
}
"""One leak of every kind that anybody is watched for."""


@pytest.mark.parametrize("kind", sorted({kind for kinds in WATCHED.values() for kind in kinds}))
def test_every_kind_of_leak_is_planted_and_found_as_that_kind(ledger: Ledger, kind: str) -> None:
    gold = {"spider:train_spider:7": (GOLD, "staff_1")}
    scanner = Scanner(["concert_singer", "cinema", "staff_1"], ["staff"], gold, {"staff_1": SCHEMA}, [WITHHELD])
    for number, audience in enumerate(a for a, kinds in sorted(WATCHED.items()) if kind in kinds):
        record(ledger, f"k{number}", str(audience), [Message("user", PLANTS[kind])])
        told = "gold_sql" if kind == "fragment" else kind  # a part of a gold query is told as gold
        assert told in {f.kind for f in scanner.scan_calls(ledger, [f"k{number}"])}, audience
    record(ledger, "clean", "router", [Message("user", f"<request>\n{REQUEST}\n</request>")])
    assert scanner.scan_calls(ledger, ["clean"]) == []


def in_words(text: str) -> str:
    return f" {' '.join(re.findall(r'[a-z0-9]+', text.casefold()))} "


def planted(catalog: str, units: Iterable[Any]) -> set[str]:
    """Unit ids whose question or gold, in words, stands in the catalog's texts in words."""
    found = set()
    for unit in units:
        texts = [in_words(text) for text in (unit.question, unit.sql)]
        if any(len(text.split()) >= 5 and text in catalog for text in texts):
            found.add(unit.unit_id)
    return found


def test_no_question_and_no_gold_of_a_release_stands_in_its_public_catalog(embedded: Path) -> None:
    """The whole catalog against every question and gold query of the release; one planted as a meaning or card is found."""
    inputs = load(str(embedded))
    texts: list[str] = []
    for file in sorted((embedded / "public/catalog").glob("*.parquet")):
        for row in pl.read_parquet(file).drop("vector", strict=False).iter_rows():
            texts += [str(value) for value in row if value is not None]
    units = list(inputs.release.units.values())
    assert len(units) > 200
    whole = "".join(map(in_words, texts))
    assert len(whole) > 100_000
    assert planted(whole, units) == set()
    assert [f for text in texts for f in inputs.scanner.scan(text, Audience.ROUTER)] == []
    for unit in (units[0], units[-1]):
        assert unit.unit_id in planted(f"{whole}{in_words(f'Meaning. {unit.question} (an example)')}", units)
        assert unit.unit_id in planted(f"{whole}{in_words(unit.sql)}", units)
