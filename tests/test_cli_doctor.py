"""`dsabench doctor` says what is there, what is missing, how to get it, and tells no secret."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Said
from corpora_support import write_spider

from flows import doctor
from flows.doctor import Finding, State
from flows.doctor_data import dataset
from tasks_lib.models.backends import BackendSpec
from tasks_lib.protocol.vocabulary import Corpus


def test_one_line_each_and_the_same_in_json(
    dsabench: Callable[..., Said], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "MEMORY_BYTES", 0)  # of the machine that tests run on
    monkeypatch.setattr(doctor, "DISK_BYTES", 0)
    root = write_spider(tmp_path / "spider")
    said = dsabench("doctor", "--spider", str(root), "--json")
    checks = {check["name"]: check for check in said.json["checks"]}
    assert list(checks) == (
        [
            "python",
            "packages",
            "minilm",
            "sqlite",
            "postgresql",
            "store",
            "ledger",
            "prefect",
            "disk",
            "memory",
            "chromium",
            "scale",
            "spider",
        ]
    )
    wrong = {name: check for name, check in checks.items() if check["needed"] and check["state"] != "ok"}
    assert (said.code, said.json["status"], wrong) == (0, "completed", {})
    assert "reads and cannot write" in checks["postgresql"]["found"]
    # What is missing comes with its remedy, and a thing that nothing needs does not fail the whole.
    (root / "dev.json").unlink()
    said = dsabench("doctor", "--spider", str(root))
    last = said.out.splitlines()[-1]
    assert (said.code, len(said.out.splitlines())) == (1, len(checks))
    assert last.startswith("wrong   spider")
    assert "dev.json" in last
    assert "-> lay it out as datasets/spider.md says" in last


def test_packages_are_held_to_their_pins() -> None:
    assert doctor.packages(["typer==0.0.1", "no-such-package==1.0", 'ruff==1; extra == "dev"']).state is State.MISSING
    found = doctor.packages(["typer==0.0.1"])
    assert (found.state, found.remedy) == (State.WRONG, doctor.MAKE_VENV)
    assert "instead of 0.0.1" in found.found


def test_places_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DSABENCH_STORE_URL", str(tmp_path / "file" / "store"))
    monkeypatch.setenv("DSABENCH_LEDGER_URL", f"sqlite:///{tmp_path / 'file' / 'ledger.sqlite'}")
    assert doctor.store().state is State.WRONG
    assert doctor.ledger().state is State.WRONG
    monkeypatch.setenv("DSABENCH_LEDGER_URL", "postgresql+psycopg://me:sesame@127.0.0.1:1/ledger")
    found = doctor.ledger()
    assert found.state is State.WRONG
    assert "sesame" not in str(found)


def test_what_is_written_is_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSABENCH_STORE_URL", str(tmp_path / "store"))
    monkeypatch.setenv("DSABENCH_LEDGER_URL", f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    assert (doctor.store().state, doctor.ledger().state) == (State.OK, State.OK)
    assert list((tmp_path / "store").iterdir()) == []
    from tasks_lib.store.ledgers import Ledger

    opened = Ledger()
    try:
        assert opened.acquire("a" * 64, "doctor") is not None
        with opened.engine.connect() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM items").scalar() == 1, "only ours"
    finally:
        opened.close()


def test_servers_that_do_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSABENCH_POSTGRES_URL", "postgresql://me:sesame@127.0.0.1:1/postgres")
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:1/api")
    for found in (doctor.postgres(), doctor.prefect_api()):
        assert found.state is State.WRONG
        assert found.remedy
        assert "sesame" not in str(found)


@pytest.mark.parametrize("corpus", list(Corpus))
def test_datasets_by_layout(corpus: Corpus, tmp_path: Path) -> None:
    assert dataset(corpus, tmp_path / "nowhere").state is State.MISSING
    (tmp_path / "empty").mkdir()
    found = dataset(corpus, tmp_path / "empty")
    assert (found.state, found.bad) == (State.WRONG, True)
    assert f"datasets/{corpus}.md" in found.remedy


def test_a_database_without_its_file_is_named(tmp_path: Path) -> None:
    root = write_spider(tmp_path / "spider")
    assert dataset(Corpus.SPIDER, root).state is State.OK
    file = root / "database" / "orchard" / "orchard.sqlite"
    file.unlink()
    found = dataset(Corpus.SPIDER, root)
    assert found.state is State.WRONG
    assert str(file) in found.found


def test_keys_by_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    spec = BackendSpec(name="mine", model="openai/some-model")
    absent = doctor.keys(spec)
    assert (absent.state, absent.found) == (State.MISSING, "OPENAI_API_KEY is not set")
    monkeypatch.setenv("OPENAI_API_KEY", "sesame")
    there = doctor.keys(spec)
    assert there.state is State.OK
    assert "sesame" not in json.dumps([str(there)])
    assert doctor.keys(BackendSpec(name="off", model="offline/tfidf")) == Finding(
        "backend off", State.OK, "offline, no key"
    )
