"""The published file formats of an agent that ran elsewhere: routes, clarification questions, SQL; reading and checking them.

JSON Lines or Parquet, one record a line or row; `formats/*.schema.json` are the JSON schemas of a record. A fault of a file (a
broken line, a key missing, twice or unknown) is an error that names it; a fault of a plan or query is the agent's and is scored.
Evidence ids are optional and not checked: they are proof only inside our own episodes. No scoring here.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from tasks_lib.routing.plan import PLAN_SCHEMA

SHOWN = 20
"""Faults told of one file; the others are counted."""


class PredictionsRefused(ValueError):
    """A file that cannot be scored; the message holds one sentence a fault."""


def _plan_schema() -> dict[str, Any]:
    plan = deepcopy(dict(PLAN_SCHEMA))
    plan["required"] = [name for name in plan["required"] if name != "evidence_ids"]
    return {"anyOf": [plan, {"type": "null"}]}


Text = Annotated[str, Field(min_length=1, max_length=200)]
Branch = Annotated[str, Field(max_length=200, description="branch whose answer was seen; empty before any answer")]


class _Line(BaseModel, ABC):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    @property
    @abstractmethod
    def key(self) -> tuple[str, ...]:
        """What identifies the record in its file."""


class RouteLine(_Line):
    """A route: one for every task (empty branch_id), and one for every branch whose answer was released."""

    format: Literal["dsabench-routes@1"]
    task_id: Text
    branch_id: Branch = ""
    plan: Annotated[
        dict[str, Any] | None,
        Field(description="route plan; null when the agent gave none"),
        WithJsonSchema(_plan_schema()),
    ]
    observed: Annotated[
        list[str] | None, Field(description="databases the agent was shown; without it no retrieval miss is told")
    ] = None
    turns: Annotated[int, Field(ge=0)] = 0
    malformed_turns: Annotated[int, Field(ge=0)] = 0

    @property
    def key(self) -> tuple[str, ...]:
        return (self.task_id, self.branch_id)


class AskLine(_Line):
    """Whether the agent asks about a task, and what; one for every task, decided before any answer."""

    format: Literal["dsabench-asks@1"]
    task_id: Text
    ask: bool
    question: Annotated[str, Field(max_length=4000)] = ""

    @property
    def key(self) -> tuple[str, ...]:
        return (self.task_id,)


class SqlLine(_Line):
    """The query for one database that a route selects; one for every selected database of every accepted route."""

    format: Literal["dsabench-sql@1"]
    task_id: Text
    branch_id: Branch = ""
    database_id: Text
    sql: Annotated[str | None, Field(description="one read-only statement; null when the agent wrote none")]

    @property
    def key(self) -> tuple[str, ...]:
        return (self.task_id, self.branch_id, self.database_id)


class AnswerLine(_Line):
    """A released answer, as `dsabench score --answers` writes it: the agent routes again with it, under this branch_id."""

    format: Literal["dsabench-answers@1"] = "dsabench-answers@1"
    task_id: Text
    branch_id: Text
    question: str
    answer: str

    @property
    def key(self) -> tuple[str, ...]:
        return (self.task_id, self.branch_id)


FORMATS: Mapping[str, type[_Line]] = {"routes": RouteLine, "asks": AskLine, "sql": SqlLine, "answers": AnswerLine}
NULLABLE = frozenset({"plan", "sql"})
Line = TypeVar("Line", bound=_Line)


def schema(name: str) -> dict[str, Any]:
    """JSON schema of one record of a format."""
    model = FORMATS[name]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **model.model_json_schema(),
        "title": f"dsabench-{name}@1",
    }


@dataclass
class Faults:
    """Faults of one file, the first SHOWN of them in words."""

    path: Path
    told: list[str]
    count: int = 0

    def add(self, sentence: str) -> None:
        self.count += 1
        if len(self.told) < SHOWN:
            self.told.append(sentence)

    def stop(self) -> None:
        """Raises PredictionsRefused when there are any."""
        if not self.count:
            return
        left = self.count - len(self.told)
        more = [f"{left} more faults are not listed."] if left else []
        head = f"{self.path} cannot be scored ({self.count} faults); see `dsabench score --schema`."
        raise PredictionsRefused("\n".join([head, *self.told, *more]))


def read_lines(path: Path, model: type[Line]) -> list[Line]:
    """Records of a file: Parquet when its name ends in `.parquet`, else JSON Lines. Raises PredictionsRefused."""
    faults = Faults(path, [])
    found: dict[tuple[str, ...], tuple[str, Line]] = {}
    for place, record in _parquet(path) if path.suffix == ".parquet" else _json_lines(path, faults):
        try:
            line = model.model_validate(record)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "the record"
            faults.add(f"{place}: {where}: {first['msg'][0].lower()}{first['msg'][1:]}.")
            continue
        if line.key in found:
            faults.add(f"{place}: key {line.key} stands already in {found[line.key][0]}, expected once; remove one.")
        else:
            found[line.key] = (place, line)
    faults.stop()
    return [line for _, line in found.values()]


def _json_lines(path: Path, faults: Faults) -> Iterable[tuple[str, Any]]:
    try:
        texts = path.read_bytes().split(b"\n")
    except OSError as error:
        raise PredictionsRefused(f"{path} cannot be read ({error.strerror}), expected JSON Lines or Parquet.") from None
    for number, raw in enumerate(texts, 1):
        if not raw.strip():
            continue
        try:
            yield f"line {number}", json.loads(raw.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
            faults.add(f"line {number}: no JSON object ({error}); write one object a line in UTF-8.")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise ValueError(f"key {twice[:80]!r} stands twice in one object")
    return dict(pairs)


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no JSON number")


def _parquet(path: Path) -> Iterable[tuple[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowInvalid) as error:
        raise PredictionsRefused(f"{path} cannot be read as Parquet ({error}); write it again.") from error
    for number, row in enumerate(rows, 1):
        # A column that a record leaves out is null in Parquet; so is a key of its plan.
        record = {name: value for name, value in row.items() if value is not None or name in NULLABLE}
        if isinstance(record.get("plan"), dict):
            record["plan"] = {name: value for name, value in record["plan"].items() if value is not None}
        yield f"row {number}", record


def check_keys(path: Path, lines: Sequence[_Line], wanted: Iterable[tuple[str, ...]], why: str) -> None:
    """The file holds exactly the wanted keys (known fault C12). Raises PredictionsRefused naming those missing and unknown."""
    faults = Faults(path, [])
    expected = frozenset(wanted)
    held = {line.key for line in lines}
    for key in sorted(expected - held):
        faults.add(f"key {key} is missing, expected {why}.")
    for key in sorted(held - expected):
        faults.add(f"key {key} is unknown, expected {why}.")
    faults.stop()


def write_lines(path: Path, lines: Iterable[_Line]) -> None:
    """Records as JSON Lines."""
    path.write_text("".join(line.model_dump_json(exclude_none=False) + "\n" for line in lines), "utf-8")


def route_line(row: Mapping[str, Any]) -> RouteLine:
    """A row of `routes` in the published format: our own routes can be handed on and scored again."""
    plan = None
    if row["valid"]:
        edges = [
            {"from": e["source"], "to": e["target"], "type": e["type"], "reason": e["reason"]} for e in row["edges"]
        ]
        plan = {
            "selected_databases": list(row["selected"]),
            "execution_plan": {"topology": row["topology"], "nodes": list(row["nodes"]), "edges": edges},
            "evidence_ids": list(row["evidence_ids"]),
            "confidence": row["confidence"],
        }
    return RouteLine(
        format="dsabench-routes@1",
        task_id=row["task_id"],
        branch_id=row["branch_id"],
        plan=plan,
        observed=list(row["observed"]),
        turns=row["turns"],
        malformed_turns=row["malformed_turns"],
    )


if __name__ == "__main__":  # writes the published schemas anew
    for _name in FORMATS:
        _file = Path(__file__).with_name("formats") / f"{_name}.schema.json"
        _file.write_text(json.dumps(schema(_name), indent=1) + "\n", "utf-8")
