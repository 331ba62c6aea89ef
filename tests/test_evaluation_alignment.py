"""Release of answers: exact match, judge, and everything that fails closed (PROTOCOL 8)."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tasks_lib.evaluation.alignment import release
from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.chat import ChatReply, ChatRequest
from tasks_lib.protocol.records import AskDecision, CallContext, CanonicalSlot
from tasks_lib.protocol.vocabulary import CallOutcome, Router

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
        ("which?", True, Judge("yes"), "judge_malformed"),
        ("which?", True, Judge('{"aligned": "true"}'), "judge_malformed"),
        ("which?", True, Judge('{"aligned": true, "aligned": false}'), "judge_malformed"),
        ("which?", True, Judge("", CallOutcome.TRUNCATED), "judge_truncated"),
    ],
)
async def test_everything_else_fails_closed(question: str, ask: bool, judge: Judge, rule: str) -> None:
    got = await release(SLOT, decision(question, ask), judge)
    assert [(d.released, d.answer, d.rule) for d in got] == [(False, "", rule)] * 2
