"""Finds known token sequences in text: each window of a text is hashed once, however many sequences are known.

Tokens and matching only; which sequences are secret, and from whom, is `leaks`. The cost of a text is linear in its length
and does not grow with the number of sequences: 20,000 gold statements cost what ten cost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.uint64]
P = TypeVar("P")

_TOKEN = re.compile(r"\w+|[^\w\s'\"`;]")
ANCHOR = 8
"""Tokens of a sequence that are looked up; a longer one is compared in full where its first eight stand."""
_BASE = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


class Tokens:
    """Numbers tokens: words and signs in lower case; layout, quote marks and semicolons do not count."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []

    def ids(self, text: str) -> Ids:
        """The tokens of a text as numbers, the same token always with the same one."""
        numbers, texts = self._numbers, self._texts
        found = []
        for token in _TOKEN.findall(text.lower()):
            number = numbers.get(token)
            if number is None:
                number = numbers[token] = len(texts) + 1
                texts.append(token)
            found.append(number)
        return np.asarray(found, dtype=np.uint64)

    def text(self, ids: Ids) -> str:
        """The tokens as text, one blank between two."""
        return " ".join(self._texts[int(i) - 1] for i in ids)


def _mixed(hashes: Ids) -> Ids:
    return (hashes ^ (hashes >> np.uint64(29))) * _MIX


def hashes_of(ids: Ids, lengths: Iterable[int] = (ANCHOR,)) -> dict[int, Ids]:
    """For each of `lengths`, the hash of every run of so many tokens, in order; empty when the text is shorter.

    `ids` may also have a row a text (all of one length): the runs then lie along the last axis.
    """
    wanted = set(lengths)
    found: dict[int, Ids] = {}
    hashes = np.zeros(ids.shape, dtype=np.uint64)
    for length in range(1, max(wanted, default=0) + 1):
        count = max(0, ids.shape[-1] - length + 1)
        hashes = hashes[..., :count] * _BASE + ids[..., length - 1 : length - 1 + count]
        if length in wanted:
            found[length] = _mixed(hashes)
    return found


class HashSet:
    """A fixed set of hashes with a quick test: a bitmap of their upper bits passes few others, a sorted search the rest."""

    def __init__(self, hashes: Ids) -> None:
        self._sorted: Ids = np.unique(hashes)
        self._shift = np.uint64(64 - max(10, len(self._sorted).bit_length() + 5))
        self._bitmap = np.zeros(1 << int(np.uint64(64) - self._shift), dtype=np.bool_)
        self._bitmap[self._sorted >> self._shift] = True

    def places(self, hashes: Ids) -> npt.NDArray[np.int64]:
        """Places of `hashes` that are in the set."""
        if not len(self._sorted):
            return np.zeros(0, dtype=np.int64)
        near = np.flatnonzero(self._bitmap[hashes >> self._shift])
        at = np.minimum(np.searchsorted(self._sorted, hashes[near]), len(self._sorted) - 1)
        places: npt.NDArray[np.int64] = near[self._sorted[at] == hashes[near]]
        return places


class Phrases(Generic[P]):
    """Token sequences, each with what it stands for."""

    def __init__(self, phrases: Iterable[tuple[Ids, P]]) -> None:
        """`phrases`: (tokens, what they stand for); one without tokens is left out."""
        by_length: dict[int, list[tuple[Ids, P]]] = {}
        for ids, meaning in phrases:
            if len(ids):
                by_length.setdefault(min(len(ids), ANCHOR), []).append((ids, meaning))
        self._known: dict[int, dict[int, list[tuple[Ids, P]]]] = {}
        self._heads: dict[int, HashSet] = {}
        for length, mine in sorted(by_length.items()):
            heads = hashes_of(np.stack([ids[:length] for ids, _ in mine]), [length])[length][:, 0]
            table = self._known[length] = {}
            for head, phrase in zip(heads.tolist(), mine, strict=True):
                table.setdefault(head, []).append(phrase)
            self._heads[length] = HashSet(heads)

    @property
    def lengths(self) -> frozenset[int]:
        """Lengths of the runs that `find` looks up."""
        return frozenset(self._heads)

    def find(self, ids: Ids, hashes: Mapping[int, Ids] | None = None) -> list[tuple[int, int, P]]:
        """(start, end, meaning) of every known sequence in a text, shorter ones first, then in order of the text.

        `hashes`: of the text, where they are at hand (at least `lengths`).
        """
        if hashes is None:
            hashes = hashes_of(ids, self.lengths)
        found = []
        for length, heads in self._heads.items():
            for start in heads.places(hashes[length]).tolist():
                for phrase, meaning in self._known[length][int(hashes[length][start])]:
                    end = start + len(phrase)
                    if np.array_equal(ids[start:end], phrase):
                        found.append((start, end, meaning))
        return found


def merged(starts: Sequence[int], length: int) -> list[tuple[int, int]]:
    """Runs (start, end) that windows of `length` at rising `starts` cover together."""
    runs: list[tuple[int, int]] = []
    for start in starts:
        if runs and start <= runs[-1][1]:
            runs[-1] = (runs[-1][0], start + length)
        else:
            runs.append((start, start + length))
    return runs
