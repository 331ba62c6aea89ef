"""What the tables of a run rest on, what was paid for now, and what separate cells would have paid (DESIGN, wanted ▷ done)."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from flows.usage import Meter
from flows.wanted import ChainKeys, recorded_chains
from tasks_lib.models.transcripts import KIND as MODEL_CALL
from tasks_lib.protocol.records import Cell
from tasks_lib.protocol.vocabulary import Audience, Router
from tasks_lib.scoring.cells import parse
from tasks_lib.scoring.layers import cell_items
from tasks_lib.scoring.tables import layers_of, read_rows
from tasks_lib.sql.execute import LEDGER_KIND as SQL_EXECUTION
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.schemas import ROUTES
from tasks_lib.store.settings import settings


def shared_counts(
    cells: Sequence[Cell], chains: Mapping[tuple[str, Router], ChainKeys], invocation: str
) -> dict[str, Any]:
    """model_calls, model_calls_made, model_calls_unshared, the same three for sql_executions, cost (unknown is never 0),
    effective (see `effective_of`), and usage of cells and backends (see `flows.usage`)."""
    store = ArtifactStore(settings().resolved_store_url)
    ledger = Ledger(settings().resolved_ledger_url)
    try:
        return _counted(store, ledger, cells, chains, invocation)
    finally:
        ledger.close()


def _counted(
    store: ArtifactStore,
    ledger: Ledger,
    cells: Sequence[Cell],
    chains: Mapping[tuple[str, Router], ChainKeys],
    invocation: str,
) -> dict[str, Any]:
    meter = Meter(ledger)
    by_backend: dict[str, set[str]] = {}
    executions: set[str] = set()
    calls_apart = executions_apart = 0
    for cell in cells:
        chain = chains[(cell.backend, cell.router)]
        layers = layers_of(store, {**chain.inputs(), "contributions": chain.contributions[cell.data_agent]})
        cell_calls, cell_executions = cell_items(cell, **layers)
        by_backend.setdefault(cell.backend, set()).update(cell_calls)
        executions |= cell_executions
        meter.add(cell, cell_calls, cell_executions)
        calls_apart += len(cell_calls)
        executions_apart += len(cell_executions)
    calls = set().union(*by_backend.values())
    made = {kind: ledger.count(kind, invocation) for kind in (MODEL_CALL, SQL_EXECUTION)}
    return {
        "model_calls": len(calls),
        "model_calls_made": made[MODEL_CALL],
        "model_calls_unshared": calls_apart,
        "sql_executions": len(executions),
        "sql_executions_made": made[SQL_EXECUTION],
        "sql_executions_unshared": executions_apart,
        "cost": cost_of(list(meter.metas.values())),
        "effective": effective_of(ledger, by_backend, meter.metas),
        "usage": meter.table(),
    }


def effective_of(
    ledger: Ledger, calls: Mapping[str, Collection[str]], metas: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """What was really sent for each backend, whatever its spec asks for (known fault M04): `temperature` (None: the provider's
    default) and `dropped`, the names of fields that were left out. Read from one stored call of each layer.

    `calls`: ledger keys by backend; `metas`: their metadata. Offline policies take no parameters and are left out.
    """
    found: dict[str, dict[str, Any]] = {}
    for backend, keys in sorted(calls.items()):
        first: dict[str, str] = {}
        for key in sorted(metas.keys() & keys):
            if metas[key]["audience"] != Audience.JUDGE:  # the judge is a backend of its own
                first.setdefault(metas[key]["layer"], key)
        stored = [
            json.loads(entry.payload)["request"]["parameters"] for entry in ledger.get_many(first.values()).values()
        ]
        sent = [parameters for parameters in stored if "effective" in parameters]
        if sent:
            dropped = sorted({name for parameters in sent for name in parameters["dropped"]})
            found[backend] = {"temperature": sent[0]["effective"].get("temperature"), "dropped": dropped}
    return found


def cost_of(metas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Known cost and tokens of model calls, and how many calls have none (unknown is never 0).

    `cached_tokens`: those of the prompt that providers said they read from their caches; of `unknown_cached_calls` nobody said.
    """
    costs = [meta["cost"] for meta in metas]
    cached = [meta.get("cached_tokens") for meta in metas]
    tokens = [(meta["prompt_tokens"], meta["completion_tokens"]) for meta in metas]
    return {
        "known_usd": sum(c for c in costs if c is not None),
        "unknown_calls": sum(c is None for c in costs),
        "tokens": sum(a + b for a, b in tokens if a is not None and b is not None),
        "unknown_token_calls": sum(a is None or b is None for a, b in tokens),
        "cached_tokens": sum(c for c in cached if c is not None),
        "unknown_cached_calls": sum(c is None for c in cached),
    }


def with_study(record: Mapping[str, Any], study: Mapping[str, Any]) -> dict[str, Any]:
    """The factorial's model-call counts with the routing study's calls added: its tables rest on them too.

    Unshared stays what separate cells would make.
    """
    if "model_calls" not in record or "routing_routes" not in study:
        return {}
    own = study_keys(study)
    inside = call_keys([parse(c) for c in record["cell_keys"]], recorded_chains(record))
    ledger = Ledger(settings().resolved_ledger_url)
    try:
        made = ledger.count(MODEL_CALL, study["invocation"])
        cost = cost_of(list(ledger.meta_of(own | inside).values()))
    finally:
        ledger.close()
    return {
        "model_calls": len(own | inside),
        "model_calls_study_only": len(own - inside),
        "model_calls_made": record["model_calls_made"] + made,
        "cost": cost,
    }


def study_keys(study: Mapping[str, Any]) -> set[str]:
    """Ledger keys of the model calls of a routing study (a record with `routing_routes`; others have none)."""
    store = ArtifactStore(settings().resolved_store_url)
    keys = study.get("routing_routes", {}).values()
    return {
        call for key in keys if store.ok(ROUTES, key) for row in read_rows(store, ROUTES, key) for call in row["calls"]
    }


def call_keys(cells: Sequence[Cell], chains: Mapping[tuple[str, Router], ChainKeys]) -> set[str]:
    """Ledger keys of every model call the cells rest on."""
    store = ArtifactStore(settings().resolved_store_url)
    found: set[str] = set()
    for cell in cells:
        chain = chains[(cell.backend, cell.router)]
        layers = layers_of(store, {**chain.inputs(), "contributions": chain.contributions[cell.data_agent]})
        found |= cell_items(cell, **layers)[0]
    return found
