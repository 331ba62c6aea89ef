"""PRIVATE. The cue audit: how well the wording alone tells the behavior of a task (paper B.6 counts one phrase pattern).

Belongs here: the classifier, its folds, the published pattern, lengths. Does not belong here: what is done about it (templates
in `templates/`, the renderer), and whether constraints are stated (`unstated`).

The classifier is a bag of words and word pairs under logistic regression with balanced classes. It must judge by wording habits,
not by recognising what it has seen, so folds are grouped twice: the templates of a test fold occur in no training row, and a
training row that shares a source unit with any test row is left out. Texts that a model wrote (`llm/…`) have no template in
common: each is a group of its own. One template text that serves two behaviors is one group: under two names it would be learnt
as one behavior and tested as the other, which pushes the figure below chance.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tasks_lib.contracts.wording import templates as template_texts
from tasks_lib.protocol.vocabulary import Behavior

CUE_PATTERN = re.compile(r"registered data sources|source-grounded synthesis|identify.*sources", re.IGNORECASE)
"""The published surface cues of exploratory requests (83.2 % of the paper's)."""
FOLDS = 5
REPEATS = 4
"""Shuffles of the folds: with few templates a behavior, which of them share a fold moves one shuffle by several points."""
TELLING = 12
_TOKEN = r"(?u)\b\w+\b"


@dataclass(frozen=True, slots=True)
class BehaviorCues:
    """One behavior. `templates`: groups of its own. `recall`: share of its requests that the classifier names rightly, None
    where one template (or none) carries them all, or there are fewer tasks than folds, and nothing can be learnt. `guessed_as`: behavior -> share of its requests
    that get that name. `cue_share`: share that matches the published pattern. `words`: minimum, quartiles, maximum and mean of
    the words in a request. `telling`: words and pairs that speak most for it, strongest first (fitted on all rows)."""

    tasks: int
    templates: int
    recall: float | None
    guessed_as: dict[str, float]
    cue_share: float
    words: dict[str, float]
    telling: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CueAudit:
    """`balanced_accuracy`: mean recall over the behaviors that have one; None when fewer than two have. `chance`: what naming
    one behavior always, or any at random, would reach. `by_shuffle`: the same of every shuffle of the folds, whose mean it is.
    `trained_on`: training rows of a fold on average, of `tasks`."""

    tasks: int
    balanced_accuracy: float | None
    by_shuffle: tuple[float, ...]
    chance: float | None
    cue_share: float
    folds: int
    trained_on: float
    by_behavior: dict[str, BehaviorCues]

    def as_json(self) -> dict[str, Any]:
        """Plain values for a record or a page."""
        return asdict(self)


def template_group(template: str, row: int) -> str:
    """What a template name stands for: its text, whatever behavior it is used for; a text that a model wrote stands alone.

    `<behavior>/<style>/<kind>/<number>#<attempt>` gives the text; any other name is its own group.
    """
    if template.startswith("llm/"):
        return f"{template}/{row}"
    name = template.split("#", 1)[0]
    parts = name.split("/")
    if len(parts) != 4:
        return name
    behavior, style, _, number = parts
    return template_texts(Behavior(behavior), style)[int(number)][1]


def cue_audit(
    requests: Sequence[str],
    behaviors: Sequence[str],
    templates: Sequence[str],
    units: Sequence[Sequence[str]],
    seed: int,
) -> CueAudit:
    """The audit of one release; the four sequences are aligned by task. Equal inputs give equal figures, in every process.

    Raises:
        ValueError: the sequences differ in length.
    """
    if not len(requests) == len(behaviors) == len(templates) == len(units):
        raise ValueError(
            f"The cue audit got {len(requests)} requests, {len(behaviors)} behaviors, {len(templates)} templates and "
            f"{len(units)} unit lists, expected one of each a task."
        )
    groups = [template_group(template, row) for row, template in enumerate(templates)]
    names = sorted(set(behaviors))
    count = {name: len({g for g, b in zip(groups, behaviors, strict=True) if b == name}) for name in names}
    # Fewer tasks than folds say nothing, and cannot be dealt out.
    learnable = [name for name in names if count[name] > 1 and list(behaviors).count(name) >= FOLDS]
    shuffles: list[list[str]] = []
    folds, trained = 0, 0.0
    for repeat in range(REPEATS if len(learnable) > 1 else 0):
        given, folds, rows_used = _guesses(requests, behaviors, groups, units, seed + repeat)
        shuffles.append(given)
        trained += rows_used / REPEATS
    telling = _telling(requests, behaviors) if len(names) > 1 else {}
    cues = [CUE_PATTERN.search(request) is not None for request in requests]
    found: dict[str, BehaviorCues] = {}
    for name in names:
        rows = [row for row, behavior in enumerate(behaviors) if behavior == name]
        named = [given[row] for given in shuffles for row in rows]
        shares = {other: _round(named.count(other) / len(named)) for other in names if other in named}
        found[name] = BehaviorCues(
            tasks=len(rows),
            templates=count[name],
            recall=shares.get(name, 0.0) if name in learnable and named else None,
            guessed_as=shares,
            cue_share=_round(sum(cues[row] for row in rows) / len(rows)),
            words=_lengths([len(requests[row].split()) for row in rows]),
            telling=telling.get(name, ()),
        )
    recalled = [name for name in names if found[name].recall is not None]
    by_shuffle = tuple(_balanced(given, behaviors, recalled) for given in shuffles)
    return CueAudit(
        tasks=len(requests),
        balanced_accuracy=_round(sum(by_shuffle) / len(by_shuffle)) if by_shuffle else None,
        by_shuffle=by_shuffle,
        chance=_round(1 / len(recalled)) if by_shuffle else None,
        cue_share=_round(sum(cues) / len(cues)) if cues else 0.0,
        folds=folds,
        trained_on=_round(trained),
        by_behavior=found,
    )


def _balanced(given: Sequence[str], behaviors: Sequence[str], names: Sequence[str]) -> float:
    rows = {name: [row for row, behavior in enumerate(behaviors) if behavior == name] for name in names}
    return _round(sum(sum(given[row] == name for row in rows[name]) / len(rows[name]) for name in names) / len(names))


def _round(value: float) -> float:
    return round(float(value), 4)


def _lengths(counts: Sequence[int]) -> dict[str, float]:
    low, first, middle, third, high = np.percentile(counts, [0, 25, 50, 75, 100])
    named = {"min": low, "q1": first, "median": middle, "q3": third, "max": high, "mean": np.mean(counts)}
    return {key: _round(float(value)) for key, value in named.items()}


def _guesses(
    requests: Sequence[str], behaviors: Sequence[str], groups: Sequence[str], units: Sequence[Sequence[str]], seed: int
) -> tuple[list[str], int, float]:
    """The name that the classifier gives each request when its fold is held out, the folds, mean training rows."""
    from sklearn.model_selection import StratifiedGroupKFold

    folds = min(FOLDS, len(set(groups)))
    splitter = StratifiedGroupKFold(n_splits=folds, shuffle=True, random_state=seed)
    given = [""] * len(requests)
    trained = 0
    for training, held_out in splitter.split(requests, behaviors, groups):
        seen = {unit for row in held_out for unit in units[row]}
        rows = [row for row in training if seen.isdisjoint(units[row])]
        trained += len(rows)
        labels = [behaviors[row] for row in rows]
        if len(set(labels)) < 2:
            named = [labels[0] if labels else ""] * len(held_out)
        else:
            vectorizer, classifier = _fitted([requests[row] for row in rows], labels)
            named = classifier.predict(vectorizer.transform([requests[row] for row in held_out]))
        for row, name in zip(held_out, named, strict=True):
            given[row] = str(name)
    return given, folds, trained / folds


def _fitted(texts: Sequence[str], labels: Sequence[str]) -> tuple[Any, Any]:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    vectorizer = CountVectorizer(
        ngram_range=(1, 2), binary=True, min_df=2 if len(texts) >= 100 else 1, token_pattern=_TOKEN
    )
    classifier = LogisticRegression(class_weight="balanced", max_iter=1000, tol=1e-3)
    counts = vectorizer.fit_transform(texts)
    with threadpool_limits(1):  # the sums then have one order everywhere, and small problems are faster so
        classifier.fit(counts, labels)
    return vectorizer, classifier


def _telling(requests: Sequence[str], behaviors: Sequence[str]) -> dict[str, tuple[str, ...]]:
    vectorizer, classifier = _fitted(requests, behaviors)
    terms = [str(term) for term in vectorizer.get_feature_names_out()]
    rows = classifier.coef_
    if len(classifier.classes_) == 2:  # one row then: it speaks for the second class, its negative for the first
        rows = np.vstack([-rows[0], rows[0]])
    found = {}
    for name, weights in zip(classifier.classes_, rows, strict=True):
        order = sorted(range(len(terms)), key=lambda at, w=weights: (-round(float(w[at]), 4), terms[at]))  # type: ignore[misc]
        found[str(name)] = tuple(terms[at] for at in order[:TELLING] if weights[at] > 0)
    return found
