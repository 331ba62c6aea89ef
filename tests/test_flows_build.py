"""A release that is wanted again is copied, not made again; a place that holds something else is refused before any work."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from flows import benchmark
from tasks_lib.contracts.release import Release, ReleaseRefused
from tasks_lib.corpora.embedded import materialise
from tasks_lib.protocol.vocabulary import Corpus

PROFILE = """
counts: {spider: {single: 3, interactive: 1}}
allowlist: {spider: {low: 3, high: 6, mean: 4}}
sizes: {}
max_unit_uses: 2
max_theme_uses: 2
attempts: 10
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_release_wanted_again_is_copied_and_a_damaged_copy_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = materialise(tmp_path / "corpora")[Corpus.SPIDER]
    profile = tmp_path / "tiny.yaml"
    profile.write_text(PROFILE, "utf-8")

    def build(out: str, folder: Path = root) -> dict[str, Any]:
        return asyncio.run(benchmark.build_release({Corpus.SPIDER: folder}, str(profile), 1, tmp_path / out))

    first = build("first")
    assert first["tasks"] == 4
    assert Path(first["data_docs"]).is_file()
    with monkeypatch.context() as patched:
        patched.delattr(benchmark, "build")  # nothing may be built
        second = build("second")
        assert contents(tmp_path / "second") == contents(tmp_path / "first")
        same = {name for name in first if name not in {"release", "seconds"}}
        assert {name: second[name] for name in same} == {name: first[name] for name in same}
        moved = tmp_path / "elsewhere"
        shutil.copytree(root, moved)
        build("third", moved)
        found = contents(tmp_path / "third")
        assert json.loads(found.pop("private/locations.json"))["spider"]["root"] == str(moved)
        assert found == {k: v for k, v in contents(tmp_path / "first").items() if k != "private/locations.json"}
    kept = Path(first["data_docs"]).parents[2] / "releases"
    (damaged,) = (
        p for p in kept.glob("built-*/public/tasks.parquet") if Release.load(p.parents[1]).manifest["profile"] == "tiny"
    )
    damaged.write_bytes(b"broken")
    build("fourth")
    assert contents(tmp_path / "fourth") == contents(tmp_path / "first")


def test_a_place_that_holds_something_else_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", "utf-8")
    with pytest.raises(ReleaseRefused, match="is no release folder"):
        asyncio.run(benchmark.build_release({Corpus.SPIDER: tmp_path / "none"}, "small", 1, tmp_path))
    assert (tmp_path / "notes.txt").read_text("utf-8") == "mine"
