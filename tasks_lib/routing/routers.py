"""One door to the six routers: `route` (PROTOCOL 7). Only the choice of router lives here."""

from __future__ import annotations

from tasks_lib.models.chat import ChatModel
from tasks_lib.protocol.records import PublicTask
from tasks_lib.protocol.vocabulary import Router
from tasks_lib.routeenv.search import Catalog
from tasks_lib.routing.fixed import fixed_route, random_route, router_context
from tasks_lib.routing.hermes import hermes_route
from tasks_lib.routing.outcome import Clarification, RouteOutcome
from tasks_lib.routing.react import react_route

__all__ = ["Clarification", "RouteOutcome", "route"]


async def route(
    router: Router,
    task: PublicTask,
    catalog: Catalog,
    model: ChatModel | None,
    trial: int = 0,
    clarification: Clarification | None = None,
) -> RouteOutcome:
    """One attempt of `router` at `task`. Model failures are outcomes; ProviderUnavailable propagates.

    `model` may be None for Random only (ValueError otherwise). With a clarification the same router runs again on the request
    and the exchange; its calls belong to the layer `clarified_routes`.
    """
    if router is Router.RANDOM:
        return random_route(task, trial)
    if model is None:
        raise ValueError(f"Router {router.value} needs a model, found none; pass the model that `open_model` gives.")
    context = router_context(trial, clarification)
    if router is Router.REACT:
        return await react_route(task, catalog, model, context, clarification)
    if router is Router.HERMES:
        return await hermes_route(task, catalog, model, context, clarification)
    return await fixed_route(router, task, catalog, model, context, clarification)
