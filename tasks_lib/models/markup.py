"""Tool calls that a provider left in the text as its own markup: named adapters, one a provider's style.

A call is recovered only when the text, outside code fences and reasoning, holds exactly one complete call of exactly one style;
whatever else holds such marks is `Malformed`. The adapter's name goes into the transcript (`route_turns.recovery`). Formats:

- `dsml` (DeepSeek V3.2, V4): `<｜DSML｜tool_calls><｜DSML｜invoke name="N"><｜DSML｜parameter name="P" string="true">V</…>…`;
  V3.2 calls the outer tag `function_calls`, and the bar is also written `｜｜`, `|` or `‖`.
- `kimi` (Kimi K2): `<|tool_calls_section_begin|><|tool_call_begin|>functions.N:0<|tool_call_argument_begin|>{…}<|tool_call_end|>
  <|tool_calls_section_end|>`; both section marks may be gone.
- `llama` (Llama 3): `<|python_tag|>{"name": …, "parameters": {…}}` up to the end, or `<function=N>{…}</function>`.
- `hermes` (Qwen 2.5 and 3, Hermes): `<tool_call>{"name": …, "arguments": {…}}</tool_call>`.
- `qwen` (Qwen3-Coder, Qwen3.5): `<tool_call><function=N><parameter=P>V</parameter>…</function></tool_call>`.

What an action means and whether its arguments fit is the caller's business.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks_lib.models.replies import BadJson, Malformed, decode_object, spoken, strip_reasoning

Schemas = Mapping[str, Mapping[str, Any]]
"""JSON schema of arguments by tool name."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """One call read from markup. `adapter`: the style it was written in."""

    adapter: str
    name: str
    arguments: dict[str, Any]


class _Refused(ValueError):
    """A complete call whose inside is not of its style; the message may be shown to the model."""


_BAR = r"[|｜‖]{1,2}"
_DSML = re.compile(
    rf"<{_BAR}DSML{_BAR}(?P<outer>function_calls|tool_calls)>\s*<{_BAR}DSML{_BAR}invoke name=\"(?P<name>[^\"]*)\">"
    rf"(?P<body>.*?)</{_BAR}DSML{_BAR}invoke>\s*</{_BAR}DSML{_BAR}(?P=outer)>",
    re.DOTALL,
)
_DSML_PARAMETER = re.compile(
    rf"\s*<{_BAR}DSML{_BAR}parameter name=\"(?P<name>[^\"]*)\" string=\"(?P<text>true|false)\">"
    rf"(?P<value>.*?)</{_BAR}DSML{_BAR}parameter>",
    re.DOTALL,
)
_KIMI_CALL = (
    r"<\|tool_call_begin\|>\s*(?:functions\.)?(?P<name{0}>[^\s:<]+):\d+\s*<\|tool_call_argument_begin\|>"
    r"(?P<body{0}>.*?)<\|tool_call_end\|>"
)
_KIMI = re.compile(
    rf"<\|tool_calls_section_begin\|>\s*{_KIMI_CALL.format(1)}\s*<\|tool_calls_section_end\|>|{_KIMI_CALL.format(2)}",
    re.DOTALL,
)
_PYTHON_TAG = re.compile(r"<\|python_tag\|>(?P<body>.*?)(?:<\|eom_id\|>|<\|eot_id\|>)?\s*\Z", re.DOTALL)
_FUNCTION = re.compile(r"<function=(?P<name>[^>\s]+)>(?P<body>.*?)</function>", re.DOTALL)
_TOOL_CALL = re.compile(r"<tool_call>(?P<body>.*?)</tool_call>", re.DOTALL)
_QWEN_PARAMETER = re.compile(r"\s*<parameter=(?P<name>[^>\s]+)>(?P<value>.*?)</parameter>", re.DOTALL)

_OPENINGS: Mapping[str, re.Pattern[str]] = {
    "dsml": re.compile(rf"<{_BAR}DSML{_BAR}invoke\b"),
    "kimi": re.compile(r"<\|tool_call_begin\|>"),
    "llama": re.compile(r"<\|python_tag\|>|<function="),
    "hermes": re.compile(r"<tool_call>"),
}
"""What begins a call, by style; `qwen` begins as `hermes` does, and its function tag is then no call of its own."""

_MARKS: Mapping[str, re.Pattern[str]] = {
    "dsml": re.compile(rf"</?{_BAR}\s*DSML"),
    "kimi": re.compile(r"<\|tool_call"),
    "llama": re.compile(r"<\|python_tag\|>|</?function\b"),
    "hermes": re.compile(r"</?tool_call>"),
}
"""Any mark of a style, complete or not."""


def _of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise _Refused("a parameter stands twice in the call.")
    return dict(pairs)


def _value(text: str) -> Any:
    """A strict JSON value of any kind, by the rules of `decode_object`."""
    return decode_object(f'{{"value":{text}}}').value["value"]


def _parameters(pattern: re.Pattern[str], body: str) -> list[re.Match[str]]:
    """The parameters that make up `body`, with nothing between them."""
    found, position = [], 0
    while (parameter := pattern.match(body, position)) is not None:
        found.append(parameter)
        position = parameter.end()
    if body[position:].strip():
        raise _Refused("the call holds something beside its parameters.")
    return found


def _named_object(body: str, keys: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    """Name and arguments of {"name": …, <one of keys>: {…}}."""
    call = decode_object(body).value
    key = next((k for k in keys if set(call) == {"name", k}), None)
    if key is None or not isinstance(call["name"], str) or not isinstance(call[key], dict):
        raise _Refused("the call is no object of a name and an object of arguments.")
    return call["name"], call[key]


def _dsml(text: str, _schemas: Schemas) -> tuple[re.Match[str], str, str, dict[str, Any]] | None:
    call = _DSML.search(text)
    if call is None:
        return None
    pairs = [
        (p["name"], p["value"] if p["text"] == "true" else _value(p["value"]))
        for p in _parameters(_DSML_PARAMETER, call["body"])
    ]
    return call, "dsml", call["name"], _of_pairs(pairs)


def _kimi(text: str, _schemas: Schemas) -> tuple[re.Match[str], str, str, dict[str, Any]] | None:
    call = _KIMI.search(text)
    if call is None:
        return None
    place = "1" if call["name1"] is not None else "2"
    return call, "kimi", call["name" + place], decode_object(call["body" + place]).value


def _llama(text: str, _schemas: Schemas) -> tuple[re.Match[str], str, str, dict[str, Any]] | None:
    call = _PYTHON_TAG.search(text)
    if call is not None:
        return call, "llama", *_named_object(call["body"], ("parameters", "arguments"))
    call = _FUNCTION.search(text)
    return None if call is None else (call, "llama", call["name"], decode_object(call["body"]).value)


def _hermes(text: str, schemas: Schemas) -> tuple[re.Match[str], str, str, dict[str, Any]] | None:
    call = _TOOL_CALL.search(text)
    if call is None:
        return None
    function = _FUNCTION.fullmatch(call["body"].strip())
    if function is None:
        return call, "hermes", *_named_object(call["body"], ("arguments",))
    # Values carry no type here: the tool's schema says which are text.
    properties = schemas.get(function["name"], {}).get("properties", {})
    pairs = []
    for parameter in _parameters(_QWEN_PARAMETER, function["body"]):
        value = parameter["value"].removeprefix("\n").removesuffix("\n")
        text_value = properties.get(parameter["name"], {}).get("type", "string") == "string"
        pairs.append((parameter["name"], value if text_value else _value(value)))
    return call, "qwen", function["name"], _of_pairs(pairs)


_ADAPTERS: Mapping[str, Callable[[str, Schemas], tuple[re.Match[str], str, str, dict[str, Any]] | None]] = {
    "dsml": _dsml,
    "kimi": _kimi,
    "llama": _llama,
    "hermes": _hermes,
}


def styles_in(text: str) -> list[str]:
    """Styles that have a mark in `text` outside code fences and reasoning."""
    if "<" not in text:
        return []
    mask = spoken(strip_reasoning(text))
    found = [style for style, marks in _MARKS.items() if marks.search(mask)]
    if "hermes" in found and "llama" in found:
        # A function tag inside a tool call is `qwen`'s; one beside it is a second call.
        beside = _TOOL_CALL.sub("", mask) if _TOOL_CALL.search(mask) else ""
        if not _MARKS["llama"].search(beside):
            found.remove("llama")
    return found


def recover(text: str, schemas: Schemas) -> Recovered | Malformed | None:
    """The one call that `text` holds as provider markup, None when it holds no such mark.

    Malformed reasons: markup_mixed | markup_multiple | markup_incomplete | markup_shape | those of BadJson.
    """
    styles = styles_in(text)
    if not styles:
        return None
    if len(styles) > 1:
        return Malformed("markup_mixed", "The reply mixes tool-call marks of several styles; nothing was run.")
    text = strip_reasoning(text)
    mask = spoken(text)
    style = styles[0]
    begun = len(_OPENINGS[style].findall(mask))
    if begun > 1:
        return Malformed(
            "markup_multiple", f"Expected exactly one call, found {begun} in tool-call marks; none was run."
        )
    try:
        found = _ADAPTERS[style](text, schemas)
        # Parameters that were plain text may hold what strict JSON refuses.
        arguments = decode_object(json.dumps(found[3])).value if found else {}
    except BadJson as error:
        return Malformed(error.reason, str(error))
    except _Refused as error:
        return Malformed("markup_shape", f"Tool-call marks were found in the text, but {error}")
    if found is None or any(not found[0].start() <= m.start() < found[0].end() for m in _MARKS[style].finditer(mask)):
        return Malformed("markup_incomplete", "Tool-call marks were found in the text without one complete call.")
    return Recovered(found[1], found[2], arguments)
