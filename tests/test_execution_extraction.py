"""SQL extraction: reasoning is cut (known fault L01), several blocks fail closed (L02), failed generations never give SQL (L04)."""

from __future__ import annotations

import pytest

from tasks_lib.execution.extraction import Extraction, extract
from tasks_lib.models.chat import ChatReply
from tasks_lib.protocol.vocabulary import CallOutcome, Corpus, VerdictKind

OK = CallOutcome.OK


def read(text: str, family: Corpus = Corpus.SPIDER, seeded: bool = False, **fields: object) -> Extraction:
    return extract(family, ChatReply(**{"outcome": OK, "text": text, **fields}), seeded)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("<think>try ```sql\nSELECT bad FROM x\n```</think>\n```sql\nSELECT a FROM t\n```", "SELECT a FROM t"),
        ("plan... </think>\n```sql\nSELECT a FROM t\n```", "SELECT a FROM t"),
        ("<think>I would use ```sql\nSELECT a FROM t\n```", None),
        ("<THINK>x</THINK>```postgresql\nSELECT a FROM t\n```", "SELECT a FROM t"),
        ("```sql\nSELECT '<think>' AS w FROM t\n```", "SELECT '<think>' AS w FROM t"),
        ("```sql\nSELECT '</think>' AS w FROM t\n```", "SELECT '</think>' AS w FROM t"),
        ("<think>a</think>\n<think>b ```sql\nSELECT bad\n```</think>\n```sql\nSELECT a FROM t\n```", "SELECT a FROM t"),
        ("no block </think>", None),
    ],
)
def test_reasoning_never_counts(text: str, sql: str | None) -> None:
    found = read(text)
    assert found.sql == sql
    assert found.kind is (None if sql else VerdictKind.MISSING_SQL)


@pytest.mark.parametrize(
    ("text", "sql", "kind"),
    [
        ("```sql\nSELECT a FROM t\n```\nor\n```sql\nSELECT b FROM t\n```", None, VerdictKind.AMBIGUOUS_SQL),
        ("```sql\nSELECT a FROM t\n```\nAgain:\n```sql\nSELECT a FROM t;\n```", "SELECT a FROM t", None),
        ("```\nSELECT a FROM t\n```", "SELECT a FROM t", None),
        ('```json\n{"x":1}\n```\n```SQL\r\nSELECT a FROM t\r\n```', "SELECT a FROM t", None),
        ("Use `SELECT a FROM t`.", None, VerdictKind.MISSING_SQL),
        ("```postgresql\nSELECT a FROM t", None, VerdictKind.MISSING_SQL),
        ("```sql\nSELECT a FROM t\n```\n```sql\nSELECT b", None, VerdictKind.MISSING_SQL),
        ("```sql SELECT a FROM t ```", "SELECT a FROM t", None),
        ("```sql\nSELECT '```' AS x FROM t\n```", "SELECT '```' AS x FROM t", None),
        ("```sql\n\n```", None, VerdictKind.MISSING_SQL),
        ("```sql\nSELECT a FROM t\n```\n```\na\n1\n```", "SELECT a FROM t", None),
    ],
)
def test_exactly_one_distinct_sql(text: str, sql: str | None, kind: VerdictKind | None) -> None:
    found = read(text)
    assert (found.sql, found.kind) == (sql, kind)
    assert "```" not in (found.sql or "").replace("'```'", "")


@pytest.mark.parametrize(
    ("text", "sql", "kind"),
    [
        ("Here:\n```postgresql\nSELECT a FROM t;\n```", "SELECT a FROM t", None),
        ("```sql\nSELECT a FROM t\n```", None, VerdictKind.MISSING_SQL),
        ("```postgresql\nSELECT 1\n```\n```postgresql\nSELECT 1\n```", None, VerdictKind.AMBIGUOUS_SQL),
        ("```postgresql\nSELECT a FROM t", None, VerdictKind.MISSING_SQL),
    ],
)
def test_livesqlbench_demands_one_postgresql_block(text: str, sql: str | None, kind: VerdictKind | None) -> None:
    found = read(text, Corpus.LIVESQLBENCH)
    assert (found.sql, found.kind) == (sql, kind)


@pytest.mark.parametrize(
    ("outcome", "finish", "text", "kind"),
    [
        (
            CallOutcome.TRUNCATED,
            "length",
            "```sql\nSELECT first_name FROM staff\n```",
            VerdictKind.GENERATION_TRUNCATED,
        ),
        (OK, "length", "```sql\nSELECT first_name FROM staff\n```", VerdictKind.GENERATION_TRUNCATED),
        (OK, "content_filter", "```sql\nSELECT 1\n```", VerdictKind.GENERATION_TRUNCATED),
        (OK, "length", "", VerdictKind.GENERATION_TRUNCATED),
        (CallOutcome.EMPTY, "stop", "", VerdictKind.GENERATION_EMPTY),
        (OK, "stop", " \n", VerdictKind.GENERATION_EMPTY),
        (CallOutcome.MODEL_REFUSED, "stop", "```sql\nSELECT 1\n```", VerdictKind.MODEL_REFUSED),
        (CallOutcome.CONTEXT_OVERFLOW, "", "", VerdictKind.CONTEXT_OVERFLOW),
    ],
)
@pytest.mark.parametrize("seeded", [True, False])
def test_failed_generations_never_give_sql(
    outcome: CallOutcome, finish: str, text: str, kind: VerdictKind, seeded: bool
) -> None:
    found = read(text, outcome=outcome, finish_reason=finish, seeded=seeded, extra={"reasoning": "SELECT a FROM t"})
    assert (found.sql, found.kind) == (None, kind)


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        (" name FROM t", "SELECT name FROM t"),
        ("SELECT name FROM t", "SELECT name FROM t"),
        ("WITH c AS (SELECT 1) SELECT * FROM c", "WITH c AS (SELECT 1) SELECT * FROM c"),
        ("selected FROM t", "SELECT selected FROM t"),
        ("```sql\nSELECT name FROM t\n```", "SELECT name FROM t"),
    ],
)
def test_the_seed_is_added_once_and_only_to_a_bare_completion(text: str, sql: str) -> None:
    assert read(text, seeded=True).sql == sql


def test_a_transient_outcome_is_no_reply() -> None:
    with pytest.raises(ValueError, match="transient"):
        read("", outcome=CallOutcome.RATE_LIMITED)
