"""Execution order by the wording of a request: whose result the request uses before it names the rest.

Belongs here: `ordered(request, descriptions)`. The rule: a request is cut at words that use an earlier result (`then`, `that
same`, `use`, `based on`, ...). With such a cue the database that fits the part before the cue best goes first and every other
one depends on it; where the cue says `the ... of the ... that`, the later part delivers. Without a cue: input order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tasks_lib.models.offline.words import stems

_FORWARD = re.compile(
    r"\b(?:then|afterwards|next|with that|using that|use that|using it|use it|for that|of that|to that|in that|that same|"
    r"this same|the same|the result|that result|that (?:name|value|city|country|place|person|title|year|code))\b",
    re.IGNORECASE,
)
_BACKWARD = re.compile(
    r"\b(?:whichever|whatever|same as|matches|matching|identical to|named after|that also|which is also|shared with|"
    r"given by|returned by|found in|taken from|based on|according to)\b",
    re.IGNORECASE,
)


def ordered(request: str, descriptions: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """(order, edges) over the ids of `descriptions`; edges only where the wording says that a result is used."""
    names = tuple(descriptions)
    if found := _FORWARD.search(request):
        before, after = request[: found.start()], request[found.start() :]
    elif found := _BACKWARD.search(request):
        before, after = request[found.end() :], request[: found.start()]
    else:
        return names, ()
    lean = {name: _overlap(before, text) - _overlap(after, text) for name, text in descriptions.items()}
    order = tuple(sorted(names, key=lambda name: (-lean[name], names.index(name))))
    return order, tuple((order[0], name) for name in order[1:])


def _overlap(part: str, description: str) -> float:
    words = {word for word in stems(part) if len(word) > 3}
    return len(words & set(stems(description))) / (len(words) ** 0.5 or 1.0)
