"""PRIVATE. Task cards: a sample of tasks laid open as in the paper's appendix H, one of each corpus and behavior.

Cards hold gold and physical names. Does not belong here: the datasheet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks_lib.contracts.release_facts import DOCUMENTS, Facts
from tasks_lib.models.templates import render
from tasks_lib.protocol.records import Contract
from tasks_lib.protocol.vocabulary import Behavior, Corpus
from tasks_lib.store.keys import digest

STRUCTURES = {
    Behavior.SINGLE: "One database among distractors; no edge, no branch.",
    Behavior.PARALLEL: "Independent units, then one synthesis of their results; no edge.",
    Behavior.SEQUENTIAL: "The upstream result is bound into the downstream query; without it that query cannot be run.",
    Behavior.EXPLORATORY: "The sources have to be found by what they can answer; no edge.",
    Behavior.INTERACTIVE: "Two branches of one database each; the request leaves open which is meant.",
}


def task_cards(facts: Facts) -> str:
    """Cards of the first task, by digest of its id, of every corpus and behavior that has one. Markdown."""
    units = {row["unit_id"]: row for row in facts.units}
    chosen: dict[tuple[Corpus, Behavior], Contract] = {}
    for contract in sorted(facts.contracts, key=lambda c: digest(c.task_id)):
        chosen.setdefault((contract.corpus, contract.behavior), contract)
    cards = [
        _card(chosen[corpus, behavior], facts, units)
        for behavior in Behavior
        for corpus in Corpus
        if (corpus, behavior) in chosen
    ]
    return render(f"{DOCUMENTS}/task_cards.md.j2", cards=cards).text + "\n"


def _card(contract: Contract, facts: Facts, units: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    names = dict(zip(contract.unit_ids, contract.databases, strict=True))
    physical = {row["database_id"]: row["database"] for row in facts.databases}
    said: list[dict[str, Any]] = next(
        (row["contributions"] for row in facts.wordings if row["task_id"] == contract.task_id), []
    )
    return {
        "contract": contract,
        "request": facts.tasks[contract.task_id].request,
        "candidates": len(facts.tasks[contract.task_id].allowlist),
        "structure": STRUCTURES[contract.behavior],
        "units": [{**units[u], "public": names[u], "physical": physical[names[u]]} for u in contract.unit_ids],
        "edges": [(physical[a], physical[b]) for a, b in contract.edges],
        "said": {item["unit_id"]: item["words"] for item in said},
        "unstated": [row for row in facts.unstated if row["task_id"] == contract.task_id],
    }
