"""A run that fails says so in its record, with the reason, whatever stage it was in; the failure still reaches the caller."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flows import runs
from tasks_lib.scoring.publish import QualityError


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Records of their own: the session's last run stays the last."""
    monkeypatch.setattr(runs, "runs_folder", lambda: tmp_path)


def test_a_failed_run_is_marked_incomplete_with_the_reason() -> None:
    record: dict[str, Any] = {"run": "run-00000000fa11", "status": "running", "reason": ""}
    with pytest.raises(QualityError), runs.marked(record):
        raise QualityError("episodes@1 fails row_count: episodes 920")
    kept = json.loads((runs.run_folder("run-00000000fa11") / "run.json").read_text("utf-8"))
    assert kept == record
    assert (kept["status"], kept["reason"]) == ("incomplete", "QualityError: episodes@1 fails row_count: episodes 920")


def test_a_run_that_works_keeps_its_status() -> None:
    record: dict[str, Any] = {"run": "run-00000000900d", "status": "completed", "reason": ""}
    with runs.marked(record):
        record["cells"] = 72
    assert (record["status"], runs.run_folder("run-00000000900d").exists()) == ("completed", False)
