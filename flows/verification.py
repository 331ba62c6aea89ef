"""The gate before publication: everything `dsabench verify` checks, as one report, and what it makes of the run's status.

The grid is looked at one chain (backend and router) at a time, so that memory does not grow with the number of cells.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from flows import passed, runs
from flows.counts import call_keys, study_keys
from flows.runtime import write_json
from flows.wanted import ChainKeys, RunSpec, recorded_chains, wanted_tasks
from tasks_lib.evaluation.gold import Gold, GoldFault
from tasks_lib.evaluation.inputs import Inputs, load
from tasks_lib.evaluation.leaks import Finding
from tasks_lib.protocol.vocabulary import Router
from tasks_lib.scoring.cells import parse
from tasks_lib.scoring.findings import Found, found, told
from tasks_lib.scoring.gate import check_episodes, check_grid, check_metrics, check_partition
from tasks_lib.scoring.metrics import cell_metrics
from tasks_lib.scoring.recompute import Recomputation
from tasks_lib.scoring.recompute import check as recompute
from tasks_lib.scoring.targets import episodes_of
from tasks_lib.scoring.verify import FUSED_COLUMNS, check_diagnostics, check_fused, check_invariants
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.keys import sha256_file
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.schemas import ASKS, CONTRIBUTIONS, EPISODES, METRICS, RELEASES, ROUTES
from tasks_lib.store.settings import settings

Chains = Mapping[tuple[str, Router], ChainKeys]
SHOWN = 20
"""Leaks that are told one by one."""


async def verify_run(run: RunSpec, record: dict[str, Any], fresh: bool = True) -> dict[str, Any]:
    """The verification report of a run, also written beside its record, whose status follows it (see `_marked`).

    `fresh`: make every check now; else the two long ones that look at no scored table (gold, leaks) are not made again where this home
    has passed them with the same release, layers and code.

    `ok`: nothing was found in what is there. `complete`: the record says of nothing that it is missing, else `reason` says what.
    `readable`: every table and partition of the run can be read.
    """
    store, inputs = ArtifactStore(settings().resolved_store_url), load(run.release)
    keys: dict[str, str] = record.get("cell_keys", {})
    chains = recorded_chains(record)
    complete = record.get("status") not in ("incomplete", "running")
    problems = _another_release(run)
    if not keys or "metrics_key" not in record:
        problems.append(f"run {run.run_id} has no scored cells; resume it before verifying.")
    missing = _missing(store, record, chains)
    problems += missing
    if complete and not problems:  # else the record already says what is missing
        problems += check_grid(keys, [b.name for b in run.backends])
    again = Recomputation(0, 0.0, ())
    if not problems:
        again, faults = _tables(store, run, record, inputs)
        problems += [*again.problems, *told([*faults, *_fused(store, inputs, chains)])]
    report: dict[str, Any] = {
        "run": run.run_id,
        "recomputed_values": again.compared,
        "max_discrepancy": again.worst,
    }
    ledger = Ledger(settings().resolved_ledger_url, run=f"verify:{uuid.uuid4().hex[:8]}")
    try:
        report["gold_certificate"] = await _gold_once(run, inputs, ledger, problems, fresh)
        findings = [] if missing else _leaks(run, record, chains, inputs, ledger, problems, fresh)
    finally:
        ledger.close()
    report["leak_findings"] = len(findings)
    problems += [f"leak: {f.kind} {f.found!r} was shown to a {f.audience} (… {f.excerpt} …)." for f in findings[:SHOWN]]
    report |= {"ok": not problems, "complete": complete, "readable": not missing, "problems": problems}
    report["reason"] = (
        "" if complete else record.get("reason") or "no reason is recorded; resume it with `dsabench run`."
    )
    write_json(runs.run_folder(run.run_id) / "verification.json", report)
    _marked(run, record, problems)
    return report


def _marked(run: RunSpec, record: dict[str, Any], problems: list[str]) -> None:
    """A completed run that fails its checks is `failed` with the reason, and completed again when it passes them.

    One that is incomplete or at work keeps its status: that says what is missing.
    """
    status, reason = ("failed", " ".join(problems[:5])) if problems else ("completed", "")
    before = (record.get("status"), record.get("reason"))
    if before[0] in ("completed", "failed") and before != (status, reason):
        record |= {"status": status, "reason": reason}
        write_json(runs.run_folder(run.run_id) / "run.json", record)


def _another_release(run: RunSpec) -> list[str]:
    """The release in the run's folder is the one it was scored on."""
    now = sha256_file(Path(run.release) / "manifest.json")
    if now == run.manifest:
        return []
    return [
        f"the release in {run.release} has manifest {now[:12]}, expected {run.manifest[:12]}, on which {run.run_id} was scored; put that "
        "release back, or run the new one."
    ]


def _missing(store: ArtifactStore, record: Mapping[str, Any], chains: Chains) -> list[str]:
    """What verification reads and the store does not hold: tables, partitions, layers."""
    problems = []
    tables = [name for name, (table, key) in passed.tables(record).items() if not store.ok(table, key)]
    if tables:
        problems.append(
            f"{len(tables)} tables of the run are missing, damaged or of another version (first {tables[0].removesuffix('_key')}); run "
            "again to write them anew."
        )
    lost = [c for c, k in record.get("cell_keys", {}).items() if not store.ok(EPISODES, k)]
    if lost:
        problems.append(
            f"{len(lost)} episode partitions are missing or damaged (first {lost[0]}); run again to recompute them."
        )
    layers = list(_lost_layers(store, chains))
    layers += [f"study {n}" for n, k in record.get("routing_routes", {}).items() if not store.ok(ROUTES, k)]
    if layers:
        problems.append(
            f"{len(layers)} layer artifacts are missing, damaged or of another version (first {layers[0]}); run again to recompute them."
        )
    return problems


def _lost_layers(store: ArtifactStore, chains: Chains) -> Iterator[str]:
    """Layers that verification reads and the store does not hold, as `<layer> of <backend> <router>`."""
    for (backend, router), chain in chains.items():
        wanted = [(passed.LAYERS[name], key, name) for name, key in chain.inputs().items()]
        wanted += [(CONTRIBUTIONS, key, f"contributions {agent}") for agent, key in chain.contributions.items()]
        yield from (f"{name} of {backend} {router}" for table, key, name in wanted if not store.ok(table, key))


def _tables(
    store: ArtifactStore, run: RunSpec, record: Mapping[str, Any], inputs: Inputs
) -> tuple[Recomputation, list[Found]]:
    """Headline values anew, counts and invariants of the cells, a chain's cells at a time."""
    targets = episodes_of(inputs.contracts[t] for t in wanted_tasks(run))
    names = cell_metrics(run.ask_scope)
    metrics = store.read(METRICS, record["metrics_key"])
    keys: Mapping[str, str] = record["cell_keys"]
    again = Recomputation(0, 0.0, ())
    faults = found(
        "{count} metric rows are of cells that the run does not have (first {first}); publish its tables anew.",
        metrics.filter(~pl.col("cell_id").is_in(list(keys))).select("cell_id", "metric"),
    )
    for cells in _chains_of(keys):
        mine = metrics.filter(pl.col("cell_id").is_in(cells))
        with store.files(EPISODES, [keys[c] for c in cells]) as files:
            again += recompute(files, mine)
        parts = {c: store.read(EPISODES, keys[c]) for c in cells}
        for cell_id, part in parts.items():
            faults += check_partition(cell_id, part)
        episodes = pl.concat(parts.values())
        faults += check_episodes(episodes, targets, cells)
        faults += check_metrics(mine, targets, cells, names)
        faults += check_invariants(episodes)
    return again, faults


def _chains_of(cell_ids: Mapping[str, str]) -> list[list[str]]:
    """Cells by backend and router, in order."""
    groups: dict[tuple[str, str], list[str]] = {}
    for cell_id in cell_ids:
        cell = parse(cell_id)
        groups.setdefault((cell.backend, cell.router), []).append(cell_id)
    return list(groups.values())


def _fused(store: ArtifactStore, inputs: Inputs, chains: Chains) -> list[Found]:
    requests = {t: task.request for t, task in inputs.tasks.items()}
    faults: list[Found] = []
    for chain in chains.values():
        questions = dict(store.read(ASKS, chain.asks, ["task_id", "question"]).iter_rows())
        released = store.read(RELEASES, chain.releases, ["task_id", "branch_id", "answer", "released"])
        exchanges = {(t, b): (questions[t], answer) for t, b, answer, given in released.iter_rows() if given}
        for key in chain.contributions.values():
            faults += check_fused(store.read(CONTRIBUTIONS, key, FUSED_COLUMNS), requests, exchanges)
    return faults


def _leaks(
    run: RunSpec,
    record: Mapping[str, Any],
    chains: Chains,
    inputs: Inputs,
    ledger: Ledger,
    problems: list[str],
    fresh: bool,
) -> list[Finding]:
    """What the run's calls showed and may not. Calls that cannot be looked at are added to `problems`."""
    key = passed.scan_key(run, record, chains)
    if not fresh and passed.passed(key) is not None:
        return []
    shown = call_keys([parse(c) for c in record.get("cell_keys", {})], chains) | study_keys(record)
    if lost := ledger.lacking(shown):
        problems.append(
            f"{len(lost)} model calls that the run rests on are not in the ledger (first {min(lost)}), expected all {len(shown)} to be scanned "
            "for leaks; restore the ledger, or import them with `dsabench ledger import`."
        )
    findings = inputs.scanner.scan_calls(ledger, shown)
    if not findings and not lost:
        passed.keep(key, {"calls": len(shown)})
    return findings


async def _gold_once(run: RunSpec, inputs: Inputs, ledger: Ledger, problems: list[str], fresh: bool) -> dict[str, Any]:
    """`_gold`, or what it found before."""
    key = passed.gold_key(run)
    if not fresh and (before := passed.passed(key)) is not None:
        return before
    already = len(problems)
    found = await _gold(run, inputs, ledger, problems)
    if len(problems) == already:
        passed.keep(key, found)
    return found


async def _gold(run: RunSpec, inputs: Inputs, ledger: Ledger, problems: list[str]) -> dict[str, Any]:
    """The gold certificate; where it holds, the diagnostics too. Adds to `problems`."""
    async with SqlRunner(ledger) as runner:
        gold = Gold(inputs.usable_units, inputs.handles, runner)
        try:
            counts = await gold.check_all()
            wrong = await gold.certificate()
        except GoldFault as fault:
            problems.append(str(fault))
            return {"ok": False, "units": {}}
        problems += [f"gold of {u} does not score correct against itself." for u in wrong]
        if not wrong:
            requests = {t: task.request for t, task in inputs.tasks.items()}
            contracts = [inputs.contracts[t] for t in wanted_tasks(run)]
            problems += await check_diagnostics(contracts, requests, gold, runner)
    return {"ok": not wrong, "units": counts}
