"""PRIVATE. Candidate allowlists: what a router must choose from.

Distractors are databases of the same corpus: the target's own cluster and nearest neighbours first, the rest spread over the
other clusters. Closeness is that of the frozen `schema_card` of corpora, so later work on the catalog never moves a release;
how well any router does plays no part. Left out are databases that the request could be about as well (`confusable`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tasks_lib.contracts.contract import Candidate, Unit
from tasks_lib.contracts.interactive import rivals
from tasks_lib.contracts.pool import Pool
from tasks_lib.contracts.questions import normal
from tasks_lib.corpora.cards import schema_card
from tasks_lib.store.keys import keyed_digest

NEAR_IDENTICAL = 0.8
"""Jaccard overlap of the (table, column) names from which two schemas count as the same."""
NEIGHBOUR_SHARE = 0.5
"""Share of an allowlist that is close to the targets."""
DECIMALS = 2
"""Similarities are rounded to this before they order or cluster anything, ties go by name. Vectors agree to about 1e-6 between
machines, so the coarser the step the fewer pairs can round either way: at two decimals about one in ten thousand."""


def overlap(first: frozenset[tuple[str, str]], second: frozenset[tuple[str, str]]) -> float:
    """Jaccard overlap of two schemas, 0..1."""
    return len(first & second) / len(first | second) if first or second else 0.0


class Neighbourhood:
    """Similarity of the databases of one corpus: MiniLM vectors of the schema cards, agglomerative clusters over them."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.names = tuple(pool.databases)
        self.schemas = {
            name: frozenset((t.name.lower(), c.name.lower()) for t in database.tables for c in t.columns)
            for name, database in pool.databases.items()
        }

    @cached_property
    def tables(self) -> dict[str, frozenset[str]]:
        """Database -> its tables and views in lower case."""
        return {name: frozenset(table for table, _ in schema) for name, schema in self.schemas.items()}

    @cached_property
    def columns(self) -> dict[str, frozenset[str]]:
        """Database -> its columns as `table.column` in lower case."""
        return {name: frozenset(map(".".join, schema)) for name, schema in self.schemas.items()}

    @cached_property
    def similarity(self) -> npt.NDArray[np.float64]:
        """Cosine similarity [n, n] of the schema cards in the order of `names`, rounded to DECIMALS.

        Long cards are embedded in pieces whose vectors are averaged: nothing is cut off. What all cards of the corpus have in
        common is taken off first, else every database is close to every other (mean 0.53 in BIRD) and most of them fall into
        one cluster. Costs about 0.1 s for every 256 tokens of card that are not in the vector cache.
        """
        from tasks_lib.models.embeddings import embed

        vectors = embed([schema_card(self.pool.databases[name]) for name in self.names]).astype(np.float64)
        vectors -= vectors.mean(axis=0)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors = np.divide(
            vectors, lengths, out=np.zeros_like(vectors), where=lengths > 1e-6
        )  # equal cards have no direction
        found: npt.NDArray[np.float64] = np.round(vectors @ vectors.T, DECIMALS)
        return found

    @cached_property
    def clusters(self) -> dict[str, int]:
        """Database -> cluster number; about one cluster for six databases."""
        if len(self.names) < 3:
            return dict.fromkeys(self.names, 0)
        from sklearn.cluster import AgglomerativeClustering

        # Complete linkage: average linkage chains half of a corpus into one cluster.
        model = AgglomerativeClustering(max(2, len(self.names) // 6), metric="precomputed", linkage="complete")
        labels = model.fit_predict(1.0 - self.similarity)
        return {name: int(label) for name, label in zip(self.names, labels, strict=True)}

    def confusable(self, units: Sequence[Unit]) -> frozenset[str]:
        """Databases that may not stand beside the targets, since the request could be about them.

        They are asked the same question, have a near-identical schema, or have every table and column that a gold names.
        """
        targets = {unit.database for unit in units}
        asked = frozenset[str]().union(*(self.pool.asked_by.get(normal(unit.question), ()) for unit in units))
        twins = {
            name
            for name in self.names
            for target in targets
            if overlap(self.schemas[name], self.schemas[target]) >= NEAR_IDENTICAL
        }
        answering = {
            name
            for name in self.names
            for unit in units
            if unit.tables and self.tables[name].issuperset(unit.tables) and self.columns[name].issuperset(unit.columns)
        }
        return (asked | twins | answering) - targets

    def allowlist(self, candidate: Candidate, size: int, spread_only: bool = False) -> tuple[str, ...]:
        """Physical names of the candidate databases of a task, in name order; targets included.

        `size`: how many; fewer when the corpus has no more that are not confusable. `spread_only`: no near ones, all drawn
        from the whole corpus in keyed order (the ablation with random distractors).
        """
        targets = sorted(set(candidate.databases))
        barred = self.confusable(candidate.units) | rivals(self.pool, candidate)
        free = [name for name in self.names if name not in barred and name not in targets]
        room = max(0, min(size, len(self.names)) - len(targets))
        if spread_only:
            return tuple(
                sorted([*targets, *self.pool.ordered(free, f"random distractors {candidate.candidate_id}", str)[:room]])
            )
        rows = self.similarity[[self.names.index(target) for target in targets]].max(axis=0)
        closeness = dict(zip(self.names, rows.tolist(), strict=True))
        home = {self.clusters[target] for target in targets}
        near = sorted(free, key=lambda name: (self.clusters[name] not in home, -closeness[name], name))
        chosen = near[: round(room * NEIGHBOUR_SHARE)]
        spread: dict[int, list[str]] = {}
        for name in self.pool.ordered(
            (n for n in free if n not in chosen), f"distractors {candidate.candidate_id}", str
        ):
            spread.setdefault(self.clusters[name], []).append(name)
        turns = self.pool.ordered(spread, f"clusters {candidate.candidate_id}", str)
        while len(chosen) < room and any(spread.values()):
            for cluster in turns:
                if spread[cluster] and len(chosen) < room:
                    chosen.append(spread[cluster].pop(0))
        return tuple(sorted([*targets, *chosen]))


def public_order(key: bytes, public_ids: Sequence[str]) -> tuple[str, ...]:
    """Public ids in keyed-digest order, so that no position tells a target."""
    return tuple(sorted(public_ids, key=lambda public: keyed_digest(key, f"allowlist\x1f{public}")))
