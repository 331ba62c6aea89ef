"""Scores predictions of an agent that ran elsewhere: files in, the same tables out as for a backend. No model is called but the
judge of questions, which is offline unless one is named.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from prefect import flow
from prefect.artifacts import create_table_artifact

from flows.releases import release_folder
from flows.runs import spec_of
from tasks_lib.evaluation.inputs import Inputs, load
from tasks_lib.evaluation.prediction_layers import (
    OWN,
    Rows,
    contribution_rows,
    plan_rows,
    release_rows,
    route_rows,
    sql_keys,
)
from tasks_lib.evaluation.predictions import (
    AnswerLine,
    AskLine,
    PredictionsRefused,
    RouteLine,
    SqlLine,
    check_keys,
    read_lines,
    write_lines,
)
from tasks_lib.models.backends import NAME, BackendSpec
from tasks_lib.models.client import open_model
from tasks_lib.protocol.vocabulary import Behavior
from tasks_lib.scoring.contrasts import subject_intervals
from tasks_lib.scoring.metrics import HEADLINE
from tasks_lib.scoring.own import own_tables
from tasks_lib.scoring.routing_tables import routing_tables
from tasks_lib.scoring.targets import Target, episodes_of
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.keys import artifact_key, code_digest, sha256_file
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.schemas import (
    ASKS,
    CONTRIBUTIONS,
    EPISODES,
    INTERVALS,
    METRICS,
    PLANS,
    RELEASES,
    ROUTES,
    ROUTING_METRICS,
)
from tasks_lib.store.settings import settings

CODE = ("tasks_lib/evaluation", "tasks_lib/scoring", "tasks_lib/routing/plan.py", "tasks_lib/sql", "tasks_lib/protocol")
LISTED_INVALID = 5


@dataclass(frozen=True)
class Files:
    """The files of one agent, read; `paths` names them for messages."""

    paths: dict[str, Path]
    routes: list[RouteLine] | None
    asks: list[AskLine] | None
    sql: list[SqlLine] | None


def read_files(name: str, routes: Path | None, asks: Path | None, sql: Path | None, answers: Path | None) -> Files:
    """Records of the files given, once it is clear that they can be scored under `name`. Raises PredictionsRefused."""
    if not re.fullmatch(NAME, name):
        raise PredictionsRefused(
            f"--name {name!r} cannot name an agent, expected letters, digits, - and _ (at most 40)."
        )
    if routes is None and (asks is None or answers is None):
        raise PredictionsRefused("nothing is to be scored, expected --routes FILE, or --asks FILE with --answers FILE.")
    if routes is None and sql is not None:
        raise PredictionsRefused("--sql was given without --routes, expected the routes that the SQL belongs to.")
    given = {name: path for name, path in (("routes", routes), ("asks", asks), ("sql", sql)) if path is not None}
    return Files(
        given,
        read_lines(routes, RouteLine) if routes else None,
        read_lines(asks, AskLine) if asks else None,
        read_lines(sql, SqlLine) if sql else None,
    )


@flow(name="score", flow_run_name="score {name}", validate_parameters=False)
async def score(
    release: str,
    name: str,
    routes: Path | None = None,
    asks: Path | None = None,
    sql: Path | None = None,
    answers: Path | None = None,
    judge: BackendSpec | None = None,
) -> dict[str, Any]:
    """Check and score the files of an agent called `name`.

    Args:
        release: Folder of a release; empty means the embedded one.
        name: What the agent is called in tables.
        routes: Its routes; without them only questions are answered.
        asks: Its clarification questions.
        sql: Its SQL.
        answers: File to write released answers to, for the agent to route again with.
        judge: Backend that aligns questions; none means offline/hybrid.
    """
    files = read_files(name, routes, asks, sql, answers)
    run = spec_of(await release_folder(release), judge=judge)
    inputs = load(run.release)
    store = ArtifactStore(settings().resolved_store_url)
    ledger = Ledger(settings().resolved_ledger_url, run=f"score:{uuid.uuid4().hex[:8]}")
    try:
        layers, counts = await _questions(files, name, inputs, run.judge, ledger)
        record: dict[str, Any] = {"status": "completed", "name": name, "release": run.release, **counts}
        if answers is not None:
            said = _answers(layers)
            write_lines(answers, said)
            record["answers"] = {"file": str(answers), "released": len(said)}
        if files.routes is None:
            return record
        layers |= _routes(files, name, inputs, layers)
        if files.sql is not None:
            check_keys(
                files.paths["sql"], files.sql, sql_keys(layers["routes"]), "every database of every accepted route"
            )
        async with SqlRunner(ledger) as runner:
            layers["contributions"] = await contribution_rows(name, files.sql, layers, inputs, runner)
    finally:
        ledger.close()
    targets = episodes_of(inputs.contracts.values())
    invalid = [r for r in layers["routes"] if not r["valid"]]
    record["routes"] = len(layers["routes"])
    record["invalid_routes"] = len(invalid)
    record["invalid_examples"] = [f"{r['task_id']} {r['branch_id']}: {r['reason']}" for r in invalid[:LISTED_INVALID]]
    sources = {kind: sha256_file(path) for kind, path in files.paths.items()} | {"release": run.manifest}
    params = {"name": name, "judge": run.judge.fingerprint(), "code": code_digest(*CODE)}
    record["artifacts"] = _store(store, layers, targets, files, sources, params, run.draws, run.seed)
    record["routing"] = _values(store.read(ROUTING_METRICS, record["artifacts"]["routing_metrics"]), "router")[OWN]
    record["cells"] = _values(store.read(METRICS, record["artifacts"]["metrics"]), "cell_id")
    bounds = store.read(INTERVALS, record["artifacts"]["intervals"]).iter_rows(named=True)
    record["intervals"] = [{k: r[k] for k in ("subject", "metric", "value", "low", "high")} for r in bounds]
    await create_table_artifact(
        [{"scored": "routing", **record["routing"]}, *({"scored": c, **v} for c, v in record["cells"].items())],
        key="own-predictions",
        description=f"Predictions of {name}",
    )  # type: ignore[misc]
    return record


async def _questions(
    files: Files, name: str, inputs: Inputs, judge: BackendSpec, ledger: Ledger
) -> tuple[dict[str, Rows], dict[str, Any]]:
    """Layers `asks` and `releases`, and what is said of the questions."""
    if files.asks is None:
        return {"asks": [], "releases": []}, {}
    check_keys(files.paths["asks"], files.asks, [(t,) for t in inputs.tasks], "one decision for every task")
    asks, releases = await release_rows(name, files.asks, inputs, open_model(judge, ledger))
    ordinary = {t for t, contract in inputs.contracts.items() if contract.behavior is not Behavior.INTERACTIVE}
    needless = sum(line.ask for line in files.asks if line.task_id in ordinary)
    counts = {
        "asked": sum(line.ask for line in files.asks),
        "needless_asks": needless,
        "needless_ask_rate": needless / len(ordinary) if ordinary else 0.0,
        "released_branches": sum(row["released"] for row in releases),
    }
    return {"asks": asks, "releases": releases}, counts


def _answers(layers: dict[str, Rows]) -> list[AnswerLine]:
    questions = {row["task_id"]: row["question"] for row in layers["asks"]}
    return [
        AnswerLine(task_id=r["task_id"], branch_id=r["branch_id"], question=questions[r["task_id"]], answer=r["answer"])
        for r in layers["releases"]
        if r["released"]
    ]


def _routes(files: Files, name: str, inputs: Inputs, layers: dict[str, Rows]) -> dict[str, Rows]:
    """Layers `routes` and `plans`: a route for every task, and one for every branch whose answer was released."""
    assert files.routes is not None
    branches = [(r["task_id"], r["branch_id"]) for r in layers["releases"] if r["released"]]
    why = (
        "one route for every task, and one for every released answer"
        if files.asks is not None
        else ("one route for every task and, without --asks, none with a branch")
    )
    check_keys(files.paths["routes"], files.routes, [(t, "") for t in inputs.tasks] + branches, why)
    rows = route_rows(name, files.routes, inputs)
    return {"routes": rows, "plans": plan_rows(rows, inputs)}


def _store(
    store: ArtifactStore,
    layers: dict[str, Rows],
    targets: tuple[Target, ...],
    files: Files,
    sources: dict[str, str],
    params: dict[str, str],
    draws: int,
    seed: int,
) -> dict[str, str]:
    """Writes the layers and tables; their keys by table."""
    keys = {}
    for table in (ROUTES, ASKS, RELEASES, PLANS, CONTRIBUTIONS):
        keys[table.name] = artifact_key(f"own_{table.name}@1", sources, params)
        store.write(table, keys[table.name], layers[table.name], inputs=sources)
    made = routing_tables(store, {(params["name"], OWN): keys["routes"]}, targets, draws, seed, sources["release"])
    keys |= {"routing_episodes": made.episodes, "routing_metrics": made.metrics, "routing_intervals": made.intervals}
    executed = files.sql is not None
    episodes, metrics = own_tables(params["name"], targets, layers, files.asks is not None, executed)
    for table, frame in ((EPISODES, episodes), (METRICS, metrics)):
        keys[table.name] = artifact_key(f"own_{table.name}@1", sources, params)
        store.write(table, keys[table.name], frame, inputs=sources)
    chosen = HEADLINE if executed else ("RA-Set", "RA-Graph")
    keys["intervals"] = artifact_key("own_intervals@1", sources, {**params, "draws": draws, "seed": seed})
    bounds = subject_intervals(episodes, ["cell_id"], chosen, draws, seed)
    store.write(INTERVALS, keys["intervals"], bounds, inputs=sources)
    return keys


def _values(metrics: pl.DataFrame, subject: str) -> dict[str, dict[str, float | None]]:
    """Values over all tasks by subject and metric; None where the denominator is 0."""
    found: dict[str, dict[str, float | None]] = {}
    part = metrics.filter(pl.col("slice") == "all").select(subject, "metric", "value", "denominator")
    for name, metric, value, denominator in part.iter_rows():
        found.setdefault(name, {})[metric] = value if denominator else None
    return found


def table_text(record: dict[str, Any]) -> str:
    """The scores as a table for a terminal, percent."""
    lines = []
    if "asked" in record:
        lines.append(
            f"asked about {record['asked']} tasks ({record['needless_asks']} of them ordinary); "
            f"answers of {record['released_branches']} branches released"
        )
    if "answers" in record:
        lines.append(f"{record['answers']['released']} answers written to {record['answers']['file']}")
    if "routing" not in record:
        return "\n".join(lines)
    lines.append(f"{record['routes']} routes, {record['invalid_routes']} of them not accepted")
    lines += [f"  {example}" for example in record["invalid_examples"]]
    bounds = {(r["subject"], r["metric"]): (r["low"], r["high"]) for r in record["intervals"]}
    cells = record["cells"]
    heads = ["initial routes", *(" ".join(c.split(".")[i] for i in (3, 4)) for c in cells)]
    lines.append("".join([f"{'percent':18}", *(f"{h:>26}" for h in heads)]))
    for metric in dict.fromkeys([*record["routing"], *(m for v in cells.values() for m in v)]):
        texts = [_percent(record["routing"].get(metric), None)]
        texts += [_percent(v.get(metric), bounds.get((c, metric))) for c, v in cells.items()]
        lines.append("".join([f"{metric:18}", *(f"{t:>26}" for t in texts)]))
    return "\n".join(lines)


def _percent(value: float | None, bounds: tuple[float, float] | None) -> str:
    if value is None:
        return "–"
    return f"{100 * value:.2f}" + (f" [{100 * bounds[0]:.2f}, {100 * bounds[1]:.2f}]" if bounds else "")
