"""A ledger's items as one Parquet file and back, so that published outputs can be scored again without a key.

Lossless both ways. What an item means belongs to its kind; here an item is bytes under a key, and a blob is bytes under its sha256.
The file holds prompts and answers as they were, privileged ones included: it is as private as the ledger.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from tasks_lib.store.keys import sha256_bytes
from tasks_lib.store.ledgers import Ledger, blobs, items

FORMAT = "dsabench-ledger@1"
SCHEMA = pa.schema(
    [
        pa.field("record", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("data", pa.large_binary(), nullable=False),
        pa.field("meta", pa.string(), nullable=False),
        pa.field("attempt", pa.int64(), nullable=False),
        pa.field("run", pa.string(), nullable=False),
        pa.field("completed", pa.float64(), nullable=False),
    ],
    metadata={b"format": FORMAT.encode()},
)
"""`record`: item | blob. Of a blob only `key` (its sha256) and `data` are set."""
PART = 500


class LedgerFileRefused(ValueError):
    """The file is no ledger export, is damaged, or holds another result for an item that the ledger has."""


def export_ledger(ledger: Ledger, out: Path, kinds: Sequence[str], run: str | None = None) -> dict[str, int]:
    """Write completed items of `kinds` (of one run when given) with every blob they name; {items, blobs} written.

    Items in key order, so equal ledgers give equal files. A payload's digests that name no blob (of templates) are left out.
    """
    counts = {"items": 0, "blobs": 0}
    named: set[str] = set()
    part = out.with_name(out.name + ".part")
    with pq.ParquetWriter(part, SCHEMA, compression="zstd") as writer:
        for rows in _parts(_items(ledger, kinds, run)):
            named |= {name for row in rows for name in _names(row["data"])}
            counts["items"] += len(rows)
            writer.write_table(pa.Table.from_pylist(rows, SCHEMA))
        known = sorted(named & _held(ledger, named))
        for start in range(0, len(known), PART):
            found = ledger.blobs_of(known[start : start + PART])
            writer.write_table(pa.Table.from_pylist([_blob_row(k, v) for k, v in found.items()], SCHEMA))
            counts["blobs"] += len(found)
    part.replace(out)
    return counts


def import_ledger(ledger: Ledger, source: Path) -> dict[str, int]:
    """Add the items and blobs of a file; {items, already_there, blobs}. Nothing that the ledger holds is overwritten.

    All or nothing: raises LedgerFileRefused, and adds nothing, when the file is no export, a blob is not what its name says, or an
    item differs from the one of the same key.
    """
    try:
        table = pq.read_table(source)
    except (pa.ArrowException, OSError) as error:
        raise LedgerFileRefused(
            f"{source} cannot be read as Parquet ({error}), expected a file of `dsabench ledger export`; export it again."
        ) from error
    if (table.schema.metadata or {}).get(b"format") != FORMAT.encode() or not table.schema.equals(SCHEMA):
        raise LedgerFileRefused(f"{source} has another layout than {FORMAT}; export it again with this version.")
    counts = {"items": 0, "already_there": 0, "blobs": 0}
    with ledger.engine.begin() as connection:
        for batch in table.to_batches(PART):
            rows = batch.to_pylist()
            counts["blobs"] += _add_blobs(connection, [r for r in rows if r["record"] == "blob"], source)
            added, there = _add_items(connection, [r for r in rows if r["record"] == "item"], source)
            counts["items"] += added
            counts["already_there"] += there
    return counts


def _items(ledger: Ledger, kinds: Sequence[str], run: str | None) -> Iterator[dict[str, Any]]:
    query = sa.select(items).where(items.c.kind.in_(kinds), items.c.state == "done").order_by(items.c.key)
    if run is not None:
        query = query.where(items.c.run.startswith(run, autoescape=True))
    with ledger.engine.connect() as connection:
        for row in connection.execution_options(yield_per=PART).execute(query):
            yield {
                "record": "item",
                "key": row.key,
                "kind": row.kind,
                "outcome": row.outcome,
                "data": bytes(row.payload),
                "meta": row.meta,
                "attempt": row.attempt,
                "run": row.run,
                "completed": row.completed,
            }


def _parts(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    part: list[dict[str, Any]] = []
    for row in rows:
        part.append(row)
        if len(part) == PART:
            yield part
            part = []
    if part:
        yield part


def _names(payload: bytes) -> set[str]:
    """Every string of a JSON payload that could name a blob: 64 characters long."""
    found: set[str] = set()
    try:
        waiting: list[Any] = [json.loads(payload)]
    except ValueError:
        return found  # a payload that is no JSON names none
    while waiting:
        value = waiting.pop()
        if isinstance(value, str) and len(value) == 64:
            found.add(value)
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return found


def _held(ledger: Ledger, names: Iterable[str]) -> set[str]:
    wanted = sorted(names)
    found: set[str] = set()
    with ledger.engine.connect() as connection:
        for start in range(0, len(wanted), PART):
            query = sa.select(blobs.c.digest).where(blobs.c.digest.in_(wanted[start : start + PART]))
            found |= {row.digest for row in connection.execute(query)}
    return found


def _blob_row(name: str, data: bytes) -> dict[str, Any]:
    empty = {"kind": "", "outcome": "", "meta": "", "attempt": 0, "run": "", "completed": 0.0}
    return {"record": "blob", "key": name, "data": data, **empty}


def _add_blobs(connection: sa.Connection, rows: Sequence[dict[str, Any]], source: Path) -> int:
    for row in rows:
        if sha256_bytes(row["data"]) != row["key"]:
            raise LedgerFileRefused(
                f"{source} is damaged: blob {row['key'][:12]}… has another content than its name says; nothing was imported."
            )
    names = [row["key"] for row in rows]
    there = {r.digest for r in connection.execute(sa.select(blobs.c.digest).where(blobs.c.digest.in_(names)))}
    fresh = [{"digest": row["key"], "data": row["data"]} for row in rows if row["key"] not in there]
    if fresh:
        connection.execute(blobs.insert(), fresh)
    return len(fresh)


def _add_items(connection: sa.Connection, rows: Sequence[dict[str, Any]], source: Path) -> tuple[int, int]:
    """(added, already there)."""
    query = sa.select(items).where(items.c.key.in_([row["key"] for row in rows]))
    there = {row.key: row for row in connection.execute(query)}
    fresh = []
    for row in rows:
        mine = there.get(row["key"])
        if mine is not None and mine.state == "done":
            if (mine.kind, mine.outcome, bytes(mine.payload)) != (row["kind"], row["outcome"], row["data"]):
                raise LedgerFileRefused(
                    f"{source} holds another {row['kind']} for {row['key'][:12]}… than the ledger, expected the same or none; nothing "
                    "was imported, use an empty home (DSABENCH_HOME) for it."
                )
            continue
        if mine is not None:
            connection.execute(items.delete().where(items.c.key == row["key"]))  # leased or free: not done, so replaced
        fresh.append(
            {
                "key": row["key"],
                "kind": row["kind"],
                "state": "done",
                "owner": "imported",
                "attempt": row["attempt"],
                "expires": 0.0,
                "run": row["run"],
                "outcome": row["outcome"],
                "payload": row["data"],
                "meta": row["meta"],
                "completed": row["completed"],
            }
        )
    if fresh:
        connection.execute(items.insert(), fresh)
    return len(fresh), len(rows) - len(fresh)
