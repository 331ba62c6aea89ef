"""Bad input on the command line: one sentence naming the thing, the expected, the found, the remedy, and the right exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import TFIDF, Said
from corpora_support import ORCHARD, write_json, write_spider, write_sqlite

Command = Callable[..., Said]


def refused(said: Said, code: int, *parts: str) -> str:
    """The command ended with `code` and one sentence, on stderr and in the JSON, that holds all `parts`."""
    assert said.code == code, said
    assert "Traceback" not in said.err
    assert len(said.out.splitlines()) == 1, said.out
    message = str(said.json["error"])
    assert said.json["status"] == "failed"
    assert message in said.err
    assert "\n" not in message
    assert message.rstrip().endswith(".")
    for part in parts:
        assert part in message, f"{part!r} is not in {message!r}"
    return message


def test_bad_usage_is_told_before_anything_heavy_is_imported() -> None:
    program = (
        "import sys; from flows.cli import main; sys.argv[1:] = ['run', '--release', '/nowhere']\n"
        "try: main()\nfinally: print('prefect' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (2, "False\n"), done.stderr


# ---- corpora ----


@pytest.mark.parametrize("option", ["--spider", "--bird", "--livesqlbench"])
def test_an_unknown_corpus_path(dsabench: Command, tmp_path: Path, option: str) -> None:
    said = dsabench("build", option, str(tmp_path / "nowhere"), "--out", str(tmp_path / "out"), "--json")
    refused(said, 2, option, str(tmp_path / "nowhere"), "expected", "datasets/README.md")
    assert not (tmp_path / "out").exists()


def test_a_folder_without_the_layout(dsabench: Command, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    said = dsabench("build", "--spider", str(tmp_path / "empty"), "--out", str(tmp_path / "out"), "--json")
    refused(said, 2, str(tmp_path / "empty"), "expected", "found", "datasets/spider.md")


def test_a_truncated_database(dsabench: Command, tmp_path: Path) -> None:
    root = write_spider(tmp_path / "spider")
    file = root / "database/orchard/orchard.sqlite"
    file.write_bytes(file.read_bytes()[:5000])
    said = dsabench("build", "--spider", str(root), "--out", str(tmp_path / "out"), "--json")
    refused(said, 2, str(file), "expected", "found")
    assert not (tmp_path / "out").exists()


def test_questions_naming_a_missing_database(dsabench: Command, tmp_path: Path) -> None:
    root = write_spider(tmp_path / "spider")
    write_json(root / "dev.json", [{"db_id": "shipyard", "question": "How many?", "query": "SELECT 1"}])
    said = dsabench("build", "--spider", str(root), "--out", str(tmp_path / "out"), "--json")
    refused(said, 2, "shipyard", "dev.json", "expected", "found")


def test_a_build_without_any_corpus(dsabench: Command, tmp_path: Path) -> None:
    refused(dsabench("build", "--out", str(tmp_path / "out"), "--json"), 2, "--spider", "expected")


# ---- backends ----


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("{", ("invalid JSON",)),
        ("openai/x", ("invalid JSON",)),
        ('["openai/x"]', ("object",)),
        ('{"name": "x"}', ("model", "field required")),
        ('{"model": "openai/x"}', ("name", "field required")),
        ('{"name": "x", "model": "openai/x", "kontext": 5}', ("kontext", "not permitted")),
        ('{"name": "x", "model": "openai/x", "concurrency": "4"}', ("concurrency", "integer")),
        ('{"name": "x", "model": "openai/x", "temperature": true}', ("temperature", "number")),
        ('{"name": "a.b", "model": "openai/x"}', ("name", "pattern")),
    ],
)
@pytest.mark.parametrize("command", ["run", "factorial", "routing-study"])
def test_a_malformed_backend(dsabench: Command, command: str, text: str, parts: tuple[str, ...]) -> None:
    refused(dsabench(command, "--backend", text, "--json"), 2, "--backend", text, "expected", *parts)


@pytest.mark.parametrize("fields", [{"api_key": "sk-word"}, {"extra": {"api_key": "sk-word"}}])
def test_a_key_in_clear(dsabench: Command, tmp_path: Path, fields: dict[str, object]) -> None:
    entry = {"name": "x", "model": "openai/x", **fields}
    (tmp_path / "backends.yaml").write_text(json.dumps([entry]), "utf-8")
    for given in (("--backend", json.dumps(entry)), ("--backends", str(tmp_path / "backends.yaml"))):
        said = dsabench("routing-study", *given, "--json")
        refused(said, 2, "--backend", "api_key", "expected none", "environment variable")
        assert "sk-word" not in said.out + said.err


def test_a_value_that_json_does_not_know(dsabench: Command, tmp_path: Path) -> None:
    file = tmp_path / "backends.yaml"
    file.write_text("[{name: x, model: openai/x, extra: {since: 2026-01-01}}]", "utf-8")
    refused(dsabench("routing-study", "--backends", str(file), "--json"), 2, f"{file}, entry 1", "date", "expected")


def test_two_backends_of_one_name(dsabench: Command) -> None:
    text = json.dumps(TFIDF)
    refused(dsabench("run", "--backend", text, "--backend", text, "--json"), 2, "offline-tfidf", "expected", "rename")


def test_a_malformed_judge(dsabench: Command) -> None:
    refused(dsabench("run", "--judge", '{"name": "x"}', "--json"), 2, '{"name": "x"}', "model", "expected")


# ---- releases and runs ----


@pytest.mark.parametrize("command", ["run", "factorial", "routing-study", "audit"])
def test_a_missing_release(dsabench: Command, tmp_path: Path, command: str) -> None:
    refused(dsabench(command, "--release", str(tmp_path / "gone"), "--json"), 2, "--release", "gone", "expected")


@pytest.mark.parametrize("option", ["--backend", "--judge"])
def test_an_offline_policy_that_there_is_not(
    dsabench: Command, embedded: Path, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.cli_support._server", lambda: pytest.fail("a server was started for no policy"))
    spec = '{"name": "x", "model": "offline/nosuch"}'
    refused(dsabench("run", "--release", str(embedded), option, spec, "--json"), 2, "offline/nosuch", "offline/tfidf")
    refused(
        dsabench("run", "--release", str(embedded), option, spec, "--dry-run", "--json"), 2, "offline/nosuch", "mend"
    )


def test_a_package_that_is_not_there(dsabench: Command, tmp_path: Path) -> None:
    refused(dsabench("check", str(tmp_path / "gone"), "--json"), 2, "gone is not a folder", "dsabench publish")


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/api", "127.0.0.1/api", "no url"])
def test_a_prefect_server_that_is_away(
    dsabench: Command, embedded: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", url)
    refused(dsabench("run", "--release", str(embedded), "--json"), 2, url, "expected a running one", "unset")


@pytest.mark.parametrize("command", ["run", "factorial", "routing-study", "audit"])
def test_a_folder_that_is_no_release(
    dsabench: Command, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.cli_support._server", lambda: pytest.fail("a server was started for no release"))
    refused(dsabench(command, "--release", str(tmp_path), "--json"), 2, str(tmp_path), "manifest.json", "build")


@pytest.mark.parametrize("command", [("verify",), ("report",), ("cell", "--cell", "a.direct.adapter.llm.never.full")])
def test_an_unknown_run(dsabench: Command, command: tuple[str, ...]) -> None:
    said = dsabench(*command, "--run", "run-0123456789ab", "--json")
    refused(said, 2, "run-0123456789ab", "expected", "known runs")


def test_what_cannot_be_used_is_told_before_a_flow_is_started(
    dsabench: Command, embedded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("cli", "cli_routes", "cli_build"):
        monkeypatch.setattr(f"flows.{module}.run_flow", lambda work: pytest.fail("a flow was started for nothing"))
    gone, root = tmp_path / "gone.jsonl", write_spider(tmp_path / "spider")
    broken = tmp_path / "broken.jsonl"
    broken.write_text("{", "utf-8")
    score = ("score", "--release", str(embedded), "--json")
    refused(dsabench(*score, "--routes", str(gone)), 2, str(gone), "expected")
    said = dsabench(*score, "--routes", str(broken))  # a line of its own for every fault of a file
    assert said.code == 2
    assert "line 1: no JSON object" in str(said.json["error"])
    refused(dsabench(*score), 2, "nothing is to be scored", "--routes")
    refused(dsabench("build", "--spider", str(root), "--out", str(root), "--json"), 2, f"{root} exists", "new folder")
    for option in ("--run", "--against"):
        refused(dsabench("report", option, "run-0123456789ab", "--json"), 2, "run-0123456789ab", "known runs")


@pytest.mark.parametrize("command", ["verify", "report"])
def test_no_run_yet(dsabench: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("DSABENCH_HOME", str(tmp_path))
    refused(dsabench(command, "--json"), 2, str(tmp_path), "expected", "dsabench run")


def test_a_command_that_is_none(dsabench: Command) -> None:
    assert dsabench("rum").code == 2
    assert dsabench("run", "--tasks", "-1").code == 2
    assert dsabench("run", "--tasks", "x").code == 2
    assert dsabench("build", "--profile", "big", "--out", "x").code == 2


# ---- one pair, one statement ----


@pytest.fixture
def orchard(tmp_path: Path) -> str:
    return str(write_sqlite(tmp_path / "orchard.sqlite", ORCHARD))


def test_compare(dsabench: Command, orchard: str) -> None:
    def verdict(gold: str, predicted: str) -> str:
        said = dsabench(
            "compare", "--corpus", "spider", "--database", orchard, "--gold", gold, "--predicted", predicted, "--json"
        )
        assert said.code == 0, said
        assert {"verdict", "rule", "comparator_version", "ordered", "seconds"} <= set(said.json)
        return str(said.json["verdict"])

    assert verdict("SELECT sort FROM tree", "SELECT sort FROM tree ORDER BY tree_no DESC") == "correct"
    assert verdict("SELECT sort FROM tree", "SELECT tree_no FROM tree") == "mismatch"
    assert verdict("SELECT sort FROM tree", "SELECT bark FROM tree") == "execution_error"
    assert verdict("SELECT sort FROM tree", "DROP TABLE tree") == "refused_sql"
    pair = ("--gold", "SELECT sort FROM tree", "--predicted", "SELECT bark FROM tree")
    said = dsabench("compare", "--corpus", "spider", "--database", orchard, *pair)
    assert said.out.strip() == "execution_error: no such column: bark"


def test_compare_refuses_what_it_cannot_judge(dsabench: Command, orchard: str, tmp_path: Path) -> None:
    def said(database: str, gold: str) -> Said:
        return dsabench(
            "compare", "--corpus", "spider", "--database", database, "--gold", gold, "--predicted", "SELECT 1", "--json"
        )

    gone = str(tmp_path / "gone.sqlite")
    refused(said(gone, "SELECT 1"), 1, gone)
    (tmp_path / "torn.sqlite").write_bytes(Path(orchard).read_bytes()[:3000])
    refused(said(str(tmp_path / "torn.sqlite"), "SELECT * FROM tree"), 1, "torn.sqlite")
    message = refused(said(orchard, "SELECT bark FROM tree"), 2, "gold", "bark")
    assert "repair" in message
    assert dsabench("compare", "--corpus", "spyder", "--database", orchard, "--gold", "x", "--predicted", "y").code == 2


def test_check_sql(dsabench: Command, orchard: str) -> None:
    def check(sql: str, *more: str) -> dict[str, object]:
        said = dsabench("check-sql", "--corpus", "spider", "--sql", sql, *more, "--json")
        assert said.code == 0, said
        return said.json

    assert check("SELECT 1")["allowed"] is True
    assert check("SELECT sort FROM tree", "--database", orchard)["allowed"] is True
    refusal = check("DROP TABLE tree")
    assert refusal["allowed"] is False
    assert "DROP" in str(refusal["reason"])
    assert check("SELECT 1; SELECT 2")["allowed"] is False
    assert "bark" in str(check("SELECT bark FROM tree", "--database", orchard)["reason"])
    gone = dsabench("check-sql", "--corpus", "spider", "--sql", "SELECT 1", "--database", orchard + "x", "--json")
    refused(gone, 1, orchard + "x")


# ---- runs ----


def test_a_dry_run_says_what_would_run_and_runs_nothing(dsabench: Command, embedded: Path) -> None:
    from tasks_lib.store.ledgers import Ledger

    def items() -> tuple[int, int]:
        ledger = Ledger()
        try:
            return ledger.count("model_call"), ledger.count("sql_execution")
        finally:
            ledger.close()

    backend = json.dumps({**TFIDF, "name": "never-run", "max_tokens": 77})
    before = items()
    said = dsabench("run", "--release", str(embedded), "--tasks", "3", "--backend", backend, "--dry-run", "--json")
    assert said.code == 0, said
    plan = said.json["backends"]["never-run"]
    assert said.json["status"] == "dry_run"
    assert said.json["cells"] == plan["cells"] == 72
    assert plan["cells_done"] == plan["layers"]["done"] == 0
    assert plan["model_calls_at_most"] > 0
    assert items() == before
    assert not (Path(embedded).parents[1] / "runs" / said.json["run"]).exists()


@pytest.mark.timeout(400)
def test_an_unreachable_backend_costs_only_its_own_cells(
    dsabench: Command, embedded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSABENCH_STORE_URL", str(tmp_path / "store"))
    monkeypatch.setenv("DSABENCH_LEDGER_URL", f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    unreachable = {"name": "x", "model": "openai/x", "api_base": "http://127.0.0.1:1", "deadline_seconds": 5.0}
    arguments = ("factorial", "--release", str(embedded), "--tasks", "2", "--json")
    both = (*arguments, "--backend", json.dumps(TFIDF), "--backend", json.dumps(unreachable))
    said = dsabench(*both)
    assert said.code == 1, said
    assert said.json["status"] == "incomplete"
    assert said.json["cells"] == 72
    assert "72 of 144 cells are not complete" in said.json["reason"]
    assert "127.0.0.1:1" in said.json["reason"]
    assert "Traceback" not in said.err
    # What was computed stays: the offline backend alone finds everything done.
    alone = dsabench(*arguments, "--backend", json.dumps(TFIDF))
    assert (alone.code, alone.json["status"], alone.json["cells"]) == (0, "completed", 72)
    assert (alone.json["model_calls_made"], alone.json["sql_executions_made"]) == (0, 0)
