"""What the page's words mean. No numbers here."""

from __future__ import annotations

from tasks_lib.reporting import routing_section
from tasks_lib.reporting.views import DASH, Column, Entry, View

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
    (
        "Graph given set, execution given graph",
        "The chance to pass the next gate among the episodes that passed the one before.",
    ),
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
    (
        "Tier",
        "Entries whose 95 % intervals overlap that of the best among them. They are not told apart: no rank is given inside a tier.",
    ),
    (
        "Matched",
        "A difference between cells that differ in one factor alone, under the paper's controls for that factor.",
    ),
    ("Marginal", "The same over the whole grid, privileged requests included."),
    ("Right tasks", "Task-equivalents whose graph, execution and plan are right: the numerator of R+E-Graph."),
    (DASH, "0/0: nothing to divide by, for instance repairs where nothing was asked. Stored as 0 with denominator 0."),
)


def glossary() -> View:
    """What each value means."""
    return View(
        "glossary",
        "What the values mean",
        [Column("Word", number=False, head=True), Column("Meaning", number=False)],
        [[Entry(word), Entry(text)] for word, text in GLOSSARY],
    )
