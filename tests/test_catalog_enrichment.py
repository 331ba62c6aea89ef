"""A language model may add a paragraph to the card of a database: from public facts alone, checked, cached, and named as its writer."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from catalog_support import ferries
from contracts_support import make_source
from servers import Stub, model_server

from tasks_lib.catalog import routedb
from tasks_lib.catalog.enrichment import MOST, enrich, fault
from tasks_lib.catalog.identities import Identities
from tasks_lib.catalog.wording import Hider
from tasks_lib.contracts.building import build
from tasks_lib.contracts.profiles import Allowlist, Profile
from tasks_lib.corpora.units import audit
from tasks_lib.models.backends import BackendSpec, offline_backends
from tasks_lib.models.chat import BackendMisconfigured
from tasks_lib.models.client import open_model
from tasks_lib.protocol.vocabulary import Behavior, Corpus
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.artifacts import conform
from tasks_lib.store.keys import sha256_file
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.schemas import TABLES

Rows = dict[str, list[dict[str, Any]]]
GOOD = "Ferries: where they sail from and when. It counts 40 sailings by harbour."
NAMES = ("ferry_lines_1", "coast_2")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSABENCH_HOME", str(tmp_path / "home"))


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    return routedb.build([ferries(tmp_path, name) for name in NAMES], Identities(b"salt"))


async def asked(tmp_path: Path, said: str, *several: Rows) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Enrich each catalog in turn: (databases of the last one left without a paragraph, all requests that arrived)."""

    def behave(stub: Stub, body: dict[str, Any]) -> None:
        stub.answer(said)

    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.sqlite")
    with model_server(behave) as server:
        spec = BackendSpec(name="writer", model="hosted_vllm/stub", api_base=server.url)
        for rows in several:
            left = await enrich(rows, open_model(spec, ledger, "no key"), NAMES)
        return left, list(server.requests)


async def test_a_paragraph_joins_the_card_and_changes_nothing_else(tmp_path: Path, rows: Rows) -> None:
    before = copy.deepcopy(rows)
    left, requests = await asked(tmp_path, GOOD, rows)
    assert (left, len(requests)) == ({}, 2)
    told = [card for card in rows["cat_cards"] if card["text"] == GOOD]
    assert {card["object_id"] for card in told} == {row["database_id"] for row in rows["cat_databases"]}
    assert [card for card in rows["cat_cards"] if card not in told] == before["cat_cards"]
    assert conform(TABLES["cat_cards"], rows["cat_cards"]).num_rows == len(before["cat_cards"]) + 2
    for row, old in zip(rows["cat_databases"], before["cat_databases"], strict=True):
        assert row["provenance"].startswith(old["provenance"])
        assert "written by writer" in row["provenance"]
        assert {**row, "provenance": ""} == {**old, "provenance": ""}
    for name in set(before) - {"cat_cards", "cat_databases"}:
        assert rows[name] == before[name]


async def test_the_model_sees_public_facts_only_and_is_asked_once(tmp_path: Path, rows: Rows) -> None:
    again = copy.deepcopy(rows)
    _, requests = await asked(tmp_path, GOOD, rows, again)
    sent = json.dumps([request["messages"] for request in requests])
    assert "number of sailing records for each harbour" in sent
    assert not any(name in sent for name in NAMES)
    assert ".sqlite" not in sent
    assert (len(requests), again) == (2, rows)


async def test_what_fails_the_checks_is_asked_for_anew_then_left_out(tmp_path: Path, rows: Rows) -> None:
    before = copy.deepcopy(rows)
    left, requests = await asked(tmp_path, "All about ferry_lines_1.", rows)
    assert len(requests) == 6
    assert "not accepted: It holds an identifier" in requests[-1]["messages"][-1]["content"]
    assert set(left) == {row["database_id"] for row in rows["cat_databases"]}
    assert rows == before


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (GOOD, ""),
        ("", "empty"),
        ("One.\nTwo.", "several lines"),
        ("word " * (MOST // 5 + 1), "characters"),
        ("See Coast_2 for this.", "identifier"),
        ("See db_0123456789ab.", "identifier"),
        ("It holds 41 sailings.", "number 41"),
    ],
)
def test_the_checks_of_a_paragraph(text: str, part: str) -> None:
    found = fault(text, "40 sailings", Hider(NAMES))
    assert (part in found) if part else found == ""


async def test_an_offline_policy_cannot_write(tmp_path: Path, rows: Rows) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.sqlite")
    with pytest.raises(BackendMisconfigured, match="expected a language model"):
        await enrich(rows, open_model(offline_backends()[0], ledger), NAMES)


async def test_a_build_with_a_backend_says_who_wrote_and_differs_in_cards_alone(tmp_path: Path) -> None:
    source = make_source(tmp_path / "corpus")
    profile = Profile(
        name="tiny",
        counts={Corpus.SPIDER: {Behavior.SINGLE: 1}},
        allowlist={Corpus.SPIDER: Allowlist(low=3, high=4, mean=3.5)},
        sizes={},
        max_unit_uses=3,
        max_theme_uses=3,
        attempts=5,
    )
    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.sqlite")
    lines: list[str] = []
    with model_server(lambda stub, body: stub.answer("What people did, and where.")) as server:
        writer = open_model(BackendSpec(name="writer", model="hosted_vllm/stub", api_base=server.url), ledger, "no key")
        async with SqlRunner(ledger) as runner:
            units = {Corpus.SPIDER: await audit(source, runner)}
            await build([source], units, profile, 1, tmp_path / "plain", runner)
            await build([source], units, profile, 1, tmp_path / "told", runner, say=lines.append, enricher=writer)
        assert len(server.requests) == len(source.databases)
    assert any(line.startswith(f"writer wrote of {len(source.databases)} databases; 0 have") for line in lines)
    plain, told = (
        {f.name: sha256_file(f) for f in (tmp_path / n / "public/catalog").iterdir()} for n in ("plain", "told")
    )
    assert {name for name in plain if plain[name] != told[name]} == {"cat_cards.parquet", "cat_databases.parquet"}
