"""The one SQL statement in a model's reply, or the kind of failure it is (PROTOCOL 10, 12; paper F.5).

Belongs here: reading replies of SQL prompts. Does not belong here: whether the SQL is allowed (`sql.guard`) or right.
Every doubtful reply fails closed: nothing is guessed, joined or repaired.

The rules:
1. A reply that was cut off, empty or refused, or did not fit the context, has no SQL, whatever text it carries.
2. Reasoning never counts (`models.replies.strip_reasoning`); a tag inside an SQL string is data.
3. A code block opens with three or more backticks at the start of a line, with an optional language word, and closes
   with as many at the start or the end of a line. A block that never closes fails the reply.
4. Spider and BIRD: blocks tagged sql, sqlite, sqlite3, postgresql or postgres are SQL; untagged ones are only when there
   is no tagged one; others are ignored. Exactly one distinct SQL text must remain. LiveSQLBench: exactly one block tagged
   postgresql, as its prompt demands; others are ignored.
5. Seeded prompts end in the word SELECT. A reply without any block is then the bare continuation: SELECT is put before
   it, once, unless it already begins with SELECT, WITH or VALUES.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tasks_lib.models.chat import ChatReply
from tasks_lib.models.replies import strip_reasoning
from tasks_lib.protocol.vocabulary import CallOutcome, Corpus, VerdictKind

FAILED_GENERATION: dict[CallOutcome, VerdictKind] = {
    CallOutcome.TRUNCATED: VerdictKind.GENERATION_TRUNCATED,
    CallOutcome.EMPTY: VerdictKind.GENERATION_EMPTY,
    CallOutcome.MODEL_REFUSED: VerdictKind.MODEL_REFUSED,
    CallOutcome.CONTEXT_OVERFLOW: VerdictKind.CONTEXT_OVERFLOW,
}
"""What a failed generation counts as where SQL was due."""

_FENCE = re.compile(r"^[ \t]*(`{3,})[ \t]*([A-Za-z0-9_+-]*)", re.MULTILINE)
_SQL_WORDS = frozenset({"sql", "sqlite", "sqlite3", "postgresql", "postgres"})
_COMPLETE = re.compile(r"(?:select|with|values)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Extraction:
    """`sql` as written, without outer blanks and final semicolons; or None with a `kind` and a `reason`."""

    sql: str | None
    kind: VerdictKind | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Block:
    language: str
    text: str


class _Unterminated(Exception):
    """A code block was opened and never closed."""


def extract(family: Corpus, reply: ChatReply, seeded: bool) -> Extraction:
    """Read the SQL of a reply by the rules above. `seeded`: the prompt ended in the word SELECT.

    Raises:
        ValueError: the outcome is a transient failure, which is no reply and must not get here.
    """
    if failure := failed_generation(reply):
        return failure
    answer = strip_reasoning(reply.text)
    if not answer:
        return Extraction(None, VerdictKind.MISSING_SQL, "The reply holds reasoning only; the answer was never given.")
    try:
        blocks = _blocks(answer)
    except _Unterminated:
        return Extraction(None, VerdictKind.MISSING_SQL, "unterminated_block: a code block of the reply never closes.")
    if family is Corpus.LIVESQLBENCH:
        return _exactly_one_block(blocks)
    if not blocks and seeded:
        bare = _stripped(answer)
        return Extraction(bare if _COMPLETE.match(bare) else f"SELECT {bare}")
    return _one_distinct(blocks)


def failed_generation(reply: ChatReply) -> Extraction | None:
    """The failure of a reply that is no answer (rule 1), or None when its text may be read."""
    if reply.outcome in FAILED_GENERATION:
        kind = FAILED_GENERATION[reply.outcome]
        return Extraction(None, kind, f"The generation ended as {reply.outcome}; its text is not read.")
    if reply.outcome is not CallOutcome.OK:
        raise ValueError(
            f"A reply has outcome {reply.outcome}, expected a stored one; transient failures raise in the client."
        )
    if reply.finish_reason in ("length", "content_filter"):
        reason = f"The generation stopped for {reply.finish_reason}; its text is not read."
        return Extraction(None, VerdictKind.GENERATION_TRUNCATED, reason)
    if not reply.text.strip() and not reply.tool_calls:
        return Extraction(None, VerdictKind.GENERATION_EMPTY, "The reply has no content.")
    return None


def _blocks(text: str) -> list[_Block]:
    """Code blocks in order (rule 3). Raises _Unterminated."""
    found: list[_Block] = []
    position = 0
    while opening := _FENCE.search(text, position):
        closing = re.compile(rf"{opening[1]}`*[ \t]*$", re.MULTILINE).search(text, opening.end())
        if closing is None:
            raise _Unterminated
        found.append(_Block(opening[2].lower(), _stripped(text[opening.end() : closing.start()])))
        position = closing.end()
    return found


def _exactly_one_block(blocks: list[_Block]) -> Extraction:
    texts = [block.text for block in blocks if block.language == "postgresql"]
    if len(texts) > 1:
        reason = f"The reply has {len(texts)} postgresql blocks; the prompt demands exactly one."
        return Extraction(None, VerdictKind.AMBIGUOUS_SQL, reason)
    return _found(texts, "The reply has no postgresql block.")


def _one_distinct(blocks: list[_Block]) -> Extraction:
    tagged = [block.text for block in blocks if block.language in _SQL_WORDS]
    texts = tagged or [block.text for block in blocks if not block.language]
    distinct = list(dict.fromkeys(texts))
    if len(distinct) > 1:
        reason = f"The reply has {len(distinct)} different SQL blocks; exactly one is allowed."
        return Extraction(None, VerdictKind.AMBIGUOUS_SQL, reason)
    return _found(distinct, "The reply has no SQL block.")


def _found(texts: list[str], missing: str) -> Extraction:
    if not texts or not texts[0]:
        return Extraction(None, VerdictKind.MISSING_SQL, missing if not texts else "The SQL block is empty.")
    return Extraction(texts[0])


def _stripped(text: str) -> str:
    return text.strip().rstrip(";").rstrip()
