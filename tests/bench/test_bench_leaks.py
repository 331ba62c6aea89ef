"""The leak scan before and after: a search of every gold text in every message against hashed windows over distinct lines.

Run by name: `pytest -m bench tests/bench/test_bench_leaks.py -s`. 26,000 calls of 30-turn conversations over a release of 20,000
units; the linear search stands here as it was, for the comparison.
"""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from tasks_lib.evaluation.leaks import Scanner
from tasks_lib.evaluation.readings import squeezed
from tasks_lib.models.chat import Message
from tasks_lib.models.transcripts import KIND, message_blob
from tasks_lib.protocol.vocabulary import Audience
from tasks_lib.store.ledgers import Lease, Ledger, Produced

DATABASES, UNITS, CONVERSATIONS, TURNS, ROWS = 250, 20_000, 860, 30, 20
COMPARED = 200
"""Messages that the linear search reads; its time for all of them is in proportion."""
WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("ra", "lin", "mo", "set", "nal")]


def _gold(draw: random.Random) -> dict[str, tuple[str, str]]:
    def query() -> str:
        a, b, c, d = draw.sample(WORDS, 4)
        return f"SELECT T1.{a}, count(*) FROM {b} AS T1 JOIN {c} AS T2 ON T1.{a}_id = T2.{a}_id WHERE T2.{d} > {draw.randrange(999)} GROUP BY T1.{a}"

    return {f"spider:train:{i}": (query(), f"spider:d_{i % DATABASES}") for i in range(UNITS)}


def _row(draw: random.Random, i: int) -> str:
    words = " ".join(draw.choices(WORDS, k=18))
    return json.dumps({"database_id": f"db_{i:012x}", "summary": words, "score": round(draw.random(), 4)})


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    draw = random.Random(3)
    rows = [_row(draw, i) for i in range(2_000)]
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    for number in range(CONVERSATIONS):
        messages = [Message("system", "You route requests."), Message("user", f"<request>\n{number}\n</request>")]
        for turn in range(TURNS):
            blobs = dict(message_blob(m) for m in messages)
            names = [message_blob(m)[0] for m in messages]
            lease = ledger.acquire(f"k{number}-{turn}", KIND)
            assert isinstance(lease, Lease)
            payload = json.dumps({"request": {"messages": names, "tools": ""}}).encode()
            ledger.complete(lease, Produced("ok", payload, {"audience": "router"}, blobs))
            if turn % 5 == 4:  # as in a real ledger: about six distinct observations a conversation
                messages.append(Message("assistant", f"look {turn}"))
                messages.append(Message("user", "\n".join(draw.sample(rows, ROWS))))
    return ledger


def linear(text: str, gold: list[str]) -> int:
    """The search as it was: every gold text looked for in the squeezed message."""
    flat = squeezed(text)
    return sum(flat.find(sql) >= 0 for sql in gold) if "select" in flat else 0


@pytest.mark.bench
def test_scan_of_twenty_six_thousand_calls(ledger: Ledger) -> None:
    gold = _gold(random.Random(5))
    started = time.process_time()
    scanner = Scanner([f"d_{i}" for i in range(DATABASES)], WORDS, gold)
    built = time.process_time() - started
    keys = [f"k{number}-{turn}" for number in range(CONVERSATIONS) for turn in range(TURNS)]
    started = time.process_time()
    assert scanner.scan_calls(ledger, keys) == []
    after = time.process_time() - started

    draw = random.Random(7)
    texts = ["select one of: " + "\n".join(_row(draw, i) for i in range(ROWS)) for _ in range(COMPARED)]
    flats = [squeezed(sql) for sql, _ in gold.values()]
    started = time.process_time()
    assert not any(linear(text, flats) for text in texts)
    a_message = (time.process_time() - started) / COMPARED
    started = time.process_time()
    assert not any(scanner.scan(text, Audience.ROUTER) for text in texts)
    now = (time.process_time() - started) / COMPARED
    print(
        f"\n{len(keys)} calls, {UNITS} units: scan {after:.2f} s CPU, scanner built in {built:.2f} s; one message of "
        f"{len(texts[0])} characters: {1000 * a_message:.1f} ms by linear search, {1000 * now:.2f} ms by windows"
    )
    assert after < 10
    assert now < a_message / 5
