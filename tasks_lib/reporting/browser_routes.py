"""PRIVATE. Routes in words and drawings: what each selected beside gold, its plans, its transcript, and the exchange before a second one.

Does not belong here: local work and cells (browser_work), the gold side (browser_tasks).
"""

from __future__ import annotations

from collections.abc import Iterable

from tasks_lib.protocol.vocabulary import Behavior
from tasks_lib.reporting.browser_graphs import Drawing, Edge, Node, Status, again, draw, figure
from tasks_lib.reporting.browser_texts import Texts, clipped, printable
from tasks_lib.reporting.browser_views import ARGUMENTS, REQUEST, Gold, RouteView, Row, TaskRows, TurnView
from tasks_lib.reporting.views import words


def _required(gold: Gold, branch_id: str) -> list[set[str]]:
    """Sets a route may be right for: the one of its branch, or one for each branch of an interactive task."""
    owner = dict(zip(gold.contract.unit_ids, gold.contract.databases, strict=True))
    if gold.contract.behavior is not Behavior.INTERACTIVE:
        return [set(gold.contract.databases)]
    return [{owner[b.unit_id]} for b in gold.contract.branches if branch_id in ("", b.branch_id)]


def set_verdict(gold: Gold, route: Row) -> str:
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


def route_view(title: str, gold: Gold, drawing: Drawing, rows: TaskRows, route: Row, texts: Texts) -> RouteView:
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
        set_verdict(gold, route),
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


def exchange(rows: TaskRows) -> Iterable[tuple[str, str]]:
    """Whether the agent asked, what, and what was released."""
    for ask in rows.asks:
        if ask["failure"]:
            yield "Ask decision", f"none could be read ({words(ask['failure'])}); nothing is asked"
        else:
            yield "Ask decision", f"asks: {printable(ask['question'])}" if ask["ask"] else "does not ask"
    for release in rows.releases:
        answer = f"released: {release['answer']}" if release["released"] else "nothing released"
        yield f"Branch {release['branch_id']}", f"{answer} (rule: {words(release['rule'])})"
