"""The command line: the same flows from a terminal. The commands on runs stand here; importing the other `cli_` modules
adds theirs. What all share is in `cli_support`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from flows import (
    cli_audit,
    cli_backends,
    cli_browse,
    cli_build,
    cli_catalog,
    cli_certify,
    cli_compare,
    cli_doctor,
    cli_explain,
    cli_ledger,
    cli_publish,
    cli_rescore,
    cli_review,
    cli_routes,
    cli_units,
)
from flows.cli_support import (
    CELL_ID,
    BackendOption,
    BackendsOption,
    BadUsage,
    Json,
    MaxCalls,
    MaxCost,
    RunnerOption,
    app,
    backends_of,
    finish,
    guarded,
    release_of,
    run_flow,
    run_here,
    use_runner,
)
from flows.runtime import prepare
from tasks_lib.protocol.vocabulary import AskScope, PlannerLanguage

__all__ = [
    "app",
    "cli_audit",
    "cli_backends",
    "cli_browse",
    "cli_build",
    "cli_catalog",
    "cli_certify",
    "cli_compare",
    "cli_doctor",
    "cli_explain",
    "cli_ledger",
    "cli_publish",
    "cli_rescore",
    "cli_review",
    "cli_routes",
    "cli_units",
    "main",
]

AskScopeOption = Annotated[
    AskScope, typer.Option(help="Tasks on which agents may ask; all also counts needless questions.")
]
PlannerLanguageOption = Annotated[PlannerLanguage, typer.Option(help="Language of the LLM planner's instructions.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would run, and run nothing.")]
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


@app.command()
def run(
    release: Annotated[Path | None, typer.Option(help="Release folder; default: the embedded release.")] = None,
    backend: BackendOption = None,
    backends_file: BackendsOption = None,
    judge: Annotated[str | None, typer.Option(help="Judge backend as JSON; default offline/hybrid.")] = None,
    evidence: Annotated[Literal["unit", "privileged_only"], typer.Option(help="When BIRD evidence travels.")] = "unit",
    ask_scope: AskScopeOption = "interactive",
    planner_language: PlannerLanguageOption = "en",
    tasks: Annotated[int, typer.Option(min=0, help="How many tasks, 0 for all.")] = 0,
    max_calls: MaxCalls = 0,
    max_cost: MaxCost = 0.0,
    runner: RunnerOption = "",
    dry_run: DryRun = False,
    json_: Json = False,
) -> None:
    """The nightly chain: catalog, routing study, 288-cell factorial, checks, results page."""

    def work() -> dict[str, Any]:
        use_runner(runner)
        folder = release_of(release)
        specs = backends_of(backend, backends_file)
        judging = next(iter(backends_of([judge] if judge else [], option="--judge")), None)
        if dry_run:
            from flows.dryrun import dry

            return run_flow(lambda: dry(folder, specs, judging, evidence, ask_scope, planner_language, tasks))

        def settled() -> dict[str, Any] | None:
            from flows.runs import spec_of
            from flows.settled import conclude

            place = Path(folder) if folder else _embedded()
            if not (place / "manifest.json").is_file():  # the embedded one is built by the flows
                return None
            return conclude(spec_of(place, specs, judging, evidence, tasks, ask_scope, planner_language))

        def chain() -> Coroutine[Any, Any, Any]:
            from flows.nightly import nightly

            chosen = (folder, specs or None, judging, evidence, ask_scope, planner_language, tasks)
            return nightly(*chosen, max_calls, max_cost)

        # Who names a Prefect server wants to see every run there.
        done = None if os.environ.get("PREFECT_API_URL") else run_here(settled)
        return run_flow(chain, served=True) if done is None else done

    record = guarded(json_, work)
    if dry_run:
        finish(json_, record, record.pop("text"), True)
    finish(json_, {k: record.get(k) for k in RUN_FIELDS}, _headline(record), record["status"] == "completed")


def _embedded() -> Path:
    """Where the embedded release stands, with its databases."""
    from flows.benchmark import embedded_folder
    from tasks_lib.corpora.embedded import materialise
    from tasks_lib.store.settings import settings

    materialise(settings().home / "corpora")
    return embedded_folder()


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


@app.command("routing-study")
def routing_study_command(
    release: Annotated[Path | None, typer.Option(help="Release folder; default: the embedded release.")] = None,
    backend: BackendOption = None,
    backends_file: BackendsOption = None,
    tasks: Annotated[int, typer.Option(min=0, help="How many tasks, 0 for all.")] = 0,
    max_calls: MaxCalls = 0,
    max_cost: MaxCost = 0.0,
    runner: RunnerOption = "",
    trials: Annotated[int, typer.Option(min=1, help="How often every pair is routed; the first is published.")] = 1,
    transcripts: Annotated[bool, typer.Option(help="Keep every turn as a row; costs no model call.")] = True,
    json_: Json = False,
) -> None:
    """Every backend × six routers, initial routes only."""

    def work() -> dict[str, Any]:
        use_runner(runner)
        folder, specs = release_of(release), backends_of(backend, backends_file)

        def study() -> Coroutine[Any, Any, Any]:
            from flows.routing_study import routing_study

            return routing_study(folder, specs or None, tasks, max_calls, max_cost, trials, transcripts)

        return run_flow(study, served=True)

    record = guarded(json_, work)
    finish(json_, record, _study_text(record), record["status"] == "completed")


def _study_text(record: dict[str, Any]) -> str:
    from flows.routing_study import table_text

    return table_text(record)


@app.command("factorial")
def factorial_command(
    release: Annotated[Path | None, typer.Option(help="Release folder; default: the embedded release.")] = None,
    backend: BackendOption = None,
    backends_file: BackendsOption = None,
    judge: Annotated[str | None, typer.Option(help="Judge backend as JSON; default offline/hybrid.")] = None,
    evidence: Annotated[Literal["unit", "privileged_only"], typer.Option(help="When BIRD evidence travels.")] = "unit",
    ask_scope: AskScopeOption = "interactive",
    planner_language: PlannerLanguageOption = "en",
    tasks: Annotated[int, typer.Option(min=0, help="How many tasks, 0 for all.")] = 0,
    max_calls: MaxCalls = 0,
    max_cost: MaxCost = 0.0,
    runner: RunnerOption = "",
    dry_run: DryRun = False,
    json_: Json = False,
) -> None:
    """The factorial alone: layers, then one subflow for each cell that is not done."""

    def work() -> dict[str, Any]:
        use_runner(runner)
        folder, specs = release_of(release), backends_of(backend, backends_file)
        judging = next(iter(backends_of([judge] if judge else [], option="--judge")), None)
        if dry_run:
            from flows.dryrun import dry

            return run_flow(
                lambda: dry(folder, specs, judging, evidence, ask_scope, planner_language, tasks, study=False)
            )

        def cells() -> Coroutine[Any, Any, Any]:
            from flows.factorial import factorial

            chosen = (folder, specs or None, judging, evidence, ask_scope, planner_language, tasks)
            return factorial(*chosen, max_calls, max_cost)

        return run_flow(cells, served=True)

    record = guarded(json_, work)
    if dry_run:
        finish(json_, record, record.pop("text"), True)
    finish(
        json_, {k: record.get(k) for k in RUN_FIELDS if k in record}, _headline(record), record["status"] == "completed"
    )


@app.command("cell")
def cell_command(
    cell: Annotated[str, typer.Option(help=CELL_ID)],
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
        return {"run": spec.run_id, "status": "completed", **run_flow(lambda: cell_flow(spec.run_id, cell))}

    record = guarded(json_, work)
    finish(json_, record, json.dumps(record, indent=1), True)


@app.command("report")
def report_command(
    run: Annotated[str, typer.Option(help="Run id; default: the last run.")] = "",
    against: Annotated[str, typer.Option(help="Run it is set beside; default: the previous one of its release.")] = "",
    json_: Json = False,
) -> None:
    """Verify a run and write its results page."""

    def work() -> dict[str, Any]:
        from flows import runs
        from flows.report import report
        from tasks_lib.scoring.comparison import NotComparable

        if against:
            runs.load(against)
        runs.load(run)
        try:
            return run_flow(lambda: report(run, against))
        except NotComparable as error:
            raise BadUsage(str(error)) from error

    record = guarded(json_, work)
    found = record["verification"]
    status = ("completed" if found["complete"] else "incomplete") if found["ok"] else "failed"
    page = f"results page: {record['report'] or 'none'}"
    finish(
        json_, {"status": status, **record}, "\n".join((page, *_faults(record["run"], found))), status == "completed"
    )


def _faults(run: str, verification: dict[str, Any]) -> list[str]:
    missing = [] if verification["complete"] else [f"run {run} is incomplete: {verification['reason']}"]
    return [*verification["problems"], *missing]


@app.command()
def verify(run: Annotated[str, typer.Option(help="Run id; default: the last run.")] = "", json_: Json = False) -> None:
    """Independent recomputation, gold certificate, diagnostics, invariants and leak scan of a run."""

    def work() -> dict[str, Any]:
        from flows import runs
        from flows.verification import verify_run

        spec, record = runs.load(run)
        return run_flow(lambda: verify_run(spec, record))

    report = guarded(json_, work)
    faults = _faults(report["run"], report)
    finish(json_, report, "\n".join(faults) or "ok", not faults)


@app.command()
def compare(
    corpus: Annotated[Literal["spider", "bird", "livesqlbench"], typer.Option(help="Whose rule and engine.")],
    database: Annotated[str, typer.Option(help="SQLite file or PostgreSQL URL.")],
    gold: Annotated[str, typer.Option(help="The gold query, as text.")],
    predicted: Annotated[str, typer.Option(help="The predicted query, as text.")],
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

    found = guarded(json_, work)
    reason = f": {found['error']}" if found["error"] else ""
    finish(json_, found, f"{found['verdict']}{reason}", True)


@app.command("check-sql")
def check_sql_command(
    corpus: Annotated[Literal["spider", "bird", "livesqlbench"], typer.Option(help="Whose rule and engine.")],
    sql: Annotated[str, typer.Option(help="The statement, as text.")],
    database: Annotated[str | None, typer.Option(help="SQLite file or PostgreSQL URL.")] = None,
    json_: Json = False,
) -> None:
    """Say whether a statement would be let through, and why not."""

    def work() -> dict[str, Any]:
        from tasks_lib.protocol.vocabulary import Corpus
        from tasks_lib.sql.once import check_once

        return check_once(Corpus(corpus), sql, database)

    found = guarded(json_, work)
    finish(json_, found, "allowed" if found["allowed"] else f"refused: {found['reason']}", True)


@app.command()
def serve(port: Annotated[int, typer.Option(min=1, max=65535, help="Port on 127.0.0.1.")] = 4200) -> None:
    """Start the Prefect server (unless PREFECT_API_URL names one) and serve the deployments."""
    prepare(served=True)

    def work() -> dict[str, Any]:
        from flows.serve import serve as serve_flows

        serve_flows(port)
        return {}

    guarded(False, work)


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
