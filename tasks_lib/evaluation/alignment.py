"""PRIVATE. Release of a branch's answer (PROTOCOL 8): exact match, else the alignment judge; anything unclear fails closed.

No judge is asked about a question without content, or about explicit alternatives that leave out a canonical value: a model that
says yes to everything must not release an answer.
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

from tasks_lib.models.chat import ChatModel, ChatRequest, Message
from tasks_lib.models.offline.judge import content_free, leaves_out
from tasks_lib.models.replies import Malformed, json_reply
from tasks_lib.models.templates import render
from tasks_lib.protocol.records import AskDecision, CallContext, CanonicalSlot, Contract, ReleaseDecision
from tasks_lib.protocol.vocabulary import Audience, CallOutcome

PROMPT = Path(__file__).with_name("prompts") / "slot_alignment@1.md.j2"


def normalized(question: str) -> str:
    """Case, punctuation and spacing removed: what "equals a canonical question" means."""
    return " ".join(re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", question).casefold()))


def slot_of(contract: Contract) -> CanonicalSlot:
    """What an interactive contract leaves open, and what each branch answers."""
    return CanonicalSlot(
        contract.task_id,
        contract.slot_question,
        tuple(b.value for b in contract.branches),
        {b.branch_id: b.answer for b in contract.branches},
    )


async def release(slot: CanonicalSlot, decision: AskDecision, judge: ChatModel) -> list[ReleaseDecision]:
    """One decision per branch, equal but for the branch's own answer. The judge is called at most once per question."""
    released, rule, call = await _decide(slot, decision, judge)
    return [
        ReleaseDecision(slot.task_id, branch, released, answer if released else "", rule, call)
        for branch, answer in sorted(slot.answers_by_branch.items())
    ]


async def _decide(slot: CanonicalSlot, decision: AskDecision, judge: ChatModel) -> tuple[bool, str, str]:
    if not decision.ask:
        return False, "not_asked", ""
    asked = normalized(decision.question)
    if not asked:
        return False, "content_free", ""
    if asked == normalized(slot.question):
        return True, "exact", ""
    if content_free(decision.question):
        return False, "content_free", ""
    if leaves_out(slot.values, decision.question):
        return False, "alternatives_leave_out", ""
    prompt = render(
        PROMPT, canonical_question=slot.question, values=list(slot.values), asked_question=decision.question.strip()
    )
    reply = await judge.chat(
        ChatRequest((Message("user", prompt.text),), templates=(prompt.digest,)),
        CallContext(Audience.JUDGE, "releases", decision.trial),
    )
    if reply.outcome is not CallOutcome.OK:
        return False, f"judge_{reply.outcome}", reply.call_key
    answer = json_reply(reply.text)
    if isinstance(answer, Malformed) or not isinstance(answer.get("aligned"), bool):
        return False, "judge_malformed", reply.call_key
    return (True, "judge", reply.call_key) if answer["aligned"] else (False, "judge_not_aligned", reply.call_key)
