"""Where the words, strings, names and comments of an SQL text begin and end, in the lexical rules of the engine.

Belongs here: one linear scan over the text as written, for the few jobs that must not touch it otherwise (cutting the
empty end off, finding named bindings). Does not belong here: any judgement of what a statement may do; `guard` reads
the syntax tree for that, and the engines have the last word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from tasks_lib.protocol.vocabulary import Engine


class TokenKind(Enum):
    """What a stretch of SQL text is."""

    SPACE = "space"
    COMMENT = "comment"
    STRING = "string"
    NAME = "name"  # quoted identifier
    WORD = "word"  # keyword or bare identifier
    NUMBER = "number"
    BINDING = "binding"  # :name
    SEMICOLON = "semicolon"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Token:
    """One stretch of the text, `text[start:end]`; `closed` is False for a string or comment that is not ended."""

    kind: TokenKind
    start: int
    end: int
    closed: bool = True


_SPACE = re.compile(r"[\s\ufeff]+")
_WORD = re.compile(r"[^\W\d][\w$]*")
# A number takes the letters glued to it (1e5, 0x1f, 12abc), so that no word begins inside it.
_NUMBER = re.compile(r"(?:\d[\w]*\.?[\w]*|\.\d[\w]*)(?:(?<=[eE])[+-]\d+)?")
_LINE_COMMENT = re.compile(r"--[^\n]*")
_POSTGRES_LINE_COMMENT = re.compile(r"--[^\n\r]*")
_DOLLAR = re.compile(r"\$(?:[^\W\d]\w*)?\$")
_BINDING = re.compile(r":[^\W\d]\w*")


def tokens(engine: Engine, sql: str) -> Iterator[Token]:
    """Yield the tokens of `sql` in order; together they cover it without a gap. Linear in the length."""
    at, brackets = 0, 0
    while at < len(sql):
        token = _next(engine, sql, at, brackets)
        if token.kind is TokenKind.OTHER and engine is Engine.POSTGRES:
            brackets += {"[": 1, "]": -1}.get(sql[token.start], 0)
        yield token
        at = token.end


def _next(engine: Engine, sql: str, at: int, brackets: int) -> Token:
    postgres = engine is Engine.POSTGRES
    char = sql[at]
    if match := _SPACE.match(sql, at):
        return Token(TokenKind.SPACE, at, match.end())
    if match := (_POSTGRES_LINE_COMMENT if postgres else _LINE_COMMENT).match(sql, at):
        return Token(TokenKind.COMMENT, at, match.end())
    if sql.startswith("/*", at):
        return _block_comment(sql, at, nested=postgres)
    if char == "'":
        return _quoted(TokenKind.STRING, sql, at, at, "'", backslash=False)
    if char == '"' or (char == "`" and not postgres):
        return _quoted(TokenKind.NAME, sql, at, at, char, backslash=False)
    if char == "[" and not postgres:  # SQLite also quotes names as [name]
        end = sql.find("]", at)
        return Token(TokenKind.NAME, at, len(sql) if end < 0 else end + 1, closed=end >= 0)
    if postgres and char == "$" and (match := _DOLLAR.match(sql, at)):
        end = sql.find(match.group(), match.end())
        return Token(TokenKind.STRING, at, len(sql) if end < 0 else end + len(match.group()), closed=end >= 0)
    if postgres and sql[at : at + 2] in ("e'", "E'"):
        return _quoted(TokenKind.STRING, sql, at, at + 1, "'", backslash=True)
    if match := _NUMBER.match(sql, at):
        return Token(TokenKind.NUMBER, at, match.end())
    if match := _WORD.match(sql, at):
        return Token(TokenKind.WORD, at, match.end())
    if char == ";":
        return Token(TokenKind.SEMICOLON, at, at + 1)
    if sql.startswith("::", at) or sql.startswith(":=", at):
        return Token(TokenKind.OTHER, at, at + 2)
    # In PostgreSQL a colon inside square brackets is an array slice: a[lo:hi].
    if char == ":" and not brackets and (match := _BINDING.match(sql, at)):
        return Token(TokenKind.BINDING, at, match.end())
    return Token(TokenKind.OTHER, at, at + 1)


def _quoted(kind: TokenKind, sql: str, start: int, opening: int, quote: str, *, backslash: bool) -> Token:
    at = opening + 1
    while at < len(sql):
        if backslash and sql[at] == "\\":
            at += 2
        elif sql[at] != quote:
            at += 1
        elif sql.startswith(quote, at + 1):  # a doubled quote is one quote inside
            at += 2
        else:
            return Token(kind, start, at + 1)
    return Token(kind, start, len(sql), closed=False)


def _block_comment(sql: str, start: int, *, nested: bool) -> Token:
    depth, at = 1, start + 2
    while at < len(sql):
        if sql.startswith("*/", at):
            depth, at = depth - 1, at + 2
            if not depth:
                return Token(TokenKind.COMMENT, start, at)
        elif nested and sql.startswith("/*", at):
            depth, at = depth + 1, at + 2
        else:
            at += 1
    return Token(TokenKind.COMMENT, start, len(sql), closed=False)


@lru_cache(maxsize=16_384)
def trimmed(engine: Engine, sql: str) -> str:
    """Return `sql` without the blanks, comments and semicolons at its end; every other byte stays as written.

    A text that is nothing but blanks, comments and semicolons comes back empty. A text whose last comment is not ended
    is returned unchanged from there on: the engine then says what is wrong with it.
    """
    if not sql or not (_may_hold_comments(sql) or sql[-1] in ";\ufeff" or sql[-1].isspace()):
        return sql
    end = 0
    for token in tokens(engine, sql):
        empty = token.kind in (TokenKind.SPACE, TokenKind.COMMENT, TokenKind.SEMICOLON)
        if not empty or not token.closed:
            end = token.end
    return sql[:end]


def _may_hold_comments(sql: str) -> bool:
    """False when no reading of the text finds a comment: most texts have none, and need not be cut into tokens."""
    return "--" in sql or "/*" in sql


def without_comments(engine: Engine, sql: str) -> str:
    """Return `sql` with a blank (or a line end) in place of each comment, for readers that trip over comments.

    Raises:
        ValueError: a PostgreSQL E'...' string goes on in a literal on a later line, where backslashes count too: where it
            ends cannot be told here.
    """
    if engine is Engine.SQLITE and not _may_hold_comments(sql):
        return sql
    parts, last = [], None
    for token in tokens(engine, sql):
        text = sql[token.start : token.end]
        if token.kind is TokenKind.COMMENT and token.closed:
            text = "\n" if text.startswith("--") else " "
        elif token.kind is TokenKind.STRING:
            if last is not None and text[0] == "'" and sql[last.start] in "eE":
                raise ValueError("An E'...' string goes on on another line; write it as one string.")
            last = token
        elif token.kind is not TokenKind.SPACE:
            last = None
        parts.append(text)
    return "".join(parts)


def deepest_brackets(engine: Engine, sql: str, pair: str = "()") -> int:
    """Return how deep the brackets of `pair` nest in `sql` (outside strings, names and comments)."""
    depth = deepest = 0
    for token in tokens(engine, sql):
        if token.kind is TokenKind.OTHER:
            depth += {pair[0]: 1, pair[1]: -1}.get(sql[token.start], 0)
            deepest = max(deepest, depth)
    return deepest
