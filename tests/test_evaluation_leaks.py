"""Planted leaks of every kind are found; the ordinary words of a request are not (known fault K01)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tasks_lib.evaluation.leaks import Scanner
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
    ],
)
def test_router_texts(text: str, leaks: bool) -> None:
    assert bool(SCANNER.scan(text, Audience.ROUTER)) == leaks


def test_executors_may_see_examples_of_other_databases_only() -> None:
    own = f"## Schema\n{SCHEMA}\n## Examples\n{GOLD}"
    assert [f.kind for f in SCANNER.scan(own, Audience.EXECUTOR)] == ["gold_sql"]
    other = f"## Schema\nCREATE TABLE other (a INT)\n## Examples\n{GOLD}"
    assert SCANNER.scan(other, Audience.EXECUTOR) == []
    assert [f.kind for f in SCANNER.scan(other, Audience.ROUTER)] == ["gold_sql"]


def test_a_database_named_like_a_table_is_no_leak_in_a_schema() -> None:
    schema = "CREATE TABLE party_host (party_id INT)"
    scanner = Scanner(
        ["party_host", "tea_club"], ["host"], {}, {"party_host": schema, "tea_club": "CREATE TABLE t (a)"}
    )
    text = f"{schema}; the join is on party_host.party_id"
    assert scanner.scan(text, Audience.EXECUTOR) == []
    assert {f.kind for f in scanner.scan(text, Audience.ROUTER)} == {"physical_name"}
    assert [f.found for f in scanner.scan("no such table: tea_club.t", Audience.EXECUTOR)] == ["tea_club", "tea_club.t"]


def test_a_column_named_like_a_label_is_no_leak() -> None:
    schema = "CREATE TABLE bank (branch_ID INT)"
    scanner = Scanner(["loan_1"], [], {}, {"loan_1": schema})
    assert scanner.scan(schema, Audience.EXECUTOR) == []
    assert [f.kind for f in scanner.scan("branch_id: b1", Audience.ROUTER)] == ["label"]
    assert [f.kind for f in scanner.scan("unit_id: u1", Audience.EXECUTOR)] == ["label"]


def test_an_executor_is_known_by_its_whole_conversation(tmp_path: Path) -> None:
    """Gold in a later message that does not repeat the schema is still that database's gold."""
    ledger = Ledger(f"sqlite:///{tmp_path / 'l.sqlite'}")
    messages = [
        Message("user", f"## Schema\n{SCHEMA}"),
        Message("assistant", GOLD),
        Message("user", f"Try again: {GOLD}"),
    ]
    blobs = dict(message_blob(m) for m in messages)
    payload = {"request": {"messages": list(blobs), "tools": ""}}
    lease = ledger.acquire("k", KIND)
    assert isinstance(lease, Lease)
    ledger.complete(lease, Produced("ok", json.dumps(payload).encode(), {"audience": "executor"}, blobs))
    assert [f.kind for f in SCANNER.scan_calls(ledger, ["k"])] == ["gold_sql"]


def test_diagnostics_are_exempt() -> None:
    assert SCANNER.scan(GOLD, Audience.DIAGNOSTIC) == []
