"""The gate before publication: everything `dsabench verify` checks, as one report."""

from __future__ import annotations

import uuid
from typing import Any

from flows import runs
from flows.counts import call_keys, study_keys
from flows.layers import wanted_tasks
from flows.runtime import write_json
from flows.wanted import ChainKeys, RunSpec, recorded_chains
from tasks_lib.evaluation.gold import Gold, GoldFault
from tasks_lib.evaluation.inputs import load
from tasks_lib.protocol.vocabulary import DataAgent, Router
from tasks_lib.scoring.cells import parse
from tasks_lib.scoring.gate import check_episodes, check_grid, check_metrics
from tasks_lib.scoring.metrics import cell_metrics
from tasks_lib.scoring.publish import read_episodes
from tasks_lib.scoring.recompute import check as recompute
from tasks_lib.scoring.tables import layers_of
from tasks_lib.scoring.targets import episodes_of
from tasks_lib.scoring.verify import check_diagnostics, check_fused, check_invariants
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.schemas import ASKS, CONTRIBUTIONS, EPISODES, METRICS, PLANS, RELEASES, ROUTES
from tasks_lib.store.settings import settings


async def verify_run(run: RunSpec, record: dict[str, Any]) -> dict[str, Any]:
    """The verification report of a run, also written beside its record; `ok` only when nothing was found."""
    store = ArtifactStore(settings().resolved_store_url)
    inputs = load(run.release)
    contracts = [inputs.contracts[t] for t in wanted_tasks(run)]
    requests = {t: task.request for t, task in inputs.tasks.items()}
    keys: dict[str, str] = record.get("cell_keys", {})
    chains = recorded_chains(record)
    problems: list[str] = []
    if not keys or "metrics_key" not in record:
        problems.append(f"run {run.run_id} has no scored cells; resume it before verifying.")
    missing = [c for c, k in keys.items() if not store.ok(EPISODES, k)]
    if missing:
        problems.append(
            f"{len(missing)} episode partitions are missing or damaged (first {missing[0]}); run again to recompute them."
        )
    lost = _lost_layers(store, chains)
    if lost:
        missing.append(lost[0])
        problems.append(
            f"{len(lost)} layer artifacts are missing, damaged or of another version (first {lost[0]}); run again to recompute them."
        )
    report: dict[str, Any] = {"run": run.run_id, "recomputed_values": 0, "max_discrepancy": 0.0}
    if not problems and record.get("status") != "incomplete":  # whose record already says what is missing
        problems += check_grid(keys, [b.name for b in run.backends])
    if not problems:
        metrics = store.read(METRICS, record["metrics_key"])
        with store.files(EPISODES, keys.values()) as files:
            again = recompute(files, metrics)
        report |= {"recomputed_values": again.compared, "max_discrepancy": again.worst}
        problems += again.problems
        episodes = read_episodes(store, list(keys.values()))
        targets = episodes_of(contracts)
        problems += check_episodes(episodes, targets, keys)
        problems += check_metrics(metrics, targets, keys, cell_metrics(run.ask_scope))
        problems += check_invariants(episodes)
        problems += _fused(store, requests, chains)
    ledger = Ledger(settings().resolved_ledger_url, run=f"verify:{uuid.uuid4().hex[:8]}")
    try:
        async with SqlRunner(ledger) as runner:
            gold = Gold(inputs.usable_units, inputs.handles, runner)
            report["gold_certificate"] = await _certificate(gold, problems)
            if report["gold_certificate"]["ok"]:
                problems += await check_diagnostics(contracts, requests, gold, runner)
        shown = (call_keys([parse(c) for c in keys], chains) | study_keys(record)) if not missing else set()
        findings = inputs.scanner.scan_calls(ledger, shown)
    finally:
        ledger.close()
    report["leak_findings"] = len(findings)
    problems += [f"leak: {f.kind} {f.found!r} was shown to a {f.audience} (… {f.excerpt} …)." for f in findings[:20]]
    report |= {"ok": not problems, "problems": problems}
    write_json(runs.run_folder(run.run_id) / "verification.json", report)
    return report


async def _certificate(gold: Gold, problems: list[str]) -> dict[str, Any]:
    try:
        counts = await gold.check_all()
        wrong = await gold.certificate()
    except GoldFault as fault:
        problems.append(str(fault))
        return {"ok": False, "units": {}}
    problems += [f"gold of {u} does not score correct against itself." for u in wrong]
    return {"ok": not wrong, "units": counts}


def _lost_layers(store: ArtifactStore, chains: dict[tuple[str, Router], ChainKeys]) -> list[str]:
    """Layers that verification reads and the store does not hold, as `<layer> of <backend> <router>`."""
    tables = {"routes": ROUTES, "clarified": ROUTES, "asks": ASKS, "releases": RELEASES, "plans": PLANS}
    lost = []
    for (backend, router), chain in chains.items():
        wanted = [(tables[name], key, name) for name, key in chain.inputs().items()]
        wanted += [(CONTRIBUTIONS, key, f"contributions {agent}") for agent, key in chain.contributions.items()]
        lost += [f"{name} of {backend} {router}" for table, key, name in wanted if not store.ok(table, key)]
    return lost


def _fused(store: ArtifactStore, requests: dict[str, str], chains: dict[tuple[str, Router], ChainKeys]) -> list[str]:
    for chain in chains.values():
        for agent in DataAgent:
            layers = layers_of(store, {**chain.inputs(), "contributions": chain.contributions[agent]})
            questions = {a["task_id"]: a["question"] for a in layers["asks"]}
            exchanges = {
                (r["task_id"], r["branch_id"]): (questions[r["task_id"]], r["answer"])
                for r in layers["releases"]
                if r["released"]
            }
            found = check_fused(layers["contributions"], requests, exchanges)
            if found:
                return found
    return []
