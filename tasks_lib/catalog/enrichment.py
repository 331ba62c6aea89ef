"""PRIVATE. A paragraph about each database by a language model, added to its semantic card. Off unless a backend is named.

The model sees public rows of the catalog and nothing else. What it writes is one more piece of the database's card, for search by
meaning; no other text of the catalog changes, and the provenance of the database says who wrote. A reply that fails the checks is
asked for anew; a database without an accepted paragraph keeps the card it has, and is told. Calls go through the ledger, so a build
over the same ledger writes alike and costs nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks_lib.catalog.wording import Hider
from tasks_lib.models import templates
from tasks_lib.models.chat import BackendMisconfigured, ChatModel, ChatRequest, Message
from tasks_lib.models.embeddings import chunks, embed
from tasks_lib.protocol.records import CallContext
from tasks_lib.protocol.vocabulary import Audience, CallOutcome
from tasks_lib.store.schemas import CAT_CAPABILITIES, CAT_CARDS, CAT_DATABASES, CAT_TABLES, TABLES

Rows = dict[str, list[dict[str, Any]]]

MOST = 900
"""Characters of a paragraph: it fits one pass of MiniLM as a rule."""
ATTEMPTS = 3
FACTS = 12_000
"""Characters of facts shown for one database; tables come before capabilities."""
LAYER = "enrichment"

_PROMPT = Path(__file__).parent / "prompts" / "database_paragraph@1.md.j2"
_ID = re.compile(r"\b(?:db|tb|col|cap|ent|rel|ev)_[0-9a-f]{12}\b")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


async def enrich(rows: Rows, model: ChatModel, names: Sequence[str]) -> dict[str, str]:
    """Add a written paragraph to the card of every database of `rows` in place; database id -> why, of those without one.

    names: physical names of all databases, which no paragraph may hold.

    Raises:
        BackendMisconfigured: the model is an offline policy. ProviderUnavailable: from the model; `rows` is then as it was.
    """
    if model.spec.offline:
        raise BackendMisconfigured(
            f"--enrich names {model.spec.name}, the offline policy {model.spec.model}, expected a language model; "
            "name one, or leave it out."
        )
    hide = Hider(names)
    shown = facts(rows)
    written = await asyncio.gather(*(_paragraph(model, shown[name], hide) for name in sorted(shown)))
    accepted = {name: text for name, (text, _) in zip(sorted(shown), written, strict=True) if text}
    _add(rows, accepted, model.spec.name)
    return {name: why for name, (text, why) in zip(sorted(shown), written, strict=True) if not text}


def facts(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, str]:
    """Database id -> its public facts as lines: summary, tables in order, capabilities in order of their ids."""
    found = {row["database_id"]: [str(row["summary"])] for row in rows[CAT_DATABASES.name]}
    for row in sorted(rows[CAT_TABLES.name], key=lambda r: (r["database_id"], r["ordinal"])):
        found[row["database_id"]].append(str(row["summary"]))
    for row in sorted(rows[CAT_CAPABILITIES.name], key=lambda r: (r["database_id"], r["capability_id"])):
        found[row["database_id"]].append(str(row["text"]))
    return {name: "\n".join(lines)[:FACTS].rpartition("\n")[0] or lines[0] for name, lines in found.items()}


def fault(text: str, known: str, hide: Hider) -> str:
    """Why a paragraph is not accepted, as a sentence to the model; empty when it is."""
    if not text or "\n" in text:
        return "It is empty or has several lines; one paragraph was expected."
    if len(text) > MOST:
        return f"It has {len(text)} characters, at most {MOST} were expected."
    if hide(text) != text or _ID.search(text):
        return "It holds an identifier of a database or of the catalog; none was expected."
    numbers = set(_NUMBER.findall(known))
    invented = next((n for n in _NUMBER.findall(text) if n not in numbers), "")
    return f"It holds the number {invented}, which is not among the facts." if invented else ""


async def _paragraph(model: ChatModel, known: str, hide: Hider) -> tuple[str, str]:
    """(accepted paragraph or "", why the last one was not)."""
    problem = ""
    for attempt in range(ATTEMPTS):
        prompt = templates.render(_PROMPT, facts=known, most=MOST, problem=problem, attempt=attempt)
        request = ChatRequest((Message("user", prompt.text),), templates=(prompt.digest,))
        reply = await model.chat(request, CallContext(Audience.DIAGNOSTIC, LAYER))
        text = reply.text.strip() if reply.outcome is CallOutcome.OK else ""
        problem = fault(text, known, hide)
        if not problem:
            return text, ""
    return "", problem


def _add(rows: Rows, accepted: Mapping[str, str], writer: str) -> None:
    cards = rows[CAT_CARDS.name]
    pieces = [(name, piece) for name, text in accepted.items() for piece in chunks(text)]
    vectors = embed([piece for _, piece in pieces])
    place = {name: sum(card["object_id"] == name for card in cards) for name in accepted}
    for (name, piece), vector in zip(pieces, vectors, strict=True):
        chunk = {"object_id": name, "database_id": name, "chunk": place[name], "text": piece}
        cards.append({**chunk, "vector": vector.tolist()})
        place[name] += 1
    cards.sort(key=lambda card: tuple(card[key] for key in TABLES[CAT_CARDS.name].key))
    for row in rows[CAT_DATABASES.name]:
        if row["database_id"] in accepted:
            row["provenance"] += (
                f"; the last paragraph of its card is written by {writer} from the facts of this catalog"
            )
