"""What the tables of a run rest on, what was paid for now, and what separate cells would have paid (DESIGN, wanted ▷ done)."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from flows import passed, runs
from flows.usage import Meter, told_of
from flows.wanted import ChainKeys, recorded_chains
from tasks_lib.models.transcripts import KIND as MODEL_CALL
from tasks_lib.protocol.records import Cell
from tasks_lib.protocol.vocabulary import Audience, DataAgent, Router
from tasks_lib.scoring.cells import parse
from tasks_lib.scoring.layers import COLUMNS, ChainLayers, Lineage, lineage
from tasks_lib.sql.execute import LEDGER_KIND as SQL_EXECUTION
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.keys import code_digest, digest
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.schemas import ASKS, CONTRIBUTIONS, PLANS, RELEASES, ROUTES, Table
from tasks_lib.store.settings import settings

CODE = ("flows/counts.py", "flows/usage.py", "tasks_lib/scoring/layers.py")


def shared_counts(
    run_id: str, cells: Sequence[Cell], chains: Mapping[tuple[str, Router], ChainKeys], invocation: str
) -> dict[str, Any]:
    """model_calls, model_calls_made, model_calls_unshared, the same three for sql_executions, cost (unknown is never 0),
    effective (see `effective_of`), and usage of cells and backends (see `flows.usage`).

    All but what was made now follows from the layers, so that it is counted once and kept beside the run's record.
    """
    ledger = Ledger(settings().resolved_ledger_url)
    try:
        mine = {(c.backend, c.router): chains[(c.backend, c.router)] for c in cells}
        counts = _kept(run_id, "cells", _of(cells, mine), lambda: _counted(ledger, cells, chains))
        counts["model_calls_made"] = ledger.count(MODEL_CALL, invocation)
        counts["sql_executions_made"] = ledger.count(SQL_EXECUTION, invocation)
        return counts
    finally:
        ledger.close()


def whole(run_id: str, record: Mapping[str, Any]) -> bool:
    """Whether what the record says was counted is kept, over the layers as they are now: every call was in the ledger then."""
    cells, chains = [parse(c) for c in record["cell_keys"]], recorded_chains(record)
    wanted = {"cells": _of(cells, chains), "study": _of(cells, chains, record["routing_routes"])}
    return all(passed.read_kept(*_place(run_id, name, of)) is not None for name, of in wanted.items())


def _of(cells: Sequence[Cell], chains: passed.Chains, study: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What counts follow from: the cells, and the bytes of their layers."""
    return {"cells": sorted(c.cell_id for c in cells), "layers": passed.contents(passed.layers(chains, study))}


def _place(run_id: str, name: str, of: object) -> tuple[Path, str]:
    key = digest({"of": of, "ledger": settings().resolved_ledger_url, "code": code_digest(*CODE)})
    return runs.run_folder(run_id) / "counts" / f"{name}.json", key


def _kept(run_id: str, name: str, of: object, count: Callable[[], tuple[dict[str, Any], bool]]) -> dict[str, Any]:
    """What was counted before over the same layers, ledger and code, else what is counted now.

    `count`: (counts, whether the ledger held every call); only whole counts are kept, since a ledger may still be imported.
    """
    path, key = _place(run_id, name, of)
    if (held := passed.read_kept(path, key)) is not None:
        return held
    counts, every = count()
    if every:
        passed.write_kept(path, key, counts)
    return counts


def _counted(
    ledger: Ledger, cells: Sequence[Cell], chains: Mapping[tuple[str, Router], ChainKeys]
) -> tuple[dict[str, Any], bool]:
    meter = Meter(ledger)
    calls: list[pl.Series] = []
    executions: list[pl.Series] = []
    calls_apart = executions_apart = 0
    for backend, found in lineages(cells, chains):
        meter.add(backend, found)
        calls.append(found.calls)
        executions.append(found.executions)
        calls_apart += sum(len(own) for own, _ in found.cells.values())
        executions_apart += sum(len(own) for _, own in found.cells.values())
    told, distinct = pl.concat(meter.told.values()).unique("key"), pl.concat(calls).n_unique()
    counts = {
        "model_calls": distinct,
        "model_calls_unshared": calls_apart,
        "sql_executions": pl.concat(executions).n_unique(),
        "sql_executions_unshared": executions_apart,
        "cost": cost_of(told, distinct),
        "effective": effective_of(ledger, meter.told),
        "usage": meter.table(),
    }
    return counts, told.height == distinct


def lineages(cells: Sequence[Cell], chains: Mapping[tuple[str, Router], ChainKeys]) -> Iterator[tuple[str, Lineage]]:
    """What the cells of each backend rest on, one backend in memory at a time."""
    store = ArtifactStore(settings().resolved_store_url)
    for backend in dict.fromkeys(c.backend for c in cells):
        own = [c for c in cells if c.backend == backend]
        agents = {c.router: {d.data_agent for d in own if d.router is c.router} for c in own}
        layers = {router: _layers(store, chains[(backend, router)], some) for router, some in agents.items()}
        yield backend, lineage(own, layers)


def _layers(store: ArtifactStore, chain: ChainKeys, agents: Collection[DataAgent]) -> ChainLayers:
    def read(table: Table, key: str) -> pl.DataFrame:
        return store.read(table, key, COLUMNS[table.name])

    return ChainLayers(
        pl.concat([read(ROUTES, chain.routes), read(ROUTES, chain.clarified)]),
        read(ASKS, chain.asks),
        read(RELEASES, chain.releases),
        read(PLANS, chain.plans),
        {agent: read(CONTRIBUTIONS, key) for agent, key in chain.contributions.items() if agent in agents},
    )


def effective_of(ledger: Ledger, told: Mapping[str, pl.DataFrame]) -> dict[str, dict[str, Any]]:
    """What was really sent for each backend, whatever its spec asks for (known fault M04): `temperature` (None: the provider's
    default) and `dropped`, the names of fields that were left out. Read from one stored call of each layer.

    `told`: what the ledger holds of calls (see `told_of`) by backend. Offline policies take no parameters and are left out.
    """
    found: dict[str, dict[str, Any]] = {}
    for backend, calls in sorted(told.items()):
        asked = calls.filter(pl.col("audience") != Audience.JUDGE)  # the judge is a backend of its own
        first = asked.group_by("layer").agg(pl.col("key").min())["key"].sort().to_list()
        entries = ledger.get_many(first)
        stored = [json.loads(entries[key].payload)["request"]["parameters"] for key in first]
        sent = [parameters for parameters in stored if "effective" in parameters]
        if sent:
            dropped = sorted({name for parameters in sent for name in parameters["dropped"]})
            found[backend] = {"temperature": sent[0]["effective"].get("temperature"), "dropped": dropped}
    return found


def cost_of(told: pl.DataFrame, calls: int) -> dict[str, Any]:
    """Known cost and tokens of model calls, and how many calls have none (unknown is never 0).

    `told`: see `told_of`. `calls`: how many there are; of those that the ledger does not hold nothing is known.
    `cached_tokens`: those of the prompt that providers said they read from their caches; of `unknown_cached_calls` nobody said.
    """
    tokens, lost = told["prompt_tokens"] + told["completion_tokens"], calls - told.height
    return {
        # Sorted, so that no order reaches the last digit of a sum.
        "known_usd": float(told["cost"].drop_nulls().sort().sum()),
        "unknown_calls": told["cost"].null_count() + lost,
        "tokens": int(tokens.sum()),
        "unknown_token_calls": tokens.null_count() + lost,
        "cached_tokens": int(told["cached_tokens"].sum()),
        "unknown_cached_calls": told["cached_tokens"].null_count() + lost,
    }


def with_study(record: Mapping[str, Any], study: Mapping[str, Any]) -> dict[str, Any]:
    """The factorial's model-call counts with the routing study's calls added: its tables rest on them too.

    Unshared stays what separate cells would make.
    """
    if "model_calls" not in record or "routing_routes" not in study:
        return {}
    ledger = Ledger(settings().resolved_ledger_url)
    try:

        def count() -> tuple[dict[str, Any], bool]:
            only = study_keys(study) - call_keys([parse(c) for c in record["cell_keys"]], recorded_chains(record))
            told = told_of(ledger, only)
            return {"model_calls": len(only), "cost": cost_of(told, len(only))}, told.height == len(only)

        of = _of([parse(c) for c in record["cell_keys"]], recorded_chains(record), study["routing_routes"])
        more = _kept(record["run"], "study", of, count)
        made = ledger.count(MODEL_CALL, study["invocation"])
    finally:
        ledger.close()
    return {
        "model_calls": record["model_calls"] + more["model_calls"],
        "model_calls_study_only": more["model_calls"],
        "model_calls_made": record["model_calls_made"] + made,
        "cost": {name: known + more["cost"][name] for name, known in record["cost"].items()},
    }


def study_keys(study: Mapping[str, Any]) -> set[str]:
    """Ledger keys of the model calls of a routing study (a record with `routing_routes`; others have none)."""
    store = ArtifactStore(settings().resolved_store_url)
    found: set[str] = set()
    for key in study.get("routing_routes", {}).values():
        if store.ok(ROUTES, key):
            found.update(store.read(ROUTES, key, ["calls"])["calls"].explode().drop_nulls())
    return found


def call_keys(cells: Sequence[Cell], chains: Mapping[tuple[str, Router], ChainKeys]) -> set[str]:
    """Ledger keys of every model call the cells rest on."""
    found: set[str] = set()
    for _, one in lineages(cells, chains):
        found.update(one.calls)
    return found
