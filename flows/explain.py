"""Where a cell's numbers come from: every layer with its key, its inputs and where it stands, and against the code, prompts and
comparators of today, which field of which key would change and so what a run would do again.

The fields of keys are kept beside a run's record (`keys.json`), since a digest cannot be asked. Nothing here runs anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from flows import runs
from flows.runtime import write_json
from flows.wanted import RunSpec, cell_key, chain_keys
from tasks_lib.protocol.vocabulary import Planner
from tasks_lib.scoring.cells import UnknownCell, parse
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.keys import KeyFields, code_files, noted_keys
from tasks_lib.store.schemas import TABLES, Table
from tasks_lib.store.settings import settings

CELL = "cell"
TABLES_OF = {
    "cell": ("episodes", "metrics"),
    "clarified_routes": ("routes",),
    "rescored_contributions": ("contributions",),
}
"""Tables of a stage whose name is not its table's."""
MAKES = {"contributions": "verdicts", "cell": "episodes and metrics"}
SCORED = {"cell"}
JUDGED = {"contributions", "verdicts", *SCORED}
"""Stages in which a changed comparator alone is answered from what is stored."""
JUDGES = ("tasks_lib/sql/comparators.py",)


@dataclass(frozen=True)
class Change:
    """One field of a key that would be another today. `field`: such as `comparators.spider` or `code tasks_lib/sql/guard.py`."""

    field: str
    before: str
    after: str


@dataclass(frozen=True)
class Layer:
    """One artifact of a lineage. `inputs`: key or digest by name. `state`: done | missing. `today`: its key now, "" for no such layer.

    `changes`: its own fields that differ; a key that differs without any rests on a layer that would run `again`.
    """

    name: str
    stage: str
    key: str
    state: str
    rows: int | None
    inputs: Mapping[str, str]
    today: str
    changes: tuple[Change, ...]

    @property
    def again(self) -> bool:
        return bool(self.today) and (self.key != self.today or self.state == "missing")


@dataclass(frozen=True)
class Known:
    """Fields by key and files by code digest, of one moment."""

    keys: Mapping[str, KeyFields]
    code: Mapping[str, Mapping[str, str]]


class _Recorded(BaseModel):
    """A run's `keys.json`."""

    cells: dict[str, str]
    keys: dict[str, KeyFields]
    code: dict[str, dict[str, str]]


def known_of(noted: Mapping[str, KeyFields]) -> Known:
    """What keys that this process built were made of."""
    codes = sorted({f.params["code"] for f in noted.values() if "code" in f.params})
    return Known(noted, {code: code_files(code) for code in codes})


def save_keys(
    run_id: str, cells: Mapping[str, str], noted: Mapping[str, KeyFields], older: Known | None = None
) -> None:
    """Keep the fields of a run's keys beside its record. `cells`: key by cell id; `noted`: fields of every key they rest on.

    `older`: fields recorded before, of layers that stay as they were.
    """
    now = known_of(noted)
    keys = {**(older.keys if older else {}), **now.keys}
    write_json(
        runs.run_folder(run_id) / "keys.json",
        {
            "cells": dict(cells),
            "keys": {key: asdict(fields) for key, fields in keys.items()},
            "code": {**(older.code if older else {}), **now.code},
        },
    )


def recorded(run_id: str) -> tuple[Known, Mapping[str, str]]:
    """(fields of a run's keys, key by cell id). Raises RunUnknown."""
    path = runs.run_folder(run_id) / "keys.json"
    try:
        held = _Recorded.model_validate_json(path.read_bytes())
        return Known(held.keys, held.code), held.cells
    except FileNotFoundError:
        raise runs.RunUnknown(
            f"{path} is missing, expected the fields of the run's keys; start the run again to record them, what is done stays done."
        ) from None
    except ValidationError as error:
        raise runs.RunUnknown(
            f"{path} cannot be read ({runs.first_of(error)}); delete it and start the run again."
        ) from error


def lineage(run_id: str, cell_id: str) -> list[Layer]:
    """Every layer a cell of a recorded run rests on, inputs first, the cell last. Raises RunUnknown, UnknownCell, KeyError."""
    spec, record = runs.load(run_id)
    cell = parse(cell_id)
    known, cells = recorded(spec.run_id)
    key = record.get("cell_keys", {}).get(cell_id) or cells.get(cell_id)
    if key is None:
        raise UnknownCell(
            f"cell {cell_id!r} is not in run {spec.run_id}, expected a backend among {[b.name for b in spec.backends]}."
        )
    if key not in known.keys:
        raise runs.RunUnknown(
            f"{runs.run_folder(spec.run_id) / 'keys.json'} does not hold key {key[:12]} of {cell_id}; start the run again to record it."
        )
    with noted_keys() as noted:
        now = cell_key(spec, cell, chain_keys(spec, spec.backend(cell.backend), cell.router))
    today = known_of(noted)
    store = ArtifactStore(settings().resolved_store_url)
    found: dict[str, Layer] = {}
    _walk(CELL, key, now, known, today, store, found)
    return list(found.values())


def changed_fields(run: RunSpec) -> dict[str, list[str]]:
    """Fields of keys that a run of today would change in the recorded run of the same id, by layer; none for a run not recorded."""
    try:
        _, cells = recorded(run.run_id)
        known = [cell for name in cells if (cell := parse(name)).planner is Planner.LLM]
        points = {(cell.backend, cell.router, cell.data_agent): cell.cell_id for cell in known}
        layers = [layer for cell_id in points.values() for layer in lineage(run.run_id, cell_id)]
    except runs.RunUnknown:
        return {}
    found: dict[str, list[str]] = {}
    for layer in layers:
        for change in layer.changes:
            fields = found.setdefault(MAKES.get(layer.name, layer.name), [])
            if change.field not in fields:
                fields.append(change.field)
    return found


def _walk(
    name: str, key: str, now: str, known: Known, today: Known, store: ArtifactStore, found: dict[str, Layer]
) -> None:
    """Append a layer after the layers it rests on. An input that is no known key (a release) is a field, not a layer."""
    fields, new = known.keys[key], today.keys.get(now)
    changes: list[Change] = []
    for upstream, value in fields.inputs.items():
        after = new.inputs.get(upstream, "") if new else ""
        if value in known.keys:
            if upstream not in found:
                _walk(upstream, value, after, known, today, store, found)
        elif new and value != after:
            changes.append(Change(upstream, value[:12], after[:12] or "none"))
    if new and fields.stage.split("@")[0] != new.stage.split("@")[0]:  # judged anew under a key of its own
        changes = [Change("stage", fields.stage, new.stage)]
    elif new:
        changes += [Change(u, "none", k[:12]) for u, k in new.inputs.items() if u not in fields.inputs]
        if fields.stage != new.stage:
            changes.append(Change("stage", fields.stage, new.stage))
        changes += _changed(fields.params, new.params, known.code, today.code)
    tables = tables_of(fields.stage)
    done = all(store.ok(table, key) for table in tables)
    kept = store.record(tables[0], key) if done else None
    found[name] = Layer(
        name,
        fields.stage,
        key,
        "done" if done else "missing",
        kept.rows if kept else None,
        fields.inputs,
        now,
        tuple(changes),
    )


def tables_of(stage: str) -> list[Table]:
    """The tables an artifact of a stage (`name@version`) is made of."""
    name = stage.split("@")[0]
    return [TABLES[table] for table in TABLES_OF.get(name, (name,))]


def _changed(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    old: Mapping[str, Mapping[str, str]],
    new: Mapping[str, Mapping[str, str]],
) -> Iterator[Change]:
    """Fields of `params` that differ; a code digest is taken apart into its files."""
    for name in dict.fromkeys([*before, *after]):
        a, b = before.get(name), after.get(name)
        if a == b:
            continue
        if name == "code":
            yield from _leaves("code", old.get(str(a), {}), new.get(str(b), {}), " ")
        elif isinstance(a, dict) and isinstance(b, dict):
            yield from _leaves(name, a, b, ".")
        else:
            yield Change(name, "none" if a is None else str(a), "none" if b is None else str(b))


def _leaves(name: str, a: Mapping[str, Any], b: Mapping[str, Any], joint: str) -> Iterator[Change]:
    for leaf in sorted({*a, *b}):
        if a.get(leaf) != b.get(leaf):
            yield Change(f"{name}{joint}{leaf}", str(a.get(leaf, "none"))[:12], str(b.get(leaf, "none"))[:12])


def judges(field: str) -> bool:
    """Whether a field of a key decides verdicts alone: a comparator's version or its code."""
    return field.startswith("comparators.") or field.removeprefix("code ") in JUDGES


def only_judged(before: str, after: str, known: Known, today: Known) -> bool:
    """Whether two keys differ in nothing but what decides verdicts. False when the fields of the first were not recorded."""
    if before not in known.keys or known.keys[before].inputs != today.keys[after].inputs:
        return False
    old, new = known.keys[before], today.keys[after]
    changes = _changed(old.params, new.params, known.code, today.code)
    return old.stage == new.stage and all(judges(c.field) for c in changes)


def consequence(layers: list[Layer]) -> str:
    """One sentence: what would run again, and which calls and executions that can take."""
    again = [layer for layer in layers if layer.again]
    if not again:
        return "nothing would run again"
    names = ", ".join(MAKES.get(layer.name, layer.name) for layer in again)
    changes = [(layer.name, c.field) for layer in again for c in layer.changes]
    lost = [layer.name for layer in again if layer.state == "missing" and layer.name not in SCORED]
    judged = all(name in SCORED or (name in JUDGED and judges(f)) for name, f in changes)
    if judged and not lost:
        text = "no model call; no SQL execution"
        if any(name not in SCORED for name, _ in changes):
            text += ", unless another verdict of an upstream query binds other values (`dsabench rescore` proves that none does)"
    else:
        text = (
            "a model call is made only where what is asked is not stored yet, a SQL execution only where the query, its values or "
            "its database are new"
        )
        prompts = sorted({f.removeprefix("code ") for _, f in changes if "/prompts/" in f})
        if prompts:
            text += f"; changed prompts, whose calls are all new: {', '.join(prompts)}"
    return f"would run again: {names}; {text}"


def explained(run_id: str, cell_id: str) -> dict[str, Any]:
    """The fields of `dsabench explain --json`, with the same as `text`."""
    layers = lineage(run_id, cell_id)
    spec, _ = runs.load(run_id)
    verdict = consequence(layers)
    lines = [f"cell {cell_id} of {spec.run_id}, the layers it rests on:"]
    for layer in layers:
        rows = f"{layer.rows} rows" if layer.rows is not None else "no rows"
        rests = ", ".join(f"{name} {key[:12]}" for name, key in layer.inputs.items())
        lines.append(f"  {layer.name}: {layer.stage} {layer.key[:12]}, {layer.state}, {rows}; from {rests}")
        lines += [f"    {c.field}: {c.before} → {c.after}" for c in layer.changes]
        if layer.again and layer.key != layer.today and not layer.changes:
            moved = [n for n in layer.inputs if any(o.name == n and o.key != o.today for o in layers)]
            lines.append(f"    rests on {', '.join(moved)}")
    return {
        "run": spec.run_id,
        "cell": cell_id,
        "status": "explained",
        "layers": [{**asdict(layer), "again": layer.again} for layer in layers],
        "again": [layer.name for layer in layers if layer.again],
        "consequence": verdict,
        "text": "\n".join([*lines, verdict]),
    }
