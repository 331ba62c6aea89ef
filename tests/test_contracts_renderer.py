"""The LLM renderer: what the model is shown, which replies count, feedback, refusal, and the ledger behind it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from contracts_support import make_bench, make_source, reworded
from routing_support import Scripted
from servers import in_turn, model_server, says

from tasks_lib.catalog.identities import Identities
from tasks_lib.contracts import gates
from tasks_lib.contracts.contract import Candidate, Unit, freeze
from tasks_lib.contracts.proposals import Bench, Proposal, Refusal
from tasks_lib.contracts.renderer import MAX_REGENERATIONS, examples, literals, read, render, task_text
from tasks_lib.contracts.wording import Wording
from tasks_lib.models.backends import BackendSpec, offline_backends
from tasks_lib.models.chat import BackendMisconfigured, ChatReply, ChatRequest, ProviderUnavailable
from tasks_lib.models.client import open_model
from tasks_lib.protocol.records import Binding, Branch, PublicTask
from tasks_lib.protocol.vocabulary import Audience, Behavior, CallOutcome, Corpus
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.ledgers import Ledger


class Room:
    """The tiny databases with a proposal of each behavior, and the wording gates as the renderer calls them."""

    def __init__(self, bench: Bench, units: dict[str, Unit]) -> None:
        self.bench, self.units = bench, units

    def propose(self, candidate: Candidate, *others: str) -> Proposal:
        identities = Identities(b"test key")
        public_ids = {name: identities.database(Corpus.SPIDER, name) for name in self.bench.pool.databases}
        names = tuple(sorted({*candidate.databases, *others}))
        task = PublicTask("task_1", Corpus.SPIDER, "", tuple(public_ids[name] for name in names))
        return Proposal(candidate, names, freeze(candidate, "task_1", public_ids.__getitem__), task, public_ids)

    def parallel(self) -> Proposal:
        units = (self.units["film-chile"], self.units["song-singer"])
        candidate = Candidate(Corpus.SPIDER, Behavior.PARALLEL, units, aggregation="all", theme="films and songs")
        return self.propose(candidate, "leaf_shop")

    def sequential(self) -> Proposal:
        up, down = self.units["film-top"], self.units["song-singer"]
        sql = "SELECT singer FROM songs WHERE song_title = :binding"
        link = Binding(
            up.unit_id, down.unit_id, "films.film_title", 0, "Glass Tower", sql, "Who sang the song {binding}?"
        )
        edge = (up.unit_id, down.unit_id)
        candidate = Candidate(Corpus.SPIDER, Behavior.SEQUENTIAL, (up, down), (edge,), (link,), aggregation="last")
        return self.propose(candidate, "leaf_shop")

    def interactive(self) -> Candidate:
        """A question that is asked of two databases, and says in one of them whose records are meant."""
        shop, clinic = self.units["shop-salem"], self.units["clinic-salem"]
        own = replace(shop, question="How many clients of the shop live in Salem?", literals=("Salem", "shop"))
        branches = (
            Branch("a", shop.unit_id, "I mean the garden shop.", "the garden shop"),
            Branch("b", clinic.unit_id, "I mean the clinic.", '"the clinic"'),
        )
        return Candidate(
            Corpus.SPIDER,
            Behavior.INTERACTIVE,
            (own, clinic),
            branches=branches,
            slot_question="Whose records do you mean?",
            shared_question="How many people live in Salem?",
        )

    def check(self, proposal: Proposal) -> Callable[[Wording], Refusal | None]:
        return lambda w: gates.first_refusal(gates.WORDING, self.bench, reworded(proposal, w.request))


@pytest_asyncio.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    async with SqlRunner(Ledger(f"sqlite:///{tmp_path}/ledger.sqlite")) as runner:
        yield Room(*await make_bench(make_source(tmp_path / "corpus"), runner))


def said(request: str, *words: str) -> str:
    return json.dumps({"request": request, "contributions": {f"P{n}": w for n, w in enumerate(words, 1)}})


GOOD = said(
    "For a page on Chile and music: how many films were made in Chile, and whose voice is on Glass Tower?",
    "how many films were made in Chile",
    "whose voice is on Glass Tower",
)
CHAINED = said(
    "Who sang the song of the same title as the film with the largest budget?",
    "the film with the largest budget",
    "Who sang the song",
)


async def test_an_accepted_reply_becomes_a_wording_that_says_who_wrote_it(room: Room) -> None:
    proposal, model = room.parallel(), Scripted([GOOD])
    wording = await render(proposal.candidate, room.bench.pool, model, room.check(proposal))
    assert isinstance(wording, Wording)
    assert wording.request == json.loads(GOOD)["request"]
    assert wording.renderer == "scripted"
    assert wording.template.startswith("llm/request_wording@")
    assert wording.template.endswith("#0")
    assert wording.contributions == (
        ("film-chile", "how many films were made in Chile"),
        ("song-singer", "whose voice is on Glass Tower"),
    )
    assert [context.audience for context in model.contexts] == [Audience.DIAGNOSTIC]
    prompt = model.requests[0].messages[1].content
    assert "- Chile\n- Glass Tower\n" in prompt  # locked
    assert '"P2"' in prompt.split("JSON schema:")[1]


async def test_the_failed_check_goes_back_to_the_model(room: Room) -> None:
    proposal = room.parallel()
    model = Scripted(
        [GOOD.replace("Glass Tower", "that tower"), GOOD.replace("films were made", "film_title there are"), GOOD]
    )
    wording = await render(proposal.candidate, room.bench.pool, model, room.check(proposal))
    assert isinstance(wording, Wording)
    assert wording.template.endswith("#2")
    assert "literals_survive: the request lost 'Glass Tower'" in model.requests[1].messages[-1].content
    assert "no_identifiers: the wording shows the identifier 'film_title'" in model.requests[2].messages[-1].content
    assert len(model.requests[2].messages) == 4  # the opening, the last reply, its fault: never the whole history


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        ("Here you go.", "Expected one JSON object"),
        (json.dumps({"request": "What?"}), "contributions: Field required"),
        (json.dumps({**json.loads(GOOD), "note": 1}), "note: Extra inputs"),
        (said("How many films were made in Chile?", "How many films were made in Chile?"), "contributions.P2: Field required"),
        (GOOD.replace('"whose voice', '"which voice'), "the request letter by letter"),
        (said("How many films were made in Chile?", "films were made", "films were made"), "needs words of its own"),
        (said("Tell me how many films were made in Chile and who sang Glass Tower", "films", "who"), "not one paragraph"),
        (
            said("How many films were made in 'Chile'? Who sang the song 'Glass Tower'?", "How many films", "Who sang"),
            "only lines up the questions",
        ),
    ],
)  # fmt: skip
async def test_replies_that_do_not_count(room: Room, reply: str, fault: str) -> None:
    proposal, model = room.parallel(), Scripted([reply])
    found = await render(proposal.candidate, room.bench.pool, model, room.check(proposal))
    assert isinstance(found, Refusal)
    assert found.gate == "wording"
    assert fault in found.reason
    assert len(model.requests) == 1 + MAX_REGENERATIONS
    assert fault in model.requests[-1].messages[-1].content


async def test_failed_generations_are_attempts_and_an_overflow_ends_them(room: Room) -> None:
    proposal = room.parallel()
    cut = Scripted([ChatReply(CallOutcome.TRUNCATED, ""), GOOD])
    wording = await render(proposal.candidate, room.bench.pool, cut, room.check(proposal))
    assert isinstance(wording, Wording)
    assert "cut off" in cut.requests[1].messages[-1].content
    full = Scripted([ChatReply(CallOutcome.CONTEXT_OVERFLOW, "")])
    refusal = await render(proposal.candidate, room.bench.pool, full, room.check(proposal))
    assert isinstance(refusal, Refusal)
    assert len(full.requests) == 1


async def test_the_upstream_value_is_never_shown_not_even_as_feedback(room: Room) -> None:
    proposal = room.sequential()
    assert proposal.candidate.bindings[0].value == "Glass Tower"
    model = Scripted([CHAINED.replace("the largest budget?", "the largest budget, Glass Tower?"), CHAINED])
    wording = await render(proposal.candidate, room.bench.pool, model, room.check(proposal))
    assert isinstance(wording, Wording)
    shown = "\n".join(message.content for request in model.requests for message in request.messages)
    assert "glass tower" not in shown.casefold()
    assert "WHERE song_title = <value of P1>" in shown
    assert "the request shows the upstream value '<value of P1>'" in shown
    assert literals(proposal.candidate) == ()


async def test_the_slot_stays_open(room: Room) -> None:
    candidate = room.interactive()
    text = task_text(candidate, room.bench.pool)
    assert "How many people live in Salem?" in text
    assert not any(word in text for word in ("shop", "clinic", "SELECT", "patients"))
    assert literals(candidate) == ("Salem",)
    for words in ("of the garden shop", "of that shop", "of the clinic"):
        with pytest.raises(ValueError, match="settles what must stay open"):
            read(json.loads(said(f"How many people {words} live in Salem?", "How many")), candidate)
    _, contributions = read(json.loads(said("How many people live in Salem?", "How many people")), candidate)
    assert {unit_id for unit_id, _ in contributions} == {"shop-salem", "clinic-salem"}


async def test_the_gold_subject_is_shown_but_for_exploratory_tasks(room: Room) -> None:
    candidate = room.parallel().candidate
    assert "about: a film studio's films and budgets" in task_text(candidate, room.bench.pool)
    exploratory = replace(candidate, behavior=Behavior.EXPLORATORY)
    assert "about:" not in task_text(exploratory, room.bench.pool)
    assert not any(name in task_text(candidate, room.bench.pool) for name in room.bench.pool.databases)


def test_our_examples_would_be_accepted() -> None:
    """One worked example a behavior, each of the form that is demanded, with every literal of its task kept."""
    assert set(examples()) == {behavior.value for behavior in Behavior}
    for name, example in examples().items():
        reply: dict[str, Any] = example["reply"]
        assert example["rules"]
        assert f"behavior: {name}" in example["task"]
        for part, words in reply["contributions"].items():
            assert words in reply["request"]
            assert f"part {part}" in example["task"]
        assert not any(mark in reply["request"] for mark in ("P1", "SELECT", "_", "<value"))


async def test_unavailable_models_and_offline_policies_decide_nothing(room: Room, tmp_path: Path) -> None:
    proposal = room.parallel()
    ledger = Ledger(f"sqlite:///{tmp_path}/models.sqlite")
    with pytest.raises(BackendMisconfigured, match="expected a language model"):
        await render(
            proposal.candidate, room.bench.pool, open_model(offline_backends()[0], ledger), room.check(proposal)
        )

    def down(request: ChatRequest) -> ChatReply:
        raise ProviderUnavailable("provider_unavailable: nobody answers")

    with pytest.raises(ProviderUnavailable):
        await render(proposal.candidate, room.bench.pool, Scripted(down), room.check(proposal))


async def test_over_http_once_and_never_again(room: Room, tmp_path: Path) -> None:
    """Through litellm: the first reply fails a gate, the second passes; a second rendering costs no request."""
    proposal = room.parallel()
    ledger = Ledger(f"sqlite:///{tmp_path}/models.sqlite")
    with model_server(in_turn(says(GOOD.replace("Glass Tower", "it")), says(f"```json\n{GOOD}\n```"))) as server:
        spec = BackendSpec(name="stub", model="hosted_vllm/stub", api_base=server.url)
        found = [
            await render(proposal.candidate, room.bench.pool, open_model(spec, ledger), room.check(proposal))
            for _ in range(2)
        ]
        assert len(server.requests) == 2
        assert server.requests[0]["messages"][0]["role"] == "system"
    assert isinstance(found[0], Wording)
    assert found[0] == found[1]
    assert (found[0].renderer, found[0].template[-2:]) == ("stub", "#1")
