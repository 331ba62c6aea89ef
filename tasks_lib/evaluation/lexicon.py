"""PRIVATE. The words of the leak scan: labels, paths, what is ordinary, and which parts of a prompt are public by name.

Lists only; the scan is `leaks`. Two things are exempt by name. The words of the route schema: `topology` and its five values
stand in every router's prompt and answer, so they are no label by themselves. And the prompts that PROTOCOL 16 lists: the judge
sees the canonical slot, a privileged executor the unit's question (not the value withheld from it), `gold` sends nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from tasks_lib.protocol.vocabulary import Audience, Behavior
from tasks_lib.store.settings import PROJECT_ROOT

WATCHED: Mapping[Audience, frozenset[str]] = {
    Audience.ROUTER: frozenset(
        {"path", "label", "physical_name", "unit_id", "ddl", "gold_sql", "fragment", "withheld"}
    ),
    Audience.EXECUTOR: frozenset({"path", "label", "physical_name", "unit_id", "gold_sql", "withheld"}),
    Audience.JUDGE: frozenset({"path", "label", "physical_name", "unit_id", "ddl", "gold_sql", "fragment"}),
    Audience.DIAGNOSTIC: frozenset(),
}
"""Kinds of finding by audience. Executors see schemas, and knowledge that quotes parts of queries: for them only whole gold
statements of their own database count."""

_GOLD = ("sql", "query", "queries", "source", "database", "route", "answer", "label", "set")
_GOLD_THINGS = sorted({form for word in _GOLD for form in (word, f"{word}s")} - {"sqls", "querys", "queriess"})

LABELS: tuple[str, ...] = (
    "gold =",
    *(f"gold : {value}" for value in ("[", "{", "true", "false", "select")),
    *(f"gold{joint}{thing}" for joint in (" ", "_") for thing in _GOLD_THINGS),
    *(f"{word} {sign} {label}" for word in ("behavior", "behaviour") for sign in "=:" for label in Behavior),
    *(f"required databases {sign}" for sign in "=:"),
    *("is_gold", "source_unit", "unit_id", "unit_ids", "result_digest", "branch_id", "branch_weight"),
    *("required_databases", "downstream_question", "downstream_unit", "upstream_unit"),
)
"""Field names and labels of the private side as token sequences (case, layout and quote marks do not count).

Gold with a colon is a label before a value of ours only: catalogs tell of credit cards and medals ("gold: high-level card").
"""
GOLD_ID = re.compile(r"\bgold[\"']?\s*:\s*[\"']?db_", re.IGNORECASE)

PATHS = re.compile(
    r"\.sqlite3?\b|\.duckdb\b|\.parquet\b|_full\.sql\b|\bfile://|"
    r"[/\\](?:database|dev_databases|train_databases|dumps|site-packages)[/\\]|"
    r"(?<![\w/.:<])/(?:home|root|tmp|var|usr|mnt|opt|srv|data|work)/[\w.-]|\b[A-Za-z]:\\\w",
    re.IGNORECASE,
)
DDL = re.compile(
    r"\bcreate\s+(?:temp(?:orary)?\s+)?table\s+(?:if\s+not\s+exists\s+)?[\"'`\[]?[\w.]+[\"'`\]]?\s*\(", re.I
)

CLAUSES = frozenset(
    {"select", "from", "where", "join", "group", "order", "having", "union", "intersect", "except", "limit"}
)
SIGNS = frozenset("()=<>*.!|")
"""A part of a gold query counts as a fragment when it holds three of CLAUSES and SIGNS, one of each: prose does not."""

OPENING_BLOCKS = re.compile(
    r"<(observation|schema|example|linked|knowledge|clarification|route|databases|candidates|valid_evidence)\b[^>]*>"
    r".*?</\1>",
    re.DOTALL,
)
"""Parts of a first prompt that may hold any public value: catalog and schema text, and what the model or the user said."""


PLACEHOLDERS = "<placeholders>"
"""A prompt with this block asks for a query whose value comes from another one: the value itself must not be in it."""


@cache
def prompt_words() -> frozenset[str]:
    """Lower-case words of our own prompt files: a withheld value that is one of them cannot be told from the prompt."""
    files = sorted(PROJECT_ROOT.glob("tasks_lib/*/prompts/*.j2"))
    return frozenset(w for file in files for w in re.findall(r"\w+", file.read_text(encoding="utf-8").lower()))
