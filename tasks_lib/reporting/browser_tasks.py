"""PRIVATE. What the page of one task says: its gold contract, and beside it what every backend and router made of it.

Belongs here: turning stored rows of one task into what the template shows, in words. Does not belong here: reading tables
(browser_layers), ledger texts (browser_texts), drawing (browser_graphs), HTML (templates/browser_*).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from tasks_lib.protocol.records import Contract, PublicTask, SourceUnit
from tasks_lib.protocol.vocabulary import Behavior, DataAgent, Planner, QueryMode, VerdictKind
from tasks_lib.reporting.browser_graphs import Drawing, Edge, Node, Status, again, draw, figure
from tasks_lib.reporting.browser_texts import Ran, Table, Texts, clipped, printable
from tasks_lib.reporting.views import words

Row = Mapping[str, Any]
SQL, ARGUMENTS, REQUEST = 6000, 1500, 3000
"""Characters of a text that are shown."""


@dataclass(frozen=True, slots=True)
class TaskRows:
    """Rows of one task in one (backend, router). `turns`: by branch ("" for the initial route). `episodes`: of all its cells."""

    backend: str
    router: str
    routes: Sequence[Row]
    turns: Mapping[str, Sequence[Row]]
    asks: Sequence[Row]
    releases: Sequence[Row]
    plans: Sequence[Row]
    contributions: Sequence[Row]
    episodes: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Gold:
    """The private side of one task. `names`: physical name by public database id. `units` in gold order."""

    contract: Contract
    task: PublicTask
    units: tuple[SourceUnit, ...]
    names: Mapping[str, str]

    def name(self, database_id: str) -> str:
        """How a database is called on the page."""
        return self.names.get(database_id, database_id)


@dataclass(frozen=True, slots=True)
class Answer:
    """One distinct SQL text, with its values, written for a unit. `written`: how many stored verdicts rest on it."""

    number: int
    sql: str
    bindings: str
    verdict: str
    right: bool
    written: int
    ran: Ran | None
    same: bool


@dataclass(frozen=True, slots=True)
class UnitView:
    """A required unit: its gold, and everything that was written for it."""

    number: int
    unit: SourceUnit
    database_id: str
    table: Table | None
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class TurnView:
    """A turn in words. `facts`: what was read of the reply."""

    number: int
    kind: str
    action: str
    arguments: str
    facts: tuple[str, ...]
    reply: str


@dataclass(frozen=True, slots=True)
class RouteView:
    """A route beside the gold it is scored against."""

    title: str
    verdict: str
    gold: Markup
    route: Markup
    facts: tuple[tuple[str, str], ...]
    requests: tuple[tuple[str, str], ...]
    plans: tuple[tuple[str, str], ...]
    turns: tuple[TurnView, ...]
    turns_note: str


@dataclass(frozen=True, slots=True)
class Local:
    """Verdicts of one unit under one data agent: by query mode, each a list of (who planned, verdict, unit, answer, request)."""

    state: str
    unit: int
    database: str
    agent: str
    modes: tuple[tuple[tuple[str, str, int, int, str], ...], ...]


@dataclass(frozen=True, slots=True)
class CellsView:
    """Cells that ended alike. `cells`: in words."""

    branch: str
    gates: str
    stage: str
    flag: str
    count: int
    cells: str


@dataclass(frozen=True, slots=True)
class ChainView:
    """One backend and router."""

    anchor: str
    backend: str
    router: str
    selected: str
    initial: str
    solved: int
    attempts: int
    stages: str
    exchange: tuple[tuple[str, str], ...]
    routes: tuple[RouteView, ...]
    locals: tuple[Local, ...]
    cells: tuple[CellsView, ...]


@dataclass(frozen=True, slots=True)
class TaskView:
    """Everything the page of a task shows."""

    gold: Gold
    graph: Markup
    facts: tuple[tuple[str, str], ...]
    edges: tuple[str, ...]
    branches: tuple[tuple[str, str, str, str], ...]
    units: tuple[UnitView, ...]
    chains: tuple[ChainView, ...]


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


AnswerKey = tuple[str, str, str, str, str]


def _answer_key(row: Row) -> AnswerKey:
    return row["unit_id"], row["sql"], row["bindings_json"], row["execution"], row["kind"]


def _units(
    gold: Gold, chains: Sequence[TaskRows], texts: Texts
) -> tuple[tuple[UnitView, ...], dict[AnswerKey, tuple[int, int]]]:
    """Units with the distinct SQL written for each, right ones first; and (unit, answer) numbers by answer."""
    written = Counter(_answer_key(row) for rows in chains for row in rows.contributions if row["sql"])
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
    routes = [_route("Initial route", gold, drawing, rows, r, texts) for r in ([initial] if initial else [])]
    routes += [
        _route(f"Route after the answer of branch {r['branch_id']}", gold, drawing, rows, r, texts) for r in clarified
    ]
    return ChainView(
        f"chain-{place}",
        rows.backend,
        rows.router,
        ", ".join(gold.name(d) for d in initial["selected"]) if initial else "",
        _set_verdict(gold, initial) if initial else "no route",
        ends["none"],
        len(rows.episodes),
        ", ".join(failed) or "none",
        tuple(_exchange(rows)),
        tuple(routes),
        tuple(_locals(gold, rows, numbers)),
        tuple(_cells(rows.episodes)),
    )


def _required(gold: Gold, branch_id: str) -> list[set[str]]:
    """Sets a route may be right for: the one of its branch, or one for each branch of an interactive task."""
    owner = dict(zip(gold.contract.unit_ids, gold.contract.databases, strict=True))
    if gold.contract.behavior is not Behavior.INTERACTIVE:
        return [set(gold.contract.databases)]
    return [{owner[b.unit_id]} for b in gold.contract.branches if branch_id in ("", b.branch_id)]


def _set_verdict(gold: Gold, route: Row) -> str:
    """Set, label and edges of a route against gold, in words."""
    if not route["valid"]:
        return "no accepted plan"
    selected, wanted = set(route["selected"]), _required(gold, route["branch_id"])
    if selected not in wanted:
        return "set wrong"
    words_of = ["set right" if len(wanted) == 1 else "set right for one branch"]
    words_of.append("label right" if route["topology"] == gold.contract.behavior else "label wrong")
    edges = {(e["source"], e["target"]) for e in route["edges"]}
    words_of.append("edges right" if edges == set(gold.contract.edges) else "edges wrong")
    return ", ".join(words_of)


def route_drawing(gold: Gold, route: Row) -> Drawing:
    """A route with what it should hold: right, extra and missing databases and edges."""
    required = dict.fromkeys(gold.contract.databases)
    branches = len(_required(gold, route["branch_id"])) > 1
    wanted = set().union(*_required(gold, route["branch_id"]))
    branch_of = dict(zip(gold.contract.databases, (b.branch_id for b in gold.contract.branches), strict=False))
    nodes = []
    for d in route["selected"]:
        if d in wanted:
            nodes.append(
                Node(d, gold.name(d), Status.RIGHT, f"right for branch {branch_of[d]}" if branches else "right")
            )
        else:
            nodes.append(Node(d, gold.name(d), Status.EXTRA, "extra, not required"))
    if not (branches and set(route["selected"]) & wanted):  # one database serves one branch: the other's is not missing
        absent = [d for d in required if d in wanted and d not in route["selected"]]
        note = "missing (either branch)" if branches else "missing"
        nodes += [Node(d, gold.name(d), Status.MISSING, note) for d in absent]
    declared = [(e["source"], e["target"]) for e in route["edges"]]
    edges = [Edge(a, b, Status.RIGHT if (a, b) in gold.contract.edges else Status.EXTRA) for a, b in declared]
    edges += [Edge(a, b, Status.MISSING) for a, b in gold.contract.edges if (a, b) not in declared]
    return draw(nodes, edges)


def _route(title: str, gold: Gold, drawing: Drawing, rows: TaskRows, route: Row, texts: Texts) -> RouteView:
    label = route["topology"] or "none"
    facts = [
        (
            "Topology",
            label if route["topology"] == gold.contract.behavior else f"{label} (gold: {gold.contract.behavior})",
        ),
        ("Turns", f"{route['turns']}, of them malformed {route['malformed_turns']}"),
        ("Seen in observations", _seen(gold, route)),
        ("Evidence cited, confidence", f"{len(route['evidence_ids'])}, {route['confidence']:.2f}"),
    ]
    if route["reason"]:
        facts.append(("Why no plan was accepted", route["reason"]))
    if route["failure"]:
        facts.append(("Failed call", words(route["failure"])))
    turns = rows.turns.get(route["branch_id"], ())
    return RouteView(
        title,
        _set_verdict(gold, route),
        again(drawing, "Gold contract", "gold"),
        figure(route_drawing(gold, route), title),
        tuple(facts),
        tuple(
            (gold.name(n["database_id"]), printable(clipped(n["information_request"], REQUEST))) for n in route["nodes"]
        ),
        tuple(_plans(gold, rows, route["branch_id"])),
        tuple(_turn(gold, t, texts) for t in turns),
        "" if turns else "No turn: this router asks no model, or its transcript was not kept.",
    )


def _seen(gold: Gold, route: Row) -> str:
    observed = set(route["observed"])
    wanted = set().union(*_required(gold, route["branch_id"]))
    lost = [gold.name(d) for d in gold.contract.databases if d in wanted - observed]
    text = f"{len(observed)} databases"
    return text + (f"; never seen: {', '.join(lost)}" if lost else "; every required one among them")


def _plans(gold: Gold, rows: TaskRows, branch_id: str) -> Iterable[tuple[str, str]]:
    for plan in rows.plans:
        if plan["branch_id"] != branch_id:
            continue
        order = " → ".join(gold.name(d) for d in plan["order"]) or "nothing to order"
        edges = ", ".join(f"{gold.name(e['source'])} to {gold.name(e['target'])}" for e in plan["edges"]) or "none"
        failed = "" if plan["ok"] else f"; failed after {plan['attempts']} attempts"
        yield str(plan["planner"]), f"{order}; dependencies: {edges}{failed}"


def _turn(gold: Gold, turn: Row, texts: Texts) -> TurnView:
    facts = []
    if turn["malformed_reason"]:
        facts.append(f"malformed: {words(turn['malformed_reason'])}")
    if turn["recovery"]:
        facts.append(f"read by {words(turn['recovery'])}")
    if turn["observed"]:
        required = set(gold.contract.databases)
        hit = [gold.name(d) for d in turn["observed"] if d in required]
        facts.append(f"showed {len(turn['observed'])} databases" + (f", required: {', '.join(hit)}" if hit else ""))
    if turn["selected"]:
        facts.append(f"handed in {', '.join(gold.name(d) for d in turn['selected'])}")
    if turn["kind"] in ("final", "decision"):
        facts.append("accepted" if turn["accepted"] else "not accepted")
    if turn["outcome"] != "ok":
        facts.append(f"the call ended in {words(turn['outcome'])}")
    reply = texts.reply(turn["call_key"]).text if turn["call_key"] else ""
    return TurnView(
        turn["turn"],
        words(turn["kind"]),
        turn["action"],
        printable(clipped(turn["arguments"], ARGUMENTS)),
        tuple(facts),
        reply,
    )


def _exchange(rows: TaskRows) -> Iterable[tuple[str, str]]:
    """Whether the agent asked, what, and what was released."""
    for ask in rows.asks:
        if ask["failure"]:
            yield "Ask decision", f"none could be read ({words(ask['failure'])}); nothing is asked"
        else:
            yield "Ask decision", f"asks: {printable(ask['question'])}" if ask["ask"] else "does not ask"
    for release in rows.releases:
        answer = f"released: {release['answer']}" if release["released"] else "nothing released"
        yield f"Branch {release['branch_id']}", f"{answer} (rule: {words(release['rule'])})"


def _locals(gold: Gold, rows: TaskRows, numbers: Mapping[AnswerKey, tuple[int, int]]) -> Iterable[Local]:
    """Verdicts by state, branch, unit and data agent; planners that led to the same are one entry."""
    place = {u.unit_id: n for n, u in enumerate(gold.units, 1)}
    question = {u.unit_id: u.question for u in gold.units}
    groups: dict[tuple[str, str, int, str], list[Row]] = {}
    for row in rows.contributions:
        key = (row["state"], row["branch_id"], place[row["unit_id"]], row["data_agent"])
        groups.setdefault(key, []).append(row)
    order = [str(a) for a in DataAgent]
    for (state, branch, unit, agent), mine in sorted(
        groups.items(), key=lambda g: (g[0][0] == "clarified", *g[0][1:3], order.index(g[0][3]))
    ):
        modes = []
        for mode in QueryMode:
            entries: dict[tuple[str, int, int, str], list[str]] = {}
            for row in sorted((r for r in mine if r["query_mode"] == mode), key=lambda r: str(r["planner"])):
                number = numbers.get(_answer_key(row), (unit, 0))
                asked = _asked(row, gold.task.request, question[row["unit_id"]])
                entries.setdefault((words(row["kind"]), *number, asked), []).append(row["planner"])
            modes.append(
                tuple(
                    ("" if len(planners) == len(Planner) else f"{planners[0]} planner", *entry)
                    for entry, planners in entries.items()
                )
            )
        yield Local(
            f"{state} route" + (f", branch {branch}" if branch else ""),
            unit,
            gold.name(mine[0]["database_id"]),
            words(agent),
            tuple(modes),
        )


def _asked(row: Row, request: str, question: str) -> str:
    """The local request where it is neither the whole request nor the unit's own question nor the route's (shown with it)."""
    text = row["request_text"]
    if not text or text in (request, question) or row["query_mode"] == QueryMode.ROUTER:
        return ""
    return printable(clipped(text, REQUEST))


GATES = (("s", "set"), ("g", "graph"), ("t", "execution"), ("h", "plan"))


def _cells(episodes: Sequence[Row]) -> Iterable[CellsView]:
    """Cells that ended alike, the most frequent end first."""
    groups: dict[tuple[str, str, str, str], list[Row]] = {}
    for e in episodes:
        gates = ", ".join(f"{name} {'yes' if e[gate] else 'no'}" for gate, name in GATES)
        groups.setdefault((e["branch_id"], gates, e["failure_stage"], e["failure_flag"]), []).append(e)
    for (branch, gates, stage, flag), mine in sorted(groups.items(), key=lambda g: (g[0][0], -len(g[1]), g[0])):
        yield CellsView(
            branch, gates, "solved" if stage == "none" else words(stage), words(flag), len(mine), factor_words(mine)
        )


FACTORS = ("data_agent", "planner", "interaction", "query_mode")


def factor_words(cells: Sequence[Row]) -> str:
    """Which cells these are: the values of each factor when they are a full product, else one after the other."""
    seen = [tuple(str(c[f]) for f in FACTORS) for c in cells]
    values = [list(dict.fromkeys(s[i] for s in seen)) for i in range(len(FACTORS))]
    product = 1
    for v in values:
        product *= len(v)
    if product == len(set(seen)):
        return " × ".join(words(" or ".join(v)) for v in values)
    return "; ".join(words(" ".join(s)) for s in seen)
