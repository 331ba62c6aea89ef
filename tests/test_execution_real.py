"""Execution accuracy of the offline policy on real questions (needs DSABENCH_DATA); the figure is printed (pytest -s).

DSABENCH_SQL_QUESTIONS=1034 asks all of Spider dev.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tasks_lib.corpora import cards, spider
from tasks_lib.execution.agents import write_sql
from tasks_lib.execution.examples import NOTHING_SHOWN
from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.client import open_model
from tasks_lib.protocol.records import LocalRequest
from tasks_lib.protocol.vocabulary import Corpus, DataAgent, Engine, QueryMode
from tasks_lib.sql.comparators import compare
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.sql.guard import is_ordered
from tasks_lib.store.ledgers import Ledger

WANTED = int(os.environ.get("DSABENCH_SQL_QUESTIONS", "100"))


@pytest.mark.real
@pytest.mark.skipif("DSABENCH_DATA" not in os.environ, reason="DSABENCH_DATA names no data")
@pytest.mark.parametrize("agent", list(DataAgent))
async def test_execution_accuracy_on_spider_dev(agent: DataAgent, tmp_path: Path) -> None:
    source = spider.read(Path(os.environ["DSABENCH_DATA"]) / "spider")
    handles = {database.name: cards.handle(database, f"db_{i}") for i, database in enumerate(source.databases)}
    questions = [question for question in source.questions if question.split == "dev"]
    chosen = questions[:: len(questions) // WANTED][:WANTED]
    assert len(chosen) == WANTED
    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.sqlite")
    model = open_model(BackendSpec(name="hybrid", model="offline/hybrid", temperature=None), ledger)
    right = judged = 0
    async with SqlRunner(ledger) as runner:
        for question in chosen:
            handle = handles[question.database]
            gold = (await runner.run(handle, question.sql)).result
            if gold is None or not gold.rows:
                continue
            judged += 1
            request = LocalRequest(question.unit_id, "", handle.database_id, QueryMode.PRIVILEGED, question.question)
            draft = await write_sql(agent, request, handle, question.evidence, model, runner, NOTHING_SHOWN, 0)
            mine = (await runner.run(handle, draft.sql)).result
            ordered = is_ordered(Engine.SQLITE, question.sql)
            right += mine is not None and compare(Corpus.SPIDER, gold, mine, ordered).equal
    print(f"\noffline/hybrid {agent} on Spider dev: {right} of {judged} right ({right / judged:.1%})")
    assert right / judged > 0.05
