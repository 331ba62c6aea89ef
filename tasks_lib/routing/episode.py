"""The turn loop that adaptive routers share: at most 30 turns, exactly one block or tool call a turn (PROTOCOL 7, known faults
T01, T02, T04).

What a router is told and which submission it must give are its own file's (`react`, `hermes`); here a reply is read, an action
is run, a submission is judged, and the answer goes back. A reply that breaks the protocol, a call that failed and a refused
route all consume a turn. Messages are only ever appended, so that providers can reuse the prefix they have seen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tasks_lib.models.chat import ChatModel, ChatReply, ChatRequest, Message, ToolCall
from tasks_lib.models.markup import Schemas, recover, styles_in
from tasks_lib.models.replies import BadJson, Malformed, decode_object, parse_blocks, parse_tool_calls
from tasks_lib.models.templates import Prompt
from tasks_lib.protocol.records import CallContext, RoutePlan
from tasks_lib.protocol.vocabulary import CallOutcome
from tasks_lib.routeenv.actions import ArgumentError, read_arguments
from tasks_lib.routeenv.environment import RouteEnv
from tasks_lib.routing.fixed import MAX_STEPS
from tasks_lib.routing.outcome import RouteOutcome, ended
from tasks_lib.routing.plan import Invalid
from tasks_lib.routing.turns import DOUBLE_ENCODED, Turn, TurnKind, selected_of
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
    object into the accepted plan or the reason against it. `phase`: what the router's schedule says of a turn, or "".
    """

    system: Prompt
    request: Prompt
    templates: tuple[str, ...]
    tools: tuple[Mapping[str, Any], ...]
    judge: Callable[[Mapping[str, Any]], RoutePlan | Invalid]
    phase: Callable[[int], str] = lambda _turn: ""


@dataclass(frozen=True, slots=True)
class Step:
    """What one reply asks for. `kind`: action | ask | final. `recovery`: how it was read if not as agreed, or ""."""

    kind: TurnKind
    name: str = ""
    arguments: Mapping[str, Any] | None = None
    recovery: str = ""


def read_text(text: str, schemas: Schemas) -> Step | Malformed:
    """The step of a text-protocol turn. An ACTION body is {"name": ..., "arguments": {...}} with a known name.

    `schemas`: argument schema of every action. A turn without any block may hold one call in a provider's markup instead.
    """
    block = parse_blocks(text)
    if isinstance(block, Malformed):
        return _recovered(text, schemas, block) if block.reason == "none" else block
    if _marked_outside(text, block.body):
        return Malformed("multiple", "The reply holds tool-call marks beside its block; nothing was run.")
    if block.name == "ASK_USER":
        return Step(TurnKind.ASK)
    try:
        decoded = decode_object(block.body)
    except BadJson as error:
        return Malformed(error.reason, str(error))
    body, recovery = decoded.value, DOUBLE_ENCODED if decoded.double_encoded else ""
    if block.name == "FINAL":
        return Step(TurnKind.FINAL, SUBMIT, body, recovery)
    if set(body) != {"name", "arguments"} or not isinstance(body["name"], str):
        return Malformed("shape", 'An ACTION holds one object {"name": "...", "arguments": {...}} and nothing else.')
    if not isinstance(body["arguments"], dict):
        return Malformed("shape", "The arguments of an ACTION are one JSON object.")
    if body["name"] == SUBMIT:
        return Malformed("unknown_action", "A route is handed in by <FINAL>, not by an ACTION.")
    return _named(body["name"], body["arguments"], schemas, recovery)


def read_native(reply: ChatReply, schemas: Schemas) -> Step | Malformed:
    """The step of a native turn: exactly one tool call whose arguments are one strict JSON object (T01, T02).

    A turn without a call may hold one in a provider's markup; a turn with a call may hold none there.
    """
    call = parse_tool_calls(reply.tool_calls)
    if isinstance(call, Malformed):
        return _recovered(reply.text, schemas, call) if not reply.tool_calls else call
    if styles_in(reply.text):
        return Malformed("multiple_calls", "The text holds tool-call marks beside the tool call; none was run.")
    try:
        decoded = decode_object(call.arguments)
    except BadJson as error:
        return Malformed(error.reason, str(error))
    return _named(call.name, decoded.value, schemas, DOUBLE_ENCODED if decoded.double_encoded else "")


def _marked_outside(text: str, body: str) -> bool:
    """Whether provider markup stands beside the one block; inside its body it is only text."""
    return bool(styles_in(text)) and bool(styles_in(text.replace(body, "", 1)))


def _recovered(text: str, schemas: Schemas, otherwise: Malformed) -> Step | Malformed:
    """The step of the one call that `text` holds as provider markup; `otherwise` when it holds no such mark."""
    call = recover(text, schemas)
    if call is None:
        return otherwise
    return call if isinstance(call, Malformed) else _named(call.name, call.arguments, schemas, call.adapter)


def _named(name: str, arguments: Mapping[str, Any], schemas: Schemas, recovery: str) -> Step | Malformed:
    if name == SUBMIT:
        return Step(TurnKind.FINAL, SUBMIT, arguments, recovery)
    if name not in schemas:
        actions = ", ".join(sorted(schemas.keys() - {SUBMIT}))
        return Malformed("unknown_action", f"There is no such action; the actions are {actions}.")
    try:
        read_arguments(name, arguments)
    except ArgumentError as error:
        return Malformed("arguments", str(error))
    return Step(TurnKind.ACTION, name, arguments, recovery)


async def run_episode(
    script: Script,
    env: RouteEnv,
    model: ChatModel,
    context: CallContext,
) -> RouteOutcome:
    """Turns until a route is accepted or none is left. Raises ProviderUnavailable; every other ending is an outcome.

    A context overflow or a request that the endpoint refuses ends the episode: the conversation only grows, so every later turn
    would end the same way.
    """
    native = model.spec.protocol == "native"
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in script.tools}
    messages = [Message("system", script.system.text), Message("user", script.request.text)]
    turns: list[Turn] = []
    reason, accepted = NO_ROUTE, None
    for number in range(1, MAX_STEPS + 1):
        request = ChatRequest(
            tuple(messages), script.tools if native else (), templates=script.templates, conversation=True
        )
        reply = await model.chat(request, context)
        if reply.outcome is not CallOutcome.OK:
            turns.append(Turn(TurnKind.FAILED, reply))
            if reply.outcome in {CallOutcome.CONTEXT_OVERFLOW, CallOutcome.BAD_REQUEST}:
                break
            # The advice also makes the next request a new one: an equal request would replay this failure.
            messages.append(Message("assistant", "(no usable reply)"))
            messages.append(Message("user", f"{_ADVICE[reply.outcome]}\n{_left(script, number)}"))
            continue
        step = read_native(reply, schemas) if native else read_text(reply.text, schemas)
        if isinstance(step, Malformed):
            turns.append(Turn(TurnKind.MALFORMED, reply, malformed_reason=step.reason))
            answer = f"<error>{step.reason}: {step.detail}</error>"
        elif step.kind is TurnKind.ASK:
            turns.append(Turn(TurnKind.ASK, reply))
            answer = NOT_AVAILABLE
        else:
            assert step.arguments is not None
            turn = Turn(step.kind, reply, step.name, step.arguments, recovery=step.recovery)
            if step.kind is TurnKind.ACTION:
                observation = env.call(step.name, step.arguments)
                turns.append(replace(turn, observed=observation.database_ids))
                answer = observation_block(step.name, step.arguments, observation)
            else:
                plan = script.judge(step.arguments)
                selected = selected_of(step.arguments, env.task.allowlist)
                turns.append(replace(turn, selected=selected, accepted=isinstance(plan, RoutePlan)))
                if isinstance(plan, RoutePlan):
                    accepted = plan
                    break
                reason = plan.reason
                answer = f"<error>the route was not accepted: {plan.reason}</error>"
        messages += _exchange(reply, f"{answer}\n{_left(script, number)}", number, native)
    return ended(accepted, reason, env.observed, tuple(turns))


def _left(script: Script, turn: int) -> str:
    return " ".join(filter(None, (f"Turns left: {MAX_STEPS - turn}.", script.phase(turn + 1))))


def _exchange(reply: ChatReply, answer: str, turn: int, native: bool) -> list[Message]:
    """The reply and its answer as messages. Every native call id gets the answer: providers refuse unanswered ids (T01)."""
    text, answer = _sendable(reply.text), _sendable(answer)
    if native and reply.tool_calls:
        calls = tuple(_sendable_call(call, f"call_{turn}_{i}") for i, call in enumerate(reply.tool_calls, 1))
        if len({call.id for call in calls}) < len(calls):
            calls = tuple(replace(call, id=f"call_{turn}_{i}") for i, call in enumerate(calls, 1))
        return [Message("assistant", text, calls), *(Message("tool", answer, tool_call_id=call.id) for call in calls)]
    return [Message("assistant", text), Message("user", answer)]


def _sendable(text: str) -> str:
    """`text` without half surrogate pairs, which JSON replies may hold and no request can carry."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _sendable_call(call: ToolCall, otherwise: str) -> ToolCall:
    """A call as it may be sent back: endpoints refuse a whole conversation for arguments that are no JSON object, a name that
    cannot name a tool, or a missing id. The error that answers such a call shows what was written."""
    try:
        decoded = decode_object(call.arguments)
        arguments = json.dumps(decoded.value, ensure_ascii=False) if decoded.double_encoded else call.arguments
    except BadJson:
        arguments = "{}"
    name = re.sub(r"[^A-Za-z0-9_-]", "_", call.name)[:64] or "unnamed"
    return ToolCall(call.id or otherwise, name, arguments)
