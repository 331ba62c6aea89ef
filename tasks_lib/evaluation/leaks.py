"""PRIVATE. The leak scanner (DESIGN, public and private; known fault K01): every byte shown to a model, by audience.

Routers see no physical name, path, gold or label; executors see their own database's schema but no gold of it; the judge sees
the slot; diagnostics send nothing. The scan works on tokens, and words of ordinary requests never count: a database name is
flagged only as an identifier (with an underscore or digit, or qualified, or as a file), unless the public catalog itself shows
that word as a table or column name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tasks_lib.models.transcripts import KIND, message_of
from tasks_lib.protocol.vocabulary import Audience
from tasks_lib.store.ledgers import Ledger

_PATHS = re.compile(r"\.sqlite\b|_full\.sql\b|/(?:database|dev_databases|train_databases|dumps)/", re.IGNORECASE)
_LABELS = re.compile(
    r"\bgold\s*[=:]|\bgold[_ ](?:sql|query|source|database|route|answer|label|set)s?\b|\bbehaviou?r\s*[=:]\s*\w+|"
    r"\b(?:source_unit|unit_id|result_digest|branch_id|branch_weight)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Za-z0-9_]+")
MINIMUM_SQL = 40
"""Gold text shorter than this (normalised characters) is too ordinary to tell a leak from a coincidence."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One leak: what was found, of which kind, in which text. `excerpt`: at most 80 characters around it."""

    kind: str
    found: str
    excerpt: str
    audience: str


def squeezed(sql: str) -> str:
    """SQL text in lower case without layout: what "the same query" means to the scan."""
    return " ".join(sql.lower().split()).rstrip("; ")


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
        self._units = set(gold)
        owners: dict[str, set[str]] = {}
        for sql, owner in gold.values():
            text = squeezed(sql)
            if len(text) >= MINIMUM_SQL:
                owners.setdefault(text, set()).add(owner)
        self._gold = owners
        self._schemas = {d: s for d, s in (schemas or {}).items() if s}
        words = {w.lower() for s in self._schemas.values() for w in _WORD.findall(s)}
        # Some databases are named like a table. An executor sees schemas, where that word is the table.
        self._tables = names & words

    def scan(self, text: str, audience: Audience) -> list[Finding]:
        """Findings in one text shown to `audience`; [] when clean. Diagnostics are exempt."""
        if audience is Audience.DIAGNOSTIC:
            return []
        found = [self._finding("path", m.group(), text, m.start(), audience) for m in _PATHS.finditer(text)]
        found += [self._finding("label", m.group(), text, m.start(), audience) for m in _LABELS.finditer(text)]
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
        for m in re.finditer(r"\b(?:spider|bird|livesqlbench):[\w.:-]+", text):
            if m.group().rstrip(".:-") in self._units:
                found.append(self._finding("unit_id", m.group(), text, m.start(), audience))
        return found + self._gold_sql(text, audience)

    def _gold_sql(self, text: str, audience: Audience) -> list[Finding]:
        flat = squeezed(text)
        if "select" not in flat:
            return []
        mine = {d for d, schema in self._schemas.items() if schema in text} if audience is Audience.EXECUTOR else set()
        found = []
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
        """Scan every message and tool schema of the given model calls, each distinct text once per audience.

        What the model itself wrote (assistant turns) is not scanned: it is shown to the model only because it wrote it.
        """
        wanted: set[tuple[str, str]] = set()
        for entry in ledger.get_many(keys).values():
            if entry.kind != KIND:
                continue
            request = json.loads(entry.payload)["request"]
            audience = entry.meta["audience"]
            wanted |= {(audience, name) for name in request["messages"]}
            if request["tools"]:
                wanted.add((audience, request["tools"]))
        contents = ledger.blobs_of({name for _, name in wanted})
        found = []
        for audience, name in sorted(wanted):
            data = json.loads(contents[name])
            if isinstance(data, dict):
                message = message_of(contents[name])
                if message.role == "assistant":
                    continue
                text = message.content
            else:
                text = json.dumps(data)
            found += self.scan(text, Audience(audience))
        return found
