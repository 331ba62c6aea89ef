"""SQL and execution order without a model: what an offline policy answers to the prompts of the execution floor.

It reads only the messages: the sections between tags, earlier answers, and what tools said. SQL comes from linking the
request's words to the schema (`sql_linking`), reading its shape (`sql_reading`) and writing it (`sql_compose`): a floor for
other agents, right on easy questions. Does not belong here: any knowledge of tasks, gold or files.

The policies differ where columns are equally likely: their scorer decides. Few-shot examples do not change the answer.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache

from tasks_lib.models.chat import ChatReply, ChatRequest, ToolCall
from tasks_lib.models.offline.ordering import ordered
from tasks_lib.models.offline.retrieval import scorer
from tasks_lib.models.offline.sql_compose import compose, normal
from tasks_lib.models.offline.sql_links import Scorer
from tasks_lib.models.offline.sql_parts import own_part
from tasks_lib.models.offline.sql_reading import read
from tasks_lib.models.offline.sql_schema import parse_schema
from tasks_lib.protocol.vocabulary import CallOutcome

_FENCED = re.compile(r"```\w*\n(.*?)\n```", re.DOTALL)
_PLACEHOLDER = re.compile(r"^- :(\w+)", re.MULTILINE)


def reply(policy: str, request: ChatRequest) -> ChatReply:
    """The policy's answer to a `# Task: sql` or `# Task: execution order` prompt."""
    opening = next(m.content for m in reversed(request.messages) if m.content.lstrip().startswith("# Task:"))
    if opening.lstrip().startswith("# Task: execution order"):
        return _text(_order(opening))
    if request.tools or "<ACTION>" in opening:
        return _agent_step(policy, request, opening)
    postgres = "```postgresql" in opening
    candidates = statements(policy, opening, section(opening, "schema"), postgres)
    written = {normal(sql) for m in request.messages if m.role == "assistant" for sql in _FENCED.findall(m.content)}
    sql = next((text for text in candidates if normal(text) not in written), candidates[0])
    return _text(f"```{'postgresql' if postgres else 'sql'}\n{sql}\n```")


def statements(policy: str, opening: str, schema_text: str, postgres: bool) -> list[str]:
    """Candidate statements for the request of a prompt, best first. Raises ValueError when there is no table to ask."""
    schema = parse_schema(schema_text)
    if not schema.tables:
        raise ValueError("The prompt's <schema> holds no CREATE TABLE, expected at least one; give the schema text.")
    names = tuple(_PLACEHOLDER.findall(section(opening, "placeholders")))
    request = own_part(schema, section(opening, "request"))
    reading = read(schema, request, names, section(opening, "knowledge"), _scorer(policy))
    return compose(schema, reading, postgres)


def section(prompt: str, tag: str) -> str:
    """The text between the last `<tag>` line and the `</tag>` line behind it, "" when there is none."""
    found = re.findall(rf"^<{tag}>\n(.*?)\n</{tag}>$", prompt, re.DOTALL | re.MULTILINE)
    return str(found[-1]) if found else ""


def _agent_step(policy: str, request: ChatRequest, opening: str) -> ChatReply:
    """Schema first, then tests of the candidates, at most four, then the submission of the one that gave rows."""
    answers = [m.content for m in request.messages if m.role in ("user", "tool") and m.content != opening]
    if not answers:
        return _call(request, "schema", {})
    candidates = statements(policy, opening, answers[0], postgres=True)[:4]
    tests = answers[1:]
    if tests and not _failed(tests[-1]):
        return _call(request, "submit", {"sql": candidates[len(tests) - 1]})
    if len(tests) < len(candidates):
        return _call(request, "test", {"sql": candidates[len(tests)]})
    return _call(request, "submit", {"sql": candidates[0]})


def _failed(answer: str) -> bool:
    return not answer.startswith(("It runs", "It is readable")) or answer.startswith("It runs and gives 0 rows")


def _order(opening: str) -> str:
    lines = re.findall(r"^- (\S+): (.*)$", section(opening, "databases"), re.MULTILINE)
    order, edges = ordered(section(opening, "request"), dict(lines))
    dependencies = [{"from": a, "to": b, "reason": "the request asks for it first"} for a, b in edges]
    reason = "by the wording of the request" if edges else "no dependency is worded"
    return json.dumps({"execution_order": list(order), "dependencies": dependencies, "reason": reason})


@lru_cache(maxsize=8)
def _scorer(policy: str) -> Scorer:
    return scorer(policy)


def _call(request: ChatRequest, tool: str, arguments: dict[str, str]) -> ChatReply:
    if request.tools:
        step = sum(message.role == "assistant" for message in request.messages)
        call = ToolCall(f"call_{step}", tool, json.dumps(arguments))
        return ChatReply(CallOutcome.OK, "", (call,), "tool_calls", cost=0.0, cost_source="offline")
    return _text(f"<ACTION>{json.dumps({'tool': tool, 'arguments': arguments})}</ACTION>")


def _text(text: str) -> ChatReply:
    return ChatReply(CallOutcome.OK, text, finish_reason="stop", cost=0.0, cost_source="offline")
