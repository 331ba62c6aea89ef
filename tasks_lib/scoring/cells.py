"""The factorial grid (PROTOCOL 13): backend × router × data agent × planner × interaction × query mode."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from tasks_lib.protocol.records import Cell
from tasks_lib.protocol.vocabulary import DataAgent, Interaction, Planner, QueryMode, Router

FACTORIAL_ROUTERS = (Router.DIRECT, Router.REACT, Router.HERMES)
ROUTING_STUDY_ROUTERS = tuple(Router)


class UnknownCell(ValueError):
    """A cell id that names no point of the grid."""


def grid(backends: Sequence[str]) -> tuple[Cell, ...]:
    """All cells, 72 for each backend name, in a fixed order. Backend names must be distinct."""
    if len(set(backends)) != len(backends):
        raise ValueError(f"backends {list(backends)} hold a name twice, expected distinct names; rename one.")
    points = product(backends, FACTORIAL_ROUTERS, DataAgent, Planner, Interaction, QueryMode)
    return tuple(Cell(".".join((b, r, a, p, i, q)), b, r, a, p, i, q) for b, r, a, p, i, q in points)


def parse(cell_id: str) -> Cell:
    """The cell of an id. Raises UnknownCell naming the part that is wrong."""
    parts = cell_id.split(".")
    if len(parts) != 6:
        raise UnknownCell(
            f"cell {cell_id!r} has {len(parts)} parts, expected backend.router.data_agent.planner.interaction.query_mode."
        )
    backend, router, agent, planner, interaction, mode = parts
    try:
        cell = Cell(
            cell_id,
            backend,
            Router(router),
            DataAgent(agent),
            Planner(planner),
            Interaction(interaction),
            QueryMode(mode),
        )
    except ValueError as error:
        raise UnknownCell(
            f"cell {cell_id!r} is not in the grid ({error}); ids look like {grid(['NAME'])[0].cell_id}."
        ) from error
    if cell.router not in FACTORIAL_ROUTERS:
        raise UnknownCell(
            f"cell {cell_id!r} names router {router}, expected one of {[str(r) for r in FACTORIAL_ROUTERS]}."
        )
    return cell
