"""The one door to the data agents (PROTOCOL 10). Only the choice of the agent belongs here."""

from __future__ import annotations

from tasks_lib.execution import adapter, text_to_sql, tool_agent
from tasks_lib.execution.drafts import SqlDraft
from tasks_lib.execution.examples import Shown
from tasks_lib.models.chat import ChatModel
from tasks_lib.protocol.records import DatabaseHandle, LocalRequest
from tasks_lib.protocol.vocabulary import Corpus, DataAgent
from tasks_lib.sql.execute import SqlRunner

__all__ = ["Shown", "SqlDraft", "write_sql"]


async def write_sql(
    agent: DataAgent,
    request: LocalRequest,
    handle: DatabaseHandle,
    evidence: str,
    model: ChatModel,
    runner: SqlRunner,
    examples: Shown,
    trial: int,
) -> SqlDraft:
    """Write the SQL of one local request.

    Args:
        evidence: external knowledge that travels with the request ("" for none). examples: few-shot examples of other
            databases that may be shown, already filtered by the caller; used by the Spider and BIRD adapter only.
        runner: runs the agent's own trial statements, guarded and kept in the ledger. trial: repeat index.

    Raises:
        ValueError: the request is for another database. ProviderUnavailable, DatabaseFault: nothing was decided.
    """
    if request.database_id != handle.database_id:
        raise ValueError(
            f"The request of task {request.task_id} is for {request.database_id}, but the handle is of "
            f"{handle.database_id}; pass the handle of the request's database."
        )
    if agent is DataAgent.TEXT_TO_SQL:
        return await text_to_sql.write(request, handle, evidence, model, trial)
    if handle.corpus is Corpus.LIVESQLBENCH:
        return await tool_agent.write(request, handle, evidence, model, runner, trial)
    return await adapter.write(request, handle, evidence, model, runner, examples, trial)
