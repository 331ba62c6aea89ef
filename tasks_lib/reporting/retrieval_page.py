"""The retrieval audit as one HTML file that opens offline, beside the published figures.

Only what the tables say and in which order; values come from the `audit` table, looks from templates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from tasks_lib.reporting.page import render, write_whole
from tasks_lib.reporting.views import MISSING, Column, Entry, View, bracket, number, percent, text_columns

PUBLISHED_UNITS = {
    ("candidate", "recall_at_50"): 0.9956,
    ("reranked", "recall_at_10"): 0.9779,
    ("reranked", "mrr"): 0.8703,
}
PUBLISHED_TASKS = {
    ("candidate", 10): (0.7504, 0.5153),
    ("candidate", 20): (0.8509, 0.6699),
    ("candidate", 50): (0.9383, 0.8650),
    ("reranked", 3): (0.5566, 0.3043),
    ("reranked", 5): (0.6676, 0.4184),
    ("reranked", 10): (0.7863, 0.5718),
}
PUBLISHED_CUTS = {
    ("corpus", "bird"): (1.0, 1.0, 0.9121, 0.8189),
    ("corpus", "livesqlbench"): (1.0, 1.0, 0.9132, 0.7917),
    ("corpus", "spider"): (0.9064, 0.7952, 0.7211, 0.4451),
    ("behavior", "single"): (0.9891, 0.9891, 0.9891, 0.9891),
    ("behavior", "parallel"): (0.9714, 0.9082, 0.8377, 0.6098),
    ("behavior", "sequential"): (1.0, 1.0, 0.9545, 0.9091),
    ("behavior", "exploratory"): (0.9637, 0.8419, 0.7658, 0.4467),
    ("behavior", "interactive"): (0.7143, 0.6667, 0.4810, 0.3714),
    ("size", "1"): (0.9891, 0.9891, 0.9891, 0.9891),
    ("size", "2-3"): (0.9209, 0.8875, 0.7713, 0.6299),
    ("size", "4-5"): (0.9675, 0.8662, 0.7984, 0.4076),
    ("size", "6-8"): (0.9284, 0.5714, 0.6145, 0.0390),
}
"""Figures of the paper (C.5, Tables 13-16): units, tasks by stage and K (TargetRecall, AllTargetCoverage), and cuts at 50 and 10."""

_STAGES = {
    "candidate": "candidates",
    "reranked": "reranked",
    "tfidf": "TF-IDF alone",
    "bm25": "BM25 alone",
    "minilm": "MiniLM alone",
}
_SCOPES = {"own_corpus": "own corpus", "whole_registry": "whole registry"}
_SOURCES = {"unit": "source units", "text": "texts without gold", "train": "train units", "dev": "dev units"}
_CUTS = {"size": "required databases", "candidates": "candidates"}


class _Audit:
    """Lookup of audit rows."""

    def __init__(self, frame: pl.DataFrame) -> None:
        names = ("scope", "slice", "value_of", "stage", "metric")
        self.rows = {tuple(row[n] for n in names): row for row in frame.iter_rows(named=True)}

    def entry(self, *key: str) -> Entry:
        row = self.rows.get(key)
        if row is None:
            return Entry(MISSING)
        detail = "" if row["low"] is None else bracket(row["low"], row["high"])
        return Entry(percent(row["value"]), detail, row["value"])

    def n(self, scope: str, cut: str, of: str) -> int:
        return next((r["n"] for k, r in self.rows.items() if k[:3] == (scope, cut, of)), 0)

    def cuts(self, scope: str, *names: str) -> list[tuple[str, str]]:
        found = {(k[1], k[2]) for k in self.rows if k[0] == scope and k[1] in names}
        return sorted(found, key=lambda cut: (names.index(cut[0]), cut[1]))


def _published(value: float | None) -> Entry:
    return Entry("") if value is None else Entry(percent(value), sort=value)


def _units(audit: _Audit) -> View:
    metrics = ("recall_at_50", "recall_at_10", "recall_at_1", "mrr")
    rows = [
        [
            Entry(_SCOPES[scope]),
            Entry("all" if cut == "all" else _SOURCES.get(of, of)),
            Entry(_STAGES[stage]),
            number(audit.n(scope, cut, of)),
            *(audit.entry(scope, cut, of, stage, metric) for metric in metrics),
        ]
        for scope in _SCOPES
        for cut, of in audit.cuts(scope, "all", "source", "split", "corpus")
        for stage in (_STAGES if cut == "all" else ("candidate", "reranked"))
    ]
    note = ", ".join(f"{m.replace('_', ' ')} {percent(v)} ({s})" for (s, m), v in PUBLISHED_UNITS.items())
    columns = [
        *text_columns("Scope", "Questions", "Stage"),
        *(Column(x) for x in ("n", "Recall@50", "Recall@10", "Recall@1", "MRR")),
    ]
    return View("units", "Questions", columns, rows, f"Published over 20,776 source units: {note}.", sortable=True)


def _tasks(audit: _Audit) -> View:
    rows = []
    for cut, of in audit.cuts("task", "all", "candidates"):
        for stage, k in PUBLISHED_TASKS if cut == "all" else (("candidate", 50), ("reranked", 10)):
            recall, coverage = PUBLISHED_TASKS[stage, k] if cut == "all" else (None, None)
            rows.append(
                [
                    Entry("all" if cut == "all" else f"{of} candidates"),
                    Entry(f"{_STAGES[stage]} @{k}"),
                    number(audit.n("task", cut, of)),
                    audit.entry("task", cut, of, stage, f"target_recall_at_{k}"),
                    _published(recall),
                    audit.entry("task", cut, of, stage, f"all_target_coverage_at_{k}"),
                    _published(coverage),
                ]
            )
    columns = [
        *text_columns("Tasks", "Stage"),
        *(Column(x) for x in ("n", "TargetRecall", "published", "AllTargetCoverage", "published")),
    ]
    return View("tasks", "Tasks, searches limited to their candidates", columns, rows)


def _baselines(audit: _Audit) -> View:
    rows = [
        [
            Entry(_STAGES[stage]),
            *(
                audit.entry("task", "all", "all", stage, f"{metric}_at_{k}")
                for k in (10, 50)
                for metric in ("target_recall", "all_target_coverage")
            ),
        ]
        for stage in ("reranked", "tfidf", "bm25", "minilm")
    ]
    columns = [
        *text_columns("Search"),
        *(Column(x) for x in ("TargetRecall@10", "AllTargetCoverage@10", "TargetRecall@50", "AllTargetCoverage@50")),
    ]
    return View("baselines", "Beside plain searches over the same cards, all tasks", columns, rows)


def _cuts(audit: _Audit) -> View:
    rows = []
    for cut, of in audit.cuts("task", "corpus", "behavior", "size"):
        published: Sequence[float | None] = PUBLISHED_CUTS.get((cut, of), (None,) * 4)
        figures = [("candidate", 50), ("reranked", 10)]
        entries: list[Entry] = []
        for i, (stage, k) in enumerate(figures):
            for j, metric in enumerate(("target_recall", "all_target_coverage")):
                entries += [audit.entry("task", cut, of, stage, f"{metric}_at_{k}"), _published(published[2 * i + j])]
        rows.append([Entry(f"{_CUTS.get(cut, cut)}: {of}"), number(audit.n("task", cut, of)), *entries])
    heads = ("TargetRecall@50", "AllTargetCoverage@50", "reranked TargetRecall@10", "reranked AllTargetCoverage@10")
    columns = [*text_columns("Tasks"), Column("n"), *(Column(x) for head in heads for x in (head, "published"))]
    return View("cuts", "Tasks by corpus, behavior and number of required databases", columns, rows, sortable=True)


def views(frame: pl.DataFrame) -> tuple[View, ...]:
    """The tables of the page, of an `audit` table: questions, tasks, tasks by cut, plain searches."""
    audit = _Audit(frame)
    return _units(audit), _tasks(audit), _cuts(audit), _baselines(audit)


def write_retrieval_page(frame: pl.DataFrame, facts: Mapping[str, str], out: Path) -> Path:
    """Write the page of an `audit` table to the file `out`. `facts`: name and words, the release's manifest hash among them."""
    return write_whole(render("retrieval.html.j2", facts=list(facts.items()), views=views(frame)), out)
