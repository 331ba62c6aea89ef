"""Source units: every corpus read, its golds audited, and the page of what the audit found.

Corpora are read and audited side by side: while one waits for its database server, the others go on.
"""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from prefect import flow
from pydantic import Field

from tasks_lib.corpora import tasks as corpora_tasks
from tasks_lib.corpora.certificate import GoldCertificate, certify
from tasks_lib.corpora.layer import read_source
from tasks_lib.corpora.model import CorpusSource
from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.jobs import Job
from tasks_lib.store.keys import artifact_key, code_digest
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.schemas import UNITS
from tasks_lib.store.settings import settings
from tasks_lib.store.tasks import ensure

AUDIT_CODE = ("tasks_lib/corpora", "tasks_lib/sql", "tasks_lib/protocol")
CERTIFICATE_ROUNDS = 2

Audited = tuple[CorpusSource, pl.DataFrame]
"""A corpus and its rows of `units`."""


async def audited(roots: Mapping[Corpus, Path], invocation: str) -> list[Audited]:
    """Read and audit corpora, in the order of `roots`; a corpus whose artifact is done is only read.

    The first fault ends the others as well; what they ran so far stays in the ledger.

    Raises:
        CorpusError, DatabaseFault: the first fault.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_audited(corpus, root.resolve(), invocation)) for corpus, root in roots.items()]
    except BaseExceptionGroup as faults:
        raise faults.exceptions[0] from None
    return [task.result() for task in tasks]


async def _audited(corpus: Corpus, root: Path, invocation: str) -> Audited:
    where = settings()
    store = ArtifactStore(where.resolved_store_url)
    source = await asyncio.to_thread(read_source, corpus, root)
    key = artifact_key(UNITS.stage, {"corpus": source.digest}, {"code": code_digest(*AUDIT_CODE)})
    job = Job(
        "tasks_lib.corpora.layer:audit_rows",
        UNITS.name,
        key,
        where.resolved_store_url,
        where.resolved_ledger_url,
        invocation,
        {"corpus": str(corpus), "root": str(root)},
        {"corpus": source.digest},
    )
    await ensure(corpora_tasks.units, job, f"units {corpus}", here=True)
    return source, store.read(UNITS, key)


async def certified(source: CorpusSource, rows: pl.DataFrame) -> GoldCertificate:
    """The gold certificate of an audited corpus. Every round runs anew, in a ledger that is thrown away afterwards."""
    with tempfile.TemporaryDirectory(prefix="dsabench-certificate-") as folder:
        async with AsyncExitStack() as held:
            runners = []
            for number in range(CERTIFICATE_ROUNDS):
                ledger = Ledger(f"sqlite:///{folder}/round-{number}.sqlite", run="certificate")
                held.callback(ledger.close)
                runners.append(await held.enter_async_context(SqlRunner(ledger)))
            return await certify(source, rows.to_dicts(), runners)


@flow(name="units", flow_run_name="units")
async def units(
    spider: str = "",
    bird: str = "",
    livesqlbench: str = "",
    out: str = "",
    certificate: Annotated[bool, Field(strict=True)] = False,
) -> dict[str, Any]:
    """Audit corpora and write the page of counts.

    Args:
        spider: Folder of Spider in its official layout.
        bird: Folder of BIRD in its official layout.
        livesqlbench: Folder of LiveSQLBench.
        out: HTML file to write; without it `reports/units.html` in the home folder.
        certificate: Run every usable gold twice more, apart from the audit, and judge it against itself.
    """
    from tasks_lib.reporting.units_page import Corpus as Told
    from tasks_lib.reporting.units_page import as_json, write_page

    given = {Corpus.SPIDER: spider, Corpus.BIRD: bird, Corpus.LIVESQLBENCH: livesqlbench}
    roots = {corpus: Path(folder) for corpus, folder in given.items() if folder}
    found = await audited(roots, f"units:{uuid.uuid4().hex[:8]}")
    told = [
        Told(
            str(source.corpus),
            {database.name: database.origin for database in source.databases},
            rows.to_dicts(),
            source.notes,
        )
        for source, rows in found
    ]
    page = write_page(told, Path(out) if out else settings().home / "reports" / "units.html")
    report = {**as_json(told), "page": str(page)}
    if certificate:
        proven = [await certified(source, rows) for source, rows in found]
        corpora = {str(proof.corpus): proof.as_json() for proof in proven}
        report["certificate"] = {"ok": all(proof.ok for proof in proven), "by_corpus": corpora}
    return report
