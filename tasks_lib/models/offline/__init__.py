"""Offline policies: real answers without a model, from exactly the messages and tool schemas a model would get.

This module only finds which prompt it is looking at and hands the request on. Prompts of ours begin a system or user message
with the line `# Task: <name>`; the last such message decides. Routing and asking live in `routing`, planning and SQL in
`sql`, the alignment judge in `judge`, text scores in `retrieval`.
"""

from __future__ import annotations

import re

from tasks_lib.models.backends import OFFLINE_POLICIES, RANDOM
from tasks_lib.models.chat import ChatReply, ChatRequest
from tasks_lib.store.keys import code_digest

_HEADING = re.compile(r"\A\s*# Task: *([^\n]+?) *(?:\n|\Z)")
TASKS = {
    "route decision": "routing",
    "route episode": "routing",
    "route skills episode": "routing",
    "clarification decision": "routing",
    "execution order": "sql",
    "sql": "sql",
    "slot alignment": "judge",
}


class UnknownPrompt(ValueError):
    """A request that no offline policy can answer: no `# Task:` heading, or an unknown name."""


def task_name(request: ChatRequest) -> str:
    """Name in the last `# Task: <name>` heading that begins a system or user message. Raises UnknownPrompt."""
    for message in reversed(request.messages):
        heading = _HEADING.match(message.content) if message.role in {"system", "user"} else None
        if heading is not None:
            return heading.group(1)
    raise UnknownPrompt("No message begins with `# Task: <name>`, expected one; start the prompt template with it.")


def reply(policy: str, request: ChatRequest) -> ChatReply:
    """The policy's answer to a request. Raises UnknownPrompt for prompts it has no rule for."""
    known = (*OFFLINE_POLICIES, RANDOM)
    if policy not in known:
        raise ValueError(f"Offline policy {policy!r} does not exist, expected one of {known}; correct the model.")
    name = task_name(request)
    place = TASKS.get(name)
    if place == "routing":
        from tasks_lib.models.offline.routing import reply as answer
    elif place == "sql":
        from tasks_lib.models.offline.sql import reply as answer
    elif place == "judge":
        from tasks_lib.models.offline.judge import reply as answer
    else:
        raise UnknownPrompt(
            f"No offline rule for the prompt {name!r}, expected one of {sorted(TASKS)}; correct the heading."
        )
    return answer(policy, request)


def policy_digest() -> str:
    """sha256 hex of the code that decides offline answers."""
    return code_digest("tasks_lib/models/offline", "tasks_lib/models/replies.py", "tasks_lib/models/embeddings.py")
