"""Weights of the search for catalogs that bring none and releases too small to fit their own: numbers only.

Fitted once by `evaluation.reranker_training` on 9,000 train-split questions of Spider and BIRD, their 215 train databases taking
turns; none of those stands in the embedded corpora.
"""

from __future__ import annotations

from typing import Any

FIXED: list[dict[str, Any]] = [
    {"stage": "candidate", "feature": "database", "weight": 2.6732},
    {"stage": "candidate", "feature": "table", "weight": 4.0304},
    {"stage": "candidate", "feature": "column", "weight": 2.0899},
    {"stage": "candidate", "feature": "phrases", "weight": 3.5143},
    {"stage": "candidate", "feature": "names", "weight": 1.4748},
    {"stage": "candidate", "feature": "coverage", "weight": 0.8701},
    {"stage": "candidate", "feature": "entities", "weight": -1.6755},
    {"stage": "candidate", "feature": "values", "weight": 1.6657},
    {"stage": "candidate", "feature": "grams", "weight": 7.8781},
    {"stage": "candidate", "feature": "cards", "weight": 9.1833},
    {"stage": "reranked", "feature": "database", "weight": 2.8284},
    {"stage": "reranked", "feature": "table", "weight": 3.6844},
    {"stage": "reranked", "feature": "column", "weight": 1.3292},
    {"stage": "reranked", "feature": "phrases", "weight": 3.0123},
    {"stage": "reranked", "feature": "names", "weight": 1.2646},
    {"stage": "reranked", "feature": "coverage", "weight": 1.1898},
    {"stage": "reranked", "feature": "entities", "weight": -1.8318},
    {"stage": "reranked", "feature": "values", "weight": 1.7223},
    {"stage": "reranked", "feature": "grams", "weight": 6.6913},
    {"stage": "reranked", "feature": "cards", "weight": 4.0842},
    {"stage": "reranked", "feature": "sentence", "weight": 6.7319},
]
