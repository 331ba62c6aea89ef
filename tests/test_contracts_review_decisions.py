"""Decisions change wording or take tasks out, never anything executable, and leave an audit trail; all or nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import Said
from review_support import Command, contents, whole_review, write_csv

from tasks_lib.contracts.contract import executable_hash
from tasks_lib.contracts.release import Release, figures
from tasks_lib.contracts.review.decisions import ChangeRow, read
from tasks_lib.contracts.review.questions import ReviewRefused
from tasks_lib.contracts.review.restating import unstated_rows
from tasks_lib.contracts.review.summary import NOBODY, summary
from tasks_lib.contracts.review.wordable import Wordable
from tasks_lib.protocol.vocabulary import Behavior
from tasks_lib.store.schemas import DECISIONS


@pytest.fixture(scope="module")
def release(embedded: Path) -> Release:
    return Release.load(embedded)


def politer(release: Release, task_id: str) -> str:
    """Another wording of a task that keeps its words."""
    return next(task.request for task in release.tasks if task.task_id == task_id) + " Thank you."


def decision(task_id: str, what: str, **more: str) -> dict[str, str]:
    row = {"task_id": task_id, "decision": what, "severity": "minor", "rationale": "read twice", "by": "scripted"}
    return {**row, "request": "", **more}


def adjudicate(dsabench: Command, release: Release, rows: list[dict[str, str]], out: Path, *more: str) -> Said:
    file = write_csv(out.with_suffix(".csv"), rows)
    return dsabench("review", "adjudicate", "--release", str(release.folder), "--decisions", str(file), "--out", str(out), "--json", *more)  # fmt: skip


def reword(dsabench: Command, folder: Path, changes: Any, out: Path) -> Said:
    file = out.with_suffix(".json")
    file.write_text(json.dumps(changes), "utf-8")
    return dsabench("revision", "--release", str(folder), "--changes", str(file), "--out", str(out), "--json")


def test_every_request_of_a_release_may_stand(release: Release) -> None:
    wordable = Wordable(release)
    assert not [t.task_id for t in release.tasks if wordable.refusal(t.task_id, t.request)]


def test_a_request_with_invisible_characters_may_not_stand(release: Release) -> None:
    wordable, first = Wordable(release), min(release.contracts)
    for odd in ("\x00", "\r", "\u202e", "\u2028"):
        said = wordable.refusal(first, politer(release, first) + f"{odd}Bye.")
        assert said == f"form: the request holds the invisible character U+{ord(odd):04X}."


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "task_id,request,rationale,request\nx,a,b,c\n", "'request' stands twice"),
        ("a.json", '[{"task_id": "x", "request": "a", "request": "b", "rationale": "c"}]', "'request' stands twice"),
        ("a.json", "[" * 100_000, "recursion"),
    ],
)
def test_a_file_that_can_be_read_two_ways_or_not_at_all_is_refused(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(ReviewRefused, match=said):
        read(tmp_path / name, ChangeRow)


def test_what_is_said_of_requests_is_what_the_build_said(release: Release) -> None:
    requests = {task.task_id: task.request for task in release.tasks}
    rows = unstated_rows(release, release.contracts.values(), requests)
    stored = pl.read_parquet(release.folder / "private/unstated.parquet").to_dicts()
    assert stored
    order = ("task_id", "unit_id", "position")
    assert sorted(rows, key=lambda row: [row[name] for name in order]) == stored


def test_a_version_is_proven_like_a_build_and_its_datasheet_speaks_of_it(
    dsabench: Command, release: Release, tmp_path: Path
) -> None:
    first, second, third = sorted(release.contracts)[:3]
    rows = [
        decision(first, "repair", request=politer(release, first)),
        decision(second, "delete"),
        decision(third, "keep"),
    ]
    assert adjudicate(dsabench, release, rows, tmp_path / "out").code == 0
    said = dsabench("certify", "--release", str(tmp_path / "out"), "--json")
    assert said.code == 0, said
    assert (said.json["ok"], said.json["tasks"]) == (True, len(release.contracts) - 1)
    made = Release.load(tmp_path / "out")
    sheet = (made.public / "datasheet.md").read_text("utf-8")
    assert f"{NOBODY} 3 decisions were made by a script" in sheet
    assert release.digest[:12] in sheet
    assert f"{len(made.contracts)} tasks over" in sheet
    names = {name for name in release.manifest["files"] if not name.endswith(".parquet")}
    assert names
    assert names <= set(made.manifest["files"])
    text = "".join((made.folder / name).read_text("utf-8") for name in names)
    assert second not in text


def test_a_revision_changes_the_named_requests_and_nothing_else(
    dsabench: Command, release: Release, tmp_path: Path
) -> None:
    chosen = sorted(release.contracts)[1:4]
    changes = [{"task_id": t, "request": politer(release, t), "rationale": "more polite"} for t in chosen]
    said = reword(dsabench, release.folder, changes, tmp_path / "second")
    assert said.code == 0, said
    assert said.json["rerun"] == chosen
    assert (said.json["number"], said.json["deleted"], said.json["parent"]) == (1, [], release.digest)
    made = Release.load(tmp_path / "second")
    before, after = ({t.task_id: t for t in r.tasks} for r in (release, made))
    assert after == {**before, **{t: replace(before[t], request=politer(release, t)) for t in chosen}}
    for task_id, contract in release.contracts.items():
        again = made.contracts[task_id]
        assert executable_hash(again) == executable_hash(contract)
        assert again == (replace(contract, extra=again.extra) if task_id in chosen else contract)
    old, new = release.manifest, made.manifest
    assert new["revision"] == {
        "number": 1, "kind": "revision", "parent": release.digest, "rerun": chosen, "deleted": [], "escalated": []
    }  # fmt: skip
    assert new["parents"] == {**old["parents"], "release": release.digest}
    same = {name for name in old["files"] if new["files"].get(name) == old["files"][name]}
    assert {"private/units.parquet", "private/databases.parquet", "public/catalog/cat_cards.parquet"} <= same
    trail = pl.read_parquet(tmp_path / "second/private/decisions.parquet")
    assert trail.columns == DECISIONS.schema.names
    assert set(trail["by"]) == {"unreviewed"}
    wordings = {row["task_id"]: row for row in pl.read_parquet(tmp_path / "second/private/wordings.parquet").to_dicts()}
    assert {t for t, row in wordings.items() if row["renderer"] == "revision"} == set(chosen)
    assert set(wordings) == set(release.contracts)
    assert summary(tmp_path / "second")["statement"] == NOBODY


def test_equal_revisions_have_equal_bytes_and_parents_chain(
    dsabench: Command, release: Release, tmp_path: Path
) -> None:
    first, second = sorted(release.contracts)[:2]
    changes = [{"task_id": first, "request": politer(release, first), "rationale": "r"}]
    for name in ("a", "b"):
        assert reword(dsabench, release.folder, changes, tmp_path / name).code == 0
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    parent = Release.load(tmp_path / "a")
    changes = [{"task_id": second, "request": politer(release, second), "rationale": "r"}]
    said = reword(dsabench, parent.folder, changes, tmp_path / "c")
    assert (said.json["number"], said.json["parent"], said.json["rerun"]) == (2, parent.digest, [second])
    trail = pl.read_parquet(tmp_path / "c/private/decisions.parquet")
    assert trail.select("revision", "task_id").rows() == [(1, first), (2, second)]
    assert trail["parent"].to_list() == [release.digest, parent.digest]


def test_an_adjudication_keeps_repairs_deletes_and_escalates(
    dsabench: Command, release: Release, tmp_path: Path
) -> None:
    kept, repaired, deleted, open_ = sorted(release.contracts)[:4]
    whole_review(dsabench, release.folder, tmp_path / "review")
    rows = [
        decision(kept, "KEEP", severity="none"),
        decision(repaired, "REPAIR", request=politer(release, repaired)),
        decision(deleted, "DELETE", severity="Critical"),
        decision(open_, "escalate"),
    ]
    said = adjudicate(dsabench, release, rows, tmp_path / "out", "--review", str(tmp_path / "review"))
    assert said.code == 0, said
    assert (said.json["rerun"], said.json["deleted"], said.json["escalated"]) == ([repaired], [deleted], [open_])
    made = Release.load(tmp_path / "out")
    staying = {t: c for t, c in release.contracts.items() if t != deleted}
    assert set(made.contracts) == {task.task_id for task in made.tasks} == set(staying)
    assert {t: executable_hash(c) for t, c in made.contracts.items()} == {
        t: executable_hash(c) for t, c in staying.items()
    }
    for file in sorted((tmp_path / "out").rglob("*.parquet")):
        frame = pl.read_parquet(file)
        left = set(frame["task_id"]) if "task_id" in frame.columns else set()
        assert deleted not in left or file.stem in {"decisions", "reviews"}, file
    assert {name: made.manifest[name] for name in figures([])} == figures(list(staying.values()))
    trail = {row["task_id"]: row for row in pl.read_parquet(tmp_path / "out/private/decisions.parquet").to_dicts()}
    assert {t: row["decision"] for t, row in trail.items()} == {
        kept: "keep", repaired: "repair", deleted: "delete", open_: "escalate"
    }  # fmt: skip
    assert trail[deleted]["severity"] == "critical"
    assert (trail[deleted]["request_after"], trail[repaired]["request_after"]) == ("", politer(release, repaired))
    assert all(row["executable_hash"] == executable_hash(release.contracts[t]) for t, row in trail.items())
    told = summary(tmp_path / "out")
    assert told["statement"].startswith(NOBODY)
    assert "4 decisions were made by a script" in told["statement"]
    assert told["decisions"] == {"scripted": {"delete": 1, "escalate": 1, "keep": 1, "repair": 1}}
    assert told["outdated"] == [repaired]  # its reviews were of the older wording
    assert told["coverage"]["scripted"]["pass_2"]["tasks_reviewed"] == len(staying) - 1
    # a later decision closes what was escalated
    said = adjudicate(dsabench, made, [decision(open_, "keep")], tmp_path / "later")
    assert (said.json["number"], said.json["escalated"]) == (2, [])
    assert summary(tmp_path / "later")["coverage"] == told["coverage"]


def spoiled(release: Release) -> list[tuple[str, list[dict[str, str]], tuple[str, ...]]]:
    """(name, decisions, what the one sentence says); each holds one fault behind one good decision."""
    first, second = sorted(release.contracts)[:2]
    by_behavior = {c.behavior: t for t, c in sorted(release.contracts.items())}
    good = decision(first, "repair", request=politer(release, first))
    asking, linked = by_behavior[Behavior.INTERACTIVE], by_behavior[Behavior.SEQUENTIAL]
    value = release.contracts[asking].branches[0].value
    link = release.contracts[linked].bindings[0]
    handle = release.handles[release.contracts[second].databases[0]]
    name = handle.location.rsplit("/", 1)[-1].removesuffix(".sqlite")

    def text(task_id: str, words: str) -> list[dict[str, str]]:
        return [good, decision(task_id, "repair", request=words)]

    return [
        ("unknown task", [good, decision("task_0", "keep")], ("task 'task_0' is not in",)),
        ("decided twice", [good, decision(first, "keep")], (first, "decided twice")),
        ("no such decision", [good, decision(second, "merge")], ("row 2", "decision")),
        ("no severity", [good, decision(second, "keep", severity="")], ("row 2", "severity")),
        ("no rationale", [good, decision(second, "delete", rationale=" ")], ("row 2", "rationale")),
        ("nobody", [good, decision(second, "keep", by="")], ("row 2", "by")),
        ("repair without text", [good, decision(second, "repair")], ("row 2", "a repair needs the new request")),
        ("keep with text", [good, decision(second, "keep", request="Other?")], ("another request", "repair instead")),
        ("same text", text(second, politer(release, second).removesuffix(" Thank you.")), ("expected another text",)),
        ("executable field", [{**good, "sql": ""}, {**decision(second, "keep"), "sql": "SELECT 1"}], ("'sql'", "only the request may change")),
        ("executable hash", [{**good, "executable_hash": "0" * 64}], ("executable_hash", "only the request may change")),
        ("identifier", text(second, f"What do you know of {name}? Tell me."), ("wording gate",)),
        ("SQL", text(second, "SELECT a FROM b"), ("wording gate",)),
        ("upstream value", text(linked, politer(release, linked) + f" It is {link.value!s}."), ("wording gate", repr(link.value))),
        ("branch given away", text(asking, politer(release, asking) + f" I mean {value}."), ("branches", "gives the branch away")),
        ("two lines", text(second, "What now?\nAnd then?"), ("wording gate form",)),
        ("nothing left", [decision(t, "delete") for t in sorted(release.contracts)], ("delete every task",)),
    ]  # fmt: skip


def test_one_fault_and_nothing_is_written(dsabench: Command, release: Release, tmp_path: Path) -> None:
    before = contents(release.folder)
    for name, rows, parts in spoiled(release):
        out = tmp_path / name.replace(" ", "_")
        said = adjudicate(dsabench, release, rows, out)
        assert said.code == 2, (name, said)
        message = said.json["error"]
        assert all(part in message for part in parts), (name, message)
        assert message.endswith(".")
        assert "\n" not in message.replace("\\n", "")
        assert not out.exists()
    assert contents(release.folder) == before
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("field", ["databases", "unit_ids", "sql", "edges", "behavior", "decision"])
def test_a_revision_refuses_every_other_field(dsabench: Command, release: Release, tmp_path: Path, field: str) -> None:
    task_id = min(release.contracts)
    change = {"task_id": task_id, "request": politer(release, task_id), "rationale": "r", field: "x"}
    said = reword(dsabench, release.folder, [change], tmp_path / "out")
    assert said.code == 2
    assert f"{field!r}" in said.json["error"]
    assert "only the request may change" in said.json["error"]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [("[]", "holds no rows"), ("{", "cannot be read"), ('{"task_id": 1}', "no list of objects"), ("[1]", "no list of objects")],
)  # fmt: skip
def test_files_that_hold_no_changes(
    dsabench: Command, release: Release, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "changes.json").write_text(text, "utf-8")
    said = dsabench("revision", "--release", str(release.folder), "--changes", str(tmp_path / "changes.json"), "--out", str(tmp_path / "out"), "--json")  # fmt: skip
    assert said.code == 2
    assert message in said.json["error"]


def test_a_version_goes_into_a_folder_of_its_own(dsabench: Command, release: Release, tmp_path: Path) -> None:
    task_id = min(release.contracts)
    changes = [{"task_id": task_id, "request": politer(release, task_id), "rationale": "r"}]
    (tmp_path / "used").mkdir()
    (tmp_path / "used/file").write_text("mine", "utf-8")
    said = reword(dsabench, release.folder, changes, tmp_path / "used")
    assert said.code == 2
    assert "exists, expected a new or empty folder" in said.json["error"]
    file = tmp_path / "used.json"
    inside = release.folder / "private/next"
    said = dsabench(
        "revision", "--release", str(release.folder), "--changes", str(file), "--out", str(inside), "--json"
    )
    assert said.code == 2
    assert "is inside the release" in said.json["error"]
