"""What the catalog says for each database about a query: evidence by database, table, column and value, by words and by meaning.

Which words of a database (`parts`) feed which index is decided here; counting is in `indexes`, weighing in `reranker` and `search`. The kinds of
evidence and their order are `reranker.FEATURES`; every one is in 0..1 and rounded, so that the order of sums in a batch says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tasks_lib.models.embeddings import DIMENSIONS, embed
from tasks_lib.routeenv.indexes import Floats, GramIndex, Groups, Integers, Shares, ValueIndex, Vocabulary, marked_words
from tasks_lib.routeenv.parts import Part, phrases_of
from tasks_lib.routeenv.rows import CatalogRows, Row
from tasks_lib.routeenv.tokens import STOPWORDS, raw, stem, tokens

DIGITS = 5
"""Vectors of MiniLM agree between machines to 1e-6, so evidence is told to 1e-5."""
CARDS = 3
"""`cards` is the mean over this many nearest card chunks of a database and its tables; `sentence` is its nearest column alone."""


@dataclass(frozen=True)
class Indexes:
    """Everything built from the catalog for searching databases, in the order of sorted database ids."""

    words: Vocabulary
    pairs: Vocabulary
    databases: Shares
    tables: Shares
    columns: Shares
    names: Shares
    coverage: Shares
    entities: Shares
    phrases: Shares
    grams: GramIndex
    values: ValueIndex
    schema: frozenset[str]
    silent: Floats
    table_groups: Groups
    card_groups: Groups
    sentence_groups: Groups
    cards: npt.NDArray[np.float32]
    sentences: npt.NDArray[np.float32]

    def lexical(self, queries: Sequence[str]) -> Floats:
        """[queries, databases, LEXICAL]."""
        split = [tokens(query) for query in queries]
        held, unknown = self.words.queries(split)
        pairs, new = self.pairs.queries([phrases_of(words) for words in split])
        kinds = (
            self.databases(held, unknown),
            self.table_groups.best(self.tables(held, unknown)),
            self.columns(held, unknown),
            self.phrases(pairs, new),
            self.names(held, unknown),
            self.coverage(held, unknown),
            self.entities(held, unknown),
            np.stack([self.values.scores(query) for query in queries]),
            self.grams.cosine(split),
            np.outer([self._values_named(query) for query in queries], self.silent),
        )
        return np.round(np.stack(kinds, axis=-1), DIGITS)

    def _values_named(self, query: str) -> float:
        """Share of a query's words that look like values: marked ones, and ones that no schema holds.

        A database whose values are withheld, or that holds none, cannot match these; the kind `silence` makes up for it.
        """
        marked = marked_words(query)
        words = list(dict.fromkeys(word for word in raw(query) if word not in STOPWORDS))
        return sum(word in marked or stem(word) not in self.schema for word in words) / max(len(words), 1)

    def semantic(self, queries: Sequence[str]) -> Floats:
        """[queries, databases, SEMANTIC]."""
        vectors = embed(queries)
        near = np.clip(vectors @ self.cards.T, 0, 1).astype(np.float64)
        nearest = self.sentence_groups.best(vectors @ self.sentences.T)
        kinds = (self.card_groups.best(near, CARDS), np.clip(nearest, 0, 1).astype(np.float64))
        return np.round(np.stack(kinds, axis=-1), DIGITS)


def build(catalog: CatalogRows, ids: Sequence[str], parts: Sequence[Part]) -> Indexes:
    """Index a catalog; `ids` are its sorted database ids, `parts` what `parts.read` gives of each (about 3 s for 268 databases)."""
    place = {name: i for i, name in enumerate(ids)}
    words, pairs = Vocabulary(), Vocabulary()
    described = _learn(words, (part.described for part in parts))
    tables = _learn(words, (table for part in parts for table in part.tables))
    columns = _learn(words, (column for part in parts for column in part.columns))
    names = _learn(words, (part.names for part in parts))
    values = _learn(words, (part.value_words for part in parts))
    phrases = _learn(pairs, (part.phrases for part in parts))
    size, known = len(ids), len(words.numbers)
    every = np.arange(size)
    sentences = [card for card in catalog.cards if card["object_id"] in catalog.columns]
    cards = [card for card in catalog.cards if card["object_id"] not in catalog.columns]
    by_column = Shares(columns, known, "density")
    by_column.best_words(Groups(np.repeat(every, [len(part.columns) for part in parts]), size))
    return Indexes(
        words=words,
        pairs=pairs,
        databases=Shares(described, known, "bm25"),
        tables=Shares(tables, known, "bm25"),
        columns=by_column,
        names=Shares(names, known, "coverage"),
        coverage=Shares([a + b for a, b in zip(described, values, strict=True)], known, "coverage"),
        entities=Shares(values, known, "coverage"),
        phrases=Shares(phrases, len(pairs.numbers), "coverage"),
        grams=GramIndex([part.spelled for part in parts]),
        values=ValueIndex(((value, i) for i, part in enumerate(parts) for value in part.values), size),
        schema=frozenset(word for part in parts for text in (part.names, *part.columns) for word in text),
        silent=np.asarray([float(not part.values) for part in parts]),
        table_groups=Groups(np.repeat(every, [len(part.tables) for part in parts]), size),
        card_groups=Groups(_owners(cards, place), size),
        sentence_groups=Groups(_owners(sentences, place), size),
        cards=_vectors(cards),
        sentences=_vectors(sentences),
    )


def _owners(cards: Sequence[Row], place: Mapping[str, int]) -> Integers:
    return np.asarray([place[c["database_id"]] for c in cards], dtype=np.int64)


def _vectors(cards: Sequence[Row]) -> npt.NDArray[np.float32]:
    return np.asarray([c["vector"] for c in cards], dtype=np.float32).reshape(len(cards), DIMENSIONS)


def _learn(words: Vocabulary, texts: Iterable[Sequence[str]]) -> list[list[int]]:
    return [words.learn(text) for text in texts]
