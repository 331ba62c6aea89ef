"""A release's suites and its certificate: good as built, and each hand-made damage is told by table, expectation and value."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import pytest_asyncio
from conftest import Said
from contracts_support import SETUP, make_bench, make_source
from test_contracts_gates import Room

from tasks_lib.catalog import routedb
from tasks_lib.catalog.identities import Identities
from tasks_lib.contracts.certificate import COUNTS, Certificate, certify
from tasks_lib.contracts.contract import freeze, to_row
from tasks_lib.contracts.proposals import Proposal
from tasks_lib.contracts.registry import databases_of, schema
from tasks_lib.contracts.release import VERSION, Release, ReleaseDamaged, figures, publish
from tasks_lib.contracts.suites import CHECKED, check_tables, suites
from tasks_lib.corpora.cards import schema_text
from tasks_lib.corpora.model import ColumnInfo, CorpusDatabase, TableInfo
from tasks_lib.corpora.units import audit
from tasks_lib.protocol.vocabulary import Corpus, Engine
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.keys import digest
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.quality import QualityFailed, inspect
from tasks_lib.store.schemas import CONTRACTS, DATABASES, REJECTED, TABLES, TASKS, UNITS

Tables = dict[str, list[dict[str, Any]]]


class Shop:
    """The rows of a small release of four hand-made tasks, one a behavior, and the folder they are published to."""

    def __init__(self, folder: Path, runner: SqlRunner, tables: Tables, catalog: Tables) -> None:
        self.folder, self.runner, self.tables, self.catalog = folder, runner, tables, catalog

    def publish(self, tables: Tables, **figures_changed: Any) -> Release:
        """A release folder of `tables` with a manifest that fits them."""
        out = self.folder / "release"
        shutil.rmtree(out, ignore_errors=True)
        places = {"tasks": (TASKS, "public"), "contracts": (CONTRACTS, "private"), "units": (UNITS, "private")}
        places |= {"databases": (DATABASES, "private"), "rejected": (REJECTED, "private")}
        files = {f"{place}/{name}.parquet": (table, tables[name]) for name, (table, place) in places.items()}
        files |= {f"public/catalog/{name}.parquet": (TABLES[name], rows) for name, rows in self.catalog.items()}
        from tasks_lib.contracts.contract import from_row

        manifest = {
            "version": VERSION,
            "origins": {"spider": {"embedded": len(tables["databases"])}},
            **figures([from_row(row) for row in tables["contracts"]]),
            **figures_changed,
        }
        root = {"spider": {"root": str(self.folder / "corpus"), "engine": "sqlite", "databases": 5}}
        publish(out, files, {}, manifest, root)
        return Release.load(out)

    async def certify(self, tables: Tables, **figures_changed: Any) -> Certificate:
        return await certify(self.publish(tables, **figures_changed), self.runner)


def _task_row(proposal: Proposal, task_id: str) -> dict[str, Any]:
    task = proposal.task
    return {"task_id": task_id, "corpus": "spider", "request": task.request, "allowlist": list(task.allowlist)}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quality")


@pytest.fixture(scope="module")
def good(shared: Path) -> Tables:
    """The rows of a good release, made once."""
    return asyncio.run(_good_tables(shared))


@pytest.fixture(scope="module")
def catalog(shared: Path, good: Tables) -> Tables:
    """The public catalog of the same databases."""
    return dict(routedb.build(make_source(shared / "corpus").databases, Identities(b"test key")))


@pytest_asyncio.fixture
async def shop(shared: Path, good: Tables, catalog: Tables) -> AsyncIterator[Shop]:
    async with SqlRunner(Ledger(f"sqlite:///{shared}/ledger.sqlite")) as runner:
        yield Shop(shared, runner, copied(good), catalog)


def copied(tables: Tables) -> Tables:
    found: Tables = json.loads(json.dumps(tables))
    return found


async def _good_tables(folder: Path) -> Tables:
    source = make_source(folder / "corpus")
    async with SqlRunner(Ledger(f"sqlite:///{folder}/ledger.sqlite")) as runner:
        rows = await audit(source, runner)
        room = Room(*await make_bench(source, runner))
    proposals = [room.single(), room.parallel(), room.sequential(), room.interactive()]
    identities = Identities(b"test key")
    refused = room.many("shop-none", "film-mean")
    return {
        "contracts": [
            to_row(freeze(p.candidate, f"task_{at}", lambda n: identities.database(Corpus.SPIDER, n)))
            for at, p in enumerate(proposals)
        ],
        "tasks": [_task_row(p, f"task_{at}") for at, p in enumerate(proposals)],
        "units": rows,
        "databases": [_database_row(d, identities) for d in source.databases],
        "rejected": [
            {
                "candidate_id": refused.candidate_id,
                "corpus": "spider",
                "behavior": "parallel",
                "unit_ids": list(refused.unit_ids),
                "gate": "non_trivial",
                "reason": "gold of shop-none returns only zero, blank or null.",
            }
        ],
    }


def _database_row(database: CorpusDatabase, identities: Identities) -> dict[str, Any]:
    return {
        "database_id": identities.database(database.corpus, database.name),
        "corpus": "spider",
        "database": database.name,
        "engine": "sqlite",
        "relative_path": database.relative_path,
        "digest": database.digest,
        "origin": "embedded",
        "title": database.title,
        "schema_text": schema_text(database),
        "knowledge": "",
    }


def counts_of(tables: Tables) -> dict[str, int]:
    return {name: len(rows) for name, rows in tables.items()}


def failures(tables: Tables, counts: dict[str, int] | None = None, suite: str = "") -> list[str]:
    """Every failure as `table: expectation: …`, of one suite if it is named."""
    reports = inspect([s for s in suites(tables, counts or counts_of(tables)) if suite in ("", s.name)])
    return [f"{report.table}: {line}" for report in reports for line in report.failures]


def test_a_good_release_passes_every_suite_and_has_docs(good: Tables, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    reports = check_tables(good, counts_of(good), docs)
    assert all(report.ok for report in reports)
    assert {r.table.split("@")[0].split(".")[0] for r in reports} == {
        "databases", "units", "contracts", "tasks", "candidates", "rejected"
    }  # fmt: skip
    pages = {page: page.read_text("utf-8") for page in docs.rglob("*.html")}
    assert docs / "index.html" in pages
    for name in ("units@1", "contracts.units", "candidates"):
        assert any(name in text for text in pages.values())
    for text in pages.values():  # nothing is fetched from elsewhere
        assert 'src="http' not in text
        assert "<link" not in text or 'href="http' not in "".join(
            part.split(">")[0] for part in text.split("<link")[1:]
        )
    inspect(suites(good, counts_of(good))[:1], docs)  # replaces itself
    assert not list(docs.rglob("*contracts*.html"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("keep me")
    with pytest.raises(ValueError, match="is no data-docs site"):
        inspect([], tmp_path / "other")


Damage = Callable[[Tables], object]


def _set(table: str, at: int, **values: Any) -> Damage:
    return lambda tables: tables[table][at].update(values)


def _drop(table: str, at: int) -> Damage:
    return lambda tables: tables[table].pop(at)


def _again(table: str, at: int) -> Damage:
    return lambda tables: tables[table].append(dict(tables[table][at]))


def _inside(table: str, at: int, column: str, place: int, field: str, value: Any) -> Damage:
    return lambda tables: tables[table][at][column][place].update({field: value})


DAMAGES: dict[str, list[tuple[Damage, str]]] = {
    "databases@1": [
        (_again("databases", 0), "unique_key: database_id"),
        (lambda t: None, "unique_key: corpus, database"),
        (_set("databases", 1, engine="postgres"), "equal: engine, corpus_engine"),
        (_set("databases", 1, origin="found"), "allowed: origin"),
        (_set("databases", 2, schema_text=" "), "matches: schema_text"),
        (_set("databases", 3, title=None), "not_null: title"),
        (_set("databases", 3, digest="?"), "matches: digest"),
        (_set("databases", 4, database_id="lamp_films"), "matches: database_id"),
    ],
    "units@1": [
        (_drop("databases", 4), "not_null: registered_digest"),
        (_set("units", 0, database_digest="0" * 64), "equal: database_digest, registered_digest"),
        (_set("units", 0, flags=["odd"]), "allowed: flags_known"),
        (_set("units", 1, result_digest=""), "allowed: usable_has_result"),
        (_set("units", 1, row_count=0), "allowed: usable_has_rows"),
        (_set("units", 2, column_count=-1), "range: column_count"),
        (_set("units", 2, split="test"), "allowed: split"),
        (_again("units", 3), "unique_key: unit_id"),
    ],
    "contracts@1": [
        (_drop("tasks", 0), "not_null: task_corpus"),
        (_set("contracts", 0, behavior="simple"), "allowed: behavior"),
        (_set("contracts", 0, difficulty="odd"), "allowed: difficulty"),
        (_set("contracts", 0, databases=[]), "allowed: aligned"),
        (_set("contracts", 1, behavior="single"), "allowed: size_fits"),
        (lambda t: t["contracts"][1].update(databases=t["contracts"][1]["databases"][:1] * 2), "allowed: one_unit_a_database"),
        (_set("contracts", 2, edges=[]), "allowed: links_fit"),
        (_set("contracts", 3, slot_question=""), "allowed: slot_fits"),
        (_set("contracts", 3, branches=[]), "allowed: branches_fit"),
        (_set("tasks", 2, corpus="bird"), "equal: corpus, task_corpus"),
    ],
    "contracts.units": [
        (_set("contracts", 0, unit_ids=["song-lost"]), "not_null: unit_database"),
        (lambda t: t["contracts"][1]["databases"].__setitem__(0, "db_0"), "not_null: registered_database"),
        (lambda t: t["contracts"][2]["unit_ids"].__setitem__(0, "shop-empty"), "allowed: usable"),
        (lambda t: t["contracts"][2]["databases"].reverse(), "equal: unit_database, registered_database"),
        (lambda t: t["tasks"][3]["allowlist"].remove(t["contracts"][3]["databases"][0]), "not_null: allowlisted"),
        (lambda t: [u.update(corpus="bird") for u in t["units"] if u["unit_id"] == "film-mean"], "equal: corpus, unit_corpus"),
    ],
    "contracts.parts": [(_inside("contracts", 2, "edges", 0, "target", "db_0"), "allowed: in_contract")],
    "contracts.parts, branch": [(_inside("contracts", 3, "branches", 0, "unit_id", "song-mean"), "allowed: in_contract")],
    "contracts.parts, binding": [(_inside("contracts", 2, "bindings", 0, "upstream_unit", "song-mean"), "allowed: in_contract")],
    "tasks@1": [
        (_drop("contracts", 3), "not_null: required"),
        (_set("tasks", 0, request=" "), "matches: request"),
        (lambda t: t["tasks"][1].update(allowlist=t["contracts"][1]["databases"]), "allowed: has_distractor"),
        (lambda t: t["tasks"][2]["allowlist"].append(t["tasks"][2]["allowlist"][0]), "allowed: distinct"),
        (_again("tasks", 0), "unique_key: task_id"),
    ],
    "tasks.allowlists": [
        (_set("tasks", 1, allowlist=["db_0"]), "not_null: registered_corpus"),
        (lambda t: t["databases"][0].update(corpus="bird"), "equal: corpus, registered_corpus"),
    ],
    "candidates": [
        (_set("rejected", 0, reason=None), "not_null: reason"),
        (_set("rejected", 0, behavior="simple"), "allowed: behavior"),
        (_set("rejected", 0, candidate_id="0" * 64), "equal: candidate_id, expected_id"),
        (_again("rejected", 0), "unique_key: candidate_id, gate"),
    ],
    "candidates.accepted": [
        (lambda t: t["contracts"].append({**t["contracts"][1], "task_id": "task_9"}), "unique_key: unit_set")
    ],
    "rejected@1": [
        (_set("rejected", 0, gate="taste"), "allowed: gate"),
        (_set("rejected", 0, reason=""), "matches: reason"),
        (
            lambda t: t["rejected"][0].update(
                candidate_id=digest(["parallel", sorted(t["contracts"][1]["unit_ids"])])
            ),
            "allowed: not_accepted",
        ),
    ],
    "candidates.units": [(_set("rejected", 0, unit_ids=["song-lost"]), "not_null: unit_corpus")],
}  # fmt: skip


@pytest.mark.parametrize("suite", DAMAGES)
def test_each_damage_fails_the_expectation_that_names_it(good: Tables, suite: str) -> None:
    tables = copied(good)
    for damage, _ in DAMAGES[suite]:
        damage(tables)
    name = suite.split(",")[0]
    found = failures(tables, suite=name)
    for _, expected in DAMAGES[suite]:
        assert any(line.startswith(f"{name}: {expected}") for line in found), (expected, found)
    assert len(found) == len(DAMAGES[suite]), found


def test_every_table_has_its_exact_count_and_empty_ones_are_told(good: Tables) -> None:
    empty: Tables = {name: [] for name in good}
    counts = counts_of(good)
    for tables in (empty, {name: rows[:-1] for name, rows in good.items()}):
        reports = {r.table: r.failures for r in inspect([s for s in suites(tables, counts) if "@" in s.name])}
        for table in CHECKED:
            found = len(tables[table.name])
            assert reports[table.stage][0] == f"row_count: {table.name} {counts[table.name]}, found {found}"


def test_the_error_names_table_expectation_and_values(good: Tables) -> None:
    tables = copied(good)
    tables["contracts"][0]["unit_ids"] = ["song-lost"]
    with pytest.raises(QualityFailed, match=r"contracts\.units broke its suite: not_null: unit_database \(the required unit exists\)") as error:  # fmt: skip
        check_tables(tables, counts_of(tables))
    assert "song-lost" in str(error.value)
    assert "task_0" in str(error.value)
    with pytest.raises(QualityFailed, match="no table of units was given"):
        check_tables({}, {})
    with pytest.raises(QualityFailed, match="no wanted count of units was given"):
        check_tables(tables, {})


def test_frames_are_checked_as_rows_are(good: Tables) -> None:
    frames = {name: pl.DataFrame(rows, infer_schema_length=None) for name, rows in good.items()}
    from_rows = suites(good, counts_of(good))
    from_frames = suites(frames, counts_of(good))
    assert [(s.name, s.checks, s.frame.to_dicts()) for s in from_frames] == [
        (s.name, s.checks, s.frame.to_dicts()) for s in from_rows
    ]


# ---- the certificate ----


async def test_a_good_release_is_certified(shop: Shop) -> None:
    found = await shop.certify(shop.tables)
    assert found.violations == ()
    assert found.ok
    assert set(found.proven.values()) == {4}
    assert found.as_json()["ok"] is True


def _request(at: int, text: str) -> Damage:
    return _set("tasks", at, request=text)


PUBLIC = {name: Identities(b"test key").database(Corpus.SPIDER, name) for name in SETUP}
PROOFS: list[tuple[str, Damage, str, str]] = [
    ("source_necessity", lambda t: t["contracts"][1].update(unit_ids=["film-chile", "shop-salem"], databases=[PUBLIC["lamp_films"], PUBLIC["leaf_shop"]]), "task_1", "joint answer is the same"),
    ("binding_by_execution", _inside("contracts", 2, "bindings", 0, "downstream_sql", "SELECT MAX(plays) FROM songs WHERE song_title <> :binding"), "task_2", "gold result"),
    ("target_uniqueness", lambda t: t["tasks"][2]["allowlist"].append(PUBLIC["old_films"]), "task_2", "nearly the schema"),
    ("no_identifiers", _request(0, "What is the average number of plays by song_title?"), "task_0", "song_title"),
    ("upstream_absent", _request(2, "Which film had the largest budget, and how often was Glass Tower played?"), "task_2", "upstream value"),
    ("literals_survive", _request(3, "How many people live there?"), "task_3", "Salem"),
    ("executes", lambda t: [u.update(result_digest="0" * 64) for u in t["units"] if u["unit_id"] == "song-mean"], "task_0", "another result"),
    ("non_trivial", lambda t: t["contracts"][0].update(unit_ids=["shop-none"], databases=[PUBLIC["leaf_shop"]]), "task_0", "only zero"),
    ("ownership", lambda t: [u.update(database_digest="0" * 64) for u in t["units"] if u["unit_id"] == "song-mean"], "task_0", "another file"),
    ("records_agree", _set("contracts", 0, difficulty="hard"), "task_0", "difficulty"),
    ("duplicate", lambda t: t["contracts"][0].update(t["contracts"][1] | {"task_id": "task_0"}), "task_1", "same set of units"),
    ("branches_differ", lambda t: t["contracts"][3].update(unit_ids=["shop-lowell", "clinic-lowell"], branches=[b | {"unit_id": u} for b, u in zip(t["contracts"][3]["branches"], ["shop-lowell", "clinic-lowell"], strict=True)]), "task_3", "same result"),
    (COUNTS, _set("contracts", 0, unit_ids=["song-lost"]), "task_0", "song-lost"),
    (COUNTS, _drop("tasks", 1), "task_1", "no contract, or the contract no task"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "damage", "task_id", "told"), PROOFS, ids=[f"{p[0]}-{at}" for at, p in enumerate(PROOFS)]
)
async def test_a_release_that_breaks_a_gate_is_told_so(shop: Shop, check: str, damage: Damage, task_id: str, told: str) -> None:  # fmt: skip
    tables = copied(shop.tables)
    damage(tables)
    found = await shop.certify(tables)
    assert not found.ok
    assert any(v.check == check and v.task_id == task_id and told in v.reason for v in found.violations), (
        found.violations
    )


async def test_counts_of_the_manifest_are_counted_again(shop: Shop) -> None:
    found = await shop.certify(shop.tables, episodes=4, by_behavior={"single": 4})
    assert [(v.check, v.task_id) for v in found.violations] == [(COUNTS, ""), (COUNTS, "")]
    assert "episodes 4" in found.violations[0].reason
    assert found.proven[COUNTS] == 0


async def test_databases_are_read_back_with_what_describes_their_columns(shop: Shop) -> None:
    source = make_source(shop.folder / "corpus")
    before = {d.name: [[(c.name, c.meaning, c.primary) for c in t.columns] for t in d.tables] for d in source.databases}
    found = databases_of(shop.publish(shop.tables), Corpus.SPIDER)
    assert {d.name: [[(c.name, c.meaning, c.primary) for c in t.columns] for t in d.tables] for d in found} == before
    assert all(d.loaded for d in found)
    shop.catalog = {**shop.catalog, "cat_columns": shop.catalog["cat_columns"][1:]}
    with pytest.raises(ReleaseDamaged, match="hold different tables or columns"):
        databases_of(shop.publish(shop.tables), Corpus.SPIDER)


def test_a_schema_is_read_back_as_it_was_written() -> None:
    columns = tuple(
        ColumnInfo(name, kind, meaning, primary=at == 0, references=("order", "weird \"one\"") if at == 2 else None)
        for at, (name, kind, meaning) in enumerate(
            [('weird "one"', "INTEGER", "first -- of all, ("), ("select", "", ""), ("FOREIGN", "TEXT", ""), ("a b", "TEXT", "x")]
        )
    )  # fmt: skip
    tables = (TableInfo("order", columns, 1), TableInfo("plain", (ColumnInfo("x", ""),), 0, view=True))
    database = CorpusDatabase(Corpus.SPIDER, "d", Engine.SQLITE, Path("d"), "d", "", "", "t", tables, "")
    found = schema(schema_text(database))
    assert [(t.name, t.view, [c.name for c in t.columns]) for t in found] == [
        ("order", False, ['weird "one"', "select", "FOREIGN", "a b"]),
        ("plain", True, ["x"]),
    ]
    with pytest.raises(ValueError, match="expected CREATE statements"):
        schema("DROP TABLE x;")


def test_the_command_says_what_holds(dsabench: Callable[..., Said], embedded: Path, tmp_path: Path) -> None:
    said = dsabench("certify", "--release", str(embedded), "--docs", str(tmp_path / "docs"), "--json")
    assert said.code == 0, said
    assert said.json["ok"] is True
    assert said.json["tasks"] > 0
    assert set(said.json["proven"].values()) == {said.json["tasks"]}
    assert said.json["violations"] == said.json["broken_suites"] == []
    assert (tmp_path / "docs" / "index.html").is_file()
    assert said.err == ""
    nowhere = dsabench("certify", "--release", str(tmp_path / "none"), "--json")
    assert nowhere.code == 2
    assert "is not a folder" in nowhere.err
