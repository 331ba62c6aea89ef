"""The nightly chain: benchmark → catalog → routing study → factorial → report, each as a subflow that runs only what is wanted."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Literal

from prefect import flow
from pydantic import Field

from flows import runs
from flows.blocks import AnyBackend, opened
from flows.catalog import catalog
from flows.counts import with_study
from flows.dryrun import announce
from flows.factorial import factorial
from flows.liveness import alive
from flows.releases import release_folder
from flows.report import report
from flows.routing_study import routing_study
from flows.runtime import say
from flows.settled import concluded, settled_key
from tasks_lib.models.budget import limited
from tasks_lib.protocol.vocabulary import AskScope, PlannerLanguage


@flow(name="nightly", flow_run_name="nightly")
async def nightly(
    release: Annotated[str, Field(strict=True)] = "",
    backends: list[AnyBackend] | None = None,
    judge: AnyBackend | None = None,
    evidence: Literal["unit", "privileged_only"] = "unit",
    ask_scope: AskScope = "interactive",
    planner_language: PlannerLanguage = "en",
    tasks: Annotated[int, Field(strict=True, ge=0)] = 0,
    max_calls: Annotated[int, Field(strict=True, ge=0)] = 0,
    max_cost: Annotated[float, Field(ge=0)] = 0.0,
) -> dict[str, Any]:
    """Run the whole chain on a release and write its results page.

    Args:
        release: Folder of a release; empty means the embedded one, built on first use.
        backends: Backends to evaluate, written out or saved as blocks; none means the four offline policies.
        judge: Backend that judges clarification questions; none means offline/hybrid.
        evidence: Whether BIRD evidence travels with every request, or with privileged questions only.
        ask_scope: Tasks on which agents may ask: the interactive ones, or all, which also counts needless questions.
        planner_language: Language in which the LLM planner is told what to do; requests stay as they are.
        tasks: How many tasks, 0 for all.
        max_calls: Stop before more model calls than this are sent, 0 for no limit.
        max_cost: Stop before more US dollars than this are spent, 0 for no limit.
    """
    started = time.monotonic()
    with limited(max_calls, max_cost), opened(backends, judge) as (specs, judging):
        async with alive():
            if not release:
                say("release: building the embedded one if it is not there")
            folder = str(await release_folder(release))
            run = runs.spec_of(Path(folder), specs, judging, evidence, tasks, ask_scope, planner_language)
            with runs.alone(run.run_id):
                key = settled_key(run)
                announce(run)
                say(f"catalog of {folder}: retrieval audit")
                catalogued = await catalog(folder)
                say("routing study: six routers of every backend")
                study = await routing_study(folder, [*specs] or None, tasks)
                record: dict[str, Any] = await factorial(
                    folder, [*specs] or None, judging, evidence, ask_scope, planner_language, tasks
                )
                record["audit_key"] = catalogued["audit_key"]
                record |= {k: v for k, v in study.items() if k.startswith("routing_")}
                record |= with_study(record, study)
                if study["status"] != "completed":
                    reasons = "; ".join(x for x in (record["reason"], study["reason"]) if x)
                    record |= {"status": "incomplete", "reason": reasons}
                await concluded(run, key, record, started, lambda: report(run.run_id))
    return record
