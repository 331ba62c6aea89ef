"""A review is planned evenly and the same way twice, and its first packets tell nothing that is private."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest
from review_support import Command, contents, export, read_csv

from tasks_lib.contracts.release import Release
from tasks_lib.contracts.review import assignments, packets
from tasks_lib.contracts.review.questions import PASSES, ReviewRefused
from tasks_lib.protocol.vocabulary import Corpus


@pytest.fixture(scope="module")
def release(embedded: Path) -> Release:
    return Release.load(embedded)


@pytest.mark.parametrize(("reviewers", "share"), [(3, 0.55), (2, 1.0), (4, 0.0), (1, 0.0), (5, 0.3)])
def test_every_task_is_assigned_and_loads_are_even(release: Release, reviewers: int, share: float) -> None:
    made = assignments.plan(release, reviewers, share, 7)
    by_task: dict[str, list[str]] = {}
    for assignment in made.assignments:
        by_task.setdefault(assignment.task_id, []).append(assignment.reviewer)
    assert set(by_task) == set(release.contracts)
    assert all(len(set(names)) == len(names) for names in by_task.values())
    assert Counter(map(len, by_task.values()))[2] == round(share * len(by_task))
    load = [len(made.of(name)) for name in made.reviewers]
    assert len(load) == reviewers
    assert max(load) - min(load) <= 1


def test_double_reviews_are_spread_over_behaviors_and_pairs(release: Release) -> None:
    made = assignments.plan(release, 3, 0.5, 7)
    times = Counter(a.task_id for a in made.assignments)
    for behavior, tasks in Counter(c.behavior for c in release.contracts.values()).items():
        twice = sum(times[t] == 2 for t, c in release.contracts.items() if c.behavior is behavior)
        assert abs(twice - tasks / 2) <= 1
    together = {name: {a.task_id for a in made.of(name)} for name in made.reviewers}
    assert all(together[one] & together[two] for one, two in combinations(made.reviewers, 2))


def test_equal_inputs_give_equal_packets_and_a_seed_other_ones(
    dsabench: Command, embedded: Path, tmp_path: Path
) -> None:
    first = export(dsabench, embedded, tmp_path / "a", "--seed", "1")
    export(dsabench, embedded, tmp_path / "b", "--seed", "1")
    export(dsabench, embedded, tmp_path / "c", "--seed", "2")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert contents(tmp_path / "a") != contents(tmp_path / "c")
    assert first["reviewed_twice"] == round(0.55 * first["tasks"])
    assert sum(first["assignments"].values()) == first["tasks"] + first["reviewed_twice"]


def test_item_ids_hang_on_the_private_key_and_their_order_tells_nothing(
    dsabench: Command, embedded: Path, tmp_path: Path, release: Release
) -> None:
    (tmp_path / "key").write_bytes(b"0123456789abcdef")
    export(dsabench, embedded, tmp_path / "plain", "--seed", "1")
    export(dsabench, embedded, tmp_path / "keyed", "--seed", "1", "--key-file", str(tmp_path / "key"))
    plans = [assignments.load(tmp_path / name) for name in ("plain", "keyed")]
    items = [{a.item for a in made.assignments} for made in plans]
    assert not items[0] & items[1]
    assert len(items[0]) == len(plans[0].assignments)  # two reviewers of one task see two ids
    for name in plans[0].reviewers:
        shown = [row["item"] for row in read_csv(tmp_path / "plain" / name / "pass1.csv")]
        assert shown == sorted(shown)
        assert plans[0].key not in (tmp_path / "plain" / name / "pass1.html").read_text("utf-8")
    said = dsabench("review", "export", "--release", str(embedded), "--out", str(tmp_path / "x"), "--key-file", str(tmp_path / "none"), "--json")  # fmt: skip
    assert said.code == 2
    assert "at least 16" in said.json["error"]


def test_pass_one_holds_nothing_private(dsabench: Command, embedded: Path, tmp_path: Path, release: Release) -> None:
    export(dsabench, embedded, tmp_path / "review", "--double-share", "1")
    private = {row["database"] for row in release.databases.iter_rows(named=True)}
    private |= {row["relative_path"] for row in release.databases.iter_rows(named=True)}
    private |= {task.task_id for task in release.tasks} | {corpus.value for corpus in Corpus}
    private |= {unit.sql for unit in release.units.values()} | set(release.units)
    private |= {
        answer for c in release.contracts.values() for b in c.branches for answer in (b.answer, c.slot_question)
    }
    private |= {link.downstream_sql for c in release.contracts.values() for link in c.bindings}
    private |= {"provenance", str(release.folder)}
    for file in sorted((tmp_path / "review").glob("reviewer-*/*")):
        text = file.read_text("utf-8")
        told = [word for word in private if word in text or json.dumps(word)[1:-1] in text]
        assert not told, (file, told)
    assert not list((tmp_path / "review").glob("reviewer-*/pass2*"))
    # a label or a target is nowhere beside its item: the shown fields are these and no more
    made = assignments.load(tmp_path / "review")
    tasks = {task.task_id: task for task in release.tasks}
    of = {a.item: tasks[a.task_id] for a in made.assignments}
    for row in read_csv(tmp_path / "review/reviewer-1/pass1.csv"):
        answers = [question.name for question in PASSES[1]]
        assert set(row) == {*packets.HEAD, "item", "request", "candidates", *answers}
        assert not any(row[name] for name in (*answers, "by"))
        task = of[row["item"]]
        assert (row["request"], row["candidates"].split()) == (task.request, list(task.allowlist))


def test_a_packet_never_names_a_field_twice(release: Release) -> None:
    made = assignments.plan(release, 1, 0.0, 1)
    for number in PASSES:
        columns = packets.packet(release, made, "reviewer-1", number).columns
        assert len(set(columns)) == len(columns)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--reviewers", "0"), ("--reviewers is 0", "at least 1")),
        (("--double-share", "1.2"), ("--double-share is 1.2", "from 0 to 1")),
        (("--reviewers", "1"), ("two reviewers", "--double-share 0")),
    ],
)
def test_bad_plans_are_refused(
    dsabench: Command, embedded: Path, tmp_path: Path, arguments: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    said = dsabench("review", "export", "--release", str(embedded), "--out", str(tmp_path / "r"), "--json", *arguments)
    assert said.code == 2
    assert all(part in said.json["error"] for part in parts)
    assert not (tmp_path / "r").exists()


def test_a_review_is_never_overwritten(dsabench: Command, embedded: Path, tmp_path: Path) -> None:
    export(dsabench, embedded, tmp_path / "review")
    before = contents(tmp_path / "review")
    said = dsabench("review", "export", "--release", str(embedded), "--out", str(tmp_path / "review"), "--json")
    assert said.code == 2
    assert "exists" in said.json["error"]
    assert contents(tmp_path / "review") == before
    said = dsabench("review", "export", "--release", str(embedded), "--out", str(embedded / "review"), "--json")
    assert said.code == 2
    assert "inside the release" in said.json["error"]


def test_a_damaged_or_foreign_plan_is_named(embedded: Path, tmp_path: Path, release: Release) -> None:
    with pytest.raises(ReviewRefused, match=r"plan\.json is missing, expected a review folder"):
        assignments.load(tmp_path)
    made = assignments.plan(release, 2, 0.5, 1)
    assignments.save(made.model_copy(update={"release": "0" * 64}), tmp_path)
    with pytest.raises(ReviewRefused, match="is of release 0000000000000000"):
        assignments.load(tmp_path, release)
    (tmp_path / assignments.PLAN).write_text("{", "utf-8")
    with pytest.raises(ReviewRefused, match="cannot be read"):
        assignments.load(tmp_path)
