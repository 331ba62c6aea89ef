"""The generic data agent: one call, one prompt per corpus (PROTOCOL 10; paper F.5, Table 22).

Belongs here: the call. Does not belong here: trial runs, examples, corrections (`adapter`, `tool_agent`).
"""

from __future__ import annotations

from tasks_lib.execution.drafts import SqlDraft
from tasks_lib.execution.extraction import extract
from tasks_lib.execution.prompting import PROMPTS, context, knowledge_text, placeholder_lines
from tasks_lib.models.chat import ChatModel, ChatRequest, Message
from tasks_lib.models.templates import render
from tasks_lib.protocol.records import DatabaseHandle, LocalRequest
from tasks_lib.protocol.vocabulary import Corpus

TEMPLATES: dict[Corpus, str] = {
    Corpus.SPIDER: "sql_spider@1.md.j2",
    Corpus.BIRD: "sql_bird@1.md.j2",
    Corpus.LIVESQLBENCH: "sql_livesqlbench@1.md.j2",
}
SEEDED = frozenset({Corpus.SPIDER, Corpus.BIRD})
"""Corpora whose prompt ends in the word SELECT."""


async def write(request: LocalRequest, handle: DatabaseHandle, evidence: str, model: ChatModel, trial: int) -> SqlDraft:
    """Ask once for the SQL of `request` on the database of `handle`. Nothing is run.

    Raises:
        ProviderUnavailable: from the model; nothing was decided.
    """
    prompt = render(
        PROMPTS / TEMPLATES[handle.corpus],
        schema=handle.schema_text.strip(),
        knowledge=knowledge_text(handle, evidence),
        placeholders=placeholder_lines(request),
        request=request.text,
    )
    reply = await model.chat(ChatRequest((Message("user", prompt.text),), templates=(prompt.digest,)), context(trial))
    found = extract(handle.corpus, reply, seeded=handle.corpus in SEEDED)
    return SqlDraft(found.sql, found.kind, found.reason, (reply.call_key,))
