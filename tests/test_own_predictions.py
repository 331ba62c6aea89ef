"""Predictions of an agent that ran elsewhere: files are checked by name, and scored as our own routes and the `gold` diagnostic are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import TFIDF, Said

from flows.score import table_text
from tasks_lib.evaluation.diagnostics import GOLD, GoldWriter, expected, gold_layers
from tasks_lib.evaluation.drive import Driver, attempts_of
from tasks_lib.evaluation.gold import Gold
from tasks_lib.evaluation.inputs import Inputs, load
from tasks_lib.evaluation.predictions import FORMATS, PredictionsRefused, RouteLine, read_lines, route_line, schema
from tasks_lib.protocol.vocabulary import DataAgent, Planner, QueryMode
from tasks_lib.routing.layer import initial_routes
from tasks_lib.scoring.routing_tables import routing_tables
from tasks_lib.scoring.targets import episodes_of
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.jobs import JobContext
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.schemas import ROUTES, ROUTING_METRICS
from tasks_lib.store.settings import PROJECT_ROOT, settings

pytestmark = pytest.mark.timeout(300)
Command = Callable[..., Said]
Lines = list[dict[str, Any]]


def write(path: Path, lines: Lines) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return str(path)


async def gold_sql(inputs: Inputs, layers: dict[str, Lines]) -> Lines:
    """What `gold` writes for every route, placeholders included, as an SQL file."""
    requests = {t: task.request for t, task in inputs.tasks.items()}
    names = ("routes", "asks", "releases", "plans")
    attempts = attempts_of(inputs.contracts.values(), requests, *(layers[n] for n in names))
    ledger = Ledger(settings().resolved_ledger_url, run="gold-export")
    async with SqlRunner(ledger) as runner:
        gold = Gold(inputs.gold_units, inputs.handles, runner)
        driver = Driver(gold, runner, GoldWriter(inputs.contracts.values()))
        rows = await driver.contributions(GOLD, "direct", DataAgent.TEXT_TO_SQL, attempts)
    ledger.close()
    found = {
        (r["task_id"], r["branch_id"] if r["state"] == "clarified" else "", r["database_id"]): r["sql"]
        for r in rows
        if r["planner"] == Planner.LLM and r["query_mode"] == QueryMode.PRIVILEGED and r["kind"] != "not_selected"
    }
    return [
        {"format": "dsabench-sql@1", "task_id": t, "branch_id": b, "database_id": d, "sql": s}
        for (t, b, d), s in sorted(found.items())
    ]


@pytest.fixture(scope="module")
def gold_files(embedded: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("gold")
    inputs = load(str(embedded))
    layers = gold_layers("direct", inputs.contracts.values())
    asked = {row["task_id"]: row["question"] for row in layers["asks"]}
    asks = [
        {"format": "dsabench-asks@1", "task_id": t, "ask": t in asked, "question": asked.get(t, "")}
        for t in inputs.tasks
    ]
    return {
        "routes": write(folder / "r.jsonl", [route_line(r).model_dump(mode="json") for r in layers["routes"]]),
        "first": write(
            folder / "f.jsonl", [route_line(r).model_dump(mode="json") for r in layers["routes"] if not r["branch_id"]]
        ),
        "asks": write(folder / "a.jsonl", asks),
        "sql": write(folder / "s.jsonl", asyncio.run(gold_sql(inputs, layers))),
    }


def test_gold_handed_in_scores_what_gold_must(embedded: Path, gold_files: dict[str, str], dsabench: Command) -> None:
    """PROTOCOL 16: exactly 1 in Once, exactly half an interactive task under Never, under its own plan and the oracle's."""
    options = [x for kind in ("routes", "asks", "sql") for x in (f"--{kind}", gold_files[kind])]
    said = dsabench("score", "--release", str(embedded), *options, "--name", "gold-copy", "--json")
    assert said.code == 0, said
    contracts = list(load(str(embedded)).contracts.values())
    cells = said.json["cells"]
    assert set(cells) == {f"gold-copy.own.own.{p}.{i}.own" for p in ("own", "oracle") for i in ("never", "once")}
    for cell_id, values in cells.items():
        for metric, value in expected(GOLD, cell_id.split(".")[4], contracts).items():
            assert values[metric] == value, (cell_id, metric)
    assert said.json["invalid_routes"] == 0
    assert (said.json["needless_asks"], said.json["asked"] > 0) == (0, True)
    assert {values["Needless-Ask-Rate"] for values in said.json["cells"].values()} == {0.0}
    text = table_text(said.json)
    assert "R+E-Graph" in text
    assert "100.00 [100.00, 100.00]" in text


def test_answers_are_released_before_routes_exist(
    embedded: Path, gold_files: dict[str, str], dsabench: Command, tmp_path: Path
) -> None:
    """A question about an ordinary task is counted as needless and answered with nothing."""
    out, contracts = tmp_path / "answers.jsonl", load(str(embedded)).contracts
    asks = [json.loads(line) for line in Path(gold_files["asks"]).read_text("utf-8").splitlines()]
    next(line for line in asks if not contracts[line["task_id"]].branches).update(
        ask=True, question="Which one is meant?"
    )
    handed = write(tmp_path / "asks.jsonl", asks)
    said = dsabench("score", "--release", str(embedded), "--asks", handed, "--answers", str(out), "--json")
    assert said.code == 0, said
    assert said.json["needless_asks"] == 1
    want = {(t, b.branch_id): b.answer for t, c in contracts.items() for b in c.branches}
    lines = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert {(x["task_id"], x["branch_id"]): x["answer"] for x in lines} == want
    assert said.json["released_branches"] == len(want)
    assert "routing" not in said.json


def test_our_own_routes_score_the_same_from_a_file(embedded: Path, dsabench: Command, tmp_path: Path) -> None:
    inputs, store = load(str(embedded)), ArtifactStore(settings().resolved_store_url)
    ledger = Ledger(settings().resolved_ledger_url, run="own-routes")
    rows = asyncio.run(
        initial_routes(JobContext(store, ledger), f"{embedded}/public", TFIDF, "direct", sorted(inputs.tasks), 0)
    )
    ledger.close()
    store.write(ROUTES, "ours", rows)
    targets = episodes_of(inputs.contracts.values())
    ours = routing_tables(store, {("offline-tfidf", "direct"): "ours"}, targets, 50, 1, inputs.release.digest)
    want = store.read(ROUTING_METRICS, ours.metrics).drop("router", "backend")
    lines = [route_line(row).model_dump(mode="json") for row in rows]
    parquet = tmp_path / "r.parquet"
    pq.write_table(pa.Table.from_pylist(lines), parquet)
    for file in (write(tmp_path / "r.jsonl", lines), str(parquet)):
        said = dsabench("score", "--release", str(embedded), "--routes", file, "--json")
        assert said.code == 0, said
        got = store.read(ROUTING_METRICS, said.json["artifacts"]["routing_metrics"]).drop("router", "backend")
        assert got.equals(want), file


def test_missing_unknown_and_double_keys_are_named(
    embedded: Path, gold_files: dict[str, str], dsabench: Command, tmp_path: Path
) -> None:
    """Known fault C12: rows are joined by key; a key too few, too many or twice is an error and never a row elsewhere."""

    def refused(*options: str) -> str:
        said = dsabench("score", "--release", str(embedded), *options)
        assert said.code == 2, said
        return said.err

    lines = [json.loads(line) for line in Path(gold_files["first"]).read_text("utf-8").splitlines()]
    first, rest = lines[0], lines[1:]
    key = f"('{first['task_id']}', '')"
    said = refused("--routes", write(tmp_path / "missing.jsonl", rest))
    assert f"key {key} is missing" in said
    stranger = {**first, "task_id": "task_nobody"}
    assert "key ('task_nobody', '') is unknown" in refused("--routes", write(tmp_path / "un.jsonl", [*lines, stranger]))
    twice = refused("--routes", write(tmp_path / "twice.jsonl", [*lines, first]))
    assert f"line {len(lines) + 1}: key {key} stands already in line 1" in twice
    assert "none with a branch" in refused("--routes", gold_files["routes"])
    queries = [json.loads(line) for line in Path(gold_files["sql"]).read_text("utf-8").splitlines()]
    ordinary = [q for q in queries if not q["branch_id"]]
    cut = refused("--routes", gold_files["first"], "--sql", write(tmp_path / "s.jsonl", ordinary[1:]))
    assert f"'{ordinary[0]['database_id']}') is missing" in cut
    many = refused("--routes", write(tmp_path / "none.jsonl", []))
    assert many.count(" is missing") == 20
    assert "more faults are not listed" in many


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "line 2: no JSON object"),
        ("[1]", "line 2: the record: input should be a valid dictionary"),
        (
            '{"format": "dsabench-routes@2", "task_id": "t", "plan": null}',
            "line 2: format: input should be 'dsabench-routes@1'",
        ),
        ('{"format": "dsabench-routes@1", "task_id": "t"}', "line 2: plan: field required"),
        (
            '{"format": "dsabench-routes@1", "task_id": 7, "plan": null}',
            "line 2: task_id: input should be a valid string",
        ),
        ('{"format": "dsabench-routes@1", "task_id": "t", "plan": null, "gold": 1}', "line 2: gold: extra inputs"),
        (
            '{"format": "dsabench-routes@1", "task_id": "t", "task_id": "u", "plan": null}',
            "line 2: .*'task_id' stands twice",
        ),
        (
            '{"format": "dsabench-routes@1", "task_id": "t", "plan": {"confidence": NaN}}',
            "line 2: .*NaN is no JSON number",
        ),
        ("\udcff", "line 2: no JSON object"),
    ],
)
def test_broken_lines_are_named_by_number(tmp_path: Path, line: str, reason: str) -> None:
    file = tmp_path / "r.jsonl"
    good = '{"format": "dsabench-routes@1", "task_id": "a", "plan": null}'
    file.write_bytes(f"{good}\n{line}\n".encode("utf-8", "surrogateescape"))
    with pytest.raises(PredictionsRefused, match=reason):
        read_lines(file, RouteLine)


def test_a_faulty_plan_is_an_empty_prediction_with_its_reason(
    embedded: Path, gold_files: dict[str, str], dsabench: Command, tmp_path: Path
) -> None:
    """Shape and allowlist as in PROTOCOL 7; evidence may be left out or be of another place."""
    lines = [json.loads(line) for line in Path(gold_files["first"]).read_text("utf-8").splitlines()]
    for line in lines:
        line["plan"].pop("evidence_ids")
    lines[0]["plan"]["evidence_ids"] = ["seen elsewhere"]
    lines[1]["plan"]["selected_databases"] = ["db_nowhere"]
    lines[2]["plan"]["extra"] = 1
    lines[3]["plan"] = None
    said = dsabench("score", "--release", str(embedded), "--routes", write(tmp_path / "r.jsonl", lines), "--json")
    assert said.code == 0, said
    assert said.json["invalid_routes"] == 3
    assert sorted(x.split(": ", 1)[1] for x in said.json["invalid_examples"]) == [
        "selected_databases[0] is not in the candidate allowlist.",
        "the agent gave no route.",
        "the plan has a key that the plan shape does not have; use exactly its keys.",
    ]
    assert said.json["routing"]["Valid"] == 1 - 3 / len(lines)


def test_the_published_schemas_are_the_ones_in_force(dsabench: Command) -> None:
    """`python -m tasks_lib.evaluation.predictions` writes them anew."""
    printed = dsabench("score", "--schema", "--json").json
    for kind in FORMATS:
        file = PROJECT_ROOT / "tasks_lib" / "evaluation" / "formats" / f"{kind}.schema.json"
        assert json.loads(file.read_text("utf-8")) == schema(kind) == printed[kind]
