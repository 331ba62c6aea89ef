"""PRIVATE. The leak scanner (DESIGN, public and private; known fault K01): every byte shown to a model, by audience.

Routers see no physical name, path, gold or label; executors see their own database's schema but no gold of it; the judge sees
the slot; diagnostics send nothing. The scan works on tokens, and words of ordinary requests never count: a database name is
flagged only as an identifier (with an underscore or digit, or qualified, or as a file), unless the public catalog itself shows
that word as a table or column name. The lists are in `lexicon`; what stands in a text is in `readings`. Cost is linear in the
distinct lines and messages shown, whatever the size of the release.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tasks_lib.evaluation.lexicon import (
    DDL,
    GOLD_ID,
    OPENING_BLOCKS,
    PATHS,
    PLACEHOLDERS,
    WATCHED,
    prompt_words,
)
from tasks_lib.evaluation.phrases import Ids, Phrases
from tasks_lib.evaluation.readings import Hit, Lines, Reader, Reading, plain
from tasks_lib.models.transcripts import KIND
from tasks_lib.protocol.vocabulary import Audience
from tasks_lib.store.ledgers import Ledger

BLOCK = 500
"""Stored calls or texts in memory at a time."""
LINES = 200_000
"""Lines that are remembered as read; observations repeat the same rows over and over."""

_WORD = re.compile(r"[A-Za-z0-9_]+")
_QUALIFIED = re.compile(r"(?<![\w.])([\w-]+)\.[A-Za-z_]\w*")
_UNIT = re.compile(r"\b(?:spider|bird|livesqlbench)(?::|%3a)[\w.:%-]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Finding:
    """One leak: what was found, of which kind, in which text. `excerpt`: at most 80 characters around it."""

    kind: str
    found: str
    excerpt: str
    audience: str


@dataclass(frozen=True, slots=True)
class Withheld:
    """What one task must not say: `values` anywhere in a first prompt that holds its `request` (catalog and schema text aside).

    `questions`: original questions of downstream units, which spell a value out; they count in a prompt with placeholders.
    """

    request: str
    values: tuple[str, ...]
    questions: tuple[str, ...] = ()
    audiences: tuple[Audience, ...] = (Audience.ROUTER, Audience.EXECUTOR)


class Scanner:
    """Scans texts for what their audience may not see.

    `databases`: physical names. `shown`: lower-case words the public catalog itself shows (tables, columns). `gold`: gold SQL by
    unit id with the physical database that owns it. `schemas`: schema text by physical database. `withheld`: by task.
    """

    def __init__(
        self,
        databases: Iterable[str],
        shown: Iterable[str],
        gold: Mapping[str, tuple[str, str]],
        schemas: Mapping[str, str] | None = None,
        withheld: Iterable[Withheld] = (),
    ) -> None:
        self._public = public = {w.lower() for w in shown}
        names = {d.lower() for d in databases}
        self._identifiers = {n for n in names if re.search(r"[_0-9]", n)} - public
        self._qualifiers = names - public
        self._units = {unit.lower() for unit in gold}
        self._schemas = {d: s for d, s in (schemas or {}).items() if s}
        self._anchors = _anchor_lines(self._schemas)
        self._words = words = {w.lower() for s in self._schemas.values() for w in _WORD.findall(s)}
        # Some databases are named like a table. An executor sees schemas, where that word is the table.
        self._tables = names & words
        self._withheld = tuple(withheld)
        self._reader = Reader(gold, [w.request for w in self._withheld])
        tokens = self._reader.tokens
        self._questions = Phrases(
            (tokens.ids(question), i) for i, w in enumerate(self._withheld) for question in w.questions
        )
        self._values = [
            Phrases((tokens.ids(value), value) for value in w.values if self._tellable(value)) for w in self._withheld
        ]

    @staticmethod
    def _tellable(value: str) -> bool:
        """Whether finding `value` says anything: it is no number, no short code and no word of our own prompts."""
        words = [w.lower() for w in re.findall(r"\w+", value)]
        return len("".join(words)) >= 4 and not all(w.isdigit() or w in prompt_words() for w in words)

    # ---- one text ----

    def scan(self, text: str, audience: Audience, mine: Iterable[str] | None = None) -> list[Finding]:
        """Findings in one text shown to `audience`; [] when clean. Diagnostics are exempt.

        `mine`: the databases whose executor reads the text (default: those whose schema stands in it).
        """
        read = self._reader.read(text, {})
        owners = self.schemas_in(text) if mine is None else mine
        found = [f for line in read.lines for f in self._in_line(line, audience)]
        return [*found, *self._hits_for(read.hits, audience, frozenset(owners))]

    def schemas_in(self, text: str) -> set[str]:
        """Databases whose schema text stands in a text."""
        near = set(self._anchors.get("", ()))
        for line in text.split("\n") if self._anchors else ():
            near.update(self._anchors.get(line, ()))
        return {d for d in near if self._schemas[d] in text}

    def _in_line(self, line: str, audience: Audience) -> Iterator[Finding]:
        """Paths, names and unit ids, which never run over lines."""
        watched = WATCHED[audience]
        if "path" in watched:
            for m in PATHS.finditer(line):
                yield _finding("path", m.group(), line, m.start(), audience)
        if "label" in watched:
            for m in GOLD_ID.finditer(line):
                yield _finding("label", m.group(), line, m.start(), audience)
        if "ddl" in watched:
            for m in DDL.finditer(line):
                yield _finding("ddl", m.group(), line, m.start(), audience)
        if "physical_name" in watched:
            ordinary = self._tables if audience is Audience.EXECUTOR else set()
            if not self._identifiers.isdisjoint(map(str.lower, _WORD.findall(line))):
                for m in _WORD.finditer(line):
                    if m.group().lower() in self._identifiers - ordinary:
                        yield _finding("physical_name", m.group(), line, m.start(), audience)
            for m in _QUALIFIED.finditer(line):
                if m.group(1).lower() in self._qualifiers and m.group(1).lower() not in ordinary:
                    yield _finding("physical_name", m.group(), line, m.start(), audience)
        if "unit_id" in watched:
            for m in _UNIT.finditer(line):
                if m.group().lower().replace("%3a", ":").rstrip(".:-") in self._units:
                    yield _finding("unit_id", m.group(), line, m.start(), audience)

    def _hits_for(self, hits: Iterable[Hit], audience: Audience, mine: frozenset[str]) -> Iterator[Finding]:
        """Of the labels and gold in a text, what its audience may not see."""
        executor = audience is Audience.EXECUTOR
        for hit in hits:
            if hit.kind not in WATCHED[audience]:
                continue
            if hit.kind == "label":
                # A branch_id may be a bank's, and a schema may count medals: gold.
                head = hit.label.split(" ", 1)[0]
                if (head in self._public and (executor or head == hit.label)) or (executor and head in self._words):
                    continue
            # An executor may be shown other databases' training queries as examples, never one of its own database.
            elif executor and not hit.owners <= mine:
                continue
            yield Finding("label" if hit.kind == "label" else "gold_sql", hit.found, hit.excerpt, str(audience))

    # ---- model calls ----

    def scan_calls(self, ledger: Ledger, keys: Iterable[str]) -> list[Finding]:
        """Scan every message and tool schema of the given model calls, each distinct text and line once per audience.

        What the model itself wrote (assistant turns) is not scanned: it is shown to the model only because it wrote it. Texts are in
        memory a block at a time.
        """
        calls = _distinct_calls(ledger, keys)
        shown: dict[str, set[Audience]] = {}
        for audience, names in calls:
            for name in names:
                shown.setdefault(name, set()).add(audience)
        texts = _Texts()
        found = list(self._lines_of(ledger, shown, texts))
        found.sort(key=lambda f: f.audience)
        return list(dict.fromkeys([*found, *self._hits_of(calls, texts), *self._withheld_of(ledger, calls, texts)]))

    def _lines_of(self, ledger: Ledger, shown: Mapping[str, set[Audience]], texts: _Texts) -> Iterator[Finding]:
        """Findings in lines; notes in `texts` what the other searches need of each text."""
        known: Lines = {}
        looked: set[tuple[Audience, str]] = set()
        for name, role, text in _blocks(ledger, shown):
            if role == "assistant":
                texts.written.add(name)
            if Audience.EXECUTOR in shown[name] and (owners := self.schemas_in(text)):
                texts.schemas[name] = frozenset(owners)
            if not text:
                continue
            if len(known) > LINES:  # what comes again is read again
                known.clear()
                looked.clear()
            read = self._reader.read(text, known)
            texts.note(name, read, PLACEHOLDERS in text)
            for audience in sorted(shown[name]):
                for line in read.lines:
                    if (audience, line) not in looked:
                        looked.add((audience, line))
                        yield from self._in_line(line, audience)

    def _hits_of(self, calls: Sequence[_Call], texts: _Texts) -> Iterator[Finding]:
        """Labels and gold. An executor is known by its whole conversation: a later message need not repeat the schema."""
        wanted = set()
        for audience, names in calls:
            hit = [name for name in names if name in texts.hits]
            mine: frozenset[str] = frozenset()
            if hit and audience is Audience.EXECUTOR:
                mine = mine.union(*(texts.schemas[name] for name in names if name in texts.schemas))
            wanted |= {(audience, name, mine) for name in hit}
        for audience, name, mine in sorted(wanted, key=lambda w: (w[0], w[1], sorted(w[2]))):
            yield from self._hits_for(texts.hits[name], audience, mine)

    def _withheld_of(self, ledger: Ledger, calls: Sequence[_Call], texts: _Texts) -> list[Finding]:
        """Withheld values in first prompts. Later messages answer the model, and may hold what it wrote or looked up."""
        wanted: dict[tuple[Audience, str, frozenset[int]], list[Finding]] = {}
        for audience, names in calls if self._withheld else ():
            if "withheld" in WATCHED[audience]:
                first = next((i for i, name in enumerate(names) if name in texts.written), len(names))
                opening = [name for name in names[:first] if name in texts.scanned]
                tasks = frozenset(task for name in opening for task in texts.tasks.get(name, ()))
                tasks = frozenset(task for task in tasks if audience in self._withheld[task].audiences)
                told = [name for name in opening if tasks or name in texts.placeholders]
                wanted.update({(audience, name, tasks): [] for name in told})
        by_name: dict[str, list[tuple[Audience, str, frozenset[int]]]] = {}
        for asked in wanted:
            by_name.setdefault(asked[1], []).append(asked)
        for name, _, text in _blocks(ledger, by_name):
            ids = self._reader.tokens.ids(plain(OPENING_BLOCKS.sub("\n", text)))
            for asked in by_name[name]:
                wanted[asked] = list(self._withheld_in(ids, asked[0], asked[2], name in texts.placeholders))
        return [finding for findings in wanted.values() for finding in findings]

    def _withheld_in(self, ids: Ids, audience: Audience, tasks: frozenset[int], questions: bool) -> Iterator[Finding]:
        found = [(a, b) for task in sorted(tasks) for a, b, _ in self._values[task].find(ids)]
        if questions:
            found += [(a, b) for a, b, i in self._questions.find(ids) if audience in self._withheld[i].audiences]
        for start, end in found:
            hit = self._reader.hit("withheld", ids, start, end)
            yield Finding("withheld", hit.found, hit.excerpt, str(audience))


@dataclass
class _Texts:
    """What is kept of the texts of calls, by digest, where there is something. `written`: by the model itself."""

    scanned: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    placeholders: set[str] = field(default_factory=set)
    hits: dict[str, tuple[Hit, ...]] = field(default_factory=dict)
    tasks: dict[str, frozenset[int]] = field(default_factory=dict)
    schemas: dict[str, frozenset[str]] = field(default_factory=dict)

    def note(self, name: str, read: Reading, placeholders: bool) -> None:
        self.scanned.add(name)
        if placeholders:
            self.placeholders.add(name)
        if read.hits:
            self.hits[name] = read.hits
        if read.tasks:
            self.tasks[name] = read.tasks


_Call = tuple[Audience, tuple[str, ...]]
"""(audience, digests of the messages in order and of the tool list)."""


def _distinct_calls(ledger: Ledger, keys: Iterable[str]) -> list[_Call]:
    """The calls among the items, each conversation once."""
    wanted, names = sorted(set(keys)), dict[str, str]()
    distinct: set[_Call] = set()
    for start in range(0, len(wanted), BLOCK):
        for entry in ledger.get_many(wanted[start : start + BLOCK]).values():
            if entry.kind == KIND:
                request = json.loads(entry.payload)["request"]
                parts = (*request["messages"], *filter(None, [request["tools"]]))
                distinct.add((Audience(entry.meta["audience"]), tuple(names.setdefault(n, n) for n in parts)))
    return sorted(distinct)


def _blocks(ledger: Ledger, names: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """(digest, role, text) of stored messages and tool lists, a block in memory at a time."""
    wanted = sorted(names)
    for start in range(0, len(wanted), BLOCK):
        for name, data in ledger.blobs_of(wanted[start : start + BLOCK]).items():
            yield name, *_shown(data)


def _finding(kind: str, what: str, text: str, at: int, audience: Audience) -> Finding:
    return Finding(kind, what, text[max(0, at - 30) : at + 50], str(audience))


def _anchor_lines(schemas: Mapping[str, str]) -> dict[str, list[str]]:
    """Databases by one inner line of their schema, the rarest there is; short schemas stand under ""."""
    held = Counter(line for schema in schemas.values() for line in set(schema.split("\n")))
    found: dict[str, list[str]] = {}
    for database, schema in schemas.items():
        inner = [line for line in schema.split("\n")[1:-1] if line]
        anchor = min(inner, key=lambda line: (held[line], line)) if inner else ""
        found.setdefault(anchor, []).append(database)
    return found


def _shown(data: bytes) -> tuple[str, str]:
    """(role, text) of a stored message or tool list; the text is empty for what the model wrote itself."""
    value = json.loads(data)
    if not isinstance(value, dict):
        return "tools", json.dumps(value)
    return value["role"], "" if value["role"] == "assistant" else value["content"]
