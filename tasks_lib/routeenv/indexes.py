"""Inverted indexes over catalog text: word IDF, character n-grams, values. Each returns one score a row or a database.

Only counting and weighting live here, on plain arrays; which catalog text is indexed and how scores are fused is `search`.
All indexes are read-only once built and hold no reference to a query.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tasks_lib.routeenv.tokens import raw, tokens

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def grouped_max(values: npt.NDArray[Any], starts: Integers, ends: Integers) -> npt.NDArray[Any]:
    """Maximum of `values` over each group of rows [starts[i], ends[i]), 0 for an empty group."""
    out = np.zeros((len(starts), *values.shape[1:]), dtype=values.dtype)
    full = np.flatnonzero(ends > starts)
    if len(full):
        out[full] = np.maximum.reduceat(values, starts[full], axis=0)
    return out


class WordIndex:
    """IDF over documents of stemmed words.

    `coverage`: share of the query's IDF weight that a document holds. `density`: how much of a document (as a unit vector of
    IDF weights) each query word is.
    """

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

    def coverage(self, words: Sequence[str]) -> Floats:
        """Score in 0..1 for every document."""
        known, weights, total = self._known(words)
        if not known:
            return np.zeros(self.size)
        result: Floats = self.held[:, known] @ weights / total
        return result

    def density(self, words: Sequence[str]) -> tuple[Floats, Floats]:
        """(share of each known query word in each document [documents, words], weight of each word in the query)."""
        known, weights, total = self._known(words)
        if not known:
            return np.zeros((self.size, 0)), np.zeros(0)
        return self.unit[:, known].toarray(), weights / total

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
        rows: list[int] = []
        columns: list[int] = []
        values: list[float] = []
        for row, words in enumerate(texts):
            counts: Counter[int] = Counter()
            for word, n in Counter(words).items():
                for gram in _grams(word):
                    counts[self.vocabulary.setdefault(gram, len(self.vocabulary))] += n
            rows += [row] * len(counts)
            columns += counts.keys()
            values += counts.values()
        self.size = len(texts)
        held = np.bincount(columns, minlength=len(self.vocabulary)) if columns else np.zeros(0)
        self.idf: Floats = np.log((1 + self.size) / (1 + held)) + 1
        weights = (1 + np.log(np.asarray(values))) * self.idf[columns] if values else np.zeros(0)
        norms = np.sqrt(np.bincount(rows, weights=weights**2, minlength=self.size)) if rows else np.ones(self.size)
        scaled = weights / np.maximum(norms, 1e-9)[rows] if rows else weights
        self.unit = sparse.csc_matrix((scaled, (rows, columns)), shape=(self.size, len(self.vocabulary)))

    def cosine(self, words: Sequence[str]) -> Floats:
        """Cosine in 0..1 for every document."""
        counts = Counter(gram for word in words for gram in _grams(word))
        known = [self.vocabulary[gram] for gram in counts if gram in self.vocabulary]
        if not known:
            return np.zeros(self.size)
        weights = np.asarray(
            [(1 + math.log(n)) * self.idf[self.vocabulary[g]] for g, n in counts.items() if g in self.vocabulary]
        )
        unseen = (len(counts) - len(known)) * (math.log(1 + self.size) + 1) ** 2
        result: Floats = self.unit[:, known] @ weights / math.sqrt(float((weights**2).sum()) + unseen)
        return result


class ValueIndex:
    """Finds catalog values word for word inside a query, longest first."""

    LONGEST = 8

    def __init__(self, values: Iterable[tuple[str, int]], databases: int) -> None:
        """`values`: (value, place of its database)."""
        places: defaultdict[tuple[str, ...], set[int]] = defaultdict(set)
        for value, place in values:
            words = tuple(raw(value))
            if 0 < len(words) <= self.LONGEST:
                places[words].add(place)
        self.places = {words: sorted(found) for words, found in places.items()}
        self.databases = databases

    def scores(self, query: str) -> Floats:
        """Score in 0..1 for every database: rare, long and capitalised or quoted values weigh most."""
        words = raw(query)
        marked = _marked_words(query)
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


def _marked_words(query: str) -> set[str]:
    """Words that the query writes in capitals, with digits or in quotes, its first word aside."""
    marked = {
        w.casefold() for i, w in enumerate(query.split()) if (i and w[:1].isupper()) or any(c.isdigit() for c in w)
    }
    quoted = [part for mark in "\"'" for part in query.split(mark)[1::2]]
    return {word for text in [*marked, *quoted] for word in raw(text)}
