"""The embedded corpora: every query runs and says something, the planted material is there, the written layouts are
whole, equal from run to run, and repaired when damaged. Searches here are independent of the code that builds tasks."""

from __future__ import annotations

import csv
import filecmp
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlglot
import yaml

from tasks_lib.corpora import bird, livesqlbench, spider
from tasks_lib.corpora.embedded import SOURCE, EmbeddedError, materialise, source_digest
from tasks_lib.corpora.model import CorpusSource
from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.sql.postgres import PostgresServer
from tasks_lib.store.keys import sha256_file

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Gold:
    corpus: Corpus
    database: str
    id: str
    question: str
    sql: str


class Databases:
    """Read-only connections to every database of a materialised folder."""

    def __init__(self, roots: dict[Corpus, Path], server: PostgresServer) -> None:
        self.open: dict[tuple[Corpus, str], Callable[[str], Rows]] = {}
        self.closers: list[Callable[[], None]] = []
        for corpus in (Corpus.SPIDER, Corpus.BIRD):
            for path in sorted(roots[corpus].rglob("*.sqlite")):
                con = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
                self._add(corpus, path.stem, con)
        for dump in sorted((roots[Corpus.LIVESQLBENCH] / "dumps").glob("*_full.sql")):
            pg = psycopg.connect(server.ensure_database(dump, sha256_file(dump)), autocommit=True)
            self._add(Corpus.LIVESQLBENCH, dump.stem.removesuffix("_full"), pg)

    def _add(self, corpus: Corpus, name: str, con: Any) -> None:
        self.open[corpus, name] = lambda sql: con.execute(sql).fetchall()
        self.closers.append(con.close)

    def run(self, gold: Gold) -> Rows:
        return self.open[gold.corpus, gold.database](gold.sql)


@pytest.fixture(scope="module")
def golds() -> list[Gold]:
    found = []
    for path in sorted(SOURCE.glob("*/*/questions.yaml")):
        for unit in yaml.safe_load(path.read_text("utf-8")):
            corpus = Corpus(path.parts[-3])
            found.append(Gold(corpus, path.parts[-2], unit["id"], unit["question"], unit["sql"]))
    return found


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[Corpus, Path]:
    return materialise(tmp_path_factory.mktemp("embedded"))


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    folder = Path(tempfile.mkdtemp(prefix="dsae"))  # a socket path must stay short
    try:
        with PostgresServer.embedded(folder / "pg") as running:
            yield running
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def databases(roots: dict[Corpus, Path], server: PostgresServer) -> Iterator[Databases]:
    opened = Databases(roots, server)
    yield opened
    for close in opened.closers:
        close()


@pytest.fixture(scope="module")
def results(golds: list[Gold], databases: Databases) -> dict[str, Rows]:
    return {gold.id: databases.run(gold) for gold in golds}


def of(golds: list[Gold], corpus: Corpus) -> list[Gold]:
    return [gold for gold in golds if gold.corpus is corpus]


# ---- size and shape


@pytest.mark.parametrize(
    ("corpus", "least_databases", "least_units"),
    [(Corpus.SPIDER, 15, 120), (Corpus.BIRD, 8, 75), (Corpus.LIVESQLBENCH, 5, 45)],
)
def test_enough_databases_and_questions(
    golds: list[Gold], corpus: Corpus, least_databases: int, least_units: int
) -> None:
    own = of(golds, corpus)
    assert len({gold.database for gold in own}) >= least_databases
    assert len(own) >= least_units
    assert len({gold.id for gold in own}) == len(own)


def test_tables_are_keyed_small_and_the_whole_stays_below_four_megabytes() -> None:
    for schema in sorted(SOURCE.glob("*/*/schema.sql")):
        with closing(sqlite3.connect(":memory:")) as con:
            con.executescript(schema.read_text("utf-8"))
            names = [row[0] for row in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            assert 3 <= len(names) <= 8, schema
            assert any(con.execute(f"PRAGMA foreign_key_list({name})").fetchall() for name in names), schema
            for name in names:
                assert any(row[5] for row in con.execute(f"PRAGMA table_info({name})")), f"{schema}: {name} has no key"
        sizes = [sum(1 for _ in csv.reader(path.open())) - 1 for path in schema.parent.glob("tables/*.csv")]
        assert max(sizes) >= 50, schema
        assert max(sizes) <= 2000, schema
    assert sum(path.stat().st_size for path in SOURCE.rglob("*") if path.is_file()) < 4_000_000


def test_generator_writes_the_committed_rows_again(tmp_path: Path) -> None:
    command = [sys.executable, "-B", str(SOURCE / "generate.py"), str(tmp_path)]
    subprocess.run(command, check=True, timeout=120, env={**os.environ, "PYTHONHASHSEED": "7"})
    committed = {path.relative_to(SOURCE) for path in SOURCE.rglob("*.csv")}
    assert committed == {path.relative_to(tmp_path) for path in tmp_path.rglob("*.csv")}
    different = [str(path) for path in committed if not filecmp.cmp(SOURCE / path, tmp_path / path, shallow=False)]
    assert different == []


# ---- gold


def test_every_query_says_something_of_its_own(golds: list[Gold], results: dict[str, Rows]) -> None:
    seen: dict[tuple[str, str], str] = {}
    for gold in golds:
        rows = results[gold.id]
        assert rows, f"{gold.id} returns nothing"
        assert any(value is not None for row in rows for value in row), f"{gold.id} returns only NULL"
        assert rows != [(0,)], f"{gold.id} counts nothing"
        other = seen.setdefault((gold.database, str(sorted(map(str, rows)))), gold.id)
        assert other == gold.id, f"{gold.id} and {other} have one answer"


def test_answers_do_not_hang_on_the_order_of_stored_rows(
    golds: list[Gold], results: dict[str, Rows], server: PostgresServer, tmp_path: Path
) -> None:
    """A LIMIT that cuts ties, or an ORDER BY that leaves some, shows when every table is stored backwards."""
    backwards = tmp_path / "source"
    shutil.copytree(SOURCE, backwards)
    for path in backwards.rglob("*.csv"):
        with path.open(encoding="utf-8", newline="") as handle:
            head, *rows = list(csv.reader(handle))
        with path.open("w", encoding="utf-8", newline="") as handle:
            csv.writer(handle, lineterminator="\n").writerows([head, *reversed(rows)])
    opened = Databases(materialise(tmp_path / "out", backwards), server)
    try:
        for gold in golds:
            before, after = results[gold.id], opened.run(gold)
            if "ORDER BY" not in gold.sql:
                before, after = sorted(before, key=str), sorted(after, key=str)
            assert after == before, f"{gold.id} depends on the order of rows"
    finally:
        for close in opened.closers:
            close()


def test_no_query_gives_its_answer_on_another_database(
    golds: list[Gold], results: dict[str, Rows], databases: Databases
) -> None:
    for gold in golds:
        for (corpus, name), run in databases.open.items():
            if corpus is gold.corpus and name != gold.database:
                try:
                    rows = run(gold.sql)
                except (sqlite3.OperationalError, psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
                    continue
                assert rows != results[gold.id], f"{gold.id} is answered by {name} too"


def test_two_or_three_queries_write_a_text_in_double_quotes(golds: list[Gold]) -> None:
    assert 2 <= sum('"' in gold.sql for gold in golds) <= 3
    assert not any('"' in gold.sql for gold in of(golds, Corpus.LIVESQLBENCH))


# ---- planted material


def links(golds: list[Gold], results: dict[str, Rows], databases: Databases) -> list[tuple[Gold, Gold]]:
    """Pairs in one corpus: one text answer, which the other's question and SQL need, and which makes the difference."""
    found = []
    for up in golds:
        rows = results[up.id]
        if not (len(rows) == 1 and len(rows[0]) == 1 and isinstance(rows[0][0], str)):
            continue
        literal = "'" + rows[0][0].replace("'", "''") + "'"
        for down in of(golds, up.corpus):
            if down.database != up.database and f"= {literal}" in down.sql and rows[0][0] in down.question:
                other = other_values(up, rows[0][0], databases)
                swapped = [down.sql.replace(literal, "'" + value.replace("'", "''") + "'") for value in other]
                run = databases.open[down.corpus, down.database]
                if any(run(sql) != results[down.id] for sql in swapped):
                    found.append((up, down))
    return found


def other_values(up: Gold, value: str, databases: Databases) -> list[str]:
    """Up to 60 other values of the upstream column: the upstream query without its filter, order and limit."""
    tree = sqlglot.parse_one(up.sql, read="postgres" if up.corpus is Corpus.LIVESQLBENCH else "sqlite")
    for part in ("where", "order", "limit"):
        tree.set(part, None)
    dialect = "postgres" if up.corpus is Corpus.LIVESQLBENCH else "sqlite"
    rows = databases.open[up.corpus, up.database](tree.sql(dialect=dialect))
    return sorted({row[0] for row in rows if row[0] and row[0] != value})[:60]


def test_answers_that_other_databases_need(golds: list[Gold], results: dict[str, Rows], databases: Databases) -> None:
    found = links(golds, results, databases)
    count = {corpus: sum(up.corpus is corpus for up, _ in found) for corpus in Corpus}
    assert count[Corpus.SPIDER] >= 12, count
    assert count[Corpus.BIRD] >= 8, count
    assert count[Corpus.LIVESQLBENCH] >= 6, count
    chains = [
        (up, middle, down)
        for up, middle in found
        for start, down in found
        if start.id == middle.id and up.database != down.database
    ]
    assert len(chains) >= 2
    zeros = [up for up, _ in found if str(results[up.id][0][0]).startswith("0")]
    assert zeros, "no link carries a code with a leading zero"


def test_equal_questions_with_different_answers(golds: list[Gold], results: dict[str, Rows]) -> None:
    by_question: dict[tuple[Corpus, str], list[Gold]] = defaultdict(list)
    for gold in golds:
        by_question[gold.corpus, gold.question].append(gold)
    count = dict.fromkeys(Corpus, 0)
    for (corpus, question), same in by_question.items():
        for one, two in combinations(same, 2):
            assert one.database != two.database, question
            assert results[one.id] != results[two.id], question
            count[corpus] += 1
    assert count[Corpus.SPIDER] >= 12, count
    assert count[Corpus.BIRD] >= 6, count
    assert count[Corpus.LIVESQLBENCH] >= 5, count


def test_values_are_shared_across_databases(databases: Databases) -> None:
    """Films and songs share titles; codes stay text."""
    films = {row[0] for row in databases.open[Corpus.SPIDER, "lantern_films"]("SELECT film_title FROM films")}
    songs = {row[0] for row in databases.open[Corpus.SPIDER, "tune_radio"]("SELECT song_title FROM songs")}
    assert len(films & songs) >= 20
    codes = databases.open[Corpus.SPIDER, "garden_outlet"]("SELECT DISTINCT typeof(zip_code) FROM customers")
    assert codes == [("text",)]


def test_questions_are_sentences(golds: list[Gold]) -> None:
    for gold in golds:
        assert re.fullmatch(r"[A-Z].*[.?]", gold.question), gold.id
        assert gold.database not in gold.question, gold.id


# ---- what materialise writes


def tree(root: Path) -> dict[str, str]:
    return {p.relative_to(root).as_posix(): sha256_file(p) for p in sorted(root.rglob("*")) if p.is_file()}


def test_every_file_counts_rows_of_tables_too(tmp_path: Path) -> None:
    copied = shutil.copytree(SOURCE, tmp_path / "embedded")
    assert source_digest(copied) == source_digest()
    for pattern in ("*.csv", "*.sql", "*.yaml"):
        before, file = source_digest(copied), sorted(copied.rglob(pattern))[0]
        file.write_text(file.read_text("utf-8") + "\n", "utf-8")
        assert source_digest(copied) != before, file


def test_two_runs_write_the_same_bytes_and_a_second_run_changes_nothing(tmp_path: Path) -> None:
    one, two = materialise(tmp_path / "one"), materialise(tmp_path / "two")
    for corpus in Corpus:
        assert tree(one[corpus]) == tree(two[corpus])
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "one").rglob("*") if path.name[0] != "."}
    assert materialise(tmp_path / "one") == one
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "one").rglob("*") if path.name[0] != "."}
    assert after == before
    assert sorted(path.name for path in (tmp_path / "one").iterdir() if path.is_dir()) == sorted(Corpus)


@pytest.mark.parametrize("damage", ["truncated", "missing file", "foreign file", "no record", "torn record", "no root"])
def test_a_damaged_root_is_built_again(tmp_path: Path, damage: str) -> None:
    root = materialise(tmp_path)[Corpus.SPIDER]
    whole, record = tree(root), tmp_path / "spider.digest.json"
    target = root / "database" / "bookmill" / "bookmill.sqlite"
    if damage == "truncated":
        target.write_bytes(target.read_bytes()[:5000])
    elif damage == "missing file":
        target.unlink()
    elif damage == "foreign file":
        (root / "database" / "bookmill" / "stray.txt").write_text("x")
    elif damage == "no record":
        target.write_bytes(b"half")
        record.unlink()
    elif damage == "torn record":
        target.write_bytes(b"half")
        record.write_bytes(record.read_bytes()[:40])
    else:
        shutil.rmtree(root)
    (tmp_path / ".spider-left").mkdir()
    materialise(tmp_path)
    assert tree(root) == whole
    assert not (tmp_path / ".spider-left").exists()


def test_changed_sources_are_written_anew_and_faulty_ones_named(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(SOURCE, source)
    root = materialise(tmp_path / "out", source)[Corpus.SPIDER]
    meta = source / "spider" / "bookmill" / "meta.yaml"
    meta.write_text(meta.read_text("utf-8").replace("a bookshop's readers", "a small bookshop's readers"), "utf-8")
    materialise(tmp_path / "out", source)
    assert json.loads((root / "titles.json").read_text("utf-8"))["bookmill"].startswith("a small bookshop")
    before = tree(root)
    (source / "spider" / "bookmill" / "tables" / "books.csv").write_text("book_id\n1\n", "utf-8")
    with pytest.raises(EmbeddedError, match=r"books\.csv"):
        materialise(tmp_path / "out", source)
    assert tree(root) == before
    with pytest.raises(EmbeddedError, match="no database folder"):
        materialise(tmp_path / "none", tmp_path / "nowhere")


@pytest.mark.parametrize(("corpus", "reader"), [*zip(Corpus, (spider.read, bird.read, livesqlbench.read), strict=True)])
def test_the_ordinary_readers_read_them(
    roots: dict[Corpus, Path], golds: list[Gold], corpus: Corpus, reader: Callable[[Path], CorpusSource]
) -> None:
    source = reader(roots[corpus])
    own = of(golds, corpus)
    assert {database.name for database in source.databases} == {gold.database for gold in own}
    assert {database.origin for database in source.databases} == {"embedded"}
    assert {(q.database, q.question, q.sql) for q in source.questions} == {(g.database, g.question, g.sql) for g in own}
    splits = defaultdict(set)
    for question in source.questions:
        splits[question.split].add(question.database)
    assert splits["train"]
    assert splits["dev"]
    assert not splits["train"] & splits["dev"], "dev databases must not occur in train"


def test_official_fields(roots: dict[Corpus, Path]) -> None:
    schema_fields = {
        "db_id", "table_names_original", "table_names", "column_names_original", "column_names", "column_types",
        "primary_keys", "foreign_keys",
    }  # fmt: skip
    spider_root, bird_root, live = (roots[corpus] for corpus in Corpus)
    for path in (
        spider_root / "tables.json",
        bird_root / "train" / "train_tables.json",
        bird_root / "dev" / "dev_tables.json",
    ):
        for record in json.loads(path.read_text("utf-8")):
            assert set(record) == schema_fields
            width = len(record["column_names_original"])
            assert len(record["column_names"]) == len(record["column_types"]) == width
            assert record["column_names_original"][0] == [-1, "*"]
            assert record["foreign_keys"]
    for split, fields in (
        ("train", {"db_id", "question", "evidence", "SQL"}),
        ("dev", {"question_id", "db_id", "question", "evidence", "SQL", "difficulty"}),
    ):
        for record in json.loads((bird_root / split / f"{split}.json").read_text("utf-8")):
            assert set(record) == fields
            assert record["evidence"]
            folder = bird_root / split / f"{split}_databases" / record["db_id"]
            for path in folder.glob("database_description/*.csv"):
                head, *rows = list(csv.reader(path.open(encoding="utf-8", newline="")))
                names = "original_column_name,column_name,column_description,data_format,value_description"
                assert head == names.split(",")
                assert all(row[2] for row in rows)
    for line in (live / "units.jsonl").read_text("utf-8").splitlines():
        unit = json.loads(line)
        name = unit["db_id"]
        entries = (live / name / f"{name}_kb.jsonl").read_text("utf-8").splitlines()
        known = {entry["id"]: entry["knowledge"] for entry in map(json.loads, entries)}
        assert all(known[item["id"]] == item["name"] for item in unit["knowledge"])
        meanings = json.loads((live / name / f"{name}_column_meaning_base.json").read_text("utf-8"))
        assert {key.split("|")[0] for key in meanings} == {name}
        assert any("fields_meaning" in value for value in meanings.values() if isinstance(value, dict))
        assert set(unit["tables"]) <= {key.split("|")[1] for key in meanings}
        assert "First 3 rows:" in (live / name / f"{name}_schema.txt").read_text("utf-8")
        assert "COPY" not in (live / "dumps" / f"{name}_full.sql").read_text("utf-8")
    for corpus, root in roots.items():
        titles = json.loads((root / "titles.json").read_text("utf-8"))
        assert set(titles) == {path.name for path in (SOURCE / corpus).iterdir() if path.is_dir()}


@pytest.mark.real
def test_nothing_is_taken_from_the_published_corpora(golds: list[Gold]) -> None:
    if "DSABENCH_DATA" not in os.environ:
        pytest.skip("DSABENCH_DATA is not set")
    data = Path(os.environ["DSABENCH_DATA"])
    names: set[str] = set()
    asked: set[str] = set()
    for path in [*data.glob("spider/*.json"), *data.glob("bird/*/*.json")]:
        for record in json.loads(path.read_text("utf-8")):
            if isinstance(record, dict) and "db_id" in record:
                names.add(record["db_id"].lower())
                asked.add(" ".join(re.findall(r"\w+", record.get("question", "").lower())))
    names |= {path.name for path in (data / "livesqlbench").iterdir() if path.is_dir()}
    assert len(names) > 200
    assert not names & {gold.database for gold in golds}
    same = {gold.question for gold in golds if " ".join(re.findall(r"\w+", gold.question.lower())) in asked}
    assert same == set()
