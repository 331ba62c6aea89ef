"""Two recorded runs of one release beside each other: which may be compared, what differs between them, and the numbers.

Nothing is run or scored: stored episodes are read. The statistics are in `scoring.comparison`, their words in `reporting.comparison`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import polars as pl

from flows import runs
from flows.explain import Known, recorded
from flows.runtime import say
from flows.wanted import RunSpec
from tasks_lib.scoring.comparison import (
    COLUMNS,
    Comparison,
    Condition,
    NotComparable,
    compare_backend,
    open_cells,
)
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.schemas import EPISODES
from tasks_lib.store.settings import settings

SETTINGS = ("evidence", "ask_scope", "planner_language", "tasks", "draws", "seed")
CODE_LISTED = 12
"""Changed code files that are named; further ones are counted."""


def previous(run: RunSpec) -> str:
    """Id of the last completed run of the same release that shares a backend and was recorded before this one; "" for none."""
    names = {b.name for b in run.backends}
    here = runs.run_folder(run.run_id) / "run.json"
    limit = here.stat().st_mtime_ns if here.exists() else None
    found: list[tuple[int, str]] = []
    for path in sorted(runs.runs_folder().glob("run-*/run.json")):
        at = path.stat().st_mtime_ns
        if path.parent.name == run.run_id or (limit is not None and at >= limit):
            continue
        try:
            spec, record = runs.load(path.parent.name)
        except runs.RunUnknown:
            continue  # a record of another version says nothing that could be compared
        shared = names & {b.name for b in spec.backends}
        if spec.manifest == run.manifest and record.get("status") == "completed" and shared:
            found.append((at, path.parent.name))
    return max(found, default=(0, ""))[1]


def beside(run: RunSpec, record: Mapping[str, Any], against: str = "") -> Comparison | None:
    """A run beside `against`, or beside the previous completed run of its release; None where there is none, or the run is not complete.

    Raises RunUnknown or NotComparable when `against` is named and cannot be compared.
    """
    if against:
        return compare_runs(run.run_id, against)
    other = previous(run) if record.get("status") == "completed" else ""
    if not other:
        return None
    try:
        return compare_runs(run.run_id, other)
    except NotComparable as error:
        say(f"report: without a comparison, since {error}")
        return None


def compare_runs(run_id: str, other_id: str, pairs: Mapping[str, str] | None = None) -> Comparison:
    """A run beside an earlier one. `pairs`: backend of the run by the name it is compared with, beside the names both share.

    Runs with different samples of one release are compared over the tasks both hold.
    Raises RunUnknown; NotComparable for another release, an unknown backend, or when no backend of the two can be compared.
    """
    run, record = runs.load(run_id)
    other, before = runs.load(other_id)
    if run.manifest != other.manifest:
        raise NotComparable(
            f"run {run.run_id} is of release {run.manifest[:12]} and {other.run_id} of {other.manifest[:12]}, expected one release; "
            "their tasks are not the same, so compare runs of one."
        )
    if run.run_id == other.run_id:
        raise NotComparable(f"{run.run_id} was named twice, expected two runs; name another one.")
    chosen = _pairs(run, other, pairs or {})
    store = ArtifactStore(settings().resolved_store_url)
    compared, left_out = [], []
    for mine, theirs in chosen.items():
        lost = [*_lacking(store, record, run.run_id, mine), *_lacking(store, before, other.run_id, theirs)]
        if lost:
            left_out.append(f"{mine} is left out: {lost[0]}")
            continue
        frames = _episodes(store, record, mine), _episodes(store, before, theirs)
        compared.append(compare_backend(mine, frames[0], theirs, frames[1], run.draws, run.seed))
    if not compared:
        raise NotComparable(
            f"no backend of {run.run_id} can be compared with {other.run_id} ({' '.join(left_out)}); resume the run that lacks cells."
        )
    found = tuple(_conditions(run, record, other, before, chosen))
    return Comparison(run.run_id, other.run_id, found, tuple(compared), tuple(left_out))


def as_json(found: Comparison) -> dict[str, Any]:
    """The fields of `dsabench compare-runs --json`."""
    return {"status": "compared", **asdict(found)}


def _pairs(run: RunSpec, other: RunSpec, pairs: Mapping[str, str]) -> dict[str, str]:
    """Names compared: `pairs`, then every name both runs have. Raises NotComparable for a name that a run does not have."""
    mine, theirs = [b.name for b in run.backends], [b.name for b in other.backends]
    for ours, its in pairs.items():
        for name, names, which in ((ours, mine, run.run_id), (its, theirs, other.run_id)):
            if name not in names:
                raise NotComparable(f"{which} has no backend {name!r}, expected one of {names}; mend --pair.")
    chosen = {name: pairs.get(name, name) for name in mine if name in pairs or name in theirs}
    if not chosen:
        raise NotComparable(
            f"{run.run_id} has backends {mine} and {other.run_id} {theirs}, expected a name in common; pair two with "
            "`dsabench compare-runs --pair NAME=OTHER`."
        )
    return chosen


def _lacking(store: ArtifactStore, record: Mapping[str, Any], run_id: str, backend: str) -> list[str]:
    keys = record.get("cell_keys", {})
    cells = [c.cell_id for c in open_cells(backend)]
    lost = [c for c in cells if c not in keys or not store.ok(EPISODES, keys[c])]
    return [f"{run_id} lacks {len(lost)} of its {len(cells)} cells (first {lost[0]})."] if lost else []


def _episodes(store: ArtifactStore, record: Mapping[str, Any], backend: str) -> pl.DataFrame:
    keys = [record["cell_keys"][c.cell_id] for c in open_cells(backend)]
    return pl.concat([store.read(EPISODES, key, COLUMNS) for key in keys])


def _conditions(
    run: RunSpec, record: Mapping[str, Any], other: RunSpec, before: Mapping[str, Any], pairs: Mapping[str, str]
) -> Iterator[Condition]:
    """Settings, judge, backends, then what the cells' keys were made of: comparators, prompts, code."""
    for name in SETTINGS:
        yield from _differing(name.replace("_", " "), getattr(run, name), getattr(other, name))
    yield from _fields("judge", run.judge.model_dump(mode="json"), other.judge.model_dump(mode="json"))
    for mine, theirs in pairs.items():
        specs = run.backend(mine).model_dump(mode="json"), other.backend(theirs).model_dump(mode="json")
        yield from _fields(f"backend {mine}", *specs)
    try:
        now, then = (recorded(spec.run_id)[0] for spec in (run, other))
    except runs.RunUnknown as error:
        yield Condition("code, prompts, comparators", "not told", str(error))
        return
    made = _made_of(now, record["cell_keys"].values()), _made_of(then, before["cell_keys"].values())
    yield from _fields("comparator", made[0][0], made[1][0])
    yield from _files(made[0][1], made[1][1])


def _differing(name: str, now: object, before: object) -> Iterator[Condition]:
    if now != before:
        yield Condition(name, str(now), str(before))


def _fields(name: str, now: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[Condition]:
    for field in sorted({*now, *before}):
        yield from _differing(f"{name}, {field}", now.get(field, "none"), before.get(field, "none"))


def _made_of(known: Known, keys: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """(comparator version by corpus, digest by code or prompt file) of all layers that cells rest on."""
    comparators: dict[str, set[str]] = {}
    files: dict[str, set[str]] = {}
    wanted, seen = list(keys), set[str]()
    while wanted:
        key = wanted.pop()
        if key in seen or key not in known.keys:
            continue
        seen.add(key)
        fields = known.keys[key]
        wanted += fields.inputs.values()
        for corpus, version in fields.params.get("comparators", {}).items():
            comparators.setdefault(corpus, set()).add(str(version))
        for name, digest in known.code.get(str(fields.params.get("code", "")), {}).items():
            files.setdefault(name, set()).add(digest[:12])
    joined = [{name: " and ".join(sorted(v)) for name, v in found.items()} for found in (comparators, files)]
    return joined[0], joined[1]


def _files(now: Mapping[str, str], before: Mapping[str, str]) -> Iterator[Condition]:
    changed = [f for f in sorted({*now, *before}) if now.get(f) != before.get(f)]
    prompts = [f for f in changed if "/prompts/" in f]
    code = [f for f in changed if "/prompts/" not in f]
    for name in (*prompts, *code[:CODE_LISTED]):
        kind = "prompt" if name in prompts else "code"
        yield Condition(f"{kind} {name}", now.get(name, "none"), before.get(name, "none"))
    if len(code) > CODE_LISTED:
        yield Condition("further code files", f"{len(code) - CODE_LISTED} differ", "")
