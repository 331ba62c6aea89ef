"""The turn loop that adaptive routers share: at most 30 turns, exactly one block or tool call a turn (PROTOCOL 7, known faults
T01, T04).

What a router is told and which submission it must give are its own file's (`react`, `hermes`); here a reply is read, an action
is run, a submission is judged, and the answer goes back. A reply that breaks the protocol, a call that failed and a refused
route all consume a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks_lib.models.chat import ChatModel, ChatReply, ChatRequest, Message
from tasks_lib.models.replies import BadJson, Malformed, parse_blocks, parse_tool_calls, strict_json_object
from tasks_lib.models.templates import Prompt
from tasks_lib.protocol.records import CallContext, RoutePlan
from tasks_lib.protocol.vocabulary import CallOutcome
from tasks_lib.routeenv.actions import ArgumentError, read_arguments
from tasks_lib.routeenv.environment import RouteEnv
from tasks_lib.routing.fixed import MAX_STEPS
from tasks_lib.routing.outcome import RouteOutcome
from tasks_lib.routing.plan import Invalid
from tasks_lib.routing.views import observation_block

SUBMIT = "submit_route"
NOT_AVAILABLE = "Asking the user is not available here. Decide from the request and your observations."
NO_ROUTE = "no route was accepted within the turns."

_ADVICE = {
    CallOutcome.TRUNCATED: "Your last reply was cut off by its length limit and was not used. Reply more briefly.",
    CallOutcome.EMPTY: "Your last reply was empty. Reply as the instructions say.",
    CallOutcome.MODEL_REFUSED: "Your last reply was a refusal and was not used. Reply as the instructions say.",
}


@dataclass(frozen=True, slots=True)
class Script:
    """What differs between adaptive routers.

    `tools`: the environment's actions, then the submission tool (OpenAI function schemas). `judge`: turns a submitted
    object into the accepted plan or the reason against it.
    """

    system: Prompt
    request: Prompt
    templates: tuple[str, ...]
    tools: tuple[Mapping[str, Any], ...]
    judge: Callable[[Mapping[str, Any]], RoutePlan | Invalid]


@dataclass(frozen=True, slots=True)
class Step:
    """What one reply asks for. `kind`: action | ask | final."""

    kind: str
    name: str = ""
    arguments: Mapping[str, Any] | None = None


def read_text(text: str, names: frozenset[str]) -> Step | Malformed:
    """The step of a text-protocol turn. An ACTION body is {"name": ..., "arguments": {...}} with a known name."""
    block = parse_blocks(text)
    if isinstance(block, Malformed):
        return block
    if block.name == "ASK_USER":
        return Step("ask")
    try:
        body = strict_json_object(block.body)
    except BadJson as error:
        return Malformed(error.reason, str(error))
    if block.name == "FINAL":
        return Step("final", SUBMIT, body)
    if set(body) != {"name", "arguments"} or not isinstance(body["name"], str):
        return Malformed("shape", 'An ACTION holds one object {"name": "...", "arguments": {...}} and nothing else.')
    if not isinstance(body["arguments"], dict):
        return Malformed("shape", "The arguments of an ACTION are one JSON object.")
    return _named(body["name"], body["arguments"], names)


def read_native(reply: ChatReply, names: frozenset[str]) -> Step | Malformed:
    """The step of a native turn: exactly one tool call whose arguments are one strict JSON object (T01, T02)."""
    call = parse_tool_calls(reply.tool_calls)
    if isinstance(call, Malformed):
        return call
    try:
        arguments = strict_json_object(call.arguments)
    except BadJson as error:
        return Malformed(error.reason, str(error))
    if call.name == SUBMIT:
        return Step("final", SUBMIT, arguments)
    return _named(call.name, arguments, names)


def _named(name: str, arguments: Mapping[str, Any], names: frozenset[str]) -> Step | Malformed:
    if name not in names:
        return Malformed("unknown_action", f"There is no such action; the actions are {', '.join(sorted(names))}.")
    try:
        read_arguments(name, arguments)
    except ArgumentError as error:
        return Malformed("arguments", str(error))
    return Step("action", name, arguments)


async def run_episode(
    script: Script,
    env: RouteEnv,
    model: ChatModel,
    context: CallContext,
) -> RouteOutcome:
    """Turns until a route is accepted or none is left. Raises ProviderUnavailable; every other ending is an outcome.

    A context overflow ends the episode: the conversation only grows, so every later turn would end the same way.
    """
    native = model.spec.protocol == "native"
    names = frozenset(tool["function"]["name"] for tool in script.tools) - {SUBMIT}
    messages = [Message("system", script.system.text), Message("user", script.request.text)]
    calls: list[str] = []
    malformed, failure, reason = 0, "", NO_ROUTE
    for turn in range(1, MAX_STEPS + 1):
        tools = script.tools if native else ()
        request = ChatRequest(tuple(messages), tools, templates=script.templates, conversation=True)
        reply = await model.chat(request, context)
        calls.append(reply.call_key)
        if reply.outcome is not CallOutcome.OK:
            failure = failure or reply.outcome.value
            if reply.outcome is CallOutcome.CONTEXT_OVERFLOW:
                break
            # The advice also makes the next request a new one: an equal request would replay this failure.
            messages += [Message("assistant", "(no usable reply)"), _back(_ADVICE[reply.outcome], turn)]
            continue
        step = read_native(reply, names) if native else read_text(reply.text, names)
        if isinstance(step, Malformed):
            malformed += 1
            answer = f"<error>{step.reason}: {step.detail}</error>"
        elif step.kind == "ask":
            answer = NOT_AVAILABLE
        elif step.kind == "action":
            assert step.arguments is not None
            answer = observation_block(step.name, step.arguments, env.call(step.name, step.arguments))
        else:
            assert step.arguments is not None
            plan = script.judge(step.arguments)
            if isinstance(plan, RoutePlan):
                return RouteOutcome(plan, True, "", tuple(env.observed), turn, malformed, failure, tuple(calls))
            reason = plan.reason
            answer = f"<error>the route was not accepted: {plan.reason}</error>"
        messages += _exchange(reply, answer, turn, native)
    return RouteOutcome(None, False, reason, tuple(env.observed), len(calls), malformed, failure, tuple(calls))


def _left(turn: int) -> str:
    return f"Turns left: {MAX_STEPS - turn}."


def _back(text: str, turn: int) -> Message:
    return Message("user", f"{text}\n{_left(turn)}")


def _exchange(reply: ChatReply, answer: str, turn: int, native: bool) -> list[Message]:
    """The reply and its answer as messages. Every native call id gets the answer: providers refuse unanswered ids (T01)."""
    text = f"{answer}\n{_left(turn)}"
    if native and reply.tool_calls:
        asked = Message("assistant", reply.text, reply.tool_calls)
        return [asked, *(Message("tool", text, tool_call_id=call.id) for call in reply.tool_calls)]
    return [Message("assistant", reply.text), Message("user", text)]
