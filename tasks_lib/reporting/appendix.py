"""What stands around the results: run facts, warnings, tasks, retrieval audit, verification. No result is shown here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from tasks_lib.protocol.vocabulary import Behavior, VerdictKind
from tasks_lib.reporting.cuts_section import origin_words
from tasks_lib.reporting.run_tables import RunTables
from tasks_lib.reporting.views import (
    Column,
    Entry,
    View,
    count,
    number,
    plain,
    text_columns,
    words,
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


LEAK = "leak: "
"""How a problem that quotes private text begins."""


def reason(run: RunTables) -> str:
    """Why a run is not complete or failed, without what its checks found: those problems may quote gold, and the page is public."""
    whole = str(run.record["reason"])
    problems = tuple((run.verification or {}).get("problems", ()))
    found = [place for text in (*problems, LEAK) if (place := whole.find(text)) >= 0]
    if run.record["status"] == "failed":
        found.append(0)
    if not found:
        return whole
    checks = "Its checks found problems; see verification.json beside the run's record."
    return " ".join(x for x in (whole[: min(found)].strip(), checks) if x)


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
        ("Status", str(r["status"]) + (f": {told}" if (told := reason(run)) else "")),
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
    have = {(c, b): n for c, b, n in run.tasks.select("corpus", "behavior", "tasks").iter_rows()}
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
        rows.append([Entry("All"), Entry(""), *sums, number(sum(have.values()))])
    return View(
        "tasks",
        "Tasks scored, by corpus and behavior",
        [*text_columns("Corpus", "Databases by origin"), *(Column(str(b)) for b in Behavior), Column("All")],
        rows,
        empty="No task was scored.",
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
