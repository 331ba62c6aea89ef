"""`dsabench publish` and `check`: a package holds what it says and nothing private, and every change in it is found."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Said, SmallRun

from flows import publish, runs
from flows.publish import CheckFailed, PublishRefused, checked
from tasks_lib.evaluation.inputs import load
from tasks_lib.reporting import package_check
from tasks_lib.reporting.package_intervals import check_intervals
from tasks_lib.reporting.package_scan import leaks_in, secrets_of
from tasks_lib.reporting.package_tables import check_tables
from tasks_lib.scoring.metrics import CELL_METRICS, ROUTING

pytestmark = pytest.mark.timeout(600)
Command = Callable[..., Said]


def stored_verification(run: Any, _record: Any) -> Any:
    """What verification of the run said when it was made: verifying it anew is another test's subject."""

    async def read() -> Any:
        return json.loads((runs.run_folder(run.run_id) / "verification.json").read_text("utf-8"))

    return read()


@pytest.fixture(scope="module")
def package(small_run: SmallRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the small run."""
    import asyncio

    out = tmp_path_factory.mktemp("published") / "package"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publish, "verify_run", stored_verification)
        found = asyncio.run(publish.publish_run(small_run.id, out))
    assert found["compared"]["cells"] == 72
    return out


@pytest.fixture
def copy(package: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(package, tmp_path / "package"))


def sealed(folder: Path) -> None:
    """Write the manifest's digests anew, as someone would who altered a file on purpose."""
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    manifest["files"] = {n: hashlib.sha256((folder / n).read_bytes()).hexdigest() for n in manifest["files"]}
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")


def altered(path: Path, column: str, change: Callable[[str], str], any_value: bool = False) -> dict[str, str]:
    """Change one value of a CSV table that is there, neither 0 nor 1 unless any will do; the row it stands in."""
    rows = list(csv.DictReader(io.StringIO(path.read_text("utf-8"))))
    row = next(r for r in rows if r[column] and (any_value or float(r[column]) not in (0.0, 1.0)))
    row[column] = change(row[column])
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return row


def test_a_package_holds_what_it_should(package: Path, small_run: SmallRun) -> None:
    held = {p.relative_to(package).as_posix() for p in package.rglob("*") if p.is_file()}
    assert {
        "README.md",
        "check.py",
        "manifest.json",
        "run.json",
        "protocol.json",
        "release/tasks.parquet",
        "release/catalog/cat_databases.parquet",
        "release/datasheet.md",
        "release/summary.json",
        "profiles/paper.yaml",
        "prompts/routing/route_episode@1.md.j2",
        "tools/routeenv_actions.json",
        "outcomes/episodes.csv.gz",
        "outcomes/routing_episodes.csv.gz",
        "tables/cells.csv.gz",
        "tables/intervals.csv",
        "tables/matched_pairs.json",
        "tables/best_of_grid.csv",
        "plots/failure_stages.csv",
        "environment/constraints.txt",
    } <= held
    manifest = json.loads((package / "manifest.json").read_text("utf-8"))
    assert set(manifest["files"]) == held - {"manifest.json"}
    assert manifest["release"] == runs.load(small_run.id)[0].manifest
    backend = json.loads((package / "run.json").read_text("utf-8"))["backends"][0]
    assert "api_base" not in backend
    assert "extra" not in backend


def test_check_recomputes_every_aggregate(package: Path, small_run: SmallRun, dsabench: Command) -> None:
    said = dsabench("check", str(package), "--json")
    assert said.code == 0, said
    done = said.json["compared"]
    assert done["episodes"] == small_run.record["episodes"]
    assert done["metrics"] >= 72 * len(CELL_METRICS) * 5
    assert done["intervals"] == done["intervals_resampled"] >= 72 * 8
    assert done["routing_metrics"] >= 6 * len(ROUTING) * 5
    assert done["analyses_recomputed"] >= 1000
    assert done["routing_table_resampled"] >= 6 * len(ROUTING) * 5
    assert min(done[n] for n in ("disagreement", "audit", "routing_probes", "routing_usage", "routing_events")) > 0


def test_the_script_of_the_package_needs_nothing_but_python(copy: Path) -> None:
    def script() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-S", "check.py"]
        return subprocess.run(command, cwd=copy, capture_output=True, text=True, env={}, timeout=120, check=False)

    good = script()
    assert (good.returncode, good.stderr) == (0, "")
    assert "72 cells" in good.stdout
    row = altered(copy / "tables/routing.csv", "value", lambda value: repr(float(value) + 1e-6))
    sealed(copy)
    bad = script()
    assert bad.returncode == 1
    assert f"{row['metric']} of {row['backend']}.{row['router']}" in bad.stderr


def test_the_script_knows_every_metric() -> None:
    assert set(package_check.CELL) == set(CELL_METRICS)
    assert set(package_check.ROUTING) == set(ROUTING)


@pytest.mark.parametrize(
    "name", ["outcomes/episodes.csv.gz", "run.json", "release/tasks.parquet", "prompts/routing/topologies@1.md.j2"]
)
def test_one_changed_byte_is_found(copy: Path, name: str, dsabench: Command) -> None:
    data = bytearray((copy / name).read_bytes())
    data[len(data) // 2] ^= 1
    (copy / name).write_bytes(bytes(data))
    said = dsabench("check", str(copy), "--json")
    assert said.code == 1
    assert f"{name} has sha256" in said.json["error"]


@pytest.mark.parametrize(
    ("name", "column"),
    [("tables/headline.csv", "median"), ("tables/best_of_grid.csv", "EA-Micro"), ("tables/intervals.csv", "value"),
     ("tables/intervals.csv", "low"), ("plots/failure_stages.csv", "weight")],
)  # fmt: skip
def test_one_changed_number_is_found_whatever_the_manifest_says(copy: Path, name: str, column: str) -> None:
    altered(copy / name, column, lambda value: repr(float(value) - 1e-6))
    sealed(copy)
    with pytest.raises(CheckFailed, match=name):
        checked(copy)


def test_a_changed_analysis_or_cut_of_the_routing_study_is_found(copy: Path) -> None:
    rows = [altered(copy / f"tables/{name}.csv", "value", lambda value: repr(float(value) - 1e-6)) for name in CUTS]
    _, problems = check_intervals(copy)
    assert len(problems) == len(CUTS)
    for row, name, problem in zip(rows, CUTS, problems, strict=True):
        assert problem.startswith(f"tables/{name}.csv: ")
        assert row["metric"] in problem


CUTS = ("analyses", "routing_table")


@pytest.mark.parametrize(
    ("name", "column", "said"),
    [
        ("disagreement", "numerator", "do not hold the contributions of the cells"),
        ("audit", "high", "its counts give"),
        ("routing_usage", "mean", "have a mean that is not their total by routes"),
        ("routing_probes", "weight", "are not what the outcomes say"),
    ],
)
def test_a_changed_number_of_a_table_that_rests_on_more_is_found(copy: Path, name: str, column: str, said: str) -> None:
    path = copy / f"tables/{name}.csv"
    if column == "high":
        rows = path.read_text("utf-8").splitlines()
        place = rows[0].split(",").index("high")
        cells = next(r for r in rows[1:] if r.split(",")[place]).split(",")
        cells[place] = "0.123"
        path.write_text("\n".join([rows[0], ",".join(cells)]), "utf-8")
    else:
        altered(path, column, lambda value: repr(float(value) + 0.25), any_value=True)
    _, problems = check_tables(copy)
    assert any(p.startswith(f"tables/{name}.csv: ") and said in p for p in problems), problems


def test_a_missing_an_unknown_and_no_file_are_sentences(copy: Path, tmp_path: Path) -> None:
    (copy / "protocol.json").unlink()
    (copy / "notes.txt").write_text("mine", "utf-8")
    with pytest.raises(CheckFailed, match=r"protocol.json is missing.*notes.txt is not in the manifest"):
        checked(copy)
    with pytest.raises(CheckFailed, match=r"no readable manifest\.json"):
        checked(tmp_path)


def test_whatever_is_private_is_found_in_any_file(copy: Path, small_run: SmallRun) -> None:
    inputs = load(str(small_run.release))
    unit = next(u for u in inputs.usable_units if len(u.sql) > 60)
    names = [r["database"] for r in inputs.release.databases.iter_rows(named=True)]
    name = next(n for n in sorted(names) if "_" in n)
    planted = {
        "physical_name": f"see {name} for it",
        "gold_sql": unit.sql,
        "unit_id": f"it is {unit.unit_id}",
        "path": "kept in /home/someone/databases",
        "secret": "sent with hush-hush-1234",
    }
    secrets = secrets_of({"SOME_API_KEY": "hush-hush-1234", "PATH": "/usr/bin/never", "SHORT_TOKEN": "x"})
    assert secrets == ("hush-hush-1234",)
    assert leaks_in(copy, inputs.scanner, secrets, ["/somewhere/else"]) == []
    shutil.rmtree(copy / "release")
    for kind, text in planted.items():
        (copy / f"{kind}.csv").write_text(f"note\n{json.dumps(text)}\n", "utf-8")
    found = leaks_in(copy, inputs.scanner, secrets, ["/somewhere/else"])
    assert {(leak.file, leak.kind) for leak in found} >= {(f"{kind}.csv", kind) for kind in planted}
    assert all("hush" not in str(leak) for leak in found)


async def test_a_run_that_is_not_over_is_to_be_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "load", lambda _: (SimpleNamespace(run_id="run-1"), {"status": "running"}))
    with pytest.raises(PublishRefused, match="wait for the command that is at it"):
        await publish.publish_run("run-1", tmp_path / "out")


async def test_a_run_that_may_not_leave_leaves_nothing(
    small_run: SmallRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "verify_run", stored_verification)
    monkeypatch.setenv("SOME_API_KEY", small_run.id)
    with pytest.raises(PublishRefused, match=r"manifest\.json holds a secret"):
        await publish.publish_run(small_run.id, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []

    async def failing(_run: Any, _record: Any) -> dict[str, Any]:
        return {"ok": False, "problems": ["gold of one unit does not score."]}

    monkeypatch.setattr(publish, "verify_run", failing)
    with pytest.raises(PublishRefused, match=r"fails its checks: gold of one unit"):
        await publish.publish_run(small_run.id, tmp_path / "out")
    (tmp_path / "mine.txt").write_text("mine", "utf-8")
    with pytest.raises(PublishRefused, match="is no package"):
        await publish.publish_run(small_run.id, tmp_path)
