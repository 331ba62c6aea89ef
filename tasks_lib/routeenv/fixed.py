"""Weights of the search for catalogs that bring none and releases too small to fit their own: numbers only.

Fitted once by `evaluation.reranker_training` on 9,000 train-split questions of Spider and BIRD, their 215 train databases taking
turns; none of those stands in the embedded corpora.
"""

from __future__ import annotations

from typing import Any

FIXED: list[dict[str, Any]] = [
    {"stage": "candidate", "feature": "database", "weight": 2.6035},
    {"stage": "candidate", "feature": "table", "weight": 4.2774},
    {"stage": "candidate", "feature": "column", "weight": 2.4778},
    {"stage": "candidate", "feature": "phrases", "weight": 3.3494},
    {"stage": "candidate", "feature": "names", "weight": 1.3234},
    {"stage": "candidate", "feature": "coverage", "weight": 0.5377},
    {"stage": "candidate", "feature": "entities", "weight": -0.5044},
    {"stage": "candidate", "feature": "values", "weight": 2.824},
    {"stage": "candidate", "feature": "grams", "weight": 8.0751},
    {"stage": "candidate", "feature": "silence", "weight": 3.5265},
    {"stage": "candidate", "feature": "cards", "weight": 8.6338},
    {"stage": "reranked", "feature": "database", "weight": 2.6966},
    {"stage": "reranked", "feature": "table", "weight": 3.7796},
    {"stage": "reranked", "feature": "column", "weight": 1.7225},
    {"stage": "reranked", "feature": "phrases", "weight": 2.8017},
    {"stage": "reranked", "feature": "names", "weight": 1.0857},
    {"stage": "reranked", "feature": "coverage", "weight": 0.8753},
    {"stage": "reranked", "feature": "entities", "weight": -0.5399},
    {"stage": "reranked", "feature": "values", "weight": 2.8416},
    {"stage": "reranked", "feature": "grams", "weight": 6.965},
    {"stage": "reranked", "feature": "silence", "weight": 3.8196},
    {"stage": "reranked", "feature": "cards", "weight": 3.1072},
    {"stage": "reranked", "feature": "sentence", "weight": 7.2957},
]
