"""Search over the public catalog: hierarchical IDF with semantic rescue, then a fixed reranker (PROTOCOL 6; paper C.3).

Reads public Parquet only. Two stages: `candidate` ranks all allowed databases by lexical evidence (IDF at database, table and
column level, character n-grams, values), and where that is weak gives places of the pool to the nearest by MiniLM;
`reranked` reorders the pool of 50 by a fixed linear fusion and leaves the rest behind it in candidate order.
Every order is by score rounded to 6 decimals, then public id; the allowlist is applied before any cut (known fault K04).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from tasks_lib.models.embeddings import embed
from tasks_lib.routeenv.indexes import Floats, GramIndex, Integers, ValueIndex, WordIndex, grouped_max
from tasks_lib.routeenv.lookup import DECIMALS, Lookup, ranked
from tasks_lib.routeenv.rows import CatalogRows
from tasks_lib.routeenv.tokens import raw, tokens

POOL = 50
SHORTLIST = 10

LEXICAL: Mapping[str, float] = {
    "database": 0.17,
    "table": 0.15,
    "column": 0.13,
    "grams": 0.23,
    "table_grams": 0.26,
    "values": 0.06,
}
RERANK: Mapping[str, float] = {
    "database": 0.13,
    "table": 0.10,
    "column": 0.09,
    "grams": 0.11,
    "table_grams": 0.16,
    "values": 0.05,
    "card": 0.25,
    "summary": 0.11,
}
"""Weights of the evidence in the candidate stage and in the reranker, each adding up to 1.

Fitted once (listwise logistic loss, non-negative, rounded to two decimals) on 2,400 source questions of the train split of
Spider and BIRD searched inside their own corpus, and fixed since: no formal task and no dev question had a part in them.
"""
WEAK = 0.6
"""Lexical evidence is weak when no database in scope holds this share of the query's IDF weight (half of the train questions)."""
RESCUE = 0.5
"""Weight of the nearest MiniLM card in the candidate stage when lexical evidence is weak (0.98 to 0.99 Recall@20 on train)."""

Stage = Literal["candidate", "reranked"]
Evidence = dict[str, Floats]
"""Scores 0..1 of every database (in the order of `Catalog.ids`) by kind of evidence."""


@dataclass(frozen=True)
class Indexes:
    """Everything built from the catalog for searching databases; rows of tables, columns and cards are grouped by database."""

    databases: WordIndex
    tables: WordIndex
    columns: WordIndex
    grams: GramIndex
    table_grams: GramIndex
    values: ValueIndex
    cards: npt.NDArray[np.float32]
    table_span: tuple[Integers, Integers]
    column_span: tuple[Integers, Integers]
    card_span: tuple[Integers, Integers]
    summary_cards: Integers


@dataclass
class Catalog(CatalogRows):
    """The public catalog with its search. Shared read-only by many episodes and threads; indexes are built at first use."""

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._lexical: OrderedDict[str, Evidence] = OrderedDict()
        self._semantic: OrderedDict[str, Evidence] = OrderedDict()

    @cached_property
    def ids(self) -> list[str]:
        """Database ids in the order of every score array."""
        return sorted(self.databases)

    @cached_property
    def places(self) -> dict[str, int]:
        """Place of a database in every score array."""
        return {name: place for place, name in enumerate(self.ids)}

    @cached_property
    def indexes(self) -> Indexes:
        """Built at first use (about 0.2 s for 30 databases)."""
        with self._lock:
            return _build(self)

    @cached_property
    def lookup(self) -> Lookup:
        """Search for capabilities and values, built at first use."""
        with self._lock:
            return Lookup(self)

    def lexical(self, query: str) -> Evidence:
        """Lexical evidence for every database (order of `ids`), each 0..1, by the names in LEXICAL."""
        with self._lock:
            if query in self._lexical:
                self._lexical.move_to_end(query)
                return self._lexical[query]
        ix, words = self.indexes, tokens(query)
        density, weights = ix.columns.density(words)
        found = {
            "database": ix.databases.coverage(words),
            "table": grouped_max(ix.tables.coverage(words), *ix.table_span),
            "column": grouped_max(density, *ix.column_span) @ weights,
            "grams": ix.grams.cosine(words),
            "table_grams": grouped_max(ix.table_grams.cosine(words), *ix.table_span),
            "values": ix.values.scores(query),
        }
        return self._remember(self._lexical, query, found)

    def semantic(self, query: str) -> Evidence:
        """MiniLM evidence for every database, by the names in SEMANTIC: nearest card chunk, and the summary's chunk."""
        with self._lock:
            if query in self._semantic:
                self._semantic.move_to_end(query)
                return self._semantic[query]
        ix = self.indexes
        near: Floats = np.clip((ix.cards @ embed([query])[0]).astype(np.float64), 0, 1)
        found = {"card": grouped_max(near, *ix.card_span), "summary": near[ix.summary_cards]}
        return self._remember(self._semantic, query, found)

    def _remember(self, memory: OrderedDict[str, Evidence], query: str, found: Evidence) -> Evidence:
        with self._lock:
            memory[query] = found
            while len(memory) > 4096:
                memory.popitem(last=False)
        return found

    def search(
        self,
        query: str,
        allow: Collection[str],
        top_k: int = SHORTLIST,
        dataset: str | None = None,
        stage: Stage = "reranked",
    ) -> list[tuple[str, float]]:
        """The `top_k` best of the allowed databases as (public id, score), best first.

        `dataset` keeps one corpus only. Reranked scores are 0..1 in the pool and negative behind it. Deterministic; scores have 6 decimals.
        """
        allowed = set(allow)
        scope = [
            place
            for place, name in enumerate(self.ids)
            if name in allowed and (dataset is None or self.databases[name]["corpus"] == dataset)
        ]
        if not scope or top_k < 1:
            return []
        lexical = self.lexical(query)
        first = _fused(lexical, LEXICAL)[scope]
        if lexical["database"][scope].max() < WEAK:
            first = first + RESCUE * self.semantic(query)["card"][scope]
        names = [self.ids[place] for place in scope]
        order = [name for name, _ in ranked(dict(zip(names, first, strict=True)), allowed, len(names))]
        where = {name: i for i, name in enumerate(names)}
        if stage == "candidate":
            return ranked(dict(zip(names, first, strict=True)), allowed, top_k)
        pool = order[:POOL]
        second = _fused({**lexical, **self.semantic(query)}, RERANK)[scope]
        top = ranked({name: second[where[name]] for name in pool}, allowed, len(pool))
        rest = order[POOL:]
        tail = [(name, round(-(i + 1) / (len(rest) + 1), DECIMALS)) for i, name in enumerate(rest)]
        return (top + tail)[:top_k]


def _fused(evidence: Evidence, weights: Mapping[str, float]) -> Floats:
    total: Floats = np.sum([weight * evidence[name] for name, weight in weights.items()], axis=0)
    return total


def _spans(owners: Sequence[str], ids: Sequence[str]) -> tuple[Integers, Integers]:
    """[start, end) of each id's rows in `owners`, which are sorted like `ids`."""
    held = np.asarray(owners, dtype=object)
    starts = np.searchsorted(held, np.asarray(ids, dtype=object), side="left") if len(held) else np.zeros(len(ids))
    ends = np.searchsorted(held, np.asarray(ids, dtype=object), side="right") if len(held) else np.zeros(len(ids))
    return starts.astype(np.int64), ends.astype(np.int64)


def _build(catalog: Catalog) -> Indexes:
    ids = catalog.ids
    tables = [table for name in ids for table in catalog.tables_of.get(name, ())]
    columns = [column for table in tables for column in catalog.columns_of.get(table["table_id"], ())]
    column_words = {c["column_id"]: tokens(f"{c['name']} {c['meaning']}") for c in columns}
    column_names = {c["column_id"]: raw(f"{c['name']} {c['meaning']}") for c in columns}
    titles = {name: catalog.databases[name]["summary"] for name in ids}
    table_words, table_names = [], []
    for table in tables:
        words, names = tokens(table["name"]), raw(table["name"])
        for column in catalog.columns_of.get(table["table_id"], ()):
            words = words + column_words[column["column_id"]] + [w for v in column["examples"] for w in tokens(v)]
            names = names + column_names[column["column_id"]]
        table_words.append(words)
        table_names.append(names)
    table_span = _spans([table["database_id"] for table in tables], ids)
    database_words, database_names = [], []
    for place, public in enumerate(ids):
        span = range(table_span[0][place], table_span[1][place])
        described = [
            w for card in catalog.cards_of.get(public, ()) if card["object_id"] == public for w in tokens(card["text"])
        ]
        database_words.append(tokens(titles[public]) + described + [w for t in span for w in table_words[t]])
        database_names.append(raw(titles[public]) + [w for t in span for w in table_names[t]])
    table_words = [
        words + tokens(titles[t["database_id"]].split(".")[0]) for words, t in zip(table_words, tables, strict=True)
    ]
    cards = catalog.cards
    first = {card["object_id"]: i for i, card in reversed(list(enumerate(cards)))}
    return Indexes(
        databases=WordIndex(database_words),
        tables=WordIndex(table_words),
        columns=WordIndex([column_words[c["column_id"]] for c in columns]),
        grams=GramIndex(database_names),
        table_grams=GramIndex(table_names),
        values=ValueIndex(
            ((e["value"], catalog.places[e["database_id"]]) for e in catalog.entities.values()), len(ids)
        ),
        cards=np.asarray([card["vector"] for card in cards], dtype=np.float32).reshape(len(cards), -1),
        table_span=table_span,
        column_span=_spans([column["database_id"] for column in columns], ids),
        card_span=_spans([card["database_id"] for card in cards], ids),
        summary_cards=np.asarray([first[name] for name in ids], dtype=np.int64),
    )
