"""Routes and gold contracts as drawings: databases in layers of their dependencies, as inline SVG made by plain code.

What is right, extra or missing stands in words and in shapes (plain box, cut corners with dashes, dotted box), so that no colour is
needed; `words` says the same for a screen reader. Does not belong here: which databases are which (see browser_tasks).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from markupsafe import Markup, escape

WIDTH, HEIGHT = 190, 46
GAP_X, GAP_Y, MARGIN = 84, 16, 8
SHORT = 24
"""Characters of a name that fit into a box; the whole name is its title."""


class Status(StrEnum):
    """What a database or an edge is: of the gold itself, or of a route seen beside it."""

    GOLD = "gold"
    RIGHT = "right"
    EXTRA = "extra"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Node:
    """A database. `note`: what the second line says."""

    key: str
    name: str
    status: Status
    note: str


@dataclass(frozen=True, slots=True)
class Edge:
    """A dependency between two nodes, by their keys."""

    source: str
    target: str
    status: Status


@dataclass(frozen=True, slots=True)
class Drawing:
    """A finished graph. `body`: elements for an SVG of `width` × `height` units; `words`: the same as one sentence."""

    body: Markup
    width: int
    height: int
    words: str


def layers(nodes: Sequence[str], edges: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Nodes by their longest path from a source, each layer in the given order. An edge that would close a cycle is left out."""
    after: dict[str, set[str]] = {n: set() for n in nodes}
    before: dict[str, list[str]] = {n: [] for n in nodes}

    def reaches(start: str, goal: str) -> bool:
        return start == goal or any(reaches(n, goal) for n in after[start])

    for source, target in edges:
        if source in after and target in after and not reaches(target, source):
            after[source].add(target)
            before[target].append(source)
    depth: dict[str, int] = {}

    def place(node: str) -> int:
        if node not in depth:
            depth[node] = max((place(n) + 1 for n in before[node]), default=0)
        return depth[node]

    count = max((place(n) for n in nodes), default=-1) + 1
    return [[n for n in nodes if depth[n] == d] for d in range(count)]


def _places(nodes: Sequence[Node], edges: Sequence[Edge]) -> dict[str, tuple[int, int]]:
    """Upper left corner of every node; without edges two columns, the second filled last."""
    keys = [n.key for n in nodes]
    columns = layers(keys, [(e.source, e.target) for e in edges])
    if not edges and len(keys) > 3:
        half = (len(keys) + 1) // 2
        columns = [keys[:half], keys[half:]]
    step = WIDTH + (GAP_X if edges else GAP_Y)
    tall = max((len(c) for c in columns), default=0)
    found = {}
    for x, column in enumerate(columns):
        top = (tall - len(column)) * (HEIGHT + GAP_Y) // 2 if edges else 0
        for y, key in enumerate(column):
            found[key] = (MARGIN + x * step, MARGIN + top + y * (HEIGHT + GAP_Y))
    return found


def draw(nodes: Sequence[Node], edges: Sequence[Edge]) -> Drawing:
    """The drawing of a graph; edges to keys that are no node are left out."""
    at = _places(nodes, edges)
    kept = [e for e in edges if e.source in at and e.target in at]
    names = {n.key: n.name for n in nodes}
    parts = [_edge(e, at) for e in kept] + [_node(n, *at[n.key]) for n in nodes]
    width = max((x for x, _ in at.values()), default=0) + WIDTH + MARGIN
    height = max((y for _, y in at.values()), default=0) + HEIGHT + MARGIN
    return Drawing(Markup("").join(parts), width, height, _words(nodes, kept, names))


def _words(nodes: Sequence[Node], edges: Sequence[Edge], names: Mapping[str, str]) -> str:
    if not nodes:
        return "No database."
    told = "; ".join(f"{n.name}: {n.note}" for n in nodes)
    joined = "; ".join(f"{names[e.source]} to {names[e.target]}: {EDGE_WORDS[e.status]}" for e in edges)
    return f"Databases: {told}. " + (f"Edges: {joined}." if edges else "No edges.")


EDGE_WORDS = {
    Status.GOLD: "required",
    Status.RIGHT: "right",
    Status.EXTRA: "extra",
    Status.MISSING: "missing",
}


def _node(node: Node, x: int, y: int) -> Markup:
    short = node.name if len(node.name) <= SHORT else node.name[: SHORT - 1] + "…"
    right, bottom, cut = x + WIDTH, y + HEIGHT, 10
    if node.status is Status.EXTRA:
        corners = [(x + cut, y), (right - cut, y), (right, y + cut), (right, bottom - cut)]
        corners += [(right - cut, bottom), (x + cut, bottom), (x, bottom - cut), (x, y + cut)]
        shape = Markup('<polygon class="box {}" points="{}"/>').format(
            node.status, " ".join(f"{a},{b}" for a, b in corners)
        )
    else:
        shape = Markup('<rect class="box {}" x="{}" y="{}" width="{}" height="{}" rx="{}"/>').format(
            node.status, x, y, WIDTH, HEIGHT, 0 if node.status is Status.MISSING else 8
        )
    return shape + Markup(
        '<text class="label name" x="{}" y="{}">{}<title>{}</title></text><text class="label" x="{}" y="{}">{}</text>'
    ).format(x + 12, y + 19, short, node.name, x + 12, y + 36, node.note)


def _edge(edge: Edge, at: Mapping[str, tuple[int, int]]) -> Markup:
    (x, y), (to_x, to_y) = at[edge.source], at[edge.target]
    middle = HEIGHT // 2
    if to_x > x:
        start, end = (x + WIDTH, y + middle), (to_x - 3, to_y + middle)
        bend = max((end[0] - start[0]) // 2, 20)
        line = f"M{start[0]} {start[1]}C{start[0] + bend} {start[1]} {end[0] - bend} {end[1]} {end[0]} {end[1]}"
    else:  # back to an earlier layer, or within one: around the right side
        start, end = (x + WIDTH, y + middle), (to_x + WIDTH + 3, to_y + middle)
        far = max(start[0], end[0]) + GAP_X // 2
        line = f"M{start[0]} {start[1]}C{far} {start[1]} {far} {end[1]} {end[0]} {end[1]}"
    drawn = Markup('<path class="edge {}" d="{}" marker-end="url(#arrow)"/>').format(edge.status, line)
    if edge.status in (Status.EXTRA, Status.MISSING):
        x, y = (start[0] + end[0]) // 2, (start[1] + end[1]) // 2 - 5
        drawn += Markup('<text class="label on-edge" x="{}" y="{}">{}</text>').format(x, y, EDGE_WORDS[edge.status])
    return drawn


def figure(drawing: Drawing, label: str, identity: str = "") -> Markup:
    """The drawing as an SVG element; with `identity` its body can be shown again by `again`."""
    body = Markup('<g id="{}">{}</g>').format(identity, drawing.body) if identity else drawing.body
    return _svg(drawing, label, body)


def again(drawing: Drawing, label: str, identity: str) -> Markup:
    """The same drawing once more, by reference to the one that has this identity."""
    return _svg(drawing, label, Markup('<use href="#{}"/>').format(identity))


def _svg(drawing: Drawing, label: str, body: Markup) -> Markup:
    return Markup(
        '<svg class="graph" role="img" width="{w}" height="{h}" viewBox="0 0 {w} {h}" aria-label="{label}">{body}</svg>'
    ).format(w=drawing.width, h=drawing.height, label=escape(f"{label}. {drawing.words}"), body=body)
