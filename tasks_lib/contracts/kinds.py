"""PRIVATE. What kind of thing a column holds, so that a value is passed on only where it means the same.

A kind is a noun ("country", "payment method", "last name") read from a column's name, or from its table's where the column is
a bare name. Does not belong here: whether a value is distinctive (`questions`), how a link is worded (`follow_ups`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import sqlglot
from sqlglot import exp

from tasks_lib.contracts.contract import DIALECTS, Unit
from tasks_lib.contracts.questions import lexicon, plural, stem, table_of_words

_SYNONYMS = {word: kind for kind, listed in table_of_words("kinds").items() for word in (kind, *listed)}
_VAGUE_PLACES = lexicon("vague_places")
_PLACES = lexicon("places")
_PERSONS = lexicon("persons") | lexicon("more_persons")
_WORKS = lexicon("titled_things")
_JOBS = frozenset({"job", "contact", "position"})
_ABBREVIATED = {"nm": "name", "ttl": "title"}
_BARE = frozenset({"name", "title", "code", "description", "details", "label", "full", "short", "value", "text"})
_EMPTY = lexicon("empty_kinds")
_FIRST = frozenset({"first", "fname", "firstname", "forename"})
_LAST = frozenset({"last", "lname", "lastname", "surname"})

Column = tuple[str, str]
"""(table, column) as written."""


@lru_cache(maxsize=16384)
def kind(table: str, column: str) -> str | None:
    """The noun of what a column holds, or None when its name says too little."""
    parts = _words(column)
    joined = "".join(parts)
    if joined in _FIRST or parts[-2:] == ["first", "name"]:
        return "first name"
    if joined in _LAST or parts[-2:] in (["last", "name"], ["family", "name"]):
        return "last name"
    if parts[-1:] == ["title"] and (len(parts) == 1 or parts[-2] not in _JOBS):
        return "title"
    owner = [stem(word) for word in _words(table)]
    named = parts[-1:] == ["title"] or (parts[-1:] == ["name"] and len(parts) == 1)
    while len(parts) > 1 and parts[-1] in _BARE:
        parts.pop()
    noun = [stem(word) for word in parts]
    if noun and noun[-1] in _BARE:
        noun = owner
        named = True
    shortened = bool(noun and owner) and len(parts) < len(_words(column)) and noun[-1] not in _SYNONYMS
    if shortened and len(noun[-1]) > 2 and owner[-1].startswith(noun[-1]):
        noun = owner  # `cand_name` of `candidates`
    if not noun:
        return None
    if (named or len(parts) < len(_words(column))) and noun[-1] in _PERSONS:
        return "name"
    for size in (3, 2, 1):
        found = _SYNONYMS.get(" ".join(noun[-size:]))
        if found is not None:
            return found
    text = " ".join(noun[-2:]) if len(noun) > 1 else noun[-1]
    split = text.split()
    return text if not _EMPTY.issuperset(split) and all(word.isalpha() and len(word) > 2 for word in split) else None


def passed(upstream: str | None, downstream: str | None) -> str | None:
    """The kind as which a value passes from one column to the other: the same noun, or the surer of two words for places."""
    if upstream is None or downstream is None:
        return None
    if upstream == "country" and downstream == "region":  # where regions are countries, a country's name finds one
        return upstream
    if upstream == "headquarter" and downstream != "city":
        return None
    if upstream in _VAGUE_PLACES or downstream in _VAGUE_PLACES:
        return next((name for name in (upstream, downstream) if name in _PLACES), None)
    return upstream if upstream == downstream else None


def nouns(name: str) -> tuple[str, ...]:
    """The words by which questions call a kind, singular and plural."""
    called = [name, *(word for word, found in _SYNONYMS.items() if found == name)]
    return tuple(dict.fromkeys(form for word in called for form in (word, plural(word))))


def asks_for(question: str, name: str) -> bool:
    """Whether a question says that it asks for a thing of the kind, or for a place where the kind is one."""
    found = [stem(word) for word in re.findall(r"[a-z]+", question.lower())]
    first = re.search(r"\b(?:which|what) ([a-z]+)", question.lower())
    asked = _SYNONYMS.get(stem(first[1])) if first else None
    if asked is not None and asked != name:
        return False
    if name in ("title", "name"):
        return not {name, *(_WORKS if name == "title" else _PERSONS | {"who"})}.isdisjoint(found)
    said = " ".join(found)
    vague = _VAGUE_PLACES | {"where", "place"} if name in _PLACES else frozenset[str]()
    return any(re.search(rf"\b{word}\b", said) for word in (*map(stem, nouns(name)), *vague))


@lru_cache(maxsize=4096)
def tree(unit: Unit) -> exp.Expr:
    """The syntax tree of a unit's gold, to read and never to change."""
    return sqlglot.parse_one(unit.sql, read=DIALECTS[unit.corpus])


def compared(unit: Unit, value: str) -> tuple[Column, ...]:
    """The columns that a unit's gold compares with `value`, or () when it uses `value` in any other way."""
    found: list[Column] = []
    for node in tree(unit).find_all(exp.Literal, exp.Column):
        if not _says(node, value):
            continue
        parent = node.parent
        if isinstance(parent, exp.EQ | exp.NEQ):
            other = parent.left if parent.right is node else parent.right
        elif isinstance(parent, exp.In) and parent.this is not node:
            other = parent.this
        else:
            return ()
        column = owner(unit, other)
        if column is None:
            return ()
        found.append(column)
    return tuple(found)


def _says(node: exp.Expr, value: str) -> bool:
    if isinstance(node, exp.Column):  # SQLite reads a double-quoted word that is no column as a string
        return bool(node.this.args.get("quoted")) and not node.table and node.name == value
    return isinstance(node, exp.Literal) and node.this == value


def owner(unit: Unit, node: exp.Expr) -> Column | None:
    """(table, column) as written that an expression reads, or None when it is no plain column."""
    if not isinstance(node, exp.Column):
        return None
    for select in _selects(node):
        sources = {table.alias_or_name.lower(): table.name for table in _tables(select)}
        if node.table:
            if node.table.lower() in sources:
                return sources[node.table.lower()], node.name
            continue
        owners = {ref.rsplit(".", 1)[0] for ref in unit.columns if ref.endswith(f".{node.name.lower()}")}
        table = next((name for name in sources.values() if name.lower() in owners), None)
        if table is None and len(sources) == 1:
            table = next(iter(sources.values()))
        if table is not None:
            return table, node.name
    return None


def _selects(node: exp.Expr) -> Iterator[exp.Select]:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, exp.Select):
            yield node


def _tables(select: exp.Select) -> list[exp.Table]:
    return [table for table in select.find_all(exp.Table) if table.parent_select is select]


def _words(name: str) -> list[str]:
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").replace("-", " ").lower()
    return [_ABBREVIATED.get(word, word) for word in re.findall(r"[a-z]{2,}", split)]
