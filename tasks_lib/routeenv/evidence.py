"""What the catalog says for each database about a query: evidence by database, table, column and value, by words and by meaning.

Which catalog text feeds which index is decided here; counting is in `indexes`, weighing in `reranker` and `search`. The kinds of
evidence and their order are `reranker.FEATURES`; every one is in 0..1 and rounded, so that the order of sums in a batch says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tasks_lib.models.embeddings import DIMENSIONS, embed
from tasks_lib.routeenv.indexes import Floats, GramIndex, Groups, Integers, Shares, ValueIndex, Vocabulary, marked_words
from tasks_lib.routeenv.rows import CatalogRows, Row
from tasks_lib.routeenv.tokens import STOPWORDS, raw, stem, tokens

DIGITS = 5
"""Vectors of MiniLM agree between machines to 1e-6, so evidence is told to 1e-5."""
CARDS = 3
"""`cards` is the mean over this many nearest card chunks of a database and its tables; `sentence` is its nearest column alone."""


def _phrases(words: Sequence[str]) -> list[str]:
    return [f"{a} {b}" for a, b in pairwise(words)]


def _topic(database: Row) -> str:
    """What the records are about: the summary without what it counts."""
    return str(database["summary"]).split(". Holds", maxsplit=1)[0]


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
        pairs, new = self.pairs.queries([_phrases(words) for words in split])
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


def build(catalog: CatalogRows, ids: Sequence[str]) -> Indexes:
    """Index a catalog; `ids` are its sorted database ids (about 5 s for 268 databases)."""
    place = {name: i for i, name in enumerate(ids)}
    tables = [table for name in ids for table in catalog.tables_of.get(name, ())]
    topics = [tokens(_topic(catalog.databases[name])) for name in ids]
    words, pairs = Vocabulary(), Vocabulary()
    described = [
        tokens(catalog.databases[n]["summary"])
        + [w for c in catalog.cards_of.get(n, ()) if c["object_id"] == n for w in tokens(c["text"])]
        for n in ids
    ]
    spelled = [raw(catalog.databases[name]["summary"]) for name in ids]
    names, phrases = [list(topic) for topic in topics], [_phrases(topic) for topic in topics]
    table_words, column_words, column_owners, table_owners = [], [], [], []
    for table in tables:
        owner, title = place[table["database_id"]], tokens(table["name"])
        mine = list(title)
        names[owner] += title
        phrases[owner] += _phrases(title)
        spelled[owner] += raw(table["name"])
        for column in catalog.columns_of.get(table["table_id"], ()):
            text = f"{column['name']} {column['meaning']}"
            name, told = tokens(column["name"]), tokens(text)
            mine += told + [w for value in column["examples"] for w in tokens(value)]
            phrases[owner] += _phrases(told) + _phrases(title[-1:] + name[:1]) + _phrases(name[-1:] + title[:1])
            spelled[owner] += raw(text)
            column_words.append(told)
            column_owners.append(owner)
        described[owner] += mine
        table_words.append(mine + topics[owner])
        table_owners.append(owner)
    values: list[list[str]] = [[] for _ in ids]
    for entity in catalog.entities.values():
        values[place[entity["database_id"]]] += tokens(entity["value"])
    learned = [_learn(words, texts) for texts in (described, table_words, column_words, names, values)]
    paired = _learn(pairs, phrases)
    size, known = len(ids), len(words.numbers)
    sentences = [card for card in catalog.cards if card["object_id"] in catalog.columns]
    cards = [card for card in catalog.cards if card["object_id"] not in catalog.columns]
    columns = Shares(learned[2], known, "density")
    columns.best_words(Groups(np.asarray(column_owners, dtype=np.int64), size))
    return Indexes(
        words=words,
        pairs=pairs,
        databases=Shares(learned[0], known, "bm25"),
        tables=Shares(learned[1], known, "bm25"),
        columns=columns,
        names=Shares(learned[3], known, "coverage"),
        coverage=Shares([a + b for a, b in zip(learned[0], learned[4], strict=True)], known, "coverage"),
        entities=Shares(learned[4], known, "coverage"),
        phrases=Shares(paired, len(pairs.numbers), "coverage"),
        grams=GramIndex(spelled),
        values=ValueIndex(((e["value"], place[e["database_id"]]) for e in catalog.entities.values()), size),
        schema=frozenset(word for text in [*names, *column_words] for word in text),
        silent=np.asarray([float(name not in catalog.entities_of) for name in ids]),
        table_groups=Groups(np.asarray(table_owners, dtype=np.int64), size),
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
