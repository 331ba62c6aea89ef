"""The public actions as tool schemas (paper Table 20, Hermes' tools of F.3), and the strict reading of their arguments.

Names, arguments and limits only; what an action answers is in `environment`. No message here repeats a word of the caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tasks_lib.protocol.vocabulary import Corpus

Schema = Mapping[str, Any]

RELATION_TYPES = ("foreign_key", "probable_key", "compatible")
OBJECT_TYPES = ("database", "table", "column")

_QUERY: Schema = {"type": "string", "minLength": 1, "maxLength": 4000, "description": "what is looked for, in words"}
_DATASET: Schema = {"type": "string", "enum": [c.value for c in Corpus], "description": "keep one dataset only"}
_DATABASE: Schema = {"type": "string", "description": "public id db_…"}


def _limit(default: int, most: int, what: str) -> Schema:
    return {
        "type": "integer",
        "minimum": 1,
        "maximum": most,
        "default": default,
        "description": f"at most so many {what} (default {default})",
    }


def _tool(name: str, description: str, required: Mapping[str, Schema], optional: Mapping[str, Schema]) -> Schema:
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": {**required, **optional},
                "required": list(required),
                "additionalProperties": False,
            },
        },
    }


_INSPECT_DATABASE = _tool(
    "inspect_database",
    "Read one database: summary, tables and capabilities.",
    {"database_id": _DATABASE},
    {"table_limit": _limit(12, 50, "tables")},
)

ACTIONS: Sequence[Schema] = (
    _tool(
        "search_catalog",
        "Find candidate databases in the public catalog.",
        {"query": _QUERY},
        {"dataset": _DATASET, "top_k": _limit(10, 50, "databases")},
    ),
    _INSPECT_DATABASE,
    _tool(
        "inspect_table",
        "Read one table with its columns.",
        {"table_id": {"type": "string", "description": "public id tb_…"}},
        {"column_limit": _limit(40, 200, "columns")},
    ),
    _tool(
        "inspect_column",
        "Read one column with its relations.",
        {"column_id": {"type": "string", "description": "public id col_…"}},
        {},
    ),
    _tool(
        "search_capability",
        "Find what can be asked, over all candidate databases.",
        {"query": _QUERY},
        {"dataset": _DATASET, "top_k": _limit(10, 50, "capabilities")},
    ),
    _tool(
        "search_entity",
        "Find values such as names and places, over all candidate databases.",
        {"query": _QUERY},
        {"dataset": _DATASET, "top_k": _limit(10, 50, "values")},
    ),
    _tool(
        "check_coverage",
        "Sum up which facts about one database were observed so far, against how many there are.",
        {"database_id": _DATABASE},
        {},
    ),
    _tool(
        "expand_relations",
        "Follow relations from a database, table or column.",
        {
            "object_type": {"type": "string", "enum": list(OBJECT_TYPES)},
            "object_id": {"type": "string", "description": "its public id"},
        },
        {
            "relation_types": {
                "type": "array",
                "items": {"type": "string", "enum": list(RELATION_TYPES)},
                "minItems": 1,
                "description": "kinds to follow (default all)",
            },
            "depth": {"type": "integer", "minimum": 1, "maximum": 3, "default": 1, "description": "steps (default 1)"},
            "limit": _limit(20, 50, "relations"),
        },
    ),
    _tool(
        "check_compatibility",
        "Read evidence that columns of two databases could be matched. Compatible columns do not imply an order of execution.",
        {"source_database_id": _DATABASE, "target_database_id": _DATABASE},
        {"limit": _limit(10, 50, "relations")},
    ),
)
"""The nine actions of every adaptive router, as OpenAI-style tool schemas."""

HERMES_TOOLS: Sequence[Schema] = (
    _tool(
        "route_search",
        "Find candidate databases, each with its best matching column, capabilities and values.",
        {"query": _QUERY},
        {"top_k": _limit(10, 50, "databases")},
    ),
    _tool(
        "load_database_skill",
        "Load what one database is good for: capabilities, tables with their columns, joins inside it.",
        {"database_id": _DATABASE},
        {},
    ),
    _INSPECT_DATABASE,
    _tool(
        "inspect_relationships",
        "Read relations of one database: its foreign keys, and columns that could be matched with other candidates or one target.",
        {"database_id": _DATABASE},
        {"target_database_id": _DATABASE, "limit": _limit(20, 50, "relations")},
    ),
)
"""Hermes' four reading tools. The fifth, submit_route, belongs to the router."""

_PARAMETERS: Mapping[str, Schema] = {
    tool["function"]["name"]: tool["function"]["parameters"] for tool in (*ACTIONS, *HERMES_TOOLS)
}
_TYPES: Mapping[str, tuple[type, str]] = {
    "string": (str, "text"),
    "integer": (int, "an integer"),
    "array": (list, "a list"),
}


class ArgumentError(ValueError):
    """A call that cannot be answered; the message holds no text of the caller, and only ids the caller may know."""


def read_arguments(action: object, arguments: object) -> dict[str, Any]:
    """The arguments of `action` with defaults filled in. Raises ArgumentError naming the first fault."""
    if not isinstance(action, str) or action not in _PARAMETERS:
        raise ArgumentError(f"there is no such action; expected one of {', '.join(_PARAMETERS)}.")
    schema = _PARAMETERS[action]
    if not isinstance(arguments, Mapping):
        raise ArgumentError(f"arguments of {action} are no JSON object; expected {', '.join(schema['properties'])}.")
    if any(name not in schema["properties"] for name in arguments):
        raise ArgumentError(f"{action} has an unknown argument; expected only {', '.join(schema['properties'])}.")
    found: dict[str, Any] = {}
    for name, rule in schema["properties"].items():
        if name in arguments:
            found[name] = _checked(action, name, rule, arguments[name])
        elif name in schema["required"]:
            raise ArgumentError(f"{action} needs the argument {name}; none was given.")
        else:
            found[name] = rule.get("default")
    return found


def _checked(action: str, name: str, rule: Schema, value: object) -> object:
    kind, words = _TYPES[rule["type"]]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ArgumentError(f"{name} of {action} is of another type, expected {words}.")
    if isinstance(value, str):
        if not _is_text(value):
            raise ArgumentError(f"{name} of {action} holds half a character (a lone surrogate), expected text.")
        if "enum" in rule and value not in rule["enum"]:
            raise ArgumentError(f"{name} of {action} is none of {', '.join(rule['enum'])}.")
        if "minLength" in rule and not rule["minLength"] <= len(value.strip()) <= rule["maxLength"]:
            raise ArgumentError(
                f"{name} of {action} is blank or too long, expected 1 to {rule['maxLength']} characters."
            )
    if isinstance(value, int) and not rule["minimum"] <= value <= rule["maximum"]:
        raise ArgumentError(f"{name} of {action} is out of range, expected {rule['minimum']} to {rule['maximum']}.")
    if isinstance(value, list):
        allowed = rule["items"]["enum"]
        if not value or not all(isinstance(item, str) and item in allowed for item in value):
            raise ArgumentError(f"{name} of {action} is no list of {', '.join(allowed)}.")
    return value


def _is_text(value: str) -> bool:
    """Whether the characters can be written down: JSON may hold half a surrogate pair, which no index or file takes."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
