"""The tables around the results: run facts, tasks, verdicts, failure stages, retrieval audit, verification, every cell, glossary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from tasks_lib.protocol.vocabulary import Behavior, FailureStage, Interaction, VerdictKind
from tasks_lib.reporting import routing_section
from tasks_lib.reporting.run_tables import RunTables
from tasks_lib.reporting.tables import FIXED_SLICE, FIXED_WORDS, backend_entry, mode_entry, origin_words
from tasks_lib.reporting.views import (
    DASH,
    Column,
    Entry,
    View,
    count,
    number,
    percent,
    plain,
    share,
    text_columns,
    words,
)
from tasks_lib.scoring.metrics import HEADLINE

GLOSSARY = (
    ("RA-Set", "The route selects exactly the required databases."),
    ("RA-Graph", "RA-Set, and the topology label and the directed dependency edges are right too."),
    (
        "EA-Micro",
        "Share of required contributions (one per required database) whose result is right. A database that was not "
        "selected, SQL that is missing, refused, failing or too slow, and an invalid binding all count as wrong.",
    ),
    (
        "TEA",
        "All required contributions of the task are right and their bindings valid, whatever the route looked like.",
    ),
    ("CEA-Set", "TEA among the episodes whose source set is right."),
    ("CEA-Graph", "TEA among the episodes whose graph is right."),
    ("R+E-Set", "Set, execution and plan are right together."),
    ("R+E-Graph", "Graph, execution and plan are right together: the whole workflow succeeds."),
    ("Plan accuracy", "Among sequential tasks with the right set: the plan respects every required order."),
    *routing_section.GLOSSARY,
    ("Recall", "Share of the required databases that the route selects, averaged over tasks."),
    ("Valid", "Share of episodes in which the validator accepted a route plan."),
    ("Ask-Rate", "Share of interactive tasks on which the agent chose to ask its one question."),
    ("Release-Rate", "Share of asked questions that hit the ambiguous slot, so that the branch's answer was released."),
    (
        "Needless asks",
        "Share of ordinary tasks, which leave nothing open, on which the agent asked all the same. Counted only in a run that lets "
        "agents ask there; nothing is ever answered there.",
    ),
    ("Change per ask", "Share of asked questions after which the selected set differs."),
    ("Repair per ask", "Share of asked questions after which a wrong set became right."),
    ("Harm per ask", "Share of asked questions after which a right set became wrong."),
    (
        "Task-equivalents",
        "Tasks counted by weight: an ordinary task is 1, each of the two branches of an interactive task is one half.",
    ),
    (
        "Interval",
        "2.5 and 97.5 percentiles of a bootstrap that resamples whole tasks, with all their cells and branches.",
    ),
    (DASH, "0/0: nothing to divide by, for instance repairs where nothing was asked. Stored as 0 with denominator 0."),
)


def _fact(value: Any) -> str:
    """A fact of a record in words."""
    if value is None:
        return "not run"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        inner = ((words(str(k)), f"({_fact(v)})" if isinstance(v, Mapping) else _fact(v)) for k, v in value.items())
        return ", ".join(f"{k} {v}" for k, v in inner) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(_fact(v) for v in value) or "none"
    if isinstance(value, float) and value != int(value):
        return f"{value:.3g}"
    return count(value) if isinstance(value, int | float) else str(value)


def not_original(run: RunTables) -> str:
    """One sentence for every set of marks other than `original` that corpora carry; empty when there is none."""
    marked: dict[tuple[str, ...], list[str]] = {}
    for corpus in run.record["manifest"]["origins"]:
        if marks := origin_marks(run, corpus):
            marked.setdefault(marks, []).append(_names(corpus))
    return " ".join(
        f"Not {' or '.join(names)} results: the databases are marked {' and '.join(marks)}."
        for marks, names in marked.items()
    )


def origin_marks(run: RunTables, corpus: str) -> tuple[str, ...]:
    """Origins of a corpus' databases other than `original`."""
    origins: Mapping[str, int] = run.record["manifest"]["origins"].get(corpus, {})
    return tuple(o for o, n in sorted(origins.items()) if n and o != "original")


def warnings(run: RunTables) -> list[str]:
    """What a reader must know before any number: origins, cells that are missing, a failed verification."""
    found = [not_original(run)]
    scored, whole = len(run.cells()), 72 * len(run.backends)
    if scored < whole:
        found.append(f"{count(whole - scored)} of {count(whole)} cells are not complete and not shown.")
    if run.verification is not None and not run.verification.get("ok"):
        found.append("The verification of this run failed: do not use its values.")
    return [w for w in found if w]


def _names(corpus: str) -> str:
    return {"bird": "BIRD", "spider": "Spider", "livesqlbench": "LiveSQLBench"}.get(corpus, corpus)


def _changed(backend: Mapping[str, Any], effective: Mapping[str, Mapping[str, Any]]) -> str:
    """What was sent for a backend other than its spec asks for, in words; "" when nothing was."""
    sent = effective.get(backend["name"])
    if sent is None:
        return ""
    told = []
    if sent["temperature"] != backend["temperature"]:
        taken = "the provider's default" if sent["temperature"] is None else f"{sent['temperature']:g}"
        told.append(f", temperature {taken} in place of {backend['temperature']}")
    if others := [name for name in sent["dropped"] if name != "temperature"]:
        told.append(f", not sent: {', '.join(others)}")
    return "".join(told)


def facts(run: RunTables) -> list[tuple[str, str]]:
    """(name, words) of the run, in reading order."""
    r = run.record
    cost = r["cost"]
    known = f"{cost['known_usd']:.4f} USD known"
    if cost["unknown_calls"]:
        known += f"; the price of {count(cost['unknown_calls'])} calls is unknown and not in it"
    if cost.get("cached_tokens"):
        known += f"; {count(cost['cached_tokens'])} prompt tokens were read from the providers' caches"
    failed = run.contributions.filter(pl.col("kind") != VerdictKind.CORRECT)
    by_kind = failed.group_by("kind").agg(pl.col("n").sum()).sort("n", "kind", descending=[True, False])
    kinds = ", ".join(f"{words(kind)} {count(n)}" for kind, n in by_kind.iter_rows())
    wrong = int(failed["n"].sum())
    total = int(run.contributions["n"].sum())
    found = [
        ("Run", str(r["run"])),
        ("Release", f"{r['release']}, {count(r['manifest']['tasks'])} tasks"),
        ("Status", str(r["status"]) + (f": {r['reason']}" if r["reason"] else "")),
        (
            "Backends",
            "; ".join(
                f"{b['name']} ({b['model']}{', baseline' if b['name'] in run.baselines else ''}"
                f"{_changed(b, r.get('effective', {}))})"
                for b in r["backends"]
            ),
        ),
        ("Conditions", "; ".join(f"{name}: {words(value)}" for name, value in r["conditions"].items())),
        ("Cells", f"{count(len(run.cells()))} of {count(72 * len(run.backends))} scored"),
    ]
    for label, key in (("Model calls", "model_calls"), ("SQL executions", "sql_executions")):
        found.append(
            (
                label,
                f"the tables rest on {count(r[key])}; {count(r[f'{key}_made'])} were made in this run; separate cells would "
                f"need {count(r[f'{key}_unshared'])}",
            )
        )
    seconds = f"{r['seconds']:,.1f} seconds" if r.get("seconds") is not None else "not recorded"
    return [
        *found,
        ("Cost", known),
        ("Time", seconds),
        ("Failed contributions", f"{count(wrong)} of {count(total)} verdicts" + (f": {kinds}" if kinds else "")),
    ]


def tasks(run: RunTables) -> View:
    """Tasks that were scored, by corpus and behavior, with the corpora's origins."""
    seen = run.episodes.select("task_id", "corpus", "behavior").unique()
    have = {(c, b): n for c, b, n in seen.group_by("corpus", "behavior").len().iter_rows()}
    names = [c for c in run.record["manifest"]["by_corpus"] if any(k[0] == c for k in have)]
    rows = [
        [
            Entry(_names(c)),
            Entry(origin_words(run, c), marks=("not original",) if origin_marks(run, c) else ()),
            *(number(have.get((c, str(b)), 0)) for b in Behavior),
            number(sum(have.get((c, str(b)), 0) for b in Behavior)),
        ]
        for c in names
    ]
    if len(rows) > 1:
        sums = [number(sum(have.get((c, str(b)), 0) for c in names)) for b in Behavior]
        rows.append([Entry("All"), Entry(""), *sums, number(seen.height)])
    return View(
        "tasks",
        "Tasks scored, by corpus and behavior",
        [*text_columns("Corpus", "Databases by origin"), *(Column(str(b)) for b in Behavior), Column("All")],
        rows,
        empty="No task was scored.",
    )


def verdicts(run: RunTables) -> View:
    """Verdict kinds of contributions by backend and data agent."""
    table = {(b, a, k): n for b, a, k, n in run.contributions.select("backend", "data_agent", "kind", "n").iter_rows()}
    kinds = [str(k) for k in VerdictKind if any(key[2] == k for key in table)]
    groups = [(b, a) for b in run.backends for a in dict.fromkeys(k[1] for k in sorted(table) if k[0] == b)]
    rows = []
    for b, a in groups:
        total = sum(n for (x, y, _), n in table.items() if (x, y) == (b, a))
        rows.append(
            [
                backend_entry(run, b),
                Entry(words(a)),
                number(total),
                *(number(table.get((b, a, k), 0)) for k in kinds),
            ]
        )
    return View(
        "verdicts",
        "Distinct contribution verdicts by kind (planners, request modes and route states together)",
        [*text_columns("Backend", "Data agent"), Column("All"), *(Column(words(k)) for k in kinds)],
        rows,
        "Only “correct” counts; every other kind stays in the denominators.",
        "No contribution was judged.",
    )


def stage_weights(run: RunTables) -> dict[tuple[str, str], dict[str, float]]:
    """Task-equivalents by primary failure stage for (backend, interaction) of the fixed slice."""
    chosen = {c.cell_id for c in run.cells(**FIXED_SLICE)}
    part = run.episodes.filter(pl.col("cell_id").is_in(sorted(chosen)))
    sums = part.group_by("backend", "interaction", "failure_stage").agg(pl.col("weight").sum())
    have = {(b, i, s): w for b, i, s, w in sums.iter_rows()}
    return {
        (b, str(i)): {str(s): have.get((b, str(i), str(s)), 0.0) for s in FailureStage}
        for b in run.backends
        for i in Interaction
        if any(k[:2] == (b, str(i)) for k in have)
    }


def stages(run: RunTables) -> View:
    """Primary failure stages of the fixed slice, in task-equivalents and percent."""
    rows = []
    for (backend, interaction), weights in stage_weights(run).items():
        total = sum(weights.values())
        rows.append(
            [
                backend_entry(run, backend),
                Entry(interaction),
                *(Entry(count(w), f"{percent(w / total)} %", w) for w in weights.values()),
            ]
        )
    labels = ["success" if s is FailureStage.NONE else words(str(s)) for s in FailureStage]
    return View(
        "stages",
        f"Primary failure stage in task-equivalents: {FIXED_WORDS}",
        [*text_columns("Backend", "Interaction"), *(Column(label) for label in labels)],
        rows,
        "Each failed episode has one primary stage, the first that applies from left to right.",
        "No cell of this slice is complete.",
    )


def audits(run: RunTables) -> tuple[View, ...]:
    """The retrieval audit over source units and over tasks, one row for a scope and cut; nothing when it was not given."""
    if run.audit is None:
        return ()
    ours = run.audit.filter(
        pl.col("stage").is_in(["candidate", "reranked"])
    )  # plain searches stand on the audit's own page
    return (
        _audit(ours.filter(pl.col("scope") != "task"), "audit-units", "Retrieval of source units (percent)", "Units"),
        _audit(
            ours.filter(pl.col("scope") == "task"),
            "audit-tasks",
            "Retrieval for the tasks inside their allowlists (percent)",
            "Tasks",
            "Interactive tasks count the union of their branches.",
        ),
    )


def _audit(table: pl.DataFrame, name: str, caption: str, things: str, note: str = "") -> View:
    groups: dict[tuple[str, str, str], dict[tuple[str, str], float]] = {}
    sizes: dict[tuple[str, str, str], int] = {}
    for row in table.iter_rows(named=True):
        key = (row["scope"], row["slice"], row["value_of"])
        groups.setdefault(key, {})[(row["stage"], row["metric"])] = row["value"]
        sizes[key] = row["n"]
    # By stage, then metric, then k as a number.
    measures = sorted(
        {measure for found in groups.values() for measure in found},
        key=lambda m: (m[0], m[1].rpartition("_at_")[0] or m[1], len(m[1]), m[1]),
    )
    rows = [
        [
            Entry(words(scope)),
            Entry("all" if cut == "all" else f"{cut}: {value}"),
            number(sizes[(scope, cut, value)]),
            *(plain(found[m]) if m in found else Entry("") for m in measures),
        ]
        for (scope, cut, value), found in groups.items()
    ]
    labels = [f"{words(stage)} {words(metric).replace(' at ', ' @')}" for stage, metric in measures]
    return View(
        name,
        caption,
        [*text_columns("Scope", "Cut"), Column(things), *(Column(label.replace("mrr", "MRR")) for label in labels)],
        rows,
        note,
        f"{caption}: nothing was measured.",
        sortable=True,
    )


def verification(run: RunTables) -> list[tuple[str, str]]:
    """(name, words) of the run's verification; one line saying that there is none when it was not verified."""
    v = run.verification
    if v is None:
        return [("Verified", "no: this run's values have not been recomputed yet")]
    labels = {
        "ok": "Verified",
        "recomputed_values": "Values recomputed",
        "max_discrepancy": "Largest discrepancy",
        "gold_certificate": "Gold certificate",
        "leak_findings": "Leak findings",
    }
    found = [(label, _fact(v.get(key))) for key, label in labels.items()]
    # Problems may quote private text (a leak's excerpt), so the page counts them and says where they stand.
    problems = len(v.get("problems", ()))
    return (
        [*found, ("Problems", f"{count(problems)}; see verification.json beside the run's record")]
        if problems
        else found
    )


def cells(run: RunTables) -> View:
    """Every scored cell with its eight headline values and their intervals."""
    rows = [
        [
            backend_entry(run, c.backend),
            Entry(str(c.router)),
            Entry(words(str(c.data_agent))),
            Entry(str(c.planner)),
            Entry(str(c.interaction)),
            mode_entry(str(c.query_mode)),
            *(share(run.ratio(c.cell_id, m), run.band(c.cell_id, m)) for m in HEADLINE),
        ]
        for c in run.cells()
    ]
    return View(
        "cells",
        "Every cell of the factorial with its eight headline values and 95 % intervals (percent)",
        [
            *text_columns("Backend", "Router", "Data agent", "Planner", "Interaction", "Request mode"),
            *(Column(m) for m in HEADLINE),
        ],
        rows,
        "Choose a column head to sort by it, again to reverse. Entries of 0/0 stay last.",
        "No cell is complete.",
        sortable=True,
    )


def glossary() -> View:
    """What each value means."""
    return View(
        "glossary",
        "What the values mean",
        [Column("Word", number=False, head=True), Column("Meaning", number=False)],
        [[Entry(word), Entry(text)] for word, text in GLOSSARY],
    )
