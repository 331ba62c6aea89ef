"""Artifacts: only whole, recorded, unaltered files are done (P03, S03); one fixed schema (S01); nothing undecided (S06)."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks_lib.store import artifacts
from tasks_lib.store.artifacts import ArtifactRefused, ArtifactStore, StoreUnavailable, conform
from tasks_lib.store.schemas import BOOL, INT, REAL, STR, STRS, Table

CELLS = Table(
    "cells_seen",
    1,
    "Cells with an optional error.",
    [("cell", STR, "cell"), ("error", STR, "error or null"), ("tags", STRS, "tags")],
    ("cell",),
    nullable=frozenset({"error"}),
)
SCORES = Table(
    "scores",
    1,
    "Scores.",
    [("task", STR, "task"), ("trial", INT, "trial"), ("score", REAL, "score"), ("verdict", BOOL, "verdict")],
    ("task", "trial"),
)
A = {"cell": "c1", "error": None, "tags": []}
B = {"cell": "c2", "error": "boom", "tags": ["x"]}


def _score(task: str, score: float | None = 0.5, verdict: bool | None = True, trial: int = 0) -> dict[str, Any]:
    return {"task": task, "trial": trial, "score": score, "verdict": verdict}


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(str(tmp_path / "store"))


def test_write_then_read(store: ArtifactStore) -> None:
    record = store.write(SCORES, "k", [_score("t2"), _score("t1")], {"tasks": "d"}, {"seed": 1})
    assert store.ok(SCORES, "k")
    assert store.record(SCORES, "k") == record
    assert (record.rows, record.stage, record.inputs, record.params) == (2, "scores@1", {"tasks": "d"}, {"seed": 1})
    frame = store.read(SCORES, "k")
    assert frame["task"].to_list() == ["t1", "t2"]
    assert frame.schema == {"task": pl.String, "trial": pl.Int64, "score": pl.Float64, "verdict": pl.Boolean}
    assert store.committed(SCORES) == ["k"]


def test_some_columns_are_read_in_the_order_asked(store: ArtifactStore) -> None:
    store.write(SCORES, "k", [_score("t2"), _score("t1")])
    some = store.read(SCORES, "k", ["score", "task"])
    assert some.schema == {"score": pl.Float64, "task": pl.String}
    assert some.equals(store.read(SCORES, "k").select("score", "task"))
    with pytest.raises(ArtifactRefused, match=r"no columns \['points'\]"):
        store.read(SCORES, "k", ["task", "points"])
    with pytest.raises(FileNotFoundError, match="not done"):
        store.read(SCORES, "other", ["task"])


def test_equal_rows_in_any_order_have_equal_bytes(store: ArtifactStore) -> None:
    one = store.write(SCORES, "a", [_score("t1"), _score("t2"), _score("t2", trial=1)])
    two = store.write(SCORES, "b", [_score("t2", trial=1), _score("t2"), _score("t1")])
    assert one.sha256 == two.sha256


def test_damage_is_not_done_and_names_the_key(store: ArtifactStore, caplog: pytest.LogCaptureFixture) -> None:
    """Known fault P03: one deleted, one truncated, one unreadable; the others stay done."""
    keys = [f"k{n}" for n in range(6)]
    calls: list[str] = []

    def work() -> pl.DataFrame:
        for key in keys:
            if not store.ok(SCORES, key):
                calls.append(key)
                store.write(SCORES, key, [_score(key)])
        return pl.concat([store.read(SCORES, key) for key in keys])

    before = work()
    assert calls == keys
    calls.clear()
    os.unlink(store.path(SCORES, "k1"))
    os.truncate(store.path(SCORES, "k3"), 40)
    unreadable = store.path(SCORES, "k4")
    if os.geteuid() == 0:  # root reads everything: a folder in the file's place cannot be read by anyone
        os.unlink(unreadable)
        os.mkdir(unreadable)
    else:
        os.chmod(unreadable, 0)
    with caplog.at_level(logging.WARNING):
        assert [key for key in keys if not store.ok(SCORES, key)] == ["k1", "k3", "k4"]
    assert all(any(f" {key} " in line for line in caplog.messages) for key in ("k1", "k3", "k4"))
    if os.geteuid() == 0:
        os.rmdir(unreadable)
    assert work().equals(before)
    assert calls == ["k1", "k3", "k4"]


def test_an_altered_file_of_the_same_size_is_not_done(store: ArtifactStore) -> None:
    store.write(SCORES, "k", [_score("t")])
    assert store.ok(SCORES, "k")
    path = Path(store.path(SCORES, "k"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    stat = path.stat()
    path.write_bytes(bytes(data))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1_000_000_000))
    assert not store.ok(SCORES, "k")
    with pytest.raises(FileNotFoundError, match="not done"):
        store.read(SCORES, "k")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"table": "scores"}'])
def test_a_damaged_record_is_not_done(store: ArtifactStore, text: str) -> None:
    store.write(SCORES, "k", [_score("t")])
    assert store.ok(SCORES, "k")
    Path(store.record_path(SCORES, "k")).write_text(text)
    assert not store.ok(SCORES, "k")


def test_a_record_of_other_bytes_is_not_done_though_the_file_was_fine(store: ArtifactStore) -> None:
    store.write(SCORES, "k", [_score("t")])
    assert store.ok(SCORES, "k")
    path = Path(store.record_path(SCORES, "k"))
    path.write_text(json.dumps({**json.loads(path.read_text()), "sha256": "0" * 64}))
    assert not store.ok(SCORES, "k")


def test_a_new_version_of_a_table_is_not_done(store: ArtifactStore) -> None:
    store.write(SCORES, "k", [_score("t")])
    newer = replace(SCORES, version=2)
    wider = replace(SCORES, columns=[*SCORES.columns, ("more", STR, "more")])
    assert store.ok(SCORES, "k")
    assert not store.ok(newer, "k")
    assert not store.ok(wider, "k")


def test_torn_empty_and_temporary_files_are_left_out(store: ArtifactStore) -> None:
    """Known fault S03."""
    store.write(SCORES, "good", [_score(f"t{n:04}") for n in range(1000)])
    folder = Path(store.path(SCORES, "good")).parent
    whole = (folder / "good.parquet").read_bytes()
    (folder / "torn.parquet").write_bytes(whole[: len(whole) // 2])
    shutil.copy(folder / "good.json", folder / "torn.json")
    (folder / "zero.parquet").write_bytes(b"")
    (folder / ".tmp-123").write_bytes(whole)
    assert store.committed(SCORES) == ["good"]
    assert store.read(SCORES, "good").height == 1000
    assert not (folder / ".tmp-123").exists()


def test_a_crash_before_the_rename_leaves_the_old_file(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write(SCORES, "k", [_score("old")])

    def crash(source: str, target: str) -> None:
        raise OSError("power cut")

    with monkeypatch.context() as patched:
        patched.setattr(artifacts.os, "replace", crash)
        with pytest.raises(StoreUnavailable, match="power cut"):
            store.write(SCORES, "k", [_score("new")])
    assert store.read(SCORES, "k")["task"].to_list() == ["old"]


def test_null_and_empty_columns_keep_their_types_in_every_reader(store: ArtifactStore) -> None:
    """Known fault S01."""
    for key, row in (("a", A), ("b", B)):
        store.write(CELLS, key, [row])
    paths = [store.path(CELLS, key) for key in ("a", "b")]
    for path in paths:
        assert pq.read_schema(path).equals(CELLS.schema)
    wanted = [("c1", None, []), ("c2", "boom", ["x"])]
    for order in (paths, paths[::-1]):
        assert sorted(pl.scan_parquet(order).collect().rows()) == wanted
        rows = duckdb.sql(f"SELECT * FROM read_parquet({order!r})").fetchall()
        assert sorted(rows) == wanted


def test_other_schemas_are_refused_at_write_time(store: ArtifactStore) -> None:
    with pytest.raises(ArtifactRefused, match="tags"):
        store.write(CELLS, "k", [{"cell": "c", "error": None}])
    with pytest.raises(ArtifactRefused, match="extra"):
        store.write(CELLS, "k", [{**A, "extra": 1}])
    with pytest.raises(ArtifactRefused, match="do not fit"):
        store.write(CELLS, "k", [{**A, "tags": "x"}])
    with pytest.raises(ArtifactRefused, match="do not fit"):
        conform(SCORES, pl.DataFrame([_score("t")]).with_columns(score=pl.lit("high")))
    with pytest.raises(ArtifactRefused, match="do not fit"):
        conform(SCORES, pl.DataFrame([_score("t")]).with_columns(trial=pl.lit(0.5)))
    with pytest.raises(ArtifactRefused, match="score"):
        conform(SCORES, pl.DataFrame([_score("t")]).drop("score"))
    with pytest.raises(ArtifactRefused, match="more"):
        conform(SCORES, pa.Table.from_pylist([{**_score("t"), "more": 1}]))
    assert not store.ok(CELLS, "k")


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ([_score("t1"), _score("t2", float("nan"))], "score holds NaN"),
        ([_score("t1"), _score("t2", verdict=None)], "verdict has 1 null"),
        ([_score("t1"), _score("t2", None)], "score has 1 null"),
        ([_score("t1"), _score("t1", 0.1)], "duplicate key"),
    ],
)
def test_undecided_values_are_refused(store: ArtifactStore, rows: list[Mapping[str, Any]], named: str) -> None:
    """Known fault S06; as rows and as a frame."""
    for data in (rows, pl.DataFrame(rows)):
        with pytest.raises(ArtifactRefused, match=named):
            store.write(SCORES, "k", data)
    assert not store.ok(SCORES, "k")


def test_an_empty_table_keeps_its_schema(store: ArtifactStore) -> None:
    store.write(CELLS, "k", [])
    assert store.read(CELLS, "k").schema == {"cell": pl.String, "error": pl.String, "tags": pl.List(pl.String)}


def test_a_relative_url_is_resolved_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = ArtifactStore("here")
    store.write(CELLS, "k", [A])
    monkeypatch.chdir("/")
    assert store.root == str(tmp_path / "here")
    assert store.ok(CELLS, "k")


def test_another_file_system_by_url() -> None:
    store = ArtifactStore("memory://bucket/store")
    store.write(CELLS, "k", [A, B])
    assert ArtifactStore("memory://bucket/store").read(CELLS, "k").height == 2
    assert store.committed(CELLS) == ["k"]
