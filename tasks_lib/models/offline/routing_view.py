"""What a routing prompt shows, read back from its text: request, clarification, candidates, observations, past actions.

Only reading. The sections are those of the routing prompts; nothing else reaches an offline policy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tasks_lib.models.chat import ChatRequest

_SECTION = {name: re.compile(rf"(?s)<{name}>\n(.*?)\n</{name}>") for name in ("request", "candidates", "valid_evidence")}
_CLARIFICATION = re.compile(r"(?s)<clarification>\nQuestion: (.*?)\nAnswer: (.*?)\n</clarification>")
_OBSERVATION = re.compile(
    r"""(?s)<observation action="(\w+)" arguments='(\{.*?\})'>\n(.*?)\n</observation>"""
)
_EVIDENCE = re.compile(r"(?m)^(?:evidence of )?(db_\w+): (ev_\w+(?: ev_\w+)*)$")
_DATABASE = re.compile(r"\bdb_\w+")
_OBJECT = re.compile(r"\b(?:tb|col|cap)_\w+")
_ID = re.compile(r"\b(?:db|tb|col|cap|ent|rel|ev)_\w+")
ABOUT_ONE = frozenset({"inspect_database", "load_database_skill", "check_coverage"})


class RoutingPromptError(ValueError):
    """A routing prompt without its request or candidates."""


@dataclass
class Profile:
    """What was observed of one database. `inspected`: lines of observations about it alone; `mentioned`: other lines."""

    inspected: list[str] = field(default_factory=list)
    mentioned: list[str] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    objects: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Observed text without ids: what was inspected, else what a search mentioned."""
        lines = self.inspected or self.mentioned
        return "\n".join(dict.fromkeys(lines))


@dataclass
class View:
    """One routing prompt. `done`: past actions with their arguments; `refusals`: routes that came back."""

    request: str
    question: str
    answer: str
    candidates: list[str]
    profiles: dict[str, Profile]
    done: list[tuple[str, Mapping[str, Any]]]
    refusals: int

    @property
    def text(self) -> str:
        """The request, with the clarification exchange when there is one."""
        return "\n".join(part for part in (self.request, self.question, self.answer) if part)


def _profiles(text: str) -> tuple[dict[str, Profile], list[tuple[str, Mapping[str, Any]]]]:
    profiles: dict[str, Profile] = {}
    done: list[tuple[str, Mapping[str, Any]]] = []
    for action, raw, body in _OBSERVATION.findall(text):
        arguments = json.loads(raw)
        done.append((action, arguments))
        alone = action in ABOUT_ONE
        current = arguments.get("database_id", "") if alone else ""
        for line in body.split("\n"):
            evidence = _EVIDENCE.match(line)
            if evidence is not None:
                profile = profiles.setdefault(evidence.group(1), Profile())
                profile.evidence += [e for e in evidence.group(2).split() if e not in profile.evidence]
                continue
            named = _DATABASE.search(line)
            if named is not None and not alone:
                current = named.group()
            if not current or line.startswith("error: "):
                continue
            profile = profiles.setdefault(current, Profile())
            profile.objects += [o for o in _OBJECT.findall(line) if o not in profile.objects]
            clean = " ".join(_ID.sub(" ", line).split())
            if clean:
                (profile.inspected if alone else profile.mentioned).append(clean)
    return profiles, done


def read_view(request: ChatRequest) -> View:
    """The prompt as a `View`. Raises RoutingPromptError when the request section is missing."""
    shown = "\n".join(m.content for m in request.messages if m.role in {"system", "user", "tool"})
    asked = _SECTION["request"].search(shown)
    if asked is None:
        raise RoutingPromptError("The routing prompt has no <request> section, expected one; correct the template.")
    exchange = _CLARIFICATION.search(shown)
    listed = _SECTION["candidates"].search(shown)
    profiles, done = _profiles(shown)
    for database, ids in _EVIDENCE.findall(shown):
        profile = profiles.setdefault(database, Profile())
        profile.evidence += [e for e in ids.split() if e not in profile.evidence]
    return View(
        request=asked.group(1),
        question=exchange.group(1) if exchange else "",
        answer=exchange.group(2) if exchange else "",
        candidates=listed.group(1).split() if listed else [],
        profiles={k: v for k, v in profiles.items() if v.text},
        done=done,
        refusals=shown.count("<error>the route was not accepted"),
    )
