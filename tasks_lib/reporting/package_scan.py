"""PRIVATE. What a publication package must not hold: physical names, gold, unit ids, paths of this machine, keys.

Every text of every file is read, the cells of Parquet and CSV tables each by itself; does not belong here: what a package holds.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks_lib.evaluation.leaks import Scanner
from tasks_lib.protocol.vocabulary import Audience

WATCHED = frozenset({"path", "physical_name", "unit_id", "gold_sql"})
"""Kinds of finding that count here. Field names of the private side are labels to a router only: outcomes are told by them."""
OWN_NAMES = frozenset({".parquet"})
"""Endings of our own file names in the manifest; a path of a machine is found by its folders as well."""
SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIALS")
SHORTEST_SECRET = 8
BATCH = 4096
"""Rows of a Parquet table at a time."""
BORDER, TOGETHER = "\ncellborderzqx\n", 5000
"""Cells are scanned many at a time, with a word between them that no gold query holds, so that nothing is found across two."""


@dataclass(frozen=True, slots=True)
class Leak:
    """One thing that may not be published. `file`: in the package; `excerpt`: what stands around it, empty for a secret."""

    file: str
    kind: str
    excerpt: str

    def __str__(self) -> str:
        around = f" (… {self.excerpt} …)" if self.excerpt else ""
        return f"{self.file} holds a {self.kind.replace('_', ' ')}{around}"


def secrets_of(environment: Mapping[str, str], held: Iterable[str] = ()) -> tuple[str, ...]:
    """Values that look like credentials by the name of their variable, and those given."""
    named = [
        value
        for name, value in environment.items()
        if any(part in name.upper().split("_") for part in SECRET_NAMES) and len(value) >= SHORTEST_SECRET
    ]
    return tuple(sorted({*named, *(h for h in held if h)}))


def leaks_in(folder: Path, scanner: Scanner, secrets: Iterable[str], places: Iterable[str]) -> list[Leak]:
    """Everything in the files of `folder` that may not be published; a text is told of in the first file that holds it.

    `places`: folders of this machine.
    """
    found: list[Leak] = []
    known: set[str] = set()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        texts = [text for text in texts_of(path) if text not in known]
        known.update(texts)
        for start in range(0, len(texts), TOGETHER):
            text = BORDER.join(texts[start : start + TOGETHER])
            found += [Leak(name, kind, excerpt) for kind, excerpt in _findings(text, scanner, secrets, places)]
    return list(dict.fromkeys(found))


def _findings(text: str, scanner: Scanner, secrets: Iterable[str], places: Iterable[str]) -> Iterator[tuple[str, str]]:
    yield from (("secret", "") for secret in secrets if secret in text)
    yield from (("path", place) for place in places if place in text)
    for finding in scanner.scan(text, Audience.ROUTER, ()):
        if finding.kind in WATCHED and finding.found not in OWN_NAMES:
            yield finding.kind, " ".join(finding.excerpt.replace(BORDER.strip(), " ").split())


def texts_of(path: Path) -> Iterator[str]:
    """The texts of a file: distinct cells of a table, which is read a part at a time, else the whole."""
    if path.suffix == ".parquet":
        yield from _distinct(_cells_of_parquet(path))
    elif ".csv" in path.suffixes:
        yield from _distinct(_cells_of_csv(path))
    elif path.suffix == ".json":
        yield from _distinct(_flat(json.loads(path.read_text("utf-8"))))
    else:
        yield path.read_text("utf-8")


def _distinct(texts: Iterable[str]) -> Iterator[str]:
    seen = {""}
    for text in texts:
        if text not in seen:
            seen.add(text)
            yield text


def _cells_of_parquet(path: Path) -> Iterator[str]:
    """Every text; columns without any, such as vectors, are not read."""
    with pq.ParquetFile(path) as file:
        names = [field.name for field in file.schema_arrow if _holds_text(field.type)]
        for batch in file.iter_batches(BATCH, columns=names) if names else ():
            for column in batch.columns:
                yield from _flat(column.to_pylist())


def _holds_text(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind) or pa.types.is_struct(kind):
        return any(_holds_text(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _cells_of_csv(path: Path) -> Iterator[str]:
    with (
        gzip.open(path, "rt", encoding="utf-8", newline="")
        if path.suffix == ".gz"
        else path.open("r", encoding="utf-8", newline="") as stream
    ):
        for row in csv.reader(stream):
            yield from row


def _flat(value: Any) -> Iterator[str]:
    """Every text in a value of lists and mappings, keys too."""
    if isinstance(value, str):
        if value:
            yield value
    elif isinstance(value, Mapping):
        for key, held in value.items():
            yield from _flat(key)
            yield from _flat(held)
    elif isinstance(value, list | tuple):
        for held in value:
            yield from _flat(held)
