"""PRIVATE. Contract to request text by templates: deterministic, varied by the release's key, no model.

Belongs here: choosing and filling a template of `templates/<behavior>.yaml` (style `plain`) or `templates/neutral.yaml`. Does not belong here: turning questions into
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
from tasks_lib.contracts.facts import Shape
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
def templates(behavior: Behavior, style: str = "plain") -> tuple[tuple[str, str], ...]:
    """(kind, text) of every template of a behavior. `neutral` style: the same frames for every behavior.

    Kinds: `sentences` hold any questions; `clauses` need every question as a clause; `number`, `leader` and `table` do too and
    belong to answers of that shape (`facts.Shape`).
    """
    name = "neutral" if style == "neutral" else behavior.value
    found: dict[str, list[str]] = yaml.safe_load((TEMPLATES / f"{name}.yaml").read_text("utf-8"))
    return tuple((kind, text) for kind, texts in found.items() for text in texts)


def tidy(question: str) -> str:
    """A question as a clean sentence: single spaces, capital first, one end mark."""
    text = re.sub(r"\s+([,.?!;:])", r"\1", " ".join(question.split()))
    text = text.rstrip(" .?!") if re.search(r"[.?!\s]$", text) else text
    last = re.split(r"(?<=[.?!])\s+", text)[-1]
    asks = _OPENS.match(last) or (
        _ASKS.match(last)
        and not re.match(
            r"^(?:find|show|list|give|return|tell|count|leave|ignore|write|order|sort|keep|rank|put|include|name|provide)\b",
            last,
            re.I,
        )
    )
    return text[0].upper() + text[1:] + ("?" if asks else ".")


def listed(clauses: Sequence[str]) -> str:
    """Clauses as one list: "a and b", "a, b and c"; semicolons where a clause has commas or an "and" of its own."""
    if len(clauses) == 1:
        return clauses[0]
    if len(clauses) == 2 and not any("," in item for item in clauses) and any(" and " in item for item in clauses):
        return f"{clauses[0]}, and {clauses[1]}"
    if any("," in item or " and " in item for item in clauses):
        return "; ".join(clauses[:-1]) + "; and " + clauses[-1]
    return ", ".join(clauses[:-1]) + " and " + clauses[-1]


def word(candidate: Candidate, pool: Pool, attempt: int = 0, style: str = "plain") -> Wording | None:
    """The request of a candidate, or None when no template fits. Another `attempt` gives another template.

    `style`: `plain`, or `neutral` (templates that tell little of the behavior).
    """
    clauses, questions = _said(candidate, pool)
    if not questions:
        return None
    sure = [item for item in clauses if item is not None]
    kinds = {"sentences"}
    if len(sure) == len(questions):
        kinds.add(_shape(candidate, pool) if style == "plain" else "clauses")
    usable = [(n, kind, text) for n, (kind, text) in enumerate(templates(candidate.behavior, style)) if kind in kinds]
    # Clauses make the better requests: sentences stand where there are none, but one time in three for a lone question.
    preferred = [item for item in usable if item[1] != "sentences"]
    draw = pool.number(f"template {candidate.candidate_id}")
    options = preferred if preferred and (draw % 3 or len(questions) > 1) else usable
    if not options:
        return None
    number, kind, text = options[(draw // 3 + attempt) % len(options)]
    request = text.format(
        list=listed(sure) if sure else "", questions=" ".join(map(tidy, questions)), theme=candidate.theme
    )
    request = request[0].upper() + request[1:]
    said = map(tidy, questions) if kind == "sentences" else sure
    name = f"{candidate.behavior.value}/{style}/{kind}/{number}#{attempt}"
    return Wording(request, name, _contributions(candidate, request, list(said)))


def _shape(candidate: Candidate, pool: Pool) -> str:
    """The kind of templates for clauses: that of the one shape of all answers of a parallel task, else `clauses`."""
    shapes = {pool.fact(unit).shape for unit in candidate.units} if candidate.behavior is Behavior.PARALLEL else set()
    return shapes.pop().value if len(shapes) == 1 and Shape.LISTING not in shapes else "clauses"


def _said(candidate: Candidate, pool: Pool) -> tuple[list[str | None], list[str]]:
    """What is asked as clauses (None where no rule is sure) and as sentences; ([], []) when it cannot be said."""
    if candidate.behavior is Behavior.SEQUENTIAL:
        filled = described(candidate.units, candidate.bindings)
        return ([described(candidate.units, candidate.bindings, as_clause=True)], [filled]) if filled else ([], [])
    if candidate.behavior is Behavior.INTERACTIVE:
        shared = candidate.shared_question or candidate.units[0].question
        return [clause(shared)], [shared]
    return [pool.clause(unit) for unit in candidate.units], [unit.question for unit in candidate.units]


def _contributions(candidate: Candidate, request: str, said: list[str]) -> tuple[tuple[str, str], ...]:
    """Each unit with the words of the request that stand for it; units that share one question share its words."""
    shown = [words if words in request else words[0].upper() + words[1:] for words in said]
    aligned = shown if len(shown) == len(candidate.units) else shown[:1] * len(candidate.units)
    return tuple(zip(candidate.unit_ids, aligned, strict=True))
