"""Datasheet, annex and task cards say what the release's tables say, and nothing that has to stay private."""

from __future__ import annotations

from dataclasses import replace

from tasks_lib.contracts.datasheet import annex, band, datasheet, documents, marks
from tasks_lib.contracts.release_facts import Facts
from tasks_lib.contracts.task_cards import task_cards
from tasks_lib.protocol.records import Binding, Branch, Contract, PublicTask
from tasks_lib.protocol.vocabulary import Behavior, Corpus, Difficulty

HEADINGS = (
    "Motivation",
    "Composition",
    "Collection and creation",
    "Preprocessing and annotations",
    "Recommended uses",
    "Out-of-scope uses",
    "Distribution and licences",
    "Maintenance and versioning",
    "Threats to validity",
)


def unit(name: str, database: str, corpus: str = "bird", flags: tuple[str, ...] = ()) -> dict[str, object]:
    return {
        "unit_id": name,
        "corpus": corpus,
        "database": database,
        "question": f"What does {name} ask?",
        "sql": f"SELECT secret FROM {name}",
        "evidence": "",
        "row_count": 1,
        "column_count": 1,
        "result_digest": "a" * 64,
        "flags": list(flags),
    }


def contract(task_id: str, behavior: Behavior, units: tuple[str, ...], **more: object) -> Contract:
    ids = tuple(f"db_{name}" for name in units)
    fields = {"edges": (), "bindings": (), "branches": (), "slot_question": "", "aggregation": "all of it", "theme": ""}
    return Contract(
        task_id=task_id,
        corpus=Corpus.BIRD,
        behavior=behavior,
        difficulty=Difficulty.EASY,
        unit_ids=units,
        databases=ids,
        extra={"template": "t"},
        **{**fields, **more},  # type: ignore[arg-type]
    )


def example() -> Facts:
    link = Binding("u1", "u2", "film.title", 0, "Ash", "SELECT 1 WHERE a = :binding", "Where is {binding}?")
    contracts = [
        contract("task_a", Behavior.SINGLE, ("u1",)),
        contract("task_b", Behavior.SEQUENTIAL, ("u1", "u2"), edges=(("db_u1", "db_u2"),), bindings=(link,)),
        contract(
            "task_c",
            Behavior.INTERACTIVE,
            ("u2", "u3"),
            branches=(Branch("a", "u2", "The mill.", "mill"), Branch("b", "u3", "The dam.", "dam")),
            slot_question="Which one?",
        ),
    ]
    names = ("u1", "u2", "u3")
    allow = tuple(f"db_{name}" for name in (*names, "u4"))
    origins = {"u1": "original", "u2": "replica", "u3": "replica", "u4": "surrogate"}
    return Facts(
        profile="paper",
        seed=7,
        version="release@1",
        contracts=contracts,
        tasks={c.task_id: PublicTask(c.task_id, Corpus.BIRD, f"Request of {c.task_id}.", allow) for c in contracts},
        units=[unit("u1", "mill_db"), unit("u2", "dam_db", flags=("dqs_literal",)), unit("u3", "pond_db"), unit("u4", "x")],
        databases=[
            {"database_id": f"db_{n}", "corpus": "bird", "database": f"{n}_physical", "origin": o} for n, o in origins.items()
        ],
        gates=[
            {"gate": "executes", "position": 2, "passed": 3, "refused": 1},
            {"gate": "ownership", "position": 1, "passed": 4, "refused": 0},
            {"gate": "executes", "position": 2, "passed": 2, "refused": 0},
        ],
        unstated=[{"task_id": "task_a", "unit_id": "u1", "position": 0, "kind": "limit", "detail": "LIMIT 5"}],
        wordings=[
            {"task_id": c.task_id, "renderer": "template", "template": "t#0", "contributions": []} for c in contracts
        ],
        cues={"balanced_accuracy": 0.512, "chance": 0.2, "cue_share": 0.0},
        statement="No person has reviewed this release.",
        parents={"bird": "b" * 64},
        shortfall={"bird": {"interactive": 3}},
    )  # fmt: skip


def test_every_heading_stands_once_and_in_order() -> None:
    text = datasheet(example())
    found = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert found == list(HEADINGS)


def test_figures_stand_beside_the_published_ones() -> None:
    text = datasheet(example())
    for line in (
        "| tasks | 3 | 815 |",
        "| required jointly (two or more, non-interactive) | 1 | 618 |",
        "| target list of two or more | 2 | 723 |",
        "| required databases, range / mean | 1-2 / 1.67 | 1-8 / 2.94 |",
        "| tasks with 1 required | 1 | 92 |",
        "| tasks with 2-3 required | 2 | 489 |",
        "| candidate databases, range / mean | 4-4 / 4 | 11-166 / 66.08 |",
        "| dependency edges / chains of three | 1 / 0 | not published |",
        "| bird | 3 | 254 | 4 | 80 | 4 |",
        "| sequential | 1 | 22 | 1 |",
        "| executes | 5 | 1 |",
        "| bird | 4 | 3 | dqs_literal 1 |",
    ):
        assert line in text.splitlines(), line
    assert text.index("| ownership |") < text.index("| executes |")
    assert "bird interactive 3" in text
    assert "51.2 % (chance 20 %)" in text
    assert "limit 1" in text
    assert text.count("No person has reviewed this release.") == 2


def test_marked_databases_are_never_corpus_results() -> None:
    found = {row["origin"]: (row["databases"], row["tasks"], row["marked"]) for row in marks(example())}
    assert found == {"original": (1, 2, False), "replica": (2, 2, True), "surrogate": (1, 0, True)}
    assert "not BIRD results" in datasheet(example())
    only = replace(example(), databases=[{**row, "origin": "original"} for row in example().databases])
    assert "not BIRD results" not in datasheet(only)


def test_the_public_part_holds_no_gold_and_the_private_part_does() -> None:
    found = documents(example())
    assert set(found) == {"public/datasheet.md", "private/datasheet_tasks.md", "private/task_cards.md"}
    for secret in ("secret", "_physical", "LIMIT 5", "Ash", "u1`", "Request of"):
        assert secret not in found["public/datasheet.md"], secret
    assert "LIMIT 5" in annex(example())
    cards = task_cards(example())
    for shown in ("SELECT secret FROM u1", "u1_physical → u2_physical", ":film.title", "Which one?", "- b: The dam."):
        assert shown in cards, shown


def test_bands_of_required_databases() -> None:
    assert [band(n) for n in range(1, 9)] == ["1", "2-3", "2-3", "4-5", "4-5", "6-8", "6-8", "6-8"]
