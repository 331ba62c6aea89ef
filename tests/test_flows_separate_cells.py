"""What a cell would cost alone: three cells, each from an empty ledger, make the calls and executions that their lineage in the run
counts, so that "unshared" is what separate cells would really make.

At the published size: DSABENCH_RELEASE names a finished run's release, DSABENCH_FINISHED a copy of the home it was run in, and
`pytest -m bench tests/test_flows_separate_cells.py -s` takes its last run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import SmallRun
from separate_cells import apart

from flows import runs
from flows.wanted import RunSpec
from tasks_lib.models.transcripts import KIND as MODEL_CALL
from tasks_lib.scoring.cells import parse
from tasks_lib.sql.execute import LEDGER_KIND as SQL_EXECUTION

POINTS = (
    "direct.text_to_sql.oracle.never.privileged",
    "react.adapter.llm.once.router",
    "hermes.text_to_sql.llm.once.fused",
)
FINISHED = os.environ.get("DSABENCH_FINISHED", "")


def check(run: RunSpec, record: Mapping[str, Any], point: str, folder: Path) -> str:
    """The counts of one cell as a line. Calls must be those of the lineage; so must executions, but for gold queries of verdicts."""
    found = apart(run, record, parse(f"{run.backends[0].name}.{point}"), folder)
    assert found.calls
    assert found.made[MODEL_CALL] == found.calls
    executions = found.made[SQL_EXECUTION]
    assert found.executions <= executions
    assert executions - found.executions <= found.gold
    beside = len(executions - found.executions)
    return f"{point}: {len(found.calls)} calls, {len(found.executions)} executions, and {beside} of gold alone"


@pytest.mark.parametrize("point", POINTS)
def test_a_cell_alone_makes_what_its_lineage_counts(small_run: SmallRun, tmp_path: Path, point: str) -> None:
    spec, record = runs.load(small_run.id)
    check(spec, record, point, tmp_path)


@pytest.mark.bench
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("point", POINTS)
def test_a_cell_of_a_finished_run_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    if not FINISHED:
        pytest.skip("DSABENCH_FINISHED is not set, expected the home folder of a finished run")
    folder = Path(FINISHED) / "runs"
    name = json.loads((folder / "last.json").read_text("utf-8"))["run"]
    record = json.loads((folder / name / "run.json").read_text("utf-8"))
    spec = {**record["spec"], "release": os.environ.get("DSABENCH_RELEASE") or record["spec"]["release"]}
    monkeypatch.setenv("DSABENCH_STORE_URL", str(Path(FINISHED) / "store"))
    print("\n" + check(RunSpec.model_validate_json(json.dumps(spec)), record, point, tmp_path))
