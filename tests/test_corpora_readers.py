"""The three readers read the official layouts: databases, words, questions, ids, splits, origins, digests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from corpora_support import (
    KENNEL_DUMP,
    postgres_folder,
    write_bird,
    write_json,
    write_lines,
    write_livesqlbench,
    write_spider,
)

from tasks_lib.corpora import bird, livesqlbench, spider
from tasks_lib.corpora.model import ColumnInfo, CorpusDatabase, CorpusSource
from tasks_lib.sql.postgres import PostgresServer


def by_name(source: CorpusSource) -> dict[str, CorpusDatabase]:
    return {database.name: database for database in source.databases}


def column(database: CorpusDatabase, table: str, name: str) -> ColumnInfo:
    (found,) = (c for t in database.tables if t.name == table for c in t.columns if c.name == name)
    return found


def test_spider_layout(tmp_path: Path) -> None:
    source = spider.read(write_spider(tmp_path))
    assert [question.unit_id for question in source.questions] == [
        "spider:train_spider:0",
        "spider:train_others:0",
        "spider:dev:0",
        "spider:dev:1",
    ]
    assert [question.split for question in source.questions] == ["train", "train", "dev", "dev"]
    harbour = by_name(source)["harbour_1"]
    assert (harbour.title, harbour.origin, harbour.relative_path) == (
        "harbour",
        "original",
        "database/harbour_1/harbour_1.sqlite",
    )
    assert [(table.name, table.row_count) for table in harbour.tables] == [("berth", 3), ("stay", 3)]
    length = column(harbour, "berth", "Max Length")
    assert (length.meaning, length.type, length.value_range) == ("longest ship in metres", "REAL", "12.0..40.5")
    assert column(harbour, "berth", "quay").meaning == "", "words that only repeat the name say nothing"
    assert column(harbour, "stay", "berth_no").references == ("berth", "berth_no")
    assert column(harbour, "stay", "ship").examples == ("Petrel", "Auk"), "most frequent first"
    assert column(harbour, "stay", "arrived").value_range == "2031-05-02..2031-06-01"
    assert harbour.ddl.startswith("CREATE TABLE berth (")


def test_titles_and_marker_of_a_root(tmp_path: Path) -> None:
    root = write_spider(tmp_path)
    write_json(root / "titles.json", {"harbour_1": "ships in a small port"})
    (root / "EMBEDDED").write_text("ours", "utf-8")
    databases = by_name(spider.read(root))
    assert databases["harbour_1"].title == "ships in a small port"
    assert {database.origin for database in databases.values()} == {"embedded"}


def test_digest_follows_every_file(tmp_path: Path) -> None:
    root = write_spider(tmp_path)
    digests = [spider.read(root).digest, spider.read(root).digest]
    assert digests[0] == digests[1]
    write_json(root / "titles.json", {"orchard": "fruit"})
    digests.append(spider.read(root).digest)
    write_json(root / "train_others.json", [])
    digests.append(spider.read(root).digest)
    (root / "database/orchard/orchard.sqlite").write_bytes((root / "database/harbour_1/harbour_1.sqlite").read_bytes())
    digests.append(spider.read(root).digest)
    assert len(set(digests)) == 4


def test_a_moved_corpus_keeps_its_digest(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    first = spider.read(write_spider(tmp_path / "a"))
    (tmp_path / "a").rename(tmp_path / "b")
    second = spider.read(tmp_path / "b")
    assert first.digest == second.digest


def test_bird_layout(tmp_path: Path) -> None:
    root = write_bird(tmp_path)
    folder = root / "dev/dev_databases/harbour_1/database_description"
    folder.mkdir()
    (folder / "Berth.csv").write_bytes(
        "\ufefforiginal_column_name,column_name,column_description,data_format,value_description\r\n"
        'quay,,side of the basin,text,"north: old part\nsouth: new part"\r\n'.encode()
    )
    (folder / "stay.csv").write_bytes(
        b"original_column_name,column_name,column_description,data_format,value_description\nship,,caf\xe9 boats too,text,\n"
    )
    write_json(
        root / "column_meaning/column_meaning.dev.json",
        {
            "harbour_1|berth|quay": "# 'Quay of the berth in the harbour_1 database.'",
            "Harbour_1|Stay|Arrived": "Day of arrival.",
        },
    )
    source = bird.read(root)
    assert {question.unit_id: question.split for question in source.questions} == {
        "bird:train:0": "train",
        "bird:dev:0": "dev",
    }
    question = source.questions[1]
    assert (question.evidence, question.difficulty) == ("list refers to the table", "simple")
    harbour = by_name(source)["harbour_1"]
    assert column(harbour, "berth", "quay").meaning == (
        "side of the basin; north: old part south: new part; Quay of the berth."
    )
    assert column(harbour, "stay", "ship").meaning == "café boats too"
    assert column(harbour, "stay", "arrived").meaning == "Day of arrival."
    assert harbour.origin == "original"


def test_a_replica_shows_no_value(tmp_path: Path) -> None:
    root = write_bird(tmp_path)
    write_json(root / "ORIGIN.json", {"harbour_1": "replica", "orchard": "surrogate"})
    databases = by_name(bird.read(root))
    told = [(c.examples, c.value_range, c.distinct) for t in databases["harbour_1"].tables for c in t.columns]
    assert set(told) == {((), "", 0)}
    for value in ("Petrel", "Auk", "north", "2031"):
        assert value not in repr(replace(databases["harbour_1"], path=Path()))
    assert databases["orchard"].origin == "surrogate"
    assert column(databases["orchard"], "tree", "sort").examples == ("pear", "plum")


def test_one_part_of_bird_is_enough_and_said(tmp_path: Path) -> None:
    root = write_bird(tmp_path)
    (root / "train").rename(root / "elsewhere")
    source = bird.read(root)
    assert [database.name for database in source.databases] == ["harbour_1"]
    assert len(source.notes) == 1
    assert "train part" in source.notes[0]


def test_livesqlbench_layout_without_a_server(tmp_path: Path) -> None:
    source = livesqlbench.read(write_livesqlbench(tmp_path, ("kennel", "aviary")))
    assert [database.name for database in source.databases] == ["kennel"]
    assert any("aviary" in note and "no dump" in note for note in source.notes)
    assert any("No server" in note for note in source.notes)
    (kennel,) = source.databases
    assert [table.name for table in kennel.tables] == ["breeds", "Dogs"], "text in strings makes no table"
    assert column(kennel, "breeds", "breed_key").primary
    assert column(kennel, "breeds", "coat").type == "coat_enum"
    assert column(kennel, "Dogs", "breed_ref").references == ("breeds", "breed_key")
    assert column(kennel, "Dogs", "traits").meaning == "JSONB. Traits. calm: BOOLEAN. Calm?"
    assert kennel.knowledge == "Light Dog: A dog under 15 kg. Weight < 15"
    assert "OWNER" not in kennel.ddl
    assert "'short'" in kennel.ddl
    (question,) = source.questions
    assert (question.unit_id, question.split, question.difficulty) == ("livesqlbench:own_01", "dev", "easy")


def test_a_filled_solution_is_the_gold(tmp_path: Path) -> None:
    root = write_livesqlbench(tmp_path, ("kennel", "aviary"))
    task = {"query": "How many?", "external_knowledge": [0], "category": "Query", "selected_database": "kennel"}
    write_lines(
        root / "livesqlbench_data.jsonl",
        [
            {**task, "instance_id": "kennel_1", "sol_sql": ['SELECT COUNT(*) FROM "Dogs"']},
            {**task, "instance_id": "kennel_2", "sol_sql": []},
            {**task, "instance_id": "kennel_3", "sol_sql": ["DELETE FROM breeds"], "category": "Management"},
            {**task, "instance_id": "kennel_4", "sol_sql": ["SELECT 4"], "preprocess_sql": ["DELETE FROM breeds"]},
            {**task, "instance_id": "kennel_5", "sol_sql": "SELECT breed_key FROM breeds"},
            {**task, "instance_id": "aviary_1", "sol_sql": ["SELECT 1"], "selected_database": "aviary"},
        ],
    )
    source = livesqlbench.read(root)
    question, text = source.questions
    assert text.sql == "SELECT breed_key FROM breeds", "a solution that is one text is one statement"
    assert "3 tasks have no solution" in " ".join(source.notes)
    assert (question.unit_id, question.sql) == ("livesqlbench:kennel_1", 'SELECT COUNT(*) FROM "Dogs"')
    assert question.evidence == "Light Dog: A dog under 15 kg. Weight < 15"
    assert "1 questions over databases without a dump are left out." in source.notes
    texts = [(text.text_id, text.database) for text in source.texts]
    asked = [("kennel_2", "kennel"), ("kennel_4", "kennel")]
    assert texts == [(f"livesqlbench:{name}", database) for name, database in asked], "no unit, and no change of data"


@pytest.mark.parametrize(
    ("names", "stems", "expected"),
    [
        (("pond",), ("ponds_full",), {"pond": "ponds_full"}),
        (("pond", "ponds"), ("ponds_full",), {"ponds": "ponds_full"}),
        (("pond", "ponds"), ("pond_full", "ponds_full"), {"pond": "pond_full", "ponds": "ponds_full"}),
        (("pond",), ("pondss_full", "Pond_full"), {}),
        (("pond",), ("lake_full",), {}),
    ],
)
def test_which_dump_belongs_to_which_database(
    names: tuple[str, ...], stems: tuple[str, ...], expected: dict[str, str]
) -> None:
    found = livesqlbench.match_dumps(list(names), [Path(f"{stem}.sql") for stem in stems])
    assert {name: path.stem for name, path in found.items()} == expected


def test_a_server_gives_livesqlbench_its_values(tmp_path: Path) -> None:
    root = write_livesqlbench(tmp_path / "corpus")
    without = livesqlbench.read(root)
    with postgres_folder() as folder, PostgresServer.embedded(folder) as server:
        source = livesqlbench.read(root, server)
    (kennel,) = source.databases
    assert [table.row_count for table in kennel.tables] == [2, 2]
    weight = column(kennel, "Dogs", "Weight")
    assert (weight.examples, weight.value_range, weight.distinct) == (("12.50",), "12.50..12.50", 1)
    assert column(kennel, "Dogs", "born").value_range == "2029-01-03..2030-07-11"
    assert column(kennel, "Dogs", "breed_ref").examples == ("whippet",)
    assert column(kennel, "breeds", "breed_key").examples == ("whippet",), "a value of two lines is no example"
    assert column(kennel, "Dogs", "traits").examples == ()
    assert source.notes == ()
    assert source.digest != without.digest, "what is read with values is another input"
    assert kennel.path.read_text("utf-8") == KENNEL_DUMP
