"""The chain on a third of published Spider where it is at hand (DSABENCH_DATA): build, run, verify, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import TFIDF, dsabench_process
from corpora_support import part_of_spider

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


def test_build_and_run_on_spider(tmp_path: Path) -> None:
    release = tmp_path / "release"
    options = (
        "--spider",
        str(part_of_spider(tmp_path / "spider")),
        "--profile",
        "small",
        "--out",
        str(release),
        "--json",
    )
    built = dsabench_process("build", *options, seconds=300)
    assert built.code == 0, built
    report = built.json
    assert report["release"] == str(release)
    assert report["tasks"] == sum(report["by_behavior"].values()) == report["by_corpus"]["spider"] > 40
    assert report["candidates"] >= report["tasks"]
    assert report["seconds"] > 0
    assert {"by_difficulty", "rejected", "shortfall"} <= set(report)

    arguments = ("run", "--release", str(release), "--tasks", "8", "--backend", json.dumps(TFIDF), "--json")
    said = dsabench_process(*arguments, seconds=400)
    assert said.code == 0, said.json
    assert (said.json["status"], said.json["cells"], said.json["base_rows"]) == ("completed", 72, 72 * 8)
    assert Path(said.json["report"]).stat().st_size > 10_000
