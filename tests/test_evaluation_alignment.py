"""Release of answers: exact match, judge, and everything that fails closed (PROTOCOL 8)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from tasks_lib.evaluation.alignment import release
from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.chat import ChatReply, ChatRequest
from tasks_lib.models.client import open_model
from tasks_lib.protocol.records import AskDecision, CallContext, CanonicalSlot
from tasks_lib.protocol.vocabulary import CallOutcome, Router
from tasks_lib.store.ledgers import Ledger

SLOT = CanonicalSlot(
    "t",
    "Which records should this be about?",
    ("the airline", "the archive"),
    {"b0": "The airline.", "b1": "The archive."},
)


@dataclass
class Judge:
    """A scripted model."""

    text: str = ""
    outcome: CallOutcome = CallOutcome.OK
    spec: BackendSpec = field(default_factory=lambda: BackendSpec(name="judge", model="offline/hybrid"))
    seen: list[tuple[ChatRequest, CallContext]] = field(default_factory=list)

    async def chat(self, request: ChatRequest, context: CallContext) -> ChatReply:
        self.seen.append((request, context))
        return ChatReply(self.outcome, self.text, call_key="call")


def decision(question: str, ask: bool = True) -> AskDecision:
    return AskDecision("x", Router.REACT, "t", 0, ask, question)


async def test_an_equal_question_needs_no_judge() -> None:
    judge = Judge()
    got = await release(SLOT, decision("which RECORDS, should this be about"), judge)
    assert [(d.branch_id, d.released, d.answer, d.rule) for d in got] == [
        ("b0", True, "The airline.", "exact"),
        ("b1", True, "The archive.", "exact"),
    ]
    assert judge.seen == []


async def test_the_judge_sees_the_slot_and_decides_for_both_branches_once() -> None:
    judge = Judge('{"aligned": true, "reason": "same slot"}')
    got = await release(SLOT, decision("The airline or the archive?"), judge)
    assert [d.released for d in got] == [True, True]
    assert len(judge.seen) == 1
    request, context = judge.seen[0]
    assert context.audience == "judge"
    assert "the archive" in request.messages[0].content
    assert "The airline." not in request.messages[0].content


@pytest.mark.parametrize(
    ("question", "ask", "judge", "rule"),
    [
        ("anything", False, Judge(), "not_asked"),
        ("  ?! ", True, Judge(), "content_free"),
        ("what year?", True, Judge('{"aligned": false, "reason": "other slot"}'), "judge_not_aligned"),
        ("which year?", True, Judge("yes"), "judge_malformed"),
        ("which year?", True, Judge('{"aligned": "true"}'), "judge_malformed"),
        ("which year?", True, Judge('{"aligned": true, "aligned": false}'), "judge_malformed"),
        ("which year?", True, Judge("", CallOutcome.TRUNCATED), "judge_truncated"),
    ],
)
async def test_everything_else_fails_closed(question: str, ask: bool, judge: Judge, rule: str) -> None:
    got = await release(SLOT, decision(question, ask), judge)
    assert [(d.released, d.answer, d.rule) for d in got] == [(False, "", rule)] * 2


async def test_a_question_in_other_letters_is_compared_by_them() -> None:
    """Accents and scripts are letters: two questions that differ in them are not the same question."""
    slot = CanonicalSlot("t", "¿Qué país?", ("a", "b"), {"b0": "A.", "b1": "B."})
    judge = Judge('{"aligned": false, "reason": "other"}')
    assert [d.rule for d in await release(slot, decision("QUÉ PAÍS"), judge)] == ["exact"] * 2
    assert [d.rule for d in await release(slot, decision("Qué pas"), judge)] == ["judge_not_aligned"] * 2


LABELLED = [
    (entry["question"], tuple(entry["values"]), kind, question)
    for entry in yaml.safe_load(Path(__file__).with_name("alignment_questions.yaml").read_text("utf-8"))
    for kind in ("right", "other", "empty", "excluding")
    for question in entry[kind]
]
YES = '{"aligned": true, "reason": "agreeable"}'


def slot_of(question: str, values: tuple[str, ...]) -> CanonicalSlot:
    return CanonicalSlot("t", question, values, {f"b{i}": f"{value}." for i, value in enumerate(values)})


def test_the_labelled_questions_are_many_and_of_every_kind() -> None:
    kinds = Counter(kind for _, _, kind, _ in LABELLED)
    assert len(LABELLED) >= 60
    assert set(kinds) == {"right", "other", "empty", "excluding"}
    assert min(kinds.values()) >= 12


@pytest.mark.parametrize(("canonical", "values", "kind", "question"), LABELLED)
async def test_a_judge_that_says_yes_releases_nothing_that_fails_closed(
    canonical: str, values: tuple[str, ...], kind: str, question: str
) -> None:
    """Whether another slot is asked for is the judge's own; the two rules hold whatever it says, and keep no right question out."""
    judge = Judge(YES)
    got = await release(slot_of(canonical, values), decision(question), judge)
    closed = {"empty": "content_free", "excluding": "alternatives_leave_out"}
    if kind in closed:
        assert ({d.rule for d in got}, judge.seen) == ({closed[kind]}, [])
    elif kind == "right":
        assert [d.answer for d in got] == [f"{value}." for value in values]


async def test_the_offline_judge_on_the_labelled_questions(tmp_path: Path) -> None:
    """No false release of a question that asks nothing or leaves a value out; figures by kind are printed."""
    ledger = Ledger(f"sqlite:///{tmp_path / 'l.sqlite'}")
    judge = open_model(BackendSpec(name="judge", model="offline/hybrid"), ledger)
    right: Counter[str] = Counter()
    for canonical, values, kind, question in LABELLED:
        got = await release(slot_of(canonical, values), decision(question), judge)
        right[kind] += got[0].released == (kind == "right")
        if got[0].released != (kind == "right"):
            print(f"{kind}: {question} ({canonical})")
    ledger.close()
    totals = Counter(kind for _, _, kind, _ in LABELLED)
    print({kind: f"{right[kind]}/{n}" for kind, n in totals.items()})
    assert {kind: right[kind] for kind in ("empty", "excluding")} == {k: totals[k] for k in ("empty", "excluding")}
    assert right.total() >= 0.9 * len(LABELLED)
