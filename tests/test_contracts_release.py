"""A release is built whole, equal byte for byte from equal inputs, and refuses to load when a file is damaged."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import pytest_asyncio
from contracts_support import make_source

from tasks_lib.contracts import synthesis
from tasks_lib.contracts.building import build
from tasks_lib.contracts.contract import difficulty, executable_hash, from_row, to_row
from tasks_lib.contracts.datasheet import band
from tasks_lib.contracts.profiles import PROFILES, Allowlist, Profile, ProfileRefused, apportion, load, names
from tasks_lib.contracts.release import Release, ReleaseDamaged, counts
from tasks_lib.corpora.model import CorpusSource
from tasks_lib.corpora.units import audit
from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.chat import ChatReply, ChatRequest
from tasks_lib.protocol.records import CallContext
from tasks_lib.protocol.vocabulary import Behavior, CallOutcome, Corpus
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.ledgers import Ledger

PROFILE = Profile(
    name="tiny",
    counts={Corpus.SPIDER: {Behavior.SINGLE: 2, Behavior.PARALLEL: 1, Behavior.SEQUENTIAL: 2, Behavior.INTERACTIVE: 1}},
    allowlist={Corpus.SPIDER: Allowlist(low=3, high=4, mean=3.5)},
    sizes={Corpus.SPIDER: {2: 1}},
    max_unit_uses=3,
    max_theme_uses=3,
    attempts=20,
)


class Workshop:
    """A source with audited units, and builds of it."""

    def __init__(self, folder: Path, source: CorpusSource, rows: list[dict[str, Any]], runner: SqlRunner) -> None:
        self.folder, self.source, self.rows, self.runner = folder, source, rows, runner

    async def build(self, name: str, seed: int = 1, salt: bytes | None = None) -> Path:
        out = self.folder / name
        await build([self.source], {Corpus.SPIDER: self.rows}, PROFILE, seed, out, self.runner, salt)
        return out


@pytest_asyncio.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Workshop]:
    source = make_source(tmp_path / "corpus")
    async with SqlRunner(Ledger(f"sqlite:///{tmp_path}/ledger.sqlite")) as runner:
        yield Workshop(tmp_path, source, await audit(source, runner), runner)


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


async def test_equal_inputs_give_equal_bytes(shop: Workshop) -> None:
    first = contents(await shop.build("first"))
    shop.rows.reverse()
    shop.source = replace(shop.source, databases=shop.source.databases[::-1])
    assert contents(await shop.build("second")) == first
    assert contents(await shop.build("first")) == first  # replaces itself
    assert not [p for p in shop.folder.iterdir() if p.name.startswith(".first")]


async def test_a_salt_changes_ids_and_not_tasks(shop: Workshop) -> None:
    plain, salted = Release.load(await shop.build("plain")), Release.load(await shop.build("salted", salt=b"s" * 32))
    units = [sorted(c.unit_ids for c in r.contracts.values()) for r in (plain, salted)]
    assert units[0] == units[1]
    assert not set(plain.handles) & set(salted.handles)
    assert not {t.task_id for t in plain.tasks} & {t.task_id for t in salted.tasks}


class Writer:
    """A model that words a contract by quoting its questions, and that leaves out every part but the first when `lazy`."""

    def __init__(self, lazy: bool = False) -> None:
        self.spec = BackendSpec(name="writer", model="openai/writer")
        self.lazy = lazy

    async def chat(self, request: ChatRequest, context: CallContext) -> ChatReply:
        task = next(m.content for m in request.messages if m.role == "user").rsplit("behavior: ", 1)[1]
        asked = dict(re.findall(r"part (P\d+).*\n(?:  about: .*\n)?  question: (.+)", task))
        asked = {name: re.sub(r"<value of P\d+>", "that one", text) for name, text in asked.items()}
        kept = list(asked.values())[: 1 if self.lazy else None]
        text = json.dumps({"request": " ".join(kept), "contributions": asked})
        return ChatReply(outcome=CallOutcome.OK, text=text)


async def test_a_backend_can_word_a_whole_release(shop: Workshop) -> None:
    out = shop.folder / "worded"
    report = await build([shop.source], {Corpus.SPIDER: shop.rows}, PROFILE, 1, out, shop.runner, renderer=Writer())
    assert report.tasks == sum(PROFILE.counts[Corpus.SPIDER].values()) - sum(
        report.shortfall.get("spider", {}).values()
    )
    assert report.tasks >= 5
    wordings = pl.read_parquet(out / "private/wordings.parquet")
    assert set(wordings["renderer"]) == {"writer"}
    release = Release.load(out)
    for row in wordings.iter_rows(named=True):
        request = next(t.request for t in release.tasks if t.task_id == row["task_id"])
        assert {item["unit_id"] for item in row["contributions"]} == set(release.contracts[row["task_id"]].unit_ids)
        assert all(item["words"] in request for item in row["contributions"])


async def test_what_a_backend_cannot_word_is_left_out_and_recorded(shop: Workshop) -> None:
    out = shop.folder / "lazy"
    lazy = Writer(lazy=True)
    report = await build([shop.source], {Corpus.SPIDER: shop.rows}, PROFILE, 1, out, shop.runner, renderer=lazy)
    assert not {"parallel", "sequential"} & set(report.by_behavior)
    assert report.rejected["wording"]
    rejected = pl.read_parquet(out / "private/rejected.parquet").filter(pl.col("gate") == "wording")
    assert rejected["reason"].str.contains("writer gave no accepted request in 4 replies").all()


async def test_how_many_are_examined_together_decides_nothing(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    first = contents(await shop.build("together"))
    monkeypatch.setattr(synthesis, "TOGETHER", 1)
    assert contents(await shop.build("alone")) == first


async def test_another_seed_gives_another_release(shop: Workshop) -> None:
    one, two = await shop.build("one", seed=1), await shop.build("two", seed=2)
    assert (one / "public/tasks.parquet").read_bytes() != (two / "public/tasks.parquet").read_bytes()


async def test_counts_of_manifest_and_report_agree(shop: Workshop) -> None:
    out = shop.folder / "counted"
    report = await build([shop.source], {Corpus.SPIDER: shop.rows}, PROFILE, 1, out, shop.runner)
    release = Release.load(out)
    contracts = list(release.contracts.values())
    manifest = release.manifest
    interactive = sum(c.behavior is Behavior.INTERACTIVE for c in contracts)
    assert report.tasks == manifest["tasks"] == len(contracts) == len(release.tasks)
    assert manifest["ordinary"] + manifest["interactive"] == len(contracts)
    assert manifest["episodes"] == len(contracts) + interactive
    units = sum(len(c.unit_ids) for c in contracts)
    total = manifest["required_contributions"]["total"]
    assert total == {"unweighted": units, "weighted": units - interactive}
    assert manifest["required_contributions"]["by_corpus"] == {"spider": total}
    assert manifest["origins"] == {"spider": {"embedded": 5}}
    assert report.by_behavior["interactive"] == interactive == 1
    assert sum(report.rejected.values()) == pl.read_parquet(out / "private/rejected.parquet").height
    assert report.candidates == report.tasks + sum(report.rejected.values())
    missing = {b.value: n - report.by_behavior.get(b.value, 0) for b, n in PROFILE.counts[Corpus.SPIDER].items()}
    assert report.shortfall.get("spider", {}) == {b: n for b, n in missing.items() if n}
    assert report.by_required == counts(band(len(c.databases)) for c in contracts)
    assert report.manifest_sha256 == release.digest
    assert report.allowlist["max"] == max(len(t.allowlist) for t in release.tasks)
    assert set(report.as_json()) == {
        "release", "tasks", "by_corpus", "by_behavior", "by_difficulty", "by_required", "required_mean", "allowlist",
        "candidates", "rejected", "shortfall", "truncated_tokens", "seconds", "manifest_sha256",
    }  # fmt: skip


async def test_the_public_folder_names_nothing_private(shop: Workshop) -> None:
    out = await shop.build("public")
    frames = [pl.read_parquet(path) for path in sorted((out / "public").rglob("*.parquet"))]
    text = json.dumps([frame.drop("vector", strict=False).to_dicts() for frame in frames])
    for database in shop.source.databases:
        assert database.name not in text
    for row in shop.rows:
        assert row["sql"] not in text
        assert row["unit_id"] not in text


async def test_handles_reach_the_files_and_tasks_their_handles(shop: Workshop) -> None:
    release = Release.load(await shop.build("handles"))
    for task in release.tasks:
        contract = release.contracts[task.task_id]
        assert set(contract.databases) < set(task.allowlist) <= set(release.handles)
        for unit_id, database in zip(contract.unit_ids, contract.databases, strict=True):
            unit, handle = release.units[unit_id], release.handles[database]
            assert f"/{unit.database}.sqlite" in handle.location
            assert (await shop.runner.run(handle, unit.sql)).digest == unit.result_digest


@pytest.mark.parametrize(
    "name", ["public/tasks.parquet", "private/contracts.parquet", "public/catalog/cat_cards.parquet"]
)
async def test_a_damaged_file_is_named(shop: Workshop, name: str) -> None:
    out = await shop.build("damaged")
    path = out / name
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ReleaseDamaged, match=name):
        Release.load(out)
    path.unlink()
    with pytest.raises(ReleaseDamaged, match=f"{name} is missing"):
        Release.load(out)


async def test_bad_folders_are_refused(shop: Workshop, tmp_path: Path) -> None:
    with pytest.raises(ReleaseDamaged, match="expected a release folder"):
        Release.load(tmp_path / "corpus")
    with pytest.raises(ValueError, match="is no release folder"):
        await build([shop.source], {Corpus.SPIDER: shop.rows}, PROFILE, 1, tmp_path / "corpus", shop.runner)
    with pytest.raises(ValueError, match="no audited units of spider"):
        await build([shop.source], {}, PROFILE, 1, tmp_path / "new", shop.runner)
    out = await shop.build("stranger")
    (out / "private/extra.parquet").write_bytes(b"")
    with pytest.raises(ReleaseDamaged, match=r"extra\.parquet is not in the manifest"):
        Release.load(out)


async def test_the_hash_covers_what_runs_and_nothing_else(shop: Workshop) -> None:
    contracts = list(Release.load(await shop.build("hash")).contracts.values())
    for contract in contracts:
        assert from_row(to_row(contract)) == contract
        same = replace(contract, task_id="task_x", theme="other", extra={"template": "other"})
        assert executable_hash(same) == executable_hash(contract)
        for fields in (
            {"unit_ids": (*contract.unit_ids[::-1], "x")},
            {"edges": (("a", "b"),)},
            {"slot_question": "?"},
        ):
            assert executable_hash(replace(contract, **fields)) != executable_hash(contract)  # type: ignore[arg-type]
    assert len({executable_hash(c) for c in contracts}) == len(contracts)


async def test_difficulty_grows_with_databases_edges_and_sql(shop: Workshop) -> None:
    from tasks_lib.contracts.contract import Unit

    units = {row["unit_id"]: Unit.from_row(row) for row in shop.rows}
    easy, joined = units["song-plays"], units["shop-spent"]
    assert difficulty([easy], []).value == "easy"
    assert difficulty([joined], []).value == "medium"
    assert difficulty([easy, units["film-top"]], [("a", "b")]).value == "medium"
    nested = replace(easy, sql="SELECT plays FROM songs WHERE plays > (SELECT AVG(plays) FROM songs)")
    assert difficulty([nested, joined, units["film-top"]], []).value == "hard"


def test_an_unknown_profile_is_named_with_those_there_are() -> None:
    assert {"embedded", "small", "paper", "extended"} <= set(names())
    with pytest.raises(ValueError, match="expected one of embedded"):
        load("huge")


def test_a_profile_of_ones_own_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    text = (PROFILES / "small.yaml").read_text("utf-8")
    file.write_text(text, "utf-8")
    assert load(str(file)).model_dump(exclude={"name"}) == load("small").model_dump(exclude={"name"})
    for broken, said in (
        (text.replace("low: 12", "low: 99"), "low < mean < high"),
        ("- a list", "YAML mapping"),
        (text.replace("single: 12", "single: -12"), "counts.spider.single: .* greater than or equal to 0"),
        (text.replace("single: 12", "single: 1000000000"), "counts.spider.single: .* less than or equal to"),
    ):
        file.write_text(broken, "utf-8")
        with pytest.raises(ProfileRefused, match=said):
            load(str(file))


def test_the_paper_profile_holds_the_published_counts() -> None:
    paper = load("paper")
    wanted = paper.wanted(list(Corpus))
    assert {c.value: sum(n.values()) for c, n in wanted.items()} == {"spider": 537, "bird": 254, "livesqlbench": 24}
    totals = {b.value: sum(wanted[c][b] for c in Corpus) for b in Behavior}
    assert totals == {"single": 92, "parallel": 305, "sequential": 22, "exploratory": 291, "interactive": 105}
    assert list(paper.wanted([Corpus.BIRD])) == [Corpus.BIRD]


def test_sizes_are_divided_by_largest_remainder() -> None:
    assert apportion(10, {5: 1, 3: 1, 2: 1}) == {5: 4, 3: 3, 2: 3}
    assert apportion(7, {2: 28, 3: 32, 4: 40}) == {2: 2, 3: 2, 4: 3}
    quota = load("paper").size_quota(Corpus.SPIDER, 101)
    assert sum(quota.values()) == 101
    assert list(quota) == sorted(quota, reverse=True)


def test_allowlist_sizes_keep_their_bounds_and_mean() -> None:
    sizes = Allowlist(low=11, high=166, mean=78)
    drawn = [sizes.draw(n / 1000) for n in range(1000)]
    assert min(drawn) == 11
    assert max(drawn) == 166
    assert abs(sum(drawn) / 1000 - 78) < 1
