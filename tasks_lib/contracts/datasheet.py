"""PRIVATE. The datasheet of a release: every heading of the paper's appendix J, filled from the release's own tables.

Belongs here: counting what the document says, and the published figures it stands beside (facts of Tables 2, 7-9 and B.6).
Does not belong here: the words (`documents/*.md.j2`), task cards (`task_cards`). The public part names no gold; what a request
leaves unsaid is listed by task in a private annex.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import mean
from typing import Any

from tasks_lib.contracts.cues import cue_audit
from tasks_lib.contracts.release_facts import DOCUMENTS, Facts
from tasks_lib.contracts.task_cards import task_cards
from tasks_lib.models.templates import render
from tasks_lib.protocol.records import Contract, PublicTask
from tasks_lib.protocol.vocabulary import Behavior, Corpus, Difficulty

CUE_SEED = 1
"""Of the audit's folds: fixed, so that releases can be compared."""
PAPER = {
    "tasks": 815,
    "corpus": {"spider": 537, "bird": 254, "livesqlbench": 24},
    "instances": {"spider": 166, "bird": 80, "livesqlbench": 18},
    "behavior": {"single": 92, "parallel": 305, "sequential": 22, "exploratory": 291, "interactive": 105},
    "difficulty": {"easy": 65, "medium": 516, "hard": 234},
    "required": {"1": 92, "2-3": 489, "4-5": 157, "6-8": 77},
    "joint": 618,
    "several": 723,
    "required_range": "1-8",
    "required_mean": 2.94,
    "candidates_range": "11-166",
    "candidates_mean": 66.08,
    "registry": 304,
    "cue_pattern": "242 of 291 exploratory tasks",
}
"""Published figures of the paper (Tables 2, 7-9; B.6)."""
LICENCES = (
    ("spider", "Spider 1.0", "CC BY-SA 4.0", "https://yale-lily.github.io/spider"),
    ("bird", "BIRD", "CC BY-SA 4.0", "https://bird-bench.github.io"),
    (
        "livesqlbench",
        "LiveSQLBench-Base-Full-v1",
        "CC BY 4.0 or CC BY-SA 4.0: the card of the copy decides",
        "https://livesqlbench.ai",
    ),
)
BANDS = (("1", range(1, 2)), ("2-3", range(2, 4)), ("4-5", range(4, 6)), ("6-8", range(6, 9)))
NOT_ORIGINAL = frozenset({"surrogate", "replica"})
"""Origins whose results may not be called results of the corpus."""


def cues_of(contracts: Sequence[Contract], tasks: Mapping[str, PublicTask]) -> dict[str, Any]:
    """The cue audit of a release's requests, as plain values."""
    found = cue_audit(
        [tasks[c.task_id].request for c in contracts],
        [c.behavior.value for c in contracts],
        [str(c.extra.get("template", "")) for c in contracts],
        [c.unit_ids for c in contracts],
        CUE_SEED,
    )
    return found.as_json()


def documents(facts: Facts) -> dict[str, str]:
    """Path in the release -> text of every document. The order of the facts' rows does not show."""
    unstated = sorted(facts.unstated, key=lambda row: (row["task_id"], row["unit_id"], row["position"]))
    facts = replace(facts, unstated=unstated)
    return {
        "public/datasheet.md": datasheet(facts),
        "private/datasheet_tasks.md": annex(facts),
        "private/task_cards.md": task_cards(facts),
    }


def datasheet(facts: Facts) -> str:
    """The public datasheet, Markdown."""
    return render(f"{DOCUMENTS}/datasheet.md.j2", **_values(facts)).text + "\n"


def annex(facts: Facts) -> str:
    """The private annex: per task, what its gold demands and its request does not say. Markdown."""
    by_task: dict[str, list[Mapping[str, Any]]] = {}
    for row in facts.unstated:
        by_task.setdefault(str(row["task_id"]), []).append(row)
    tasks = [
        {
            "task_id": c.task_id,
            "behavior": c.behavior.value,
            "request": facts.tasks[c.task_id].request,
            "found": by_task[c.task_id],
        }
        for c in sorted(facts.contracts, key=lambda c: c.task_id)
        if c.task_id in by_task
    ]
    return render(f"{DOCUMENTS}/datasheet_tasks.md.j2", tasks=tasks, total=len(facts.contracts)).text + "\n"


def band(required: int) -> str:
    """The column of PROTOCOL 2 that a number of required databases falls into."""
    return next(name for name, sizes in BANDS if required in sizes)


def marks(facts: Facts) -> list[dict[str, Any]]:
    """Per corpus and origin: databases in the registry, and tasks that require at least one of them."""
    origin = {row["database_id"]: (row["corpus"], row["origin"]) for row in facts.databases}
    registered = Counter(origin.values())
    tasks = Counter(pair for c in facts.contracts for pair in {origin[d] for d in c.databases})
    return [
        {"corpus": corpus, "origin": kind, "databases": n, "tasks": tasks[corpus, kind], "marked": kind in NOT_ORIGINAL}
        for (corpus, kind), n in sorted(registered.items())
    ]


def _values(facts: Facts) -> dict[str, Any]:
    contracts = facts.contracts
    required = [len(c.databases) for c in contracts]
    sizes = [len(facts.tasks[c.task_id].allowlist) for c in contracts]
    seen: dict[str, set[str]] = {}
    for contract in contracts:
        seen.setdefault(contract.corpus.value, set()).update(facts.tasks[contract.task_id].allowlist)
    corpora = [c.value for c in Corpus if any(row["corpus"] == c.value for row in facts.databases)]
    return {
        "facts": facts,
        "paper": PAPER,
        "corpora": corpora,
        "tasks": len(contracts),
        "by_corpus": _count(corpora, (c.corpus.value for c in contracts)),
        "instances": {corpus: len(seen.get(corpus, ())) for corpus in corpora},
        "registry": _count(corpora, (row["corpus"] for row in facts.databases)),
        "by_behavior": _count([b.value for b in Behavior], (c.behavior.value for c in contracts)),
        "by_difficulty": _count([d.value for d in Difficulty], (c.difficulty.value for c in contracts)),
        "by_band": _count([name for name, _ in BANDS], map(band, required)),
        "behavior_by_corpus": {
            corpus: _count(
                [b.value for b in Behavior], (c.behavior.value for c in contracts if c.corpus.value == corpus)
            )
            for corpus in corpora
        },
        "joint": sum(
            n > 1 and c.behavior is not Behavior.INTERACTIVE for n, c in zip(required, contracts, strict=True)
        ),
        "several": sum(n > 1 for n in required),
        "edges": sum(len(c.edges) for c in contracts),
        "chains": sum(len(c.edges) >= 2 for c in contracts),
        "required_range": _range(required),
        "required_mean": round(mean(required), 2) if required else 0,
        "candidates_range": _range(sizes),
        "candidates_mean": round(mean(sizes), 2) if sizes else 0,
        "marks": marks(facts),
        "unit_counts": _unit_counts(facts, corpora),
        "gate_counts": _gate_counts(facts.gates),
        "renderers": dict(sorted(Counter(str(row["renderer"]) for row in facts.wordings).items())),
        "templates": len({str(row["template"]).split("#")[0] for row in facts.wordings}),
        "unstated_counts": dict(sorted(Counter(str(row["kind"]) for row in facts.unstated).items())),
        "unstated_tasks": len({row["task_id"] for row in facts.unstated}),
        "licences": [row for row in LICENCES if row[0] in corpora],
        "embedded": any(row["origin"] == "embedded" for row in facts.databases),
    }


def _count(names: Iterable[str], values: Iterable[str]) -> dict[str, int]:
    found = Counter(values)
    return {name: found[name] for name in names}


def _range(values: Sequence[int]) -> str:
    return f"{min(values)}-{max(values)}" if values else "–"


def _unit_counts(facts: Facts, corpora: Sequence[str]) -> list[dict[str, Any]]:
    required = {unit_id for c in facts.contracts for unit_id in c.unit_ids}
    found = []
    for corpus in corpora:
        rows = [row for row in facts.units if row["corpus"] == corpus]
        flags = Counter(flag for row in rows for flag in row["flags"])
        used = sum(row["unit_id"] in required for row in rows)
        found.append({"corpus": corpus, "units": len(rows), "used": used, "flags": dict(sorted(flags.items()))})
    return found


def _gate_counts(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Gate -> passed and refused over all corpora and behaviors, in the order of the rounds."""
    found: dict[str, list[int]] = {}
    for row in sorted(rows, key=lambda row: int(row["position"])):
        counts = found.setdefault(str(row["gate"]), [0, 0])
        counts[0] += int(row["passed"])
        counts[1] += int(row["refused"])
    return [{"gate": gate, "passed": passed, "refused": refused} for gate, (passed, refused) in found.items()]
