"""The LiveSQLBench data agent: tools, at most 30 steps, one submission (PROTOCOL 10; paper F.5).

Belongs here: the episode and its five tools. Does not belong here: the text protocol and native calls as such
(`models.replies`).

The rules: a step is one model call. A reply without exactly one readable tool call, an unknown tool, or wrong arguments use
the step up and the problem is answered. `submit` ends the episode, whatever it carries. A cut-off or empty reply is a step
used up; a refusal or an overflow of the context ends the episode as that failure. No submission in 30 steps: missing_sql.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tasks_lib.execution.adapter import try_out
from tasks_lib.execution.drafts import SqlDraft
from tasks_lib.execution.extraction import failed_generation
from tasks_lib.execution.prompting import PROMPTS, context, knowledge_text, placeholder_lines, public_error
from tasks_lib.models.chat import ChatModel, ChatReply, ChatRequest, Message
from tasks_lib.models.replies import BadJson, Malformed, parse_blocks, parse_tool_calls, strict_json_object
from tasks_lib.models.templates import render
from tasks_lib.protocol.records import DatabaseHandle, LocalRequest
from tasks_lib.protocol.vocabulary import CallOutcome, VerdictKind
from tasks_lib.sql.canonical import encoded
from tasks_lib.sql.execute import SqlRunner

MAX_STEPS = 30
MAX_ROWS_SHOWN = 10
MAX_LINES_FOUND = 30
MAX_SHOWN = 4_000
"""Characters of query output shown in one answer; `schema` shows its text whole."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: `argument` is the name of its only argument, "" for none."""

    name: str
    argument: str
    description: str

    @property
    def arguments(self) -> str:
        """The signature's inside, for the text protocol."""
        return self.argument

    @property
    def function(self) -> Mapping[str, Any]:
        """The OpenAI-style schema, for native calls."""
        properties = {self.argument: {"type": "string"}} if self.argument else {}
        parameters = {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": parameters},
        }


TOOLS = (
    Tool("schema", "", "the CREATE statements of the database with column meanings"),
    Tool("search", "text", "lines of the schema, the column meanings and the knowledge that contain words of text"),
    Tool("query", "sql", f"run a read-only query and see its first {MAX_ROWS_SHOWN} rows"),
    Tool("test", "sql", "check and run the query you mean to submit: its problem, or its number of rows"),
    Tool("submit", "sql", "hand in the final query and end; only once"),
)
_BY_NAME = {tool.name: tool for tool in TOOLS}


@dataclass
class _Episode:
    """What one episode has and has gathered."""

    handle: DatabaseHandle
    knowledge: str
    runner: SqlRunner
    calls: list[str] = field(default_factory=list)
    executions: list[str] = field(default_factory=list)

    def draft(self, sql: str | None, kind: VerdictKind | None, reason: str) -> SqlDraft:
        return SqlDraft(sql, kind, reason, tuple(self.calls), tuple(dict.fromkeys(self.executions)))


async def write(
    request: LocalRequest,
    handle: DatabaseHandle,
    evidence: str,
    model: ChatModel,
    runner: SqlRunner,
    trial: int,
) -> SqlDraft:
    """Run one episode.

    Raises:
        ProviderUnavailable: from the model. DatabaseFault: from the runner. Nothing was decided.
    """
    native = model.spec.protocol == "native"
    prompt = render(
        PROMPTS / "sql_agent@1.md.j2",
        steps=MAX_STEPS,
        tools=TOOLS,
        text_protocol=not native,
        placeholders=placeholder_lines(request),
        request=request.text,
    )
    episode = _Episode(handle, knowledge_text(handle, evidence), runner)
    messages: tuple[Message, ...] = (Message("user", prompt.text),)
    tools = tuple(tool.function for tool in TOOLS) if native else ()
    for _step in range(MAX_STEPS):
        reply = await model.chat(
            ChatRequest(messages, tools, "auto" if native else None, templates=(prompt.digest,)), context(trial)
        )
        episode.calls.append(reply.call_key)
        failure = failed_generation(reply)
        if failure and reply.outcome in (CallOutcome.MODEL_REFUSED, CallOutcome.CONTEXT_OVERFLOW):
            return episode.draft(None, failure.kind, failure.reason)
        call = Malformed("generation", failure.reason) if failure else _call(reply, native)
        if isinstance(call, _Call) and call.tool.name == "submit":
            sql = call.text.strip().rstrip(";").rstrip()
            if not sql:
                return episode.draft(None, VerdictKind.MISSING_SQL, "The submission was empty.")
            return episode.draft(sql, None, "")
        answer = call.detail if isinstance(call, Malformed) else await _answer(episode, call)
        messages = (*messages, *_exchange(reply, answer, native and not failure))
    return episode.draft(None, VerdictKind.MISSING_SQL, f"No query was submitted in {MAX_STEPS} steps.")


@dataclass(frozen=True, slots=True)
class _Call:
    tool: Tool
    text: str


def _call(reply: ChatReply, native: bool) -> _Call | Malformed:
    """The one tool call of a reply."""
    try:
        if native:
            one = parse_tool_calls(reply.tool_calls)
            if isinstance(one, Malformed):
                return one
            name: object = one.name
            arguments: object = strict_json_object(one.arguments or "{}")
        else:
            block = parse_blocks(reply.text, ("ACTION",))
            if isinstance(block, Malformed):
                return block
            action = strict_json_object(block.body)
            name, arguments = action.get("tool"), action.get("arguments", {})
    except BadJson as error:
        return Malformed(error.reason, str(error))
    tool = _BY_NAME.get(name) if isinstance(name, str) else None
    if tool is None:
        return Malformed("unknown_tool", f"There is no tool {name!r}; the tools are {', '.join(_BY_NAME)}.")
    expected = {tool.argument} if tool.argument else set()
    if not isinstance(arguments, dict) or set(arguments) != expected:
        return Malformed("arguments", f"{tool.name} takes the arguments {sorted(expected)}, found {arguments!r:.200}.")
    text = arguments.get(tool.argument, "")
    if not isinstance(text, str):
        return Malformed("arguments", f"The argument {tool.argument} of {tool.name} is text, found {text!r:.200}.")
    return _Call(tool, text)


async def _answer(episode: _Episode, call: _Call) -> str:
    handle = episode.handle
    if call.tool.name == "schema":
        return handle.schema_text.strip()
    if call.tool.name == "search":
        return _search(f"{handle.schema_text}\n{episode.knowledge}", call.text)
    if call.tool.name == "test":
        tried = await try_out(handle, call.text, episode.runner)
        episode.executions.extend([tried.execution] if tried.execution else [])
        if tried.problem:
            return tried.problem
        return f"It runs and gives {tried.rows} rows." if tried.execution else "It is readable; it cannot be run yet."
    return await _query(episode, call.text)


async def _query(episode: _Episode, sql: str) -> str:
    handle = episode.handle
    done = await episode.runner.run(handle, sql)
    if done.key:
        episode.executions.append(done.key)
    if done.kind is not None or done.result is None:
        return f"{done.kind}: {public_error(handle, done.error)}"
    if not handle.samples:
        return f"columns: {json.dumps(list(done.result.columns))}; {done.rows} rows (not shown for this database)"
    lines = [json.dumps(list(done.result.columns))]
    for row in done.result.rows[:MAX_ROWS_SHOWN]:
        lines.append(json.dumps([encoded(value) for value in row], ensure_ascii=False))
    lines.append(f"({done.rows} rows)")
    text = "\n".join(lines)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… (cut)"


def _search(text: str, query: str) -> str:
    """Lines with words of `query`, most distinct words first, at most MAX_LINES_FOUND."""
    words = {word.lower() for word in re.findall(r"\w{3,}", query)}
    if not words:
        return "Give at least one word of three letters."
    scored = []
    for place, line in enumerate(text.splitlines()):
        low = line.lower()
        if count := sum(word in low for word in words):
            scored.append((-count, place, line.strip()))
    found = list(dict.fromkeys(line for _count, _place, line in sorted(scored)))
    return "\n".join(found[:MAX_LINES_FOUND]) if found else "Nothing was found."


def _exchange(reply: ChatReply, answer: str, native: bool) -> tuple[Message, ...]:
    """The reply and its answer as messages. Every native call of the reply is answered, as the API demands."""
    if native and reply.tool_calls:
        answers = (Message("tool", answer, tool_call_id=call.id) for call in reply.tool_calls)
        return (Message("assistant", reply.text, reply.tool_calls), *answers)
    said = (Message("assistant", reply.text),) if reply.text.strip() else ()
    return (*said, Message("user", answer))
