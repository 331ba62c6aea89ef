"""Finding capabilities and values in the catalog rows. Databases are found by `search`.

Allowlist and dataset are applied before the cut; order is by score rounded to 6 decimals, then public id (known fault K04).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from tasks_lib.routeenv.indexes import WordIndex
from tasks_lib.routeenv.rows import CatalogRows, Row
from tasks_lib.routeenv.tokens import raw, tokens

DECIMALS = 6


def ranked(scores: Mapping[str, float], allow: Collection[str], top_k: int) -> list[tuple[str, float]]:
    """The `top_k` best allowed ids: allowlist first, then by falling score rounded to 6 decimals, then by id (K04)."""
    kept = [(name, round(float(score), DECIMALS)) for name, score in scores.items() if name in allow]
    return sorted(kept, key=lambda item: (-item[1], item[0]))[:top_k]


class Lookup:
    """Word indexes over capabilities and values; read-only once built."""

    def __init__(self, rows: CatalogRows) -> None:
        self.rows = rows
        self.capability_ids = list(rows.capabilities)
        self.capability_words = WordIndex(
            [
                tokens(f"{row['text']} {rows.tables[row['table_id']]['name']}")
                + tokens(rows.databases[row["database_id"]]["summary"].split(".")[0])
                for row in rows.capabilities.values()
            ]
        )
        self.entity_ids = list(rows.entities)
        self.entity_raw = [tuple(raw(row["value"])) for row in rows.entities.values()]
        self.entity_words = WordIndex(self.entity_raw)

    def capabilities(self, query: str, allow: Collection[str], top_k: int, dataset: str | None = None) -> list[Row]:
        """Capabilities of allowed databases that share a word with the query, nearest first."""
        scores = self.capability_words.cosine(tokens(query))
        return self._best(self.rows.capabilities, self.capability_ids, scores, allow, top_k, dataset)

    def entities(self, query: str, allow: Collection[str], top_k: int, dataset: str | None = None) -> list[Row]:
        """Values in allowed databases that share a word with the query; equal ones first, then contained ones."""
        words = raw(query)
        whole = tuple(words)
        scores = self.entity_words.cosine(words)
        text = f" {' '.join(words)} "
        for place in np.flatnonzero(scores > 0):
            value = self.entity_raw[place]
            if value == whole:
                scores[place] += 2
            elif f" {' '.join(value)} " in text:
                scores[place] += 1
        return self._best(self.rows.entities, self.entity_ids, scores, allow, top_k, dataset)

    def _best(
        self,
        rows: Mapping[str, Row],
        ids: list[str],
        scores: np.ndarray[tuple[int], np.dtype[np.float64]],
        allow: Collection[str],
        top_k: int,
        dataset: str | None,
    ) -> list[Row]:
        found: dict[str, float] = {}
        for place in np.flatnonzero(scores > 0):
            database = rows[ids[place]]["database_id"]
            if database in allow and (dataset is None or self.rows.databases[database]["corpus"] == dataset):
                found[ids[place]] = float(scores[place])
        return [rows[name] for name, _ in ranked(found, found, top_k)]
