"""What a run would do: layers and cells wanted and done, and the calls, tokens and cost the rest should take. Runs nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flows import runs
from flows.benchmark import embedded_release
from flows.cell import cell_done
from flows.estimates import Size, expected, layer_size, price_of, router_sizes
from flows.layers import wanted_tasks
from flows.wanted import RunSpec, cell_key, chain_keys, routes_key
from tasks_lib.evaluation.inputs import load
from tasks_lib.models.backends import BackendSpec
from tasks_lib.protocol.vocabulary import Behavior, DataAgent, Router
from tasks_lib.scoring.cells import FACTORIAL_ROUTERS, ROUTING_STUDY_ROUTERS, grid
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.schemas import ASKS, CONTRIBUTIONS, PLANS, ROUTES
from tasks_lib.store.settings import settings

TURNS = {
    Router.RANDOM: 0,
    Router.DIRECT: 1,
    Router.RERANK: 1,
    Router.CONSTRAINED: 1,
    Router.REACT: 30,
    Router.HERMES: 30,
}
PLAN_CALLS, SQL_CALLS, TOOL_STEPS = 4, {DataAgent.TEXT_TO_SQL: 1, DataAgent.ADAPTER: 2}, 30


async def dry(
    folder: str, backends: Sequence[BackendSpec], judge: BackendSpec | None, evidence: str, tasks: int
) -> dict[str, Any]:
    """Counts by backend; the upper bounds assume nothing is shared and every episode uses all its turns.

    What is expected takes as many turns as an offline policy took, one call a plan and the fewest an agent can make.
    """
    release = Path(folder) if folder else await embedded_release()
    run = runs.spec_of(release, backends, judge, evidence, tasks)
    store = ArtifactStore(settings().resolved_store_url)
    contracts = [load(run.release).contracts[t] for t in wanted_tasks(run)]
    interactive = sum(c.behavior is Behavior.INTERACTIVE for c in contracts)
    units = sum(len(c.unit_ids) for c in contracts)
    found: dict[str, Any] = {}
    ledger = Ledger(settings().resolved_ledger_url)
    measured: dict[str, dict[Router, Size]] = {}
    for backend in run.backends:
        calls = 0
        layers = {"wanted": 0, "done": 0}
        wanted: Counter[str] = Counter()

        def count(
            done: bool,
            at_most: int,
            layer: str,
            number: int,
            layers: dict[str, int] = layers,
            wanted: Counter[str] = wanted,
        ) -> int:
            layers["wanted"] += 1
            layers["done"] += done
            wanted[layer] += 0 if done else number
            return 0 if done else at_most

        for router in ROUTING_STUDY_ROUTERS:
            done = store.ok(ROUTES, routes_key(run, backend, router))
            calls += count(done, len(contracts) * TURNS[router], f"routes {router}", len(contracts))
        for router in FACTORIAL_ROUTERS:
            chain = chain_keys(run, backend, router)
            branches = 2 * interactive
            calls += count(store.ok(ASKS, chain.asks), interactive, "asks", interactive)
            calls += count(
                store.ok(ROUTES, chain.clarified), branches * TURNS[router], f"clarified routes {router}", branches
            )
            plans = len(contracts) + branches
            calls += count(store.ok(PLANS, chain.plans), plans * PLAN_CALLS, "plans", plans)
            for agent, key in chain.contributions.items():
                drafts = 3 * (units + interactive)
                most = drafts * (TOOL_STEPS if agent is DataAgent.ADAPTER else SQL_CALLS[agent])
                calls += count(store.ok(CONTRIBUTIONS, key), most, "local_sql", drafts * SQL_CALLS[agent])
        cells = grid([backend.name])
        cells_done = sum(cell_done(store, cell_key(run, c, chain_keys(run, backend, c.router))) for c in cells)
        found[backend.name] = {
            "layers": layers,
            "cells": len(cells),
            "cells_done": cells_done,
            "model_calls_at_most": calls,
            "expected": expected(await _sized(run, backend, wanted, ledger, measured), price_of(backend)),
        }
    ledger.close()
    lines = [f"run {run.run_id} on {release}: {len(contracts)} tasks"]
    lines += [
        f"{name}: layers {f['layers']['done']} of {f['layers']['wanted']} done, cells {f['cells_done']} of {f['cells']} done, "
        f"at most {f['model_calls_at_most']} model calls to make; {_expectation(f['expected'])}"
        for name, f in found.items()
    ]
    return {
        "run": run.run_id,
        "release": str(release),
        "status": "dry_run",
        "cells": 72 * len(run.backends),
        "backends": found,
        "text": "\n".join(lines),
    }


async def _sized(
    run: RunSpec, backend: BackendSpec, wanted: Counter[str], ledger: Ledger, measured: dict[str, dict[Router, Size]]
) -> dict[str, tuple[float, Size | None]]:
    """Items to do by layer, with the size of one. `measured`: sizes of routers by protocol, filled once for all backends.

    `routes X` and `clarified routes X` are the episodes of router X; Random asks no model.
    """
    sizes: dict[str, tuple[float, Size | None]] = {}
    for layer, number in wanted.items():
        router = Router(layer.rsplit(" ", 1)[1]) if " " in layer else None
        if not number or router is Router.RANDOM:
            continue
        if router is None:
            sizes[layer] = number, layer_size(ledger, layer, backend.name)
            continue
        if backend.protocol not in measured:
            public = f"{run.release}/public"
            measured[backend.protocol] = await router_sizes(public, backend, tuple(Router), wanted_tasks(run))
        sizes[layer] = number, measured[backend.protocol].get(router)
    return sizes


def _expectation(found: dict[str, Any]) -> str:
    tokens = f"{found['prompt_tokens']:,} tokens in and {found['completion_tokens']:,} out"
    cost = "cost unknown" if found["cost_usd"] is None else f"{found['cost_usd']:.2f} US dollars"
    text = f"expected {found['calls']} calls, {tokens}, {cost}"
    if found["unmeasured"]:
        text += (
            f", and what {', '.join(found['unmeasured'])} take (no such call is stored yet; a run with the offline policies, which "
            "costs nothing, measures their prompts)"
        )
    by = [f"{', '.join(layers)} by {what}" for what, layers in found["basis"].items()]
    return text + (f"; measured: {'; '.join(by)}" if by else "")
