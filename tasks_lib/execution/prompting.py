"""What all SQL prompts share: their sections as text, and engine messages that a model may read.

Belongs here: turning seam values into prompt text. Does not belong here: prompt wording (files in `prompts/`).
"""

from __future__ import annotations

import re
from pathlib import Path, PurePath

from tasks_lib.protocol.records import CallContext, DatabaseHandle, LocalRequest
from tasks_lib.protocol.vocabulary import Audience
from tasks_lib.sql.faults import scrub

PROMPTS = Path(__file__).parent / "prompts"
LAYER = "local_sql"
_NAME = re.compile(r"^up(\d+)_(.+)$")


def context(trial: int) -> CallContext:
    """The context of every SQL call: executors may read their database's schema, and nothing of the gold."""
    return CallContext(Audience.EXECUTOR, LAYER, trial)


def knowledge_text(handle: DatabaseHandle, evidence: str) -> str:
    """Column meanings and knowledge entries of the database, then the evidence that travels with the request."""
    return "\n\n".join(part.strip() for part in (handle.knowledge, evidence) if part.strip())


def placeholder_lines(request: LocalRequest) -> str:
    """One line a placeholder, `- :up1_title: ...`; "" when there are none. Names come with or without their colon."""
    return "\n".join(f"- :{name}: {_meaning(name)}" for name in placeholder_names(request))


def placeholder_names(request: LocalRequest) -> tuple[str, ...]:
    """The placeholders of a request without colons."""
    return tuple(name.removeprefix(":") for name in request.placeholders)


def _meaning(name: str) -> str:
    if found := _NAME.match(name):
        return f"the value of output column {found[2]} of earlier result {found[1]}"
    return "a value of an earlier result"


def public_error(handle: DatabaseHandle, message: str) -> str:
    """`message` with the file and database names replaced by the public id.

    A database name that the schema shows anyway, as a table or column, is left alone: cutting it out of a message about
    that table would hide nothing and mislead.
    """
    location = PurePath(handle.location)
    names = {handle.location: handle.database_id, str(location.parent): handle.database_id}
    for name in {location.name, location.stem}:
        if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", handle.schema_text, re.IGNORECASE):
            names[name] = handle.database_id
    return scrub(message, names)
