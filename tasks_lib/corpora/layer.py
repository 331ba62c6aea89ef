"""PRIVATE. The audit of one corpus as a layer: read the corpus, run every gold query once, rows of `units`."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from tasks_lib.corpora import bird, livesqlbench, spider
from tasks_lib.corpora.model import CorpusSource
from tasks_lib.corpora.units import audit
from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.sql.postgres import shared_server
from tasks_lib.store.jobs import JobContext
from tasks_lib.store.settings import settings


@lru_cache(maxsize=8)
def read_source(corpus: Corpus, root: Path) -> CorpusSource:
    """The corpus in its official layout below `root`, read once a process. Raises CorpusError, DatabaseFault."""
    if corpus is Corpus.SPIDER:
        return spider.read(root)
    if corpus is Corpus.BIRD:
        return bird.read(root)
    return livesqlbench.read(root, shared_server(settings().postgres_url, settings().home / "postgres"))


MANY_QUESTIONS = 500
"""From here on the texts of golds are read in processes of their own; for fewer, starting these takes longer."""


async def audit_rows(context: JobContext, corpus: str, root: str) -> list[dict[str, Any]]:
    """Rows of `units` of one corpus; executions of unchanged databases come from the ledger."""
    source = read_source(Corpus(corpus), Path(root))
    with _readers(len(source.questions)) as executor:
        async with SqlRunner(context.ledger) as runner:
            return await audit(source, runner, executor=executor)


@contextmanager
def _readers(questions: int) -> Iterator[Executor | None]:
    if questions < MANY_QUESTIONS:
        yield None
        return
    executor = ProcessPoolExecutor(os.cpu_count() or 1, mp_context=multiprocessing.get_context("spawn"))
    try:
        yield executor
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
