"""The dataset adapter for Spider and BIRD: examples, schema linking, one self-correction (PROTOCOL 10; paper F.5).

Belongs here: the first call, the trial run and the correction round. Does not belong here: choosing examples (`examples`),
linking (`models.linking`), the LiveSQLBench agent (`tool_agent`).

The rules of the correction round:
1. SQL that ran and gave rows is final. SQL that failed, was refused, or gave no row is shown its problem, once: the engine's
   message without physical names, or the note that the result was empty. Rows are never shown.
2. SQL with placeholders cannot run before their values exist: it is final when the guard lets it through; a refusal by the
   guard is a problem like any other.
3. A reply without usable SQL is final as the failure it is; it gets no second chance (known fault L04).
4. The corrected SQL is final and not tried. When the correction brings no usable SQL, the first SQL stays: it was an answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from tasks_lib.execution.drafts import SqlDraft
from tasks_lib.execution.examples import Shown
from tasks_lib.execution.extraction import extract
from tasks_lib.execution.prompting import PROMPTS, context, knowledge_text, placeholder_lines, public_error
from tasks_lib.models.chat import ChatModel, ChatRequest, Message
from tasks_lib.models.offline.sql_linking import linked_lines
from tasks_lib.models.templates import render
from tasks_lib.protocol.records import DatabaseHandle, LocalRequest
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.sql.guard import check_sql
from tasks_lib.sql.placeholders import placeholders_in


async def write(
    request: LocalRequest,
    handle: DatabaseHandle,
    evidence: str,
    model: ChatModel,
    runner: SqlRunner,
    examples: Shown,
    trial: int,
) -> SqlDraft:
    """Write the SQL of `request` in one call or two.

    Raises:
        ProviderUnavailable: from the model. DatabaseFault: from the runner. Nothing was decided.
    """
    knowledge = knowledge_text(handle, evidence)
    prompt = render(
        PROMPTS / "sql_adapter@1.md.j2",
        examples=examples.choose(request.text),
        schema=handle.schema_text.strip(),
        linked=linked_lines(handle.schema_text, request.text),
        knowledge=knowledge,
        placeholders=placeholder_lines(request),
        request=request.text,
    )
    opening = Message("user", prompt.text)
    reply = await model.chat(ChatRequest((opening,), templates=(prompt.digest,)), context(trial))
    first = extract(handle.corpus, reply, seeded=False)
    if first.sql is None:
        return SqlDraft(None, first.kind, first.reason, (reply.call_key,))
    tried = await try_out(handle, first.sql, runner)
    executions = (tried.execution,) if tried.execution else ()
    if not tried.problem:
        return SqlDraft(first.sql, None, "", (reply.call_key,), executions)
    correction = render(PROMPTS / "sql_correction@1.md.j2", problem=tried.problem)
    messages = (opening, Message("assistant", reply.text), Message("user", correction.text))
    second_reply = await model.chat(ChatRequest(messages, templates=(prompt.digest, correction.digest)), context(trial))
    second = extract(handle.corpus, second_reply, seeded=False)
    calls = (reply.call_key, second_reply.call_key)
    if second.sql is None:
        return SqlDraft(first.sql, None, f"The correction was unusable: {second.reason}", calls, executions)
    return SqlDraft(second.sql, None, "", calls, executions)


@dataclass(frozen=True, slots=True)
class Trial:
    """`problem`: what a model is told, "" when there is none. `execution`: ledger key, "" when nothing ran."""

    problem: str
    execution: str = ""
    rows: int = 0


async def try_out(handle: DatabaseHandle, sql: str, runner: SqlRunner) -> Trial:
    """Run `sql` when it has no placeholders, else only check it."""
    report = check_sql(handle.engine, sql)
    if not report.allowed:
        return Trial(public_error(handle, report.reason))
    if placeholders_in(handle.engine, sql):
        return Trial("")
    done = await runner.run(handle, sql)
    if done.kind is not None:
        return Trial(f"{done.kind}: {public_error(handle, done.error)}", done.key)
    if done.rows == 0:
        return Trial("It ran, but its result was empty.", done.key)
    return Trial("", done.key, done.rows)
