"""The command line: the same flows from a terminal. With `--json` the last line of stdout is one JSON object, logs go to
stderr; exit 0 good, 1 run failed or incomplete, 2 bad usage.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from flows.runtime import prepare

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="DSABench: source discovery, coordination and execution over a catalog of databases.",
)
Json = Annotated[bool, typer.Option("--json", help="One JSON object as the last line of stdout.")]
BackendOption = Annotated[
    list[str] | None,
    typer.Option("--backend", help='A backend as JSON, such as \'{"name": "x", "model": "openai/x"}\'; repeatable.'),
]
RUN_FIELDS = (
    "run",
    "release",
    "status",
    "reason",
    "cells",
    "episodes",
    "base_rows",
    "model_calls",
    "model_calls_made",
    "model_calls_unshared",
    "sql_executions",
    "sql_executions_made",
    "sql_executions_unshared",
    "seconds",
    "report",
)


class BadUsage(ValueError):
    """What the user typed cannot be used."""


def _usage_errors() -> tuple[type[BaseException], ...]:
    from flows.benchmark import NothingToBuild
    from flows.runs import RunUnknown
    from flows.serve import ServeError
    from tasks_lib.contracts.release import ReleaseDamaged
    from tasks_lib.corpora.files import CorpusError
    from tasks_lib.scoring.cells import UnknownCell

    return (BadUsage, NothingToBuild, RunUnknown, ServeError, ReleaseDamaged, CorpusError, UnknownCell)


def _run_errors() -> tuple[type[BaseException], ...]:
    from tasks_lib.evaluation.gold import GoldFault
    from tasks_lib.models.chat import BackendMisconfigured, ProviderUnavailable
    from tasks_lib.scoring.episodes import JoinError
    from tasks_lib.scoring.metrics import DenominatorError
    from tasks_lib.scoring.publish import QualityError
    from tasks_lib.sql.faults import DatabaseFault
    from tasks_lib.store.artifacts import ArtifactRefused
    from tasks_lib.store.ledgers import LedgerUnusable

    return (
        LedgerUnusable,
        GoldFault,
        BackendMisconfigured,
        ProviderUnavailable,
        JoinError,
        DenominatorError,
        QualityError,
        DatabaseFault,
        ArtifactRefused,
    )


def _finish(as_json: bool, fields: dict[str, Any], text: str, good: bool) -> None:
    if text and not as_json:
        print(text)
    if as_json:
        print(json.dumps(fields, sort_keys=False))
    raise typer.Exit(0 if good else 1)


def _guarded(as_json: bool, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run `work`; a known error becomes one sentence on stderr (and in the JSON) and the right exit code."""
    try:
        return work()
    except _usage_errors() as error:
        message, code = str(error), 2
    except _run_errors() as error:
        message, code = f"{error} Nothing already computed is lost.", 1
    except Exception as error:
        # A fault of ours: the traceback is for the report of it; the last line of stdout stays one JSON object.
        traceback.print_exc()
        message, code = f"unexpected {type(error).__name__}: {error}. Nothing already computed is lost.", 1
    print(message, file=sys.stderr)
    if as_json:
        print(json.dumps({"status": "failed", "error": message}))
    raise typer.Exit(code)


def _flow(work: Callable[[], Coroutine[Any, Any, Any]]) -> dict[str, Any]:
    """Run a flow to its end, then stop the worker processes it started."""
    from tasks_lib.store.tasks import close_pool

    try:
        return dict(asyncio.run(work()))
    finally:
        close_pool()


def backends_of(texts: list[str] | None) -> list[Any]:
    """Backend specs of JSON texts. Raises BadUsage naming the text, the field and what was expected."""
    from pydantic import ValidationError

    from tasks_lib.models.backends import BackendSpec

    found = []
    for text in texts or []:
        try:
            found.append(BackendSpec.model_validate_json(text))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the text"
            raise BadUsage(
                f"--backend {text!r}: {where}: {first['msg'][0].lower()}{first['msg'][1:]}, expected a JSON object with at least name and model; "
                "see deployments/backends.example.yaml."
            ) from error
    names = [b.name for b in found]
    if len(set(names)) != len(names):
        raise BadUsage(f"--backend names {names} hold one twice, expected distinct names; rename one.")
    return found


REMEDIES = {"--release": "make a release with `dsabench build`, or leave the option out for the embedded one"}


def _folder(path: Path | None, option: str) -> str:
    if path is None:
        return ""
    if not path.is_dir():
        remedy = REMEDIES.get(option, "datasets/README.md says where the data comes from and how it lies")
        raise BadUsage(f"{option} {path} is not a folder, expected one; {remedy}.")
    return str(path)


@app.command()
def build(
    out: Annotated[Path, typer.Option(help="Folder of the release to write.")],
    spider: Annotated[Path | None, typer.Option(help="Spider, official layout.")] = None,
    bird: Annotated[Path | None, typer.Option(help="BIRD, official layout.")] = None,
    livesqlbench: Annotated[Path | None, typer.Option(help="LiveSQLBench.")] = None,
    profile: Annotated[Literal["small", "paper", "extended"], typer.Option(help="Which tasks and how many.")] = "small",
    seed: Annotated[int, typer.Option(min=0)] = 1,
    salt_file: Annotated[Path | None, typer.Option(help="File whose bytes key the public ids.")] = None,
    json_: Json = False,
) -> None:
    """Build a release from real corpora."""

    def work() -> dict[str, Any]:
        given = [_folder(p, o) for p, o in ((spider, "--spider"), (bird, "--bird"), (livesqlbench, "--livesqlbench"))]
        if not any(given):
            raise BadUsage(
                "no corpus was given, expected at least one of --spider, --bird, --livesqlbench with its folder."
            )
        if salt_file is not None and not salt_file.is_file():
            raise BadUsage(f"--salt-file {salt_file} is not a file, expected one with at least 16 random bytes.")
        from flows.benchmark import benchmark

        return _flow(lambda: benchmark(given[0], given[1], given[2], profile, seed, str(out), str(salt_file or "")))

    report = _guarded(json_, work)
    text = f"release {report['release']}: {report['tasks']} tasks {report['by_behavior']}"
    if report.get("shortfall"):
        text += f"\nshort of the profile's targets: {report['shortfall']}"
    _finish(json_, report, text, report["tasks"] > 0)


@app.command()
def run(
    release: Annotated[Path | None, typer.Option(help="Release folder; default: the embedded release.")] = None,
    backend: BackendOption = None,
    judge: Annotated[str | None, typer.Option(help="Judge backend as JSON; default offline/hybrid.")] = None,
    evidence: Annotated[Literal["unit", "privileged_only"], typer.Option(help="When BIRD evidence travels.")] = "unit",
    tasks: Annotated[int, typer.Option(min=0, help="How many tasks, 0 for all.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run, and run nothing.")] = False,
    json_: Json = False,
) -> None:
    """The nightly chain: catalog, routing study, 288-cell factorial, checks, results page."""

    def work() -> dict[str, Any]:
        folder = _folder(release, "--release")
        specs = backends_of(backend)
        judges = backends_of([judge] if judge else [])
        if dry_run:
            from flows.dryrun import dry

            return _flow(lambda: dry(folder, specs, judges[0] if judges else None, evidence, tasks))
        from flows.nightly import nightly

        return _flow(lambda: nightly(folder, specs or None, judges[0] if judges else None, evidence, tasks))

    record = _guarded(json_, work)
    if dry_run:
        _finish(json_, record, record.pop("text"), True)
    _finish(json_, {k: record.get(k) for k in RUN_FIELDS}, _headline(record), record["status"] == "completed")


def _headline(record: dict[str, Any]) -> str:
    from tasks_lib.reporting.page import headline_text
    from tasks_lib.store.artifacts import ArtifactStore
    from tasks_lib.store.schemas import METRICS
    from tasks_lib.store.settings import settings

    lines = [f"run {record['run']}: {record['status']} {record.get('reason') or ''}".rstrip()]
    if record.get("metrics_key"):
        lines.append(headline_text(ArtifactStore(settings().resolved_store_url).read(METRICS, record["metrics_key"])))
        lines.append(
            f"{record['cells']} cells, {record['episodes']} episodes; model calls {record['model_calls']} (new {record['model_calls_made']}, "
            f"separate cells would make {record['model_calls_unshared']}); {record.get('seconds', 0)} s"
        )
    lines.append(f"results page: {record.get('report') or 'none'}")
    return "\n".join(lines)


@app.command()
def audit(release: Annotated[Path | None, typer.Option()] = None, json_: Json = False) -> None:
    """Retrieval audit of a release's catalog."""

    def work() -> dict[str, Any]:
        folder = _folder(release, "--release")
        from flows.catalog import catalog

        return _flow(lambda: catalog(folder))

    report = _guarded(json_, work)
    _finish(json_, report, json.dumps(report, indent=1), True)


@app.command("routing-study")
def routing_study_command(
    release: Annotated[Path | None, typer.Option()] = None,
    backend: BackendOption = None,
    tasks: Annotated[int, typer.Option(min=0)] = 0,
    json_: Json = False,
) -> None:
    """Every backend × six routers, initial routes only."""

    def work() -> dict[str, Any]:
        folder, specs = _folder(release, "--release"), backends_of(backend)
        from flows.routing_study import routing_study

        return _flow(lambda: routing_study(folder, specs or None, tasks))

    record = _guarded(json_, work)
    _finish(json_, record, json.dumps(record, indent=1), record["status"] == "completed")


@app.command("factorial")
def factorial_command(
    release: Annotated[Path | None, typer.Option()] = None,
    backend: BackendOption = None,
    judge: Annotated[str | None, typer.Option()] = None,
    evidence: Annotated[Literal["unit", "privileged_only"], typer.Option()] = "unit",
    tasks: Annotated[int, typer.Option(min=0)] = 0,
    json_: Json = False,
) -> None:
    """The factorial alone: layers, then one subflow for each cell that is not done."""

    def work() -> dict[str, Any]:
        folder, specs = _folder(release, "--release"), backends_of(backend)
        judges = backends_of([judge] if judge else [])
        from flows.factorial import factorial

        return _flow(lambda: factorial(folder, specs or None, judges[0] if judges else None, evidence, tasks))

    record = _guarded(json_, work)
    _finish(
        json_, {k: record.get(k) for k in RUN_FIELDS if k in record}, _headline(record), record["status"] == "completed"
    )


@app.command("cell")
def cell_command(
    cell: Annotated[str, typer.Option(help="backend.router.data_agent.planner.interaction.query_mode")],
    run: Annotated[str, typer.Option(help="Run id; default: the last run.")] = "",
    json_: Json = False,
) -> None:
    """One cell of a recorded run, alone."""

    def work() -> dict[str, Any]:
        from flows import runs
        from flows.cell import cell as cell_flow
        from tasks_lib.scoring.cells import UnknownCell, parse

        spec, _ = runs.load(run)
        point = parse(cell)
        if point.backend not in {b.name for b in spec.backends}:
            raise UnknownCell(
                f"cell {cell!r} names backend {point.backend!r}, expected one of {[b.name for b in spec.backends]}."
            )
        return {"run": spec.run_id, "status": "completed", **_flow(lambda: cell_flow(spec.run_id, cell))}

    record = _guarded(json_, work)
    _finish(json_, record, json.dumps(record, indent=1), True)


@app.command("report")
def report_command(
    run: Annotated[str, typer.Option(help="Run id; default: the last run.")] = "", json_: Json = False
) -> None:
    """Verify a run and write its results page."""

    def work() -> dict[str, Any]:
        from flows.report import report

        return _flow(lambda: report(run))

    record = _guarded(json_, work)
    good = bool(record["verification"]["ok"])
    _finish(
        json_,
        {"status": "completed" if good else "failed", **record},
        f"results page: {record['report'] or 'none'}",
        good,
    )


@app.command()
def verify(run: Annotated[str, typer.Option(help="Run id; default: the last run.")] = "", json_: Json = False) -> None:
    """Independent recomputation, gold certificate, diagnostics, invariants and leak scan of a run."""

    def work() -> dict[str, Any]:
        from flows import runs
        from flows.verification import verify_run

        spec, record = runs.load(run)
        return _flow(lambda: verify_run(spec, record))

    report = _guarded(json_, work)
    _finish(json_, report, "ok" if report["ok"] else "\n".join(report["problems"]), bool(report["ok"]))


@app.command()
def compare(
    corpus: Annotated[Literal["spider", "bird", "livesqlbench"], typer.Option()],
    database: Annotated[str, typer.Option(help="SQLite file or PostgreSQL URL.")],
    gold: Annotated[str, typer.Option()],
    predicted: Annotated[str, typer.Option()],
    json_: Json = False,
) -> None:
    """Judge one prediction against one gold query under a corpus's rule."""

    def work() -> dict[str, Any]:
        from tasks_lib.protocol.vocabulary import Corpus
        from tasks_lib.sql.once import compare_once

        try:
            return compare_once(Corpus(corpus), database, gold, predicted)
        except ValueError as error:  # the gold text is refused or has no result
            raise BadUsage(str(error)) from error

    found = _guarded(json_, work)
    _finish(json_, found, str(found["verdict"]), True)


@app.command("check-sql")
def check_sql_command(
    corpus: Annotated[Literal["spider", "bird", "livesqlbench"], typer.Option()],
    sql: Annotated[str, typer.Option()],
    database: Annotated[str | None, typer.Option(help="SQLite file or PostgreSQL URL.")] = None,
    json_: Json = False,
) -> None:
    """Say whether a statement would be let through, and why not."""

    def work() -> dict[str, Any]:
        from tasks_lib.protocol.vocabulary import Corpus
        from tasks_lib.sql.once import check_once

        return check_once(Corpus(corpus), sql, database)

    found = _guarded(json_, work)
    _finish(json_, found, "allowed" if found["allowed"] else f"refused: {found['reason']}", True)


@app.command()
def serve(port: Annotated[int, typer.Option(min=1, max=65535)] = 4200) -> None:
    """Start the Prefect server (unless PREFECT_API_URL names one) and serve the deployments."""
    prepare(served=True)

    def work() -> dict[str, Any]:
        from flows.serve import serve as serve_flows

        serve_flows(port)
        return {}

    _guarded(False, work)


def main() -> None:
    """Entry point of the console script."""
    if "serve" not in sys.argv[1:2]:
        try:
            prepare()
        except OSError as error:
            print(
                f"the home folder {error.filename} cannot be made ({error.strerror}); set DSABENCH_HOME to a writable folder.",
                file=sys.stderr,
            )
            raise SystemExit(2) from None
        os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    app()
