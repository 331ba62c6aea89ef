"""The fixed weights that turn evidence about (query, database) pairs into an order, as plain numbers (PROTOCOL 6).

Which evidence there is stands here; how it is measured is in `evidence`, how weights are fitted in `catalog.training`.
A score is a weighted sum over the kinds of evidence; a wider choice of databases changes no score.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks_lib.routeenv.fixed import FIXED

Floats = npt.NDArray[np.float64]

LEXICAL = ("database", "table", "column", "phrases", "names", "coverage", "entities", "values", "grams", "silence")
SEMANTIC = ("cards", "sentence")
FEATURES = (*LEXICAL, *SEMANTIC)
"""Kinds of evidence in the order of every evidence array, each 0..1."""
STAGES = ("candidate", "reranked")
FOLDS = 5
SHIPPED = -1
"""Fold of the weights that searches use; weights of fold k were fitted without the databases of fold k."""


def fold_of(database_id: str) -> int:
    """Fold of a database: by digest of its public id, so it needs no table."""
    return int(hashlib.sha256(database_id.encode()).hexdigest()[:8], 16) % FOLDS


@dataclass(frozen=True)
class Weights:
    """Weights by stage, one a kind of evidence."""

    candidate: Floats
    reranked: Floats

    def rows(self, fold: int) -> list[dict[str, Any]]:
        """Rows of `cat_reranker`; weights that are 0 are left out."""
        return [
            {"fold": fold, "stage": stage, "feature": name, "weight": float(weight)}
            for stage in STAGES
            for name, weight in zip(FEATURES, getattr(self, stage), strict=True)
            if weight
        ]


def fixed_rows() -> list[dict[str, Any]]:
    """Rows of `cat_reranker` with the fixed weights, the same in every fold."""
    return [{"fold": fold, **row} for fold in (SHIPPED, *range(FOLDS)) for row in FIXED]


def read(rows: Iterable[Mapping[str, Any]]) -> dict[int, Weights]:
    """Weights by fold from rows of `cat_reranker`. Raises ValueError naming an unknown stage or feature."""
    found: dict[int, dict[str, Floats]] = {}
    for row in rows:
        if row["stage"] not in STAGES or row["feature"] not in FEATURES:
            raise ValueError(
                f"cat_reranker: stage {row['stage']!r}, feature {row['feature']!r}, expected one of {STAGES} and of {FEATURES}; "
                "build the release again."
            )
        stages = found.setdefault(row["fold"], {stage: np.zeros(len(FEATURES)) for stage in STAGES})
        stages[row["stage"]][FEATURES.index(row["feature"])] = row["weight"]
    return {fold: Weights(**stages) for fold, stages in found.items()}
