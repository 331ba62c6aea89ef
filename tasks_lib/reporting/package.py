"""PRIVATE. A run as a publication package (paper, appendix I): the release's public part, what models were shown and told, summaries,
task-level outcomes, matched analyses, plotting data, and the script that checks every number of it.

The writing only: whether a run may be published is the flow's to decide, what may not stand in it `package_scan`'s.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from tasks_lib.contracts.release import Release
from tasks_lib.execution import planner, tool_agent
from tasks_lib.models.backends import BackendSpec
from tasks_lib.protocol.vocabulary import Behavior
from tasks_lib.reporting import package_check
from tasks_lib.routeenv.actions import ACTIONS, HERMES_TOOLS
from tasks_lib.routing import fixed, hermes, react
from tasks_lib.scoring.contrasts import CONTRASTS, matched_pairs
from tasks_lib.sql.comparators import COMPARATOR_VERSION
from tasks_lib.sql.execute import ENGINE_VERSION
from tasks_lib.sql.limits import DEFAULT_LIMITS
from tasks_lib.store.artifacts import read_file
from tasks_lib.store.keys import sha256_file
from tasks_lib.store.schemas import DECISIONS, TASKS
from tasks_lib.store.settings import PROJECT_ROOT

VERSION = "package@1"
TEMPLATE = Path(__file__).with_name("templates") / "package_readme.md"
COPIED = {
    "profiles": ("tasks_lib/contracts/profiles/*.yaml",),
    "prompts": ("tasks_lib/*/prompts/*.j2",),
    "renderer": ("tasks_lib/contracts/templates/*.yaml", "tasks_lib/contracts/renderer_examples.yaml"),
    "formats": ("tasks_lib/evaluation/formats/*.json",),
    "code": ("tasks_lib/routing/plan.py", "tasks_lib/reporting/figures*.py"),
    "environment": ("constraints.txt", "pyproject.toml"),
}
"""Files of the project by folder of the package; prompts keep the folder they come from."""
PUBLIC_SPEC = {"name", "model", "temperature", "context", "max_tokens", "protocol"}
"""What is told of a backend: never its address, nor what was sent to it besides."""
FACTS = (
    "cells",
    "episodes",
    "base_rows",
    "model_calls",
    "model_calls_unshared",
    "sql_executions",
    "sql_executions_unshared",
    "cost",
    "effective",
)
TOP = 4
LEVEL = 6
"""Of packing; the highest takes far longer for little less."""
DECISION_COLUMNS = ("revision", "kind", "task_id", "decision", "severity", "by", "request_before", "request_after")


@dataclass(frozen=True)
class Publication:
    """A verified run. `run`, `manifest`: its id and its release's sha256. `settings`: evidence, draws, seed and such.

    `record`: the run's record; `verification`: its report. `episodes`: outcomes, the cells one after the other, read once.
    `extra`: further tables by name, written as they are.
    """

    run: str
    manifest: str
    ask_scope: str
    settings: Mapping[str, Any]
    backends: Sequence[BackendSpec]
    record: Mapping[str, Any]
    verification: Mapping[str, Any]
    episodes: Iterable[pl.DataFrame]
    metrics: pl.DataFrame
    intervals: pl.DataFrame
    routing_episodes: pl.DataFrame | None = None
    routing_metrics: pl.DataFrame | None = None
    routing_intervals: pl.DataFrame | None = None
    extra: Mapping[str, pl.DataFrame] = field(default_factory=dict)


def write_package(folder: Path, release: Release, given: Publication) -> dict[str, Any]:
    """Fill the empty `folder`; returns its manifest. The same run gives the same bytes."""
    _release(folder / "release", release)
    _copied(folder)
    _json(folder / "tools/routeenv_actions.json", [*ACTIONS, react.SUBMIT_TOOL])
    _json(folder / "tools/skill_tools.json", [*HERMES_TOOLS, hermes.SUBMIT_TOOL])
    _json(folder / "tools/sql_tools.json", [tool.function for tool in tool_agent.TOOLS])
    _json(folder / "protocol.json", _protocol())
    _json(folder / "run.json", _run(given))
    held = _outcomes(folder, given.episodes)
    _tables(folder, given, held)
    shutil.copyfile(package_check.__file__, folder / "check.py")
    shutil.copyfile(TEMPLATE, folder / "README.md")
    counts = {
        "cells": len(held.cells),
        "episodes": len(held.episodes),
        "tasks": len({task_id for task_id, _ in held.episodes}),
        "routing_pairs": given.routing_episodes.select("backend", "router").n_unique()
        if given.routing_episodes is not None
        else 0,
    }
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    manifest = {
        "version": VERSION,
        "run": given.run,
        "release": given.manifest,
        "ask_scope": given.ask_scope,
        "counts": counts,
        "files": {p.relative_to(folder).as_posix(): sha256_file(p) for p in files},
    }
    _json(folder / package_check.MANIFEST, manifest)
    return manifest


def _release(folder: Path, release: Release) -> None:
    """The public part byte for byte, counts, and what review decided."""
    for name in release.manifest["files"]:
        if name.startswith("public/"):
            place = folder / name.removeprefix("public/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(release.folder / name, place)
    tasks = read_file(TASKS, release.public / "tasks.parquet")
    seen = {database for allowed in tasks["allowlist"].to_list() for database in allowed}
    corpora = dict(release.databases.select("database_id", "corpus").iter_rows())
    lists = [(len(c.databases), c.behavior is Behavior.INTERACTIVE) for c in release.contracts.values()]
    _json(
        folder / "summary.json",
        {
            **{k: v for k, v in release.manifest.items() if k != "files"},
            "candidates": _histogram(len(allowed) for allowed in tasks["allowlist"].to_list()),
            "required_databases": _histogram(size for size, _ in lists),
            "registry": dict(sorted(Counter(corpora.values()).items())),
            "registry_in_tasks": dict(sorted(Counter(corpora[d] for d in seen).items())),
        },
    )
    decided = release.folder / "private" / "decisions.parquet"
    if decided.is_file():
        _csv(folder / "decisions.csv", read_file(DECISIONS, decided).select(DECISION_COLUMNS))


def _histogram(values: Any) -> dict[str, int]:
    return {str(value): count for value, count in sorted(Counter(values).items())}


def _copied(folder: Path) -> None:
    for place, patterns in COPIED.items():
        for pattern in patterns:
            for source in sorted(PROJECT_ROOT.glob(pattern)):
                floor = source.relative_to(PROJECT_ROOT).parts[1] if place == "prompts" else ""
                (folder / place / floor).mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, folder / place / floor / source.name)


def _protocol() -> dict[str, Any]:
    """Retry limits, stopping rules and versions."""
    return {
        "router_turns": fixed.MAX_STEPS,
        "planner_retries": planner.MAX_RETRIES,
        "tool_agent_steps": tool_agent.MAX_STEPS,
        "sql_limits": asdict(DEFAULT_LIMITS),
        "execution": ENGINE_VERSION,
        "comparators": {str(corpus): version for corpus, version in COMPARATOR_VERSION.items()},
    }


def _run(given: Publication) -> dict[str, Any]:
    checks = ("recomputed_values", "max_discrepancy", "gold_certificate", "leak_findings", "ok")
    return {
        "run": given.run,
        "release": given.manifest,
        "settings": dict(given.settings),
        "backends": [b.model_dump(mode="json", include=PUBLIC_SPEC) for b in given.backends],
        **{name: given.record[name] for name in FACTS if name in given.record},
        "verification": {name: given.verification[name] for name in checks if name in given.verification},
    }


@dataclass
class _Held:
    """What stands in the outcomes. `cells` and `backends` in order; `episodes`: (task, branch) of all of them."""

    cells: dict[str, None] = field(default_factory=dict)
    backends: dict[str, None] = field(default_factory=dict)
    episodes: set[tuple[str, str]] = field(default_factory=set)
    stages: list[pl.DataFrame] = field(default_factory=list)

    def add(self, frame: pl.DataFrame) -> None:
        self.cells |= dict.fromkeys(frame["cell_id"].to_list())
        self.backends |= dict.fromkeys(frame["backend"].to_list())
        self.episodes.update(frame.select("task_id", "branch_id").unique().iter_rows())
        self.stages.append(frame.group_by("cell_id", "failure_stage").agg(pl.col("weight").sum()))


def _outcomes(folder: Path, episodes: Iterable[pl.DataFrame]) -> _Held:
    """Write the outcomes as they come; they are never in memory together."""
    held = _Held()

    def seen() -> Iterator[pl.DataFrame]:
        for frame in episodes:
            held.add(frame)
            yield frame

    _packed(folder / "outcomes/episodes.csv.gz", seen())
    return held


def _tables(folder: Path, given: Publication, held: _Held) -> None:
    """Everything that is summed from the outcomes, and the outcomes of the routing study."""
    _packed(folder / "tables/cells.csv.gz", [given.metrics])
    _csv(folder / "tables/intervals.csv", given.intervals)
    pairs = {
        f"{backend}: {contrast.name}": [[high.cell_id, low.cell_id] for high, low in matched_pairs(contrast, backend)]
        for contrast in CONTRASTS
        for backend in held.backends
    }
    _json(folder / "tables/matched_pairs.json", pairs)
    whole = given.metrics.filter(pl.col("slice") == "all")
    _csv(folder / "tables/headline.csv", headline(whole))
    _csv(folder / "tables/best_of_grid.csv", best_of_grid(whole))
    _csv(folder / "plots/failure_stages.csv", pl.concat(held.stages).sort("cell_id", "failure_stage"))
    modes = whole.filter(pl.col("metric").is_in(["EA-Micro", "R+E-Graph"])).select("cell_id", "metric", "value")
    _csv(folder / "plots/request_modes.csv", _with_factors(modes).filter(pl.col("planner") == "llm"))
    if given.routing_episodes is not None:
        assert given.routing_metrics is not None
        assert given.routing_intervals is not None
        _packed(folder / "outcomes/routing_episodes.csv.gz", [given.routing_episodes])
        _csv(folder / "tables/routing.csv", given.routing_metrics)
        _csv(folder / "tables/routing_intervals.csv", given.routing_intervals)
        _csv(
            folder / "plots/routing.csv",
            given.routing_intervals.filter(pl.col("metric").is_in(["RA-Set", "RA-Graph", "Recall"])),
        )
    for name, frame in given.extra.items():
        _csv(folder / f"tables/{name}.csv", frame)


def _with_factors(cells: pl.DataFrame) -> pl.DataFrame:
    """A frame with `cell_id`, and the six factors as columns of their own."""
    names = ["backend", "router", "data_agent", "planner", "interaction", "query_mode"]
    parts = pl.col("cell_id").str.split(".")
    return cells.with_columns(**{name: parts.list.get(i) for i, name in enumerate(names)})


def headline(whole: pl.DataFrame) -> pl.DataFrame:
    """Median and quartiles of the headline values over each backend's open cells (LLM planner, no privileged requests).

    `cells`: those that have a value; 0/0 is left out, and null where there is no other.
    """
    rows = []
    defined = whole.filter(pl.col("denominator") > 0)
    values = {(c, m): v for c, m, v in defined.select("cell_id", "metric", "value").iter_rows()}
    cells = list(dict.fromkeys(whole["cell_id"].to_list()))
    for backend in dict.fromkeys(c.split(".")[0] for c in cells):
        for interaction in ("never", "once"):
            mine = package_check.open_cells(cells, backend, interaction)
            for metric in package_check.HEADLINE:
                held = sorted(values[(c, metric)] for c in mine if (c, metric) in values)
                low, middle, high = (package_check.quantile(held, q) for q in (0.25, 0.5, 0.75))
                rows.append((backend, interaction, metric, len(held), middle, low, high))
    kinds = dict.fromkeys(("median", "q1", "q3"), pl.Float64)
    names = ["backend", "interaction", "metric", "cells", "median", "q1", "q3"]
    return pl.DataFrame(rows, names, orient="row", schema_overrides=kinds)


def best_of_grid(whole: pl.DataFrame) -> pl.DataFrame:
    """The best cell of each backend's 72 and the next three by R+E-Graph: descriptive maxima, selected on what they report."""
    table = whole.pivot("metric", index="cell_id", values="value", maintain_order=True)
    table = table.with_columns(
        backend=pl.col("cell_id").str.split(".").list.get(0), order=-pl.col("R+E-Graph").round(12)
    )
    best = table.sort("backend", "order", "cell_id").group_by("backend", maintain_order=True).head(TOP)
    best = best.with_columns(rank=pl.int_range(1, pl.len() + 1).over("backend"))
    return best.select("backend", "rank", "cell_id", *package_check.HEADLINE)


def _json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")


def _csv(path: Path, frame: pl.DataFrame) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_text(frame))


def _packed(path: Path, frames: Iterable[pl.DataFrame]) -> None:
    """Parts of a table as one packed CSV, without a time of day."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file, gzip.GzipFile("", "wb", LEVEL, file, mtime=0) as stream:
        for number, frame in enumerate(frames):
            stream.write(_text(frame, header=not number))


def _text(frame: pl.DataFrame, header: bool = True) -> bytes:
    lists = [name for name, kind in frame.schema.items() if isinstance(kind, pl.List)]
    return frame.with_columns(pl.col(lists).list.join(" ")).write_csv(include_header=header).encode("utf-8")
