"""The audit as a command: counted, cached by database, its page, and bad input told in one sentence with nothing else lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from conftest import Said
from corpora_support import (
    KENNEL_DUMP,
    ORCHARD,
    check_table,
    write_bird,
    write_json,
    write_lines,
    write_livesqlbench,
    write_spider,
    write_sqlite,
)

from tasks_lib.corpora import spider
from tasks_lib.corpora.units import audit
from tasks_lib.sql.execute import LEDGER_KIND, SqlRunner
from tasks_lib.store.keys import sha256_file
from tasks_lib.store.ledgers import Ledger

Command = Callable[..., Said]


async def test_only_a_changed_database_runs_again(tmp_path: Path) -> None:
    root = write_spider(tmp_path / "spider")
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")

    async def executions() -> int:
        before = ledger.count(LEDGER_KIND)
        async with SqlRunner(ledger) as runner:
            rows = await audit(spider.read(root), runner)
        check_table(rows)
        return ledger.count(LEDGER_KIND) - before

    # Four golds, and the two tie probes of the ordered one on harbour_1.
    assert await executions() == 6
    assert await executions() == 0
    orchard = root / "database/orchard/orchard.sqlite"
    orchard.unlink()
    write_sqlite(orchard, ORCHARD + "INSERT INTO tree VALUES (4, 'fig', 2013);")
    assert await executions() == 2, "the two golds on orchard, none on harbour_1"
    questions = json.loads((root / "dev.json").read_text("utf-8"))
    write_json(root / "dev.json", [*questions, {**questions[0], "query": "SELECT sort FROM tree WHERE tree_no = 1"}])
    assert await executions() == 1, "the new question alone"
    ledger.close()


async def test_texts_are_read_the_same_in_other_processes(tmp_path: Path) -> None:
    source = spider.read(write_spider(tmp_path / "spider"))
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    async with SqlRunner(ledger) as runner:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
            assert await audit(source, runner, executor=executor) == await audit(source, runner)
    ledger.close()


def test_the_page_counts_and_marks(dsabench: Command, tmp_path: Path) -> None:
    root = write_bird(tmp_path / "bird")
    write_json(root / "ORIGIN.json", {"orchard": "replica", "harbour_1": "original"})
    page = tmp_path / "page.html"
    command = ("units", "--spider", str(write_spider(tmp_path / "spider")), "--bird", str(root), "--out", str(page))
    said = dsabench(*command, "--json")
    assert said.code == 0, said
    assert (said.json["units"], said.json["usable"], said.json["flags"]["dqs_literal"]) == (6, 6, 1)
    found = said.json["by_corpus"]["bird"]
    assert (found["units"], found["databases"], found["origins"]) == (2, 2, {"original": 1, "replica": 1})
    assert said.json["page"] == str(page)
    html = page.read_text("utf-8")
    assert html.count("not BIRD results") == 2, "above all, and at the replica"
    assert "1 replica of the 2 databases of bird" in html
    assert "limit_cuts_tie" in html
    assert "http" not in html.replace('http-equiv="Content', "")
    assert "How many" not in html, "no question stands on the page"
    first = page.read_bytes()
    assert dsabench(*command).code == 0
    assert page.read_bytes() == first


# ---- bad input ----


def refused(said: Said, code: int, *parts: str) -> None:
    assert said.code == code, said
    assert "Traceback" not in said.err
    message = str(said.json["error"])
    assert "\n" not in message
    for part in parts:
        assert part in message, message


def test_bad_files(dsabench: Command, tmp_path: Path) -> None:
    root = write_spider(tmp_path / "spider")
    good = (root / "dev.json").read_text("utf-8")
    question = {"unit_id": "a", "db_id": "orchard", "question": "Trees?", "query": "SELECT 1"}
    for text, parts in (
        ('[\n {"db_id": "orchard",\n  "question": }\n]', ("dev.json", "broken JSON at line 3 column 15")),
        (json.dumps([{**question, "db_id": "shipyard"}]), ("dev.json", "index 0", "'shipyard'")),
        (json.dumps([question, question]), ("unit id 'spider:a' twice",)),
    ):
        (root / "dev.json").write_text(text, "utf-8")
        refused(dsabench("units", "--spider", str(root), "--json"), 2, *parts)
    (root / "dev.json").write_text(good, "utf-8")
    assert dsabench("units", "--spider", str(root), "--json").code == 0
    refused(dsabench("units", "--json"), 2, "no corpus was given", "--spider")
    refused(dsabench("units", "--spider", str(root), "--out", str(tmp_path), "--json"), 2, "is a folder")


@pytest.mark.parametrize("url", ["postgresql://nobody@127.0.0.1:1/none", "no url at all"])
def test_no_server(dsabench: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("DSABENCH_POSTGRES_URL", url)
    others = ("--spider", str(write_spider(tmp_path / "spider")), "--json")
    said = dsabench("units", "--livesqlbench", str(write_livesqlbench(tmp_path / "live")), *others)
    refused(said, 1, "DSABENCH_POSTGRES_URL", "unset")
    assert dsabench("units", *others).json["units"] == 4, "the other corpora need no server"


def test_a_dump_that_breaks_halfway_leaves_nothing(
    dsabench: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    from tasks_lib.sql.postgres import shared_server
    from tasks_lib.store.settings import settings

    monkeypatch.delenv("DSABENCH_POSTGRES_URL", raising=False)
    root = write_livesqlbench(tmp_path / "live")
    dump = root / "dumps/kennel_full.sql"
    dump.write_text(KENNEL_DUMP.replace("2\twhippet", "two\twhippet"), "utf-8")
    refused(dsabench("units", "--livesqlbench", str(root), "--json"), 1, "kennel_full.sql does not load", "bigint")
    server = shared_server("", settings().home / "postgres")
    with psycopg.connect(server._admin) as connection:
        names = [name for (name,) in connection.execute("SELECT datname FROM pg_database").fetchall()]
    assert not [name for name in names if sha256_file(dump)[:40] in name]
    refused(dsabench("units", "--livesqlbench", str(root), "--json"), 1, "kennel_full.sql does not load")
    dump.write_text(KENNEL_DUMP, "utf-8")
    write_lines(
        root / "units.jsonl",
        [{"unit_id": "u", "db_id": "kennel", "question": "Dogs?", "sql": 'SELECT dog_key FROM "Dogs"'}],
    )
    assert dsabench("units", "--livesqlbench", str(root), "--json").json["usable"] == 1
