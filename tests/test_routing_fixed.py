"""The fixed schedules: what Random draws, what Direct, Rerank and Constrained look at, and that there is no second try."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from routing_support import WORLD, Scripted, World, plan, task, write_catalog

from tasks_lib.models.chat import ChatReply
from tasks_lib.protocol.records import PublicTask
from tasks_lib.protocol.vocabulary import Behavior, CallOutcome, Corpus, Router
from tasks_lib.routeenv.search import Catalog
from tasks_lib.routing.routers import Clarification, route
from tasks_lib.routing.turns import TurnKind

REQUEST = "How much honey was harvested in the last season?"
FIXED = [Router.DIRECT, Router.RERANK, Router.CONSTRAINED]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return Catalog.load(write_catalog(tmp_path_factory.mktemp("catalog")))


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    world: World = {
        f"db_{i:02d}": (f"Ferries of harbour {i}.", {"ferry": ("Ferries.", {"capacity": "seats"})}) for i in range(40)
    }
    return Catalog.load(write_catalog(tmp_path_factory.mktemp("wide"), world))


def told(model: Scripted) -> str:
    return model.requests[0].messages[-1].content


async def test_random_is_reproducible_valid_and_at_chance(catalog: Catalog) -> None:
    allowlist = tuple(f"db_{i:02d}" for i in range(20))
    drawn = []
    for i in range(2000):
        this = PublicTask(f"t{i}", Corpus.BIRD, "anything", allowlist)
        got = await route(Router.RANDOM, this, catalog, None)
        assert got.valid
        assert got.plan is not None
        assert (got.plan.topology, got.calls, got.observed, got.turns) == (Behavior.SINGLE, (), (), 0)
        drawn.append(got.plan.selected[0])
    share = drawn.count("db_07") / len(drawn)
    assert share == pytest.approx(1 / 20, abs=0.02)
    assert set(drawn) == set(allowlist)
    again = await route(Router.RANDOM, PublicTask("t5", Corpus.BIRD, "anything", allowlist), catalog, None)
    assert again.plan is not None
    assert again.plan.selected[0] == drawn[5]
    trials = {
        (await route(Router.RANDOM, PublicTask("t5", Corpus.BIRD, "x", allowlist), catalog, None, trial=t)).plan
        for t in range(8)
    }
    assert len(trials) > 1


async def test_a_router_with_calls_needs_a_model(catalog: Catalog) -> None:
    with pytest.raises(ValueError, match="needs a model"):
        await route(Router.DIRECT, task(REQUEST), catalog, None)


@pytest.mark.parametrize(
    ("router", "looks"), [(Router.DIRECT, 3), (Router.RERANK, len(WORLD)), (Router.CONSTRAINED, len(WORLD))]
)
async def test_what_is_inspected(catalog: Catalog, router: Router, looks: int) -> None:
    model = Scripted([json.dumps(plan("db_22"))])
    got = await route(router, task(REQUEST), catalog, model)
    prompt = model.requests[0].messages[-1].content
    assert got.valid
    assert len(model.requests) == 1
    assert prompt.count('<observation action="inspect_database"') == looks
    assert prompt.count('<observation action="search_catalog"') == (0 if router is Router.CONSTRAINED else 1)
    assert "db_22" in got.observed
    assert prompt.startswith("# Task: route decision\n")


@pytest.mark.parametrize(("router", "looks"), [(Router.DIRECT, 3), (Router.RERANK, 10), (Router.CONSTRAINED, 28)])
async def test_schedules_end_where_they_should(wide: Catalog, router: Router, looks: int) -> None:
    """Of 40 candidates: 3 or 10 retrieved ones, or the allowlist's first 28 (max_steps - 2); all within the turn budget."""
    names = tuple(sorted(wide.databases, reverse=True))
    model = Scripted([json.dumps(plan(names[0]))])
    got = await route(router, PublicTask("t1", Corpus.SPIDER, "ferries of harbour 7", names), wide, model)
    shown = re.findall(r'<observation action="inspect_database" arguments=\'{"database_id": "(\w+)"', told(model))
    assert len(shown) == looks
    assert got.observed[:looks] == tuple(shown)
    assert "no steps are left" not in told(model)
    if router is Router.CONSTRAINED:
        assert tuple(shown) == names[:28]
    else:
        assert wide.search("ferries of harbour 7", names, looks)[0][0] == shown[0]


@pytest.mark.parametrize("router", FIXED)
async def test_the_decision_is_the_one_turn_of_the_transcript(catalog: Catalog, router: Router) -> None:
    (turn,) = (await route(router, task(REQUEST), catalog, Scripted([json.dumps(plan("db_22"))]))).transcript
    assert (turn.kind, turn.selected, turn.accepted, turn.recovery) == (TurnKind.DECISION, ("db_22",), True, "")
    twice = json.dumps(json.dumps(plan("db_22", evidence_ids=["ev_x"])))
    (turn,) = (await route(router, task(REQUEST), catalog, Scripted([twice]))).transcript
    assert (turn.selected, turn.accepted, turn.recovery) == (("db_22",), False, "double_encoded")
    got = await route(router, task(REQUEST), catalog, Scripted(["db_22"]))
    assert (got.transcript[0].malformed_reason, got.transcript[0].observed) == ("not_json", got.observed)


async def test_constrained_looks_in_allowlist_order(catalog: Catalog) -> None:
    model = Scripted([json.dumps(plan("db_22"))])
    got = await route(Router.CONSTRAINED, task(REQUEST), catalog, model)
    assert got.observed == tuple(sorted(WORLD, reverse=True))


@pytest.mark.parametrize("router", FIXED)
@pytest.mark.parametrize(
    ("text", "malformed"),
    [("The route is db_22.", 1), (json.dumps(plan("db_99")), 0), (json.dumps(plan("db_22", evidence_ids=["ev_x"])), 0)],
)
async def test_an_invalid_reply_is_an_empty_route_without_a_second_try(
    catalog: Catalog, router: Router, text: str, malformed: int
) -> None:
    model = Scripted([text, json.dumps(plan("db_22"))])
    got = await route(router, task(REQUEST), catalog, model)
    assert len(model.requests) == 1
    assert (got.valid, got.plan, got.malformed_turns, got.failure) == (False, None, malformed, "")
    assert got.reason
    assert "db_99" not in got.reason


@pytest.mark.parametrize("outcome", [CallOutcome.TRUNCATED, CallOutcome.EMPTY, CallOutcome.CONTEXT_OVERFLOW])
async def test_a_failed_call_ends_a_fixed_router(catalog: Catalog, outcome: CallOutcome) -> None:
    model = Scripted([ChatReply(outcome, "", call_key="bad")])
    got = await route(Router.DIRECT, task(REQUEST), catalog, model)
    assert (got.valid, got.failure, got.calls, got.turns) == (False, outcome.value, ("bad",), 1)


async def test_a_clarification_is_shown_and_searched_for(catalog: Catalog) -> None:
    model = Scripted([json.dumps(plan("db_11"))])
    got = await route(
        Router.DIRECT, task("How many are there?"), catalog, model, 0, Clarification("Of what?", "Of harbour ferries.")
    )
    prompt = model.requests[0].messages[-1].content
    assert "Answer: Of harbour ferries." in prompt
    assert "db_11" in got.observed
    assert model.contexts[0].layer == "clarified_routes"


async def test_an_overlong_question_still_searches(catalog: Catalog) -> None:
    model = Scripted([json.dumps(plan("db_11"))])
    long = Clarification("Of what? " * 1000, "Of harbour ferries.")
    got = await route(Router.DIRECT, task("How many are there?"), catalog, model, 0, long)
    assert len(got.observed) == 3


async def test_prompts_name_only_candidates_and_observed_evidence(catalog: Catalog, tmp_path: Path) -> None:
    small = PublicTask("t9", Corpus.SPIDER, REQUEST, ("db_33", "db_22"))
    model = Scripted([json.dumps(plan("db_22"))])
    got = await route(Router.RERANK, small, catalog, model)
    prompt = model.requests[0].messages[-1].content
    assert set(got.observed) == {"db_22", "db_33"}
    for other in set(WORLD) - {"db_22", "db_33"}:
        assert other not in prompt
