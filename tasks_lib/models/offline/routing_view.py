"""What a routing prompt shows, read back from its text: request, clarification, candidates, observations, past actions.

Only reading. The sections are those of the routing prompts, an observation's body is the JSON that the environment prints;
nothing else reaches an offline policy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tasks_lib.models.chat import ChatRequest

_REQUEST = re.compile(r"(?s)<request>\n(.*?)\n</request>")
_CANDIDATES = re.compile(r"(?s)<candidates>\n(.*?)\n</candidates>")
_CLARIFICATION = re.compile(r"(?s)<clarification>\nQuestion: (.*?)\nAnswer: (.*?)\n</clarification>")
_OBSERVATION = re.compile(r"""(?s)<observation action="(\w+)" arguments='(\{[^\n]*\})'>\n(.*?)\n</observation>""")
_OBJECT_KEYS = ("table_id", "column_id", "capability_id")
SEARCHES = frozenset({"search_catalog", "route_search"})
LOOKS = frozenset({"inspect_database", "load_database_skill"})


class RoutingPromptError(ValueError):
    """A routing prompt without its request."""


@dataclass
class Profile:
    """What was observed of one database: its summary, table and other lines of an inspection, evidence and object ids."""

    summary: str = ""
    tables: dict[str, None] = field(default_factory=dict)
    lines: dict[str, None] = field(default_factory=dict)
    evidence: dict[str, None] = field(default_factory=dict)
    objects: dict[str, None] = field(default_factory=dict)
    inspected: bool = False

    @property
    def text(self) -> str:
        """Observed text, without ids."""
        return "\n".join([self.summary, *self.tables, *self.lines])

    @property
    def title(self) -> str:
        """The summary's first sentence without its full stop."""
        return self.summary.split(". ")[0].rstrip(".")


@dataclass
class View:
    """One routing prompt. `searched`: score of each database found, by query; `looked`: inspected databases;
    `refusals`: routes that came back."""

    request: str
    question: str
    answer: str
    candidates: list[str]
    profiles: dict[str, Profile]
    searched: dict[str, dict[str, float]]
    looked: set[str]
    refusals: int

    @property
    def text(self) -> str:
        """The request, with the clarification exchange when there is one."""
        return "\n".join(part for part in (self.request, self.question, self.answer) if part)


@lru_cache(maxsize=512)
def _parsed(raw: str, body: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Arguments and data of an observation; no data when it is an error."""
    return json.loads(raw), json.loads(body) if body.startswith("{") else {}


def _note(profile: Profile, row: Mapping[str, Any], own_lines: bool) -> None:
    """Add one shown row to what is known of its database."""
    if row.get("evidence_id"):
        profile.evidence[str(row["evidence_id"])] = None
    for key in _OBJECT_KEYS:
        if key in row:
            profile.objects[str(row[key])] = None
    if not own_lines:
        return
    if row.get("text"):
        profile.lines[str(row["text"])] = None
    elif row.get("summary"):
        profile.tables[str(row["summary"])] = None
    elif "columns" in row:
        profile.tables[f"{row.get('name', '')}: {', '.join(map(str, row['columns']))}"] = None


def _read(view: View, action: str, arguments: Mapping[str, Any], data: Mapping[str, Any]) -> None:
    head = data.get("database", {})
    owner = str(head.get("database_id", ""))
    if action in SEARCHES:
        view.searched[str(arguments.get("query"))] = {
            str(row["database_id"]): float(row["score"]) for row in data.get("databases", ())
        }
    if action in LOOKS:
        view.looked.add(str(arguments.get("database_id")))
    if owner:
        profile = view.profiles.setdefault(owner, Profile())
        profile.summary = str(head.get("summary", ""))
        profile.inspected = profile.inspected or action in LOOKS
        _note(profile, head, own_lines=False)
    for rows in data.values():
        for row in rows if isinstance(rows, list) else ():
            if not isinstance(row, Mapping) or ("kind" in row and "relation_id" in row):
                continue
            database = str(row.get("database_id", owner))
            if not database:
                continue
            profile = view.profiles.setdefault(database, Profile())
            if "score" in row:
                profile.summary = str(row.get("summary", ""))
            # What a search happens to show of a database depends on the query; only inspections describe it.
            _note(profile, row, own_lines=action in LOOKS)


def read_view(request: ChatRequest) -> View:
    """The prompt as a `View`. Raises RoutingPromptError when the request section is missing."""
    shown = "\n".join(m.content for m in request.messages if m.role in {"system", "user", "tool"})
    asked = _REQUEST.search(shown)
    if asked is None:
        raise RoutingPromptError("The routing prompt has no <request> section, expected one; correct the template.")
    exchange = _CLARIFICATION.search(shown)
    listed = _CANDIDATES.search(shown)
    view = View(
        request=asked.group(1),
        question=exchange.group(1) if exchange else "",
        answer=exchange.group(2) if exchange else "",
        candidates=listed.group(1).split() if listed else [],
        profiles={},
        searched={},
        looked=set(),
        refusals=shown.count("<error>the route was not accepted"),
    )
    for action, raw, body in _OBSERVATION.findall(shown):
        arguments, data = _parsed(raw, body)
        _read(view, action, arguments, data)
    return view
