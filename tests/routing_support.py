"""A tiny public catalog, and chat models that give the replies they were told to, for the routing tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.chat import ChatReply, ChatRequest, ToolCall
from tasks_lib.models.embeddings import embed
from tasks_lib.protocol.records import CallContext, PublicTask
from tasks_lib.protocol.vocabulary import CallOutcome, Corpus
from tasks_lib.store import schemas
from tasks_lib.store.artifacts import write_file

World = dict[str, tuple[str, dict[str, tuple[str, dict[str, str]]]]]
"""Database id -> (summary, {table: (summary, {column: meaning})})."""

WORLD: World = {
    "db_11": (
        "Harbour ferries, their crossings and the passengers who booked them.",
        {
            "ferry": (
                "Ferries and their passenger capacity.",
                {"ferry_name": "name of the ferry", "capacity": "seats"},
            ),
            "crossing": ("Crossings by port.", {"port": "departure port", "delay_minutes": "delay of the crossing"}),
        },
    ),
    "db_22": (
        "Beekeepers, their hives and the honey harvested every season.",
        {
            "hive": ("Hives by apiary.", {"apiary": "apiary of the hive", "queen_age": "age of the queen bee"}),
            "harvest": ("Honey harvests.", {"kilograms": "kilograms of honey", "season": "season of the harvest"}),
        },
    ),
    "db_33": (
        "Planetariums, star shows and the lecturers who present them.",
        {
            "star_show": ("Star shows.", {"title": "title of the star show", "visitors": "visitors of the show"}),
            "lecturer": ("Lecturers.", {"lecturer_name": "name of the lecturer", "hometown": "home town"}),
        },
    ),
    "db_44": (
        "Pottery workshops, kilns and the glazes fired in them.",
        {
            "kiln": ("Kilns and temperatures.", {"max_temperature": "highest temperature of the kiln"}),
            "glaze": ("Glazes.", {"colour": "colour of the glaze", "supplier": "supplier of the glaze"}),
        },
    ),
    "db_55": (
        "Mountain huts, hikers and their overnight stays.",
        {
            "hut": ("Mountain huts.", {"altitude": "altitude of the hut in metres", "beds": "beds in the hut"}),
            "stay": ("Overnight stays of hikers.", {"nights": "nights of the stay"}),
        },
    ),
    "db_66": (
        "Chess clubs, players and their rated tournament games.",
        {
            "player": ("Chess players.", {"rating": "rating of the chess player"}),
            "game": ("Rated games.", {"opening": "opening of the game", "moves": "moves played"}),
        },
    ),
    "db_77": (
        "City library of the north bank, its members and loans.",
        {"loan": ("Loans of books.", {"member": "member of the library", "returned": "day of return"})},
    ),
    "db_88": (
        "City library of the south bank, its members and loans.",
        {"loan": ("Loans of books.", {"member": "member of the library", "returned": "day of return"})},
    ),
}


def write_catalog(folder: Path, world: World = WORLD) -> Path:
    """A tiny catalog as a release's public folder holds it; returns `folder`."""
    databases, tables, columns, capabilities, cards = [], [], [], [], []
    serial = 0

    def fresh(kind: str) -> str:
        nonlocal serial
        serial += 1
        return f"{kind}_{serial:04d}"

    for database, (summary, content) in world.items():
        databases.append(
            {
                "database_id": database,
                "corpus": "spider",
                "summary": summary,
                "table_count": len(content),
                "row_count": 100,
                "evidence_id": fresh("ev"),
                "provenance": "test",
            }
        )
        text = [summary]
        for name, (about, fields) in content.items():
            table = fresh("tb")
            tables.append(
                {
                    "table_id": table,
                    "database_id": database,
                    "ordinal": len(tables),
                    "name": name,
                    "summary": about,
                    "row_count": 50,
                    "column_count": len(fields),
                    "evidence_id": fresh("ev"),
                    "provenance": "test",
                }
            )
            capabilities.append(
                {
                    "capability_id": fresh("cap"),
                    "database_id": database,
                    "table_id": table,
                    "kind": "count",
                    "text": f"count {name.replace('_', ' ')} rows",
                    "evidence_id": fresh("ev"),
                    "provenance": "test",
                }
            )
            text.append(f"{name}: {about}")
            for column, meaning in fields.items():
                columns.append(
                    {
                        "column_id": fresh("col"),
                        "table_id": table,
                        "database_id": database,
                        "ordinal": len(columns),
                        "name": column,
                        "type": "TEXT",
                        "key": "",
                        "meaning": meaning,
                        "examples": [],
                        "value_range": "",
                        "evidence_id": fresh("ev"),
                        "provenance": "test",
                    }
                )
                text.append(f"{column}: {meaning}")
        cards.append((database, "\n".join(text)))
    vectors = embed([text for _, text in cards])
    rows: dict[str, list[dict[str, Any]]] = {
        "cat_databases": databases,
        "cat_tables": tables,
        "cat_columns": columns,
        "cat_capabilities": capabilities,
        "cat_entities": [],
        "cat_relations": [],
        "cat_cards": [
            {"object_id": d, "database_id": d, "chunk": 0, "text": t, "vector": v.tolist()}
            for (d, t), v in zip(cards, vectors, strict=True)
        ],
    }
    for name, content_rows in rows.items():
        write_file(schemas.TABLES[name], folder / f"{name}.parquet", content_rows)
    return folder


def task(request: str, task_id: str = "t1") -> PublicTask:
    """A task over the whole tiny catalog."""
    return PublicTask(task_id, Corpus.SPIDER, request, tuple(sorted(WORLD, reverse=True)))


class Scripted:
    """A chat model that gives the next reply of a list (the last one for ever), or what a function makes of the request."""

    def __init__(
        self, replies: list[ChatReply | str] | Callable[[ChatRequest], ChatReply], protocol: Any = "text"
    ) -> None:
        self._spec = BackendSpec(name="scripted", model="scripted/model", protocol=protocol)
        self.replies = replies
        self.requests: list[ChatRequest] = []
        self.contexts: list[CallContext] = []

    @property
    def spec(self) -> BackendSpec:
        return self._spec

    async def chat(self, request: ChatRequest, context: CallContext) -> ChatReply:
        self.requests.append(request)
        self.contexts.append(context)
        if callable(self.replies):
            return self.replies(request)
        given = self.replies[min(len(self.requests), len(self.replies)) - 1]
        key = f"call{len(self.requests)}"
        return ChatReply(CallOutcome.OK, given, call_key=key) if isinstance(given, str) else given


def action(name: str, **arguments: Any) -> str:
    return f"<ACTION>{json.dumps({'name': name, 'arguments': arguments})}</ACTION>"


def final(*databases: str, **changes: Any) -> str:
    return f"<FINAL>{json.dumps(plan(*databases, **changes))}</FINAL>"


def plan(*databases: str, **changes: Any) -> dict[str, Any]:
    """A well-formed plan for `databases` without evidence; `changes` replace top-level keys."""
    made: dict[str, Any] = {
        "selected_databases": list(databases),
        "execution_plan": {
            "topology": "single" if len(databases) == 1 else "parallel",
            "nodes": [{"database_id": d, "information_request": f"part of {d}"} for d in databases],
            "edges": [],
        },
        "evidence_ids": [],
        "confidence": 0.5,
    }
    return {**made, **changes}


def native(*calls: tuple[str, str]) -> ChatReply:
    """A native reply with tool calls (name, argument text); ids are c1, c2, …"""
    made = tuple(ToolCall(f"c{i}", name, text) for i, (name, text) in enumerate(calls, 1))
    return ChatReply(CallOutcome.OK, "", made, call_key="native")
