"""What the stages before scoring take for a release of N tasks: one backend's chain of one router, of tasks drawn again from a release.

Run as a program: `python tests/bench/growth_layers.py RELEASE N FOLDER` prints one JSON object: CPU seconds of each layer (workers of SQL
included), peak GiB, MB on disk. A task drawn again has a name and a closing word of its own, so that no stored call or execution of
another copy answers for it; catalog, databases and gold are the release's. Does not belong here: comparing sizes (`test_bench_growth`).
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

BACKEND, ROUTER, AGENT = "offline/bm25", "direct", "adapter"


def grown(folder: str, tasks: int) -> Any:
    """Inputs of the release with `tasks` tasks: its own in id order, round after round."""
    from tasks_lib.contracts.release import Release
    from tasks_lib.evaluation.inputs import Inputs

    inputs = Inputs(Release.load(Path(folder)))
    names, contracts, public = sorted(inputs.contracts), {}, {}
    for number in range(tasks):
        turn, at = divmod(number, len(names))
        old, new = names[at], f"{names[at]}-{turn}"
        contracts[new] = replace(inputs.contracts[old], task_id=new)
        task = inputs.tasks[old]
        public[new] = replace(task, task_id=new, request=f"{task.request} (list {turn})")
    inputs.__dict__ |= {"contracts": contracts, "tasks": public}  # where cached properties look first
    return inputs


def cpu() -> float:
    """CPU seconds of this process and of children that ended."""
    return sum(
        getattr(resource.getrusage(who), part)
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        for part in ("ru_utime", "ru_stime")
    )


async def measured(release: str, tasks: int, folder: str) -> dict[str, float]:
    from tasks_lib.evaluation import layer as evaluation
    from tasks_lib.models.backends import BackendSpec
    from tasks_lib.protocol.vocabulary import Behavior
    from tasks_lib.routing import layer as routing
    from tasks_lib.store import schemas
    from tasks_lib.store.artifacts import ArtifactStore
    from tasks_lib.store.jobs import JobContext
    from tasks_lib.store.ledgers import Ledger

    inputs = grown(release, tasks)
    context = JobContext(ArtifactStore(f"{folder}/store"), Ledger(f"sqlite:///{folder}/ledger.sqlite", run="growth"))
    spec = BackendSpec(name="policy", model=BACKEND, temperature=None).model_dump()
    common, public = {"router": ROUTER, "trial": 0}, f"{release}/public"
    ids = sorted(inputs.contracts)
    asked = [t for t in ids if inputs.contracts[t].behavior is Behavior.INTERACTIVE]
    keys = {n: n for n in ("routes", "asks", "releases", "clarified", "plans")}
    found: dict[str, float] = {}

    async def stage(name: str, table: schemas.Table, rows: Any) -> list[dict[str, Any]]:
        before = cpu()
        made = await rows
        context.store.write(table, name, made)
        found[name] = cpu() - before
        return list(made)

    with (
        mock.patch.object(evaluation, "load", return_value=inputs),
        mock.patch.object(routing, "public_tasks", return_value=inputs.tasks),
    ):
        routing._catalog(public)
        await stage("routes", schemas.ROUTES, routing.initial_routes(context, public, spec, ROUTER, ids, 0))
        asks = await stage(
            "asks",
            schemas.ASKS,
            routing.ask_decisions(context, public=public, backend=spec, task_ids=asked, routes_key="routes", **common),
        )
        released = await stage(
            "releases",
            schemas.RELEASES,
            evaluation.release_decisions(
                context, folder=release, backend="policy", asks_key="asks", judge=spec, **common
            ),
        )
        questions = {a["task_id"]: a["question"] for a in asks}
        told = [
            {**{n: r[n] for n in ("task_id", "branch_id", "answer")}, "question": questions[r["task_id"]]}
            for r in released
            if r["released"]
        ]
        await stage(
            "clarified",
            schemas.ROUTES,
            routing.clarified_routes(context, public=public, backend=spec, exchanges=told, **common),
        )
        await stage(
            "plans",
            schemas.PLANS,
            evaluation.plan_rows(
                context, folder=release, backend=spec, **{f"{n}_key": n for n in keys if n != "plans"}, **common
            ),
        )
        await stage(
            "contributions",
            schemas.CONTRIBUTIONS,
            evaluation.contribution_rows(
                context,
                folder=release,
                backend=spec,
                data_agent=AGENT,
                evidence="unit",
                keys=keys,
                task_ids=ids,
                **common,
            ),
        )
    context.ledger.close()
    disk = sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file())
    peak = max(resource.getrusage(w).ru_maxrss for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {**found, "peak_gib": peak / 2**20, "disk_mb": disk / 1e6}


if __name__ == "__main__":
    started = time.monotonic()
    said = asyncio.run(measured(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
    print(json.dumps({**said, "wall": time.monotonic() - started}))
