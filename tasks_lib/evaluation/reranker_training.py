"""PRIVATE. Fits the weights of the search on questions of the train split, with folds grouped by database (PROTOCOL 6).

Questions give pairs (question, database) and nothing else: what is stored are a few numbers a kind of evidence, and a record of the
units that had a part. A unit that a released task uses is never fitted on, nor is any dev unit. A corpus too small to be fitted gets
the fixed weights of `routeenv.fixed`. How evidence is measured and applied is `tasks_lib.routeenv`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks_lib.protocol.vocabulary import Split
from tasks_lib.routeenv.reranker import FEATURES, FOLDS, SHIPPED, Floats, Weights, fixed_rows, fold_of
from tasks_lib.routeenv.search import Catalog

MOST = 9000
"""Questions fitted on, the databases taking turns: 0.1 points of Recall@10 better than 3,000, and all of them no better."""
LEAST_DATABASES = 60
"""With fewer databases that have train questions, weights cannot be told from chance, and the fixed ones are used."""
HARD = 30
"""Other databases that each question is set against in each scope: those that all evidence together puts first."""
STRENGTH = 0.001
"""Inverse strength of the ridge penalty (scikit-learn's C), over standardised evidence."""
DECIMALS = 4

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Example:
    """A train question and the public id of the database that owns it."""

    unit_id: str
    question: str
    database_id: str


def examples(
    units: Sequence[Mapping[str, Any]], public_ids: Mapping[tuple[str, str], str], used: Collection[str]
) -> list[Example]:
    """What may be fitted on: train-split rows of `units` that no released task uses, at most 9,000, databases taking turns.

    public_ids: by (corpus, database). used: ids of the units of released tasks.
    """
    kept = sorted(
        (r for r in units if r["split"] == Split.TRAIN.value and r["unit_id"] not in set(used)),
        key=lambda r: hashlib.sha256(str(r["unit_id"]).encode()).hexdigest(),
    )
    turns: dict[tuple[str, str], int] = {}
    order = []
    for row in kept:
        owner = (row["corpus"], row["database"])
        turns[owner] = turns.get(owner, 0) + 1
        order.append((turns[owner], public_ids[owner], row))
    order.sort(key=lambda entry: entry[:2])
    return [Example(row["unit_id"], row["question"], owner) for _, owner, row in order[:MOST]]


def weights(
    rows: Mapping[str, Rows],
    units: Sequence[Mapping[str, Any]],
    public_ids: Mapping[tuple[str, str], str],
    used: Collection[str],
) -> tuple[Rows, Rows]:
    """`train` for the tables of a release: `rows` by `cat_*` name, rows of `units`, public ids, units of released tasks."""
    catalog = Catalog.from_rows(rows)
    return train(catalog, examples(units, public_ids, used))


def train(catalog: Catalog, found: Sequence[Example]) -> tuple[Rows, Rows]:
    """Rows of `cat_reranker` (one set of weights to ship, one without each fold) and of `reranker_units` (empty when fixed)."""
    if len({e.database_id for e in found}) < LEAST_DATABASES:
        return fixed_rows(), []
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1):  # sums in one order on every machine with these libraries
        return _train(catalog, found)


def _train(catalog: Catalog, found: Sequence[Example]) -> tuple[Rows, Rows]:
    owners = np.asarray([catalog.places[e.database_id] for e in found])
    folds = np.asarray([fold_of(e.database_id) for e in found])
    texts = [e.question for e in found]
    evidence = np.concatenate([catalog.indexes.lexical(texts), catalog.indexes.semantic(texts)], axis=-1)
    corpora = np.asarray([catalog.databases[name]["corpus"] for name in catalog.ids])
    own = corpora[None, :] == corpora[owners][:, None]
    parts = [_differences(evidence, owners, scope) for scope in (own, np.ones_like(own))]
    differences = np.concatenate([p[0] for p in parts])
    groups = np.concatenate([folds[p[1]] for p in parts])
    rows: Rows = []
    for fold in (SHIPPED, *range(FOLDS)):
        part = differences[groups != fold]
        candidate = np.append(_fit(part[:, :-1]), 0.0)  # the pool does without the last kind, the nearest column
        rows += Weights(candidate, _fit(part)).rows(fold)
    record = [{"unit_id": e.unit_id, "database_id": e.database_id, "fold": fold_of(e.database_id)} for e in found]
    return rows, sorted(record, key=lambda r: r["unit_id"])


def _differences(
    evidence: Floats, owners: npt.NDArray[Any], scope: npt.NDArray[np.bool_]
) -> tuple[Floats, npt.NDArray[Any]]:
    """Evidence of the owner minus that of each of its hardest rivals, [pairs, FEATURES], and the question of each pair."""
    nearness = evidence.sum(axis=-1) - evidence[..., FEATURES.index("silence")]  # which is no sign of nearness
    strength = np.where(scope, nearness, -1.0)
    strength[np.arange(len(owners)), owners] = -1.0
    rivals = np.argsort(-strength, axis=1, kind="stable")[:, :HARD]
    real = np.take_along_axis(strength, rivals, axis=1) >= 0
    theirs = np.take_along_axis(evidence, rivals[..., None], axis=1)
    questions = np.broadcast_to(np.arange(len(owners))[:, None], rivals.shape)
    return (evidence[np.arange(len(owners)), owners][:, None] - theirs)[real], questions[real]


def _fit(differences: Floats) -> Floats:
    """Weights by which the owner comes before its rivals: logistic regression without intercept on differences."""
    from sklearn.linear_model import LogisticRegression

    spread = differences.std(axis=0) + 1e-9
    sign = np.where(
        np.arange(len(differences)) % 2 == 0, 1, -1
    )  # both classes are needed, and a difference has no side
    model = LogisticRegression(C=STRENGTH, fit_intercept=False, solver="newton-cholesky")
    model.fit(differences / spread * sign[:, None], sign)
    found: Floats = np.round(model.coef_[0] / spread, DECIMALS)
    return found
