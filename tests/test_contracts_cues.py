"""The cue audit on requests made by hand: wording that betrays the behavior, wording that does not, and folds that may not leak."""

from __future__ import annotations

import random

import pytest

from tasks_lib.contracts.cues import CueAudit, cue_audit, template_group

BEHAVIORS = ("exploratory", "interactive", "parallel", "sequential", "single")
NOUNS = [
    "kites",
    "lamps",
    "ferries",
    "hives",
    "looms",
    "quarries",
    "ponds",
    "mills",
    "orchards",
    "bridges",
    "kilns",
    "tunnels",
    "barns",
    "canals",
]
MARKS = dict(zip(BEHAVIORS, ("gather", "settle", "compare", "follow", "check"), strict=True))


def sentence(rng: random.Random, opening: str) -> str:
    return f"{opening} {' and '.join(rng.sample(NOUNS, 3))} of {rng.randrange(1900, 2000)}."


def audit(opening: dict[str, list[str]], seed: int = 3, tasks: int = 6) -> CueAudit:
    """`tasks` requests a template; `opening`: behavior -> its templates."""
    rng = random.Random(seed)
    requests, behaviors, templates, units = [], [], [], []
    for behavior, texts in opening.items():
        for number, text in enumerate(texts):
            for task in range(tasks):
                requests.append(sentence(rng, text))
                behaviors.append(behavior)
                templates.append(f"{behavior}/{number}#{task % 2}")
                units.append([f"{behavior}-{number}-{task}"])
    return cue_audit(requests, behaviors, templates, units, seed)


def test_wording_that_tells_the_behavior_is_found_and_named() -> None:
    cued = audit(
        {b: [f"{w} {MARKS[b]} {w} the" for w in ("now", "soon", "later", "today")] for b in BEHAVIORS}, tasks=12
    )
    assert cued.balanced_accuracy is not None
    assert cued.balanced_accuracy >= 0.97
    assert cued.chance == 0.2
    for behavior, found in cued.by_behavior.items():
        assert MARKS[behavior] in found.telling[0]
        assert (found.tasks, found.templates) == (48, 4)
        assert found.recall is not None
        assert found.recall >= 0.95


def test_wording_that_tells_nothing_stays_near_chance() -> None:
    """Every behavior has templates of its own, made of words that have nothing to do with it."""
    rng = random.Random(5)
    fillers = [
        "please",
        "now",
        "kindly",
        "soon",
        "perhaps",
        "maybe",
        "today",
        "later",
        "again",
        "still",
        "once",
        "ever",
    ]
    plain = audit({b: [" ".join(rng.sample(fillers, 4)) for _ in range(6)] for b in BEHAVIORS})
    assert plain.balanced_accuracy is not None
    assert plain.balanced_accuracy <= 0.35


@pytest.mark.parametrize("shared", ["template", "unit"])
def test_what_is_shared_never_helps(shared: str) -> None:
    """Words that occur under one template only, or with one unit only, name the behavior of a seen row and of no other.

    Grouped as they are they teach nothing; with the groups taken away (every row its own) they betray everything.
    """
    rng = random.Random(11)
    rows = []
    for group in range(30):
        behavior = BEHAVIORS[group % 5]
        rows += [(sentence(rng, f"w{group}a w{group}b the"), behavior, f"group{group}") for _ in range(4)]
    requests, behaviors, keys = (list(column) for column in zip(*rows, strict=True))
    alone = [f"row{i}" for i in range(len(rows))]
    templates, units = (keys, alone) if shared == "template" else (alone, keys)
    grouped = cue_audit(requests, behaviors, templates, [[unit] for unit in units], 1)
    leaking = cue_audit(requests, behaviors, alone, [[unit] for unit in alone], 1)
    assert grouped.balanced_accuracy is not None
    assert leaking.balanced_accuracy is not None
    assert grouped.balanced_accuracy <= 0.35
    assert leaking.balanced_accuracy >= 0.9
    assert grouped.trained_on < len(rows)


def test_the_published_pattern_is_counted_by_behavior() -> None:
    requests = [
        "Identify the registered data sources needed to assess kites.",
        "Write a Source-Grounded Synthesis on kites.",
        "Please identify all the useful sources on kites.",
        "How many kites are there?",
    ]
    found = cue_audit(requests, ["exploratory"] * 3 + ["single"], list("abcd"), [[c] for c in "abcd"], 0)
    assert found.by_behavior["exploratory"].cue_share == 1.0
    assert found.by_behavior["single"].cue_share == 0.0
    assert found.cue_share == 0.75


def test_lengths_and_equal_figures_every_time() -> None:
    openings = {b: [f"{b[0]} {n} the" for n in "xy"] for b in BEHAVIORS}
    first, second = audit(openings).as_json(), audit(openings).as_json()
    assert first == second
    words = first["by_behavior"]["single"]["words"]
    assert words == {"min": 10.0, "q1": 10.0, "median": 10.0, "q3": 10.0, "max": 10.0, "mean": 10.0}


def test_a_behavior_of_one_template_has_no_recall_and_does_not_count() -> None:
    found = audit({"single": ["check the"], "parallel": ["compare the", "set the"], "sequential": ["if the", "as the"]})
    assert found.by_behavior["single"].recall is None
    assert found.chance == 0.5
    alone = audit({"single": ["check the"]})
    assert (alone.balanced_accuracy, alone.chance, alone.folds) == (None, None, 0)


def test_groups_of_templates() -> None:
    """A template is its text: attempts do not tell it apart, nor does the behavior that uses it."""
    assert template_group("single/plain/clauses/0#3", 7) == template_group("single/plain/clauses/0#0", 8)
    assert template_group("single/plain/clauses/0#0", 7) != template_group("single/plain/clauses/1#0", 7)
    assert template_group("single/neutral/clauses/0#0", 7) == template_group("parallel/neutral/clauses/0#1", 8)
    assert template_group("llm/request_wording@ab#0", 7) != template_group("llm/request_wording@ab#0", 8)
    with pytest.raises(ValueError, match="2 requests, 1 behaviors"):
        cue_audit(["a", "b"], ["single"], ["t", "t"], [["u"], ["v"]], 0)
