"""PRIVATE. The leak scanner (DESIGN, public and private; known fault K01): every byte shown to a model, by audience.

Routers see no physical name, path, gold or label; executors see their own database's schema but no gold of it; the judge sees
the slot; diagnostics send nothing. The scan works on tokens, and words of ordinary requests never count: a database name is
flagged only as an identifier (with an underscore or digit, or qualified, or as a file), unless the public catalog itself shows
that word as a table or column name.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tasks_lib.models.transcripts import KIND, message_of
from tasks_lib.protocol.vocabulary import Audience
from tasks_lib.store.ledgers import Ledger

_PATHS = re.compile(
    r"\.sqlite\b|_full\.sql\b|[/\\\\](?:database|dev_databases|train_databases|dumps)[/\\\\]", re.IGNORECASE
)
_LABELS = re.compile(
    r"\b(?:is_)?gold[\"']?\s*[=:]|\bgold[_ ](?:sql|query|source|database|route|answer|label|set)s?\b|"
    r"\bbehaviou?r[\"']?\s*[=:]\s*[\"']?\w+|\brequired[_ ]databases[\"']?\s*[=:]|"
    r"\b(?:source_unit|unit_ids?|result_digest|branch_id|branch_weight|required_databases|is_gold)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Za-z0-9_]+")
_COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\r": "\r", '\\"': '"', "\\'": "'", "\\/": "/", "\\u0027": "'", "\\u0022": '"'}
MINIMUM_SQL = 30
"""Gold text shorter than this (characters that count) is too ordinary to tell a leak from a coincidence."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One leak: what was found, of which kind, in which text. `excerpt`: at most 80 characters around it."""

    kind: str
    found: str
    excerpt: str
    audience: str


def plain(text: str) -> str:
    """The text as a reader takes it: JSON and HTML escapes undone."""
    if "\\" in text:
        for escape, character in _ESCAPES.items():
            text = text.replace(escape, character)
    return html.unescape(text) if "&" in text else text


def squeezed(sql: str) -> str:
    """SQL text in lower case without layout and quote marks: what "the same query" means to the scan."""
    return re.sub(r"[\s'\"`;]+", "", sql.lower())


class Scanner:
    """Scans texts for what their audience may not see.

    `databases`: physical names. `shown`: lower-case words the public catalog itself shows (tables, columns). `gold`: gold SQL by
    unit id with the physical database that owns it. `schemas`: schema text by physical database.
    """

    def __init__(
        self,
        databases: Iterable[str],
        shown: Iterable[str],
        gold: Mapping[str, tuple[str, str]],
        schemas: Mapping[str, str] | None = None,
    ) -> None:
        public = {w.lower() for w in shown}
        names = {d.lower() for d in databases}
        self._identifiers = {n for n in names if re.search(r"[_0-9]", n)} - public
        self._qualified = (
            re.compile(
                r"(?<![\w.])("
                + "|".join(sorted(map(re.escape, names - public), key=len, reverse=True))
                + r")\.[A-Za-z_]\w*",
                re.IGNORECASE,
            )
            if names - public
            else None
        )
        self._units = {unit.lower() for unit in gold}
        owners: dict[str, set[str]] = {}
        for sql, owner in gold.values():
            text = squeezed(_COMMENT.sub(" ", sql))
            if len(text) >= MINIMUM_SQL:
                owners.setdefault(text, set()).add(owner)
        self._gold = owners
        self._schemas = {d: s for d, s in (schemas or {}).items() if s}
        self._public = public
        self._words = words = {w.lower() for s in self._schemas.values() for w in _WORD.findall(s)}
        # Some databases are named like a table. An executor sees schemas, where that word is the table.
        self._tables = names & words

    def scan(self, text: str, audience: Audience, mine: Iterable[str] | None = None) -> list[Finding]:
        """Findings in one text shown to `audience`; [] when clean. Diagnostics are exempt.

        `mine`: the databases whose executor reads the text (default: those whose schema stands in it).
        """
        if audience is Audience.DIAGNOSTIC:
            return []
        text = plain(text)
        found = [self._finding("path", m.group(), text, m.start(), audience) for m in _PATHS.finditer(text)]
        columns = self._public | (self._words if audience is Audience.EXECUTOR else set())
        found += [
            self._finding("label", m.group(), text, m.start(), audience)
            for m in _LABELS.finditer(text)
            if m.group().lower() not in columns  # a branch_id may be a bank's
        ]
        ordinary = self._tables if audience is Audience.EXECUTOR else set()
        identifiers = self._identifiers - ordinary
        for m in _WORD.finditer(text):
            if m.group().lower() in identifiers:
                found.append(self._finding("physical_name", m.group(), text, m.start(), audience))
        if self._qualified is not None:
            found += [
                self._finding("physical_name", m.group(), text, m.start(), audience)
                for m in self._qualified.finditer(text)
                if m.group(1).lower() not in ordinary
            ]
        for m in re.finditer(r"\b(?:spider|bird|livesqlbench)(?::|%3a)[\w.:%-]+", text, re.IGNORECASE):
            if m.group().lower().replace("%3a", ":").rstrip(".:-") in self._units:
                found.append(self._finding("unit_id", m.group(), text, m.start(), audience))
        return found + self._gold_sql(text, audience, self.schemas_in(text) if mine is None else set(mine))

    def schemas_in(self, text: str) -> set[str]:
        """Databases whose schema text stands in a text."""
        return {d for d, schema in self._schemas.items() if schema in text}

    def _gold_sql(self, text: str, audience: Audience, mine: set[str]) -> list[Finding]:
        # Comments may hide in the middle of a query, and two dashes may be prose: both readings are searched.
        readings = {squeezed(text)}
        if "--" in text or "/*" in text:
            readings.add(squeezed(_COMMENT.sub(" ", text)))
        found = []
        for flat in sorted(readings):
            if "select" not in flat:
                continue
            for sql, owners in self._gold.items():
                # An executor may be shown other databases' training queries as examples, never one of its own database.
                if audience is Audience.EXECUTOR and not owners <= mine:
                    continue
                at = flat.find(sql)
                if at >= 0:
                    found.append(self._finding("gold_sql", sql, flat, at, audience))
        return found

    def _finding(self, kind: str, what: str, text: str, at: int, audience: Audience) -> Finding:
        return Finding(kind, what, text[max(0, at - 30) : at + 50], str(audience))

    def scan_calls(self, ledger: Ledger, keys: Iterable[str]) -> list[Finding]:
        """Scan every message and tool schema of the given model calls, each distinct text once per audience and database.

        What the model itself wrote (assistant turns) is not scanned: it is shown to the model only because it wrote it.
        """
        calls = []
        for entry in ledger.get_many(keys).values():
            if entry.kind == KIND:
                request = json.loads(entry.payload)["request"]
                calls.append((entry.meta["audience"], [*request["messages"], *filter(None, [request["tools"]])]))
        contents = {
            name: _shown(data) for name, data in ledger.blobs_of({n for _, names in calls for n in names}).items()
        }
        schemas = {name: frozenset(self.schemas_in(text)) for name, text in contents.items()}
        wanted = set()
        for audience, names in calls:
            mine = frozenset().union(*(schemas[n] for n in names)) if audience == Audience.EXECUTOR else frozenset()
            wanted |= {(audience, name, mine) for name in names if contents[name]}
        found = []
        for audience, name, mine in sorted(wanted, key=lambda w: (w[0], w[1], sorted(w[2]))):
            found += self.scan(contents[name], Audience(audience), mine)
        return found


def _shown(data: bytes) -> str:
    """The text of a stored message or tool list; empty for what the model wrote itself."""
    value = json.loads(data)
    if not isinstance(value, dict):
        return json.dumps(value)
    message = message_of(data)
    return "" if message.role == "assistant" else message.content
