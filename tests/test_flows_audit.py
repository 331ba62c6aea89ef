"""What `dsabench audit --json` prints, from a small audit table."""

from __future__ import annotations

import polars as pl

from flows.catalog import summary


def test_the_audit_is_told_by_scope_stage_and_k() -> None:
    rows = [
        ("own_corpus", "all", "all", "reranked", "mrr", 0.5, 4),
        ("whole_registry", "all", "all", "candidate", "recall_at_50", 1.0, 4),
        ("own_corpus", "corpus", "bird", "reranked", "recall_at_10", 0.75, 2),
        ("task", "all", "all", "candidate", "target_recall_at_10", 0.8, 3),
        ("task", "all", "all", "reranked", "target_recall_at_3", 0.6, 3),
        ("task", "all", "all", "reranked", "all_target_coverage_at_3", 0.25, 3),
        ("task", "behavior", "single", "candidate", "all_target_coverage_at_20", 1.0, 1),
    ]
    got = summary(
        pl.DataFrame(rows, schema=["scope", "slice", "value_of", "stage", "metric", "value", "n"], orient="row")
    )
    assert got["units"] == {"own_corpus": {"mrr": 0.5, "n": 4}, "whole_registry": {"recall_at_50": 1.0, "n": 4}}
    assert got["tasks"] == {
        "target_recall": {"candidate": {"10": 0.8}, "reranked": {"3": 0.6}},
        "all_target_coverage": {"reranked": {"3": 0.25}},
        "n": 3,
    }
    assert got["by_corpus"]["units"]["own_corpus"] == {"bird": {"recall_at_10": 0.75, "n": 2}}
    assert got["by_behavior"] == {"single": {"all_target_coverage": {"candidate": {"20": 1.0}}, "n": 1}}
