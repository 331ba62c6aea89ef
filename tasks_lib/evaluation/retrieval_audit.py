"""Retrieval audit: how often search finds what is required, per source unit and per task (PROTOCOL 6; paper C.4, C.5).

The only place where search results meet gold targets. Report-only: nothing here feeds back into weights or the catalog. A unit is
searched for with weights that were fitted without its database; a task with the weights that agents search with. Questions that have
no usable gold are searched for too, told apart by the cut `source`: they are in no unit, no task and no fit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks_lib.evaluation.retrieval_baselines import BASELINES, Baselines
from tasks_lib.models.embeddings import embed, truncated_tokens
from tasks_lib.protocol.records import PublicTask
from tasks_lib.protocol.vocabulary import Behavior, Corpus, Split
from tasks_lib.routeenv.needs import needs
from tasks_lib.routeenv.reranker import SHIPPED, Floats, fold_of
from tasks_lib.routeenv.search import POOL, Catalog, Places, ranking

STAGES = ("candidate", "reranked", *BASELINES)
AT = (3, 5, 10, 20, 50)
UNIT_AT = (1, 5, 10, 20, 50)
MANY = POOL
"""Tasks with more candidates are told apart: a pool of 50 holds every candidate of the others."""
SIZES = (("1", 1, 1), ("2-3", 2, 3), ("4-5", 4, 5), ("6-8", 6, 8))
"""Cuts by number of required databases (PROTOCOL 2)."""

SCOPES = ("own_corpus", "whole_registry")

_BATCH = 512
"""Questions that the model reads at a time: texts of one length share a pass, so few at a time cost more."""
_WEIGHED = 64
"""Questions whose evidence is in memory at a time: every card and column of the catalog has a number for each of their clauses."""
_Key = tuple[str, str, str, str, str]
"""scope, slice, value_of, stage, metric"""


@dataclass(frozen=True, slots=True)
class AuditedUnit:
    """PRIVATE. A question and the public id of the database that owns it. `split`: of a source unit; None of a text without usable
    gold, which is no unit."""

    question: str
    database_id: str
    corpus: Corpus
    split: Split | None


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
        self.values: defaultdict[_Key, list[float]] = defaultdict(list)

    def extend(self, key: _Key, values: Iterable[float]) -> None:
        self.values[key].extend(values)

    def rows(self) -> list[dict[str, Any]]:
        found = []
        for key, values in sorted(self.values.items()):
            mean, n = sum(values) / len(values), len(values)
            share = key[-1].startswith(("recall_at", "all_target"))
            found.append(_row(key, mean, n, wilson(mean, n) if share else (None, None)))
        return found


def _row(key: _Key, value: float, n: int, interval: tuple[float | None, float | None]) -> dict[str, Any]:
    named = dict(zip(("scope", "slice", "value_of", "stage", "metric"), key, strict=True))
    return {**named, "value": value, "n": n, "low": interval[0], "high": interval[1]}


def wilson(share: float, n: int) -> tuple[float, float]:
    """95 % Wilson interval of a share of n outcomes that are 0 or 1, each of weight 1 (PROTOCOL 14)."""
    from scipy.stats import binomtest

    found = binomtest(round(share * n), n).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


def _ranks(scores: Floats, owners: npt.NDArray[np.int64], scopes: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Rank of each owner in its scope by falling score, ties by place, which is by public id; [queries, databases] each."""
    mine = scores[np.arange(len(owners)), owners][:, None]
    ahead = (scores > mine) | ((scores == mine) & (np.arange(scores.shape[1]) < owners[:, None]))
    found: npt.NDArray[np.int64] = 1 + (ahead & scopes).sum(axis=1)
    return found


def _batches(catalog: Catalog, questions: Sequence[str]) -> Iterator[tuple[int, list[Floats]]]:
    """(place of the first, evidence of the parts of each), few questions at a time; the model reads the next ones meanwhile."""
    texts = [needs(question) for question in questions]
    with ThreadPoolExecutor(1) as ahead:
        read = [ahead.submit(_read, texts[at : at + _BATCH]) for at in range(0, len(texts), _BATCH)]
        for begin in range(0, len(texts), _WEIGHED):
            read[begin // _BATCH].result()
            part = texts[begin : begin + _WEIGHED]
            evidence = catalog.evidence([text for several in part for text in several])
            yield begin, np.split(evidence, np.cumsum([len(several) for several in part])[:-1])


def _read(texts: Sequence[Sequence[str]]) -> None:
    """Have the model read the clauses of questions: their vectors are then at hand wherever they are asked for."""
    embed([text for several in texts for text in several])


def audit_units(catalog: Catalog, units: Sequence[AuditedUnit]) -> list[dict[str, Any]]:
    """Rows of `audit` per question: Recall@k and MRR over the whole scope, by stage and for the baselines.

    Scopes own_corpus and whole_registry (the whole catalog); slices all, source (unit, or text without usable gold), and of units
    alone corpus and split.
    """
    baselines = Baselines(catalog)
    corpora = np.asarray([catalog.databases[name]["corpus"] for name in catalog.ids])
    owners = np.asarray([catalog.places[unit.database_id] for unit in units], dtype=np.int64)
    of_corpus = np.asarray([unit.corpus.value for unit in units])
    places: dict[str, Places] = {value: np.flatnonzero(corpora == value) for value in set(corpora.tolist())}
    everywhere = np.arange(len(catalog.ids))
    ranks = {(name, stage): np.zeros(len(units), dtype=np.int64) for name in SCOPES for stage in STAGES}
    for begin, found in _batches(catalog, [unit.question for unit in units]):
        part = slice(begin, begin + len(found))
        for i, evidence in enumerate(found, start=begin):
            weights = catalog.weights[fold_of(units[i].database_id)]
            for name, scope in zip(SCOPES, (places[of_corpus[i]], everywhere), strict=True):
                order = ranking(evidence[:, scope], scope, weights)
                ranks[name, "candidate"][i] = 1 + np.flatnonzero(order.candidate == owners[i])[0]
                ranks[name, "reranked"][i] = 1 + np.flatnonzero(order.reranked == owners[i])[0]
        own = corpora[None, :] == of_corpus[part, None]
        questions = [unit.question for unit in units[part]]
        for stage in BASELINES:
            scores = baselines.scores(stage, questions)
            for name, scopes in zip(SCOPES, (own, np.ones_like(own)), strict=True):
                ranks[name, stage][part] = _ranks(scores, owners[part], scopes)
    means = _Means()
    for (name, stage), mine in ranks.items():
        measures = {f"recall_at_{k}": mine <= k for k in UNIT_AT} | {"mrr": 1 / mine}
        for cut, who in _cuts(units).items():
            for metric, values in measures.items():
                means.extend((name, *cut, stage, metric), values[who].astype(float).tolist())
    return means.rows()


def _cuts(units: Sequence[AuditedUnit]) -> dict[tuple[str, str], list[int]]:
    """Places of questions by (slice, value)."""
    found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for place, unit in enumerate(units):
        found["all", "all"].append(place)
        found["source", "text" if unit.split is None else "unit"].append(place)
        if unit.split is not None:
            found["corpus", unit.corpus.value].append(place)
            found["split", unit.split.value].append(place)
    return found


def audit_tasks(catalog: Catalog, tasks: Sequence[AuditedTask]) -> list[dict[str, Any]]:
    """Rows of `audit` per task, searches limited to its allowlist: TargetRecall and AllTargetCoverage at K by stage.

    Slices all, corpus, behavior, size (number of required databases), candidates (more than 50, or not).
    """
    means = _Means()
    requests = [item.task.request for item in tasks]
    baselines = Baselines(catalog) if tasks else None
    for begin, found in _batches(catalog, requests):
        part = tasks[begin : begin + len(found)]
        plain = {n: baselines.scores(n, requests[begin : begin + len(found)]) for n in BASELINES} if baselines else {}
        for i, (item, evidence) in enumerate(zip(part, found, strict=True)):
            scope = catalog.scope(item.task.allowlist)
            cuts = (
                ("all", "all"),
                ("corpus", item.task.corpus.value),
                ("behavior", item.behavior.value),
                ("size", size_of(item.targets)),
                ("candidates", f"over {MANY}" if len(scope) > MANY else f"at most {MANY}"),
            )
            order = ranking(evidence[:, scope], scope, catalog.weights[SHIPPED])
            orders = {"candidate": order.candidate, "reranked": order.reranked}
            orders |= {n: scope[np.argsort(-scores[i, scope], kind="stable")] for n, scores in plain.items()}
            for stage, places in orders.items():
                names = [catalog.ids[place] for place in places[: max(AT)]]
                for k in AT:
                    measures = {
                        f"target_recall_at_{k}": target_recall(item.targets, names[:k]),
                        f"all_target_coverage_at_{k}": all_target_coverage(item.targets, names[:k]),
                    }
                    for cut in cuts:
                        for metric, value in measures.items():
                            means.extend(("task", *cut, stage, metric), [value])
    return means.rows()


def audit_cards(catalog: Catalog) -> list[dict[str, Any]]:
    """The row that says how many tokens of card chunks the model does not read; a release is not built unless it is 0."""
    key = ("catalog", "all", "all", "cards", "truncated_tokens")
    found = truncated_tokens([card["text"] for card in catalog.cards])
    return [_row(key, float(found), len(catalog.cards), (None, None))]


def audit(
    catalog: Catalog, units: Sequence[AuditedUnit], tasks: Sequence[AuditedTask], release: str
) -> list[dict[str, Any]]:
    """All rows of the `audit` table, sorted by its key. `release`: sha256 of the manifest that catalog, units and tasks are of."""
    rows = [*audit_units(catalog, units), *audit_tasks(catalog, tasks), *audit_cards(catalog)]
    rows.sort(key=lambda r: (r["scope"], r["slice"], r["value_of"], r["stage"], r["metric"]))
    return [{**row, "release": release} for row in rows]
