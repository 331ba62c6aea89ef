"""Checks a publication package: every file against the manifest, metrics of cells and routers against the task-level outcomes.

Standard library only, and nothing of DSABench: run `python check.py` inside the package, or `python check.py FOLDER`. A metric is
a numerator over a denominator, both sums over episodes; an interactive task is two episodes of weight a half. 0/0 is stored as 0.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import itertools
import json
import math
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, str]
Parts = Callable[[Mapping[str, float]], tuple[float, float]]
TOLERANCE = 1e-9
SHOWN = 20
BEST = 4
"""Cells of each backend that are told as its best."""
MANIFEST = "manifest.json"
SLICES = ("all", "corpus", "behavior", "difficulty", "size")
FLAGS = ("valid", "s", "g", "t", "h", "label_ok", "edges_ok", "asked", "released", "changed", "initial_s")
NUMBERS = ("weight", "required", "correct", "ran", "precision", "recall", "f1", "over_rate", "under_rate")
HEADLINE = ("RA-Set", "RA-Graph", "EA-Micro", "TEA", "CEA-Set", "CEA-Graph", "R+E-Set", "R+E-Graph")
ROUTING: dict[str, Parts] = {
    "RA-Set": lambda e: (e["s"], 1),
    "RA-Graph": lambda e: (e["g"], 1),
    "Precision": lambda e: (e["precision"], 1),
    "Recall": lambda e: (e["recall"], 1),
    "F1": lambda e: (e["f1"], 1),
    "OR": lambda e: (e["over_rate"], 1),
    "UR": lambda e: (e["under_rate"], 1),
    "Valid": lambda e: (e["valid"], 1),
    "Label": lambda e: (e["label_ok"], 1),
    "Label-given-Set": lambda e: (e["s"] * e["label_ok"], e["s"]),
    "Edges-given-Set": lambda e: (e["s"] * e["edges_ok"], e["s"]),
}
CELL: dict[str, Parts] = {
    **ROUTING,
    "EA-Micro": lambda e: (e["correct"], e["required"]),
    "TEA": lambda e: (e["t"], 1),
    "CEA-Set": lambda e: (e["s"] * e["t"], e["s"]),
    "CEA-Graph": lambda e: (e["g"] * e["t"], e["g"]),
    "R+E-Set": lambda e: (e["s"] * e["t"] * e["h"], 1),
    "R+E-Graph": lambda e: (e["g"] * e["t"] * e["h"], 1),
    "Execution-Coverage": lambda e: (e["ran"], e["required"]),
    "Plan-Accuracy": lambda e: (e["s"] * e["h"] * e["sequential"], e["s"] * e["sequential"]),
    "Ask-Rate": lambda e: (e["asked"] * e["interactive"], e["interactive"]),
    "Release-Rate": lambda e: (e["released"], e["asked"] * e["interactive"]),
    "Change-per-Ask": lambda e: (e["asked"] * e["interactive"] * e["changed"], e["asked"] * e["interactive"]),
    "Repair-per-Ask": lambda e: (
        e["asked"] * e["interactive"] * (1 - e["initial_s"]) * e["s"],
        e["asked"] * e["interactive"],
    ),
    "Harm-per-Ask": lambda e: (
        e["asked"] * e["interactive"] * e["initial_s"] * (1 - e["s"]),
        e["asked"] * e["interactive"],
    ),
    "Needless-Ask-Rate": lambda e: (e["asked"] * (1 - e["interactive"]), e["askable"] * (1 - e["interactive"])),
}
"""Numerator and denominator of an episode by metric, before its weight."""


class Damaged(ValueError):
    """The package cannot be checked at all: no manifest, or a table that cannot be read."""


def sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def rows_of(folder: Path, name: str) -> Iterator[Row]:
    """Rows of a CSV table of the package, packed or not. Raises Damaged."""
    path = folder / name
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8", newline="")
            if name.endswith(".gz")
            else path.open(encoding="utf-8", newline="") as stream
        ):
            yield from csv.DictReader(stream)
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise Damaged(f"{name} cannot be read ({error}), expected a table; get the package again.") from error


def manifest_of(folder: Path) -> dict[str, Any]:
    """The package's manifest. Raises Damaged."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        if str(manifest["version"]) != "package@1" or not isinstance(manifest["files"], dict):
            raise ValueError(f"version {manifest['version']}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Damaged(
            f"{folder} holds no readable {MANIFEST} ({error}), expected a package of `dsabench publish`; name its folder."
        ) from error
    return dict(manifest)


def check_files(folder: Path, manifest: Mapping[str, Any]) -> list[str]:
    """One sentence for every file that is missing, altered or unknown."""
    problems = []
    for name, wanted in sorted(manifest["files"].items()):
        path = folder / name
        if not path.is_file():
            problems.append(f"{name} is missing, the manifest lists it; get the package again.")
        elif (found := sha256(path)) != wanted:
            problems.append(f"{name} has sha256 {found[:12]}, the manifest says {wanted[:12]}; it was altered.")
    known = {*manifest["files"], MANIFEST}
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
        name = path.relative_to(folder).as_posix()
        if name not in known:
            problems.append(f"{name} is not in the manifest; remove it.")
    return problems


def episode_of(row: Row, askable: float) -> dict[str, float]:
    """The numbers of an episode; flags as 0 and 1. `askable`: whether ordinary tasks could be asked about."""
    found = {name: 1.0 if row[name] == "true" else 0.0 for name in FLAGS if name in row}
    found |= {name: float(row[name]) for name in NUMBERS if name in row}
    found["interactive"] = float(row["behavior"] == "interactive")
    found["sequential"] = float(row["behavior"] == "sequential")
    found["askable"] = askable
    return found


def size_of(row: Row) -> str:
    size = int(row["list_size"])
    return "1" if size == 1 else "2-3" if size <= 3 else "4-5" if size <= 5 else "6-8"


class Sums:
    """Numerators and denominators of every metric by subject and slice, from the outcomes."""

    def __init__(self, metrics: Mapping[str, Parts]) -> None:
        self.metrics = list(metrics.items())
        self.sums: dict[tuple[str, str, str], list[float]] = {}
        self.scoped: dict[tuple[str, str], list[float]] = {}
        self.weights: dict[str, float] = defaultdict(float)
        self.episodes: dict[str, set[tuple[str, str]]] = defaultdict(set)
        self.stages: dict[tuple[str, str], float] = defaultdict(float)
        self.rows = 0
        self._parts: dict[tuple[str, ...], list[float]] = {}

    def add(self, subject: str, row: Row, askable: float) -> None:
        key = tuple(row[name] for name in (*FLAGS, *NUMBERS, "behavior") if name in row)
        parts = self._parts.get(key)
        if parts is None:  # few episodes are alike in nothing: each distinct one is worked out once
            episode = episode_of(row, askable)
            weight = episode["weight"]
            parts = [weight * part for _, of in self.metrics for part in of(episode)]
            self._parts[key] = parts
        cuts = ("all", row["corpus"], row["behavior"], row["difficulty"], size_of(row))
        for name, value in zip(SLICES, cuts, strict=True):
            held = self.sums.get((subject, name, value))
            if held is None:
                self.sums[(subject, name, value)] = list(parts)
            else:
                for i, part in enumerate(parts):
                    held[i] += part
        weight = float(row["weight"])
        self.rows += 1
        self.weights[subject] += weight
        self.episodes[subject].add((row["task_id"], row["branch_id"]))
        self.stages[(subject, row["failure_stage"])] += weight

    def parts(self, subject: str, cut: str, value: str, metric: str) -> tuple[float, float] | None:
        place = next((i for i, (name, _) in enumerate(self.metrics) if name == metric), None)
        held = self.sums.get((subject, cut, value))
        return None if place is None or held is None else (held[2 * place], held[2 * place + 1])

    def value(self, subject: str, metric: str, behavior: str = "all") -> float:
        """A metric over all tasks, or over those of one behavior. Raises KeyError."""
        cut = ("all", "all") if behavior == "all" else ("behavior", behavior)
        found = self.parts(subject, *cut, metric)
        if found is None:
            raise KeyError(f"{metric} of {subject} in {behavior}")
        return found[0] / found[1] if found[1] else 0.0

    def defined(self, subject: str, metric: str) -> bool:
        """Whether a metric over all tasks is not 0/0."""
        found = self.parts(subject, "all", "all", metric)
        return found is not None and bool(found[1])


def near(a: float, b: float) -> bool:
    """Whether both are the same number; an infinity is near itself alone, NaN near nothing."""
    return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def rows_lost(name: str, rows: Iterable[Hashable], wanted: Iterable[Hashable]) -> list[str]:
    """A sentence when the rows of a table, by their keys, are not those wanted, each once."""
    held, expected = Counter(iter(rows)), Counter(iter(wanted))  # a mapping would count by its values
    if held == expected:
        return []
    odd = sorted(map(str, {*(held - expected), *(expected - held)}))
    return [
        f"{name} holds {held.total()} rows, the outcomes give {expected.total()}; {len(odd)} are missing, strange or repeated (first {odd[0]})."
    ]


def check_metrics(name: str, rows: Iterator[Row], sums: Sums, subject: Callable[[Row], str]) -> tuple[int, list[str]]:
    """(values compared, problems): the published rows are exactly those the outcomes give, each with its two parts."""
    problems, seen = [], set()
    for row in rows:
        key = (subject(row), row["slice"], row["value_of"], row["metric"])
        where = f"{name}: {key[3]} of {key[0]} ({key[1]} {key[2]})"
        seen.add(key)
        parts = sums.parts(*key)
        if parts is None:
            problems.append(f"{where} is published, and the outcomes give none.")
            continue
        value = parts[0] / parts[1] if parts[1] else 0.0
        found = (float(row["numerator"]), float(row["denominator"]), float(row["value"]))
        if not all(near(a, b) for a, b in zip(found, (*parts, value), strict=True)):
            problems.append(f"{where} is published as {found}, the outcomes give {(*parts, value)}.")
    lost = len(sums.sums) * len(sums.metrics) - len(seen)
    if lost:
        problems.append(f"{name}: {lost} values that the outcomes give are not published, or some are published twice.")
    return len(seen), problems


def check_differences(rows: Iterator[Row], pairs: Mapping[str, Any], sums: Sums) -> tuple[int, list[str]]:
    """(values compared, problems) of intervals: the point values of cells and of matched differences; bounds in order."""
    problems, count = [], 0
    for row in rows:
        where = f"tables/intervals.csv: {row['metric']} of {row['subject']} ({row['scope']})"
        try:
            if row["subject"] in pairs:
                matched = pairs[row["subject"]]
                differences = [
                    sums.value(high, row["metric"], row["scope"]) - sums.value(low, row["metric"], row["scope"])
                    for high, low in matched
                ]
                value = statistics.fmean(differences)
            else:
                value = sums.value(row["subject"], row["metric"], row["scope"])
        except KeyError as error:
            problems.append(f"{where} is published, and the outcomes give no {error.args[0]}.")
            continue
        count += 1
        if not near(float(row["value"]), value):
            problems.append(f"{where} is published as {row['value']}, the outcomes give {value}.")
        if not float(row["low"]) <= float(row["high"]):
            problems.append(f"{where} has its bounds the wrong way round.")
    return count, problems


def open_cells(cells: Sequence[str], backend: str, interaction: str) -> list[str]:
    """The cells of a backend whose medians are its headline: LLM planner, requests that the evaluator did not write."""
    parts = [(cell, cell.split(".")) for cell in cells]
    return [c for c, p in parts if p[0] == backend and p[3] == "llm" and p[4] == interaction and p[5] != "privileged"]


def check_headline(rows: Iterator[Row], sums: Sums) -> tuple[int, list[str]]:
    """(values compared, problems) of the medians and quartiles over each backend's open cells."""
    problems, count = [], 0
    table = list(rows)
    backends = {cell.split(".")[0] for cell in sums.weights}
    keys = [(row["backend"], row["interaction"], row["metric"]) for row in table]
    lost = rows_lost("tables/headline.csv", keys, itertools.product(backends, ("never", "once"), HEADLINE))
    if lost:
        return count, lost
    for row in table:
        cells = open_cells(list(sums.weights), row["backend"], row["interaction"])
        values = sorted(sums.value(cell, row["metric"]) for cell in cells if sums.defined(cell, row["metric"]))
        wanted = [quantile(values, q) for q in (0.25, 0.5, 0.75)]
        found = [float(row[name]) if row[name] else None for name in ("q1", "median", "q3")]
        count += 3
        same = all(a == b if a is None or b is None else near(a, b) for a, b in zip(found, wanted, strict=True))
        if not same or int(row["cells"]) != len(values):
            where = f"tables/headline.csv: {row['metric']} of {row['backend']} ({row['interaction']})"
            problems.append(f"{where} is published as {found}, the outcomes give {wanted}.")
    return count, problems


def quantile(values: Sequence[float], q: float) -> float | None:
    """Linear interpolation between the sorted values; None of nothing."""
    if not values:
        return None
    place = q * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def check_best(rows: Iterator[Row], sums: Sums) -> tuple[int, list[str]]:
    """(values compared, problems) of the best cells of each backend, selected on these very outcomes."""
    problems, count = [], 0
    table = list(rows)
    sizes = Counter(cell.split(".")[0] for cell in sums.weights)
    ranks = [(backend, str(rank)) for backend, size in sizes.items() for rank in range(1, min(BEST, size) + 1)]
    lost = rows_lost("tables/best_of_grid.csv", [(row["backend"], row["rank"]) for row in table], ranks)
    if lost:
        return count, lost
    for row in table:
        cells = [c for c in sums.weights if c.split(".")[0] == row["backend"]]
        order = sorted(cells, key=lambda c: (-round(sums.value(c, "R+E-Graph"), 12), c))
        wanted = order[int(row["rank"]) - 1]
        count += 1
        if row["cell_id"] != wanted:
            problems.append(
                f"tables/best_of_grid.csv: rank {row['rank']} of {row['backend']} is {wanted}, not {row['cell_id']}."
            )
        for metric in HEADLINE:
            count += 1
            if not near(float(row[metric]), sums.value(row["cell_id"], metric)):
                problems.append(f"tables/best_of_grid.csv: {metric} of {row['cell_id']} is not what the outcomes give.")
    return count, problems


def check_stages(rows: Iterator[Row], sums: Sums) -> tuple[int, list[str]]:
    """(values compared, problems) of the weighted counts of failure stages."""
    problems, count = [], 0
    table = list(rows)
    keys = [(row["cell_id"], row["failure_stage"]) for row in table]
    problems += rows_lost("plots/failure_stages.csv", keys, sums.stages)
    for row in table:
        count += 1
        wanted = sums.stages.get((row["cell_id"], row["failure_stage"]), 0.0)
        if not near(float(row["weight"]), wanted):
            problems.append(
                f"plots/failure_stages.csv: {row['failure_stage']} of {row['cell_id']} is published as {row['weight']}, the outcomes "
                f"give {wanted}."
            )
    return count, problems


def check_counts(name: str, sums: Sums, subjects: int, episodes: int, tasks: int) -> list[str]:
    """The outcomes are those of one release: as many subjects as said, each with the same episodes of the said weight."""
    problems = []
    if len(sums.weights) != subjects or sums.rows != subjects * episodes:
        problems.append(
            f"{name} holds {sums.rows} episodes of {len(sums.weights)} subjects, the manifest says {subjects} × {episodes}."
        )
    sets = Counter(frozenset(found) for found in sums.episodes.values())
    if len(sets) > 1 or any(len(found) != episodes for found in sets):
        problems.append(f"{name}: not every subject has the same {episodes} episodes.")
    for subject, weight in sums.weights.items():
        if weight != tasks:
            problems.append(f"{name}: the weights of {subject} add up to {weight}, expected {tasks} tasks.")
    return problems


def check(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """(what was compared, problems, one sentence each). Raises Damaged."""
    manifest = manifest_of(folder)
    problems = check_files(folder, manifest)
    done: dict[str, Any] = {"files": len(manifest["files"])}
    if problems:
        return done, problems
    counts = manifest["counts"]
    askable = float(manifest["ask_scope"] == "all")
    sums = Sums(CELL)
    for row in rows_of(folder, "outcomes/episodes.csv.gz"):
        sums.add(row["cell_id"], row, askable)
    problems += check_counts("outcomes/episodes.csv.gz", sums, counts["cells"], counts["episodes"], counts["tasks"])
    pairs = json.loads((folder / "tables/matched_pairs.json").read_text("utf-8"))
    stages = {
        "metrics": check_metrics(
            "tables/cells.csv.gz", rows_of(folder, "tables/cells.csv.gz"), sums, lambda r: r["cell_id"]
        ),
        "intervals": check_differences(rows_of(folder, "tables/intervals.csv"), pairs, sums),
        "headline": check_headline(rows_of(folder, "tables/headline.csv"), sums),
        "best_of_grid": check_best(rows_of(folder, "tables/best_of_grid.csv"), sums),
        "failure_stages": check_stages(rows_of(folder, "plots/failure_stages.csv"), sums),
    }
    done |= {"cells": len(sums.weights), "episodes": sums.rows}
    if "outcomes/routing_episodes.csv.gz" in manifest["files"]:
        routed = Sums(ROUTING)
        for row in rows_of(folder, "outcomes/routing_episodes.csv.gz"):
            routed.add(f"{row['backend']}.{row['router']}", row, askable)
        problems += check_counts(
            "outcomes/routing_episodes.csv.gz", routed, counts["routing_pairs"], counts["episodes"], counts["tasks"]
        )
        name = "tables/routing.csv"
        stages["routing_metrics"] = check_metrics(
            name, rows_of(folder, name), routed, lambda r: f"{r['backend']}.{r['router']}"
        )
        stages["routing_intervals"] = check_differences(rows_of(folder, "tables/routing_intervals.csv"), {}, routed)
        done["routing_pairs"] = len(routed.weights)
    for name, (count, found) in stages.items():
        done[name] = count
        problems += found
    return done, problems


def main(arguments: Sequence[str]) -> int:
    folder = Path(arguments[0]) if arguments else Path(__file__).resolve().parent
    try:
        done, problems = check(folder)
    except Damaged as error:
        print(error, file=sys.stderr)
        return 1
    for problem in problems[:SHOWN]:
        print(problem, file=sys.stderr)
    compared = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in done.items())
    print(f"{'good' if not problems else f'{len(problems)} problems'}: {compared} compared")
    return 0 if not problems else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
