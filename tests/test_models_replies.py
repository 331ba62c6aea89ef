"""Strict reading of replies: reasoning (L01), blocks (T04), tool calls (T01), JSON (T02)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks_lib.models.chat import ToolCall
from tasks_lib.models.replies import (
    BadJson,
    Block,
    Decoded,
    Malformed,
    decode_object,
    fences,
    json_reply,
    parse_blocks,
    parse_tool_calls,
    read_json_reply,
    strict_json_object,
    strip_reasoning,
)

SQL = "```sql\nSELECT a FROM t\n```"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>try ```sql\nSELECT bad FROM x\n```</think>\n" + SQL, SQL),
        ("plan... </think>\n" + SQL, SQL),
        ("<think>I would use " + SQL, ""),
        ("<THINK>x</THINK>```postgresql\nSELECT a FROM t\n```", "```postgresql\nSELECT a FROM t\n```"),
        ("```sql\nSELECT '<think>' AS w FROM t\n```", "```sql\nSELECT '<think>' AS w FROM t\n```"),
        ("```sql\nSELECT '</think>' AS w FROM t\n```", "```sql\nSELECT '</think>' AS w FROM t\n```"),
        ("<think>a</think><thinking>b</thinking>\r\n" + SQL, SQL),
        ("<think>a<think>b</think>c</think>" + SQL, SQL),
        ("No tags at all.", "No tags at all."),
    ],
)
def test_reasoning_never_counts(text: str, left: str) -> None:
    assert strip_reasoning(text) == left


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ('<ACTION>{"name":"search"}</ACTION>', Block("ACTION", '{"name":"search"}')),
        ("<ACTION>{..1}</ACTION>\nObservation: db_3\n<ACTION>{..2}</ACTION>", "multiple"),
        ("<ACTION>{..}</ACTION><FINAL>{..}</FINAL>", "multiple"),
        ("The route is db_3.", "none"),
        ('<FINAL>{"selected_databases":["db_3"]', "unclosed"),
        ("<think><FINAL>{}</FINAL></think><ACTION>{1}</ACTION>", Block("ACTION", "{1}")),
        ("Well. <think><FINAL>{}</FINAL></think><ACTION>{1}</ACTION>", Block("ACTION", "{1}")),
        ("<think><FINAL>{}</FINAL>", "none"),
        ("```\n<FINAL>{}</FINAL>\n```", "none"),
        ("```<FINAL>{}</FINAL>```", "none"),
        ("```\n<FINAL>{}</FINAL>\n```\n<ASK_USER>Which year?</ASK_USER>", Block("ASK_USER", "Which year?")),
        ("<FINAL>\n```json\n{}\n```\n</FINAL>", Block("FINAL", "```json\n{}\n```")),
        ("<FINAL><ACTION>{}</ACTION></FINAL>", "nested"),
        (
            '<ACTION>{"name":"search_catalog","args":{"query":"films"}}</ACTION>',
            Block("ACTION", '{"name":"search_catalog","args":{"query":"films"}}'),
        ),
        (
            '<think><FINAL>{}</FINAL></think><ACTION>{"name":"check_coverage","args":{"database_id":"db_3"}}</ACTION>',
            Block("ACTION", '{"name":"check_coverage","args":{"database_id":"db_3"}}'),
        ),
        ("</FINAL><ACTION>{}</ACTION>", "unbalanced"),
        ("<ACTION>{}</FINAL>", "unbalanced"),
        ("<ACTION> </ACTION>", "empty"),
    ],
)
def test_exactly_one_block(text: str, result: Block | str) -> None:
    found = parse_blocks(text)
    assert found == result if isinstance(result, Block) else isinstance(found, Malformed) and found.reason == result


def test_two_native_calls_are_malformed_and_one_is_taken() -> None:
    one = ToolCall("c1", "inspect_database", '{"database_id":"db_7"}')
    found = parse_tool_calls([one, ToolCall("c2", "submit_route", "{}")])
    assert isinstance(found, Malformed)
    assert found.reason == "multiple_calls"
    assert parse_tool_calls([one]) is one
    assert isinstance(parse_tool_calls([]), Malformed)


def test_arguments_that_are_one_object() -> None:
    assert not decode_object('{"database_id":"db_7"}').double_encoded
    wrapped = decode_object('"{\\"database_id\\":\\"db_7\\"}"')
    assert wrapped.value == {"database_id": "db_7"}
    assert wrapped.double_encoded


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        '{"database_id":"db_7",}',
        '{"table_limit": \\n[3]}',
        '{"table_limit":NaN}',
        '{"table_limit":-Infinity}',
        '{"table_limit":1e400}',
        '{"a":1}{"a":2}',
        '{"database_id":"db_7","database_id":"db_8"}',
        '{"database_id":"db_',
        '"{\\"a\\":NaN}"',
        '"\\"{}\\""',
        '{"a":"\\ud800"}',
        '{"a":' * 100_000,
        '{"a":' + "9" * 5000 + "}",
    ],
)
def test_arguments_that_are_refused_with_a_bounded_preview(text: str) -> None:
    with pytest.raises(BadJson) as error:
        strict_json_object(text)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ('{"a": 1}', {"a": 1}),
        ('Here it is:\n```json\n{"a": 1}\n```\nDone.', {"a": 1}),
        ('```\n{"a": 1}\n```', {"a": 1}),
        ('<think>{"a": 2}</think>{"a": 1}', {"a": 1}),
        ('```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```', "multiple"),
        ('```json\n{"a": 1}', "unclosed"),
        ('It is {"a": 1}', "not_json"),
        ("<think>hm", "empty"),
        ('{"a": 1, "a": 1}', "duplicate_key"),
        ("[1]", "not_object"),
    ],
)
def test_json_replies(text: str, result: dict[str, int] | str) -> None:
    found = json_reply(text)
    assert found.reason == result if isinstance(found, Malformed) else found == result


def test_a_doubly_encoded_decision_says_so() -> None:
    assert read_json_reply('{"a": 1}') == Decoded({"a": 1}, False)
    assert read_json_reply('"{\\"a\\": 1}"') == Decoded({"a": 1}, True)


def test_fences_report_language_body_and_whether_they_close() -> None:
    found = fences("```json\n{}\n```\nx\n~~~SQL\nSELECT 1\n```\n~~~\n```\nopen")
    assert [(f.language, f.body, f.closed) for f in found] == [
        ("json", "{}", True),
        ("sql", "SELECT 1\n```", True),
        ("", "open", False),
    ]


@given(st.text(alphabet="<>/`~ \n{}thinkACTIONFL\"'", max_size=80))
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert isinstance(parse_blocks(text), Block | Malformed)
    assert isinstance(json_reply(text), dict | Malformed)
    assert strip_reasoning(strip_reasoning(text)) == strip_reasoning(text)
