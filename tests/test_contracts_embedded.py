"""The embedded release: every behavior in every corpus, verified bindings and branches, counts as the profile says."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from corpora_support import part_of_spider, postgres_folder

from tasks_lib.contracts import profiles
from tasks_lib.contracts.building import BuildReport, build
from tasks_lib.contracts.release import Release
from tasks_lib.corpora import bird, embedded, livesqlbench, spider
from tasks_lib.corpora.units import audit
from tasks_lib.protocol.vocabulary import Behavior, Corpus
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.sql.placeholders import placeholders_in
from tasks_lib.sql.postgres import shared_server
from tasks_lib.store.ledgers import Ledger

READERS = {Corpus.SPIDER: spider.read, Corpus.BIRD: bird.read, Corpus.LIVESQLBENCH: livesqlbench.read}


async def make(
    roots: dict[Corpus, Path], profile: str, home: Path, out: Path, postgres: Path | None = None
) -> BuildReport:
    async with SqlRunner(Ledger(f"sqlite:///{home}/ledger.sqlite"), postgres_folder=postgres) as runner:
        sources = [READERS[corpus](root) for corpus, root in roots.items()]
        units = {source.corpus: await audit(source, runner) for source in sources}
        return await build(sources, units, profiles.load(profile), 1, out, runner)


async def checked(release: Release, home: Path, postgres: Path | None = None) -> None:
    """Properties that hold for every release, checked on the records and by running the SQL again."""
    async with SqlRunner(Ledger(f"sqlite:///{home}/ledger.sqlite"), postgres_folder=postgres) as runner:
        for task in release.tasks:
            contract = release.contracts[task.task_id]
            assert len(set(contract.databases)) == len(contract.unit_ids)
            assert set(contract.databases) < set(task.allowlist)
            assert {release.handles[d].corpus for d in task.allowlist} == {contract.corpus}
            for link in contract.bindings:
                handles = dict(zip(contract.unit_ids, contract.databases, strict=True))
                up, down = (release.handles[handles[u]] for u in (link.upstream_unit, link.downstream_unit))
                assert str(link.value).casefold() not in task.request.casefold()
                assert "{binding}" in link.downstream_question
                assert str(link.value) not in link.downstream_question
                assert placeholders_in(down.engine, link.downstream_sql) == ("binding",)
                upstream = (await runner.run(up, release.units[link.upstream_unit].sql)).result
                assert upstream is not None
                assert [row[link.column_index] for row in upstream.rows] == [link.value]
                bound = await runner.run(down, link.downstream_sql, {"binding": link.value})
                gold = await runner.run(down, release.units[link.downstream_unit].sql)
                assert bound.result is not None
                assert gold.result is not None
                assert sorted(map(repr, bound.result.rows)) == sorted(map(repr, gold.result.rows))
            if contract.behavior is Behavior.INTERACTIVE:
                first, second = contract.branches
                assert contract.unit_ids == (first.unit_id, second.unit_id)
                assert first.value != second.value
                assert first.value in first.answer
                assert second.value not in first.answer
                assert first.value not in second.answer
                for value in (first.value, second.value):
                    assert value.casefold() not in task.request.casefold()


@pytest.mark.timeout(600)
async def test_embedded_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DSABENCH_POSTGRES_URL", raising=False)
    with postgres_folder() as postgres:
        roots = embedded.materialise(tmp_path / "embedded")
        report = await make(roots, "embedded", tmp_path, tmp_path / "first", postgres)
        release = Release.load(tmp_path / "first")
        assert report.tasks >= 84
        assert report.by_behavior["sequential"] >= 10
        assert report.by_behavior["interactive"] >= 14
        kinds = {(c.corpus, c.behavior) for c in release.contracts.values()}
        assert kinds == {(corpus, behavior) for corpus in Corpus for behavior in Behavior}
        assert report.shortfall == {}
        assert len({task.request for task in release.tasks}) >= 0.95 * report.tasks
        await checked(release, tmp_path, postgres)
        # In one process and again from the same inputs: the same bytes.
        await make(roots, "embedded", tmp_path, tmp_path / "second", postgres)
        assert release.digest == Release.load(tmp_path / "second").digest
        shared_server("", postgres).close()


@pytest.mark.real
@pytest.mark.timeout(900)
async def test_small_release_of_real_spider(tmp_path: Path) -> None:
    started = time.process_time()
    root = part_of_spider(tmp_path / "spider")
    report = await make({Corpus.SPIDER: root}, "small", tmp_path, tmp_path / "release")
    assert report.tasks >= 55
    assert {b for b, n in report.by_behavior.items() if n >= 3} == {b.value for b in Behavior}
    # Read, audit and build; the clock of this process, so that a busy machine does not fail it.
    assert time.process_time() - started < 150
    release = Release.load(tmp_path / "release")
    assert max(len(task.allowlist) for task in release.tasks) > 30
    assert max(len(contract.unit_ids) for contract in release.contracts.values()) > 4
    await checked(release, tmp_path)
