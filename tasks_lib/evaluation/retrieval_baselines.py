"""Plain searches over the same catalog text, to hold the catalog's search against: TF-IDF, BM25, MiniLM alone (PROTOCOL 6).

Each reads the cards of a database as one text; the libraries do the rest. No weights, no clauses, no allowlist: callers cut.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tasks_lib.models.embeddings import embed
from tasks_lib.routeenv.search import Catalog
from tasks_lib.routeenv.tokens import tokens

BASELINES = ("tfidf", "bm25", "minilm")

Floats = npt.NDArray[np.float64]


class Baselines:
    """`scores(name, queries)` -> [queries, databases] in the order of `catalog.ids`."""

    def __init__(self, catalog: Catalog) -> None:
        import bm25s
        from sklearn.feature_extraction.text import TfidfVectorizer

        texts = [
            "\n".join(str(c["text"]) for c in catalog.cards_of.get(name, ()) if c["object_id"] not in catalog.columns)
            for name in catalog.ids
        ]
        self._vectorizer = TfidfVectorizer(tokenizer=tokens, token_pattern=None, lowercase=False, sublinear_tf=True)
        self._tfidf = self._vectorizer.fit_transform(texts)
        self._bm25 = bm25s.BM25()
        self._bm25.index([tokens(text) for text in texts], show_progress=False)
        self._groups = catalog.indexes.card_groups
        self._cards = catalog.indexes.cards

    def scores(self, name: str, queries: Sequence[str]) -> Floats:
        """Scores rounded to 5 decimals, higher is nearer. `name`: one of BASELINES."""
        if name == "tfidf":
            found = (self._vectorizer.transform(queries) @ self._tfidf.T).toarray()
        elif name == "bm25":
            found = np.stack([self._bm25.get_scores(tokens(query)) for query in queries])
        else:
            found = self._groups.best(embed(queries) @ self._cards.T)
        exact: Floats = np.asarray(found, dtype=np.float64).round(5)
        return exact
