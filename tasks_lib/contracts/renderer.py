"""PRIVATE. Contract to request text by a language model: the prompt, the strict reading of its reply, the regenerations.

Belongs here: what a frozen contract shows to the model that words it (paper F.1), and the checks that only a written reply
needs: its form and its contribution map. Does not belong here: the gates (the caller passes them as `check`, the same ones
that templates pass) and templates (`wording`).

The rules:
1. One call and at most three regenerations, each with what was wrong as feedback. Every call goes through the ledger, so a
   build repeated over the same ledger words alike and costs nothing.
2. A reply counts when it is one JSON object of the demanded form, its `contributions` quote the request for every part, and
   `check` passes. A failed generation (cut off, empty, refused) is a failed attempt; one that does not fit the context ends them.
3. When all fail, the result is a `Refusal` named `wording` with the last reason: the candidate is rejected and recorded. No
   template takes its place, so that a release says of every request who wrote it.
4. The model never sees a value that an upstream unit supplies, nor the slot's values of an interactive task.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from tasks_lib.contracts.contract import Candidate, Unit
from tasks_lib.contracts.pool import Pool
from tasks_lib.contracts.proposals import Refusal
from tasks_lib.contracts.questions import locked, stands_in
from tasks_lib.contracts.wording import Wording
from tasks_lib.models import templates
from tasks_lib.models.chat import BackendMisconfigured, ChatModel, ChatReply, ChatRequest, Message
from tasks_lib.models.replies import Malformed, json_reply
from tasks_lib.protocol.records import CallContext
from tasks_lib.protocol.vocabulary import Audience, Behavior, CallOutcome
from tasks_lib.store.keys import digest

MAX_REGENERATIONS = 3
LAYER = "wordings"
PROMPT = "request_wording"
_PROMPTS = Path(__file__).parent / "prompts"
_EXAMPLES = Path(__file__).with_name("renderer_examples.yaml")
_LONGEST = 2000
"""Characters of the longest request: eight parts of the longest questions stay below it."""
_FAILED = {
    CallOutcome.TRUNCATED: "It was cut off at the length limit; write less.",
    CallOutcome.EMPTY: "It was empty.",
    CallOutcome.MODEL_REFUSED: "It declined to answer.",
    CallOutcome.CONTEXT_OVERFLOW: "The prompt does not fit the model's context.",
}


class _Unusable(Exception):
    """A reply that is no wording; the message goes back to the model."""


@cache
def examples() -> Mapping[str, Any]:
    """Behavior -> its rules and worked example, from `renderer_examples.yaml`."""
    found: Mapping[str, Any] = yaml.safe_load(_EXAMPLES.read_text("utf-8"))
    return found


def parts(candidate: Candidate) -> dict[str, tuple[Unit, ...]]:
    """Part name -> the units it stands for: one each in gold order; both readings of an interactive task are one part."""
    if candidate.behavior is Behavior.INTERACTIVE:
        return {"P1": candidate.units}
    return {f"P{number}": (unit,) for number, unit in enumerate(candidate.units, 1)}


def literals(candidate: Candidate) -> tuple[str, ...]:
    """What the request must keep: locked literals of the questions, without supplied values and the slot's own."""
    if candidate.behavior is Behavior.INTERACTIVE:
        shared = candidate.shared_question or candidate.units[0].question
        return locked(shared, (literal for unit in candidate.units for literal in unit.literals))
    found: list[str] = []
    for unit in candidate.units:
        supplied = {str(link.value) for link in candidate.bindings if link.downstream_unit == unit.unit_id}
        found += (literal for literal in locked(unit.question, unit.literals) if literal not in supplied)
    hidden = [str(link.value).casefold() for link in candidate.bindings]
    return tuple(dict.fromkeys(text for text in found if not any(value in text.casefold() for value in hidden)))


def task_text(candidate: Candidate, pool: Pool) -> str:
    """The contract as the model reads it. Names no database; supplied values are written `<value of P…>`."""
    named = parts(candidate)
    place = {unit.unit_id: name for name, units in named.items() for unit in units}
    lines = [f"behavior: {candidate.behavior.value}", f"combine: {candidate.aggregation}"]
    lines += [f"theme: {candidate.theme}"] if candidate.theme else []
    if candidate.behavior is Behavior.INTERACTIVE:
        shared = candidate.shared_question or candidate.units[0].question
        lines += ["part P1 (two readings in the same words)", f"  question: {_flat(shared)}"]
        return "\n".join([*lines, f"  open: {_flat(candidate.slot_question)}"])
    for unit in candidate.units:
        link = next((link for link in candidate.bindings if link.downstream_unit == unit.unit_id), None)
        question, query = unit.question, unit.sql
        need = ""
        if link is not None:
            upstream = place[link.upstream_unit]
            question = link.downstream_question.replace("{binding}", f"<value of {upstream}>")
            query = link.downstream_sql.replace(":binding", f"<value of {upstream}>")
            need = f" needs the one value that {upstream} gives"
        lines.append(f"part {place[unit.unit_id]}{need}")
        if candidate.behavior is not Behavior.EXPLORATORY:
            lines.append(f"  about: {_flat(pool.databases[unit.database].title)}")
        lines.append(f"  question: {_flat(question)}")
        lines.append(f"  query: {_flat(query)}")
        lines += [f"  knowledge: {_flat(unit.evidence)}"] if unit.evidence.strip() else []
    return _hidden("\n".join(lines), candidate, place)


def _flat(text: str) -> str:
    return " ".join(text.split())


def _hidden(text: str, candidate: Candidate, place: Mapping[str, str]) -> str:
    """`text` with every supplied value replaced by the mark of the part that gives it."""
    for link in candidate.bindings:
        mark = f"<value of {place[link.upstream_unit]}>"
        text = re.sub(re.escape(str(link.value)), mark, text, flags=re.IGNORECASE)
    return text


def reply_model(names: tuple[str, ...]) -> type[BaseModel]:
    """The form of a reply: `request`, and `contributions` with exactly these parts."""
    strict = ConfigDict(strict=True, extra="forbid")
    fields: dict[str, Any] = {name: (str, Field(min_length=1)) for name in names}
    contributions = create_model("Contributions", __config__=strict, **fields)
    return create_model(
        "Reply",
        __config__=strict,
        request=(str, Field(min_length=1, max_length=_LONGEST)),
        contributions=(contributions, ...),
    )


def read(value: Mapping[str, Any], candidate: Candidate) -> tuple[str, tuple[tuple[str, str], ...]]:
    """(request, contributions by unit id) of a reply's JSON object. Raises ValueError, one sentence that says what is wrong.

    Checked: the demanded form; one paragraph that ends as a sentence; a quote of the request for every part, no two alike;
    not all the parts' questions word for word; no value of the slot.
    """
    named = parts(candidate)
    try:
        found = reply_model(tuple(named)).model_validate(value).model_dump()
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"])
        raise ValueError(f"The JSON does not have the demanded form: {place}: {problem['msg']}.") from None
    request = found["request"].strip()
    if "\n" in request or not re.search(r"[.?!][\"'”’)]?$", request):
        raise ValueError("The request is not one paragraph that ends with a full stop or a question mark.")
    quotes: dict[str, str] = {name: quote.strip() for name, quote in found["contributions"].items()}
    for name, quote in quotes.items():
        if not quote or quote not in request:
            raise ValueError(
                f"The words given for {name} do not stand in the request letter by letter: {quote[:80]!r}."
            )
    if len({quote.casefold() for quote in quotes.values()}) < len(quotes):
        raise ValueError("Two parts are given the same words; each part needs words of its own.")
    if len(named) > 1 and all(_said(unit.question, request) for units in named.values() for unit in units):
        raise ValueError("The request only lines up the questions of the parts; make one wish of them.")
    if value_shown := _slot_value(candidate, request):
        raise ValueError(f"The request says {value_shown!r}, which settles what must stay open.")
    return request, tuple((unit.unit_id, quotes[name]) for name, units in named.items() for unit in units)


def _said(question: str, request: str) -> bool:
    return _flat(question).rstrip(" .?!").casefold() in request.casefold()


def _slot_value(candidate: Candidate, request: str) -> str:
    """A branch's value, or a literal that only one reading has, that the request shows; "" when none."""
    if candidate.behavior is not Behavior.INTERACTIVE:
        return ""
    kept = {text.casefold() for text in literals(candidate)}
    own = [literal for unit in candidate.units for literal in locked(unit.question, unit.literals)]
    values = [branch.value.strip('"') for branch in candidate.branches]
    return next((v for v in (*values, *own) if v.casefold() not in kept and stands_in(request, v)), "")


async def render(
    candidate: Candidate, pool: Pool, model: ChatModel, check: Callable[[Wording], Refusal | None]
) -> Wording | Refusal:
    """The request of a candidate in the model's words, or why there is none.

    `check`: the gates on a wording; the first refusal goes back to the model. `Wording.template` is
    `llm/<prompt>@<digest of all prompt files>#<attempt, from 0>`.

    Raises:
        BackendMisconfigured: the model is an offline policy, which cannot write text.
        ProviderUnavailable: from the model; nothing was decided.
    """
    if model.spec.offline:
        raise BackendMisconfigured(
            f"The renderer {model.spec.name} is the offline policy {model.spec.model}, expected a language model; "
            "name one, or leave the renderer out to use templates."
        )
    place = {unit.unit_id: name for name, units in parts(candidate).items() for unit in units}
    system, user = _opening(candidate, pool)
    opening = (Message("system", system.text), Message("user", user.text))
    request = ChatRequest(opening, templates=(system.digest, user.digest))
    context = CallContext(Audience.DIAGNOSTIC, LAYER)
    problem, attempts = "", 0
    while attempts <= MAX_REGENERATIONS:
        reply = await model.chat(request, context)
        attempts += 1
        try:
            text, contributions = _written(reply, candidate)
        except _Unusable as error:
            problem = str(error)
            if reply.outcome is CallOutcome.CONTEXT_OVERFLOW:
                break
        else:
            template = f"llm/{PROMPT}@{prompts_digest()[:12]}#{attempts - 1}"
            wording = Wording(text, template, contributions, model.spec.name)
            refusal = check(wording)
            if refusal is None:
                return wording
            problem = f"{refusal.gate}: {refusal.reason}"
        # The reply and the reason may name what the plan hides (a model can guess it); neither is shown again in clear.
        shown = _hidden(problem, candidate, place)
        said = (Message("assistant", _hidden(reply.text, candidate, place)),) if reply.text.strip() else ()
        retry = templates.render(_PROMPTS / f"{PROMPT}_retry@1.md.j2", attempt=str(attempts), problem=shown)
        request = ChatRequest(
            (*opening, *said, Message("user", retry.text)), templates=(system.digest, user.digest, retry.digest)
        )
    return Refusal(
        "wording", f"the renderer {model.spec.name} gave no accepted request in {attempts} replies; the last: {problem}"
    )


def _opening(candidate: Candidate, pool: Pool) -> tuple[templates.Prompt, templates.Prompt]:
    example = examples()[candidate.behavior.value]
    names = tuple(parts(candidate))
    user = templates.render(
        _PROMPTS / f"{PROMPT}@1.md.j2",
        example_task=example["task"],
        example_reply=json.dumps(example["reply"], ensure_ascii=False, indent=1),
        task=task_text(candidate, pool),
        literals=literals(candidate),
        rules=example["rules"],
        distinct=len(names) > 1,
        schema=json.dumps(reply_model(names).model_json_schema(), ensure_ascii=False),
    )
    return templates.render(_PROMPTS / f"{PROMPT}_system@1.md.j2"), user


@cache
def prompts_digest() -> str:
    """sha256 hex over every file that decides what the model is asked."""
    files = sorted(_PROMPTS.glob(f"{PROMPT}*.j2"))
    return digest([(file.name, file.read_text("utf-8")) for file in (*files, _EXAMPLES)])


def _written(reply: ChatReply, candidate: Candidate) -> tuple[str, tuple[tuple[str, str], ...]]:
    if reply.outcome is not CallOutcome.OK:
        raise _Unusable(_FAILED.get(reply.outcome, f"It failed ({reply.outcome})."))
    value = json_reply(reply.text)
    if isinstance(value, Malformed):
        raise _Unusable(value.detail)
    try:
        return read(value, candidate)
    except ValueError as error:
        raise _Unusable(str(error)) from None
