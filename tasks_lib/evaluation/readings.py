"""PRIVATE. One text as the leak scan reads it: escapes undone, cut into tokens, with the labels and gold that stand in it.

What is found here is asked of no audience yet; who may see what is `leaks`. Lines are read once however often they are shown.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tasks_lib.evaluation.lexicon import CLAUSES, LABELS, SIGNS
from tasks_lib.evaluation.phrases import ANCHOR, HashSet, Ids, Phrases, Tokens, hashes_of, merged

_COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\r": "\r", '\\"': '"', "\\'": "'", "\\/": "/", "\\u0027": "'", "\\u0022": '"'}
MINIMUM_SQL = 30
"""Gold text shorter than this (characters that count) is too ordinary to tell a leak from a coincidence."""

Lines = dict[str, tuple[str, Ids]]
"""Lines read so far: as shown, and as tokens."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A label or gold in a text, before it is asked who reads it. `owners`: databases of whole gold."""

    kind: str
    found: str
    excerpt: str
    owners: frozenset[str]
    label: str


@dataclass(frozen=True, slots=True)
class Reading:
    """One text as read: its lines with escapes undone, what stands in it, and the places of the tasks whose request it holds."""

    lines: tuple[str, ...]
    hits: tuple[Hit, ...]
    tasks: frozenset[int]


def plain(text: str) -> str:
    """The text as a reader takes it: JSON and HTML escapes undone."""
    if "\\" in text:
        for escape, character in _ESCAPES.items():
            text = text.replace(escape, character)
    return html.unescape(text) if "&" in text else text


def squeezed(sql: str) -> str:
    """SQL text in lower case without layout and quote marks: what "the same query" means to the scan."""
    return re.sub(r"[\s'\"`;]+", "", sql.lower())


class Reader:
    """Reads texts. `gold`: gold SQL by unit id with the physical database that owns it. `requests`: of the tasks to look for."""

    def __init__(self, gold: Mapping[str, tuple[str, str]], requests: Iterable[str]) -> None:
        self.tokens = tokens = Tokens()
        self._labels = Phrases((tokens.ids(label), label) for label in LABELS)
        owners: dict[bytes, tuple[Ids, set[str]]] = {}
        for sql, owner in gold.values():
            bare = _COMMENT.sub(" ", sql)
            if len(squeezed(bare)) >= MINIMUM_SQL:
                ids = tokens.ids(bare)
                owners.setdefault(ids.tobytes(), (ids, set()))[1].add(owner)
        self._gold = Phrases((ids, frozenset(found)) for ids, found in owners.values())
        self._fragments = HashSet(_fragments([ids for ids, _ in owners.values()], tokens))
        self._requests = Phrases((tokens.ids(request), i) for i, request in enumerate(requests))
        self._lengths = self._labels.lengths | self._gold.lengths | self._requests.lengths | {ANCHOR}

    def read(self, text: str, known: Lines) -> Reading:
        """What the scan has to know of one text. `known`: lines read so far; observations repeat the same rows over and over."""
        lines, parts = [], []
        for line in text.split("\n"):
            if line not in known:
                shown = plain(line)
                known[line] = (shown, self.tokens.ids(shown))
            shown, ids = known[line]
            lines.append(shown)
            parts.append(ids)
        ids = np.concatenate(parts)
        hashes = hashes_of(ids, self._lengths)
        hits = [self.hit("label", ids, a, b, label=label) for a, b, label in self._labels.find(ids, hashes)]
        hits += self._sql(ids, hashes)
        if "--" in text or "/*" in text:
            # Comments may hide in the middle of a query, and two dashes may be prose: both readings are searched.
            bare = self.tokens.ids(_COMMENT.sub(" ", "\n".join(lines)))
            hits += self._sql(bare, hashes_of(bare, self._lengths))
        tasks = frozenset(i for _, _, i in self._requests.find(ids, hashes))
        return Reading(tuple(lines), tuple(dict.fromkeys(hits)), tasks)

    def _sql(self, ids: Ids, hashes: Mapping[int, Ids]) -> Iterator[Hit]:
        whole = _outermost(self._gold.find(ids, hashes))
        for start, end, owners in whole:
            yield self.hit("gold_sql", ids, start, end, owners)
        for start, end in merged(self._fragments.places(hashes[ANCHOR]).tolist(), ANCHOR):
            if not any(a < end and start < b for a, b, _ in whole):
                yield self.hit("fragment", ids, start, end)

    def hit(
        self, kind: str, ids: Ids, start: int, end: int, owners: frozenset[str] = frozenset(), label: str = ""
    ) -> Hit:
        what = self.tokens.text(ids[start:end])
        around = self.tokens.text(ids[max(0, start - 6) : end + 6])
        at = around.find(what)
        return Hit(kind, what, around[max(0, at - 30) : at + 50], owners, label)


def _outermost(queries: Sequence[tuple[int, int, frozenset[str]]]) -> list[tuple[int, int, frozenset[str]]]:
    """Queries that stand in no longer one: where another database's query has ours inside, it is that query which is shown."""
    kept: list[tuple[int, int, frozenset[str]]] = []
    for query in sorted(queries, key=lambda found: (found[0], -found[1])):
        if not kept or query[1] > kept[-1][1]:
            kept.append(query)
    return kept


def _fragments(gold: Sequence[Ids], tokens: Tokens) -> Ids:
    """Hashes of the parts of gold queries that prose does not hold: three clause words and signs in eight tokens, one of each."""
    if not gold:
        return np.zeros(0, dtype=np.uint64)
    end = np.zeros(1, dtype=np.uint64)  # no token has the number 0: parts do not run over queries
    ids = np.concatenate([part for query in gold for part in (query, end)])

    def held(marks: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        sums = np.concatenate([[0], np.cumsum(marks)])
        counts: npt.NDArray[np.int64] = sums[ANCHOR:] - sums[:-ANCHOR]
        return counts

    clauses, signs = tokens.ids(" ".join(sorted(CLAUSES))), tokens.ids(" ".join(sorted(SIGNS)))
    clause, sign = held(np.isin(ids, clauses)), held(np.isin(ids, signs))
    telling = (held(ids == 0) == 0) & (clause >= 1) & (sign >= 1) & (clause + sign >= 3)
    hashes: Ids = hashes_of(ids)[ANCHOR][telling]
    return hashes
