"""How the offline policies take a request apart."""

from __future__ import annotations

import pytest

from tasks_lib.models.offline.routing_needs import needs_of, sounds_like_a_goal


@pytest.mark.parametrize(
    ("request_text", "needs"),
    [
        ("How many ferries left the harbour late?", ["How many ferries left the harbour late?"]),
        (
            "List the heaviest honey harvest and the hottest pottery kiln.",
            ["List the heaviest honey harvest", "the hottest pottery kiln."],
        ),
        ("Report the name, rank and age of chess players.", ["Report the name, rank, age of chess players."]),
    ],
)
def test_clauses(request_text: str, needs: list[str]) -> None:
    assert [need.text for need in needs_of(request_text)] == needs


def test_relative_and_forward_cues() -> None:
    relative = needs_of("How many nights did hikers stay in the hut whose altitude is that of the hottest kiln?")
    assert [need.cue for need in relative] == ["", "relative"]
    forward = needs_of(
        "Find the home town of the lecturer with the biggest show, then count the ferries from that town."
    )
    assert [need.cue for need in forward] == ["", "forward"]


def test_goals() -> None:
    assert sounds_like_a_goal("Help me plan a weekend around bees and stars.")
    assert not sounds_like_a_goal("How many hives are there?")
