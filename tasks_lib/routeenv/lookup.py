"""Finding columns, capabilities and values in the catalog rows. Databases are found by `search`.

Allowlist and dataset are applied before the cut; order is by score rounded to 6 decimals, then public id (known fault K04).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tasks_lib.routeenv.indexes import Floats, WordIndex
from tasks_lib.routeenv.rows import CatalogRows, Row
from tasks_lib.routeenv.tokens import raw, tokens

DECIMALS = 6


class _Shelf:
    """Rows of one kind with their words, and the best of them that are allowed."""

    def __init__(self, rows: Mapping[str, Row], words: Sequence[Sequence[str]], databases: Mapping[str, int]) -> None:
        ids = list(rows)
        self.rows = list(rows.values())
        self.words = WordIndex(words)
        self._owners = np.asarray([databases[row["database_id"]] for row in self.rows], dtype=np.int64)
        self._order = np.empty(len(ids), dtype=np.int64)
        self._order[np.argsort(np.asarray(ids, dtype=object), kind="stable")] = np.arange(len(ids))

    def best(self, scores: Floats, allowed: npt.NDArray[np.bool_], top_k: int) -> list[Row]:
        """The `top_k` rows with a score above 0 in allowed databases, nearest first, equal ones by id."""
        places = np.flatnonzero((scores > 0) & allowed[self._owners])
        rounded = np.round(scores[places], DECIMALS)
        order = np.lexsort((self._order[places], -rounded))[:top_k]
        return [self.rows[place] for place in places[order].tolist()]


class Lookup:
    """Word indexes over columns, capabilities and values; read-only once built."""

    def __init__(self, rows: CatalogRows) -> None:
        self.rows = rows
        self._databases = {name: place for place, name in enumerate(rows.databases)}
        titles = {name: tokens(row["summary"].split(".")[0]) for name, row in rows.databases.items()}
        names = {name: tokens(row["name"]) for name, row in rows.tables.items()}
        self._columns = _Shelf(
            rows.columns,
            [tokens(f"{row['name']} {row['meaning']}") + names[row["table_id"]] for row in rows.columns.values()],
            self._databases,
        )
        self._capabilities = _Shelf(
            rows.capabilities,
            [
                tokens(row["text"]) + names[row["table_id"]] + titles[row["database_id"]]
                for row in rows.capabilities.values()
            ],
            self._databases,
        )
        values = [tuple(raw(row["value"])) for row in rows.entities.values()]
        self._values = _Shelf(rows.entities, values, self._databases)
        self._whole: dict[tuple[str, ...], list[int]] = {}
        for place, words in enumerate(values):
            self._whole.setdefault(words, []).append(place)
        self._lengths = sorted({len(words) for words in values if words})

    def columns(self, query: str, allow: Collection[str], top_k: int, dataset: str | None = None) -> list[Row]:
        """Columns of allowed databases that share a word with the query by name, meaning or table, nearest first."""
        return self._columns.best(self._columns.words.cosine(tokens(query)), self._allowed(allow, dataset), top_k)

    def capabilities(self, query: str, allow: Collection[str], top_k: int, dataset: str | None = None) -> list[Row]:
        """Capabilities of allowed databases that share a word with the query, nearest first."""
        shelf = self._capabilities
        return shelf.best(shelf.words.cosine(tokens(query)), self._allowed(allow, dataset), top_k)

    def entities(self, query: str, allow: Collection[str], top_k: int, dataset: str | None = None) -> list[Row]:
        """Values in allowed databases that share a word with the query; equal ones first, then contained ones."""
        words = tuple(raw(query))
        scores = self._values.words.cosine(words)
        for length in self._lengths:
            for span in {words[at : at + length] for at in range(len(words) - length + 1)}:
                scores[self._whole.get(span, [])] += 2 if span == words else 1
        return self._values.best(scores, self._allowed(allow, dataset), top_k)

    def _allowed(self, allow: Collection[str], dataset: str | None) -> npt.NDArray[np.bool_]:
        """Whether each database is allowed and of the dataset."""
        allowed = np.zeros(len(self._databases), dtype=np.bool_)
        for name in allow:
            if dataset is None or self.rows.databases[name]["corpus"] == dataset:
                allowed[self._databases[name]] = True
        return allowed
