"""The routing study end to end: a model that answers otherwise when asked again, repeats in the ledger, transcripts, progress."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import stdev
from typing import Any

import polars as pl
import pytest
from conftest import TFIDF, Said, SmallRun
from prefect.exceptions import ParameterTypeError
from servers import ModelServer, Stub, model_server

from flows.routing_study import routing_study, table_text
from tasks_lib.evaluation.inputs import load
from tasks_lib.models.backends import BackendSpec
from tasks_lib.protocol.records import Contract
from tasks_lib.protocol.vocabulary import Behavior
from tasks_lib.scoring.cells import ROUTING_STUDY_ROUTERS
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.schemas import (
    ROUTE_TURNS,
    ROUTING_EVENTS,
    ROUTING_PROBES,
    ROUTING_TABLE,
    ROUTING_TRIALS,
    ROUTING_USAGE,
    Table,
)
from tasks_lib.store.settings import settings

TASKS = 3


class Fickle:
    """Knows the answer the first time it is asked something, and never again. Its cache read 8 of 10 prompt tokens."""

    def __init__(self, release: Path) -> None:
        inputs = load(str(release))
        self.contracts: list[Contract] = [inputs.contracts[t] for t in sorted(inputs.contracts)[:TASKS]]
        self.tasks = inputs.tasks
        self.asked: Counter[str] = Counter()

    def __call__(self, stub: Stub, body: dict[str, Any]) -> None:
        said = json.dumps(body["messages"])
        contract = next(c for c in self.contracts if json.dumps(self.tasks[c.task_id].request)[1:-1] in said)
        again = self.asked[said]
        self.asked[said] += 1
        if len(body["messages"]) > 2:  # a second turn: its first route was refused
            stub.refuse(400, message="no more of this")
            return
        right = list(contract.databases[: 1 if contract.behavior is Behavior.INTERACTIVE else None])
        wrong = [d for d in self.tasks[contract.task_id].allowlist if d not in contract.databases][:1]
        chosen = wrong if again else right
        plan = {
            "selected_databases": chosen,
            "execution_plan": {
                "topology": "parallel",
                "nodes": [{"database_id": d, "information_request": "its part"} for d in chosen],
                "edges": [],
            },
            "evidence_ids": [],
            "confidence": 0.5,
        }
        text = json.dumps(plan) if len(body["messages"]) == 1 else f"<FINAL>{json.dumps(plan)}</FINAL>"
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        stub.answer(text, usage=usage | {"prompt_tokens_details": {"cached_tokens": 8}})

    @property
    def weight(self) -> float:
        """RA-Set when every task is answered rightly: an interactive one is right in one branch of two."""
        return sum(0.5 if c.behavior is Behavior.INTERACTIVE else 1.0 for c in self.contracts) / TASKS


@dataclass(frozen=True)
class Study:
    """A finished study of the fickle model, every pair routed twice. `made`: requests the server had seen by then."""

    fickle: Fickle
    server: ModelServer
    spec: BackendSpec
    release: str
    record: dict[str, Any]
    made: int

    def table(self, table: Table) -> pl.DataFrame:
        store = ArtifactStore(settings().resolved_store_url)
        return store.read(table, self.record[f"{table.name}_key"])

    def again(self, **changes: Any) -> dict[str, Any]:
        return run_study(self.release, self.spec, **changes)


def run_study(release: str, spec: BackendSpec, **parameters: Any) -> dict[str, Any]:
    return asyncio.run(routing_study(release, [spec], **{"tasks": TASKS, **parameters}))


@pytest.fixture(scope="module")
def study(embedded: Path) -> Iterator[Study]:
    fickle = Fickle(embedded)
    with model_server(fickle) as server:
        spec = BackendSpec(name="fickle", model="hosted_vllm/stub", api_base=server.url)
        record = run_study(str(embedded), spec, trials=2)
        assert (record["status"], record["pairs"], record["trials"]) == ("completed", 6, 2), record
        yield Study(fickle, server, spec, str(embedded), record, len(server.requests))


def test_repeats_tell_how_far_each_value_moves_and_whose_answer_changes(study: Study) -> None:
    rows = {(r["router"], r["metric"]): r for r in study.table(ROUTING_TRIALS).iter_rows(named=True)}
    right = study.fickle.weight
    for router in ("direct", "rerank", "constrained", "react"):
        row = rows[router, "RA-Set"]
        assert (row["published"], row["high"], row["low"]) == (right, right, 0.0)
        assert row["deviation"] == pytest.approx(stdev([right, 0.0]))
        assert (row["trials"], row["tasks"], row["set_changed"], row["graph_changed"]) == (2, TASKS, TASKS, TASKS)
        assert rows[router, "Valid"]["low"] == 1.0
    hermes = rows["hermes", "RA-Set"]
    assert (hermes["high"], hermes["set_changed"]) == (0.0, 0), "no route of it was accepted in either trial"


def test_repeats_are_trials_of_the_ledger_and_only_the_first_is_published(study: Study) -> None:
    # A trial: one call a task of four routers, and two of Hermes', whose second is refused by the endpoint.
    assert study.made == 2 * TASKS * 6
    once = study.again()
    assert len(study.server.requests) == study.made, "trial 0 is stored"
    assert once["routing_table_key"] == study.record["routing_table_key"]
    assert "routing_trials_key" not in once
    values = study.table(ROUTING_TABLE).filter((pl.col("slice") == "all") & (pl.col("metric") == "RA-Set"))
    assert dict(values.select("router", "value").iter_rows())["direct"] == study.fickle.weight


def test_every_turn_is_kept_and_what_routes_took_is_counted(study: Study) -> None:
    store = ArtifactStore(settings().resolved_store_url)
    turns = {pair.split()[1]: store.read(ROUTE_TURNS, key) for pair, key in study.record["routing_turns"].items()}
    assert {router: frame.height for router, frame in turns.items()} == {
        **dict.fromkeys(("direct", "rerank", "constrained", "react"), TASKS),
        "hermes": 2 * TASKS,
        "random": 0,
    }
    used = {(r["router"], r["quantity"]): r for r in study.table(ROUTING_USAGE).iter_rows(named=True)}
    cached = used["direct", "cached_tokens"]
    assert (cached["total"], cached["known_turns"], cached["mean"]) == (8 * TASKS, TASKS, 8.0)
    prompts = used["hermes", "prompt_tokens"]
    assert (prompts["total"], prompts["unknown_turns"], prompts["mean"]) == (10 * TASKS, TASKS, None)
    events = {(r["router"], r["event"]): r["n"] for r in study.table(ROUTING_EVENTS).iter_rows(named=True)}
    assert {event: n for (router, event), n in events.items() if router == "hermes"} == dict.fromkeys(
        ("empty_prediction", "failed_turn", "invalid_plan", "refused_submission"), TASKS
    )
    assert {router for router, _ in events} == {"hermes"}
    table = study.table(ROUTING_TABLE).filter(pl.col("slice") == "all")
    values = {(r["router"], r["metric"]): r for r in table.iter_rows(named=True)}
    lost = values["hermes", "Route-Right-to-Wrong"]
    assert (lost["numerator"], lost["denominator"]) == (study.fickle.weight * TASKS, TASKS)
    assert values["react", "Route-Right-to-Wrong"]["numerator"] == 0
    assert study.table(ROUTING_PROBES).filter(pl.col("router") == "direct")["probed"].all()


def test_the_dashboard_shows_how_much_is_done(study: Study) -> None:
    async def latest(key: str) -> Any:
        from prefect.artifacts import Artifact

        return await Artifact.aget(key)

    progress = asyncio.run(latest("routing-study-pairs"))
    assert float(json.loads(str(progress.data))) == 100.0
    rows = json.loads(asyncio.run(latest("routing-study")).data)
    assert [row["router"] for row in rows] == [str(r) for r in ROUTING_STUDY_ROUTERS]
    assert rows[1]["RA-Set"] == f"{100 * study.fickle.weight:.2f}"


def test_the_command_prints_the_pairs_as_a_table(study: Study) -> None:
    head, names, *rows = table_text(study.record).splitlines()
    assert head == f"routing study of {study.record['run']}: completed"
    assert names.split() == ["backend", "router", "RA-Set", "RA-Graph", "Recall", "percent"]
    assert [row.split()[:2] for row in rows] == [["fickle", str(r)] for r in ROUTING_STUDY_ROUTERS]
    assert rows[1].split()[2] == f"{100 * study.fickle.weight:.2f}"
    assert (
        table_text({"run": "run-x", "status": "incomplete", "reason": "no."})
        == "routing study of run-x: incomplete no."
    )


def test_an_offline_policy_does_not_move_and_random_draws_anew(embedded: Path) -> None:
    record = run_study(str(embedded), BackendSpec.model_validate(TFIDF), tasks=2, trials=2)
    store = ArtifactStore(settings().resolved_store_url)
    moves = store.read(ROUTING_TRIALS, record["routing_trials_key"])
    still = moves.filter(pl.col("router") != "random")
    assert still["router"].n_unique() == 5
    assert still.select("deviation", "set_changed", "graph_changed").sum().row(0) == (0.0, 0, 0)
    assert moves.filter(pl.col("router") == "random")["set_changed"].min() in (1, 2)


def test_transcripts_need_the_calls_that_made_the_routes(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store without its transcripts and another ledger: the routes are scored, and the record says what is missing."""
    shutil.copytree(
        settings().resolved_store_url, tmp_path / "store", ignore=shutil.ignore_patterns(ROUTE_TURNS.name, ".tmp-*")
    )
    monkeypatch.setenv("DSABENCH_STORE_URL", str(tmp_path / "store"))
    monkeypatch.setenv("DSABENCH_LEDGER_URL", f"sqlite:///{tmp_path / 'other.sqlite'}")
    other = study.again()
    assert (other["status"], other["pairs"], set(other["routing_turns"])) == ("incomplete", 6, {"fickle random"})
    assert "fickle react transcripts" in other["reason"]
    assert "import the ledger" in other["reason"]
    assert other["routing_metrics_key"] == study.record["routing_metrics_key"]
    assert len(study.server.requests) == study.made


def test_the_command_line_refuses_no_trial(dsabench: Callable[..., Said]) -> None:
    said = dsabench("routing-study", "--trials", "0", "--no-transcripts", "--json")
    assert (said.code, "--trials" in said.err) == (2, True)


@pytest.mark.parametrize("value", [0, "2", 2.0, True], ids=repr)
def test_trials_are_a_whole_number_of_at_least_one(value: object) -> None:
    with pytest.raises(ParameterTypeError, match="trials"):
        routing_study.validate_parameters({"trials": value})


def test_the_nightly_page_shows_the_study(small_run: SmallRun) -> None:
    page = Path(small_run.record["report"]).read_text("utf-8")
    for name in ("routing", "routing-cuts", "routing-probes", "routing-usage"):
        assert f'id="table-{name}"' in page, name
    assert 'id="table-routing-trials"' not in page
