"""What `dsabench audit --json` prints, from a small audit table."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from flows.catalog import summary
from tasks_lib.reporting.retrieval_page import write_retrieval_page


def test_the_audit_is_told_by_scope_stage_and_k() -> None:
    rows = [
        ("own_corpus", "all", "all", "reranked", "mrr", 0.5, 4),
        ("own_corpus", "all", "all", "bm25", "mrr", 0.1, 4),  # a baseline is no figure of ours
        ("whole_registry", "all", "all", "candidate", "recall_at_50", 1.0, 4),
        ("own_corpus", "corpus", "bird", "reranked", "recall_at_10", 0.75, 2),
        ("task", "all", "all", "candidate", "target_recall_at_10", 0.8, 3),
        ("task", "all", "all", "reranked", "target_recall_at_3", 0.6, 3),
        ("task", "all", "all", "reranked", "all_target_coverage_at_3", 0.25, 3),
        ("task", "behavior", "single", "candidate", "all_target_coverage_at_20", 1.0, 1),
        ("own_corpus", "source", "text", "reranked", "mrr", 0.25, 1),
        ("catalog", "all", "all", "cards", "truncated_tokens", 0.0, 9),
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
    assert got["dev"] == {"own_corpus": {}, "whole_registry": {}}
    assert got["by_source"]["own_corpus"] == {"text": {"mrr": 0.25, "n": 1}}
    assert got["truncated_tokens"] == 0
    assert got["by_behavior"] == {"single": {"all_target_coverage": {"candidate": {"20": 1.0}}, "n": 1}}


def test_the_page_shows_figures_beside_the_published_ones(tmp_path: Path) -> None:
    keys = [
        ("own_corpus", "all", "all", "candidate", "recall_at_50", 0.9987, 0.99, 0.9999),
        ("task", "all", "all", "reranked", "all_target_coverage_at_10", 0.6543, 0.61, 0.7),
        ("task", "behavior", "parallel", "reranked", "target_recall_at_10", 0.8765, None, None),
    ]
    names = ("scope", "slice", "value_of", "stage", "metric", "value", "low", "high")
    frame = pl.DataFrame([{**dict(zip(names, key, strict=True)), "n": 7} for key in keys])
    page = write_retrieval_page(frame, {"Release": "abc123"}, tmp_path / "retrieval.html").read_text("utf-8")
    for text in ("99.87", "[99.00, 99.99]", "65.43", "57.18", "87.65", "83.77", "abc123", "not computed"):
        assert text in page
    assert "http" not in page.replace("http-equiv", "")
