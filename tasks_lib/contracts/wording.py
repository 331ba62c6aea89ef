"""PRIVATE. Contract to request text by templates: deterministic, varied by the release's key, no model.

Belongs here: choosing and filling a template of `templates/<behavior>.yaml`. Does not belong here: turning questions into
phrases (`phrases`), judging the result (`gates`). Wording never changes a contract.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from tasks_lib.contracts.contract import Candidate
from tasks_lib.contracts.phrases import clause
from tasks_lib.contracts.pool import Pool
from tasks_lib.contracts.sequential import described
from tasks_lib.protocol.vocabulary import Behavior

TEMPLATES = Path(__file__).parent / "templates"
_ASKS = re.compile(
    r"^(?:for|in|on|at|to|from|of|by|with|under|among)?\b.*?\b(?:what|which|who|whose|whom|how|where|when|why)\b",
    re.IGNORECASE,
)
_OPENS = re.compile(r"^(?:is|are|was|were|do|does|did|has|have|can|could)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Wording:
    """A request text. `template`: `<behavior>/<style>/<kind>/<number>#<attempt>`. `contributions`: (unit id, the words of the
    request that stand for that unit). `renderer`: `template`, or the name of the backend that wrote it."""

    request: str
    template: str
    contributions: tuple[tuple[str, str], ...] = ()
    renderer: str = "template"


@cache
def templates(behavior: Behavior) -> tuple[tuple[str, str], ...]:
    """(kind, text) of every template of a behavior. Kinds: `clauses` need every question as a clause, `sentences` do not."""
    found = yaml.safe_load((TEMPLATES / f"{behavior.value}.yaml").read_text("utf-8"))
    return tuple((kind, text) for kind in ("clauses", "sentences") for text in found.get(kind, []))


def tidy(question: str) -> str:
    """A question as a clean sentence: single spaces, capital first, one end mark."""
    text = re.sub(r"\s+([,.?!;:])", r"\1", " ".join(question.split()))
    text = text.rstrip(" .?!") if re.search(r"[.?!\s]$", text) else text
    last = re.split(r"(?<=[.?!])\s+", text)[-1]
    asks = _OPENS.match(last) or (
        _ASKS.match(last) and not re.match(r"^(?:find|show|list|give|return|tell|count)\b", last, re.I)
    )
    return text[0].upper() + text[1:] + ("?" if asks else ".")


def listed(clauses: Sequence[str]) -> str:
    """Clauses as one list: "a and b", "a, b and c"; semicolons where a clause has commas of its own."""
    if len(clauses) == 1:
        return clauses[0]
    if any("," in item or " and " in item for item in clauses):
        return "; ".join(clauses[:-1]) + "; and " + clauses[-1]
    return ", ".join(clauses[:-1]) + " and " + clauses[-1]


def word(candidate: Candidate, pool: Pool, attempt: int = 0, style: str = "plain") -> Wording | None:
    """The request of a candidate, or None when no template fits. Another `attempt` gives another template.

    `style`: `plain`, or `neutral` (templates that tell little of the behavior).
    """
    questions = [unit.question for unit in candidate.units]
    if candidate.behavior is Behavior.INTERACTIVE:
        questions = questions[:1]
    if candidate.behavior is Behavior.SEQUENTIAL:
        filled = described(candidate.units, candidate.bindings)
        if filled is None:
            return None
        questions = [filled]
        clauses = [described(candidate.units, candidate.bindings, as_clause=True)]
    else:
        clauses = [clause(question) for question in questions]
    sure = [item for item in clauses if item is not None]
    usable = [
        (number, kind, text)
        for number, (kind, text) in enumerate(templates(candidate.behavior))
        if kind == "sentences" or len(sure) == len(questions)
    ]
    if not usable:
        return None
    # Clauses make the better requests: where they are possible, sentences are used one time in three.
    preferred = [item for item in usable if item[1] == "clauses"]
    draw = pool.number(f"template {candidate.candidate_id}")
    options = preferred if preferred and draw % 3 else usable
    number, kind, text = options[(draw // 3 + attempt) % len(options)]
    request = text.format(
        list=listed(sure) if sure else "",
        questions=" ".join(tidy(question) for question in questions),
        theme=candidate.theme,
    )
    return Wording(request[0].upper() + request[1:], f"{candidate.behavior.value}/{kind}/{number}#{attempt}")
