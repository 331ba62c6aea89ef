"""PRIVATE. What the page of one task says: its gold contract, all SQL that was written for it, and every backend and router.

Belongs here: turning stored rows of one task into what the template shows. Routes are told in browser_routes, local work and cells in
browser_work. Does not belong here: reading tables (browser_layers), ledger texts (browser_texts), HTML (templates/browser_*).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tasks_lib.protocol.vocabulary import VerdictKind
from tasks_lib.reporting.browser_graphs import Drawing, Edge, Node, Status, draw, figure
from tasks_lib.reporting.browser_routes import exchange, route_view, set_verdict
from tasks_lib.reporting.browser_texts import Texts, clipped, printable
from tasks_lib.reporting.browser_views import (
    ARGUMENTS,
    SQL,
    Answer,
    AnswerKey,
    ChainView,
    Gold,
    TaskRows,
    TaskView,
    UnitView,
    answer_key,
)
from tasks_lib.reporting.browser_work import cells_of, locals_of
from tasks_lib.reporting.views import words


def executions_of(chains: Iterable[TaskRows]) -> list[str]:
    """Execution keys that the verdicts of a task rest on."""
    return [c["execution"] for rows in chains for c in rows.contributions if c["execution"]]


def calls_of(chains: Iterable[TaskRows]) -> list[str]:
    """Model calls behind the turns of a task."""
    return [t["call_key"] for rows in chains for turns in rows.turns.values() for t in turns if t["call_key"]]


def task_view(gold: Gold, chains: Sequence[TaskRows], texts: Texts) -> TaskView:
    """What the page of one task shows."""
    drawing = gold_drawing(gold)
    units, numbers = _units(gold, chains, texts)
    return TaskView(
        gold,
        figure(drawing, "Gold contract", "gold"),
        tuple(_facts(gold)),
        tuple(_edges(gold)),
        tuple(_branches(gold)),
        units,
        tuple(_chain(place, gold, drawing, rows, texts, numbers) for place, rows in enumerate(chains, 1)),
    )


def gold_drawing(gold: Gold) -> Drawing:
    """The contract's databases and edges; of an interactive task each database stands for its branch."""
    branch_of = {b.unit_id: b.branch_id for b in gold.contract.branches}
    nodes = [
        Node(d, gold.name(d), Status.GOLD, f"branch {branch_of[u]}" if branch_of else f"required, unit {n}")
        for n, (u, d) in enumerate(zip(gold.contract.unit_ids, gold.contract.databases, strict=True), 1)
    ]
    return draw(nodes, [Edge(a, b, Status.GOLD) for a, b in gold.contract.edges])


def _facts(gold: Gold) -> Iterable[tuple[str, str]]:
    c = gold.contract
    yield "Behavior, the topology a route must name", str(c.behavior)
    yield "Difficulty", str(c.difficulty)
    yield "Corpus", str(c.corpus)
    yield "Candidate databases", f"{len(gold.task.allowlist)}"
    yield "Required databases", f"{len(c.databases)}" + (", one of them by branch" if c.branches else "")
    for name, text in (
        ("Theme", c.theme),
        ("How results combine", c.aggregation),
        ("Canonical question", c.slot_question),
    ):
        if text:
            yield name, text
    if c.extra.get("template"):
        yield "Template of the request", c.extra["template"]


def _edges(gold: Gold) -> Iterable[str]:
    owner = dict(zip(gold.contract.unit_ids, gold.contract.databases, strict=True))
    for b in gold.contract.bindings:
        yield (
            f"{gold.name(owner[b.upstream_unit])} → {gold.name(owner[b.downstream_unit])}: column {b.column_index + 1} ({b.field}) "
            f"gives {printable(str(b.value))!s}; the downstream query is {b.downstream_sql}"
        )


def _branches(gold: Gold) -> Iterable[tuple[str, str, str, str]]:
    owner = dict(zip(gold.contract.unit_ids, gold.contract.databases, strict=True))
    for b in gold.contract.branches:
        yield b.branch_id, gold.name(owner[b.unit_id]), b.answer, b.value


def _units(
    gold: Gold, chains: Sequence[TaskRows], texts: Texts
) -> tuple[tuple[UnitView, ...], dict[AnswerKey, tuple[int, int]]]:
    """Units with the distinct SQL written for each, right ones first; and (unit, answer) numbers by answer."""
    written = Counter(answer_key(row) for rows in chains for row in rows.contributions if row["sql"])
    numbers: dict[AnswerKey, tuple[int, int]] = {}
    views = []
    owner = dict(zip(gold.contract.unit_ids, gold.contract.databases, strict=True))
    for number, unit in enumerate(gold.units, 1):
        mine = [key for key in written if key[0] == unit.unit_id]
        mine.sort(key=lambda k: (k[4] != VerdictKind.CORRECT, -written[k], k))
        answers = []
        for place, key in enumerate(mine, 1):
            numbers[key] = (number, place)
            _, sql, bindings, execution, kind = key
            ran = texts.ran(execution) if execution else None
            answers.append(
                Answer(
                    place,
                    printable(clipped(sql, SQL)),
                    printable(clipped(bindings, ARGUMENTS)),
                    words(kind),
                    kind == VerdictKind.CORRECT,
                    written[key],
                    ran,
                    ran is not None and ran.digest == unit.result_digest,
                )
            )
        views.append(UnitView(number, unit, owner[unit.unit_id], texts.result(unit.result_digest), tuple(answers)))
    return tuple(views), numbers


def _chain(
    place: int,
    gold: Gold,
    drawing: Drawing,
    rows: TaskRows,
    texts: Texts,
    numbers: Mapping[AnswerKey, tuple[int, int]],
) -> ChainView:
    initial = next((r for r in rows.routes if r["branch_id"] == ""), None)
    clarified = [r for r in rows.routes if r["branch_id"]]
    ends = Counter(e["failure_stage"] for e in rows.episodes)
    failed = [
        f"{words(stage)} {n}" for stage, n in sorted(ends.items(), key=lambda x: (-x[1], x[0])) if stage != "none"
    ]
    routes = [route_view("Initial route", gold, drawing, rows, r, texts) for r in ([initial] if initial else [])]
    routes += [
        route_view(f"Route after the answer of branch {r['branch_id']}", gold, drawing, rows, r, texts)
        for r in clarified
    ]
    return ChainView(
        f"chain-{place}",
        rows.backend,
        rows.router,
        ", ".join(gold.name(d) for d in initial["selected"]) if initial else "",
        set_verdict(gold, initial) if initial else "no route",
        ends["none"],
        len(rows.episodes),
        ", ".join(failed) or "none",
        tuple(exchange(rows)),
        tuple(routes),
        tuple(locals_of(gold, rows, numbers)),
        tuple(cells_of(rows.episodes)),
    )
