"""The LLM planner: order and dependencies of the selected databases (PROTOCOL 9; paper F.4).

Belongs here: the calls, the strict reading of their answers, and the rules that make a plan of them. Does not belong
here: the oracle planner and whether an order respects the gold edges (evaluation).

The rules:
1. Fewer than two databases need no plan: no call is made and the plan is ok.
2. One call and at most three retries. A retry is a request of its own: it carries the last answer, its number and what
   was wrong with it. An answer that does not fit the context ends the attempts, as a longer request would not fit either.
3. An answer that cannot be read as the demanded JSON fails. After the last failure the plan is the input order without
   dependencies, not ok.
4. Ids that were not selected are dropped, from the order and from dependencies; selected ids left out are appended in
   input order; of a repeated id the first place counts.
5. The order decides. A dependency whose `from` does not stand before its `to` in the final order is dropped and the plan
   stays ok: the order is what is carried out and scored, and values cannot flow against it. This settles cycles too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tasks_lib.execution.extraction import failed_generation
from tasks_lib.models.chat import ChatModel, ChatReply, ChatRequest, Message
from tasks_lib.models.replies import Malformed, json_reply
from tasks_lib.models.templates import render
from tasks_lib.protocol.records import CallContext, PlanResult, PublicTask
from tasks_lib.protocol.vocabulary import Audience, CallOutcome, PlannerLanguage

MAX_RETRIES = 3
LAYER = "plans"
_PROMPTS = Path(__file__).parent / "prompts"
_TEMPLATES: Mapping[PlannerLanguage, tuple[str, str]] = {
    "en": ("execution_order@1.md.j2", "execution_order_retry@1.md.j2"),
    "zh": ("execution_order_zh@1.md.j2", "execution_order_retry_zh@1.md.j2"),
}
"""Opening and retry by language; the heading, the marked sections and the demanded JSON are the same in both."""


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """The plan and the ledger keys of the calls it rests on, in order."""

    result: PlanResult
    calls: tuple[str, ...]


class _Dependency(BaseModel):
    model_config = ConfigDict(strict=True)
    source: str = Field(alias="from")
    target: str = Field(alias="to")
    reason: str = ""


class _Answer(BaseModel):
    model_config = ConfigDict(strict=True)
    execution_order: list[str]
    dependencies: list[_Dependency]
    reason: str = ""


async def plan(
    task: PublicTask,
    request_text: str,
    selected: Sequence[str],
    descriptions: Mapping[str, str],
    model: ChatModel,
    trial: int,
    language: PlannerLanguage = "en",
) -> PlanOutcome:
    """Plan the order of `selected` (public ids of `task`'s allowlist, in route order) for `request_text`.

    `descriptions`: public description of every selected id. `request_text`: the request, with the clarification once it
    is released. `language`: of the instructions alone; the paper's planner was told in Chinese (F.4).

    Raises:
        ValueError: a selected id repeats, is not in the allowlist, or has no description.
        ProviderUnavailable: from the model; nothing was decided.
    """
    _check(task, selected, descriptions)
    if len(selected) < 2:
        return PlanOutcome(PlanResult(tuple(selected), (), True, 0), ())
    databases = "\n".join(f"- {name}: {' '.join(descriptions[name].split())}" for name in selected)
    opening_file, retry_file = _TEMPLATES[language]
    first = render(_PROMPTS / opening_file, request=request_text, databases=databases)
    opening = Message("user", first.text)
    context = CallContext(Audience.EXECUTOR, LAYER, trial)
    request = ChatRequest((opening,), templates=(first.digest,))
    calls: list[str] = []
    for attempt in range(1, MAX_RETRIES + 2):
        reply = await model.chat(request, context)
        calls.append(reply.call_key)
        try:
            answer = _read(reply)
        except _Unusable as error:
            if reply.outcome is CallOutcome.CONTEXT_OVERFLOW:
                break
            retry = render(_PROMPTS / retry_file, attempt=str(attempt), error=str(error))
            said = (Message("assistant", reply.text),) if reply.text.strip() else ()
            request = ChatRequest((opening, *said, Message("user", retry.text)), templates=(first.digest, retry.digest))
            continue
        order = _order(answer, selected)
        return PlanOutcome(PlanResult(order, _edges(answer, order), True, attempt), tuple(calls))
    return PlanOutcome(PlanResult(tuple(selected), (), False, len(calls)), tuple(calls))


class _Unusable(Exception):
    """An answer that is no plan; the message goes back to the model."""


def _check(task: PublicTask, selected: Sequence[str], descriptions: Mapping[str, str]) -> None:
    if len(set(selected)) != len(selected):
        raise ValueError(f"The selection of task {task.task_id} repeats an id: {list(selected)}; give each once.")
    for name in selected:
        if name not in task.allowlist:
            raise ValueError(
                f"Task {task.task_id} does not allow {name}; plan only its {len(task.allowlist)} candidates."
            )
        if name not in descriptions:
            raise ValueError(
                f"The selected database {name} of task {task.task_id} has no public description; pass one."
            )


def _read(reply: ChatReply) -> _Answer:
    """The answer of a reply: one JSON object, bare or in one code block, after any reasoning."""
    if failure := failed_generation(reply):
        raise _Unusable(failure.reason)
    found = json_reply(reply.text)
    if isinstance(found, Malformed):
        raise _Unusable(found.detail)
    try:
        return _Answer.model_validate(found)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"])
        raise _Unusable(f"The JSON does not have the demanded form: {place}: {problem['msg']}.") from None


def _order(answer: _Answer, selected: Sequence[str]) -> tuple[str, ...]:
    named = [name for name in dict.fromkeys(answer.execution_order) if name in selected]
    return (*named, *(name for name in selected if name not in named))


def _edges(answer: _Answer, order: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    place = {name: index for index, name in enumerate(order)}
    pairs = dict.fromkeys((item.source, item.target) for item in answer.dependencies)
    return tuple(
        (source, target)
        for source, target in pairs
        if source in place and target in place and place[source] < place[target]
    )
