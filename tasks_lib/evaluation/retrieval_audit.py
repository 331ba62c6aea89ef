"""Retrieval audit: how often search finds what is required, per source unit and per task (PROTOCOL 6; paper C.4, C.5).

The only place where search results meet gold targets. Report-only: nothing here feeds back into weights or the catalog.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tasks_lib.models.embeddings import embed
from tasks_lib.protocol.records import PublicTask
from tasks_lib.protocol.vocabulary import Behavior, Corpus, Split
from tasks_lib.routeenv.search import POOL, SHORTLIST, Catalog

CANDIDATE_AT = (10, 20, 50)
RERANKED_AT = (3, 5, 10)
SIZES = (("1", 1, 1), ("2-3", 2, 3), ("4-5", 4, 5), ("6-8", 6, 8))
"""Cuts by number of required databases (PROTOCOL 2)."""

_BATCH = 512


@dataclass(frozen=True, slots=True)
class AuditedUnit:
    """PRIVATE. A source question and the public id of the database that owns it."""

    question: str
    database_id: str
    corpus: Corpus
    split: Split


@dataclass(frozen=True, slots=True)
class AuditedTask:
    """PRIVATE. A task with its target list (of an interactive task: the union of its branches)."""

    task: PublicTask
    targets: tuple[str, ...]
    behavior: Behavior


def target_recall(targets: Collection[str], found: Iterable[str]) -> float:
    """|G ∩ C| / |G| of one task."""
    return len(set(targets) & set(found)) / len(set(targets))


def all_target_coverage(targets: Collection[str], found: Iterable[str]) -> float:
    """1 when every target was found, else 0."""
    return float(set(targets) <= set(found))


def reciprocal_rank(owner: str, found: Sequence[str]) -> float:
    """1 / place of the owner, 0 when it is not in the list."""
    return 1 / (found.index(owner) + 1) if owner in found else 0.0


def size_of(targets: Collection[str]) -> str:
    """The size cut of a target list. Raises ValueError outside 1..8."""
    n = len(set(targets))
    for name, low, high in SIZES:
        if low <= n <= high:
            return name
    raise ValueError(f"Retrieval audit: a task has {n} required databases, expected 1 to 8; check the contract.")


class _Means:
    """Means by row key of the audit table."""

    def __init__(self) -> None:
        self.values: defaultdict[tuple[str, str, str, str, str], list[float]] = defaultdict(list)

    def add(self, scope: str, cuts: Iterable[tuple[str, str]], stage: str, metric: str, value: float) -> None:
        for name, of in cuts:
            self.values[scope, name, of, stage, metric].append(value)

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "scope": scope,
                "slice": name,
                "value_of": of,
                "stage": stage,
                "metric": metric,
                "value": sum(values) / len(values),
                "n": len(values),
            }
            for (scope, name, of, stage, metric), values in sorted(self.values.items())
        ]


def audit_units(catalog: Catalog, units: Sequence[AuditedUnit]) -> list[dict[str, Any]]:
    """Rows of `audit` per source unit: Recall@50 of candidates, Recall@10 and MRR of the reranked list over the whole scope.

    Scopes own_corpus and whole_registry (the whole catalog); slices all, corpus and split.
    """
    means = _Means()
    registry = tuple(catalog.databases)
    own = {corpus: tuple(n for n, row in catalog.databases.items() if row["corpus"] == corpus) for corpus in Corpus}
    for at in range(0, len(units), _BATCH):
        part = units[at : at + _BATCH]
        embed([unit.question for unit in part])  # one pass of the model instead of one a search
        for unit in part:
            cuts = (("all", "all"), ("corpus", unit.corpus.value), ("split", unit.split.value))
            for scope, allow in (("own_corpus", own[unit.corpus]), ("whole_registry", registry)):
                pool = [n for n, _ in catalog.search(unit.question, allow, POOL, stage="candidate")]
                order = [n for n, _ in catalog.search(unit.question, allow, len(allow))]
                means.add(scope, cuts, "candidate", f"recall_at_{POOL}", float(unit.database_id in pool))
                means.add(
                    scope, cuts, "reranked", f"recall_at_{SHORTLIST}", float(unit.database_id in order[:SHORTLIST])
                )
                means.add(scope, cuts, "reranked", "mrr", reciprocal_rank(unit.database_id, order))
    return means.rows()


def audit_tasks(catalog: Catalog, tasks: Sequence[AuditedTask]) -> list[dict[str, Any]]:
    """Rows of `audit` per task, searched inside its allowlist: TargetRecall and AllTargetCoverage at K by stage.

    Slices all, corpus, behavior and size (number of required databases).
    """
    means = _Means()
    for item in tasks:
        cuts = (
            ("all", "all"),
            ("corpus", item.task.corpus.value),
            ("behavior", item.behavior.value),
            ("size", size_of(item.targets)),
        )
        for stage, places in (("candidate", CANDIDATE_AT), ("reranked", RERANKED_AT)):
            found = [
                name
                for name, _ in catalog.search(
                    item.task.request,
                    item.task.allowlist,
                    max(places),
                    stage="candidate" if stage == "candidate" else "reranked",
                )
            ]
            for k in places:
                means.add("task", cuts, stage, f"target_recall_at_{k}", target_recall(item.targets, found[:k]))
                means.add(
                    "task", cuts, stage, f"all_target_coverage_at_{k}", all_target_coverage(item.targets, found[:k])
                )
    return means.rows()


def audit(catalog: Catalog, units: Sequence[AuditedUnit], tasks: Sequence[AuditedTask]) -> list[dict[str, Any]]:
    """All rows of the `audit` table, sorted by its key."""
    rows = audit_units(catalog, units) + audit_tasks(catalog, tasks)
    return sorted(rows, key=lambda r: (r["scope"], r["slice"], r["value_of"], r["stage"], r["metric"]))
