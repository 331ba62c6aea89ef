"""Data agents against scripted models: what they send, when they correct, when the tool agent ends."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from tasks_lib.execution.agents import write_sql
from tasks_lib.execution.drafts import Example, SqlDraft
from tasks_lib.execution.examples import NOTHING_SHOWN, Pool
from tasks_lib.execution.prompting import public_error
from tasks_lib.execution.tool_agent import MAX_STEPS
from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.chat import ChatReply, ChatRequest, ToolCall
from tasks_lib.models.offline.sql import reply as offline_reply
from tasks_lib.protocol.records import CallContext, DatabaseHandle, LocalRequest
from tasks_lib.protocol.vocabulary import (
    Audience,
    CallOutcome,
    Corpus,
    DataAgent,
    Engine,
    QueryMode,
    VerdictKind,
)
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.keys import sha256_bytes
from tasks_lib.store.ledgers import Ledger

SCHEMA = "CREATE TABLE mill (\n    mill_id INTEGER PRIMARY KEY,\n    river TEXT, -- the water that drives it\n    wheels INTEGER\n);\n"
RIGHT = "SELECT river FROM mill WHERE wheels = 2"


class Scripted:
    """A model that answers from a list and keeps what it was asked."""

    def __init__(self, *replies: ChatReply | str, protocol: str = "text") -> None:
        self.spec = BackendSpec(name="scripted", model="scripted/none", protocol=protocol)  # type: ignore[arg-type]
        self.replies = list(replies)
        self.requests: list[ChatRequest] = []
        self.contexts: list[CallContext] = []

    async def chat(self, request: ChatRequest, context: CallContext) -> ChatReply:
        self.requests.append(request)
        self.contexts.append(context)
        reply = self.replies[min(len(self.requests), len(self.replies)) - 1]
        key = f"call{len(self.requests)}"
        if isinstance(reply, str):
            return ChatReply(CallOutcome.OK, reply, finish_reason="stop", call_key=key)
        return ChatReply(reply.outcome, reply.text, reply.tool_calls, reply.finish_reason, call_key=key)

    @property
    def shown(self) -> str:
        """The last message of the last request."""
        return self.requests[-1].messages[-1].content


@pytest.fixture
def spider(tmp_path: Path) -> DatabaseHandle:
    return database(tmp_path, Corpus.SPIDER)


@pytest.fixture
def live(tmp_path: Path) -> DatabaseHandle:
    """A handle of the LiveSQLBench kind on an SQLite file: the episode does not care which engine answers."""
    return database(tmp_path, Corpus.LIVESQLBENCH)


def database(folder: Path, corpus: Corpus, samples: bool = True) -> DatabaseHandle:
    path = folder / "wassermuehlen.sqlite"
    if not path.exists():
        connection = sqlite3.connect(path)
        connection.executescript(SCHEMA + "INSERT INTO mill VALUES (1,'Aller',2),(2,'Oker',1);")
        connection.close()
    digest = sha256_bytes(path.read_bytes())
    knowledge = "Mill: a building with wheels in water.\nLeat: a channel that leads water to a mill."
    return DatabaseHandle("db_mill", corpus, Engine.SQLITE, str(path), digest, SCHEMA, knowledge, samples)


@pytest.fixture
async def runner(tmp_path: Path) -> AsyncIterator[SqlRunner]:
    async with SqlRunner(Ledger(f"sqlite:///{tmp_path}/ledger.sqlite"), workers=1) as made:
        yield made


async def write(
    model: Scripted,
    handle: DatabaseHandle,
    runner: SqlRunner,
    agent: DataAgent = DataAgent.ADAPTER,
    placeholders: Sequence[str] = (),
    examples: Sequence[Example] = (),
    evidence: str = "",
) -> SqlDraft:
    request = LocalRequest("t1", "", "db_mill", QueryMode.FUSED, "Which rivers drive two wheels?", tuple(placeholders))
    return await write_sql(agent, request, handle, evidence, model, runner, Pool(examples).without(), 3)


def block(sql: str, language: str = "sql") -> str:
    return f"```{language}\n{sql}\n```"


def action(tool: str, **arguments: str) -> str:
    return f"<ACTION>{json.dumps({'tool': tool, 'arguments': arguments})}</ACTION>"


# -- text_to_sql --


async def test_text_to_sql_is_one_seeded_call_for_an_executor(spider: DatabaseHandle, runner: SqlRunner) -> None:
    model = Scripted("river FROM mill WHERE wheels = 2")
    draft = await write(model, spider, runner, DataAgent.TEXT_TO_SQL, ["up1_town"], evidence="wheels turn")
    assert draft == SqlDraft(RIGHT, None, "", ("call1",))
    (request,) = model.requests
    text = request.messages[0].content
    assert text.splitlines()[0] == "# Task: sql"
    assert text.endswith("\nSELECT")
    for part in (SCHEMA.strip(), "wheels turn", "Leat:", "Which rivers drive two wheels?", ":up1_town"):
        assert part in text
    assert (model.contexts[0].audience, model.contexts[0].layer, model.contexts[0].trial) == (
        Audience.EXECUTOR,
        "local_sql",
        3,
    )
    assert "wassermuehlen" not in text


async def test_text_to_sql_never_corrects(spider: DatabaseHandle, runner: SqlRunner) -> None:
    model = Scripted(block("SELECT nothing FROM nowhere"))
    draft = await write(model, spider, runner, DataAgent.TEXT_TO_SQL)
    assert (draft.sql, len(draft.calls), draft.executions) == ("SELECT nothing FROM nowhere", 1, ())


@pytest.mark.parametrize(
    ("corpus", "language", "kind"),
    [
        (Corpus.BIRD, "sql", None),
        (Corpus.LIVESQLBENCH, "postgresql", None),
        (Corpus.LIVESQLBENCH, "sql", VerdictKind.MISSING_SQL),
    ],
)
async def test_every_corpus_has_its_prompt_and_block(
    corpus: Corpus, language: str, kind: VerdictKind | None, tmp_path: Path, runner: SqlRunner
) -> None:
    model = Scripted(block(RIGHT, language))
    draft = await write(model, database(tmp_path, corpus), runner, DataAgent.TEXT_TO_SQL)
    assert draft.kind is kind
    assert "<placeholders>" not in model.shown


async def test_a_handle_of_another_database_is_refused(spider: DatabaseHandle, runner: SqlRunner) -> None:
    request = LocalRequest("t1", "", "db_else", QueryMode.FUSED, "x")
    with pytest.raises(ValueError, match="db_else"):
        await write_sql(DataAgent.ADAPTER, request, spider, "", Scripted(), runner, NOTHING_SHOWN, 0)


# -- adapter --


async def test_sql_that_gives_rows_is_final(spider: DatabaseHandle, runner: SqlRunner) -> None:
    model = Scripted(block(RIGHT))
    draft = await write(model, spider, runner)
    assert (draft.sql, draft.calls, len(draft.executions)) == (RIGHT, ("call1",), 1)


@pytest.mark.parametrize(
    ("first", "problem"),
    [
        ("SELECT fluss FROM mill", "no such column: fluss"),
        ("SELECT river FROM mill WHERE wheels = 9", "result was empty"),
        ("DELETE FROM mill", "only SELECT"),
        ("SELECT FROM WHERE", "cannot be read"),
    ],
)
async def test_a_problem_is_shown_once_and_the_corrected_sql_is_final(
    first: str, problem: str, spider: DatabaseHandle, runner: SqlRunner
) -> None:
    model = Scripted(block(first), block(RIGHT))
    draft = await write(model, spider, runner)
    assert (draft.sql, draft.calls) == (RIGHT, ("call1", "call2"))
    assert problem in model.shown
    assert "Aller" not in model.shown
    assert [message.role for message in model.requests[1].messages] == ["user", "assistant", "user"]


async def test_there_is_one_correction_round_only(spider: DatabaseHandle, runner: SqlRunner) -> None:
    model = Scripted(block("SELECT a FROM mill"), block("SELECT b FROM mill"), block(RIGHT))
    draft = await write(model, spider, runner)
    assert (draft.sql, len(draft.calls)) == ("SELECT b FROM mill", 2)


async def test_an_unusable_correction_leaves_the_first_sql(spider: DatabaseHandle, runner: SqlRunner) -> None:
    empty = "SELECT river FROM mill WHERE wheels = 9"
    draft = await write(Scripted(block(empty), ChatReply(CallOutcome.TRUNCATED, "")), spider, runner)
    assert (draft.sql, draft.kind, len(draft.calls)) == (empty, None, 2)


async def test_a_failed_generation_gets_no_second_chance(spider: DatabaseHandle, runner: SqlRunner) -> None:
    model = Scripted(ChatReply(CallOutcome.TRUNCATED, block(RIGHT)), block(RIGHT))
    draft = await write(model, spider, runner)
    assert (draft.sql, draft.kind, len(draft.calls)) == (None, VerdictKind.GENERATION_TRUNCATED, 1)


async def test_sql_with_placeholders_is_not_run(spider: DatabaseHandle, runner: SqlRunner) -> None:
    sql = "SELECT wheels FROM mill WHERE river = :up1_river"
    draft = await write(Scripted(block(sql), block("SELECT 1")), spider, runner, placeholders=["up1_river"])
    assert (draft.sql, draft.executions, len(draft.calls)) == (sql, (), 1)


async def test_the_prompt_shows_similar_examples_and_linked_columns(spider: DatabaseHandle, runner: SqlRunner) -> None:
    examples = [
        Example("Which towns have three bridges?", "SELECT town FROM t WHERE bridges = 3", "db_t", "u1"),
        *(
            Example(f"Compute the mean price per shop {i}", "SELECT avg(p) FROM s GROUP BY q", "db_s", f"v{i}")
            for i in range(9)
        ),
    ]
    model = Scripted(block(RIGHT))
    await write(model, spider, runner, examples=examples)
    text = model.shown
    assert text.count("<example>") == 4
    assert "Which towns have three bridges?" in text
    assert "u1" not in text
    assert "- mill.river" in text
    assert "- mill.wheels" in text


def test_examples_are_chosen_by_question_and_skeleton_the_best_last() -> None:
    count = Example("How many ducks are there?", "SELECT count(*) FROM duck", "db_a", "a")
    twin = Example("Tell the amount of geese", "SELECT count(*) FROM goose", "db_b", "b")
    other = Example(
        "Tell the amount of feed by farm", "SELECT farm, sum(x) FROM f GROUP BY farm ORDER BY farm", "db_c", "c"
    )
    chosen = Pool([other, twin, count]).without().choose("How many herons are there?", shown=2)
    assert chosen == (twin, count)
    assert Pool([count, twin, other]).without().choose("How many herons are there?", shown=2) == chosen
    assert Pool([]).without().choose("x", shown=2) == ()
    barred = Pool([count, twin, other]).without([twin.database_id], [count.unit_id])
    assert set(barred.choose("How many herons are there?")) == {
        e for e in (count, twin, other) if e.database_id != twin.database_id and e.unit_id != count.unit_id
    }


def test_errors_show_no_physical_name(spider: DatabaseHandle) -> None:
    raw = f"cannot open {spider.location}: wassermuehlen is locked, table mill"
    assert public_error(spider, raw) == "cannot open db_mill: db_mill is locked, table mill"


# -- tool agent --


async def test_the_tool_agent_explores_tests_and_submits(live: DatabaseHandle, runner: SqlRunner) -> None:
    model = Scripted(
        action("schema"),
        action("search", text="leat channel"),
        action("query", sql="SELECT river, wheels FROM mill"),
        action("test", sql=RIGHT),
        action("submit", sql=RIGHT + ";"),
    )
    draft = await write(model, live, runner)
    assert (draft.sql, draft.kind, len(draft.calls)) == (RIGHT, None, 5)
    assert len(draft.executions) == 2
    answers = [request.messages[-1].content for request in model.requests]
    assert answers[1] == SCHEMA.strip()
    assert answers[2] == "Leat: a channel that leads water to a mill."
    assert answers[3] == '["river", "wheels"]\n["Aller", 2]\n["Oker", 1]\n(2 rows)'
    assert "1 rows" in answers[4]


async def test_rows_of_a_replica_are_not_shown(tmp_path: Path, runner: SqlRunner) -> None:
    model = Scripted(action("query", sql="SELECT river FROM mill"), action("submit", sql=RIGHT))
    await write(model, database(tmp_path, Corpus.LIVESQLBENCH, samples=False), runner)
    assert "Aller" not in model.shown
    assert "2 rows" in model.shown


async def test_thirty_steps_without_a_submission_are_missing_sql(live: DatabaseHandle, runner: SqlRunner) -> None:
    model = Scripted(action("test", sql=RIGHT))
    draft = await write(model, live, runner)
    assert (draft.sql, draft.kind, len(draft.calls)) == (None, VerdictKind.MISSING_SQL, MAX_STEPS)
    assert len(model.requests) == MAX_STEPS == 30


async def test_the_thirtieth_step_may_submit(live: DatabaseHandle, runner: SqlRunner) -> None:
    model = Scripted(*["thinking"] * 29, action("submit", sql=RIGHT))
    assert (await write(model, live, runner)).sql == RIGHT


@pytest.mark.parametrize(
    ("bad", "answer"),
    [
        ("let me see", "Expected exactly one block"),
        (action("schema") + action("schema"), "exactly one"),
        (action("drop"), "There is no tool 'drop'"),
        (action("query", text="x"), "takes the arguments ['sql']"),
        ("<ACTION>{schema}</ACTION>", "Expected one JSON object"),
        (action("query", sql="DELETE FROM mill"), "refused_sql"),
        (action("test", sql="SELECT x FROM mill"), "no such column"),
        (ChatReply(CallOutcome.TRUNCATED, action("submit", sql=RIGHT)), "not read"),
        (ChatReply(CallOutcome.EMPTY, ""), "not read"),
    ],
)
async def test_a_bad_step_is_used_up_and_answered(
    bad: str | ChatReply, answer: str, live: DatabaseHandle, runner: SqlRunner
) -> None:
    model = Scripted(bad, action("submit", sql=RIGHT))
    draft = await write(model, live, runner)
    assert (draft.sql, len(draft.calls)) == (RIGHT, 2)
    assert answer in model.shown
    assert "wassermuehlen" not in model.shown


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (CallOutcome.MODEL_REFUSED, VerdictKind.MODEL_REFUSED),
        (CallOutcome.CONTEXT_OVERFLOW, VerdictKind.CONTEXT_OVERFLOW),
    ],
)
async def test_refusal_and_overflow_end_the_episode(
    outcome: CallOutcome, kind: VerdictKind, live: DatabaseHandle, runner: SqlRunner
) -> None:
    draft = await write(Scripted(action("schema"), ChatReply(outcome, "")), live, runner)
    assert (draft.sql, draft.kind, len(draft.calls)) == (None, kind, 2)


async def test_native_calls_are_answered_by_id(live: DatabaseHandle, runner: SqlRunner) -> None:
    def call(number: int, tool: str, **arguments: str) -> ToolCall:
        return ToolCall(f"id{number}", tool, json.dumps(arguments))

    model = Scripted(
        ChatReply(CallOutcome.OK, "", (call(1, "schema"), call(2, "schema"))),
        ChatReply(CallOutcome.OK, "", (call(3, "test", sql=RIGHT),)),
        ChatReply(CallOutcome.OK, "no call at all"),
        ChatReply(CallOutcome.OK, "", (call(4, "submit", sql=RIGHT),)),
        protocol="native",
    )
    draft = await write(model, live, runner)
    assert (draft.sql, len(draft.calls)) == (RIGHT, 4)
    assert [tool["function"]["name"] for tool in model.requests[0].tools] == [
        "schema",
        "search",
        "query",
        "test",
        "submit",
    ]
    assert "<ACTION>" not in model.requests[0].messages[0].content
    last = model.requests[-1].messages
    assert [m.tool_call_id for m in last if m.role == "tool"] == ["id1", "id2", "id3"]
    assert "exactly one tool call" in last[2].content
    assert last[-1].role == "user"


@pytest.mark.parametrize("protocol", ["text", "native"])
async def test_the_offline_policy_works_the_tools(protocol: str, live: DatabaseHandle, runner: SqlRunner) -> None:
    class Offline(Scripted):
        async def chat(self, request: ChatRequest, context: CallContext) -> ChatReply:
            self.requests.append(request)
            return offline_reply("offline/tfidf", request)

    model = Offline(protocol=protocol)
    draft = await write(model, live, runner)
    assert draft.sql == "SELECT river FROM mill WHERE wheels = 2"
    assert len(draft.calls) == 3
