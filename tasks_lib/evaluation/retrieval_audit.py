"""Retrieval audit: how often search finds what is required, per source unit and per task (PROTOCOL 6; paper C.4, C.5).

The only place where search results meet gold targets. Report-only: nothing here feeds back into weights or the catalog. A unit is
searched for with weights that were fitted without its database; a task with the weights that agents search with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks_lib.evaluation.retrieval_baselines import BASELINES, Baselines
from tasks_lib.models.embeddings import embed
from tasks_lib.protocol.records import PublicTask
from tasks_lib.protocol.vocabulary import Behavior, Corpus, Split
from tasks_lib.routeenv.needs import needs
from tasks_lib.routeenv.reranker import fold_of
from tasks_lib.routeenv.search import POOL, Catalog

STAGES = ("candidate", "reranked", *BASELINES)
AT = (3, 5, 10, 20, 50)
UNIT_AT = (1, 5, 10, 20, 50)
MANY = POOL
"""Tasks with more candidates are told apart: a pool of 50 holds every candidate of the others."""
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
        found = []
        for (scope, name, of, stage, metric), values in sorted(self.values.items()):
            mean, n = sum(values) / len(values), len(values)
            low, high = wilson(mean, n) if metric.startswith(("recall_at", "all_target")) else (None, None)
            found.append(
                {
                    "scope": scope,
                    "slice": name,
                    "value_of": of,
                    "stage": stage,
                    "metric": metric,
                    "value": mean,
                    "n": n,
                    "low": low,
                    "high": high,
                }
            )
        return found


def wilson(share: float, n: int) -> tuple[float, float]:
    """95 % Wilson interval of a share of n outcomes that are 0 or 1, each of weight 1 (PROTOCOL 14)."""
    from scipy.stats import binomtest

    found = binomtest(round(share * n), n).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


def _plain(scores: npt.NDArray[np.float64], scope: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Places in scope by falling score, ties by place, which is by public id."""
    found: npt.NDArray[np.int64] = scope[np.argsort(-scores[scope], kind="stable")]
    return found


def audit_units(catalog: Catalog, units: Sequence[AuditedUnit]) -> list[dict[str, Any]]:
    """Rows of `audit` per source unit: Recall@k and MRR over the whole scope, by stage and for the baselines.

    Scopes own_corpus and whole_registry (the whole catalog); slices all, corpus, split.
    """
    means, baselines = _Means(), Baselines(catalog)
    whole = catalog.scope(catalog.ids)
    own = {corpus: catalog.scope(catalog.ids, corpus.value) for corpus in Corpus}
    for at in range(0, len(units), _BATCH):
        part = units[at : at + _BATCH]
        questions = [unit.question for unit in part]
        texts = [text for question in questions for text in needs(question)]
        embed(texts)
        catalog.lexical(texts)  # many at once; the searches below find them remembered
        catalog.semantic(texts)
        plain = {name: baselines.scores(name, questions) for name in BASELINES}
        for i, unit in enumerate(part):
            place, fold = catalog.places[unit.database_id], fold_of(unit.database_id)
            cuts = (("all", "all"), ("corpus", unit.corpus.value), ("split", unit.split.value))
            for name, scope in (("own_corpus", own[unit.corpus]), ("whole_registry", whole)):
                found = catalog.rank(unit.question, scope, fold=fold)
                orders = {"candidate": found.candidate, "reranked": found.reranked}
                orders |= {stage: _plain(scores[i], scope) for stage, scores in plain.items()}
                for stage, order in orders.items():
                    rank = int(np.flatnonzero(order == place)[0]) + 1
                    for k in UNIT_AT:
                        means.add(name, cuts, stage, f"recall_at_{k}", float(rank <= k))
                    means.add(name, cuts, stage, "mrr", 1 / rank)
    return means.rows()


def audit_tasks(catalog: Catalog, tasks: Sequence[AuditedTask]) -> list[dict[str, Any]]:
    """Rows of `audit` per task, searches limited to its allowlist: TargetRecall and AllTargetCoverage at K by stage.

    Slices all, corpus, behavior, size (number of required databases), candidates (more than 50, or not).
    """
    means, baselines = _Means(), Baselines(catalog)
    embed(
        [text for item in tasks for text in needs(item.task.request)]
    )  # one pass of the model instead of one a search
    for item in tasks:
        scope = catalog.scope(item.task.allowlist)
        cuts = (
            ("all", "all"),
            ("corpus", item.task.corpus.value),
            ("behavior", item.behavior.value),
            ("size", size_of(item.targets)),
            ("candidates", f"over {MANY}" if len(scope) > MANY else f"at most {MANY}"),
        )
        found = catalog.rank(item.task.request, scope)
        orders = {"candidate": found.candidate, "reranked": found.reranked}
        orders |= {n: _plain(baselines.scores(n, [item.task.request])[0], scope) for n in BASELINES}
        for stage, order in orders.items():
            names = [catalog.ids[place] for place in order[: max(AT)]]
            for k in AT:
                means.add("task", cuts, stage, f"target_recall_at_{k}", target_recall(item.targets, names[:k]))
                means.add(
                    "task", cuts, stage, f"all_target_coverage_at_{k}", all_target_coverage(item.targets, names[:k])
                )
    return means.rows()


def audit(catalog: Catalog, units: Sequence[AuditedUnit], tasks: Sequence[AuditedTask]) -> list[dict[str, Any]]:
    """All rows of the `audit` table, sorted by its key."""
    rows = audit_units(catalog, units) + audit_tasks(catalog, tasks)
    return sorted(rows, key=lambda r: (r["scope"], r["slice"], r["value_of"], r["stage"], r["metric"]))
