"""What routers show a model: prompts, observations and tool lists as text. Nothing is decided here, and no model is called.

Everything shown comes from a public task and from observations of RouteEnv, so nothing private can pass through.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tasks_lib.models.templates import Prompt, render
from tasks_lib.protocol.records import PublicTask
from tasks_lib.routeenv.environment import Observation
from tasks_lib.routing.outcome import Clarification

PROMPTS = "tasks_lib/routing/prompts"

QUERY_LENGTH = 4000
"""Characters that a search takes; a clarifying question is a model's text and may be longer."""


def prompt(name: str, **values: object) -> Prompt:
    """The prompt `name` (with its version, such as `route_decision@1`) filled in."""
    return render(f"{PROMPTS}/{name}.md.j2", **values)


def compact(value: object) -> str:
    """JSON on one line, keys in the order given."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def query_text(task: PublicTask, clarification: Clarification | None) -> str:
    """What a fixed schedule searches for: the request, and the clarification exchange once there is one."""
    if clarification is None:
        return task.request[:QUERY_LENGTH]
    return f"{task.request}\n{clarification.question}\n{clarification.answer}"[:QUERY_LENGTH]


def evidence_by_database(evidence: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """(database, its observed evidence ids), both in order of appearance."""
    found: dict[str, list[str]] = {}
    for item, database in evidence.items():
        found.setdefault(database, []).append(item)
    return list(found.items())


def observation_block(action: str, arguments: Mapping[str, Any], observation: Observation) -> str:
    """One observation as a marked section: what was done and what the environment said. Rows carry their own evidence ids."""
    said = f"error: {observation.error}" if observation.error else observation.text
    return f"<observation action={json.dumps(action)} arguments='{compact(dict(arguments))}'>\n{said}\n</observation>"


def tool_line(tool: Mapping[str, Any]) -> str:
    """A tool of the text protocol: name, purpose and its JSON schema of arguments."""
    function = tool["function"]
    return f"`{function['name']}`: {function['description']} Arguments: {compact(function['parameters'])}"
