"""Every way a corpus folder can be wrong is one typed error: the path, what belongs there, what stands there, the remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from corpora_support import KENNEL_DUMP, write_bird, write_json, write_lines, write_livesqlbench, write_spider

from tasks_lib.corpora import bird, livesqlbench, spider
from tasks_lib.corpora.files import CorpusError

QUESTION = {"db_id": "orchard", "question": "Trees?", "query": "SELECT 1"}


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def spoil_page(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[100:400] = b"\xff" * 300
    path.write_bytes(bytes(whole))


def _end_at(path: Path, place: str) -> None:
    text = path.read_text("utf-8")
    path.write_text(text[: text.index(place)], "utf-8")


SPIDER: list[tuple[str, Callable[[Path], object], str, str]] = [
    (
        "half a character",
        lambda r: write_json(r / "dev.json", [{**QUESTION, "question": "Trees \ud83c?"}]),
        "dev.json",
        "text in field question of record 0, found half a character at offset 6",
    ),
    (
        "no tables",
        lambda r: (r / "tables.json").unlink(),
        "tables.json",
        "the list of database schemas, found no such file",
    ),
    ("no dev", lambda r: (r / "dev.json").unlink(), "dev.json", "the dev questions of Spider, found no such file"),
    ("no others", lambda r: (r / "train_others.json").unlink(), "train_others.json", "found no such file"),
    (
        "no database",
        lambda r: (r / "database/orchard/orchard.sqlite").unlink(),
        "orchard.sqlite",
        "an SQLite database, found no such file",
    ),
    (
        "cut database",
        lambda r: cut(r / "database/orchard/orchard.sqlite"),
        "orchard.sqlite",
        "damaged file .* its header says",
    ),
    (
        "spoilt database",
        lambda r: spoil_page(r / "database/orchard/orchard.sqlite"),
        "orchard.sqlite",
        "a whole SQLite database, found one that breaks while read",
    ),
    (
        "text as database",
        lambda r: (r / "database/orchard/orchard.sqlite").write_text("<html>not found</html>" * 20),
        "orchard.sqlite",
        "no SQLite header",
    ),
    (
        "broken JSON",
        lambda r: (r / "dev.json").write_text('[\n {"db_id": "orchard",\n  "question": }\n]'),
        "dev.json",
        r"broken JSON at line 3 column 15",
    ),
    ("empty file", lambda r: (r / "dev.json").write_text(""), "dev.json", "broken JSON at line 1 column 1"),
    ("no UTF-8", lambda r: (r / "dev.json").write_bytes(b'["\xff"]'), "dev.json", "not UTF-8 at offset 2"),
    ("an object", lambda r: write_json(r / "dev.json", {}), "dev.json", "a JSON object instead of a list"),
    ("a list of texts", lambda r: write_json(r / "dev.json", [QUESTION, "x"]), "dev.json", "at index 1 a JSON text"),
    (
        "unknown database",
        lambda r: write_json(r / "dev.json", [QUESTION, {**QUESTION, "db_id": "atlantis"}]),
        "dev.json",
        "at index 1 the name of a database of the corpus, found 'atlantis'",
    ),
    (
        "no query",
        lambda r: write_json(r / "dev.json", [{"db_id": "orchard", "question": "Trees?"}]),
        "dev.json",
        "text in field query of record 0, found no such field",
    ),
    (
        "query is a list",
        lambda r: write_json(r / "dev.json", [{**QUESTION, "query": ["SELECT 1"]}]),
        "dev.json",
        "field query of record 0, found list",
    ),
    (
        "blank question",
        lambda r: write_json(r / "dev.json", [{**QUESTION, "question": " "}]),
        "dev.json",
        "field question of record 0, found an empty text",
    ),
    (
        "duplicate id",
        lambda r: write_json(r / "dev.json", [{**QUESTION, "unit_id": "a"}, {**QUESTION, "unit_id": "a"}]),
        "",
        "every unit id once, found unit id 'spider:a' twice",
    ),
    (
        "bad split",
        lambda r: write_json(r / "dev.json", [{**QUESTION, "split": "test"}]),
        "dev.json",
        "split train or dev at index 0, found 'test'",
    ),
    (
        "database listed twice",
        lambda r: write_json(r / "tables.json", json.loads((r / "tables.json").read_text()) * 2),
        "tables.json",
        "every database once, found 'harbour_1' again at index 2",
    ),
    (
        "schema without columns",
        lambda r: write_json(r / "tables.json", [{"db_id": "orchard"}]),
        "tables.json",
        r"field table_names_original of database orchard \(index 0\)",
    ),
    (
        "schema that points nowhere",
        lambda r: write_json(
            r / "tables.json",
            [
                {
                    "db_id": "orchard",
                    "table_names_original": ["tree"],
                    "column_names_original": [[4, "x"]],
                    "column_names": [[4, "x"]],
                    "foreign_keys": [],
                }
            ],
        ),
        "tables.json",
        "numbers of database orchard .* that point into its lists",
    ),
    (
        "titles as list",
        lambda r: write_json(r / "titles.json", ["a"]),
        "titles.json",
        "a JSON list instead of an object",
    ),
]


@pytest.mark.parametrize(("spoil", "file", "message"), [case[1:] for case in SPIDER], ids=[case[0] for case in SPIDER])
def test_spider(tmp_path: Path, spoil: Callable[[Path], object], file: str, message: str) -> None:
    root = write_spider(tmp_path)
    spoil(root)
    check(lambda: spider.read(root), root, file, message, "spider")


BIRD: list[tuple[str, Callable[[Path], object], str, str]] = [
    (
        "no dev.json",
        lambda r: (r / "dev/dev.json").unlink(),
        "dev/dev.json",
        "the dev questions of BIRD, found no such file",
    ),
    ("no tables", lambda r: (r / "train/train_tables.json").unlink(), "train/train_tables.json", "found no such file"),
    (
        "origin",
        lambda r: write_json(r / "ORIGIN.json", {"orchard": "fake"}),
        "ORIGIN.json",
        "replica for orchard, found 'fake'",
    ),
    (
        "origin of another",
        lambda r: write_json(r / "ORIGIN.json", {"orchrd": "replica"}),
        "ORIGIN.json",
        "names of databases that are there, found 'orchrd'",
    ),
    (
        "meaning key",
        lambda r: write_json(r / "column_meaning/a.json", {"orchard.tree.sort": "x"}),
        "column_meaning/a.json",
        r"keys of the form db\|table\|column, found 'orchard.tree.sort'",
    ),
    (
        "meaning value",
        lambda r: write_json(r / "column_meaning/a.json", {"orchard|tree|sort": 3}),
        "column_meaning/a.json",
        "text or an object",
    ),
    (
        "listed in both parts",
        lambda r: write_json(r / "dev/dev_tables.json", json.loads((r / "train/train_tables.json").read_text())),
        "dev/dev_tables.json",
        "that the other part does not list, found 'orchard'|name of a database",
    ),
    (
        "dev question on a train database",
        lambda r: write_json(r / "dev/dev.json", [{"db_id": "orchard", "question": "Trees?", "SQL": "SELECT 1"}]),
        "dev/dev.json",
        "at index 0 the name of a database of the corpus, found 'orchard'",
    ),
    (
        "description without header",
        lambda r: (
            (r / "dev/dev_databases/harbour_1/database_description").mkdir(),
            (r / "dev/dev_databases/harbour_1/database_description/stay.csv").write_text("a,b\n1,2\n"),
        ),
        "database_description/stay.csv",
        "columns original_column_name and column_description, found the columns a, b",
    ),
]


@pytest.mark.parametrize(("spoil", "file", "message"), [case[1:] for case in BIRD], ids=[case[0] for case in BIRD])
def test_bird(tmp_path: Path, spoil: Callable[[Path], object], file: str, message: str) -> None:
    root = write_bird(tmp_path)
    spoil(root)
    check(lambda: bird.read(root), root, file, message, "bird")


def test_bird_without_any_part(tmp_path: Path) -> None:
    check(lambda: bird.read(tmp_path), tmp_path, "", "a folder dev or train, found neither", "bird")


LIVE: list[tuple[str, Callable[[Path], object], str, str]] = [
    (
        "no meanings",
        lambda r: (r / "kennel/kennel_column_meaning_base.json").unlink(),
        "kennel_column_meaning_base.json",
        "found no such file",
    ),
    ("no knowledge", lambda r: (r / "kennel/kennel_kb.jsonl").unlink(), "kennel_kb.jsonl", "found no such file"),
    (
        "broken knowledge line",
        lambda r: (r / "kennel/kennel_kb.jsonl").write_text('{"id": 0, "knowledge": "a"}\n\n{"id": 1,,}\n'),
        "kennel_kb.jsonl",
        "broken JSON at line 3 column 10",
    ),
    (
        "knowledge without id",
        lambda r: write_lines(r / "kennel/kennel_kb.jsonl", [{"knowledge": "a"}]),
        "kennel_kb.jsonl",
        "number id and text knowledge in entry 0",
    ),
    (
        "empty dump",
        lambda r: (r / "dumps/kennel_full.sql").write_text("-- nothing\n"),
        "kennel_full.sql",
        "found no CREATE TABLE statement",
    ),
    (
        "dump cut in a COPY block",
        lambda r: _end_at(r / "dumps/kennel_full.sql", "2\twhippet"),
        "kennel_full.sql",
        "a whole PostgreSQL dump, found one that is cut short .it ends inside a COPY block",
    ),
    (
        "dump cut in a statement",
        lambda r: _end_at(r / "dumps/kennel_full.sql", "    ADD CONSTRAINT dogs_breed"),
        "kennel_full.sql",
        "cut short .it ends inside a statement",
    ),
    (
        "dump cut between statements",
        lambda r: (r / "dumps/kennel_full.sql").write_text(f"-- PostgreSQL database dump\n{KENNEL_DUMP}", "utf-8"),
        "kennel_full.sql",
        "cut short .its closing line is missing",
    ),
    (
        "no units and no solutions",
        lambda r: (r / "units.jsonl").unlink(),
        "units.jsonl",
        "no task of livesqlbench_data.jsonl has its solution, found no such file",
    ),
    (
        "neither file",
        lambda r: ((r / "units.jsonl").unlink(), (r / "livesqlbench_data.jsonl").unlink()),
        "livesqlbench_data.jsonl",
        "or units.jsonl beside it, found neither file",
    ),
    (
        "unknown database",
        lambda r: write_lines(r / "units.jsonl", [{"db_id": "atlantis", "question": "a", "sql": "SELECT 1"}]),
        "units.jsonl",
        "at index 0 the name of a database of the corpus, found 'atlantis'",
    ),
    (
        "duplicate unit id",
        lambda r: write_lines(
            r / "units.jsonl", [{"unit_id": "u", "db_id": "kennel", "question": "a", "sql": "SELECT 1"}] * 2
        ),
        "",
        "every unit id once, found unit id 'livesqlbench:u' twice",
    ),
]


@pytest.mark.parametrize(("spoil", "file", "message"), [case[1:] for case in LIVE], ids=[case[0] for case in LIVE])
def test_livesqlbench(tmp_path: Path, spoil: Callable[[Path], object], file: str, message: str) -> None:
    root = write_livesqlbench(tmp_path)
    spoil(root)
    check(lambda: livesqlbench.read(root), root, file, message, "livesqlbench")


def test_livesqlbench_without_any_database(tmp_path: Path) -> None:
    check(
        lambda: livesqlbench.read(tmp_path),
        tmp_path,
        "",
        "folders <db> with <db>_schema.txt, found none",
        "livesqlbench",
    )


def check(read: Callable[[], object], root: Path, file: str, message: str, corpus: str) -> None:
    with pytest.raises(CorpusError) as caught:
        read()
    text = str(caught.value)
    assert str(root) in text
    assert text.startswith(f"{corpus}: ")
    assert str(caught.value.path).endswith(file)
    assert re.search(message, text), text
    assert f"datasets/{corpus}.md says where to get the data" in text
    assert "\n" not in text
