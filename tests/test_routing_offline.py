"""The offline policies route a tiny public catalog end to end, through the real ledgered client, with every router."""

from __future__ import annotations

from pathlib import Path

import pytest
from routing_support import WORLD, task, write_catalog

from tasks_lib.models.backends import RANDOM, BackendSpec, offline_backends
from tasks_lib.models.chat import ChatModel
from tasks_lib.models.client import open_model
from tasks_lib.protocol.vocabulary import Behavior, Router
from tasks_lib.routeenv.search import Catalog
from tasks_lib.routing.asking import decide
from tasks_lib.routing.routers import Clarification, RouteOutcome, route
from tasks_lib.store.ledgers import Ledger

SINGLE = {
    "How many passengers booked a ferry crossing from the northern port?": "db_11",
    "What is the total weight of honey harvested in each season?": "db_22",
    "Which lecturer presented the star show with the most visitors?": "db_33",
    "What is the highest temperature any pottery kiln can reach?": "db_44",
    "How many beds does the highest mountain hut have?": "db_55",
    "Which chess player has the best rating in tournament games?": "db_66",
}
LEXICAL = ["offline/tfidf", "offline/bm25"]
POLICIES = [spec.model for spec in offline_backends()]
ROUTERS = list(Router)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return Catalog.load(write_catalog(tmp_path_factory.mktemp("catalog")))


def model(tmp_path: Path, policy: str, protocol: str = "text") -> ChatModel:
    spec = BackendSpec(name=policy.replace("/", "-"), model=policy, temperature=None, protocol=protocol)
    return open_model(spec, Ledger(f"sqlite:///{tmp_path}/ledger.sqlite", run="test"))


def selected(outcome: RouteOutcome) -> tuple[str, ...]:
    assert outcome.plan is not None, outcome.reason
    return outcome.plan.selected


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("router", [r for r in ROUTERS if r is not Router.RANDOM])
async def test_single_tasks_are_routed(catalog: Catalog, tmp_path: Path, policy: str, router: Router) -> None:
    chat = model(tmp_path, policy)
    right = 0
    for i, (request, target) in enumerate(SINGLE.items()):
        got = await route(router, task(request, f"t{i}"), catalog, chat)
        assert got.valid, got.reason
        assert got.malformed_turns == 0
        if router in (Router.REACT, Router.HERMES):
            assert 4 <= got.turns <= 10
        assert got.plan is not None
        assert got.plan.evidence_ids
        right += selected(got) == (target,)
    assert right >= 5


@pytest.mark.parametrize("router", [r for r in ROUTERS if r is not Router.RANDOM])
async def test_the_floor_plays_by_the_rules_and_knows_nothing(catalog: Catalog, tmp_path: Path, router: Router) -> None:
    """Valid routes, the same again, and seldom right; no run has it unless it is named."""
    chat, again = model(tmp_path, RANDOM), model(tmp_path / "again", RANDOM)
    right = 0
    for i, (request, target) in enumerate(SINGLE.items()):
        got = await route(router, task(request, f"t{i}"), catalog, chat)
        assert got.valid, got.reason
        assert got.plan == (await route(router, task(request, f"t{i}"), catalog, again)).plan
        right += selected(got) == (target,)
    assert right <= 4
    assert RANDOM not in POLICIES


async def test_random_routes_too(catalog: Catalog) -> None:
    got = await route(Router.RANDOM, task("anything"), catalog, None)
    assert selected(got)[0] in WORLD


@pytest.mark.parametrize("policy", LEXICAL)
@pytest.mark.parametrize("router", [Router.REACT, Router.HERMES])
async def test_native_and_text_protocol_route_alike(
    catalog: Catalog, tmp_path: Path, policy: str, router: Router
) -> None:
    request = task("How many hikers stayed in mountain huts and how many chess games were rated?")
    text = await route(router, request, catalog, model(tmp_path, policy))
    native = await route(router, request, catalog, model(tmp_path, policy, "native"))
    assert text.plan == native.plan
    assert text.turns == native.turns


@pytest.mark.parametrize("policy", LEXICAL)
async def test_two_needs_two_databases_asked_separately(catalog: Catalog, tmp_path: Path, policy: str) -> None:
    request = task("Count the overnight stays of hikers in mountain huts and the colours of the pottery glazes.")
    got = await route(Router.REACT, request, catalog, model(tmp_path, policy))
    assert set(selected(got)) == {"db_55", "db_44"}
    assert got.plan is not None
    assert got.plan.topology is Behavior.PARALLEL
    asked = {node.database_id: node.information_request for node in got.plan.nodes}
    assert "hikers" in asked["db_55"]
    assert "glazes" not in asked["db_55"]
    assert "glazes" in asked["db_44"]


@pytest.mark.parametrize("policy", LEXICAL)
async def test_a_described_value_makes_an_edge(catalog: Catalog, tmp_path: Path, policy: str) -> None:
    request = task(
        "How many ferry crossings left the port whose name is that of the home town of the lecturer with the largest star show?"
    )
    got = await route(Router.REACT, request, catalog, model(tmp_path, policy))
    assert got.plan is not None
    assert got.plan.topology is Behavior.SEQUENTIAL
    assert [(edge.source, edge.target) for edge in got.plan.edges] == [("db_33", "db_11")]


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_clarification_decides(catalog: Catalog, tmp_path: Path, policy: str) -> None:
    request = task("How many names are on record?")
    for answer, target in [("The mountain huts.", "db_55"), ("The chess clubs.", "db_66")]:
        got = await route(
            Router.REACT, request, catalog, model(tmp_path, policy), 0, Clarification("Which records?", answer)
        )
        assert selected(got) == (target,)
        assert got.plan is not None
        assert got.plan.topology is Behavior.INTERACTIVE


@pytest.mark.parametrize("policy", LEXICAL)
async def test_asks_when_the_leaders_tie_and_not_when_one_is_clear(
    catalog: Catalog, tmp_path: Path, policy: str
) -> None:
    chat = model(tmp_path, policy)
    for request, ask in [("How many library members have loans?", True), (next(iter(SINGLE)), False)]:
        this = task(request)
        outcome = await route(Router.DIRECT, this, catalog, chat)
        got = await decide(this, outcome, Router.DIRECT, chat, 0, catalog)
        assert got.failure == ""
        assert got.decision.ask is ask
        assert outcome.plan is not None
        if ask:
            assert outcome.plan.topology is Behavior.INTERACTIVE
            assert "the north bank" in got.decision.question
            assert "the south bank" in got.decision.question


@pytest.mark.parametrize("router", [Router.REACT, Router.HERMES])
async def test_an_overlong_exchange_does_not_stop_an_episode(catalog: Catalog, tmp_path: Path, router: Router) -> None:
    long = Clarification("Which records? " * 500, "The chess clubs.")
    got = await route(router, task("How many are there?"), catalog, model(tmp_path, "offline/bm25"), 0, long)
    assert got.valid
    assert got.malformed_turns == 0


async def test_policies_differ(catalog: Catalog, tmp_path: Path) -> None:
    """The four scorers do not agree on how sure they are."""
    request = task("How many nights did guests sleep above the clouds?")
    sure = []
    for policy in POLICIES:
        got = await route(Router.RERANK, request, catalog, model(tmp_path, policy))
        assert got.plan is not None
        sure.append(got.plan.confidence)
    assert len(set(sure)) > 2
