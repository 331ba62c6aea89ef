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
    return Drawing(Markup("".join(parts)), width, height, _words(nodes, kept, names))


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


def _node(node: Node, x: int, y: int) -> str:
    short = node.name if len(node.name) <= SHORT else node.name[: SHORT - 1] + "…"
    right, bottom, cut = x + WIDTH, y + HEIGHT, 10
    if node.status is Status.EXTRA:
        corners = [(x + cut, y), (right - cut, y), (right, y + cut), (right, bottom - cut)]
        corners += [(right - cut, bottom), (x + cut, bottom), (x, bottom - cut), (x, y + cut)]
        shape = f'<polygon class="box {node.status}" points="{" ".join(f"{a},{b}" for a, b in corners)}"/>'
    else:
        rounded = 0 if node.status is Status.MISSING else 8
        shape = f'<rect class="box {node.status}" x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="{rounded}"/>'
    title = f"<title>{escape(node.name)}</title>"
    name = f'<text class="label name" x="{x + 12}" y="{y + 19}">{escape(short)}{title}</text>'
    return f'{shape}{name}<text class="label" x="{x + 12}" y="{y + 36}">{escape(node.note)}</text>'


def _edge(edge: Edge, at: Mapping[str, tuple[int, int]]) -> str:
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
    drawn = f'<path class="edge {edge.status}" d="{line}" marker-end="url(#arrow)"/>'
    if edge.status in (Status.EXTRA, Status.MISSING):
        x, y = (start[0] + end[0]) // 2, (start[1] + end[1]) // 2 - 5
        drawn += f'<text class="label on-edge" x="{x}" y="{y}">{EDGE_WORDS[edge.status]}</text>'
    return drawn


def figure(drawing: Drawing, label: str, identity: str = "") -> Markup:
    """The drawing as an SVG element; with `identity` its body can be shown again by `again`."""
    return _svg(drawing, label, f'<g id="{escape(identity)}">{drawing.body}</g>' if identity else drawing.body)


def again(drawing: Drawing, label: str, identity: str) -> Markup:
    """The same drawing once more, by reference to the one that has this identity."""
    return _svg(drawing, label, f'<use href="#{escape(identity)}"/>')


def _svg(drawing: Drawing, label: str, body: str) -> Markup:
    """`body`: elements whose texts are escaped."""
    size = f'width="{drawing.width}" height="{drawing.height}" viewBox="0 0 {drawing.width} {drawing.height}"'
    said = escape(f"{label}. {drawing.words}")
    return Markup(f'<svg class="graph" role="img" {size} aria-label="{said}">{body}</svg>')
