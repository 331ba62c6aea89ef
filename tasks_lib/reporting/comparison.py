"""A run beside an earlier one, as tables for the page and as text: first what differs, then differences, then single outcomes.

Belongs here: how a `scoring.comparison.Comparison` reads. Does not belong here: computing one, or choosing the runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tasks_lib.reporting.views import (
    DASH,
    Column,
    Entry,
    View,
    bracket,
    number,
    percent,
    signless,
    text_columns,
)
from tasks_lib.scoring.comparison import Compared, Comparison, Difference, Outcome
from tasks_lib.scoring.metrics import HEADLINE

SHOWN_TASKS = 8
"""Task ids named on the page; the command's JSON has all of them."""


def lead(found: Comparison) -> str:
    """What is compared, and whether anything but the run differs, in two or three sentences."""
    tasks = sorted({c.tasks for c in found.compared})
    held = f"{tasks[0]:,}" if len(tasks) == 1 else f"{tasks[0]:,} to {tasks[-1]:,}"
    differs = (
        f"{len(found.conditions)} conditions differ; they come first."
        if len(found.conditions) > 1
        else "One condition differs; it comes first."
        if found.conditions
        else "No setting, prompt, code file or comparator differs."
    )
    text = f"This run ({found.run}) beside {found.other}, another of the same release, over the {held} tasks both hold. {differs}"
    return " ".join((text, *found.left_out))


def views(found: Comparison) -> tuple[View, ...]:
    """Conditions (where any differ), differences, McNemar's test, and which tasks moved."""
    of = found.compared
    tables = (differences(of), values(of), outcomes(of), moved(of))
    return (conditions(found), *tables) if found.conditions else tables


def conditions(found: Comparison) -> View:
    """What is not the same in both runs."""
    return View(
        "comparison-conditions",
        "What differs between the runs",
        [*text_columns("Condition", "This run", "Earlier run")],
        [[Entry(c.name), Entry(c.now), Entry(c.before)] for c in found.conditions],
    )


def differences(compared: Sequence[Compared]) -> View:
    """One row for each backend and subject, one column for each headline value."""
    first = compared[0]
    return View(
        "comparison-differences",
        "Differences, this run − earlier run (percentage points, 95 % intervals)",
        [*text_columns("Backend", "Value"), *(Column(m) for m in HEADLINE)],
        _by_subject(compared, _difference),
        f"{first.draws:,} paired task-cluster resamples (seed {first.seed}), the same on both sides. The reference cell: Hermes router, "
        "adapter data agent, LLM planner, Never, router-local requests. A dash: 0/0 in one of the runs.",
        sortable=True,
    )


def values(compared: Sequence[Compared]) -> View:
    """The values behind the differences."""
    return View(
        "comparison-values",
        "Values, earlier → this run (percent)",
        [*text_columns("Backend", "Value"), *(Column(m) for m in HEADLINE)],
        _by_subject(compared, lambda d: Entry(f"{percent(d.before)} → {percent(d.now)}", sort=d.now)),
        sortable=True,
    )


def _by_subject(compared: Sequence[Compared], entry: Callable[[Difference], Entry]) -> list[list[Entry]]:
    rows = []
    for one in compared:
        by_subject: dict[str, dict[str, Difference]] = {}
        for d in one.differences:
            by_subject.setdefault(d.subject, {})[d.metric] = d
        for subject, of in by_subject.items():
            rows.append([Entry(name_of(one)), Entry(subject), *(entry(of[m]) for m in HEADLINE)])
    return rows


def outcomes(compared: Sequence[Compared]) -> View:
    """McNemar's test of every 0/1 outcome."""
    rows = [
        [
            Entry(name_of(one)),
            Entry(outcome.metric),
            number(outcome.tasks),
            number(outcome.test.gained),
            number(outcome.test.lost),
            Entry(*statistic(outcome)),
            Entry(probability(outcome.test.p), sort=outcome.test.p),
        ]
        for one in compared
        for outcome in one.outcomes
    ]
    return View(
        "comparison-mcnemar",
        "Ordinary tasks of the reference cell: outcomes that changed, and McNemar's test with continuity correction",
        [
            *text_columns("Backend", "Outcome"),
            Column("Tasks"),
            Column("Gained"),
            Column("Lost"),
            Column("χ²"),
            Column("p"),
        ],
        rows,
        "Gained: right in this run only. Lost: right in the earlier run only. Interactive tasks are left out: their branches count half.",
        sortable=True,
    )


def moved(compared: Sequence[Compared]) -> View:
    """Which tasks were gained and lost."""
    rows = [
        [Entry(name_of(one)), Entry(o.metric), Entry(_ids(o.gained)), Entry(_ids(o.lost))]
        for one in compared
        for o in one.outcomes
        if o.gained or o.lost
    ]
    return View(
        "comparison-tasks",
        "Tasks gained and lost",
        [*text_columns("Backend", "Outcome", "Gained", "Lost")],
        rows,
        "dsabench compare-runs --json names all of them.",
        "No ordinary task of the reference cell was gained or lost.",
    )


def name_of(one: Compared) -> str:
    """The backend, with its name in the earlier run where that is another."""
    return one.backend if one.backend == one.other else f"{one.backend} (earlier {one.other})"


def statistic(outcome: Outcome) -> tuple[str, str, float | None]:
    """(text, detail, sort value) of a test's statistic."""
    value = outcome.test.statistic
    return ("no outcome differs", "", None) if value is None else (signless(value), "", value)


def probability(p: float) -> str:
    """A p-value with three decimals; below that, said so."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def signed(value: float) -> str:
    """A difference in percentage points with its sign."""
    return ("+" if float(f"{100 * value:.2f}") > 0 else "") + percent(value)


def _difference(d: Difference) -> Entry:
    if d.difference is None:
        return Entry(DASH)
    return Entry(signed(d.difference.value), bracket(d.difference.low, d.difference.high), d.difference.value)


def _ids(tasks: Sequence[str]) -> str:
    more = f", and {len(tasks) - SHOWN_TASKS:,} more" if len(tasks) > SHOWN_TASKS else ""
    return ", ".join(tasks[:SHOWN_TASKS]) + more or DASH


def text(found: Comparison) -> str:
    """The comparison for a terminal: conditions, then reference cell and outcomes of each backend."""
    lines = [lead(found)]
    lines += [f"  {c.name}: {c.before} → {c.now}" for c in found.conditions]
    for one in found.compared:
        lines.append(f"{name_of(one)}, {one.tasks:,} tasks:")
        for d in one.differences:
            if d.difference is not None and d.metric in ("RA-Set", "RA-Graph", "EA-Micro", "R+E-Graph"):
                moved_by = f"{signed(d.difference.value)} {bracket(d.difference.low, d.difference.high)}"
                lines.append(f"  {d.subject}, {d.metric}: {percent(d.before)} → {percent(d.now)}, {moved_by}")
        for o in one.outcomes:
            shown = (
                "no outcome differs"
                if o.test.statistic is None
                else f"χ² {signless(o.test.statistic)}, p {probability(o.test.p)}"
            )
            lines.append(
                f"  {o.metric} of {o.tasks:,} ordinary tasks: {o.test.gained} gained, {o.test.lost} lost; {shown}"
            )
    return "\n".join(lines)
