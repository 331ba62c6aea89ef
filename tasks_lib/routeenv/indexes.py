"""Inverted indexes over catalog text: word IDF, character n-grams, values. Each scores many queries at once, [queries, rows].

Only counting and weighting live here, on plain arrays; which catalog text is indexed is `evidence`, how evidence is weighed `search`.
All indexes are read-only once built and hold no reference to a query.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tasks_lib.routeenv.tokens import raw, tokens

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

BM25_K1, BM25_B = 1.2, 0.75


@dataclass(frozen=True)
class Groups:
    """Rows of an index that belong to one database each, in order: `owners` is the place of the database of every row."""

    owners: Integers
    size: int

    @cached_property
    def _starts(self) -> tuple[Integers, Integers]:
        """Databases that have rows, and the first row of each."""
        places, starts = np.unique(self.owners, return_index=True)
        return places, starts

    def best(self, values: npt.NDArray[Any], most: int = 1) -> npt.NDArray[Any]:
        """[queries, rows] as [queries, databases]: the mean of the `most` largest of each database, missing ones 0."""
        out = np.zeros((len(values), self.size), dtype=values.dtype)
        places, starts = self._starts
        if most == 1:
            if len(places):
                out[:, places] = np.maximum.reduceat(values, starts, axis=1)
            return out
        wide = float(values.max(initial=0.0)) + 1.0
        ordered = np.sort(
            self.owners * wide - values, axis=1
        )  # owners stay in order, inside each the largest value comes first
        sizes = np.diff([*starts, len(self.owners)])
        for nth in range(most):
            has = sizes > nth
            out[:, places[has]] += places[has] * wide - ordered[:, starts[has] + nth]
        return out / most


class Vocabulary:
    """Words of all indexes by number; a query word that no index knows is counted, for it must lower every share."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def learn(self, words: Iterable[str]) -> list[int]:
        """Numbers of words, new ones added."""
        return [self.numbers.setdefault(word, len(self.numbers)) for word in words]

    def queries(self, texts: Sequence[Sequence[str]]) -> tuple[sparse.csr_matrix, Floats]:
        """(which known words each query holds, how many unknown ones)."""
        held = [[self.numbers[w] for w in dict.fromkeys(words) if w in self.numbers] for words in texts]
        unknown = [len(set(words)) - len(known) for words, known in zip(texts, held, strict=True)]
        return _matrix(held, [[1.0] * len(h) for h in held], len(self.numbers)), np.asarray(unknown, dtype=float)


def _matrix(columns: Sequence[Sequence[int]], values: Sequence[Sequence[float]], width: int) -> sparse.csr_matrix:
    ends = np.cumsum([0, *(len(row) for row in columns)])
    flat = np.fromiter(chain.from_iterable(columns), dtype=np.int32, count=int(ends[-1]))
    data = np.fromiter(chain.from_iterable(values), dtype=np.float64, count=int(ends[-1]))
    found = sparse.csr_matrix((data, flat, ends), shape=(len(columns), width))
    found.sort_indices()
    return found


def _scaled(matrix: sparse.csr_matrix, by: Floats) -> sparse.csr_matrix:
    """Every column times its number."""
    found = matrix.copy()
    found.data = found.data * by[found.indices]
    return found


def _products(queries: sparse.csr_matrix, documents: sparse.csr_matrix) -> Floats:
    """[queries, documents] of queries by words and words by documents.

    One query alone is summed by hand: making SciPy's matrices takes many times longer than multiplying so few words.
    """
    found: Floats
    if queries.shape[0] != 1:
        found = (queries @ documents).toarray()
        return found
    starts, ends = documents.indptr[queries.indices], documents.indptr[queries.indices + 1]
    spans = [slice(a, b) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
    size = documents.shape[1]
    if not spans:
        return np.zeros((1, size))
    places = np.concatenate([documents.indices[span] for span in spans])
    values = np.concatenate([documents.data[span] for span in spans]) * np.repeat(queries.data, ends - starts)
    found = np.bincount(places, weights=values, minlength=size).astype(np.float64)[None]
    return found


class Shares:
    """How much of the weight of a query's words a document has: a ratio of the query's words weighted by rarity.

    `coverage`: each word counts in full when the document holds it. `density`: as large as the word is in the document (unit
    vectors of IDF weights). `bm25`: Robertson's saturation by count and length. All in 0..1.
    """

    def __init__(
        self, documents: Sequence[Sequence[int]], words: int, kind: Literal["coverage", "density", "bm25"]
    ) -> None:
        n = len(documents)
        counts = [Counter(document) for document in documents]
        found = _matrix([list(c) for c in counts], [list(c.values()) for c in counts], words)
        of = np.repeat(np.arange(n), np.diff(found.indptr))
        held = np.bincount(found.indices, minlength=words)
        if kind == "bm25":
            lengths = np.asarray([len(d) for d in documents], dtype=float)
            damped = BM25_K1 * (1 - BM25_B + BM25_B * lengths / max(float(lengths.mean()), 1.0)) if n else lengths
            self.idf: Floats = np.log(1 + (n - held + 0.5) / (held + 0.5))
            self.unseen = math.log(1 + (n + 0.5) / 0.5)
            found.data = found.data / (found.data + damped[of])
        else:
            self.idf = np.log((n + 1) / (held + 0.5))
            self.unseen = math.log((n + 1) / 0.5)
            found.data = np.ones_like(found.data) if kind == "coverage" else self.idf[found.indices]
            if kind == "density":
                found.data /= np.maximum(_norms(found), 1e-9)[of]
        self.documents = found.T.tocsr()

    def best_words(self, groups: Groups) -> None:
        """Keep for every database and word the largest value among its documents, instead of the documents."""
        found = self.documents.tocoo()
        owners = groups.owners[found.col]
        order = np.lexsort((-found.data, owners, found.row))
        rows, columns = found.row[order], owners[order]
        first = np.flatnonzero(np.diff(rows, prepend=-1) | np.diff(columns, prepend=-1))
        shape = (self.documents.shape[0], groups.size)
        self.documents = sparse.csr_matrix((found.data[order][first], (rows[first], columns[first])), shape=shape)

    @cached_property
    def weighted(self) -> sparse.csr_matrix:
        """The documents with every word times its rarity."""
        found = self.documents.copy()
        found.data = found.data * np.repeat(self.idf, np.diff(found.indptr))
        return found

    def __call__(self, queries: sparse.csr_matrix, unknown: Floats) -> Floats:
        """[queries, documents]."""
        total = np.maximum(queries @ self.idf + unknown * self.unseen, 1e-9)
        found: Floats = _products(queries, self.weighted) / total[:, None]
        return found


class WordIndex:
    """IDF over documents of stemmed words, for one query at a time."""

    def __init__(self, texts: Sequence[Sequence[str]]) -> None:
        self.vocabulary: dict[str, int] = {}
        rows: list[int] = []
        columns: list[int] = []
        for row, words in enumerate(texts):
            for word in dict.fromkeys(words):
                rows.append(row)
                columns.append(self.vocabulary.setdefault(word, len(self.vocabulary)))
        self.size = len(texts)
        held = np.bincount(columns, minlength=len(self.vocabulary)) if columns else np.zeros(0)
        self.idf: Floats = np.log((self.size + 1) / (held + 0.5))
        self.unseen = math.log((self.size + 1) / 0.5)
        shape = (self.size, len(self.vocabulary))
        self.held = sparse.csc_matrix((np.ones(len(rows)), (rows, columns)), shape=shape)
        weights = self.idf[columns] if columns else np.zeros(0)
        norms = np.sqrt(np.bincount(rows, weights=weights**2, minlength=self.size)) if rows else np.ones(self.size)
        self.unit = sparse.csc_matrix(
            (weights / np.maximum(norms, 1e-9)[rows] if rows else weights, (rows, columns)), shape=shape
        )

    def _known(self, words: Sequence[str]) -> tuple[list[int], Floats, float]:
        distinct = list(dict.fromkeys(words))
        known = [self.vocabulary[word] for word in distinct if word in self.vocabulary]
        weights = self.idf[known]
        # a word of no document still counts in full: a query about something else must not look covered
        return known, weights, float(weights.sum()) + (len(distinct) - len(known)) * self.unseen

    def cosine(self, words: Sequence[str]) -> Floats:
        """Cosine of query and documents under IDF weights."""
        known, weights, _ = self._known(words)
        unseen = len(dict.fromkeys(words)) - len(known)
        norm = math.sqrt(float((weights**2).sum()) + unseen * self.unseen**2)
        if not known:
            return np.zeros(self.size)
        result: Floats = self.unit[:, known] @ weights / norm
        return result


@lru_cache(maxsize=100_000)
def _grams(word: str) -> tuple[str, ...]:
    marked = f" {word} "
    return tuple(marked[i : i + n] for n in (3, 4, 5) for i in range(len(marked) - n + 1))


class GramIndex:
    """TF-IDF cosine over character 3- to 5-grams inside words, so that stems, compounds and misspellings meet."""

    def __init__(self, texts: Sequence[Sequence[str]]) -> None:
        self.vocabulary: dict[str, int] = {}
        counts = [Counter(words) for words in texts]
        words = {word: place for place, word in enumerate(dict.fromkeys(w for c in counts for w in c))}
        inside = [Counter(_grams(word)) for word in words]
        columns = [[self.vocabulary.setdefault(g, len(self.vocabulary)) for g in c] for c in inside]
        spelled = _matrix(columns, [list(map(float, c.values())) for c in inside], len(self.vocabulary))
        held_words = _matrix([[words[w] for w in c] for c in counts], [list(c.values()) for c in counts], len(words))
        grams = sparse.csr_matrix(held_words @ spelled)  # a word that many databases share is taken apart once
        self.size = len(texts)
        held = np.bincount(grams.indices, minlength=len(self.vocabulary))
        self.idf: Floats = np.log((1 + self.size) / (1 + held)) + 1
        self.unseen = (math.log(1 + self.size) + 1) ** 2
        grams.data = 1 + np.log(grams.data)
        weighted = _scaled(grams, self.idf)
        self.unit = (sparse.diags(1 / np.maximum(_norms(weighted), 1e-9)) @ weighted).T.tocsr()

    def cosine(self, queries: Sequence[Sequence[str]]) -> Floats:
        """[queries, documents], each in 0..1."""
        counts = [_counted(words) for words in queries]
        known = [{self.vocabulary[g]: n for g, n in c.items() if g in self.vocabulary} for c in counts]
        weighted = _scaled(_matrix([list(k) for k in known], [_logs(k) for k in known], len(self.vocabulary)), self.idf)
        unseen = np.asarray([len(c) - len(k) for c, k in zip(counts, known, strict=True)]) * self.unseen
        norms = np.sqrt(_norms(weighted) ** 2 + unseen)
        return _products(weighted, self.unit) / np.maximum(norms, 1e-9)[:, None]


def _counted(words: Sequence[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for word, n in Counter(words).items():
        for gram in _grams(word):
            counts[gram] += n
    return counts


def _logs(counts: Mapping[Any, int]) -> list[float]:
    return [1 + math.log(n) for n in counts.values()]


def _norms(matrix: sparse.csr_matrix) -> Floats:
    found: Floats = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    return found


class ValueIndex:
    """Finds catalog values word for word inside a query, longest first."""

    LONGEST = 8

    def __init__(self, values: Iterable[tuple[tuple[str, ...], int]], databases: int) -> None:
        """`values`: (`raw` words of a value, place of its database)."""
        places: defaultdict[tuple[str, ...], set[int]] = defaultdict(set)
        for words, place in values:
            if 0 < len(words) <= self.LONGEST:
                places[words].add(place)
        self.places = {words: sorted(found) for words, found in places.items()}
        self.databases = databases

    def scores(self, query: str) -> Floats:
        """Score in 0..1 for every database: rare, long and capitalised or quoted values weigh most."""
        words = raw(query)
        marked = marked_words(query)
        out = np.zeros(self.databases)
        at = 0
        while at < len(words):
            for n in range(min(self.LONGEST, len(words) - at), 0, -1):
                span = tuple(words[at : at + n])
                found = self.places.get(span)
                if found and (n > 1 or tokens(span[0])):
                    certain = 1.0 if any(word in marked for word in span) else 0.3
                    out[found] += certain * math.sqrt(n) * math.log(1 + self.databases / len(found))
                    at += n
                    break
            else:
                at += 1
        return out / (out + 4)


@lru_cache(maxsize=20_000)
def marked_words(query: str) -> frozenset[str]:
    """Words that the query writes in capitals, with digits or in quotes, its first word aside."""
    marked = {
        w.casefold() for i, w in enumerate(query.split()) if (i and w[:1].isupper()) or any(c.isdigit() for c in w)
    }
    quoted = [part for mark in "\"'" for part in query.split(mark)[1::2]]
    return frozenset(word for text in [*marked, *quoted] for word in raw(text))
