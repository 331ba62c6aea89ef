"""Tool calls left in the text as provider markup: one complete call of one style is read, everything else is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks_lib.models.markup import Recovered, recover
from tasks_lib.models.replies import Malformed
from tasks_lib.routeenv.actions import ACTIONS

SCHEMAS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in ACTIONS}
NAME, ARGUMENTS = "search_catalog", {"query": "old ferries", "top_k": 5}
JSON = '{"query": "old ferries", "top_k": 5}'


def dsml(bar: str, outer: str) -> str:
    d = f"{bar}DSML{bar}"
    return (
        f'<{d}{outer}>\n<{d}invoke name="search_catalog">\n'
        f'<{d}parameter name="query" string="true">old ferries</{d}parameter>\n'
        f'<{d}parameter name="top_k" string="false">5</{d}parameter>\n</{d}invoke>\n</{d}{outer}>'
    )


KIMI_CALL = f"<|tool_call_begin|>functions.search_catalog:0<|tool_call_argument_begin|>{JSON}<|tool_call_end|>"
WHOLE = {
    "dsml": dsml("｜", "tool_calls"),
    "kimi": f"<|tool_calls_section_begin|>{KIMI_CALL}<|tool_calls_section_end|>",
    "llama": f"<function=search_catalog>{JSON}</function>",
    "hermes": f'<tool_call>\n{{"name": "search_catalog", "arguments": {JSON}}}\n</tool_call>',
    "qwen": (
        "<tool_call>\n<function=search_catalog>\n<parameter=query>\nold ferries\n</parameter>\n"
        "<parameter=top_k>\n5\n</parameter>\n</function>\n</tool_call>"
    ),
}


@pytest.mark.parametrize(
    ("adapter", "text"),
    [
        *WHOLE.items(),
        ("dsml", dsml("｜", "function_calls")),
        ("dsml", dsml("｜｜", "tool_calls")),
        ("dsml", dsml("|", "tool_calls")),
        ("dsml", dsml("‖", "tool_calls")),
        ("kimi", KIMI_CALL),
        ("kimi", KIMI_CALL.replace("functions.", "")),
        ("llama", f'<|python_tag|>{{"name": "search_catalog", "parameters": {JSON}}}'),
        ("llama", f'<|python_tag|>{{"name": "search_catalog", "parameters": {JSON}}}<|eom_id|>'),
        ("hermes", f"<think>{WHOLE['kimi']}</think>Let me look.\n{WHOLE['hermes']}"),
        ("hermes", WHOLE["hermes"] + "\n```\n<tool_call>no call</tool_call>\n```"),
    ],
)
def test_one_complete_call_is_read(adapter: str, text: str) -> None:
    assert recover(text, SCHEMAS) == Recovered(adapter, NAME, ARGUMENTS)


@pytest.mark.parametrize("adapter", WHOLE)
def test_two_calls_are_refused(adapter: str) -> None:
    found = recover(WHOLE[adapter] + "\n" + WHOLE[adapter], SCHEMAS)
    assert isinstance(found, Malformed)
    assert found.reason == "markup_multiple"


@pytest.mark.parametrize("adapter", WHOLE)
def test_a_cut_call_is_refused_wherever_it_is_cut(adapter: str) -> None:
    whole = WHOLE[adapter]
    first = whole.index(">") + 1
    for end in range(first, len(whole)):
        found = recover(whole[:end], SCHEMAS)
        assert found is None or isinstance(found, Malformed), whole[:end]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (WHOLE["dsml"] + WHOLE["kimi"], "markup_mixed"),
        (WHOLE["hermes"] + f'<|python_tag|>{{"name": "x", "parameters": {JSON}}}', "markup_mixed"),
        ("<|tool_calls_section_begin|><|tool_calls_section_end|>", "markup_incomplete"),
        (KIMI_CALL + "<|tool_calls_section_end|>", "markup_incomplete"),
        (WHOLE["hermes"] + "</tool_call>", "markup_incomplete"),
        ("<tool_call>{}</tool_call>", "markup_shape"),
        ('<tool_call>{"name": "x", "arguments": "{}"}</tool_call>', "markup_shape"),
        ('<tool_call>{"name": "x", "arguments": {}, "id": 1}</tool_call>', "markup_shape"),
        ('<tool_call>{"name": "x", "arguments": {"a": 1, "a": 2}}</tool_call>', "duplicate_key"),
        ("<|python_tag|>search_catalog.call(query='old ferries')", "not_json"),
        (f'<|python_tag|>{{"name": "x", "parameters": {JSON}}}; {{"name": "y", "parameters": {{}}}}', "not_json"),
        ("<function=search_catalog>{'query': 'x'}</function>", "not_json"),
        (WHOLE["dsml"].replace('name="top_k"', 'name="query"'), "markup_shape"),
        (WHOLE["dsml"].replace(">5<", ">five<"), "not_json"),
        (WHOLE["dsml"].replace(">5<", ">NaN<"), "number"),
        (WHOLE["dsml"].replace(' string="false"', ""), "markup_shape"),
        (WHOLE["qwen"].replace("<parameter=top_k>", "and <parameter=top_k>"), "markup_shape"),
        (WHOLE["qwen"].replace("\n5\n", "\nfive\n"), "not_json"),
    ],
)
def test_anything_else_is_refused(text: str, reason: str) -> None:
    found = recover(text, SCHEMAS)
    assert isinstance(found, Malformed)
    assert found.reason == reason


@pytest.mark.parametrize(
    "text",
    ["The route is db_3.", f"```\n{WHOLE['hermes']}\n```", f"<think>{WHOLE['dsml']}</think>Done.", "a < b"],
)
def test_text_without_marks_is_no_call(text: str) -> None:
    assert recover(text, SCHEMAS) is None


@given(
    st.lists(
        st.sampled_from(
            [
                *("<tool_call>", "</tool_call>", "<function=f>", "</function>", "<parameter=p>", "</parameter>"),
                *("<|python_tag|>", "<|tool_call_begin|>", "functions.f:0", "<|tool_call_argument_begin|>", "{}"),
                *(
                    "<|tool_call_end|>",
                    "<｜DSML｜tool_calls>",
                    '<｜DSML｜invoke name="f">',
                    "</｜DSML｜invoke>",
                    "```\n",
                ),
                *("</｜DSML｜tool_calls>", "<think>", "</think>", '{"name": "f", "arguments": {}}', "\ud800", "x"),
            ]
        ),
        max_size=9,
    ).map("".join)
)
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert isinstance(recover(text, SCHEMAS), Recovered | Malformed | None)
