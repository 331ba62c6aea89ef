"""Content-addressed Parquet artifacts with records: the record is the only truth of "done".

Writing: cast to the fixed schema, refuse nulls, NaN and duplicate keys, write under a temporary name outside every glob,
fsync, read the footer back, rename, then write the record the same way. Reading: a missing, unreadable, truncated or altered
artifact is *not done*: `ok` says False with a warning that names the key, and the stage recomputes (known faults P03, S01, S03).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import logging
import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tasks_lib.store.keys import digest
from tasks_lib.store.schemas import Table
from tasks_lib.store.settings import settings

log = logging.getLogger("dsabench.store")


class ArtifactRefused(ValueError):
    """A table that may not be published: wrong columns, nulls, NaN or duplicate keys."""


class StoreUnavailable(RuntimeError):
    """A remote store does not answer, or one cannot be written: it says nothing of what is done."""


@dataclass(frozen=True)
class Record:
    """What stands beside an artifact. `sha256` and `bytes` are of the Parquet file; `inputs` are keys or digests."""

    table: str
    stage: str
    key: str
    rows: int
    bytes: int
    sha256: str
    schema: str
    inputs: dict[str, str] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)


@functools.cache
def _schema_digest(schema: pa.Schema) -> str:
    return digest([[f.name, str(f.type), f.nullable] for f in schema])


def conform(table: Table, data: pl.DataFrame | pa.Table | Sequence[Mapping[str, Any]]) -> pa.Table:
    """`data` as an Arrow table with exactly the table's schema, or ArtifactRefused naming what is wrong.

    A sequence of mappings must hold exactly the columns of the schema; other schemas are refused, never inferred.
    """
    schema = table.schema
    if isinstance(data, pl.DataFrame):
        arrow = data.to_arrow()
    elif isinstance(data, pa.Table):
        arrow = data
    else:
        wanted = set(schema.names)
        lists = [f.name for f in schema if pa.types.is_list(f.type)]
        for i, row in enumerate(data):
            if set(row) != wanted:
                odd = sorted(set(row) ^ wanted)
                raise ArtifactRefused(
                    f"{table.stage} row {i}: expected columns {schema.names}, found a difference in {odd}."
                )
            texts = [name for name in lists if isinstance(row[name], str)]
            if texts:  # Arrow would store the letters
                raise ArtifactRefused(
                    f"{table.stage} row {i}: values of {texts} do not fit: expected lists, found text."
                )
        try:
            arrow = pa.Table.from_pylist([dict(r) for r in data], schema=schema)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise ArtifactRefused(
                f"{table.stage}: values do not fit the schema ({error}); fix the producing stage."
            ) from error
    if set(arrow.column_names) != set(schema.names):
        odd = sorted(set(arrow.column_names) ^ set(schema.names))
        raise ArtifactRefused(f"{table.stage}: expected columns {schema.names}, found a difference in {odd}.")
    for name in schema.names:  # before the cast, whose own error would not say how many
        nulls = arrow.column(name).null_count
        if nulls and name not in table.nullable:
            raise ArtifactRefused(f"{table.stage}: column {name} has {nulls} nulls, expected none.")
    try:
        arrow = arrow.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, ValueError, pa.ArrowNotImplementedError) as error:
        raise ArtifactRefused(f"{table.stage}: column types do not fit the schema ({error}).") from error
    for name in schema.names:
        column = arrow.column(name)
        if pa.types.is_floating(column.type) and len(column) and pa.compute.any(pa.compute.is_nan(column)).as_py():
            raise ArtifactRefused(
                f"{table.stage}: column {name} holds NaN, expected a number decided by rule (0/0 is stored as 0)."
            )
    if arrow.num_rows and table.key:
        frame = pl.from_arrow(arrow.select(list(table.key)))
        assert isinstance(frame, pl.DataFrame)
        repeated = frame.filter(frame.is_duplicated())
        if repeated.height:
            raise ArtifactRefused(f"{table.stage}: duplicate key {repeated.row(0)}, expected unique {table.key}.")
    return arrow


def _file_system(url: str) -> tuple[Any, str]:
    """(fsspec file system, root). `s3://` is read and written by Arrow, whose client needs no package of its own.

    Keys, region and endpoint come from the AWS_* variables.
    """
    if not url.startswith("s3://"):
        return fsspec.core.url_to_fs(url)  # type: ignore[no-any-return]
    from fsspec.implementations.arrow import ArrowFSWrapper
    from pyarrow.fs import FileSystem

    try:
        system, root = FileSystem.from_uri(url)
    except OSError as error:  # where no region is named, the bucket is asked for it
        raise _unavailable(url, error) from error
    return ArrowFSWrapper(system), root


def _unavailable(url: str, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(
        f"the artifact store {url} does not answer or refuses ({' '.join(str(error).split())}), expected a bucket that can be read and "
        "written; mend that (the AWS_* variables name endpoint and keys) and run the same command again."
    )


_SEEN: dict[str, dict[str, tuple[Any, str]]] = {}
"""By store and path: what was seen of a file (size, times, inode, mode) and its digest. One memory for all local stores of a process, since
every stage opens the store anew and would read every file again."""


class ArtifactStore:
    """Artifacts below one fsspec URL, resolved once (a relative path becomes absolute)."""

    def __init__(self, url: str | None = None) -> None:
        raw = url or settings().resolved_store_url
        self.fs, root = _file_system(raw)
        self.local = "file" in (self.fs.protocol if isinstance(self.fs.protocol, tuple) else (self.fs.protocol,))
        self.root = str(Path(root).resolve()) if self.local else root
        self.url = self.root if self.local else raw
        self._seen = _SEEN.setdefault(self.url, {}) if self.local else {}

    @contextlib.contextmanager
    def _reached(self, writing: bool = False) -> Iterator[None]:
        """An error on the way to a remote store is raised as StoreUnavailable: no artifact counts as not done because of it."""
        try:
            yield
        except OSError as error:
            if self.local or (isinstance(error, FileNotFoundError) and not writing):
                raise
            raise _unavailable(self.url, error) from error

    def path(self, table: Table, key: str) -> str:
        """Path of the Parquet file of an artifact (whether or not it exists)."""
        return f"{self.root}/{table.name}/{key}.parquet"

    def record_path(self, table: Table, key: str) -> str:
        return f"{self.root}/{table.name}/{key}.json"

    def record(self, table: Table, key: str) -> Record | None:
        """The record of an artifact, or None when there is none or it cannot be read."""
        path = self.record_path(table, key)
        try:
            with self._reached():
                data = json.loads(self.fs.cat_file(path))
            return Record(**data)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            log.warning("record of %s %s cannot be read (%s); the artifact counts as not done", table.stage, key, error)
            return None

    def _stat(self, path: str) -> tuple[Any, ...]:
        info = self.fs.info(path)
        return (info["size"], info.get("mtime"), info.get("ino"), info.get("mode"))

    def ok(self, table: Table, key: str) -> bool:
        """True when record and file are there, of this schema, and the file's sha256 is the recorded one."""
        record = self.record(table, key)
        if record is None:
            return False
        path = self.path(table, key)
        try:
            with self._reached():
                stat = self._stat(path)
                known = self._seen.get(path)
                if known is None or known[0] != stat:
                    with self.fs.open(path, "rb") as stream:
                        known = (stat, hashlib.file_digest(stream, "sha256").hexdigest())
                    self._seen[path] = known
        except OSError as error:
            log.warning("artifact %s %s cannot be read (%s); it will be recomputed", table.stage, key, error)
            return False
        # only the file's digest is remembered: the record and the asked table may differ from the last time
        good = (
            known[1] == record.sha256 and record.stage == table.stage and record.schema == _schema_digest(table.schema)
        )
        if not good:
            log.warning("artifact %s %s does not match its record; it will be recomputed", table.stage, key)
        return good

    def _put(self, path: str, data: bytes) -> None:
        """Atomic: temporary name outside the glob, fsync, rename."""
        folder = path.rsplit("/", 1)[0]
        with self._reached(writing=True):
            self.fs.makedirs(folder, exist_ok=True)
            if not self.local:
                self.fs.pipe_file(path, data)
                return
        temporary = Path(folder) / f".tmp-{uuid.uuid4().hex}"
        try:
            with open(temporary, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise StoreUnavailable(
                f"the artifact store {self.root} cannot be written ({error.strerror or error}), expected a disk with room and the right to write; "
                "mend that and run the same command again."
            ) from error

    def write(
        self,
        table: Table,
        key: str,
        data: pl.DataFrame | pa.Table | Sequence[Mapping[str, Any]],
        inputs: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> Record:
        """Publish a table under `key`. Rows are sorted by the table's key so that equal content has equal bytes.

        Raises ArtifactRefused. The file is complete and checked before the record appears.
        """
        arrow = conform(table, data)
        if arrow.num_rows:
            arrow = arrow.sort_by([(name, "ascending") for name in table.key])
        buffer = io.BytesIO()
        pq.write_table(arrow, buffer, compression="zstd")
        raw = buffer.getvalue()
        if pq.read_metadata(io.BytesIO(raw)).num_rows != arrow.num_rows:
            raise ArtifactRefused(f"{table.stage} {key}: the written file does not hold {arrow.num_rows} rows.")
        self._put(self.path(table, key), raw)
        record = Record(
            table=table.name,
            stage=table.stage,
            key=key,
            rows=arrow.num_rows,
            bytes=len(raw),
            sha256=hashlib.sha256(raw).hexdigest(),
            schema=_schema_digest(table.schema),
            inputs=dict(inputs or {}),
            params=dict(params or {}),
        )
        self._put(self.record_path(table, key), json.dumps(vars(record), sort_keys=True).encode())
        self._seen.pop(self.path(table, key), None)
        return record

    def read(self, table: Table, key: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The artifact as a Polars frame, with the fixed schema; of `columns`, in that order, where they are given.

        Only those columns are read from the file. Raises FileNotFoundError when it is not done, ArtifactRefused for a column that
        the table does not have.
        """
        if strange := [c for c in columns or () if c not in table.schema.names]:
            raise ArtifactRefused(
                f"{table.stage} has no columns {strange}, expected some of {table.schema.names}; ask for those."
            )
        if not self.ok(table, key):
            raise FileNotFoundError(f"{table.stage} {key} is not done in {self.root}; run the stage that makes it.")
        with self._reached(), self.fs.open(self.path(table, key), "rb") as stream:
            arrow = pq.read_table(stream, schema=table.schema, columns=None if columns is None else list(columns))
        frame = pl.from_arrow(arrow)
        assert isinstance(frame, pl.DataFrame)
        return frame

    @contextlib.contextmanager
    def files(self, table: Table, keys: Iterable[str]) -> Iterator[list[str]]:
        """Paths on this machine of artifacts' Parquet files; those of a remote store are copied while they are used."""
        paths = [self.path(table, key) for key in keys]
        if self.local:
            yield paths
            return
        with tempfile.TemporaryDirectory(prefix="dsabench-") as folder:
            copies = [f"{folder}/{path.rsplit('/', 1)[-1]}" for path in paths]
            for path, copy in zip(paths, copies, strict=True):
                with self._reached():
                    data = self.fs.cat_file(path)
                Path(copy).write_bytes(data)
            yield copies

    def committed(self, table: Table) -> list[str]:
        """Keys whose artifact is ok. Torn, empty or unrecorded files are left out; temporary ones are removed."""
        folder = f"{self.root}/{table.name}"
        with self._reached():
            if not self.fs.exists(folder):
                return []
            paths = sorted(self.fs.ls(folder, detail=False))
        keys = []
        for path in paths:
            name = path.rsplit("/", 1)[-1]
            if name.startswith(".tmp-"):
                with contextlib.suppress(FileNotFoundError):
                    self.fs.rm_file(path)
            elif name.endswith(".parquet") and self.ok(table, name.removesuffix(".parquet")):
                keys.append(name.removesuffix(".parquet"))
        return keys


def read_file(table: Table, path: Path | str) -> pl.DataFrame:
    """A table kept outside the store (a release folder), read with its fixed schema.

    Raises ArtifactRefused naming the path when the file is missing, damaged or of another schema.
    """
    try:
        arrow = pq.read_table(path)
    except FileNotFoundError as error:
        raise ArtifactRefused(
            f"{path} is missing; expected table {table.stage} there; build the release again."
        ) from error
    except (OSError, pa.ArrowInvalid) as error:
        raise ArtifactRefused(
            f"{path} cannot be read as Parquet ({error}); expected table {table.stage}; build the release again."
        ) from error
    frame = pl.from_arrow(conform(table, arrow))
    assert isinstance(frame, pl.DataFrame)
    return frame


def write_file(table: Table, path: Path, data: pl.DataFrame | pa.Table | Sequence[Mapping[str, Any]]) -> str:
    """Write a table outside the store (sorted by its key, atomic); returns the file's sha256."""
    arrow = conform(table, data)
    if arrow.num_rows:
        arrow = arrow.sort_by([(name, "ascending") for name in table.key])
    buffer = io.BytesIO()
    pq.write_table(arrow, buffer, compression="zstd")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".tmp-{uuid.uuid4().hex}"
    temporary.write_bytes(buffer.getvalue())
    os.replace(temporary, path)
    return hashlib.sha256(buffer.getvalue()).hexdigest()
