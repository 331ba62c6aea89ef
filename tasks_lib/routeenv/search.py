"""Search over the public catalog: hierarchical IDF with semantic rescue, then a fixed reranker (PROTOCOL 6; paper C.3).

Reads public Parquet only. Two stages: `candidate` ranks all allowed databases by words (IDF at database, table, column and value
level, phrases, character n-grams), where MiniLM on table cards rescues what shares no word with the query, and a database whose
values are withheld is not held to the values that the query names; `reranked` reorders the
pool of 50 by all that and the nearest single column, and leaves the rest behind it in candidate order. A query that asks for several
things is searched for as a whole and by clause; each of them spreads its share over the databases in scope (softmax of the fixed
weights), and shares are added up.
Every order is by score rounded to 6 decimals, then public id; the allowlist is applied before any cut (known fault K04).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from tasks_lib.routeenv import evidence, parts
from tasks_lib.routeenv.lookup import DECIMALS, Lookup
from tasks_lib.routeenv.needs import needs
from tasks_lib.routeenv.parts import Part
from tasks_lib.routeenv.reranker import SHIPPED, Floats, Weights, read
from tasks_lib.routeenv.rows import CatalogRows

POOL = 50
SHORTLIST = 10
WHOLE = 2.0
"""Share of the whole query beside 1 for each of its clauses."""

_KEPT = 2048
"""Texts whose evidence is kept in memory: about 10 kB each for 300 databases."""

Stage = Literal["candidate", "reranked"]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Ranking:
    """Places of databases best first with their scores, higher is better and all below 0 or 0: `pool` is reordered in `reranked`."""

    candidate: Places
    candidate_scores: Floats
    reranked: Places
    reranked_scores: Floats


@dataclass
class Catalog(CatalogRows):
    """The public catalog with its search. Shared read-only by many episodes and threads; indexes are built at first use."""

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._earlier: Catalog | None = None
        self._lexical: OrderedDict[str, Floats] = OrderedDict()
        self._semantic: OrderedDict[str, Floats] = OrderedDict()

    @cached_property
    def ids(self) -> list[str]:
        """Database ids in the order of every score array."""
        return sorted(self.databases)

    @cached_property
    def places(self) -> dict[str, int]:
        """Place of a database in every score array."""
        return {name: place for place, name in enumerate(self.ids)}

    @cached_property
    def indexes(self) -> evidence.Indexes:
        """Built at first use (about 3 s for 268 databases)."""
        with self._lock:
            return evidence.build(self, self.ids, [self.parts[name] for name in self.ids])

    @cached_property
    def parts(self) -> dict[str, Part]:
        """Words by database, those that `following` named unchanged taken over."""
        earlier = self._earlier
        if earlier is None:
            return {name: parts.read(self, name) for name in self.ids}
        same = {n for n in self.ids if n in earlier.databases and parts.texts(self, n) == parts.texts(earlier, n)}
        self._earlier = None
        return {name: earlier.parts[name] if name in same else parts.read(self, name) for name in self.ids}

    def following(self, earlier: Catalog) -> Self:
        """This catalog, which is to read no database anew whose text is as in `earlier`. Call it before the first search."""
        self._earlier = earlier
        return self

    @cached_property
    def lookup(self) -> Lookup:
        """Search for capabilities and values, built at first use."""
        with self._lock:
            return Lookup(self)

    @cached_property
    def weights(self) -> dict[int, Weights]:
        """Weights by fold; SHIPPED is what searches use."""
        return read(self.reranker)

    def lexical(self, texts: Sequence[str]) -> Floats:
        """[texts, databases, LEXICAL] in the order of `ids`, each 0..1."""
        return self._kept(self._lexical, texts, self.indexes.lexical)

    def semantic(self, texts: Sequence[str]) -> Floats:
        """[texts, databases, SEMANTIC] in the order of `ids`, each 0..1."""
        return self._kept(self._semantic, texts, self.indexes.semantic)

    def evidence(self, texts: Sequence[str]) -> Floats:
        """[texts, databases, FEATURES]: both at once, for many texts that nobody asks for again; nothing is remembered."""
        return np.concatenate([self.indexes.lexical(texts), self.indexes.semantic(texts)], axis=-1)

    def _kept(
        self, memory: OrderedDict[str, Floats], texts: Sequence[str], measure: Callable[[Sequence[str]], Floats]
    ) -> Floats:
        with self._lock:
            found = {text: memory[text] for text in texts if text in memory}
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if missing:
            found.update(zip(missing, measure(missing), strict=True))
        with self._lock:
            for text, held in found.items():
                memory[text] = held
                memory.move_to_end(text)
            while len(memory) > _KEPT:
                memory.popitem(last=False)
        return np.stack([found[text] for text in texts])

    def rank(self, query: str, scope: Places, stage: Stage = "reranked", fold: int = SHIPPED) -> Ranking:
        """Order of the databases at `scope` (rising places). With stage "candidate" the pool is left in candidate order.

        `fold`: weights fitted without the databases of that fold, for audits.
        """
        texts = needs(query)
        found = np.concatenate([self.lexical(texts)[:, scope], self.semantic(texts)[:, scope]], axis=-1)
        return ranking(found, scope, self.weights[fold], stage)

    def scope(self, allow: Collection[str], dataset: str | None = None) -> Places:
        """Places of the allowed databases, of one corpus with `dataset`, rising."""
        allowed = set(allow)
        found = [
            place
            for place, name in enumerate(self.ids)
            if name in allowed and (dataset is None or self.databases[name]["corpus"] == dataset)
        ]
        return np.asarray(found, dtype=np.int64)

    def search(
        self,
        query: str,
        allow: Collection[str],
        top_k: int = SHORTLIST,
        dataset: str | None = None,
        stage: Stage = "reranked",
    ) -> list[tuple[str, float]]:
        """The `top_k` best of the allowed databases as (public id, score), best first.

        `dataset` keeps one corpus only. Scores fall from 1 (surely this one) towards 0; those behind the pool are below 0.
        Deterministic; scores have 6 decimals.
        """
        scope = self.scope(allow, dataset)
        if not len(scope) or top_k < 1:
            return []
        found = self.rank(query, scope, stage)
        shown = np.round(1 / (1 - found.reranked_scores), DECIMALS)
        if stage == "reranked":
            behind = np.arange(1, len(scope) - POOL + 1)
            shown[POOL:] = np.round(-behind / (len(behind) + 1), DECIMALS)
        return [
            (self.ids[place], float(score)) for place, score in list(zip(found.reranked, shown, strict=True))[:top_k]
        ]


def ranking(found: Floats, scope: Places, weights: Weights, stage: Stage = "reranked") -> Ranking:
    """Order of the databases at `scope` by their evidence `found`, [texts of `needs`, scope, FEATURES]."""
    first = _shared(found @ weights.candidate)
    order = _order(first)
    if stage == "candidate":
        return Ranking(scope[order], first[order], scope[order], first[order])
    second = _shared(found @ weights.reranked)
    pool, rest = order[:POOL], order[POOL:]
    pool = np.sort(pool)[_order(second[np.sort(pool)])]
    ranked = np.concatenate([pool, rest])
    return Ranking(scope[order], first[order], scope[ranked], np.concatenate([second[pool], first[rest]]))


def _shared(values: Floats) -> Floats:
    """[texts, databases] as log of the mean share of each database, 6 decimals: every text spreads its share by softmax."""
    risen = np.exp(values - values.max(axis=1, keepdims=True))
    weight = np.where(np.arange(len(values)) == 0, WHOLE, 1.0)
    shares = (risen / risen.sum(axis=1, keepdims=True) * weight[:, None]).sum(axis=0) / weight.sum()
    found: Floats = np.round(np.log(np.maximum(shares, 1e-300)), DECIMALS)
    return found


def _order(values: Floats) -> Places:
    """Places by falling value; equal ones by place, which is by public id."""
    found: Places = np.argsort(-values, kind="stable")
    return found
