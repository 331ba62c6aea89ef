"""Which few-shot examples the adapter shows: those with a similar question and a similar SQL skeleton (paper F.5).

Belongs here: similarity and choice, as pure functions. Does not belong here: which examples may be shown at all (the
caller decides: other databases, the tuning split). Word weights come from the whole pool, so that it is indexed once.

Both similarities are cosines over weighted words. A question's words are those outside quotes, numbers and names masked,
so that the kind of question decides. The SQL skeleton of the request is not known before the SQL is written: it is
estimated as the skeleton of the most similar question, and then every example is scored by both.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

from tasks_lib.execution.drafts import Example

SHOWN = 4
"""Examples in a prompt: about 150 tokens of a prompt whose schema takes 500 to 5,000."""
SKELETON_WEIGHT = 0.4

_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'(?!\w)")
_KEYWORDS = frozenset(
    [
        "select",
        "distinct",
        "count",
        "sum",
        "avg",
        "min",
        "max",
        "from",
        "join",
        "left",
        "where",
        "and",
        "or",
        "not",
        "in",
        "like",
        "between",
        "is",
        "null",
        "group",
        "by",
        "having",
        "order",
        "asc",
        "desc",
        "limit",
        "union",
        "intersect",
        "except",
        "exists",
        "case",
        "when",
        "then",
        "else",
        "end",
        "as",
        "on",
    ]
)


class Pool:
    """All examples of a corpus, indexed once on first use. What a task may be shown of it is a `Shown`."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.examples = tuple(sorted(examples, key=lambda example: example.unit_id))

    @cached_property
    def index(self) -> _Index:
        return _Index(self.examples)

    def without(self, databases: Collection[str] = (), units: Collection[str] = ()) -> Shown:
        """The examples of other databases and other units than these."""
        barred, known = frozenset(databases), frozenset(units)
        rows = [i for i, e in enumerate(self.examples) if e.database_id not in barred and e.unit_id not in known]
        return Shown(self, tuple(rows))


class Shown:
    """The part of a pool that may be shown; nothing else of the pool can be reached by `choose`."""

    def __init__(self, pool: Pool, rows: tuple[int, ...]) -> None:
        self._pool, self._rows = pool, rows

    def choose(self, request: str, shown: int = SHOWN) -> tuple[Example, ...]:
        """The `shown` most useful examples, the most similar last (next to the request). Ties go to the smaller unit id."""
        if not self._rows:
            return ()
        index, examples = self._pool.index, self._pool.examples
        by_question = index.by_question(request)
        nearest = min(self._rows, key=lambda row: (-by_question[row], row))
        by_skeleton = index.by_skeleton(nearest)

        def score(row: int) -> float:
            question = (1 - SKELETON_WEIGHT) * by_question[row]
            return round(question + SKELETON_WEIGHT * by_question[nearest] * by_skeleton[row], 9)

        ranked = sorted(self._rows, key=lambda row: (-score(row), row))
        return tuple(examples[row] for row in reversed(ranked[:shown]))


NOTHING_SHOWN = Pool(()).without()


class _Index:
    """Examples as two sparse matrices of unit rows: building takes 0.1 ms an example, a request about 1 ms."""

    def __init__(self, examples: tuple[Example, ...]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer  # 1 s to import: only where examples are used

        self._words = TfidfVectorizer(analyzer=masked_question)
        self._questions = self._words.fit_transform([example.question for example in examples])
        self._skeletons = TfidfVectorizer(analyzer=sql_skeleton, use_idf=False).fit_transform(
            [example.sql for example in examples]
        )

    def by_question(self, request: str) -> list[float]:
        """Cosine of every example's question with `request`."""
        return _column(self._questions @ self._words.transform([request]).T)

    def by_skeleton(self, row: int) -> list[float]:
        """Cosine of every example's SQL skeleton with that of one of them."""
        return _column(self._skeletons @ self._skeletons[row].T)


def _column(product: Any) -> list[float]:
    return [float(value) for value in product.toarray()[:, 0]]


def masked_question(question: str) -> tuple[str, ...]:
    """Lower-case words of a question and their pairs; quoted values, numbers and capitalised words are masked."""
    text = _QUOTED.sub(" _value_ ", question)
    words = []
    for place, word in enumerate(re.findall(r"\w+", text)):
        if word[0].isdigit():
            words.append("_number_")
        elif place and word[0].isupper():
            words.append("_value_")
        else:
            words.append(word.lower())
    return (*words, *(f"{first} {second}" for first, second in itertools.pairwise(words)))


def sql_skeleton(sql: str) -> tuple[str, ...]:
    """The keywords of an SQL text in order, names and values left out, with their pairs."""
    words = [word for word in re.findall(r"[a-z_]+|[<>=!]+", _QUOTED.sub(" ", sql).lower()) if _is_skeleton(word)]
    return (*words, *(f"{first} {second}" for first, second in itertools.pairwise(words)))


def _is_skeleton(word: str) -> bool:
    return word in _KEYWORDS or not word[0].isalpha()
