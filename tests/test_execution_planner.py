"""The LLM planner: one call and three distinct retries, strict answers, and what becomes of wrong ids and cycles."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tasks_lib.execution.planner import PlanOutcome, plan
from tasks_lib.models import offline
from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.chat import ChatReply, ChatRequest
from tasks_lib.protocol.records import CallContext, PublicTask
from tasks_lib.protocol.vocabulary import Audience, CallOutcome, Corpus, PlannerLanguage
from tasks_lib.store.keys import digest

A, B, C = "db_aaaa", "db_bbbb", "db_cccc"
TASK = PublicTask("t1", Corpus.SPIDER, "Which bands played where the fairs are?", (C, A, B, "db_zzzz"))
DESCRIPTIONS = {A: "Fairs and their towns", B: "Bands on tour", C: "Harbour traffic"}


class Scripted:
    """A model that answers from a list and keeps what it was asked."""

    spec = BackendSpec(name="scripted", model="scripted/none")

    def __init__(self, *replies: ChatReply | str) -> None:
        self.replies = list(replies)
        self.requests: list[ChatRequest] = []
        self.contexts: list[CallContext] = []

    async def chat(self, request: ChatRequest, context: CallContext) -> ChatReply:
        self.requests.append(request)
        self.contexts.append(context)
        reply = self.replies[len(self.requests) - 1]
        if isinstance(reply, str):
            reply = ChatReply(CallOutcome.OK, reply, finish_reason="stop", call_key=f"call{len(self.requests)}")
        return reply


def answer(order: list[str], *edges: tuple[str, str]) -> str:
    dependencies = [{"from": a, "to": b, "reason": "needs it"} for a, b in edges]
    return json.dumps({"execution_order": order, "dependencies": dependencies, "reason": "because"})


async def run(model: Scripted, *selected: str, language: PlannerLanguage = "en") -> PlanOutcome:
    return await plan(TASK, TASK.request, selected, DESCRIPTIONS, model, 2, language)


async def test_an_order_with_its_dependencies_is_taken_in_one_call() -> None:
    model = Scripted(answer([B, A], (B, A)))
    made = await run(model, A, B)
    assert (made.result.order, made.result.edges, made.result.ok, made.result.attempts) == ((B, A), ((B, A),), True, 1)
    assert made.calls == ("call1",)
    assert (model.contexts[0].audience, model.contexts[0].trial) == (Audience.EXECUTOR, 2)


async def test_the_prompt_shows_the_request_and_the_selected_databases_only() -> None:
    model = Scripted(answer([A, B]))
    await run(model, A, B)
    text = model.requests[0].messages[0].content
    assert "# Task: execution order" in text.splitlines()
    assert TASK.request in text
    assert f"- {A}: {DESCRIPTIONS[A]}" in text
    assert f"- {B}: {DESCRIPTIONS[B]}" in text
    assert C not in text
    assert "db_zzzz" not in text
    assert DESCRIPTIONS[C] not in text


async def test_one_database_needs_no_call() -> None:
    model = Scripted()
    made = await run(model, A)
    assert (made.result.order, made.result.ok, made.result.attempts, made.calls) == ((A,), True, 0, ())


async def test_omitted_databases_are_appended_and_unselected_ones_dropped_everywhere() -> None:
    model = Scripted(answer([C, "db_zzzz", C], ("db_zzzz", A), (C, A), (C, "db_nowhere")))
    made = await run(model, A, B, C)
    assert made.result.order == (C, A, B)
    assert made.result.edges == ((C, A),)
    assert made.result.ok


@pytest.mark.parametrize(
    ("edges", "kept"),
    [([(A, B), (B, A)], [(A, B)]), ([(B, A)], []), ([(A, A)], []), ([(A, C), (B, C), (C, A)], [(A, C), (B, C)])],
)
async def test_dependencies_against_the_order_are_dropped_and_the_plan_stays_ok(
    edges: list[tuple[str, str]], kept: list[tuple[str, str]]
) -> None:
    made = await run(Scripted(answer([A, B, C], *edges)), A, B, C)
    assert (list(made.result.edges), made.result.ok) == (kept, True)


@pytest.mark.parametrize(
    "bad",
    [
        "I think A goes first.",
        "[]",
        '{"execution_order": "db_aaaa", "dependencies": []}',
        '{"execution_order": ["db_aaaa"]}',
        '{"execution_order": [1], "dependencies": []}',
        '{"execution_order": ["db_aaaa"], "dependencies": [{"from": "db_aaaa"}]}',
        answer([A, B]) + " done",
        "<think>" + answer([A, B]),
    ],
)
async def test_an_unreadable_answer_is_retried_with_its_error(bad: str) -> None:
    model = Scripted(bad, "```json\n" + answer([B, A]) + "\n```")
    made = await run(model, A, B)
    assert (made.result.order, made.result.ok, made.result.attempts) == ((B, A), True, 2)
    assert [m.role for m in model.requests[1].messages] == ["user", "assistant", "user"]
    assert "could not be used" in model.requests[1].messages[2].content


async def test_four_failures_fall_back_to_input_order_and_count_as_a_failed_plan() -> None:
    model = Scripted("no", "no", "no", "no", answer([A, B]))
    made = await run(model, B, A)
    assert (made.result.order, made.result.edges, made.result.ok, made.result.attempts) == ((B, A), (), False, 4)
    assert len(model.requests) == 4
    assert len({digest([m.content for m in request.messages]) for request in model.requests}) == 4


@pytest.mark.parametrize("outcome", [CallOutcome.TRUNCATED, CallOutcome.EMPTY, CallOutcome.MODEL_REFUSED])
async def test_a_failed_generation_is_never_read_as_a_plan(outcome: CallOutcome) -> None:
    model = Scripted(ChatReply(outcome, answer([B, A])), answer([A, B]))
    made = await run(model, A, B)
    assert (made.result.order, made.result.attempts) == ((A, B), 2)


async def test_a_context_overflow_ends_the_attempts() -> None:
    made = await run(Scripted(ChatReply(CallOutcome.CONTEXT_OVERFLOW, "")), A, B)
    assert (made.result.ok, made.result.attempts) == (False, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [(lambda: (A, A), "repeats"), (lambda: (A, "db_other"), "does not allow"), (lambda: (A, "db_zzzz"), "description")],
)
async def test_a_wrong_selection_is_named(change: Callable[[], tuple[str, ...]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        await run(Scripted(), *change())


def parts(text: str) -> tuple[str, str, list[str]]:
    """What both languages share of a prompt: the heading, the marked sections, and the keys of the demanded JSON."""
    sections = text[text.index("<request>") : text.index("</databases>")]
    demanded = next(json.loads(line) for line in text.splitlines() if line.startswith('{"execution_order"'))
    return text.splitlines()[0], sections, [*demanded, *demanded["dependencies"][0]]


async def test_instructions_in_chinese_change_nothing_but_their_words() -> None:
    """Same sections, same answer form, same retries and fallback; another template, so other calls."""
    told: dict[PlannerLanguage, Scripted] = {"en": Scripted(*["no"] * 4), "zh": Scripted(*["no"] * 4)}
    made = {language: await run(model, B, A, language=language) for language, model in told.items()}
    assert made["zh"] == made["en"]
    assert made["zh"].result.ok is False
    opening = {language: model.requests[0].messages[0].content for language, model in told.items()}
    assert parts(opening["zh"]) == parts(opening["en"])
    again = {language: model.requests[3].messages[2].content for language, model in told.items()}
    assert again["en"].splitlines()[0].partition("be used: ")[2] in again["zh"]
    chinese = [m.content for r in told["zh"].requests for m in r.messages if m.role == "user"]
    assert all(any("\u4e00" <= letter <= "\u9fff" for letter in text) for text in chinese)
    digests = {language: {d for r in model.requests for d in r.templates} for language, model in told.items()}
    assert not digests["en"] & digests["zh"]


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_an_offline_policy_reads_the_request_in_either(language: PlannerLanguage) -> None:
    """The wording of the request decides, not that of the instructions: the band is found first, then its town."""
    task = PublicTask("t2", Corpus.SPIDER, "Find the bands on tour, then use that town for the fairs.", TASK.allowlist)

    class Policy(Scripted):
        async def chat(self, request: ChatRequest, context: CallContext) -> ChatReply:
            return offline.reply("offline/bm25", request)

    made = await plan(task, task.request, (A, B), DESCRIPTIONS, Policy(), 0, language)
    assert (made.result.order, made.result.edges, made.result.ok) == ((B, A), ((B, A),), True)
