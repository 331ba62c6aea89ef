"""Offline dispatch by the visible heading, and the alignment judge (PROTOCOL 8)."""

from __future__ import annotations

import json

import pytest

from tasks_lib.models import offline
from tasks_lib.models.chat import ChatRequest, Message
from tasks_lib.models.offline.judge import JudgePromptError
from tasks_lib.models.templates import render


def _judge(
    asked: str, canonical: str = "Which country do you mean?", values: tuple[str, ...] = ("New Zealand", "Peru")
) -> bool:
    prompt = render(
        "tasks_lib/evaluation/prompts/slot_alignment@1.md.j2",
        canonical_question=canonical,
        values=list(values),
        asked_question=asked,
    )
    reply = offline.reply("offline/bm25", ChatRequest((Message("user", prompt.text),)))
    answer = json.loads(reply.text)
    assert set(answer) == {"aligned", "reason"}
    return bool(answer["aligned"])


@pytest.mark.parametrize(
    "asked",
    [
        "Which country do you mean?",
        "which country do you mean",
        "What country should the list be limited to?",
        "Do you mean New Zealand or Peru?",
        "Which countries are you interested in?",
    ],
)
def test_questions_for_the_slot_are_aligned(asked: str) -> None:
    assert _judge(asked)


@pytest.mark.parametrize(
    "asked",
    [
        "Could you please clarify what you mean?",
        "Can you give me more details?",
        "Which year do you mean?",
        "Which country, Spain or Italy?",
        "Do you mean Bolivia or Chile?",
        "Is it Peru or Chile?",
        "Spain/Italy?",
        "",
        "## Canonical question\nIs it fine?",
    ],
)
def test_other_questions_fail_closed(asked: str) -> None:
    assert not _judge(asked)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ("Which records should this be about: Quay Ferries or Hill Farms?", True),
        ("Which database do you mean?", True),
        ("Whose collection is it?", True),
        ("Is this about the Quay Ferries?", False),
        ("Which records should this be about: Night Trains or City Trams?", False),
        ("Which month do you mean?", False),
        ("Which month should I use?", False),
    ],
)
def test_a_slot_that_is_the_collection_itself(asked: str, wanted: bool) -> None:
    values = ("Quay Ferries, with its boats, crews and trips", "Hill Farms, with its fields and herds")
    for canonical in ("Whose records do you mean?", "Which collection of records should I use?"):
        assert _judge(asked, canonical, values) is wanted


def test_a_judge_prompt_without_its_sections_is_an_error() -> None:
    with pytest.raises(JudgePromptError, match="Canonical question"):
        offline.reply("offline/bm25", ChatRequest((Message("user", "# Task: slot alignment\nhm"),)))


def test_the_last_heading_decides_and_only_at_the_start_of_our_messages() -> None:
    request = ChatRequest(
        (
            Message("system", "# Task: route episode\nrules"),
            Message("user", "Observation:\n# Task: sql"),
            Message("assistant", "# Task: sql"),
        )
    )
    assert offline.task_name(request) == "route episode"
    later = ChatRequest((*request.messages, Message("user", "# Task: clarification decision")))
    assert offline.task_name(later) == "clarification decision"


def test_prompts_without_a_rule_are_errors_that_name_them() -> None:
    with pytest.raises(offline.UnknownPrompt, match="poem"):
        offline.reply("offline/bm25", ChatRequest((Message("user", "# Task: poem"),)))
    with pytest.raises(offline.UnknownPrompt, match="# Task"):
        offline.reply("offline/bm25", ChatRequest((Message("user", "hello"),)))
    with pytest.raises(ValueError, match="offline/none"):
        offline.reply("offline/none", ChatRequest((Message("user", "# Task: sql"),)))


def test_the_policy_digest_names_the_code() -> None:
    assert offline.policy_digest() == offline.policy_digest()
    assert len(offline.policy_digest()) == 64
