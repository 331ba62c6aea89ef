"""The disagreement table: a run's verdicts read under other rules, so that a reader sees how much a rule decides (PROTOCOL 11).

Belongs here: which stored results are judged again, and the counts and EA-Micro that come out. Does not belong here: the rules
(`sql.upstream`). No SQL runs: predictions and golds are read from the ledger as the run left them. Every verdict is read on
its own: where another rule would have let a downstream query bind, or kept it from binding, it stays as it was run.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tasks_lib.evaluation.gold import GoldFault, GoldUnit
from tasks_lib.protocol.vocabulary import Corpus, VerdictKind
from tasks_lib.scoring.targets import Target
from tasks_lib.sql.canonical import CanonicalResult
from tasks_lib.sql.upstream import RULES_VERSION, Pair, Rule, judge, other_rules, own_rule, reasons
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.keys import artifact_key, code_digest
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.quality import require, validate
from tasks_lib.store.schemas import CONTRIBUTIONS, DISAGREEMENT

CODE = ("tasks_lib/scoring/disagreement.py", "tasks_lib/sql/upstream.py", "tasks_lib/sql/comparators.py")
CELLS = 72
"""Of one backend; a contribution counts in each of its cells, so that EA-Micro is the mean over them."""
ALL = "all"
OTHER_VERSION = "comparator_version"
"""Reason of a verdict that today's rule of its own corpus would decide otherwise."""

Layers = Mapping[str, Sequence[str]]
"""Keys of contributions by backend: one a router and data agent."""


@dataclass
class _Count:
    """Changes under one rule: stored verdicts that become right or wrong, and their weight over the cells."""

    to_right: int = 0
    to_wrong: int = 0
    gained: float = 0.0
    lost: float = 0.0

    def add(self, right: bool, verdicts: int, weight: float) -> None:
        if right:
            self.to_right += verdicts
            self.gained += weight
        else:
            self.to_wrong += verdicts
            self.lost += weight


@dataclass
class _Part:
    """One (backend, corpus). `judged`: stored verdicts with a result."""

    judged: int = 0
    numerator: float = 0.0
    denominator: float = 0.0
    changes: dict[tuple[Rule, str], _Count] = field(default_factory=dict)


def disagreement(
    store: ArtifactStore, ledger: Ledger, layers: Layers, targets: Sequence[Target], units: Iterable[GoldUnit]
) -> str:
    """Write the table `disagreement` of whole backends, unless it is there; returns its key.

    Raises GoldFault when a gold result, or a result that a verdict rests on, is not in the ledger.
    """
    inputs = {f"{backend} {n}": key for backend, keys in layers.items() for n, key in enumerate(keys)}
    key = artifact_key(DISAGREEMENT.stage, inputs, {"rules": RULES_VERSION, "code": code_digest(*CODE)})
    if store.ok(DISAGREEMENT, key):
        return key
    rows = disagreement_rows(
        {b: [store.read(CONTRIBUTIONS, k) for k in keys] for b, keys in layers.items()}, targets, units, ledger
    )
    totals = len(layers) * sum(len(other_rules(corpus)) for corpus in {t.corpus for t in targets})
    named = sum(row["reason"] != ALL for row in rows)
    frame = pl.DataFrame(rows, schema=DISAGREEMENT.schema.names, orient="row")
    require(
        validate(
            DISAGREEMENT,
            frame,
            totals + named,
            {"backend": set(layers), "rule": {str(r) for r in Rule}},
            dict.fromkeys(("verdicts", "to_right", "to_wrong", "numerator", "other_numerator"), (0, None)),
        )
    )
    store.write(DISAGREEMENT, key, rows, inputs=inputs)
    return key


def disagreement_rows(
    frames: Mapping[str, Sequence[pl.DataFrame]], targets: Sequence[Target], units: Iterable[GoldUnit], ledger: Ledger
) -> list[dict[str, Any]]:
    """Rows of `disagreement`, by backend, corpus, rule and reason. `frames`: contributions by backend."""
    golds = {unit.unit_id: unit for unit in units}
    corpora = [corpus for corpus in Corpus if any(t.corpus is corpus for t in targets)]
    parts = {(backend, corpus): _Part() for backend in frames for corpus in corpora}
    for t in targets:
        for backend in frames:
            parts[backend, t.corpus].denominator += CELLS * t.weight * len(t.units)
    verdicts = pl.concat(
        [_counted(frame, targets).with_columns(backend=pl.lit(b)) for b, fs in frames.items() for frame in fs]
    )
    for (unit_id,), mine in sorted(verdicts.group_by("unit_id"), key=lambda group: str(group[0])):
        _read_unit(golds[str(unit_id)], mine, parts, ledger)
    return [row for (backend, corpus), part in parts.items() for row in _rows(backend, corpus, part)]


def _counted(frame: pl.DataFrame, targets: Sequence[Target]) -> pl.DataFrame:
    """Stored verdicts by unit, execution and outcome: how many, and what they weigh over the cells.

    An initial verdict counts under Never, and under Once where its episode has no clarified one.
    """
    weights = pl.DataFrame(
        [(t.task_id, t.branch_id, unit, t.weight) for t in targets for unit in t.units],
        schema={"task_id": pl.String, "branch_id": pl.String, "unit_id": pl.String, "weight": pl.Float64},
        orient="row",
    )
    mine = frame.filter(pl.col("trial") == 0).join(weights, on=["task_id", "branch_id", "unit_id"])
    clarified = (pl.col("state") == "clarified").any().over("task_id", "branch_id")
    cells = pl.when((pl.col("state") == "clarified") | clarified).then(1).otherwise(2)
    return (
        mine.with_columns(weight=pl.col("weight") * cells)
        .group_by("unit_id", "execution", "ran", "kind")
        .agg(pl.len().alias("verdicts"), pl.col("weight").sum())
    )


def _read_unit(
    gold: GoldUnit, verdicts: pl.DataFrame, parts: Mapping[tuple[str, Corpus], _Part], ledger: Ledger
) -> None:
    """Count one unit's verdicts under every other rule of its corpus; equal results are judged once."""
    own, others = own_rule(gold.corpus), other_rules(gold.corpus)
    results = _digests(verdicts.filter("ran")["execution"].unique().to_list(), ledger)
    tables = _tables({gold.result_digest, *results.values()}, ledger)
    read: dict[str, dict[Rule, tuple[bool, str]]] = {}
    for row in verdicts.sort("execution", "kind", "backend").iter_rows(named=True):
        part = parts[row["backend"], gold.corpus]
        right = row["kind"] == VerdictKind.CORRECT
        part.numerator += row["weight"] * right
        if not row["ran"]:
            continue
        part.judged += row["verdicts"]
        digest = results[row["execution"]]
        if digest not in read:
            pair = Pair(tables[gold.result_digest], tables[digest], gold.ordered, gold.sql)
            read[digest] = {r: (judge(r, pair), " + ".join(reasons(own, r, pair))) for r in others}
        for rule, (other, reason) in read[digest].items():
            if other != right:
                for name in (ALL, reason or OTHER_VERSION):
                    part.changes.setdefault((rule, name), _Count()).add(other, row["verdicts"], row["weight"])


def _digests(keys: Sequence[str], ledger: Ledger) -> dict[str, str]:
    """Result digest by execution key."""
    entries = ledger.get_many(keys)
    if lost := sorted(set(keys) - set(entries)):
        raise GoldFault(
            f"the ledger lacks {len(lost)} executions that verdicts rest on (first {lost[0][:12]}); restore it, or run again."
        )
    return {key: str(json.loads(entry.payload)["digest"]) for key, entry in entries.items()}


def _tables(digests: Iterable[str], ledger: Ledger) -> dict[str, CanonicalResult]:
    try:
        return {name: CanonicalResult.from_bytes(data) for name, data in ledger.blobs_of(digests).items()}
    except KeyError as lost:
        raise GoldFault(f"the ledger lacks the result {str(lost.args[0])[:12]}; restore it, or run again.") from None


def _rows(backend: str, corpus: Corpus, part: _Part) -> Iterable[dict[str, Any]]:
    for rule in other_rules(corpus):
        named = Counter(
            {name: c.to_right + c.to_wrong for (r, name), c in part.changes.items() if r is rule and name != ALL}
        )
        for reason in (ALL, *(name for name, _ in sorted(named.items(), key=lambda item: (-item[1], item[0])))):
            change = part.changes.get((rule, reason), _Count())
            yield {
                "backend": backend,
                "corpus": str(corpus),
                "rule": str(rule),
                "reason": reason,
                "verdicts": part.judged,
                "to_right": change.to_right,
                "to_wrong": change.to_wrong,
                "numerator": part.numerator,
                "other_numerator": part.numerator + change.gained - change.lost,
                "denominator": part.denominator,
            }
