"""PRIVATE. What a publication package must not hold: physical names, gold, unit ids, paths of this machine, keys.

Every text of every file is read, the cells of Parquet and CSV tables each by itself; does not belong here: what a package holds.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from tasks_lib.evaluation.leaks import Scanner
from tasks_lib.protocol.vocabulary import Audience

WATCHED = frozenset({"path", "physical_name", "unit_id", "gold_sql"})
"""Kinds of finding that count here. Field names of the private side are labels to a router only: outcomes are told by them."""
OWN_NAMES = frozenset({".parquet"})
"""Endings of our own file names in the manifest; a path of a machine is found by its folders as well."""
SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIALS")
SHORTEST_SECRET = 8
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
    """The texts of a file: distinct cells of a table, else the whole."""
    if path.suffix == ".parquet":
        for column in pq.read_table(path).columns:
            yield from dict.fromkeys(_flat(column.to_pylist()))
        return
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if ".csv" in path.suffixes:
        frame = pl.read_csv(io.BytesIO(data), infer_schema=False)
        yield "\n".join(frame.columns)
        for series in frame:
            yield from (cell for cell in series.unique(maintain_order=True).to_list() if cell)
        return
    text = data.decode("utf-8")
    if path.suffix == ".json":
        yield from dict.fromkeys(_flat(json.loads(text)))
        return
    yield text


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
